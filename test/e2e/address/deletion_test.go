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

// Projects with addresses are deleted in any order, in pieces and by namespace, and nothing of them is left: not in OVN's
// databases, not in Kubernetes, not in Kube-OVN's count of addresses. In a lab of its own: nobody else changes the dumps.
func TestCore2DeletionLeavesNothing(t *testing.T) {
	item := core.Item(t, 2)
	c := alone(t, "deletion")
	size, rounds := show.Size(50, 6), show.Size(3, 2)
	before := quiet(t, c)
	var times []time.Duration
	for round := range rounds {
		seed := uint64(time.Now().UnixNano())
		t.Logf("round %d: seed %d", round+1, seed)
		d := &deletion{Cluster: c, chance: rand.New(rand.NewPCG(seed, 0))}
		d.build(t, size)
		if in := len(snapshot(t, c).minus(before)); in < size*50 { // control: there is something that could be left
			t.Fatalf("%d lines came with %d projects; wanted more", in, size)
		}
		times = append(times, d.demolish(t)...)
		t.Logf("round %d: the dumps are equal %d ms after the last project is gone", round+1, settles(t, c, before, 30*time.Second).Milliseconds())
	}
	slices.Sort(times)
	item.Figure("%d × %d projects with 5 EIps and 5 FIps each: NB, SB and Kubernetes as before; a project is gone after %.1f s (median), %.1f s (worst)",
		rounds, size, times[len(times)/2].Seconds(), times[len(times)-1].Seconds())
}

// alone is a lab with Sallyport in it that nobody else uses.
func alone(t *testing.T, name string) *harness.Cluster {
	t.Helper()
	b := harness.LoadTopology(t, "shared.yaml")
	b.Nodes, b.Gateways = 2, 2
	return harness.StartSallyport(t, name, b)
}

// deletion is projects that come and go.
type deletion struct {
	*harness.Cluster
	chance *rand.Rand
	sites  []*site

	mu    sync.Mutex
	times []time.Duration
}

// site is one project, and how it goes.
type site struct {
	organization, name string
	objects            []manifest.Ref // its EIps and FIps
	way                string
}

func (s *site) namespace() string { return s.organization + "-" + s.name }

func (s *site) project() manifest.Ref { return harness.Ref("Project", s.organization, s.name) }

// ways are the ways in which a project goes: its objects one by one with those of all others, and then or before itself; as
// a whole; after its namespace was deleted and came back; with its organization; or before it was ever complete.
var ways = []string{"pieces", "whole", "namespace", "organization", "haste"}

// build makes projects with their addresses, and waits until all are in force.
func (d *deletion) build(t *testing.T, size int) {
	t.Helper()
	group, ctx := errgroup.WithContext(harness.Within(t, 10*time.Minute))
	group.SetLimit(8)
	for i := range size {
		s := &site{organization: "keep", name: fmt.Sprintf("p%02d", i), way: ways[i%len(ways)]}
		if s.way == "organization" {
			s.organization = "doomed"
		}
		d.sites = append(d.sites, s)
	}
	for _, name := range []string{"keep", "doomed"} {
		if err := d.Objects.Namespace(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range d.sites {
		if s.way == "haste" {
			continue // it comes when the others go
		}
		group.Go(func() error { return d.complete(ctx, s, i) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// complete makes a project with its addresses and waits until all are in force.
func (d *deletion) complete(ctx context.Context, s *site, number int) error {
	err := d.found(ctx, s, number)
	if err == nil {
		err = d.furnish(ctx, s, number)
	}
	for _, o := range append(slices.Clone(s.objects), s.project()) {
		if err == nil {
			err = d.Objects.Wait(ctx, o, manifest.True("Programmed"))
		}
	}
	return err
}

// found makes a project.
func (d *deletion) found(ctx context.Context, s *site, number int) error {
	network := []string{"cloud", "public", "third"}[number%3]
	return d.Objects.Apply(ctx, fmt.Sprintf(`
apiVersion: kube-dc.com/v1
kind: Project
metadata: {name: %s, namespace: %s}
spec: {cidrBlock: 10.0.0.0/24, egressNetworkType: %s}`, s.name, s.organization, network))
}

// furnish makes a project's addresses as soon as it has its namespace: on its default network and on others, for FIps and for
// nobody, named and made by FIps for themselves, for plain addresses and for a pod.
func (d *deletion) furnish(ctx context.Context, s *site, number int) error {
	if err := d.Objects.Wait(ctx, harness.Ref("ServiceAccount", s.namespace(), "default"), manifest.Exists); err != nil {
		return err
	}
	if number%10 == 0 {
		if err := d.makePod(ctx, s.namespace()); err != nil {
			return err
		}
	}
	last := "ipAddress: 10.0.0.15"
	if number%10 == 0 {
		last = "podTarget: {podName: web}"
	}
	text := addresses(s.namespace(), last, fmt.Sprintf("100.65.200.%d", number+1))
	objects, err := manifest.Parse(text)
	if err != nil {
		return err
	}
	for _, o := range objects {
		s.objects = append(s.objects, harness.Ref(o.GetKind(), o.GetNamespace(), o.GetName()))
	}
	return d.Objects.ApplyAll(ctx, text)
}

func addresses(namespace, lastTarget, wanted string) string {
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

// makePod makes a pod once Kube-OVN has said which subnet the namespace has: before that it would land in another one.
func (d *deletion) makePod(ctx context.Context, namespace string) error {
	err := d.Objects.Wait(ctx, harness.Ref("Namespace", "", namespace), func(o *unstructured.Unstructured) bool {
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
