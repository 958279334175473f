package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sallyport/sallyport/internal/controller"
	"github.com/sallyport/sallyport/internal/kube"
	"github.com/sallyport/sallyport/internal/observer"
	"github.com/sallyport/sallyport/internal/survey"
)

// access is how a command reaches a cluster: its API server, OVN's databases, and what the controller there was told.
type access struct {
	kubeconfig, context string
	file                string // a survey that was taken before
	timeout             time.Duration
	config              controller.Config
	flags               *pflag.FlagSet
}

// asTheController is what help says of the controller's own settings.
const asTheController = "as the controller has it; not given: as its Deployment says"

// add adds the flags to a command. Those for the controller's settings are not in its help: they are found in the cluster.
func (a *access) add(cmd *cobra.Command) {
	a.flags = cmd.Flags()
	theirs := pflag.NewFlagSet("", pflag.ContinueOnError)
	a.config.Flags(theirs)
	theirs.VisitAll(func(f *pflag.Flag) { f.Usage, f.Hidden = asTheController, true })
	for name, usage := range map[string]string{
		"nb-address": "servers of the OVN northbound database; not given: $OVN_NB_DB, or those that Kube-OVN has",
		"sb-address": "servers of the OVN southbound database; not given: $OVN_SB_DB, or those that Kube-OVN has",
		"nb-cert":    "certificate for ssl: servers", "nb-key": "its key", "nb-ca": "certificate of the databases' authority",
	} {
		theirs.Lookup(name).Usage, theirs.Lookup(name).Hidden = usage, false
	}
	a.flags.AddFlagSet(theirs)
	a.flags.StringVar(&a.kubeconfig, "kubeconfig", "", "kubeconfig file; empty: $KUBECONFIG, or the usual place")
	a.flags.StringVar(&a.context, "context", "", "context of the kubeconfig; empty: the one in force")
	a.flags.StringVar(&a.file, "survey", "", "file with a survey that was taken before, instead of a cluster")
	a.flags.DurationVar(&a.timeout, "timeout", time.Minute, "how long reading the cluster may take")
}

// survey takes a survey of the cluster, or reads one from a file.
func (a *access) survey(ctx context.Context, scope observer.Scope) (*survey.Survey, error) {
	if a.file != "" {
		return a.read()
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	o, err := a.observer(ctx)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	return o.Survey(ctx, scope), nil
}

// shards compiles shards of the cluster and compares them with what is there, or reads that from a file.
func (a *access) shards(ctx context.Context, scope observer.Scope) ([]survey.Shard, error) {
	if a.file != "" {
		s, err := a.read()
		if err != nil {
			return nil, err
		}
		return slices.DeleteFunc(s.Shards, func(shard survey.Shard) bool { return !scope.All && !slices.Contains(scope.Shards, shard.Name) }), nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	o, err := a.observer(ctx)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	return o.Shards(ctx, scope)
}

func (a *access) read() (*survey.Survey, error) {
	file, err := os.Open(a.file)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	s, err := readSurvey(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", a.file, err)
	}
	return s, nil
}

// observer is an observer of the cluster. Close it.
func (a *access) observer(ctx context.Context) (*observer.Observer, error) {
	config, name, err := kube.ConfigOf(a.kubeconfig, a.context)
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w; give --kubeconfig, or --survey with a survey that was taken before", err)
	}
	a.config.Kubernetes = config
	found, err := kube.Find(ctx, config)
	if err != nil {
		return nil, err
	}
	if err := a.complete(found); err != nil {
		return nil, err
	}
	if nb := &a.config.Northbound; nb.Secret() && nb.CertFile == "" && found.Secret.Name != "" {
		// Who may not read them is told that they are missing.
		nb.Secrets, _ = kube.Certificates(ctx, config, found.Secret)
	}
	a.config.ShareCertificates()
	return observer.Open(observer.Config{Cluster: cmp.Or(name, "in the cluster"), Controller: a.config})
}

// complete fills in what was not given: from the environment, and from what was found in the cluster.
func (a *access) complete(found kube.Found) error {
	for _, db := range []struct {
		to          *[]string
		environment string
		found       []string
	}{
		{&a.config.Northbound.Endpoints, "OVN_NB_DB", found.Northbound}, {&a.config.Southbound.Endpoints, "OVN_SB_DB", found.Southbound},
	} {
		if text := os.Getenv(db.environment); len(*db.to) == 0 && text != "" {
			*db.to = strings.Split(text, ",")
		}
		if len(*db.to) == 0 {
			*db.to = db.found
		}
	}
	var there controller.Config
	theirs := pflag.NewFlagSet("the controller's Deployment", pflag.ContinueOnError)
	theirs.ParseErrorsAllowlist.UnknownFlags = true
	there.Flags(theirs)
	if err := theirs.Parse(found.Arguments); err != nil {
		return fmt.Errorf("read the arguments of the controller's Deployment: %w", err)
	}
	var wrong error
	theirs.Visit(func(f *pflag.Flag) {
		if strings.HasPrefix(f.Name, "nb-") || f.Name == "sb-address" || a.flags.Changed(f.Name) {
			return // certificates are files of its pod
		}
		if err := a.flags.Lookup(f.Name).Value.Set(f.Value.String()); err != nil {
			wrong = fmt.Errorf("--%s of the controller's Deployment: %w", f.Name, err)
		}
	})
	if len(a.config.Northbound.Endpoints) == 0 {
		a.config.Northbound.Endpoints = there.Northbound.Endpoints
	}
	if len(a.config.Southbound.Endpoints) == 0 {
		a.config.Southbound.Endpoints = there.Southbound.Endpoints
	}
	return wrong
}
