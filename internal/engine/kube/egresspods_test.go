package kube

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// randomEgressPods returns namespaces with pods, some of which claim addresses of others, and the ports of the default
// VPC. EgressIPs select namespace edge.
func randomEgressPods(random *rand.Rand) (objects []client.Object, ports []snapshot.PodPort) {
	for name, labels := range map[string]map[string]string{"edge": {"egress": "yes"}, "plain": nil} {
		ns := namespaceInSubnet(kubeovn.ManagementSubnet, labels)
		ns.Name, ns.UID = name, types.UID(name) // it exists
		objects = append(objects, ns)
		for i := range 6 {
			pod := &corev1.Pod{ObjectMeta: metaIn(name, fmt.Sprintf("p%d", i))}
			pod.Labels = map[string]string{"app": fmt.Sprint(random.IntN(3))}
			pod.Annotations = map[string]string{
				kubeovn.IPAddressAnnotation: fmt.Sprintf("10.16.0.%d,10.16.0.%d", random.IntN(9), random.IntN(9)),
			}
			pod.Status.Phase = []corev1.PodPhase{corev1.PodRunning, corev1.PodSucceeded}[random.IntN(4)/3]
			if random.IntN(4) > 0 {
				objects = append(objects, pod)
			}
			if random.IntN(4) > 0 {
				ports = append(ports, podPort(name, pod.Name, []string{kubeovn.ManagementSubnet, "second"}[random.IntN(5)/4],
					fmt.Sprintf("10.16.0.%d", random.IntN(9))))
			}
		}
	}
	for i := range 3 {
		objects = append(objects, &ovnv1.EgressIP{ObjectMeta: metaIn("", fmt.Sprintf("e%d", i)), Spec: ovnv1.EgressIPSpec{
			NamespaceSelector: metav1.LabelSelector{MatchLabels: map[string]string{"egress": "yes"}},
			PodSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{fmt.Sprint(i), fmt.Sprint(random.IntN(3))}},
			}},
		}})
	}
	return objects, ports
}

// findPorts returns a function that returns the ports of a pod.
func findPorts(ports []snapshot.PodPort) func(namespace, pod string) []snapshot.PodPort {
	return func(namespace, pod string) []snapshot.PodPort {
		return slices.DeleteFunc(slices.Clone(ports), func(p snapshot.PodPort) bool {
			return p.Namespace != namespace || p.Pod != pod
		})
	}
}

// A pod that is read alone is what it is among all pods.
func TestReadEgressPods(t *testing.T) {
	for seed := range uint64(30) {
		objects, ports := randomEgressPods(rand.New(rand.NewPCG(seed, 4)))
		cluster := newFakeCluster(objects...)
		in, err := cluster.GatherVPC(t.Context(), kubeovn.ManagementVpc, snapshot.Quotas{}, ports)
		if err != nil {
			t.Fatal(err)
		}
		_, _, all := in.readSelections()
		reader, read := in.EgressPodReader(cluster), 0
		for _, ns := range []string{"edge", "plain"} {
			for i := range 7 { // the last does not exist
				key := intent.ObjectKey{Kind: Pod, Namespace: ns, Name: fmt.Sprintf("p%d", i)}
				got, ok := reader.Read(t.Context(), []intent.ObjectKey{key}, findPorts(ports))
				want := all.Get(snapshot.PodKey(ns, key.Name))
				if want.Namespace == "" {
					want = snapshot.EgressPod{Namespace: ns, Name: key.Name, InSelected: ns == "edge"}
				} else {
					read++
				}
				if !ok || !reflect.DeepEqual(got, []snapshot.EgressPod{want}) {
					t.Errorf("seed %d: %s is read as %+v, wanted %+v", seed, key, got, want)
				}
			}
		}
		if read < 4 {
			t.Errorf("seed %d: only %d pods are read", seed, read)
		}
	}
}

// Pods of namespaces that are in the default VPC only because they have pods there are not read alone: with the last one,
// their EgressIPs no longer concern the VPC. Neither are those of namespaces that the run did not know.
func TestPodsThatAreNotReadAlone(t *testing.T) {
	objects := selectedPodsFixture()
	for _, o := range objects[:3] {
		o.SetUID(types.UID(o.GetName()))
	}
	cluster := newFakeCluster(objects...)
	in, err := cluster.GatherVPC(t.Context(), kubeovn.ManagementVpc, snapshot.Quotas{}, []snapshot.PodPort{
		podPort("edge", "mail-9", kubeovn.ManagementSubnet, "10.16.0.9"),
		podPort("acme-prod", "mail-9", kubeovn.ManagementSubnet, "10.16.0.8"),
	})
	if err != nil {
		t.Fatal(err)
	}
	reader := in.EgressPodReader(cluster)
	for namespace, want := range map[string]bool{"edge": true, "acme-prod": false, "other": false, "new": false} {
		key := intent.ObjectKey{Kind: Pod, Namespace: namespace, Name: "mail-9"}
		if _, ok := reader.Read(t.Context(), []intent.ObjectKey{key}, func(string, string) []snapshot.PodPort {
			return nil
		}); ok != want {
			t.Errorf("a pod of %s is read alone: %t", namespace, ok)
		}
	}
}

// A user writes the addresses of a pod into an annotation. Only some of them count, and what a pod costs has a limit.
func TestPodClaimsAreLimited(t *testing.T) {
	ns := &egressNamespace{isSelected: true}
	pod := &corev1.Pod{}
	var claims []string
	for i := range 20_000 {
		claims = append(claims, netip.AddrFrom4([4]byte{10, 16, byte(i / 250), byte(1 + i%250)}).String())
	}
	pod.Annotations = map[string]string{kubeovn.IPAddressAnnotation: strings.Join(claims, ",")}
	got := newEgressPod(ns, "edge", "greedy", []snapshot.PodPort{podPort("edge", "greedy", "ovn-default", claims[0])}, pod)
	if len(got.Claims) != maxPodClaims || got.Claims[0].String() != claims[1] || len(got.Ports) != 1 {
		t.Errorf("%d claims, the first %v", len(got.Claims), got.Claims[0])
	}
}

// An event of a pod in the default VPC names the pod. One of a project's pod does not: its project runs.
func TestPodEventsNameThePod(t *testing.T) {
	for namespace, want := range map[string]string{"edge": "ovn-cluster Pod edge/new", "acme-prod": "acme-prod", "plain": ""} {
		plain := namespaceInSubnet(kubeovn.ManagementSubnet, nil)
		plain.Name = "plain"
		objects := append(selectedPodsFixture(), plain)
		objects[4].(*ovnv1.EgressIP).Spec.NamespaceSelector.MatchExpressions = []metav1.LabelSelectorRequirement{
			{Key: "plain", Operator: metav1.LabelSelectorOpDoesNotExist},
		}
		plain.Labels = map[string]string{"plain": ""}
		got := ""
		w := &eventMapper{
			cluster: newFakeCluster(objects...), enqueue: func(of shard.Shard) { got += of.Name },
			enqueueObject: func(of shard.Shard, o intent.ObjectKey) { got += of.Name + " " + o.String() },
		}
		w.handleSelectedPod(t.Context(), nil, &corev1.Pod{ObjectMeta: metaIn(namespace, "new")})
		if got != want {
			t.Errorf("a pod of %s enqueues %q, wanted %q", namespace, got, want)
		}
	}
}
