package kube

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// selectedPodsFixture returns a cluster with a project, a namespace of Kube-OVN's default VPC and one of another VPC.
// Each has pods that EgressIP mail selects, and pods that it does not select.
func selectedPodsFixture() []client.Object {
	own := namespaceInSubnet("acme-prod-default", ownership.ManagedLabels("acme-prod"))
	own.Name = "acme-prod"
	edge, other := namespaceInSubnet(kubeovn.ManagementSubnet, nil), namespaceInSubnet("foreign", nil)
	edge.Name, other.Name = "edge", "other"
	out := []client.Object{
		own, edge, other, &kubedcv1.Project{ObjectMeta: metaIn("acme", "prod")},
		&ovnv1.EgressIP{ObjectMeta: metaIn("", "mail"), Spec: ovnv1.EgressIPSpec{
			EgressIPs:   []string{"198.51.100.7"},
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "mail"}},
		}},
	}
	pod := func(namespace, name string, change func(*corev1.Pod)) {
		p := &corev1.Pod{ObjectMeta: metaIn(namespace, name)}
		p.Labels = map[string]string{"app": "mail"}
		if change != nil {
			change(p)
		}
		out = append(out, p)
	}
	for _, namespace := range []string{"acme-prod", "edge", "other"} {
		for i := range 3 {
			pod(namespace, fmt.Sprintf("mail-%d", 9-i), nil)
		}
		pod(namespace, "another", func(p *corev1.Pod) { p.Labels = nil })
		pod(namespace, "host", func(p *corev1.Pod) { p.Spec.HostNetwork = true })
		pod(namespace, "done", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	}
	return out
}

// Pods of projects and of the management VPC are served. All other selected pods are counted, and the first few are
// named.
func TestUnservedPodsAreFound(t *testing.T) {
	_, w, err := newFakeCluster(selectedPodsFixture()...).GatherEgress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := w.EgressIPs[0]
	if want := []string{"acme-prod", kubeovn.ManagementVpc}; !slices.Equal(got.Vpcs, want) {
		t.Errorf("VPCs %v, want %v", got.Vpcs, want)
	}
	if want := []string{"edge"}; !slices.Equal(got.ManagementNamespaces, want) {
		t.Errorf("namespaces of the management VPC %v, want %v", got.ManagementNamespaces, want)
	}
	if got.UnservedPods.Number != 3 || got.UnservedPods.String() != "other/mail-7, other/mail-8, other/mail-9" {
		t.Errorf("not served are %d: %s", got.UnservedPods.Number, got.UnservedPods)
	}
}

// An event of a selected pod enqueues the shard that decides about it: its VPC, or the shard of egress addresses, which
// reports that the pod is not served.
func TestSelectedPodsAreAskedFor(t *testing.T) {
	for namespace, want := range map[string]string{
		"acme-prod": "acme-prod",
		"edge":      kubeovn.ManagementVpc,
		"other":     ownership.EgressVpc,
	} {
		var asked []string
		w := &eventMapper{cluster: newFakeCluster(selectedPodsFixture()...), enqueue: func(of shard.Shard) {
			asked = append(asked, of.Name)
		}}
		w.handleSelectedPod(t.Context(), nil, &corev1.Pod{ObjectMeta: metaIn(namespace, "new")})
		if !slices.Equal(asked, []string{want}) {
			t.Errorf("a pod in %s: asked for %v, want %s", namespace, asked, want)
		}
	}
}

