package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/compile"
	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/insight/collector"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Exit codes of plan, besides 0. They are those of terraform plan -detailed-exitcode.
const (
	exitMistakes = exitStatus(1) // files that would not work
	exitChanges  = exitStatus(2) // only with --exit-code
)

// planOptions holds the flags of plan.
type planOptions struct {
	access    clusterAccess
	output    outputFlags
	files     []string
	namespace string
	offline   bool
	deleting  bool
	exitCode  bool
}

func planCommand() *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use:   "plan [NAMESPACE...]",
		Short: "Print the changes that the controller would make, without making them",
		Long: `Print the changes that the controller would make for projects, without making
them.

Without -f, these are the differences between the desired state and the actual
state (drift).

With -f, the command adds manifests to the objects of the cluster, like kubectl
diff, and prints which objects would change, what the controller would write for
them in the end, and what is wrong with them. The API server checks each object in
a dry run, with all validations and policies; unknown and duplicate fields are
mistakes. Quotas, addresses in use and conflicts with other objects count. Objects
of kinds that do not concern Sallyport are ignored. Nothing is written. For
addresses that Kube-OVN would allocate, the lowest free ones are assumed. For
EgressIPs and NodePaths it prints the next step, not the final state.

With --delete, it prints what deleting the objects of the files would change.

With --offline, the manifests are the whole cluster: they must contain the
Projects and the Subnets or ExternalNetworks that others refer to.

Each line starts with + (add), - (delete) or ~ (change) and ends with the object
that requires it. Lines with ! are mistakes: objects that would not work.

Exit codes: 0; 1 for an error, or if an object of the files would not work; 2 with
--exit-code if there are changes.`,
		Example: `  sallyport plan                       # drift of all projects
  sallyport plan acme-production       # one project, by its namespace
  sallyport plan -f fip.yaml           # what kubectl apply -f fip.yaml would lead to
  helm template . | sallyport plan -f - --exit-code
  sallyport plan -f fip.yaml --delete  # what kubectl delete -f fip.yaml would lead to
  sallyport plan -f all/ --offline     # final state of these manifests, without a cluster`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.runPlan(cmd, args) },
	}
	o.access.addFlags(cmd)
	o.output.addFlag(cmd)
	f := cmd.Flags()
	f.StringSliceVarP(&o.files, "filename", "f", nil,
		"manifests: a file, a directory, or - for the standard input; can be set several times")
	f.StringVarP(&o.namespace, "namespace", "n", "", "namespace of objects in the files that name none (default: default)")
	f.BoolVar(&o.offline, "offline", false, "with -f, do not read a cluster: the manifests are all there is")
	f.BoolVar(&o.deleting, "delete", false, "with -f, plan the deletion of the objects")
	f.BoolVar(&o.exitCode, "exit-code", false, "exit with 2 if there are changes")
	return cmd
}

func (o *planOptions) runPlan(cmd *cobra.Command, chosen []string) error {
	if err := o.checkFlags(); err != nil {
		return err
	}
	var report planReport
	var err error
	switch {
	case len(o.files) == 0:
		report, err = o.planDrift(cmd, chosen)
	default:
		report, err = o.planFiles(cmd, chosen)
	}
	if err != nil {
		return err
	}
	if err := o.output.printResult(cmd, report, report.printText); err != nil {
		return err
	}
	switch {
	case report.hasMistakes():
		return exitMistakes
	case o.exitCode && report.hasChanges():
		return exitChanges
	default:
		return nil
	}
}

// checkFlags returns an error for flags that exclude each other.
func (o *planOptions) checkFlags() error {
	switch {
	case len(o.files) == 0 && (o.offline || o.deleting || o.namespace != ""):
		return errors.New("--offline, --delete and --namespace need -f")
	case o.offline && o.deleting:
		return errors.New("--delete needs a cluster; omit --offline")
	case len(o.files) > 0 && o.access.surveyPath != "":
		return errors.New("-f needs a cluster, or --offline; a survey has not all fields of the objects")
	default:
		return nil
	}
}

