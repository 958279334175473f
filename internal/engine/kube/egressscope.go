package kube

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
)

// Which EgressIPs select a namespace, and which namespaces an EgressIP selects. Both are looked up by labels, so that an
// event of a pod, a namespace or an EgressIP costs the same with ten EgressIPs or projects and with ten thousand.

// indexEgressIP updates the index of namespace selectors. Events of an EgressIP do it before they enqueue shards, so a
// run that did not find the EgressIP is followed by one that does.
func (c *Cluster) indexEgressIP(name string, is client.Object) {
	if e, exists := is.(*ovnv1.EgressIP); exists && e != nil {
		if choice, readable := c.cachedSelectors(e); readable {
			c.egressIndex.set(name, choice.namespaces)
			return
		}
	}
	c.egressIndex.delete(name)
}

// isEgressIndexComplete reports whether the index of namespace selectors contains all EgressIPs of the cache. Without a
// watch it is empty. An incomplete index would let runs remove the rows of EgressIPs that it does not contain.
func (c *Cluster) isEgressIndexComplete() bool {
	registration := c.egressEvents.Load()
	return registration != nil && (*registration).HasSynced()
}

// selectingEgressIPs returns the EgressIPs that select pods of a namespace.
func (c *Cluster) selectingEgressIPs(ctx context.Context, ns client.Object) ([]*ovnv1.EgressIP, error) {
	if !c.isEgressIndexComplete() {
		all, err := c.listEgressIPs(ctx)
		return slices.DeleteFunc(all, func(e *ovnv1.EgressIP) bool { return !c.matchesNamespace(e, ns) }), err
	}
	var out []*ovnv1.EgressIP
	for _, name := range c.egressIndex.match(ns.GetLabels()) {
		o, err := c.readObject(ctx, intent.ObjectKey{Kind: intent.EgressIP, Name: name})
		if apierrors.IsNotFound(err) {
			continue // deleted; its event is not handled yet
		}
		if err != nil {
			return nil, fmt.Errorf("read EgressIP %s: %w", name, err)
		}
		if e := o.(*ovnv1.EgressIP); c.matchesNamespace(e, ns) {
			out = append(out, e)
		}
	}
	return out, nil
}

// isSelected reports whether an EgressIP selects pods of a namespace.
func (c *Cluster) isSelected(ctx context.Context, ns client.Object) bool {
	if c.isEgressIndexComplete() {
		return c.egressIndex.matchesAny(ns.GetLabels())
	}
	by, err := c.selectingEgressIPs(ctx, ns)
	return err == nil && len(by) > 0
}

// hasEgressIPs reports whether there are EgressIPs.
func (c *Cluster) hasEgressIPs(ctx context.Context) bool {
	if c.isEgressIndexComplete() && c.egressIndex.size() > 0 {
		return true
	}
	var list ovnv1.EgressIPList // those with malformed selectors are not in the index
	err := c.reader.List(ctx, &list, client.Limit(1), client.UnsafeDisableDeepCopy)
	return err == nil && len(list.Items) > 0
}

// indexByEgressAddress returns the values of addressIndex for an EgressIP.
func indexByEgressAddress(o client.Object) (out []string) {
	for _, a := range ParseAddresses(o.(*ovnv1.EgressIP).Spec.EgressIPs) {
		out = append(out, a.String())
	}
	return out
}

// isEgressAddress reports whether an EgressIP requests an address.
func (c *Cluster) isEgressAddress(ctx context.Context, text string) bool {
	address := parseAddr(text)
	var list ovnv1.EgressIPList
	err := c.reader.List(ctx, &list,
		append(c.matchIndex(addressIndex, address.String()), client.UnsafeDisableDeepCopy)...)
	return err == nil && slices.ContainsFunc(list.Items, func(e ovnv1.EgressIP) bool {
		return slices.Contains(ParseAddresses(e.Spec.EgressIPs), address)
	})
}

// selectorLookup returns a function that returns which of some EgressIPs select a namespace.
func (c *Cluster) selectorLookup(of []*ovnv1.EgressIP) func(ns client.Object) []*ovnv1.EgressIP {
	index, byName := &c.egressIndex, make(map[string]*ovnv1.EgressIP, len(of))
	for _, e := range of {
		byName[e.Name] = e
	}
	if len(of) == 1 || !c.isEgressIndexComplete() { // one of them may be older than the one in the cache
		index = &selectorIndex{}
		for _, e := range of {
			if choice, readable := c.cachedSelectors(e); readable {
				index.set(e.Name, choice.namespaces)
			}
		}
	}
	return func(ns client.Object) (out []*ovnv1.EgressIP) {
		for _, name := range index.match(ns.GetLabels()) {
			if e := byName[name]; e != nil && c.matchesNamespace(e, ns) {
				out = append(out, e)
			}
		}
		return out
	}
}

// egressScope is where an EgressIP selects pods.
type egressScope struct {
	vpcs                 []string
	managementNamespaces []string // the selected namespaces of the management VPC
}