// A namespace on another overlay Subnet of the management VPC is served, and its pods are selected there. One on a Subnet
// with a VLAN is not.
func TestEgressOnOtherSubnets(t *testing.T) {
	for vlan, want := range map[string]struct {
		namespaces []string
		unserved   int
		subnets    []string
		pods       string
		asked      string
	}{
		"":      {[]string{"edge", "other"}, 0, []string{"gates"}, "[10.16.0.9 10.50.0.9]", kubeovn.ManagementVpc},
		"vlan7": {[]string{"edge"}, 3, nil, "[10.16.0.9]", ownership.EgressVpc},
	} {
		objects := selectedPodsFixture()
		subnet := &Subnet{ObjectMeta: metav1.ObjectMeta{Name: "gates"}}
		subnet.Spec.Vpc, subnet.Spec.Vlan, subnet.Spec.CIDRBlock = kubeovn.ManagementVpc, vlan, "10.50.0.0/24"
		for _, o := range objects {
			if ns, is := o.(*corev1.Namespace); is && ns.Name == "other" {
				ns.UID, ns.Annotations = "other", map[string]string{kubeovn.LogicalSwitchAnnotation: "gates,ovn-default"}
			}
		}
		cluster := newFakeCluster(append(objects, subnet)...)
		_, w, err := cluster.GatherEgress(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := w.EgressIPs[0]; !slices.Equal(got.ManagementNamespaces, want.namespaces) ||
			got.UnservedPods.Number != want.unserved {
			t.Errorf("VLAN %q: namespaces %v, not served %s", vlan, got.ManagementNamespaces, got.UnservedPods)
		}
		in, err := cluster.GatherVPC(t.Context(), kubeovn.ManagementVpc, snapshot.Quotas{}, []snapshot.PodPort{
			podPort("edge", "mail-9", kubeovn.ManagementSubnet, "10.16.0.9"),
			podPort("other", "mail-9", "gates", "10.50.0.9"),
		})
		if err != nil {
			t.Fatal(err)
		}
		selections, classified, _ := in.readSelections()
		if len(selections) != 1 || !slices.Equal(selections[0].Subnets, want.subnets) ||
			fmt.Sprint(selections[0].Pods) != want.pods || fmt.Sprint(classified) != want.pods {
			t.Errorf("VLAN %q: selected are %v, classified %v", vlan, selections, classified)
		}
		var asked []string
		m := &eventMapper{cluster: cluster, enqueue: func(of shard.Shard) { asked = append(asked, of.Name) }}
		m.handleSelectedPod(t.Context(), nil, &corev1.Pod{ObjectMeta: metaIn("other", "new")})
		if !slices.Equal(asked, []string{want.asked}) {
			t.Errorf("VLAN %q: a pod asks for %v, want %s", vlan, asked, want.asked)
		}
	}
}

// A Subnet can appear after its namespaces: they were not served before.
func TestNewPodSubnetIsAskedFor(t *testing.T) {
	subnet := func(vlan string) *Subnet {
		s := &Subnet{ObjectMeta: metav1.ObjectMeta{Name: "gates"}}
		s.Spec.Vpc, s.Spec.Vlan = kubeovn.ManagementVpc, vlan
		return s
	}
	for name, c := range map[string]struct {
		was, is client.Object
		want    bool
	}{
		"created": {nil, subnet(""), true}, "deleted": {subnet(""), nil, true}, "unchanged": {subnet(""), subnet(""), false},
	} {
		asked := map[string]bool{}
		w := &eventMapper{
			cluster: newFakeCluster(selectedPodsFixture()...), enqueue: func(of shard.Shard) { asked[of.Name] = true },
		}
		w.handleSubnet(t.Context(), c.was, c.is)
		if asked[kubeovn.ManagementVpc] != c.want || asked[ownership.EgressVpc] != c.want {
			t.Errorf("%s: asked for %v", name, asked)
		}
	}
}

// EgressIPs are read one by one as they are read with all others.
func TestGatherEgressIPs(t *testing.T) {
	objects := selectedPodsFixture()
	objects[2].SetLabels(map[string]string{"team": "other"})
	node := &corev1.Node{ObjectMeta: metaIn("", "gateway")}
	node.Labels = map[string]string{"zone": "a"}
	objects = append(objects, node, &corev1.Node{ObjectMeta: metaIn("", "worker")})
	for name, spec := range map[string]ovnv1.EgressIPSpec{
		"nodes":     {NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "a"}}},
		"namespace": {NamespaceSelector: metav1.LabelSelector{MatchLabels: map[string]string{"team": "other"}}},
		"nothing":   {NamespaceSelector: metav1.LabelSelector{MatchLabels: map[string]string{"team": "none"}}},
		"malformed": {PodSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Operator: "x"}}}},
	} {
		objects = append(objects, &ovnv1.EgressIP{ObjectMeta: metaIn("", name), Spec: spec})
	}
	cluster := newFakeCluster(objects...)
	_, w, err := cluster.GatherEgress(t.Context())
	if err != nil || len(w.EgressIPs) != 5 {
		t.Fatal(w, err)
	}
	for _, want := range w.EgressIPs {
		key := intent.ObjectKey{Kind: intent.EgressIP, Name: want.Name}
		objects, got, ok := cluster.GatherEgressIPs(t.Context(), []intent.ObjectKey{key})
		if !ok || len(objects) != 1 || objects[0].GetName() != want.Name || !reflect.DeepEqual(got, []snapshot.EgressIP{want}) {
			t.Errorf("%s is read as %+v, wanted %+v", want.Name, got, want)
		}
	}
	if _, _, ok := cluster.GatherEgressIPs(t.Context(), []intent.ObjectKey{{Kind: intent.EgressIP, Name: "gone"}}); ok {
		t.Error("an EgressIP is read that does not exist")
	}
}

