package kube

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// egressSelectors are the parsed selectors of an EgressIP. nodes is nil if every node may hold its addresses.
type egressSelectors struct{ namespaces, pods, nodes labels.Selector }

// readEgressSelectors parses the selectors of an EgressIP.
func readEgressSelectors(e *ovnv1.EgressIP) (egressSelectors, error) {
	var out egressSelectors
	for _, s := range []struct {
		name string
		from *metav1.LabelSelector
		to   *labels.Selector
	}{
		{"namespaceSelector", &e.Spec.NamespaceSelector, &out.namespaces},
		{"podSelector", &e.Spec.PodSelector, &out.pods},
		{"nodeSelector", e.Spec.NodeSelector, &out.nodes},
	} {
		if s.from == nil {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(s.from)
		if err != nil {
			return egressSelectors{}, fmt.Errorf("%s: %w", s.name, err)
		}
		*s.to = selector
	}
	return out, nil
}

// matchesPod reports whether a pod in a selected namespace is selected: it matches, runs and has its own address.
func (c egressSelectors) matchesPod(pod *corev1.Pod) bool {
	return !pod.Spec.HostNetwork && !isPodFinished(pod) && c.pods.Matches(labels.Set(pod.Labels))
}

// cachedSelectors returns the selectors of an EgressIP. Malformed selectors select nothing.
func (c *Cluster) cachedSelectors(e *ovnv1.EgressIP) (egressSelectors, bool) {
	out, err := c.selectorCache.getOrRead(intent.ObjectKey{Kind: intent.EgressIP, Name: e.Name}, e,
		func() (egressSelectors, error) {
			return readEgressSelectors(e)
		})
	return out, err == nil
}

// listEgressIPs returns all EgressIPs. Callers must not modify them.
func (c *Cluster) listEgressIPs(ctx context.Context) ([]*ovnv1.EgressIP, error) {
	var list ovnv1.EgressIPList
	if err := c.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list EgressIPs: %w", err)
	}
	out := make([]*ovnv1.EgressIP, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out, nil
}

// matchesNamespace reports whether the namespace selector of an EgressIP matches a namespace.
func (c *Cluster) matchesNamespace(e *ovnv1.EgressIP, ns client.Object) bool {
	choice, readable := c.cachedSelectors(e)
	return readable && choice.namespaces.Matches(labels.Set(ns.GetLabels()))
}

// gatherEgressIPs adds the EgressIPs that select pods of a VPC. If EgressIPs or EgressRoutes exist, it adds the pods.
func (c *Cluster) gatherEgressIPs(ctx context.Context, in *Inputs) error {
	if in.Shard.Name == kubeovn.ManagementVpc {
		return c.gatherManagementEgress(ctx, in)
	}
	ns := in.namespaces[in.Shard.Name]
	if ns == nil {
		return nil
	}
	selecting, err := c.selectingEgressIPs(ctx, ns)
	if err != nil || len(selecting) == 0 && len(in.egressRoutes) == 0 {
		return err
	}
	in.egressIPs = selecting
	return c.listInto(ctx, in, &corev1.PodList{}, []client.ListOption{client.InNamespace(in.Shard.Name)})
}

// readSelections returns which pods use which egress addresses and, if there are any, the addresses of all pods. In the
// management VPC both follow from managed, which it returns too.
func (in *Inputs) readSelections() (out []snapshot.Selection, inside []netip.Addr, managed *snapshot.EgressPods) {
	pods, isManagement := in.pods, in.Shard.Name == kubeovn.ManagementVpc
	if isManagement {
		pods = nil
	}
	for _, e := range in.egressIPs {
		choice, err := readEgressSelectors(e)
		if err != nil || e.DeletionTimestamp != nil {
			continue
		}
		s := snapshot.Selection{
			EgressIP: e.Name,
			Created:  e.CreationTimestamp.Time,
			FailOpen: e.Spec.FailurePolicy == ovnv1.FailOpen,
			Subnets:  in.selectedSubnets(e),
		}
		for _, pod := range pods {
			if choice.pods.Matches(labels.Set(pod.Labels)) {
				s.Pods = append(s.Pods, podExternalAddresses(pod)...)
			}
		}
		s.Addresses = ParseAddresses(e.Spec.EgressIPs)
		slices.SortFunc(s.Pods, netip.Addr.Compare)
		out = append(out, s)
	}
	switch {
	case len(out) == 0:
		return nil, nil, nil
	case isManagement:
		managed = in.readEgressPods()
		return out, addSelectedPods(out, managed), managed
	}
	for _, pod := range pods {
		inside = append(inside, podExternalAddresses(pod)...)
	}
	slices.SortFunc(inside, netip.Addr.Compare)
	return out, slices.Compact(inside), nil
}

// ParseAddresses parses texts and skips invalid ones.
func ParseAddresses(texts []string) (out []netip.Addr) {
	for _, text := range texts {
		if a := parseAddr(text); a.IsValid() {
			out = append(out, a)
		}
	}
	return out
}

// podExternalAddresses returns the addresses of a pod that external addresses can stand for.
func podExternalAddresses(pod *corev1.Pod) []netip.Addr { return externalAddresses(podAddresses(pod)) }

// externalAddresses returns the addresses of the family that external networks have.
func externalAddresses(addresses []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addresses), kubeovn.ExternalFamily.Other().Contains)
}

