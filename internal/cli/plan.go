package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/compile"
	"github.com/sallyport/sallyport/internal/controller"
	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/kube"
	"github.com/sallyport/sallyport/internal/snapshot"
	"github.com/sallyport/sallyport/internal/state"
)

// errDrift is the end of a plan that is not empty, when that was asked for.
var errDrift = errors.New("the cluster differs from what is asked for")

// planOptions is the flags of plan.
type planOptions struct {
	files      []string
	kubeconfig string
	exitCode   bool
	timeout    time.Duration
	config     controller.Config
}

func planCommand() *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use:   "plan [NAMESPACE...]",
		Short: "Print what would be written, without writing",
		Long: `Print what would be written for projects, without writing anything.

Against a cluster, that is the difference between what is asked for and what
is there: drift. Nothing printed means that there is none.

With -f, manifests are read instead of a cluster: Projects, EIps, FIps, and the
Subnets or ExternalNetworks that they refer to. What would be in force in the
end is printed; addresses that Kube-OVN would give are the lowest free ones.

Each line begins with + for what comes, - for what goes, ~ for what changes,
and ends with the object that asked for it.`,
		Example: `  sallyport plan                       all projects of the cluster
  sallyport plan acme-production       one of them, by its namespace
  sallyport plan -f manifests/         what these files would give`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(o.files) > 0 {
				return o.fromFiles(cmd.Context(), cmd.OutOrStdout(), args)
			}
			return o.fromCluster(cmd.Context(), cmd.OutOrStdout(), args)
		},
	}
	f := cmd.Flags()
	f.StringSliceVarP(&o.files, "filename", "f", nil, "file or directory of manifests to read instead of a cluster")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file; empty: $KUBECONFIG, or the usual place")
	f.StringSliceVar(&o.config.Northbound.Endpoints, "nb-address", nil, "servers of the OVN northbound database; empty: $OVN_NB_DB")
	f.StringVar(&o.config.Northbound.CertFile, "nb-cert", "", "certificate for ssl: servers")
	f.StringVar(&o.config.Northbound.KeyFile, "nb-key", "", "its key")
	f.StringVar(&o.config.Northbound.CAFile, "nb-ca", "", "certificate of the database's authority")
	f.Var(&o.config.Defaults.Return, "return-path", "as the controller has it")
	f.StringVar(&o.config.Defaults.DefaultEIpType, "default-eip-network-type", "", "as the controller has it")
	f.StringVar(&o.config.Defaults.DefaultFIpType, "default-fip-network-type", "", "as the controller has it")
	f.StringVar(&o.config.Defaults.DefaultServiceType, "default-service-network-type", "", "as the controller has it")
	f.DurationVar(&o.config.Defaults.Liveness, "egress-liveness", 200*time.Millisecond, "as the controller has it")
	f.Var(&o.config.Defaults.Classless, "classless-services", "as the controller has it")
	f.StringVar(&o.config.Defaults.ManagementNetwork, "management-network-type", "", "as the controller has it")
	f.Var(&o.config.Defaults.Inside, "cluster-prefixes", "as the controller has it")
	f.BoolVar(&o.exitCode, "exit-code", false, "end with 1 when something would be written")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second, "how long reading the cluster may take")
	return cmd
}

// fromFiles prints what manifests would give in the end.
func (o planOptions) fromFiles(ctx context.Context, out io.Writer, chosen []string) error {
	var objects []client.Object
	for _, path := range o.files {
		read, err := kube.Files(path)
		if err != nil {
			return err
		}
		objects = append(objects, read...)
	}
	shards := kube.ShardsOf(objects)
	if len(shards) == 0 {
		return errors.New("the files have no Project, EIp or FIp; name a file or directory that has")
	}
	for _, shard := range shards {
		if len(chosen) > 0 && !slices.Contains(chosen, shard) {
			continue
		}
		inputs := kube.NewInputs(shard)
		inputs.AddAll(objects)
		plans, verdicts, err := rehearse(ctx, inputs.World(o.config.Defaults, nil, time.Time{}))
		if err != nil {
			return err
		}
		printPlan(out, shard, plans, verdicts)
	}
	return nil
}

func rehearse(ctx context.Context, world *snapshot.World) ([]state.Plan, []intent.Verdict, error) {
	want, verdicts := compile.Rehearse(*world)
	if err := want.Err(); err != nil {
		return nil, nil, err
	}
	objects, err := state.Prepare(ctx, state.Blank[intent.ObjectKey, intent.Object]("Kubernetes objects"), want.Objects)
	if err != nil {
		return nil, nil, err
	}
	elements, err := state.Prepare(ctx, state.Blank[intent.ElementKey, intent.Element]("elements of the Vpc's lists"), want.Elements)
	if err != nil {
		return nil, nil, err
	}
	rows, err := state.Prepare(ctx, state.Blank[intent.RowKey, intent.Row]("rows of the OVN northbound database"), want.Rows)
	return []state.Plan{objects, elements, rows}, verdicts, err
}

// fromCluster prints the difference between what is asked for and what is there.
func (o planOptions) fromCluster(ctx context.Context, out io.Writer, chosen []string) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	var err error
	if o.config.Kubernetes, err = kube.Config(o.kubeconfig); err != nil {
		return fmt.Errorf("find the cluster: %w; give --kubeconfig, or -f to read files", err)
	}
	if db := os.Getenv("OVN_NB_DB"); len(o.config.Northbound.Endpoints) == 0 && db != "" {
		o.config.Northbound.Endpoints = strings.Split(db, ",")
	}
	if len(o.config.Northbound.Endpoints) == 0 {
		return errors.New("where is the OVN northbound database? give --nb-address, or set OVN_NB_DB")
	}
	look, err := controller.Look(ctx, o.config, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer look.NB.Close()
	if len(chosen) == 0 {
		if chosen, err = look.Cluster.Shards(ctx); err != nil {
			return err
		}
	}
	drift := false
	for _, shard := range chosen {
		work, err := look.Prepare(ctx, shard)
		if err != nil {
			return fmt.Errorf("%s: %w", shard, err)
		}
		drift = printPlan(out, shard, work.Plans, work.Verdicts) || drift
	}
	if drift && o.exitCode {
		return errDrift
	}
	return nil
}

// printPlan prints what a shard needs and what is wrong with its objects. It says whether anything would be written.
func printPlan(out io.Writer, shard string, plans []state.Plan, verdicts []intent.Verdict) bool {
	text := state.Print(plans...)
	var wrong strings.Builder
	for _, v := range verdicts {
		for _, f := range []intent.Finding{v.Accepted, v.Resolved, v.Waiting, v.Held} {
			if !f.OK() {
				fmt.Fprintf(&wrong, "  ! %s: %s: %s\n", v.Object, f.Reason, f.Message)
			}
		}
	}
	if text == "" && wrong.Len() == 0 {
		return false
	}
	fmt.Fprintf(out, "project %s\n%s%s", shard, indent(text), wrong.String())
	return text != ""
}

func indent(text string) string {
	if text == "" {
		return ""
	}
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}
