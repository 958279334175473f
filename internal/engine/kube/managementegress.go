package kube

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// An EgressIP selects a pod of the management VPC if the pod has a port on one of its switches, whatever its namespace.
// The addresses are those that Kube-OVN wrote to the port: it does so before the pod starts, and users can't write them.
// A user who may write a pod could claim the address of a pod in another namespace with its annotation.

// lookUpSelectedNamespaces adds the selected namespaces of the management VPC if a network restricts who may use it.
func (c *Cluster) lookUpSelectedNamespaces(ctx context.Context, in *Inputs, scopes map[string]egressScope) error {
	if !in.hasRestrictedNetwork() {
		return nil
	}
	var keys []intent.ObjectKey
	for _, scope := range scopes {
		for _, name := range scope.managementNamespaces {
			keys = append(keys, intent.ObjectKey{Kind: intent.Namespace, Name: name})
		}
	}
	return c.lookUpObjects(ctx, in, keys, nil)
}

// gatherManagementEgress adds the EgressIPs that select pods of the management VPC, and the pods of the selected
// namespaces.
func (c *Cluster) gatherManagementEgress(ctx context.Context, in *Inputs) error {
	all, err := c.listEgressIPs(ctx)
	if err != nil {
		return err
	}
	in.selecting = map[string]map[*ovnv1.EgressIP]bool{}
	if len(all) > 0 {
		if err := c.gatherSelectedPods(ctx, in, all); err != nil {
			return err
		}
	}
	used := map[*ovnv1.EgressIP]bool{}
	for _, by := range in.selecting {
		maps.Copy(used, by)
	}
	in.egressIPs = slices.DeleteFunc(all, func(e *ovnv1.EgressIP) bool { return !used[e] })
	c.managementSelected.Store(len(in.egressIPs) > 0)
	return nil
}

// gatherSelectedPods adds, for each namespace with pods in the management VPC, the EgressIPs that select it and, if
// there are any, its pods.
func (c *Cluster) gatherSelectedPods(ctx context.Context, in *Inputs, all []*ovnv1.EgressIP) error {
	selecting := c.selectorLookup(all)
	for name := range in.namespacesInManagementVPC() {
		ns, err := c.readObject(ctx, intent.ObjectKey{Kind: intent.Namespace, Name: name})
		if apierrors.IsNotFound(err) {
			continue // not in the cache yet: its pods are not classified
		}
		if err != nil {
			return fmt.Errorf("read namespace %s: %w", name, err)
		}
		in.selecting[name] = map[*ovnv1.EgressIP]bool{}
		for _, e := range selecting(ns) {
			in.selecting[name][e] = true
		}
		if len(in.selecting[name]) == 0 {
			continue
		}
		var pods corev1.PodList
		if err := c.reader.List(ctx, &pods, client.InNamespace(name), client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list pods of %s: %w", name, err)
		}
		for i := range pods.Items {
			in.pods[snapshot.PodKey(name, pods.Items[i].Name)] = &pods.Items[i]
		}
	}
	return nil
}

// namespacesInManagementVPC returns the namespaces whose pods get addresses of the management VPC's Subnets, and those
// that have pods there.
func (in *Inputs) namespacesInManagementVPC() map[string]bool {
	out := map[string]bool{}
	for name, ns := range in.namespaces {
		if in.isManagementNamespace(ns) {
			out[name] = true
		}
	}
	for _, p := range in.misplacedPorts {
		if in.isPodSwitch(p.Subnet) {
			out[p.Namespace] = true
		}
	}
	return out
}

// selectedSubnets returns the Subnets of the namespaces that an EgressIP selects, besides the management VPC's first.
// They do not depend on pods, which come and go.
func (in *Inputs) selectedSubnets(e *ovnv1.EgressIP) (out []string) {
	for name, by := range in.selecting {
		ns := in.namespaces[name]
		if ns == nil || !by[e] {
			continue
		}
		for subnet := range strings.SplitSeq(ns.Annotations[kubeovn.LogicalSwitchAnnotation], ",") {
			if subnet != kubeovn.ManagementSubnet && in.isPodSwitch(subnet) {
				out = append(out, subnet)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// selectsNamespace reports whether an EgressIP selects a namespace of the shard. A project has one namespace, which all
// EgressIPs of the shard select.
func (in *Inputs) selectsNamespace(e *ovnv1.EgressIP, namespace string) bool {
	return in.selecting == nil || in.selecting[namespace][e]
}

// podPortIndex is the addresses of the ports on the management VPC's switches.
type podPortIndex struct {
	byPod       map[string][]netip.Addr // by namespace/name
	byNamespace map[string]map[netip.Addr]bool
}

// indexPodPorts indexes the ports on the management VPC's switches.
func (in *Inputs) indexPodPorts() podPortIndex {
	out := podPortIndex{byPod: map[string][]netip.Addr{}, byNamespace: map[string]map[netip.Addr]bool{}}
	for _, p := range in.misplacedPorts {
		if !in.isPodSwitch(p.Subnet) {
			continue
		}
		if out.byNamespace[p.Namespace] == nil {
			out.byNamespace[p.Namespace] = map[netip.Addr]bool{}
		}
		key := snapshot.PodKey(p.Namespace, p.Pod)
		for _, a := range externalAddresses(p.Addresses) {
			out.byPod[key] = append(out.byPod[key], a)
			out.byNamespace[p.Namespace][a] = true
		}
	}
	return out
}

// addressesOf returns the addresses of a pod: those of its port. The port of a virtual machine has the machine's name,
// so the pod's own claims count as well if a port of its namespace has the address.
func (x podPortIndex) addressesOf(pod *corev1.Pod) []netip.Addr {
	if isPodFinished(pod) {
		return nil
	}
	out := slices.Clone(x.byPod[snapshot.PodKey(pod.Namespace, pod.Name)])
	for _, a := range podExternalAddresses(pod) {
		if x.byNamespace[pod.Namespace][a] && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// unselectedPortAddresses returns the addresses on the management VPC's switches of namespaces that no EgressIP selects.
// Those of selected namespaces are classified when their pods are known.
func (in *Inputs) unselectedPortAddresses() (out []netip.Addr) {
	for _, p := range in.misplacedPorts {
		if by, isKnown := in.selecting[p.Namespace]; isKnown && len(by) == 0 && in.isPodSwitch(p.Subnet) {
			out = append(out, externalAddresses(p.Addresses)...)
		}
	}
	return out
}