// planDrift returns the difference between the desired and the actual state.
func (o *planOptions) planDrift(cmd *cobra.Command, chosen []string) (planReport, error) {
	done := showProgress(cmd, "reading the cluster")
	shards, err := o.access.compareShards(cmd.Context(), collector.Scope{Shards: chosen, AllShards: len(chosen) == 0})
	done()
	if err != nil {
		return planReport{}, err
	}
	for _, name := range chosen {
		if !slices.ContainsFunc(shards, func(s clusterstate.Shard) bool { return s.Name == name && !isEmptyShard(s) }) {
			return planReport{}, o.noProjectError(cmd.Context(), name)
		}
	}
	return newPlanReport(shards, nil)
}

// isEmptyShard reports whether nothing is known under the name of a shard.
func isEmptyShard(s clusterstate.Shard) bool {
	return s.Problem == "" && len(s.Verdicts)+len(s.Wanted)+len(s.Differs) == 0
}

// noProjectError returns an error that suggests a similar name.
func (o *planOptions) noProjectError(ctx context.Context, name string) error {
	var names []string
	all, err := o.access.compareShards(ctx, collector.Scope{AllShards: true})
	for _, s := range all {
		names = append(names, s.Name)
	}
	if err != nil {
		names = nil // the name is wrong anyway
	}
	return fmt.Errorf("there is no project %s; use its namespace%s", humanize.QuoteName(name),
		humanize.SuggestName(name, names))
}

// planFiles returns what manifests lead to.
func (o *planOptions) planFiles(cmd *cobra.Command, chosen []string) (planReport, error) {
	manifests, err := kube.ReadManifests(o.files, cmd.InOrStdin(), o.chooseNamespace())
	if err != nil {
		return planReport{}, err
	}
	if len(manifests.Objects) == 0 && len(manifests.Mistakes) == 0 {
		return planReport{}, errors.New("no object that concerns Sallyport in the files; set -f to a file or directory " +
			"that contains one")
	}
	preview := &kube.ManifestPreview{}
	var shards []clusterstate.Shard
	if o.offline {
		shards, err = o.compileOffline(cmd.Context(), manifests.ClientObjects())
	} else {
		done := showProgress(cmd, "reading the cluster")
		preview, shards, err = o.previewFiles(cmd.Context(), manifests)
		done()
	}
	if err != nil {
		return planReport{}, err
	}
	preview.Mistakes = append(manifests.Mistakes, preview.Mistakes...)
	report, err := newPlanReport(slices.DeleteFunc(shards, func(s clusterstate.Shard) bool {
		return len(chosen) > 0 && !slices.Contains(chosen, s.Name)
	}), manifests)
	report.addPreview(manifests, preview)
	return clusterstate.EscapeControlChars(report), err
}

func (o *planOptions) chooseNamespace() string {
	if o.namespace != "" {
		return o.namespace
	}
	return "default"
}

// previewFiles asks the cluster what manifests lead to.
func (o *planOptions) previewFiles(ctx context.Context, m *kube.Manifests) (*kube.ManifestPreview,
	[]clusterstate.Shard, error,
) {
	ctx, cancel := context.WithTimeout(ctx, o.access.timeout)
	defer cancel()
	look, err := o.access.openObserver(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("%w; or use --offline to plan the files alone", err)
	}
	defer look.Close()
	return look.PreviewManifests(ctx, m, o.deleting)
}

// compileOffline returns the final state that manifests lead to in an empty cluster.
func (o *planOptions) compileOffline(ctx context.Context, objects []client.Object) ([]clusterstate.Shard, error) {
	var out []clusterstate.Shard
	for _, name := range kube.ShardsOf(objects) {
		inputs := kube.NewInputs(shard.Named(name))
		inputs.AddAll(objects)
		plans, verdicts, err := preparePlans(ctx, inputs.BuildSnapshot(o.access.config.Defaults, nil, time.Time{}))
		if err != nil {
			return nil, err
		}
		out = append(out, clusterstate.NewShard(name, plans, verdicts))
	}
	return clusterstate.EscapeControlChars(out), nil
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
