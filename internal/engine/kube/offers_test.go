package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/shard"
)

func offeredMeta(name, to string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{ownership.AdoptLabel: to}}
}

// Objects that an operator offers belong to the project when all of them are seen, and not before.
func TestOffersCountTogether(t *testing.T) {
	home := &corev1.Namespace{ObjectMeta: offeredMeta("acme-web", "acme-web")}
	home.Labels[ownership.AdoptCountLabel] = "3"
	eip := &kubedcv1.EIp{ObjectMeta: metav1.ObjectMeta{Namespace: "acme-web", Name: "web"}}
	all := []client.Object{
		home, &Vpc{ObjectMeta: offeredMeta("acme-web", "acme-web")},
		&OvnEip{ObjectMeta: offeredMeta("front", "acme-web")}, eip,
	}
	for n := range len(all) + 1 {
		in := NewInputs(shard.Named("acme-web"))
		in.AddAll(all[:n])
		whole := n == len(all)
		e := in.readKubeOVNState(nil)
		if got := in.readNamespace().Owned; got != whole {
			t.Errorf("%d of %d objects are seen: the namespace counts: %t", n, len(all), got)
		}
		if n > 1 && e.ForeignVpc == whole || n > 2 && e.OvnEips["front"].Owned != whole {
			t.Errorf("%d of %d objects are seen: Vpc of others %t, OvnEip ours %t", n, len(all), e.ForeignVpc, e.OvnEips["front"].Owned)
		}
		if len(in.ownedObjects) > 0 {
			t.Errorf("offered objects count as ours, and would be deleted: %v", in.ownedObjects)
		}
	}
	home.Labels[ownership.AdoptCountLabel] = "many"
	in := NewInputs(shard.Named("acme-web"))
	if in.AddAll(all); in.readNamespace().Owned {
		t.Error("a namespace with a count that is no number counts")
	}
}

// A label on a user's own object gives nothing away, and takes nothing.
func TestOffersAreBounded(t *testing.T) {
	managed := &OvnEip{ObjectMeta: offeredMeta("front", "evil-x")}
	managed.Labels[ownership.ManagedByLabel], managed.Labels[ownership.ShardLabel] = ownership.ManagedBy, "acme-web"
	AdoptByLabels(managed)
	elsewhere := &NetworkAttachmentDefinition{ObjectMeta: offeredMeta("default", "acme-web")}
	elsewhere.Namespace = "evil-x"
	for what, c := range map[string]struct {
		o    client.Object
		want string
	}{
		"to the own VPC":                 {&OvnEip{ObjectMeta: offeredMeta("front", "acme-web")}, "acme-web"},
		"of another Project":             {managed, ""},
		"in a namespace of another VPC":  {elsewhere, ""},
		"to Kube-OVN's VPC":              {&OvnEip{ObjectMeta: offeredMeta("front", "ovn-cluster")}, ""},
		"to the VPC of egress addresses": {&OvnEip{ObjectMeta: offeredMeta("front", ownership.EgressVpc)}, ""},
		"to none":                        {&OvnEip{ObjectMeta: offeredMeta("front", "")}, ""},
	} {
		if got := offeredShard(c.o); got != c.want {
			t.Errorf("%s: offered to %q", what, got)
		}
	}
}
