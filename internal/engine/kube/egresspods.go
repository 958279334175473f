package kube

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// An EgressIP selects a pod of the management VPC if the pod has a port on one of its switches, whatever its namespace.
// The addresses are those that Kube-OVN wrote to the port: it does so before the pod starts, and users can't write them.
// A user who may write a pod could claim the address of a pod in another namespace with its annotation.

// maxPodClaims is how many addresses a pod may have by its own account, besides those of ports that are named after it.
// A user writes them into an annotation. A virtual machine has as many as its interfaces.
const maxPodClaims = 16

// EgressPodReader reads pods of the management VPC one by one. It knows the namespaces, Subnets and EgressIPs of a run;
// when one of these changes, it is of no use any more.
type EgressPodReader struct {
	cluster    *Cluster
	switches   map[string]bool
	namespaces map[string]*egressNamespace
}

// egressNamespace is a namespace with pods in the management VPC.
type egressNamespace struct {
	isPermanent bool // its pods are there whether any exists or not
	isSelected  bool
	selecting   map[string]labels.Selector // of pods, by EgressIP
	pods        *selectorIndex             // the same, once a pod was read
}

// newEgressNamespace returns a namespace and the EgressIPs that select it, also those that are being deleted.
func newEgressNamespace(selecting map[*ovnv1.EgressIP]bool, isPermanent bool) *egressNamespace {
	out := &egressNamespace{
		isPermanent: isPermanent, isSelected: len(selecting) > 0, selecting: map[string]labels.Selector{},
	}
	for e := range selecting {
		if choice, err := readEgressSelectors(e); err == nil && e.DeletionTimestamp == nil {
			out.selecting[e.Name] = choice.pods
		}
	}
	return out
}

// match returns the EgressIPs that select a pod, sorted.
func (n *egressNamespace) match(pod *corev1.Pod) []string {
	if n.pods == nil {
		n.pods = &selectorIndex{}
		for name, s := range n.selecting {
			n.pods.set(name, s)
		}
	}
	return n.pods.match(labels.Set(pod.Labels))
}

// EgressPodReader returns a reader of the pods that these inputs have, or nil if EgressIPs select none.
func (in *Inputs) EgressPodReader(c *Cluster) *EgressPodReader {
	if len(in.egressIPs) == 0 || in.Shard.Name != kubeovn.ManagementVpc {
		return nil
	}
	out := &EgressPodReader{
		cluster: c, switches: map[string]bool{kubeovn.ManagementSubnet: true}, namespaces: in.readEgressNamespaces(),
	}
	for name := range in.subnets {
		out.switches[name] = in.isPodSwitch(name)
	}
	return out
}

// readEgressNamespaces returns the namespaces with pods in the management VPC.
func (in *Inputs) readEgressNamespaces() map[string]*egressNamespace {
	out := make(map[string]*egressNamespace, len(in.selecting))
	for name, by := range in.selecting {
		ns := in.namespaces[name]
		out[name] = newEgressNamespace(by, ns != nil && in.isManagementNamespace(ns))
	}
	return out
}

// readEgressPods returns the pods and ports of the namespaces with pods in the management VPC.
func (in *Inputs) readEgressPods() *snapshot.EgressPods {
	namespaces := in.readEgressNamespaces()
	ports := map[string][]snapshot.PodPort{}
	for _, p := range in.misplacedPorts {
		if namespaces[p.Namespace] != nil && in.isPodSwitch(p.Subnet) {
			key := snapshot.PodKey(p.Namespace, p.Pod)
			ports[key] = append(ports[key], p)
		}
	}
	out := snapshot.NewEgressPods()
	for key := range ports {
		namespace, name, _ := strings.Cut(key, "/")
		out.Put(newEgressPod(namespaces[namespace], namespace, name, ports[key], in.pods[key]))
	}
	for key, pod := range in.pods {
		if ns := namespaces[pod.Namespace]; ns != nil && ports[key] == nil {
			out.Put(newEgressPod(ns, pod.Namespace, pod.Name, nil, pod))
		}
	}
	return out
}

// newEgressPod returns what egress addresses depend on in a pod and its ports. pod is nil if there is none.
func newEgressPod(ns *egressNamespace, namespace, name string, ports []snapshot.PodPort, pod *corev1.Pod,
) snapshot.EgressPod {
	out := snapshot.EgressPod{Namespace: namespace, Name: name, InSelected: ns.isSelected}
	for _, p := range ports {
		for _, a := range externalAddresses(p.Addresses) {
			if !slices.Contains(out.Ports, a) {
				out.Ports = append(out.Ports, a)
			}
		}
	}
	if !out.InSelected || pod == nil || isPodFinished(pod) {
		return out
	}
	out.Runs, out.EgressIPs = true, ns.match(pod)
	for _, a := range podExternalAddresses(pod) {
		if len(out.Claims) < maxPodClaims && !slices.Contains(out.Ports, a) {
			out.Claims = append(out.Claims, a)
		}
	}
	return out
}

// addSelectedPods adds the addresses of pods to the selections, and returns those of all known pods.
func addSelectedPods(to []snapshot.Selection, pods *snapshot.EgressPods) (known []netip.Addr) {
	byName := make(map[string]*snapshot.Selection, len(to))
	for i := range to {
		byName[to[i].EgressIP] = &to[i]
	}
	for _, a := range pods.Addresses() {
		names, isKnown := pods.Find(a)
		if isKnown {
			known = append(known, a)
		}
		for _, name := range names {
			if s := byName[name]; s != nil {
				s.Pods = append(s.Pods, a)
			}
		}
	}
	return known
}

// Read reads pods again, and their ports with portsOf. It returns false if they concern more than themselves: pods of
// namespaces that are in the management VPC only as long as they have pods there, and of those that are new.
func (r *EgressPodReader) Read(ctx context.Context, keys []intent.ObjectKey,
	portsOf func(namespace, pod string) []snapshot.PodPort,
) ([]snapshot.EgressPod, bool) {
	out := make([]snapshot.EgressPod, 0, len(keys))
	for _, key := range keys {
		ns := r.namespaces[key.Namespace]
		if ns == nil || !ns.isPermanent {
			return nil, false
		}
		var pod *corev1.Pod
		o, err := r.cluster.readObject(ctx, intent.ObjectKey{Kind: Pod, Namespace: key.Namespace, Name: key.Name})
		switch {
		case err == nil:
			pod = o.(*corev1.Pod)
		case !apierrors.IsNotFound(err):
			return nil, false
		}
		ports := slices.DeleteFunc(portsOf(key.Namespace, key.Name), func(p snapshot.PodPort) bool {
			return !r.switches[p.Subnet]
		})
		out = append(out, newEgressPod(ns, key.Namespace, key.Name, ports, pod))
	}
	return out, true
}
