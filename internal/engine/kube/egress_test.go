package kube

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/shard"
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

// Pods of projects are served. All other selected pods are counted, and the first few are named.
func TestPodsOfNoProjectAreFound(t *testing.T) {
	_, w, err := newFakeCluster(selectedPodsFixture()...).GatherEgress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := w.EgressIPs[0]
	if want := []string{"acme-prod"}; !slices.Equal(got.Vpcs, want) {
		t.Errorf("VPCs %v, want %v", got.Vpcs, want)
	}
	if got.PodsOutsideProjects.Number != 6 ||
		got.PodsOutsideProjects.String() != "edge/mail-7, edge/mail-8, edge/mail-9 and 3 more" {
		t.Errorf("of no project are %d: %s", got.PodsOutsideProjects.Number, got.PodsOutsideProjects)
	}
}

// An event of a selected pod enqueues the shard that decides about it: its project, or the shard of egress addresses,
// which reports that the pod is not served.
func TestSelectedPodsAreAskedFor(t *testing.T) {
	for namespace, want := range map[string]string{
		"acme-prod": "acme-prod",
		"edge":      ownership.EgressVpc,
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
