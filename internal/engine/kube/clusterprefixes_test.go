package kube

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/shard"
)

// Kube-OVN writes the status of a Subnet for each pod. Only addresses that we may reserve concern the default VPC.
func TestUsedAddressesOfSubnets(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Subnet)
		want   bool
	}{
		"nothing":                     {func(*Subnet) {}, false},
		"a pod gets the next address": {func(s *Subnet) { s.Status.V4UsingIPRange = "10.16.0.2-10.16.0.9" }, false},
		"a pod has a reserved address": {func(s *Subnet) {
			s.Status.V4UsingIPRange = "10.16.0.2-10.16.0.8,10.16.255.250"
		}, true},
		"pods have all addresses": {func(s *Subnet) { s.Status.V4UsingIPRange = "10.16.0.2-10.16.255.254" }, true},
		"the last pod ends":       {func(s *Subnet) { s.Status.V4UsingIPs, s.Status.V4UsingIPRange = 0, "" }, true},
		"another gateway":         {func(s *Subnet) { s.Spec.Gateway = "10.16.0.3" }, true},
		"it is deleted":           {func(s *Subnet) { s.DeletionTimestamp = &metav1.Time{} }, true},
	} {
		was := &Subnet{ObjectMeta: metav1.ObjectMeta{Name: kubeovn.ManagementSubnet}}
		was.Spec.Vpc, was.Spec.CIDRBlock, was.Spec.Gateway = kubeovn.ManagementVpc, "10.16.0.0/16", "10.16.0.1"
		was.Status.V4UsingIPs, was.Status.V4UsingIPRange = 7, "10.16.0.2-10.16.0.8"
		is := *was
		is.Status.V4UsingIPs++
		test.change(&is)
		asked := false
		cluster := newFakeCluster(selectedPodsFixture()...)
		cluster.managementSelected.Store(true)
		w := &eventMapper{cluster: cluster, enqueue: func(of shard.Shard) {
			asked = asked || of == shard.Named(kubeovn.ManagementVpc)
		}}
		if w.handleSubnet(t.Context(), was, &is); asked != test.want {
			t.Errorf("%s: the default VPC runs: %t", name, asked)
		}
	}
}
