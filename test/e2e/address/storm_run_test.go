package address

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// churnRun is the scripts of all tenants, and the cluster on which they run repeatedly.
type churnRun struct {
	*harness.Cluster
	api           dynamic.Interface
	seed          uint64
	tenants       []*tenantScript
	allocations   *allocationLog
	controller    *harness.Controller
	settleTimeout time.Duration
}

func newChurnRun(t *testing.T, c *harness.Cluster, ctl *harness.Controller, tenants, changes int) *churnRun {
	t.Helper()
	api, err := dynamic.NewForConfig(c.RESTConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	s := &churnRun{
		Cluster:       c,
		api:           api,
		seed:          churnSeed(t),
		allocations:   watchAllocations(t, c),
		controller:    ctl,
		settleTimeout: harness.Patience,
	}
	for number := range tenants {
		s.tenants = append(s.tenants, generateScript(s.seed, number, changes))
	}
	if err := c.Objects.Namespace(harness.Within(t, harness.Patience), churnOrganization); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *churnRun) countSteps() (steps int) {
	for _, n := range s.tenants {
		steps += len(n.steps)
	}
	return steps
}

// runScripts runs all scripts once and returns the final state. The optional disturb function controls how many steps
// may pass.
func (s *churnRun) runScripts(t *testing.T, disturb func(t *testing.T, pass func(steps int))) (left stateLines,
	took time.Duration,
) {
	t.Helper()
	begin := time.Now()
	gate := make(chan struct{}, s.countSteps())
	pass := func(steps int) {
		for range steps {
			select {
			case gate <- struct{}{}:
			default: // all steps may already pass
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for _, n := range s.tenants {
		group.Go(func() error { return s.runTenant(ctx, n, gate) })
	}
	if disturb != nil {
		disturb(t, pass)
	}
	pass(s.countSteps())
	if err := group.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, s.describeStuckDeletions(t))
	}
	acted := time.Since(begin)
	s.waitConverged(t)
	t.Logf("the changes took %s, and it was settled after %s", acted.Round(time.Millisecond),
		time.Since(begin).Round(time.Millisecond))
	return collectState(t, s.Cluster), time.Since(begin)
}

// describeStuckDeletions formats the objects whose deletion is pending, with Kube-OVN's last log line about each.
func (s *churnRun) describeStuckDeletions(t *testing.T) string {
	t.Helper()
	said, err := os.ReadFile(s.Log("kube-ovn-controller"))
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, o := range listProjectObjects(t, s.Cluster) {
		if o.GetDeletionTimestamp() == nil {
			continue
		}
		out = append(out, fmt.Sprintf("%s %s/%s leaves since %s, held by %v", o.GetKind(), o.GetNamespace(),
			o.GetName(), o.GetDeletionTimestamp(), o.GetFinalizers()))
		var lines []string
		for line := range strings.Lines(string(said)) {
			if strings.Contains(line, o.GetName()) {
				lines = append(lines, "  "+strings.TrimSpace(line))
			}
		}
		out = append(out, lines[max(0, len(lines)-8):]...)
	}
	return strings.Join(out, "\n")
}

// runTenant runs the script of one tenant.
func (s *churnRun) runTenant(ctx context.Context, n *tenantScript, gate <-chan struct{}) error {
	for _, step := range n.steps {
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-time.After(step.delay):
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := s.applyStepWithRetry(ctx, step); err != nil {
			return fmt.Errorf("%s: %w", step.objectRef(), err)
		}
	}
	return nil
}

// applyStepWithRetry makes one change as persistently as a user would: it waits for conflicts to disappear, and retries
// while the API server is down.
func (s *churnRun) applyStepWithRetry(ctx context.Context, step step) error {
	ctx, cancel := context.WithTimeout(ctx, harness.Patience)
	defer cancel()
	for {
		err := s.applyStep(ctx, step)
		if err == nil || apierrors.IsInvalid(errors.Unwrap(err)) || apierrors.IsInvalid(err) {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

func (s *churnRun) applyStep(ctx context.Context, step step) error {
	r := step.objectRef()
	if step.isDelete {
		err := s.api.Resource(harness.ResourceForRef(r)).Namespace(r.Namespace).Delete(ctx, r.Name,
			metav1.DeleteOptions{})
		// an API server that has just started does not know the kind yet
		if apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
			return nil
		}
		return err
	}
	now, err := s.Objects.Get(ctx, r)
	if err != nil {
		return err
	}
	if now != nil && now.GetDeletionTimestamp() != nil {
		if err := s.Objects.Wait(ctx, r, manifest.Gone); err != nil {
			return err
		}
	}
	return s.Objects.ApplyObject(ctx, step.object)
}

// waitConverged waits until all objects of the final state are Programmed, all others are gone, and nothing is written
// any more.
func (s *churnRun) waitConverged(t *testing.T) {
	t.Helper()
	limit := time.Now().Add(s.settleTimeout)
	for _, n := range s.tenants {
		if !n.remainsAtEnd {
			s.waitForState(t, limit, harness.ObjectRef("Project", churnOrganization, n.projectName()), false)
			continue
		}
		s.waitForState(t, limit, harness.ObjectRef("Project", churnOrganization, n.projectName()), true)
		for _, kind := range []struct {
			kind  string
			names []string
		}{{"EIp", eipNames}, {"FIp", fipNames}} {
			for _, name := range kind.names {
				s.waitForState(t, limit, harness.ObjectRef(kind.kind, n.namespace(), name),
					n.expectedAtEnd[kind.kind+" "+name])
			}
		}
	}
	s.waitNoWrites(harness.Within(t, harness.Patience), t)
}

// waitNoWrites waits until there was no write for longer than the controller's longest delay.
func (s *churnRun) waitNoWrites(ctx context.Context, t *testing.T) {
	t.Helper()
	const while = 2500 * time.Millisecond
	for {
		before, events := s.controller.CountWrites(t), s.allocations.eventCount()
		select {
		case <-time.After(while):
		case <-ctx.Done():
			t.Errorf("it never becomes quiet: %.0f writes and %d events in the last %s",
				s.controller.CountWrites(t)-before, s.allocations.eventCount()-events, while)
			return
		}
		if s.controller.CountWrites(t) == before && s.allocations.eventCount() == events {
			return
		}
	}
}

// waitForState waits until an object is Programmed or gone. At the timeout it reports everything else that is wrong.
func (s *churnRun) waitForState(t *testing.T, limit time.Time, r manifest.Ref, there bool) {
	t.Helper()
	ctx := harness.Within(t, max(time.Until(limit), 5*time.Second))
	holds := manifest.Gone
	if there {
		holds = func(o *unstructured.Unstructured) bool {
			if !manifest.True("Programmed")(o) || o.GetDeletionTimestamp() != nil {
				return false
			}
			seen, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
			return seen == o.GetGeneration()
		}
	}
	if err := s.Objects.Wait(ctx, r, holds); err != nil {
		t.Errorf("the storm of seed %d does not settle: %v", s.seed, err)
	}
}

// deleteProjects deletes all projects and waits until nothing of them remains.
func (s *churnRun) deleteProjects(t *testing.T) {
	t.Helper()
	for _, n := range s.tenants {
		if err := s.applyStepWithRetry(harness.Within(t, harness.Patience),
			step{isDelete: true, object: n.steps[0].object}); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range s.tenants {
		s.waitForState(t, time.Now().Add(s.settleTimeout),
			harness.ObjectRef("Project", churnOrganization, n.projectName()), false)
	}
	if left := collectState(t, s.Cluster); len(left) > 0 {
		t.Errorf("all projects are deleted, and there is still\n%s", strings.Join(left, "\n"))
	}
}
