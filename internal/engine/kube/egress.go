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

// readSelections returns which pods use which egress addresses and, if there are any, the addresses of all pods.
func (in *Inputs) readSelections() (out []snapshot.Selection, inside []netip.Addr) {
	ports := in.indexPodPorts()
	addressesOf := podExternalAddresses
	if in.Shard.Name == kubeovn.ManagementVpc {
		addressesOf = ports.addressesOf
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
		for _, pod := range in.pods {
			if in.selectsNamespace(e, pod.Namespace) && choice.pods.Matches(labels.Set(pod.Labels)) {
				s.Pods = append(s.Pods, addressesOf(pod)...)
			}
		}
		s.Addresses = ParseAddresses(e.Spec.EgressIPs)
		slices.SortFunc(s.Pods, netip.Addr.Compare)
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, nil
	}
	for _, pod := range in.pods {
		inside = append(inside, addressesOf(pod)...)
	}
	inside = append(inside, in.unselectedPortAddresses()...)
	slices.SortFunc(inside, netip.Addr.Compare)
	return out, slices.Compact(inside)
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
	scopes, err := c.listEgressScopes(ctx, in.egressIPs)
	if err != nil {
		return nil, nil, err
	}
	outside, err := c.selectUnservedPods(ctx, in.egressIPs)
	if err = errors.Join(err, c.gatherAllProjects(ctx, in),
		c.lookUpSelectedNamespaces(ctx, in, scopes)); err != nil {
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
		r := in.readEgressIP(e, scopes[e.Name])
		r.UnservedPods = outside[e.Name]
		out.EgressIPs = append(out.EgressIPs, r)
	}
	return in, out, nil
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

// selectUnservedPods returns, for each EgressIP, the selected pods that can't use its addresses. It skips the namespaces
// of projects, which may contain most of the pods.
func (c *Cluster) selectUnservedPods(ctx context.Context, of []*ovnv1.EgressIP) (map[string]snapshot.PodSample, error) {
	var projects kubedcv1.ProjectList
	var namespaces corev1.NamespaceList
	for _, list := range []client.ObjectList{&projects, &namespaces} {
		if err := c.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list %T: %w", list, err)
		}
	}
	out, selecting := map[string]snapshot.PodSample{}, c.selectorLookup(of)
	served := projectShards(projects.Items)
	for i := range namespaces.Items {
		ns := &namespaces.Items[i]
		if served[ns.Name] || c.isManagementNamespace(ctx, ns) || ns.DeletionTimestamp != nil {
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

func (in *Inputs) readEgressIP(e *ovnv1.EgressIP, scope egressScope) snapshot.EgressIP {
	out := snapshot.EgressIP{
		Meta:                 readMeta(e.ObjectMeta),
		Addresses:            e.Spec.EgressIPs,
		Vpcs:                 slices.Compact(slices.Sorted(slices.Values(scope.vpcs))),
		ManagementNamespaces: slices.Sorted(slices.Values(scope.managementNamespaces)),
	}
	out.RebalanceRequested, out.Rebalanced = e.Annotations[ovnv1.RebalanceAnnotation], e.Status.Rebalanced
	choice, err := readEgressSelectors(e)
	if err != nil {
		out.Malformed = snapshot.Malformed(err.Error())
		return out
	}
	if choice.nodes == nil {
		return out
	}
	out.EligibleNodes = map[string]bool{}
	for _, n := range in.nodes {
		if choice.nodes.Matches(labels.Set(n.Labels)) {
			out.EligibleNodes[n.Name] = true
		}
	}
	return out
}

// readEgressNode reads a node that may hold egress addresses.
func readEgressNode(n *corev1.Node) snapshot.Node {
	out := snapshot.Node{Name: n.Name, Chassis: n.Annotations[kubeovn.ChassisAnnotation]}
	for _, c := range n.Status.Conditions {
		out.Ready = out.Ready || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}
	_, drains := n.Labels[ovnv1.DrainLabel]
	out.Ready = out.Ready && out.Chassis != "" && n.DeletionTimestamp == nil
	out.Draining = n.Spec.Unschedulable && drains
	for _, a := range n.Status.Addresses {
		if address := parseAddr(a.Address); address.IsValid() {
			out.Addresses = append(out.Addresses, address)
		}
	}
	return out
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

// enqueueEgressOf enqueues the shard of egress addresses if EgressIPs select, or selected, one of the versions of a
// namespace, or if it is an organization: its labels decide which networks its Projects may use.
func (w *eventMapper) enqueueEgressOf(ctx context.Context, versions ...client.Object) {
	for _, ns := range versions {
		if ns != nil && (w.cluster.isSelected(ctx, ns) || w.cluster.isOrganization(ctx, ns.GetName())) {
			w.enqueueEgress(ctx)
			return
		}
	}
}

// handleEgressIP enqueues the shard of egress addresses and the VPCs whose pods the EgressIP selects or selected.
func (w *eventMapper) handleEgressIP(ctx context.Context, name string, was, is client.Object) {
	w.cluster.indexEgressIP(name, is)
	w.enqueue(shard.Egress)
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
			w.enqueueNamed(kubeovn.ManagementVpc)
		default:
			w.enqueue(shard.Egress) // reports that the pod is not served
		}
	}
	if w.cluster.hasEgressRoutes(ctx, ns.GetName()) {
		w.enqueueEgressPolicies(ctx, object.GetNamespace())
	}
}

// handleNamespaceLabels enqueues what depends on the labels of a namespace.
func (w *eventMapper) handleNamespaceLabels(ctx context.Context, was, is client.Object) {
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
