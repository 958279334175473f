package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/internal/kubeovn"
	"github.com/sallyport/sallyport/internal/ownership"
)

func inSubnet(subnets string, labels map[string]string) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "web", Labels: labels, Annotations: map[string]string{kubeovn.NamespaceSubnets: subnets},
	}}
	Claim(ns)
	return ns
}

// Every namespace has one shard that decides about it: the management VPC's, or its own.
func TestOneShardDecides(t *testing.T) {
	for what, c := range map[string]struct {
		namespace *corev1.Namespace
		managed   bool
	}{
		"in Kube-OVN's own Subnet":            {inSubnet("ovn-default", nil), true},
		"in that and in another":              {inSubnet("ovn-default,extra", nil), true},
		"in another and in that":              {inSubnet("extra,ovn-default", nil), false},
		"in none yet":                         {inSubnet("", nil), false},
		"a project's, before its own Subnet":  {inSubnet("ovn-default", ownership.Labels("web")), false},
		"somebody wears a label of another's": {inSubnet("ovn-default", ownership.Labels("other")), true},
	} {
		management, own := NewInputs(kubeovn.ManagementVpc), NewInputs("web")
		for _, in := range []*Inputs{management, own} {
			in.Add(c.namespace)
		}
		if management.decides("web") != c.managed || own.decides("web") == c.managed {
			t.Errorf("%s: the management VPC decides: %v, its own shard: %v", what, management.decides("web"), own.decides("web"))
		}
	}
}