// An event says which EgressIPs it concerns. If networks are restricted, an event of a namespace may be about anything.
func TestEgressEvents(t *testing.T) {
	restricted := &kubedcv1alpha1.ExternalNetwork{ObjectMeta: metaIn("", "public")}
	restricted.Spec.AllowedProjects = &metav1.LabelSelector{}
	open := &kubedcv1alpha1.ExternalNetwork{ObjectMeta: metaIn("", "public")}
	fixture := selectedPodsFixture()
	mail := fixture[4].(*ovnv1.EgressIP)
	mail.Spec.NamespaceSelector.MatchLabels = map[string]string{"team": "mail"}
	labelled := func(name string, with map[string]string) *corev1.Namespace {
		out := namespaceInSubnet("foreign", with)
		out.Name = name
		return out
	}
	selected := labelled("other", map[string]string{"team": "mail"})
	fixture[2] = selected
	moved := selected.DeepCopy()
	moved.Annotations = namespaceInSubnet("another", nil).Annotations
	fixture[0].SetLabels(labels.Merge(fixture[0].GetLabels(), map[string]string{"team": "mail"}))
	accepted := &kubedcv1.Project{ObjectMeta: metaIn("acme", "prod")}
	accepted.Status.Namespace = "acme-prod"
	organization := labelled("acme", map[string]string{"tier": "gold"})
	reported := mail.DeepCopy()
	reported.Status.Items = []ovnv1.EgressIPStatusItem{{Node: "gateway"}}
	pod := &corev1.Pod{ObjectMeta: metaIn("other", "new")}
	only, anything := []string{"EgressIP mail"}, []string{"anything"}
	released := func(address string) *OvnEip {
		out := &OvnEip{ObjectMeta: metaIn("", "released")}
		out.Status.V4Ip = address
		return out
	}
	for name, test := range map[string]struct {
		network *kubedcv1alpha1.ExternalNetwork
		was, is client.Object
		want    []string
	}{
		"EgressIP created":            {restricted, nil, mail, only},
		"EgressIP deleted":            {restricted, mail, nil, only},
		"status changed":              {restricted, mail, reported, only},
		"unserved pod":                {restricted, nil, pod, only},
		"namespace selected":          {open, labelled("other", nil), selected, only},
		"namespace not selected now":  {open, selected, labelled("other", nil), only},
		"namespace never selected":    {open, labelled("x", nil), labelled("x", map[string]string{"a": "b"}), nil},
		"namespace on another Subnet": {open, selected, moved, only},
		"project accepted":            {open, &kubedcv1.Project{ObjectMeta: metaIn("acme", "prod")}, accepted, anything},
		"project not accepted yet": {
			open, &kubedcv1.Project{ObjectMeta: metaIn("acme", "prod")},
			&kubedcv1.Project{ObjectMeta: metaIn("acme", "prod")}, nil,
		},
		"organization":                {open, labelled("acme", nil), organization, nil},
		"its address is released":     {open, released("198.51.100.7"), nil, anything},
		"another address is released": {open, released("198.51.100.8"), nil, nil},
		"restricted, namespace":       {restricted, labelled("other", nil), selected, anything},
		"restricted, never selected":  {restricted, labelled("x", nil), labelled("x", map[string]string{"a": "b"}), nil},
		"restricted, an organization": {restricted, labelled("acme", nil), organization, anything},
	} {
		var got []string
		w := &eventMapper{
			cluster: newFakeCluster(append(slices.Clone(fixture), test.network)...),
			enqueue: func(of shard.Shard) {
				if of == shard.Egress {
					got = append(got, "anything")
				}
			},
			enqueueObject: func(of shard.Shard, o intent.ObjectKey) {
				if of == shard.Egress && !slices.Contains(got, o.String()) {
					got = append(got, o.String())
				}
			},
		}
		for i, o := range []client.Object{test.was, test.is} {
			if o != nil {
				o.SetResourceVersion([]string{"1", "2"}[i])
			}
		}
		if w.handleChange(t.Context(), test.was, test.is); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, wanted %v", name, got, test.want)
		}
	}
}

