package kube

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// randomLabels returns labels from few keys and values, so that many selectors match.
func randomLabels(r *rand.Rand) map[string]string {
	out := map[string]string{}
	for range r.IntN(4) {
		out[fmt.Sprintf("k%d", r.IntN(4))] = fmt.Sprintf("v%d", r.IntN(3))
	}
	return out
}

// randomSelector returns a selector with each operator, or an empty one.
func randomSelector(r *rand.Rand) metav1.LabelSelector {
	out := metav1.LabelSelector{}
	if r.IntN(2) == 0 {
		out.MatchLabels = randomLabels(r)
	}
	operators := []metav1.LabelSelectorOperator{
		metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
	}
	for range r.IntN(3) {
		e := metav1.LabelSelectorRequirement{Key: fmt.Sprintf("k%d", r.IntN(4)), Operator: operators[r.IntN(4)]}
		if e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpNotIn {
			for range 1 + r.IntN(3) {
				e.Values = append(e.Values, fmt.Sprintf("v%d", r.IntN(3)))
			}
		}
		out.MatchExpressions = append(out.MatchExpressions, e)
	}
	return out
}

// indexedSelectors is an index, and the same selectors without one.
type indexedSelectors struct {
	index selectorIndex
	all   map[string]labels.Selector
}

// changeRandomly adds, replaces or deletes a selector.
func (x *indexedSelectors) changeRandomly(r *rand.Rand) {
	name := fmt.Sprintf("e%d", r.IntN(30))
	switch r.IntN(8) {
	case 0, 1:
		x.index.delete(name)
		delete(x.all, name)
		return
	case 2:
		x.all[name] = labels.Nothing()
	default:
		s := randomSelector(r)
		x.all[name], _ = metav1.LabelSelectorAsSelector(&s)
	}
	x.index.set(name, x.all[name])
}

// compare compares what matches labels, and returns how many do.
func (x *indexedSelectors) compare(t *testing.T, set labels.Set) int {
	t.Helper()
	var want []string
	for name, s := range x.all {
		if s.Matches(set) {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	if got := x.index.match(set); !slices.Equal(got, want) {
		t.Fatalf("labels %v match %v, want %v", set, got, want)
	}
	if got := x.index.matchesAny(set); got != (len(want) > 0) {
		t.Fatalf("labels %v match any: %v, want %v", set, got, want)
	}
	return len(want)
}

// The index finds what Kubernetes' selectors match, while selectors are added, changed and deleted.
func TestSelectorIndexMatchesLikeSelectors(t *testing.T) {
	found := 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		x := indexedSelectors{all: map[string]labels.Selector{}}
		for range 60 {
			x.changeRandomly(r)
			found += x.compare(t, randomLabels(r))
		}
		for name := range x.all {
			x.index.delete(name)
		}
		if x.index.size() != 0 || len(x.index.byTerm) != 0 {
			t.Fatalf("seed %d: the empty index has %d terms", seed, len(x.index.byTerm))
		}
	}
	if found < 10_000 {
		t.Errorf("only %d selectors matched", found)
	}
}

// A label that all selectors require does not make the index evaluate all of them if they require another one too.
func TestSelectorIndexTakesTheRarestTerm(t *testing.T) {
	index := &selectorIndex{}
	for i := range 1000 {
		s, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchLabels: map[string]string{
			"a-env": "prod", "team": fmt.Sprint(i), "z-managed": "true",
		}})
		if err != nil {
			t.Fatal(err)
		}
		index.set(fmt.Sprint(i), s)
	}
	for term, selectors := range index.byTerm {
		if len(selectors) > 2 {
			t.Errorf("%d selectors are evaluated for label %s=%s", len(selectors), term.key, term.value)
		}
	}
}

// egressRegistration stands for the events of EgressIPs.
type egressRegistration struct {
	toolscache.ResourceEventHandlerRegistration
	synced bool
}

func (r egressRegistration) HasSynced() bool { return r.synced }

