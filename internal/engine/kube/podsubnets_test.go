package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/shard"
)

// A namespace belongs to the management VPC if its first Subnet is one of that VPC for pods.
func TestNamespacesOfManagementSubnets(t *testing.T) {
	for _, c := range []struct {
		what   string
		name   string
		change func(*Subnet)
		want   bool
	}{
		{"a Subnet of the default VPC", "gates", func(*Subnet) {}, true},
		{"with the provider of first interfaces", "gates", func(s *Subnet) { s.Spec.Provider = "ovn" }, true},
		{"of additional interfaces", "gates", func(s *Subnet) { s.Spec.Provider = "net.kube-system.ovn" }, false},
		{"with a VLAN", "gates", func(s *Subnet) { s.Spec.Vlan = "vlan7" }, false},
		{"an external network", "gates", func(s *Subnet) {
			s.Labels = map[string]string{kubedcv1.ExternalNetworkTypeLabel: "cloud"}
		}, false},
		{"of another VPC", "gates", func(s *Subnet) { s.Spec.Vpc = "acme-web" }, false},
		{"that joins the nodes", kubeovn.JoinSubnet, func(*Subnet) {}, false},
		{"that does not exist", "gates", func(s *Subnet) { s.Name = "other" }, false},
	} {
		subnet := &Subnet{ObjectMeta: metav1.ObjectMeta{Name: c.name}}
		subnet.Spec.Vpc, subnet.Spec.CIDRBlock = kubeovn.ManagementVpc, "10.50.0.0/24"
		c.change(subnet)
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: "edge", Annotations: map[string]string{kubeovn.LogicalSwitchAnnotation: c.name + ",ovn-default"},
		}}
		in := NewInputs(shard.Named(kubeovn.ManagementVpc))
		in.Add(subnet)
		in.Add(ns)
		if got := in.ownsNamespace("edge"); got != c.want {
			t.Errorf("%s: in the management VPC: %v, want %v", c.what, got, c.want)
		}
	}
}

// A Subnet that is being deleted counts until its last pod has ended: EgressIPs may have selected it.
func TestDeletedPodSubnets(t *testing.T) {
	for used, want := range map[float64]int{0: 0, 1: 1} {
		in := NewInputs(shard.Named(kubeovn.ManagementVpc))
		for _, name := range []string{kubeovn.ManagementSubnet, "gates"} {
			subnet := &Subnet{ObjectMeta: metav1.ObjectMeta{Name: name}}
			subnet.Spec.Vpc, subnet.Status.V4UsingIPs = kubeovn.ManagementVpc, used
			if name == "gates" {
				subnet.DeletionTimestamp = &metav1.Time{}
			}
			in.Add(subnet)
		}
		if got := in.readManagementVPC().Subnets; len(got) != want {
			t.Errorf("with %v pods: %v", used, got)
		}
	}
}
