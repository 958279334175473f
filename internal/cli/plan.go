package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/compile"
	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/insight/collector"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// errDrift is returned for a plan that is not empty when --exit-code is set.
var errDrift = errors.New("the cluster differs from the desired state")

// planOptions holds the flags of plan.
type planOptions struct {
	access   clusterAccess
	files    []string
	exitCode bool
}

func planCommand() *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use:   "plan [NAMESPACE...]",
		Short: "Print the changes that the controller would make, without making them",
		Long: `Print the changes that the controller would make for projects, without making
them.

For a cluster, these are the differences between the desired state and the actual
state (drift). No output means no drift.

With -f, the command reads manifests instead of a cluster: Projects, EIps, FIps,
and the Subnets or ExternalNetworks that they refer to. It prints the final state
that the manifests lead to. For addresses that Kube-OVN would allocate, it assumes
the lowest free ones.

Each line starts with + (add), - (delete) or ~ (change) and ends with the object
that requires it.`,
		Example: `  sallyport plan                       # all projects of the cluster
  sallyport plan acme-production       # one project, by its namespace
  sallyport plan -f manifests/         # final state of these manifests`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(o.files) > 0 {
				return o.planFromFiles(cmd.Context(), cmd.OutOrStdout(), args)
			}
			return o.planFromCluster(cmd.Context(), cmd.OutOrStdout(), args)
		},
	}
	o.access.addFlags(cmd)
	f := cmd.Flags()
	// With -f there is no cluster to read the controller's settings from.
	f.VisitAll(func(f *pflag.Flag) { f.Hidden = false })
	f.StringSliceVarP(&o.files, "filename", "f", nil, "read manifests from this file or directory instead of a cluster")
	f.BoolVar(&o.exitCode, "exit-code", false, "exit with 1 if there are changes")
	return cmd
}

// planFromFiles prints the final state that manifests lead to.
func (o *planOptions) planFromFiles(ctx context.Context, out io.Writer, chosen []string) error {
	var objects []client.Object
	for _, path := range o.files {
		read, err := kube.ReadManifests(path)
		if err != nil {
			return err
		}
		objects = append(objects, read...)
	}
	shards := kube.ShardsOf(objects)
	if len(shards) == 0 {
		return errors.New("no Project, EIp or FIp in the manifests; set -f to a file or directory that contains one")
	}
	changes := false
	for _, name := range shards {
		if len(chosen) > 0 && !slices.Contains(chosen, name) {
			continue
		}
		inputs := kube.NewInputs(shard.Named(name))
		inputs.AddAll(objects)
		plans, verdicts, err := preparePlans(ctx, inputs.BuildSnapshot(o.access.config.Defaults, nil, time.Time{}))
		if err != nil {
			return err
		}
		changes = printPlan(out, clusterstate.EscapeControlChars(clusterstate.NewShard(name, plans, verdicts))) ||
			changes
	}
	if changes && o.exitCode {
		return errDrift
	}
	return nil
}

func preparePlans(ctx context.Context, world *snapshot.VpcInput) ([]state.Plan, []intent.Verdict, error) {
	want, verdicts := compile.Simulate(*world)
	if err := want.Err(); err != nil {
		return nil, nil, err
	}
	objects, err := state.PreparePlan(ctx, state.EmptyTarget[intent.ObjectKey, intent.Object]("Kubernetes objects"),
		want.Objects)
	if err != nil {
		return nil, nil, err
	}
	elements, err := state.PreparePlan(ctx,
		state.EmptyTarget[intent.VpcEntryKey, intent.VpcEntry]("entries of the Vpc's lists"), want.VpcEntries)
	if err != nil {
		return nil, nil, err
	}
	rows, err := state.PreparePlan(ctx, state.EmptyTarget[intent.RowKey,
		intent.Row]("rows of the OVN northbound database"), want.Rows)
	return []state.Plan{objects, elements, rows}, verdicts, err
}

// planFromCluster prints the difference between the desired and the actual state.
func (o *planOptions) planFromCluster(ctx context.Context, out io.Writer, chosen []string) error {
	shards, err := o.access.compareShards(ctx, collector.Scope{Shards: chosen, AllShards: len(chosen) == 0})
	if err != nil {
		return err
	}
	drift := false
	for _, s := range shards {
		if s.Problem != "" {
			return fmt.Errorf("%s: %s", s.Name, s.Problem)
		}
		drift = printPlan(out, s) || drift
	}
	if drift && o.exitCode {
		return errDrift
	}
	return nil
}

// printPlan prints the changes of a shard and the problems of its objects. It reports whether there are changes.
func printPlan(out io.Writer, shard clusterstate.Shard) bool {
	var text strings.Builder
	scope := ""
	for _, d := range shard.Differs {
		if d.Scope != scope {
			fmt.Fprintf(&text, "  %s\n", d.Scope)
			scope = d.Scope
		}
		fmt.Fprintf(&text, "    %s\n", d.Line)
	}
	for _, v := range shard.Verdicts {
		for _, f := range []intent.Finding{v.Accepted, v.Resolved, v.Waiting, v.Partly, v.Held} {
			if !f.OK() {
				fmt.Fprintf(&text, "  ! %s: %s: %s\n", v.Object, f.Reason, f.Message)
			}
		}
	}
	if text.Len() > 0 {
		fmt.Fprintf(out, "project %s\n%s", shard.Name, text.String())
	}
	return len(shard.Differs) > 0
}
