package address

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// TestCore2DeletionLeavesNothing deletes projects with addresses in any order, in pieces and by namespace, and checks
// that nothing remains: in OVN's databases, in Kubernetes, and in Kube-OVN's address counts. It uses a separate lab, so
// that no other test changes the dumps.
func TestCore2DeletionLeavesNothing(t *testing.T) {
	item := coreItems.Item(t, 2)
	c := startOwnSallyport(t, "deletion")
	size, rounds := show.ChooseSize(50, 6), show.ChooseSize(3, 2)
	before := waitQuiet(t, c)
	var times []time.Duration
	for round := range rounds {
		seed := uint64(time.Now().UnixNano())
		t.Logf("round %d: seed %d", round+1, seed)
		d := &deletionRun{Cluster: c, rng: rand.New(rand.NewPCG(seed, 0))}
		d.createProjects(t, size)
		// control: there is something that could remain
		if in := len(takeSnapshot(t, c).extraLines(before)); in < size*50 {
			t.Fatalf("%d lines came with %d projects; wanted more", in, size)
		}
		times = append(times, d.deleteAll(t)...)
		t.Logf("round %d: the dumps are equal %d ms after the last project is gone", round+1,
			waitRestored(t, c, before).Milliseconds())
	}
	slices.Sort(times)
	item.AddFigure("%d × %d projects with 5 EIps and 5 FIps each: NB, SB and Kubernetes as before; a project is gone after %.1f s (median), %.1f s (worst)",
		rounds, size, times[len(times)/2].Seconds(), times[len(times)-1].Seconds())
}

// startOwnSallyport starts a separate lab with Sallyport.
func startOwnSallyport(t *testing.T, name string) *harness.Cluster {
	t.Helper()
	b := harness.LoadTopology(t, "shared.yaml")
	b.Nodes, b.Gateways = 2, 2
	return harness.StartSallyport(t, name, b)
}

// deletionRun is a set of projects that are created and deleted.
type deletionRun struct {
	*harness.Cluster
	rng      *rand.Rand
	projects []*projectCase

	mu        sync.Mutex
	durations []time.Duration
}

// projectCase is one project and how it is deleted.
type projectCase struct {
	organization, name string
	objects            []manifest.Ref // its EIps and FIps
	deletionMode       string
}

func (s *projectCase) namespace() string { return s.organization + "-" + s.name }

func (s *projectCase) projectRef() manifest.Ref {
	return harness.ObjectRef("Project", s.organization, s.name)
}

// deletionModes are the ways to delete a project: its objects one by one together with those of all others, before or
// after the project itself; as a whole; after its namespace was deleted and recreated; with its organization; or before
// it was complete.
var deletionModes = []string{"pieces", "whole", "namespace", "organization", "haste"}

// createProjects creates projects with their addresses, and waits until all are Programmed.
func (d *deletionRun) createProjects(t *testing.T, size int) {
	t.Helper()
	group, ctx := errgroup.WithContext(harness.Within(t, 10*time.Minute))
	group.SetLimit(8)
	for i := range size {
		s := &projectCase{
			organization: "keep",
			name:         fmt.Sprintf("p%02d", i),
			deletionMode: deletionModes[i%len(deletionModes)],
		}
		if s.deletionMode == "organization" {
			s.organization = "doomed"
		}
		d.projects = append(d.projects, s)
	}
	for _, name := range []string{"keep", "doomed"} {
		if err := d.Objects.Namespace(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range d.projects {
		if s.deletionMode == "haste" {
			continue // created while the others are deleted
		}
		group.Go(func() error { return d.createComplete(ctx, s, i) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// createComplete creates a project with its addresses and waits until all are Programmed.
func (d *deletionRun) createComplete(ctx context.Context, s *projectCase, number int) error {
	err := d.createProject(ctx, s, number)
	if err == nil {
		err = d.createAddresses(ctx, s, number)
	}
	for _, o := range append(slices.Clone(s.objects), s.projectRef()) {
		if err == nil {
			err = d.Objects.Wait(ctx, o, manifest.True("Programmed"))
		}
	}
	return err
}

// createProject creates a project.
func (d *deletionRun) createProject(ctx context.Context, s *projectCase, number int) error {
	network := []string{"cloud", "public", "third"}[number%3]
	return d.Objects.Apply(ctx, fmt.Sprintf(`
apiVersion: kube-dc.com/v1
kind: Project
metadata: {name: %s, namespace: %s}
spec: {cidrBlock: 10.0.0.0/24, egressNetworkType: %s}`, s.name, s.organization, network))
}

// createAddresses creates a project's addresses as soon as its namespace exists: on its default network and on others,
// used and unused, named and created by FIps, for plain addresses and for a pod.
func (d *deletionRun) createAddresses(ctx context.Context, s *projectCase, number int) error {
	if err := d.Objects.Wait(ctx, harness.ObjectRef("ServiceAccount", s.namespace(), "default"),
		manifest.Exists); err != nil {
		return err
	}
	if number%10 == 0 {
		if err := d.createPod(ctx, s.namespace()); err != nil {
			return err
		}
	}
	last := "ipAddress: 10.0.0.15"
	if number%10 == 0 {
		last = "podTarget: {podName: web}"
	}
	text := addressManifests(s.namespace(), last, fmt.Sprintf("100.65.200.%d", number+1))
	objects, err := manifest.Parse(text)
	if err != nil {
		return err
	}
	for _, o := range objects {
		s.objects = append(s.objects, harness.ObjectRef(o.GetKind(), o.GetNamespace(), o.GetName()))
	}
	return d.Objects.ApplyAll(ctx, text)
}

func addressManifests(namespace, lastTarget, wanted string) string {
	var out strings.Builder
	for _, o := range []struct{ kind, name, spec string }{
		{"EIp", "any", ""},
		{"EIp", "cloud", "externalNetworkType: cloud"},
		{"EIp", "public", "externalNetworkType: public"},
		{"EIp", "third", "externalNetwork: ext-third"},
		{"EIp", "wanted", "externalNetworkType: cloud, ipAddress: " + wanted},
		{"FIp", "a", "eip: any, ipAddress: 10.0.0.11"},
		{"FIp", "b", "eip: public, ipAddress: 10.0.0.12"},
		{"FIp", "c", "externalNetworkType: public, ipAddress: 10.0.0.13"},
		{"FIp", "d", "ipAddress: 10.0.0.14"},
		{"FIp", "e", "eip: wanted, " + lastTarget},
	} {
		fmt.Fprintf(&out, "---\n{apiVersion: kube-dc.com/v1, kind: %s, metadata: {name: %s, namespace: %s}, spec: {%s}}\n", o.kind, o.name, namespace, o.spec)
	}
	return out.String()
}

// createPod creates a pod after Kube-OVN has assigned the subnet of the namespace; before that the pod would get
// another subnet.
func (d *deletionRun) createPod(ctx context.Context, namespace string) error {
	err := d.Objects.Wait(ctx, harness.ObjectRef("Namespace", "", namespace), func(o *unstructured.Unstructured) bool {
		return o != nil && o.GetAnnotations()["ovn.kubernetes.io/logical_switch"] == namespace+"-default"
	})
	if err != nil {
		return err
	}
	return d.Objects.Apply(ctx, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: %s}
spec: {terminationGracePeriodSeconds: 0, containers: [{name: main, image: lab/idle}]}`, namespace))
}