// podPort returns the port of a pod on a switch.
func podPort(namespace, pod, subnet, address string) snapshot.PodPort {
	return snapshot.PodPort{
		Name: pod + "." + namespace, Namespace: namespace, Pod: pod, Subnet: subnet,
		Addresses: []netip.Addr{netip.MustParseAddr(address)},
	}
}

// The addresses of pods in the management VPC are those of their ports. A pod is classified if its namespace and, in a
// selected namespace, the pod itself are in the cache.
func TestManagementSelections(t *testing.T) {
	plain := namespaceInSubnet(kubeovn.ManagementSubnet, nil)
	plain.Name = "plain"
	objects := append(selectedPodsFixture(), plain)
	mail := objects[4].(*ovnv1.EgressIP)
	mail.Spec.NamespaceSelector = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "egress", Operator: metav1.LabelSelectorOpExists},
	}}
	objects[1].SetLabels(map[string]string{"egress": "mail"}) // edge
	for _, o := range objects {
		pod, is := o.(*corev1.Pod)
		if is && pod.Namespace == "edge" && pod.Name == "mail-8" { // claims the addresses of others
			pod.Annotations = map[string]string{kubeovn.IPAddressAnnotation: "10.16.0.30,10.16.0.40"}
		}
	}
	cluster := newFakeCluster(objects...)
	in, err := cluster.GatherVPC(t.Context(), kubeovn.ManagementVpc, snapshot.Quotas{}, []snapshot.PodPort{
		podPort("edge", "mail-9", kubeovn.ManagementSubnet, "10.16.0.9"),
		podPort("edge", "mail-8", kubeovn.ManagementSubnet, "10.16.0.8"),
		podPort("edge", "machine", kubeovn.ManagementSubnet, "10.16.0.40"), // of a virtual machine
		podPort("edge", "another", kubeovn.ManagementSubnet, "10.16.0.7"),
		podPort("edge", "done", kubeovn.ManagementSubnet, "10.16.0.6"),
		podPort("edge", "unknown", kubeovn.ManagementSubnet, "10.16.0.5"),
		podPort("edge", "mail-7", "second", "10.17.0.7"),
		podPort("plain", "victim", kubeovn.ManagementSubnet, "10.16.0.30"),
		podPort("new", "pod", kubeovn.ManagementSubnet, "10.16.0.50"),
	})
	if err != nil {
		t.Fatal(err)
	}
	selections, classified, _ := in.readSelections()
	if len(selections) != 1 || fmt.Sprint(selections[0].Pods) != "[10.16.0.8 10.16.0.9 10.16.0.40]" {
		t.Errorf("selected are %v", selections)
	}
	if got := fmt.Sprint(classified); got != "[10.16.0.7 10.16.0.8 10.16.0.9 10.16.0.30 10.16.0.40]" {
		t.Errorf("classified are %s", got)
	}
	if !cluster.isManagementInUse(t.Context()) {
		t.Error("events of the management VPC are ignored")
	}
}