// listEgressScopes returns the scope of each EgressIP.
func (c *Cluster) listEgressScopes(ctx context.Context, of []*ovnv1.EgressIP) (map[string]egressScope, error) {
	namespaces, err := c.listSelectableNamespaces(ctx, of)
	if err != nil {
		return nil, err
	}
	return c.findEgressScopes(ctx, of, namespaces)
}

// findEgressScopes returns the scope of each EgressIP in some namespaces.
func (c *Cluster) findEgressScopes(ctx context.Context, of []*ovnv1.EgressIP, namespaces []corev1.Namespace,
) (out map[string]egressScope, err error) {
	out = map[string]egressScope{}
	selecting, isLiveProject := c.selectorLookup(of), c.indexedProjectLookup(ctx)
	if !c.indexed || len(namespaces) > fewNamespaces {
		if isLiveProject, err = c.projectLookup(ctx); err != nil {
			return nil, err
		}
	}
	for i := range namespaces {
		ns := &namespaces[i]
		if ns.DeletionTimestamp != nil {
			continue
		}
		by := selecting(ns)
		if len(by) == 0 {
			continue
		}
		isProject, isManaged := isLiveProject(ns.Name), c.isManagementNamespace(ctx, ns)
		for _, e := range by {
			scope := out[e.Name]
			if isProject {
				scope.vpcs = append(scope.vpcs, ns.Name)
			}
			if isManaged {
				scope.vpcs = append(scope.vpcs, kubeovn.ManagementVpc)
				scope.managementNamespaces = append(scope.managementNamespaces, ns.Name)
			}
			out[e.Name] = scope
		}
	}
	return out, nil
}

// fewNamespaces is a number of namespaces that are evaluated without looking for a label that fewer have.
const fewNamespaces = 16

// listSelectableNamespaces returns all namespaces that EgressIPs may select. For a single EgressIP these are the
// namespaces with one of the labels that it requires.
func (c *Cluster) listSelectableNamespaces(ctx context.Context, of []*ovnv1.EgressIP) ([]corev1.Namespace, error) {
	if len(of) == 0 {
		return nil, nil
	}
	if choice, readable := c.cachedSelectors(of[0]); len(of) == 1 && c.indexed && readable {
		if list, found, err := c.listRequiredNamespaces(ctx, choice.namespaces); found || err != nil {
			return list, err
		}
	}
	var list corev1.NamespaceList
	if err := c.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	return list.Items, nil
}

// listRequiredNamespaces returns the namespaces with a label that a selector requires; of several labels it takes the
// rarest. It returns false if the selector requires none.
func (c *Cluster) listRequiredNamespaces(ctx context.Context, by labels.Selector) (best []corev1.Namespace, found bool,
	err error,
) {
	var required [][]labelTerm
	requirements, _ := by.Requirements()
	for _, r := range requirements {
		if terms := requiredTerms(r); len(terms) > 0 {
			required = append(required, terms)
		}
	}
	for _, terms := range required { // a label that few have, without reading all namespaces of one that many have
		list, err := c.listLabelledNamespaces(ctx, terms, client.Limit(fewNamespaces+1))
		if err != nil || len(list) <= fewNamespaces {
			return list, err == nil, err
		}
	}
	for _, terms := range required {
		list, err := c.listLabelledNamespaces(ctx, terms)
		if err != nil {
			return nil, false, err
		}
		if !found || len(list) < len(best) {
			best, found = list, true
		}
	}
	return best, found, nil
}

// listLabelledNamespaces returns the namespaces that have one of some terms. The terms have the same key, so there is no
// namespace twice.
func (c *Cluster) listLabelledNamespaces(ctx context.Context, terms []labelTerm, options ...client.ListOption,
) (out []corev1.Namespace, err error) {
	options = append(slices.Clip(options), client.UnsafeDisableDeepCopy)
	for _, t := range terms {
		var list corev1.NamespaceList
		if err := c.reader.List(ctx, &list, append(c.matchIndex(labelIndex, t.indexValue()), options...)...); err != nil {
			return nil, fmt.Errorf("list namespaces with label %s: %w", t.key, err)
		}
		out = append(out, list.Items...)
	}
	return out, nil
}

// projectLookup returns a function that reports whether a Project exists whose names give a shard, and that is not being
// deleted.
func (c *Cluster) projectLookup(ctx context.Context) (func(shard string) bool, error) {
	var projects kubedcv1.ProjectList
	if err := c.reader.List(ctx, &projects, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Projects: %w", err)
	}
	live := projectShards(slices.DeleteFunc(projects.Items, func(p kubedcv1.Project) bool {
		return p.DeletionTimestamp != nil
	}))
	return func(shard string) bool { return live[shard] }, nil
}

// indexedProjectLookup returns the same for a few shards of a cache.
func (c *Cluster) indexedProjectLookup(ctx context.Context) func(shard string) bool {
	return func(shard string) bool {
		var projects kubedcv1.ProjectList
		err := c.reader.List(ctx, &projects, append(c.matchIndex(projectIndex, shard), client.UnsafeDisableDeepCopy)...)
		return err == nil && slices.ContainsFunc(projects.Items, func(p kubedcv1.Project) bool {
			return p.DeletionTimestamp == nil
		})
	}
}
