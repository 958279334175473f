package selftest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/insight/preflight"
	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/status"
)

// Names of checks.
const (
	removal     = "Removal"
	earlierRuns = "Earlier runs"
)

// foundRun is a run of which something is left.
type foundRun struct {
	id    string
	until time.Time // the run has ended by then; zero: not known
}

// Clean removes what all runs have left, including those that are still going on.
func (t *Tester) Clean(ctx context.Context) []preflight.Result {
	t.ShowProgress("looking for runs")
	found, err := t.findRuns(ctx)
	if err != nil {
		return []preflight.Result{failRemoval(removal, err)}
	}
	var ids []string
	for _, f := range found {
		ids = append(ids, f.id)
	}
	return t.remove(ctx, removal, ids)
}

// removeEarlierRuns removes what runs have left that were killed.
func (r *run) removeEarlierRuns(ctx context.Context) {
	found, err := r.findRuns(ctx)
	if err != nil {
		r.add(failRemoval(earlierRuns, err))
		return
	}
	var ended, active []string
	for _, f := range found {
		if f.until.After(r.Now()) {
			active = append(active, f.id)
		} else {
			ended = append(ended, f.id)
		}
	}
	if len(active) > 0 {
		r.add(preflight.Result{
			Check: earlierRuns, State: preflight.Warning, Code: "AnotherRun", Next: "if they are not: sallyport check --clean",
			Seen: "may still be going on: " + humanize.JoinLimited(active, maxShown),
		})
	}
	if len(ended) > 0 {
		for _, result := range r.remove(ctx, earlierRuns, ended) {
			r.add(result)
		}
	}
}

// findRuns returns the runs of which something is left.
func (t *Tester) findRuns(ctx context.Context) (out []foundRun, err error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	labelled := client.HasLabels{ownership.CheckRunLabel}
	namespaces, err := t.listRoots(ctx, &corev1.NamespaceList{}, labelled)
	if err != nil {
		return nil, err
	}
	egressIPs, err := t.listRoots(ctx, &ovnv1.EgressIPList{}, labelled)
	for _, o := range append(namespaces, egressIPs...) {
		id := o.GetLabels()[ownership.CheckRunLabel]
		if slices.ContainsFunc(out, func(f foundRun) bool { return f.id == id }) {
			continue
		}
		until, _ := time.Parse(time.RFC3339, o.GetAnnotations()[ownership.CheckUntilAnnotation])
		out = append(out, foundRun{id, until})
	}
	return out, err
}

// remove removes the objects of runs, in an order in which nothing waits for something that is still used, and waits until
// they are gone.
func (t *Tester) remove(ctx context.Context, check string, ids []string) []preflight.Result {
	t.ShowProgress("removing objects")
	ctx, cancel := context.WithTimeout(ctx, removalTimeout)
	defer cancel()
	removed, begun := 0, t.Now()
	for _, list := range []func(context.Context, string) ([]client.Object, error){
		t.listEgressIPs, t.listContents, t.listProjects, t.listNamespaces,
	} {
		gone, left, err := t.removeAll(ctx, ids, list)
		if len(left) > 0 && !apierrors.IsForbidden(err) {
			return []preflight.Result{reportRest(check, left)}
		}
		if err != nil {
			return []preflight.Result{failRemoval(check, err)}
		}
		removed += gone
	}
	seen := "nothing to remove"
	if removed > 0 {
		seen = fmt.Sprintf("%d objects removed in %s", removed, t.Now().Sub(begun).Round(100*time.Millisecond))
	}
	return []preflight.Result{{Check: check, State: preflight.OK, Seen: seen}}
}

// removeAll deletes the listed objects of runs until none is listed, and returns how many were deleted. When the time is
// over, it returns what is left.
func (t *Tester) removeAll(ctx context.Context, ids []string, list func(context.Context, string) ([]client.Object, error),
) (removed int, left []client.Object, err error) {
	for {
		found, err := listEach(ctx, ids, list)
		if err == nil {
			if left = found; len(left) == 0 {
				return removed, nil, nil
			}
			var deleted int
			deleted, err = t.deleteEach(ctx, left)
			removed += deleted
		}
		if apierrors.IsForbidden(err) || !pause(ctx) {
			return removed, left, err
		}
	}
}

