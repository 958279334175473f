package selftest_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/insight/preflight"
	"github.com/sallyport/sallyport/internal/insight/selftest"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/test/page"
)

func extract(t *testing.T, list client.ObjectList) (out []client.Object) {
	t.Helper()
	objects, err := meta.ExtractList(list)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		out = append(out, o.(client.Object))
	}
	return out
}

var options = selftest.Options{Image: "image", Timeout: 5 * time.Minute}

// testCases are clusters with one peculiarity each, by the name of the file with the report.
var testCases = map[string]struct {
	change  func(*world)
	options func(*selftest.Options)
}{
	"healthy":                 {},
	"outside":                 {options: func(o *selftest.Options) { o.Outside = []string{"curl", "-s"} }},
	"one-node":                {options: func(o *selftest.Options) { o.Nodes = []string{"node1"} }},
	"unknown-node":            {options: func(o *selftest.Options) { o.Nodes = []string{"node1", "node9"} }},
	"outside-without-command": {options: func(o *selftest.Options) { o.Outside = []string{"wget"} }},
	"no-network":              {change: func(w *world) { w.subnets = nil }},
	"no-node": {change: func(w *world) {
		for _, n := range w.nodes {
			n.Status.Conditions = nil
		}
	}},
	"restricted-and-isolated": {change: func(w *world) {
		w.networks = []kubedcv1alpha1.ExternalNetwork{
			newNetwork("public", kubedcv1alpha1.ExternalNetworkSpec{AllowedProjects: &metav1.LabelSelector{}}),
			newNetwork("cloud", kubedcv1alpha1.ExternalNetworkSpec{Isolation: kubedcv1alpha1.IsolateTenants}),
		}
	}},
	"no-assignable-node": {change: func(w *world) {
		for _, n := range w.nodes {
			n.Labels = nil
		}
	}},
	"controller-dead":  {change: func(w *world) { w.silent = true }},
	"pool-empty":       {change: func(w *world) { w.refused["FIp/network-1"] = "PoolExhausted" }},
	"quota":            {change: func(w *world) { w.refused["Service/network-0"] = "QuotaExceeded" }},
	"client-refused":   {change: func(w *world) { w.refused["Project/client-0"] = "NameTaken" }},
	"egressip-refused": {change: func(w *world) { w.refused["EgressIP/"+ownership.CheckPrefix+"run1"] = "NoMatchingNodeFound" }},
	"forbidden":        {change: func(w *world) { w.forbidden = "Pod" }},
	"no-image":         {change: func(w *world) { w.waiting = "ErrImagePull" }},
	"no-answer":        {change: func(w *world) { w.unanswered = ":8080" }},
	"wrong-server":     {change: func(w *world) { w.server = "another\x1b[2J" }},
	"wrong-source":     {change: func(w *world) { w.source = netip.MustParseAddr("10.213.77.2") }},
	"kept":             {options: func(o *selftest.Options) { o.Keep = true }},
}

func newNetwork(name string, spec kubedcv1alpha1.ExternalNetworkSpec) kubedcv1alpha1.ExternalNetwork {
	spec.Type, spec.Subnets, spec.Default = kubedcv1.NetworkType(name), []string{"ext-" + name}, name == "cloud"
	return kubedcv1alpha1.ExternalNetwork{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

// TestReports compares the reports with files. A run leaves nothing, unless it is told to or can't remove it.
func TestReports(t *testing.T) {
	for name, c := range testCases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, o := newWorld(), options
				if c.change != nil {
					c.change(w)
				}
				if c.options != nil {
					c.options(&o)
				}
				w.start()
				results := w.newTester("run1").Run(t.Context(), o)
				page.Check(t, "testdata/"+name+".txt", printResults(results))
				if left := w.listLeft(t); len(left) > 0 && !o.Keep && !w.silent {
					t.Errorf("left: %v", left)
				}
			})
		})
	}
}

func printResults(results []preflight.Result) string {
	var out strings.Builder
	for _, r := range results {
		fmt.Fprintf(&out, "%s | %s | %s | %s\n", r.Check, r.State, r.Code, r.Seen)
		if r.Next != "" {
			fmt.Fprintf(&out, "  → %s\n", r.Next)
		}
	}
	return out.String()
}

// countCreations returns how many objects a run creates.
func countCreations(t *testing.T) (n int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.start()
		w.newTester("run1").Run(t.Context(), options)
		n = w.creations
	})
	return n
}

// TestInterruptedRunsLeaveNothing interrupts runs at each creation. None reports a failure.
func TestInterruptedRunsLeaveNothing(t *testing.T) {
	for at := range countCreations(t) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			ctx, interrupt := context.WithCancel(t.Context())
			w.created = func(n int) {
				if n == at {
					interrupt()
				}
			}
			w.start()
			results := w.newTester("run1").Run(ctx, options)
			if left := w.listLeft(t); len(left) > 0 {
				t.Errorf("interrupted at creation %d: left %v", at, left)
			}
			if preflight.Worst(results) == preflight.Failed || !strings.Contains(printResults(results), "Interrupted") {
				t.Errorf("interrupted at creation %d:\n%s", at, printResults(results))
			}
		})
	}
}

// TestCleanRemovesWhatKilledRunsLeft kills runs at each creation, and removes what they left by Clean and by the next
// run. Neither touches objects of others that have the label.
func TestCleanRemovesWhatKilledRunsLeft(t *testing.T) {
	label := map[string]string{ownership.CheckRunLabel: "dead"}
	others := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "acme", Labels: label}},
		&kubedcv1.Project{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "server", Labels: label}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "acme-server", Name: "web", Labels: label}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ownership.CheckPrefix + "dead-server", Name: "unlabelled"}},
		&ovnv1.EgressIP{ObjectMeta: metav1.ObjectMeta{Name: "acme", Labels: label}},
	}
	for at := range countCreations(t) + 1 {
		for _, byNextRun := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.others = others
				w.start()
				killRun(t, w, at)
				if byNextRun {
					time.Sleep(time.Hour) //nolint:forbidigo // of a clock that jumps
					w.newTester("run2").Run(t.Context(), options)
				} else if results := w.newTester("").Clean(t.Context()); preflight.Worst(results) != preflight.OK {
					t.Error(printResults(results))
				}
				if left := w.listLeft(t); len(left) != len(others) {
					t.Errorf("killed at creation %d, by the next run %t: left %v", at, byNextRun, left)
				}
			})
		}
	}
}

// killRun runs a test that stops for ever before a creation, or before its removal.
func killRun(t *testing.T, w *world, at int) {
	t.Helper()
	killed := make(chan struct{})
	w.created = func(n int) {
		if n == at {
			close(killed)
			<-t.Context().Done()
		}
	}
	o := options
	o.Keep = true
	go func() {
		w.newTester("dead").Run(t.Context(), o)
		if at >= w.creations {
			close(killed)
		}
	}()
	<-killed
	w.created = nil
}

// TestRunsOfOthersAreNotRemoved begins a run while another is going on.
func TestRunsOfOthersAreNotRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.start()
		killRun(t, w, 5)
		before := w.listLeft(t)
		results := w.newTester("run2").Run(t.Context(), options)
		if !strings.Contains(printResults(results), "AnotherRun | may still be going on: dead") {
			t.Error(printResults(results))
		}
		if after := w.listLeft(t); !slices.Equal(after, before) {
			t.Errorf("left %v, and before %v", after, before)
		}
	})
}
