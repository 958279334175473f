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

// storm is the scripts of all tenants, and the cluster on which they can be played again and again.
type storm struct {
	*harness.Cluster
	api     dynamic.Interface
	seed    uint64
	tenants []*tenant
	ledger  *ledger
	ctl     *harness.Controller
	limit   time.Duration // to settle
}

func newStorm(t *testing.T, c *harness.Cluster, ctl *harness.Controller, tenants, changes int) *storm {
	t.Helper()
	api, err := dynamic.NewForConfig(c.RESTConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	s := &storm{Cluster: c, api: api, seed: stormSeed(t), ledger: followAddresses(t, c), ctl: ctl, limit: 2 * time.Minute}
	for number := range tenants {
		s.tenants = append(s.tenants, script(s.seed, number, changes))
	}
	if err := c.Objects.Namespace(harness.Within(t, time.Minute), stormOrganization); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *storm) size() (steps int) {
	for _, n := range s.tenants {
		steps += len(n.steps)
	}
	return steps
}

// play plays the storm once and returns what is left. What disturbs it, if anything, lets the steps through as it likes.
func (s *storm) play(t *testing.T, disturb func(t *testing.T, pass func(steps int))) (left remains, took time.Duration) {
	t.Helper()
	begin := time.Now()
	gate := make(chan struct{}, s.size())
	pass := func(steps int) {
		for range steps {
			select {
			case gate <- struct{}{}:
			default: // all may go already
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for _, n := range s.tenants {
		group.Go(func() error { return s.act(ctx, n, gate) })
	}
	if disturb != nil {
		disturb(t, pass)
	}
	pass(s.size())
	if err := group.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, s.leaving(t))
	}
	acted := time.Since(begin)
	s.settle(t)
	t.Logf("the changes took %s, and it was settled after %s", acted.Round(time.Millisecond), time.Since(begin).Round(time.Millisecond))
	return collectRemains(t, s.Cluster), time.Since(begin)
}

// leaving is the objects that are deleted and not gone, with what Kube-OVN last said of each, for a person to read.
func (s *storm) leaving(t *testing.T) string {
	t.Helper()
	said, err := os.ReadFile(s.Log("kube-ovn-controller"))
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, o := range stormObjects(t, s.Cluster) {
		if o.GetDeletionTimestamp() == nil {
			continue
		}
		out = append(out, fmt.Sprintf("%s %s/%s leaves since %s, held by %v", o.GetKind(), o.GetNamespace(), o.GetName(), o.GetDeletionTimestamp(), o.GetFinalizers()))
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

// act plays the part of one tenant.
func (s *storm) act(ctx context.Context, n *tenant, gate <-chan struct{}) error {
	for _, step := range n.steps {
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-time.After(step.pause):
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := s.do(ctx, step); err != nil {
			return fmt.Errorf("%s: %w", step.ref(), err)
		}
	}
	return nil
}

// do makes one change, as stubbornly as a person would: it waits for what is in the way, and tries again when the API server
// is not there.
func (s *storm) do(ctx context.Context, step step) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		err := s.try(ctx, step)
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

func (s *storm) try(ctx context.Context, step step) error {
	r := step.ref()
	if step.remove {
		err := s.api.Resource(harness.ResourceOf(r)).Namespace(r.Namespace).Delete(ctx, r.Name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
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

// settle waits until everything is in force that should be there in the end, everything else is gone, and nobody writes any
// more.
func (s *storm) settle(t *testing.T) {
	t.Helper()
	limit := time.Now().Add(s.limit)
	for _, n := range s.tenants {
		if !n.stays {
			s.expect(t, limit, harness.Ref("Project", stormOrganization, n.project()), false)
			continue
		}
		s.expect(t, limit, harness.Ref("Project", stormOrganization, n.project()), true)
		for _, kind := range []struct {
			kind  string
			names []string
		}{{"EIp", eipNames}, {"FIp", fipNames}} {
			for _, name := range kind.names {
				s.expect(t, limit, harness.Ref(kind.kind, n.namespace(), name), n.last[kind.kind+" "+name])
			}
		}
	}
	s.quiet(harness.Within(t, 30*time.Second), t)
}

// quiet waits until nobody writes for longer than the controller ever waits before it looks again.
func (s *storm) quiet(ctx context.Context, t *testing.T) {
	t.Helper()
	const while = 2500 * time.Millisecond
	for {
		before, events := s.ctl.CountWrites(t), s.ledger.count()
		select {
		case <-time.After(while):
		case <-ctx.Done():
			t.Errorf("it never becomes quiet: %.0f writes and %d events in the last %s", s.ctl.CountWrites(t)-before, s.ledger.count()-events, while)
			return
		}
		if s.ctl.CountWrites(t) == before && s.ledger.count() == events {
			return
		}
	}
}

// expect waits until an object is in force, or gone. When the time is up, one last look tells what else is not as it should be.
func (s *storm) expect(t *testing.T, limit time.Time, r manifest.Ref, there bool) {
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

// clear deletes all projects and waits until nothing is left of them.
func (s *storm) clear(t *testing.T) {
	t.Helper()
	for _, n := range s.tenants {
		if err := s.do(harness.Within(t, time.Minute), step{remove: true, object: n.steps[0].object}); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range s.tenants {
		s.expect(t, time.Now().Add(s.limit), harness.Ref("Project", stormOrganization, n.project()), false)
	}
	if left := collectRemains(t, s.Cluster); len(left) > 0 {
		t.Errorf("all projects are deleted, and there is still\n%s", strings.Join(left, "\n"))
	}
}