// listEach lists the objects of several runs.
func listEach(ctx context.Context, ids []string, list func(context.Context, string) ([]client.Object, error),
) (out []client.Object, err error) {
	for _, id := range ids {
		objects, err := list(ctx, id)
		if err != nil {
			return nil, err
		}
		out = append(out, objects...)
	}
	return out, nil
}

// deleteEach deletes the objects that are not being deleted yet, and returns how many.
func (t *Tester) deleteEach(ctx context.Context, objects []client.Object) (deleted int, err error) {
	for _, o := range objects {
		if o.GetDeletionTimestamp() != nil {
			continue
		}
		if err := t.API.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
			return deleted, err
		}
		deleted++
	}
	return deleted, nil
}

// ofRun selects the objects of a run.
func ofRun(id string) client.MatchingLabels {
	return client.MatchingLabels{ownership.CheckRunLabel: id}
}

func (t *Tester) listEgressIPs(ctx context.Context, id string) ([]client.Object, error) {
	return t.listRoots(ctx, &ovnv1.EgressIPList{}, ofRun(id))
}

// listContents lists the objects in the namespaces of the Projects.
func (t *Tester) listContents(ctx context.Context, id string) (out []client.Object, err error) {
	projects, err := t.listProjects(ctx, id)
	for _, p := range projects {
		namespace := client.InNamespace(p.GetNamespace() + "-" + p.GetName())
		for _, list := range []client.ObjectList{&corev1.ServiceList{}, &kubedcv1.FIpList{}, &corev1.PodList{}} {
			objects, listErr := t.list(ctx, list, ofRun(id), namespace)
			out, err = append(out, objects...), errors.Join(err, listErr)
		}
	}
	return out, err
}

func (t *Tester) listProjects(ctx context.Context, id string) ([]client.Object, error) {
	return t.list(ctx, &kubedcv1.ProjectList{}, ofRun(id), client.InNamespace(ownership.CheckPrefix+id))
}

func (t *Tester) listNamespaces(ctx context.Context, id string) ([]client.Object, error) {
	return t.listRoots(ctx, &corev1.NamespaceList{}, ofRun(id))
}

// listRoots lists namespaces or EgressIPs of runs. Everything else of a run is found by its namespace: users who may write
// somewhere else can't make their objects look like those of a run.
func (t *Tester) listRoots(ctx context.Context, list client.ObjectList, of client.ListOption) ([]client.Object, error) {
	objects, err := t.list(ctx, list, of)
	return slices.DeleteFunc(objects, func(o client.Object) bool {
		return o.GetName() != ownership.CheckPrefix+o.GetLabels()[ownership.CheckRunLabel]
	}), err
}

// list lists objects.
func (t *Tester) list(ctx context.Context, list client.ObjectList, options ...client.ListOption) (out []client.Object, err error) {
	if err := t.API.List(ctx, list, options...); err != nil {
		return nil, err
	}
	objects, err := meta.ExtractList(list)
	for _, o := range objects {
		out = append(out, o.(client.Object))
	}
	return out, err
}

// failRemoval reports that nothing could be removed.
func failRemoval(check string, err error) preflight.Result {
	return preflight.Result{
		Check: check, State: preflight.Failed, Code: "NotRemoved", Seen: err.Error(),
		Next: "check your permissions, and run: sallyport check --clean",
	}
}

// reportRest reports objects that are still being deleted, and what they wait for.
func reportRest(check string, left []client.Object) preflight.Result {
	var names []string
	for _, o := range left {
		name := describe(o)
		if o.GetNamespace() != "" {
			name += " in namespace " + o.GetNamespace()
		}
		for _, c := range conditionsOf(o) {
			if c.Type == status.ConditionDeletable && c.Status == metav1.ConditionFalse {
				name += " (" + c.Message + ")"
			}
		}
		names = append(names, name)
	}
	return preflight.Result{
		Check: check, State: preflight.Failed, Code: "NotRemoved",
		Seen: fmt.Sprintf("%d objects are not gone after %s: %s", len(left), removalTimeout,
			strings.TrimSpace(humanize.JoinLimited(names, maxShown))),
		Next: "sallyport status says whether the controller runs, which has to let them go; then: sallyport check --clean",
	}
}
