package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/shard"
)

func namespaceInSubnet(subnets string, labels map[string]string) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "web", Labels: labels, Annotations: map[string]string{kubeovn.LogicalSwitchAnnotation: subnets},
	}}
	AdoptByLabels(ns)
	return ns
}

// Exactly one shard decides about each namespace: the management VPC's, or its own.
func TestOneShardDecides(t *testing.T) {
	for what, c := range map[string]struct {
		namespace *corev1.Namespace
		managed   bool
	}{
		"in Kube-OVN's own Subnet": {namespaceInSubnet("ovn-default", nil), true},
		"in that and in another":   {namespaceInSubnet("ovn-default,extra", nil), true},
		"in another and in that":   {namespaceInSubnet("extra,ovn-default", nil), false},
		"in none yet":              {namespaceInSubnet("", nil), false},
		"a project's, before its own Subnet": {
			namespaceInSubnet("ovn-default", ownership.ManagedLabels("web")),
			false,
		},
		"somebody wears a label of another's": {
			namespaceInSubnet("ovn-default", ownership.ManagedLabels("other")),
			true,
		},
	} {
		management, own := NewInputs(shard.Named(kubeovn.ManagementVpc)), NewInputs(shard.Named("web"))
		for _, in := range []*Inputs{management, own} {
			in.Add(c.namespace)
		}
		if management.ownsNamespace("web") != c.managed || own.ownsNamespace("web") == c.managed {
			t.Errorf("%s: the management VPC decides: %v, its own shard: %v", what, management.ownsNamespace("web"),
				own.ownsNamespace("web"))
		}
	}
}
