package kube

import (
	"context"
	"fmt"
	"maps"
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

// Which EgressIPs and namespaces concern the management VPC; egresspods.go reads the pods.

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