func (c *Cluster) setEgressEvents(synced bool) {
	var registration toolscache.ResourceEventHandlerRegistration = egressRegistration{synced: synced}
	c.egressEvents.Store(&registration)
}

// The index is not used before it contains the EgressIPs that existed at the start: a run would remove what it does not
// find. Then it is used, and an EgressIP that changed since its last event is compared as it is in the cache.
func TestEgressIndexIsUsedWhenComplete(t *testing.T) {
	c := newFakeCluster(selectedPodsFixture()...)
	ns := &corev1.Namespace{ObjectMeta: metaIn("", "acme-prod")}
	count := func() int {
		by, err := c.selectingEgressIPs(t.Context(), ns)
		if err != nil {
			t.Fatal(err)
		}
		if c.isSelected(t.Context(), ns) != (len(by) > 0) {
			t.Errorf("%d EgressIPs select the namespace, and isSelected reports otherwise", len(by))
		}
		return len(by)
	}
	c.setEgressEvents(false)
	if count() != 1 {
		t.Error("before the first events, the EgressIP is not found")
	}
	c.setEgressEvents(true)
	if count() != 0 {
		t.Error("a complete index is not used")
	}
	all, err := c.listEgressIPs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := &eventMapper{cluster: c, enqueue: func(shard.Shard) {}}
	w.handleChange(t.Context(), nil, all[0])
	if count() != 1 {
		t.Error("an EgressIP with an event is not found")
	}
	w.handleChange(t.Context(), all[0], nil)
	if count() != 0 {
		t.Error("a deleted EgressIP is found")
	}
}

// randomEgressObjects returns namespaces of several VPCs, some with Projects, and EgressIPs.
func randomEgressObjects(r *rand.Rand) (out []client.Object) {
	for i := range 30 {
		name := fmt.Sprintf("org-p%d", i)
		ns := namespaceInSubnet([]string{name + "-default", kubeovn.ManagementSubnet, "foreign"}[r.IntN(3)], randomLabels(r))
		ns.Name = name
		out = append(out, ns)
		if r.IntN(2) == 0 {
			out = append(out, &kubedcv1.Project{ObjectMeta: metaIn("org", fmt.Sprintf("p%d", i))})
		}
	}
	for i := range 10 {
		out = append(out, &ovnv1.EgressIP{ObjectMeta: metaIn("", fmt.Sprintf("e%d", i)), Spec: ovnv1.EgressIPSpec{
			NamespaceSelector: randomSelector(r),
		}})
	}
	return out
}

// newIndexedCluster returns a cluster with the indexes that scopes of EgressIPs use.
func newIndexedCluster(objects ...client.Object) *Cluster {
	return &Cluster{indexed: true, reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&corev1.Namespace{}, labelIndex, indexByLabels).
		WithIndex(&kubedcv1.Project{}, projectIndex, func(o client.Object) []string {
			return []string{snapshot.ProjectShard(o.GetNamespace(), o.GetName())}
		}).Build()}
}

// The scope of an EgressIP is the same with indexes and without.
func TestEgressScopesAreTheSameWithIndexes(t *testing.T) {
	found := 0
	for seed := range uint64(40) {
		objects := randomEgressObjects(rand.New(rand.NewPCG(seed, 2)))
		plain, indexed := newFakeCluster(objects...), newIndexedCluster(objects...)
		all, err := plain.listEgressIPs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		together, err := plain.listEgressScopes(t.Context(), all)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			alone, err := indexed.listEgressScopes(t.Context(), []*ovnv1.EgressIP{e})
			if err != nil {
				t.Fatal(err)
			}
			want, got := sortScope(together[e.Name]), sortScope(alone[e.Name])
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: %v selects %v, want %v", seed, e.Spec.NamespaceSelector, got, want)
			}
			found += len(want.vpcs)
		}
	}
	if found < 500 {
		t.Errorf("only %d VPCs are selected", found)
	}
}

func sortScope(s egressScope) egressScope {
	slices.Sort(s.vpcs)
	slices.Sort(s.managementNamespaces)
	return s
}
