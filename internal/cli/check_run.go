package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/insight/selftest"
	"github.com/sallyport/sallyport/internal/insight/selftest/peer"
)

// selftestTimeout is the default of --timeout with --run.
const selftestTimeout = 5 * time.Minute

// maxCommandOutput limits what is read of the output of --outside-command.
const maxCommandOutput = 64 << 10

// selftestOptions holds the flags of check that are about the self-test.
type selftestOptions struct {
	run, clean, keep bool
	image, outside   string
	nodes            []string
}

func (o *selftestOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.run, "run", false, "test an installation with packets: create projects, pods and addresses, request them, and remove them")
	f.BoolVar(&o.clean, "clean", false, "remove what interrupted runs have left, and runs that are going on")
	f.BoolVar(&o.keep, "keep", false, "with --run: do not remove the objects, to look at them")
	f.StringVar(&o.image, "image", "", "with --run: image of the pods (default: that of the controller)")
	f.StringSliceVar(&o.nodes, "node", nil, "with --run: nodes that run the pods (default: two that can)")
	f.StringVar(&o.outside, "outside-command", "",
		"with --run: command that requests a URL from a host outside, such as \"ssh HOST curl\"; the URL is appended. No shell runs it")
	cmd.MarkFlagsMutuallyExclusive("run", "clean")
}

// checkFlags refuses flags that have no effect.
func (o *selftestOptions) checkFlags(cmd *cobra.Command) error {
	for _, name := range []string{"keep", "image", "node", "outside-command"} {
		if cmd.Flags().Changed(name) && !o.run {
			return fmt.Errorf("--%s needs --run", name)
		}
	}
	return nil
}

// runSelftest tests an installation, or removes what such tests have left.
func (o *checkOptions) runSelftest(cmd *cobra.Command) error {
	config, name, err := kube.LoadConfigContext(o.kubeconfig, o.context)
	if err != nil {
		return fmt.Errorf("load the kubeconfig: %w; set --kubeconfig", err)
	}
	tester, err := newTester(config)
	if err != nil {
		return err
	}
	done := func() {}
	tester.ShowProgress = func(doing string) {
		done()
		done = showProgress(cmd, doing)
	}
	report := checkReport{Cluster: name, Taken: time.Now().UTC()}
	if o.selftest.clean {
		report.Checks = tester.Clean(cmd.Context())
	} else {
		options, err := o.selftestSettings(cmd, tester.API)
		if err != nil {
			return err
		}
		report.Checks = tester.Run(cmd.Context(), options)
	}
	done()
	return o.printReport(cmd, report)
}

// selftestSettings returns the settings of a run.
func (o *checkOptions) selftestSettings(cmd *cobra.Command, api client.Client) (selftest.Options, error) {
	out := selftest.Options{
		Image: o.selftest.image, Nodes: o.selftest.nodes, Outside: strings.Fields(o.selftest.outside), Timeout: o.timeout,
		Keep: o.selftest.keep,
	}
	if !cmd.Flags().Changed("timeout") {
		out.Timeout = selftestTimeout
	}
	if out.Image != "" {
		return out, nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
	defer cancel()
	var err error
	if out.Image, err = kube.ReadControllerImage(ctx, api, o.installation.Controller); err != nil {
		return out, fmt.Errorf("find the image of the controller: %w; set --controller-namespace or --image", err)
	}
	return out, nil
}

// newTester returns a tester with the user's permissions.
func newTester(config *rest.Config) (*selftest.Tester, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // no client-side limit: the API server has priority and fairness
	api, err := client.New(config, client.Options{Scheme: kube.Scheme()})
	if err != nil {
		return nil, fmt.Errorf("connect to Kubernetes: %w", err)
	}
	pods, err := kube.NewPodDialer(config)
	if err != nil {
		return nil, err
	}
	return &selftest.Tester{
		API: api,
		Ask: func(ctx context.Context, pod client.ObjectKey, url string) (string, error) {
			return peer.Ask(ctx, func(ctx context.Context) (net.Conn, error) { return pods.Dial(ctx, pod, peer.ClientPort) }, url)
		},
		RunCommand: runOutside, NewID: newRunID, Now: time.Now,
	}, nil
}

// newRunID returns a random id, which becomes part of names.
func newRunID() string { return strings.ToLower(rand.Text()[:8]) }

// runOutside runs the user's command and returns what it prints.
func runOutside(ctx context.Context, argv []string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // the user asks for it
	cmd.WaitDelay = time.Second
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	text, readErr := io.ReadAll(io.LimitReader(out, maxCommandOutput))
	if err := errors.Join(cmd.Wait(), readErr); err != nil {
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(problems.String()))
	}
	return string(text), nil
}
