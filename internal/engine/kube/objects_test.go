package kube

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// newOvnFip returns an OvnFip whose network and pod we applied; the rest was set by Kube-OVN or not at all.
func newOvnFip() *OvnFip {
	return &OvnFip{
		ObjectMeta: metav1.ObjectMeta{
			Name: "acme-web-www", Labels: ownership.ManagedLabels("acme-web"),
			ManagedFields: []metav1.ManagedFieldsEntry{
				managedFieldsEntry(ownership.FieldManager, applyOperation, "", `{"f:metadata":{"f:labels":{"f:app.kubernetes.io/managed-by":{},"f:kube-dc.com/vpc":{}}},
				"f:spec":{"f:ovnEip":{},"f:v4Ip":{}}}`),
			},
		},
		Spec: kubeovn.OvnFipSpec{OvnEip: "eip-acme-web-www", Addresses: kubeovn.Addresses{V4Ip: "10.0.0.7"}, Vpc: "wrong"},
	}
}

func TestOvnFipIsReplacedWhenWhatWeSaidIsAnother(t *testing.T) {
	for name, k := range map[string]struct {
		kind    intent.Kind
		spec    kubeovn.OvnFipSpec
		another bool
	}{
		"another pod": {
			intent.OvnFip,
			kubeovn.OvnFipSpec{OvnEip: "eip-acme-web-www", Addresses: kubeovn.Addresses{V4Ip: "10.0.0.8"}},
			true,
		},
		"the same": {
			intent.OvnFip,
			kubeovn.OvnFipSpec{OvnEip: "eip-acme-web-www", Addresses: kubeovn.Addresses{V4Ip: "10.0.0.7"}},
			false,
		},
		"a field that we never set": {
			intent.OvnFip,
			kubeovn.OvnFipSpec{OvnEip: "eip-acme-web-www", Addresses: kubeovn.Addresses{V4Ip: "10.0.0.7"}, Vpc: "acme-web"},
			false,
		},
		"a field less": {intent.OvnFip, kubeovn.OvnFipSpec{OvnEip: "eip-acme-web-www"}, false},
		"a kind that can change": {
			intent.Subnet,
			kubeovn.OvnFipSpec{OvnEip: "eip-acme-web-www", Addresses: kubeovn.Addresses{V4Ip: "10.0.0.8"}},
			false,
		},
	} {
		after := intent.NewObject(intent.Meta{Labels: ownership.ManagedLabels("acme-web")}, k.spec)
		got, err := needsReplacement(objectChange{
			Key:   intent.ObjectKey{Kind: k.kind, Name: "acme-web-www"},
			After: &after,
		}, newOvnFip())
		if err != nil || got != k.another {
			t.Errorf("%s: another %t, %v; want %t", name, got, err, k.another)
		}
	}
}

func TestObjectIsOurs(t *testing.T) {
	for name, k := range map[string]struct {
		change func(*OvnFip)
		ours   bool
	}{
		"with our labels":       {func(*OvnFip) {}, true},
		"with labels of others": {func(f *OvnFip) { f.ManagedFields = nil }, false},
		"robbed of its labels":  {func(f *OvnFip) { f.Labels = nil }, true},
		"somebody else's":       {func(f *OvnFip) { f.Labels, f.ManagedFields = nil, nil }, false},
		"another shard's":       {func(f *OvnFip) { f.Labels[ownership.ShardLabel] = "acme-shop" }, false},
		"only patched by us": {func(f *OvnFip) {
			f.Labels = nil
			f.ManagedFields[0].Operation = updateOperation
		}, false},
		"managed by another one": {func(f *OvnFip) {
			f.Labels[ownership.ManagedByLabel] = "helm"
			f.ManagedFields = nil
		}, false},
	} {
		f := newOvnFip()
		k.change(f)
		if got := NewObjects(nil, "acme-web").isOurs(f); got != k.ours {
			t.Errorf("an object %s is ours: %t", name, got)
		}
	}
}

func TestNothingGoesBeforeWhatNeedsIt(t *testing.T) {
	key := func(kind intent.Kind, name string) intent.ObjectKey { return intent.ObjectKey{Kind: kind, Name: name} }
	for _, k := range []struct {
		object client.Object
		want   []intent.ObjectKey
	}{
		{
			&OvnFip{Spec: kubeovn.OvnFipSpec{OvnEip: "e", Vpc: "v"}},
			[]intent.ObjectKey{key(intent.OvnEip, "e"), key(intent.Vpc, "v")},
		},
		{&OvnSnatRule{Spec: kubeovn.OvnSnatRuleSpec{OvnEip: "e", VpcSubnet: "s"}}, []intent.ObjectKey{
			key(intent.OvnEip, "e"), key(intent.Subnet, "s"), key(intent.Vpc, "v"),
		}},
		{&Subnet{Spec: kubeovn.SubnetSpec{Vpc: "v"}}, []intent.ObjectKey{key(intent.Vpc, "v")}},
		{
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "v"}},
			[]intent.ObjectKey{key(intent.Subnet, "v-default"), key(intent.Vpc, "v")},
		},
		{&Vpc{
			ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: kubeovn.VpcSpec{ExtraExternalSubnets: []string{"a"}},
			Status: kubeovn.VpcStatus{ExtraExternalSubnets: []string{"b"}},
		}, []intent.ObjectKey{key(intent.OvnEip, "v-a"), key(intent.OvnEip, "v-b")}},
		{&OvnEip{}, nil},
	} {
		if got := dependenciesOf(k.object, "v"); !slices.Equal(got, k.want) {
			t.Errorf("%T needs %v, want %v", k.object, got, k.want)
		}
	}
}

func TestOriginIsReadAsItIsWritten(t *testing.T) {
	for _, r := range []state.Ref{
		{Kind: "FIp", Namespace: "acme-web", Name: "www"},
		{Kind: "ExternalNetwork", Name: "cloud"},
	} {
		if got := parseOrigin(formatOrigin(r)); got != r {
			t.Errorf("got %v, want %v", got, r)
		}
	}
	if got := parseOrigin("somebody"); got != (state.Ref{}) {
		t.Errorf("got %v, want nobody", got)
	}
}

func TestCopyIsEqualAndApart(t *testing.T) {
	from := newOwnedSubnet()
	to := from.DeepCopyObject().(*Subnet)
	if before, after := intent.CanonicalJSON(from), intent.CanonicalJSON(to); before != after {
		t.Errorf("got %s, want %s", after, before)
	}
	to.Spec.Namespaces[0], to.Labels["team"] = "changed", "changed"
	if from.Spec.Namespaces[0] == "changed" || from.Labels["team"] == "changed" {
		t.Error("the copy shares memory with the original")
	}
	list := &SubnetList{Items: []Subnet{*from}}
	if got := list.DeepCopyObject().(*SubnetList); len(got.Items) != 1 || got.Items[0].Name != from.Name {
		t.Errorf("got %v", got)
	}
}