// podAddresses returns the addresses of a project's pod from the moment Kube-OVN assigns them until the pod terminates.
// Tenants can write the annotation, but this affects at most pods of their own project: compile accepts only addresses
// of the project's subnet.
func podAddresses(pod *corev1.Pod) (out []netip.Addr) {
	if isPodFinished(pod) {
		return nil
	}
	for part := range strings.SplitSeq(pod.Annotations[kubeovn.IPAddressAnnotation], ",") {
		if a := parseAddr(strings.TrimSpace(part)); a.IsValid() {
			out = append(out, a)
		}
	}
	for _, a := range reportedAddresses(pod) {
		if !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// reportedAddresses returns the addresses of a pod that its node reported. In the management VPC, which has pods of
// many namespaces, only these count.
func reportedAddresses(pod *corev1.Pod) (out []netip.Addr) {
	if isPodFinished(pod) {
		return nil
	}
	for _, ip := range pod.Status.PodIPs {
		out = append(out, ParseAddresses([]string{ip.IP})...)
	}
	return out
}

// GatherEgress reads everything that decides about egress addresses, including all EgressIPs.
func (c *Cluster) GatherEgress(ctx context.Context) (*Inputs, *snapshot.EgressInput, error) {
	in := NewInputs(shard.Egress)
	in.isStuck = c.progress.isStuck
	for _, list := range []struct {
		list client.ObjectList
		by   []client.ListOption
	}{
		{&kubedcv1alpha1.ExternalNetworkList{}, nil},
		{&SubnetList{}, c.matchIndex(externalIndex, "true")},
		{&VpcList{}, c.matchShard(in.Shard.Name)},
		{&OvnEipList{}, c.matchShard(in.Shard.Name)},
		{&corev1.NodeList{}, nil},
	} {
		if err := c.listInto(ctx, in, list.list, list.by); err != nil {
			return nil, nil, err
		}
	}
	var err error
	if in.egressIPs, err = c.listEgressIPs(ctx); err != nil {
		return nil, nil, err
	}
	if err := c.lookUpEgressReferences(ctx, in); err != nil {
		return nil, nil, err
	}
	selected, err := c.gatherSelected(ctx, in.egressIPs)
	if err = errors.Join(err, c.gatherAllProjects(ctx, in),
		c.lookUpSelectedNamespaces(ctx, in, selected.scopes)); err != nil {
		return nil, nil, err
	}
	out := &snapshot.EgressInput{
		ExternalSubnets: in.readExternalSubnets(),
		AddressOwners:   in.readAddressHolders(),
		Engine:          in.readKubeOVNState(nil),
	}
	for _, n := range in.nodes {
		if _, may := n.Labels[ovnv1.AssignableLabel]; may {
			out.Nodes = append(out.Nodes, readEgressNode(n))
		}
	}
	for _, e := range in.egressIPs {
		out.EgressIPs = append(out.EgressIPs, c.readEgressIP(e, selected, in.nodes))
	}
	return in, out, nil
}

// selectedPods is what EgressIPs select, by EgressIP: where the pods are that use their addresses, and other pods.
type selectedPods struct {
	scopes   map[string]egressScope
	unserved map[string]snapshot.PodSample
}

// gatherSelected reads what EgressIPs select.
func (c *Cluster) gatherSelected(ctx context.Context, of []*ovnv1.EgressIP) (out selectedPods, err error) {
	namespaces, err := c.listSelectableNamespaces(ctx, of)
	if err != nil {
		return out, err
	}
	if out.scopes, err = c.findEgressScopes(ctx, of, namespaces); err != nil {
		return out, err
	}
	out.unserved, err = c.selectUnservedPods(ctx, of, namespaces)
	return out, err
}

// GatherEgressIPs reads EgressIPs with what they select: a part of what GatherEgress reads. The cost does not depend on
// the number of other EgressIPs. It returns false if one of them does not exist any more.
func (c *Cluster) GatherEgressIPs(ctx context.Context, keys []intent.ObjectKey) ([]client.Object, []snapshot.EgressIP,
	bool,
) {
	var objects []client.Object
	var out []snapshot.EgressIP
	nodes := NewInputs(shard.Egress)
	for _, key := range keys {
		o, err := c.readObject(ctx, key)
		if err != nil {
			return nil, nil, false
		}
		e := o.(*ovnv1.EgressIP)
		if e.Spec.NodeSelector != nil && len(nodes.nodes) == 0 {
			if err := c.listInto(ctx, nodes, &corev1.NodeList{}, nil); err != nil {
				return nil, nil, false
			}
		}
		selected, err := c.gatherSelected(ctx, []*ovnv1.EgressIP{e})
		if err != nil {
			return nil, nil, false
		}
		objects, out = append(objects, e), append(out, c.readEgressIP(e, selected, nodes.nodes))
	}
	return objects, out, true
}

// lookUpEgressReferences adds referenced objects: the Vpc, which may have lost its labels, the subnets of networks, and
// the OvnEips that have the addresses.
func (c *Cluster) lookUpEgressReferences(ctx context.Context, in *Inputs) error {
	keys := []intent.ObjectKey{{Kind: intent.Vpc, Name: in.Shard.Name}}
	for _, n := range in.networks {
		for _, s := range n.Spec.Subnets {
			keys = append(keys, intent.ObjectKey{Kind: intent.Subnet, Name: s})
		}
	}
	var addresses []string
	for _, e := range in.egressIPs {
		addresses = append(addresses, e.Spec.EgressIPs...)
	}
	return c.lookUpObjects(ctx, in, keys, addresses)
}

// projectShards returns the shards of projects, which are also the names of their namespaces.
func projectShards(projects []kubedcv1.Project) map[string]bool {
	out := make(map[string]bool, len(projects))
	for i := range projects {
		out[snapshot.ProjectShard(projects[i].Namespace, projects[i].Name)] = true
	}
	return out
}

// selectUnservedPods returns, for each EgressIP, the selected pods in some namespaces that can't use its addresses. It
// skips the namespaces of projects, which may contain most of the pods.
func (c *Cluster) selectUnservedPods(ctx context.Context, of []*ovnv1.EgressIP, namespaces []corev1.Namespace,
) (map[string]snapshot.PodSample, error) {
	out := map[string]snapshot.PodSample{}
	isProject := func(shard string) bool { return c.hasProject(ctx, shard) }
	if !c.indexed || len(namespaces) > fewNamespaces {
		var projects kubedcv1.ProjectList
		if err := c.reader.List(ctx, &projects, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list Projects: %w", err)
		}
		served := projectShards(projects.Items)
		isProject = func(shard string) bool { return served[shard] }
	}
	selecting := c.selectorLookup(of)
	for i := range namespaces {
		ns := &namespaces[i]
		if c.isManagementNamespace(ctx, ns) || ns.DeletionTimestamp != nil || isProject(ns.Name) {
			continue
		}
		if err := c.addUnservedPods(ctx, ns, selecting(ns), out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// addUnservedPods adds the pods of a namespace to the EgressIPs that select them, of those that select the namespace.
func (c *Cluster) addUnservedPods(ctx context.Context, ns *corev1.Namespace, selecting []*ovnv1.EgressIP,
	out map[string]snapshot.PodSample,
) error {
	var pods corev1.PodList
	read := false
	for _, e := range selecting {
		choice, readable := c.cachedSelectors(e)
		if !readable || e.DeletionTimestamp != nil {
			continue
		}
		if !read {
			if err := c.reader.List(ctx, &pods, client.InNamespace(ns.Name), client.UnsafeDisableDeepCopy); err != nil {
				return fmt.Errorf("list pods of %s: %w", ns.Name, err)
			}
			read = true
		}
		selected := out[e.Name]
		for i := range pods.Items {
			if pod := &pods.Items[i]; choice.matchesPod(pod) {
				selected.AddPod(pod.Namespace + "/" + pod.Name)
			}
		}
		out[e.Name] = selected
	}
	return nil
}

func (c *Cluster) readEgressIP(e *ovnv1.EgressIP, selected selectedPods, nodes []*corev1.Node) snapshot.EgressIP {
	scope := selected.scopes[e.Name]
	out := snapshot.EgressIP{
		Meta:                 readMeta(e.ObjectMeta),
		Addresses:            e.Spec.EgressIPs,
		Vpcs:                 slices.Compact(slices.Sorted(slices.Values(scope.vpcs))),
		ManagementNamespaces: slices.Sorted(slices.Values(scope.managementNamespaces)),
		UnservedPods:         selected.unserved[e.Name],
	}
	out.RebalanceRequested, out.Rebalanced = e.Annotations[ovnv1.RebalanceAnnotation], e.Status.Rebalanced
	choice, readable := c.cachedSelectors(e)
	if !readable {
		_, err := readEgressSelectors(e)
		out.Malformed = snapshot.Malformed(err.Error())
		return out
	}
	if choice.nodes == nil {
		return out
	}
	out.EligibleNodes = map[string]bool{}
	for _, n := range nodes {
		if choice.nodes.Matches(labels.Set(n.Labels)) {
			out.EligibleNodes[n.Name] = true
		}
	}
	return out
}

// readEgressNode reads a node that may hold egress addresses.
func readEgressNode(n *corev1.Node) snapshot.Node {
	out := snapshot.Node{Name: n.Name, Chassis: n.Annotations[kubeovn.ChassisAnnotation]}
	_, drains := n.Labels[ovnv1.DrainLabel]
	out.Ready = IsNodeReady(n) && out.Chassis != "" && n.DeletionTimestamp == nil
	out.Draining = n.Spec.Unschedulable && drains
	for _, a := range n.Status.Addresses {
		if address := parseAddr(a.Address); address.IsValid() {
			out.Addresses = append(out.Addresses, address)
		}
	}
	return out
}

// IsNodeReady reports whether the kubelet of a node reports that it is ready.
func IsNodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// EgressIPObjects returns the EgressIPs, which get a status.
func (in *Inputs) EgressIPObjects() []client.Object {
	out := make([]client.Object, 0, len(in.egressIPs))
	for _, e := range in.egressIPs {
		out = append(out, e)
	}
	return out
}

// enqueueEgress enqueues the shard of egress addresses if there are EgressIPs.
func (w *eventMapper) enqueueEgress(ctx context.Context) {
	if w.cluster.hasEgressIPs(ctx) {
		w.enqueue(shard.Egress)
	}
}

// enqueueEgressOf enqueues the EgressIPs that select, or selected, one of the versions of a namespace. If networks are
// restricted, labels of namespaces, and of the organizations of Projects, also decide which of them may use a network:
// then it enqueues the whole shard of egress addresses.
func (w *eventMapper) enqueueEgressOf(ctx context.Context, versions ...client.Object) {
	isRestricted := w.cluster.hasRestrictedNetwork(ctx)
	for _, ns := range versions {
		switch {
		case ns == nil:
		case !isRestricted:
			w.enqueueSelectingEgressIPs(ctx, ns)
		case w.cluster.isSelected(ctx, ns) || w.cluster.isOrganization(ctx, ns.GetName()):
			w.enqueueEgress(ctx)
			return
		}
	}
}

// enqueueSelectingEgressIPs enqueues the EgressIPs that select a namespace.
func (w *eventMapper) enqueueSelectingEgressIPs(ctx context.Context, ns client.Object) {
	selecting, err := w.cluster.selectingEgressIPs(ctx, ns)
	if err != nil {
		w.enqueueEgress(ctx)
		return
	}
	for _, e := range selecting {
		w.enqueueOnly(shard.Egress, intent.ObjectKey{Kind: intent.EgressIP, Name: e.Name})
	}
}

// handleEgressIP enqueues the EgressIP, and the VPCs whose pods it selects or selected. An event of its status is
// enqueued too: somebody else may have changed it.
func (w *eventMapper) handleEgressIP(ctx context.Context, name string, was, is client.Object) {
	w.cluster.indexEgressIP(name, is)
	w.enqueueOnly(shard.Egress, intent.ObjectKey{Kind: intent.EgressIP, Name: name})
	if was != nil && is != nil && was.GetGeneration() == is.GetGeneration() &&
		was.GetDeletionTimestamp().Equal(is.GetDeletionTimestamp()) {
		return
	}
	for _, object := range []client.Object{was, is} {
		e, there := object.(*ovnv1.EgressIP)
		if !there || e == nil {
			continue
		}
		scopes, err := w.cluster.listEgressScopes(ctx, []*ovnv1.EgressIP{e})
		if err != nil {
			return // the cache is not synced yet; every object will be an event
		}
		for _, vpc := range slices.Compact(scopes[e.Name].vpcs) {
			w.enqueueNamed(vpc)
		}
	}
}

// handleSelectedPod enqueues the VPC of a pod that an EgressIP or EgressRoute may select when its labels, addresses or
// node changed. For a pod that is not served it enqueues the shard of egress addresses.
func (w *eventMapper) handleSelectedPod(ctx context.Context, was, is client.Object) {
	object := is
	if object == nil {
		object = was
	}
	matters := func(o client.Object) any {
		pod, there := o.(*corev1.Pod)
		if !there || pod == nil {
			return nil
		}
		return []any{pod.Labels, podAddresses(pod), pod.Spec.NodeName}
	}
	if was != nil && is != nil && reflect.DeepEqual(matters(was), matters(is)) {
		return
	}
	ns, err := w.cluster.readObject(ctx, intent.ObjectKey{Kind: intent.Namespace, Name: object.GetNamespace()})
	if err != nil {
		return
	}
	if w.cluster.isSelected(ctx, ns) {
		switch {
		case belongsToShard(ns, ns.GetName()):
			w.enqueueNamespace(ctx, object.GetNamespace())
		case w.cluster.isManagementNamespace(ctx, ns.(*corev1.Namespace)):
			w.enqueueOnly(shard.Named(kubeovn.ManagementVpc),
				intent.ObjectKey{Kind: Pod, Namespace: object.GetNamespace(), Name: object.GetName()})
		default:
			w.enqueueSelectingEgressIPs(ctx, ns) // they report that the pod is not served
		}
	}
	if w.cluster.hasEgressRoutes(ctx, ns.GetName()) {
		w.enqueueEgressPolicies(ctx, object.GetNamespace())
	}
}

// handleNamespaceLabels enqueues what depends on the labels of a namespace, and the EgressIPs that select a namespace
// whose pods get addresses in another Subnet.
func (w *eventMapper) handleNamespaceLabels(ctx context.Context, was, is client.Object) {
	if was != nil && is != nil && podSubnet(was.(*corev1.Namespace)) != podSubnet(is.(*corev1.Namespace)) {
		w.enqueueEgressOf(ctx, is)
	}
	if was != nil && is != nil && reflect.DeepEqual(was.GetLabels(), is.GetLabels()) &&
		was.GetDeletionTimestamp().Equal(is.GetDeletionTimestamp()) {
		return
	}
	w.enqueueEgressOf(ctx, was, is)
	for _, o := range []client.Object{was, is} {
		if o != nil {
			w.enqueueIfProject(ctx, o.GetName())
			w.enqueueOrganization(ctx, o.GetName(), true) // networks admit Projects by these labels
			if w.cluster.isManagementNamespace(ctx, o.(*corev1.Namespace)) {
				w.enqueue(shard.NodePaths)
			}
		}
	}
}

// handleEgressNode enqueues the shard of egress addresses when a node changed in a way that affects where they are
// held.
func (w *eventMapper) handleEgressNode(ctx context.Context, was, is client.Object) {
	matters := func(o client.Object) any {
		n, there := o.(*corev1.Node)
		if !there || n == nil {
			return nil
		}
		return []any{n.Labels, readEgressNode(n)}
	}
	if !reflect.DeepEqual(matters(was), matters(is)) {
		w.enqueueEgress(ctx)
	}
}

// enqueueProjectEgress enqueues the shard of egress addresses if EgressIPs select the namespace of a project. If there
// is no namespace yet, its own event does.
func (w *eventMapper) enqueueProjectEgress(ctx context.Context, p *kubedcv1.Project) {
	name := snapshot.ProjectShard(p.Namespace, p.Name)
	if ns, err := w.cluster.readObject(ctx, intent.ObjectKey{Kind: intent.Namespace, Name: name}); err == nil &&
		w.cluster.isSelected(ctx, ns) {
		w.enqueueEgress(ctx)
	}
}
