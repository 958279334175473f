package kube

import (
	"net/netip"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/shard"
)

// A pod gives access to its node only if it uses the node's network, has not ended, has the address of the node that it
// runs on, and declares the port.
func TestReadHostPods(t *testing.T) {
	const first, second = "192.168.1.1", "192.168.1.2"
	newPod := func(node, address string, change func(*corev1.Pod)) *corev1.Pod {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: "pod"},
			Spec: corev1.PodSpec{NodeName: node, HostNetwork: true, Containers: []corev1.Container{
				{Ports: []corev1.ContainerPort{{ContainerPort: 443}}},
			}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: address}}},
		}
		change(pod)
		return pod
	}
	for _, c := range []struct {
		what string
		pod  *corev1.Pod
		want bool
	}{
		{"a pod on the network of its node", newPod("one", first, func(*corev1.Pod) {}), true},
		{"an address of another node", newPod("one", second, func(*corev1.Pod) {}), false},
		{"no node yet", newPod("", first, func(*corev1.Pod) {}), false},
		{"a network of its own", newPod("one", first, func(p *corev1.Pod) { p.Spec.HostNetwork = false }), false},
		{"a pod that has ended", newPod("one", first, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), false},
		{"no declared port", newPod("one", first, func(p *corev1.Pod) { p.Spec.Containers = nil }), false},
		{"another namespace", newPod("one", first, func(p *corev1.Pod) { p.Namespace = "other" }), false},
	} {
		in := NewInputs(shard.Named(kubeovn.ManagementVpc))
		for name, address := range map[string]string{"one": first, "two": second} {
			in.Add(&corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}},
			})
		}
		trimPod(c.pod)
		in.pods["edge/pod"] = c.pod
		var want map[netip.AddrPort]bool
		if c.want {
			want = map[netip.AddrPort]bool{netip.MustParseAddrPort(first + ":443"): true}
		}
		if got := in.readHostPods(in.readNodeAddresses())["edge"]; len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", c.what, got, want)
		}
	}
}
