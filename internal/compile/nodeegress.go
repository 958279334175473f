package compile

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// nodeEgressPolicy is a set of pods of the management VPC that leave through an external network of their nodes.
// vpcEgressPolicy is the counterpart in projects.
type nodeEgressPolicy struct {
	key                         intent.ObjectKey
	meta                        snapshot.Meta
	accepted, resolved, waiting intent.Finding

	pods         []snapshot.PodPlacement
	uplinks      []*snapshot.Uplink // networks; a pod uses the first that its node is on
	destinations []netip.Prefix
	addresses    []netip.Addr  // source addresses, at most one of each family; none: the interface's
	byAnnotation bool          // requested by the Service's annotation
	claims       []egressClaim // its pods that the policy can apply to
}

// allDestinations are the destinations of policies that name none.
var allDestinations = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

func (d *nodeEgressPolicy) isWanted() bool {
	return d.accepted.OK() && d.resolved.OK() && !d.meta.Deleting && len(d.uplinks) > 0
}

// resolveEgressPolicies resolves the networks, addresses and pods of each EgressRoute and EgressService: routes before
// Services, and of the same kind the oldest first. This is their order of precedence.
func (n *nodesCompiler) resolveEgressPolicies() {
	counts := destinationCounts{}
	for _, r := range sortByAge(n.w.EgressRoutes, func(r snapshot.EgressRoute) snapshot.Meta { return r.Meta }) {
		d := n.resolveEgressRoute(r)
		if d.isWanted() {
			d.accepted = counts.admitRoute(r)
		}
		n.egressPolicies = append(n.egressPolicies, d)
	}
	var all []*nodeEgressPolicy
	balancers := map[intent.ObjectKey]*snapshot.LoadBalancerService{}
	for i := range n.w.LoadBalancers {
		b := &n.w.LoadBalancers[i]
		balancers[intent.ObjectKey{Kind: intent.EgressService, Namespace: b.Namespace, Name: b.Name}] = b
	}
	for _, s := range n.w.EgressServices {
		key := intent.ObjectKey{Kind: intent.EgressService, Namespace: s.Namespace, Name: s.Name}
		all = append(all, n.resolveEgressService(s, balancers[key]))
		if !s.Deleting {
			delete(balancers, key) // it overrides the annotation
		}
	}
	for _, b := range balancers {
		if b.EgressByLBIP {
			d := n.resolveEgressService(snapshot.EgressService{Meta: b.Meta}, b)
			d.byAnnotation, d.key.Kind = true, intent.Service
			all = append(all, d)
		}
	}
	n.egressPolicies = append(n.egressPolicies, sortByAge(all, func(d *nodeEgressPolicy) snapshot.Meta {
		return d.meta
	})...)
}

// resolveEgressRoute returns the policy of an EgressRoute.
func (n *nodesCompiler) resolveEgressRoute(r snapshot.EgressRoute) *nodeEgressPolicy {
	d := &nodeEgressPolicy{
		key: intent.ObjectKey{Kind: intent.EgressRoute, Namespace: r.Namespace, Name: r.Name}, meta: r.Meta,
		pods: n.excludeHostNetwork(r.Pods), destinations: r.Destinations,
	}
	if d.accepted = checkMalformed(r.Malformed); !d.accepted.OK() {
		return d
	}
	kind, fits := "type", func(u *snapshot.Uplink) bool { return u.Type == r.Type }
	if r.Network != "" {
		kind, fits = "name", func(u *snapshot.Uplink) bool { return u.Name == r.Network }
	}
	found := n.filterUplinks(fits)
	d.uplinks = admittedUplinks(found, r.Namespace)
	switch {
	case len(found) == 0:
		d.resolved = n.uplinkNotFound(kind, cmp.Or(r.Network, r.Type))
	case len(d.uplinks) == 0:
		d.resolved = uplinkNotAllowed(found[0], r.Namespace)
	default:
		d.resolved, d.accepted = d.checkFamilies(), d.checkMethod()
	}
	return d
}

// resolveEgressService returns the policy for the pods behind a Service; b is nil if the Service does not exist.
func (n *nodesCompiler) resolveEgressService(s snapshot.EgressService,
	b *snapshot.LoadBalancerService,
) *nodeEgressPolicy {
	d := &nodeEgressPolicy{
		key:          intent.ObjectKey{Kind: intent.EgressService, Namespace: s.Namespace, Name: s.Name},
		meta:         s.Meta,
		destinations: allDestinations,
	}
	if b == nil {
		d.resolved = intent.Finding{Reason: intent.ServiceNotFound, Message: fmt.Sprintf(
			"there is no Service %s of type LoadBalancer in namespace %s; create it, or use the name of another",
			s.Name, s.Namespace)}
		return d
	}
	d.pods = n.excludeHostNetwork(b.Pods)
	named := n.uplinks
	if s.Network != "" {
		named = n.filterUplinks(func(u *snapshot.Uplink) bool { return u.Name == s.Network })
		if len(named) == 0 {
			named = n.filterUplinks(func(u *snapshot.Uplink) bool { return u.Type == s.Network })
		}
		if len(named) == 0 {
			d.resolved = n.uplinkNotFound("name or type", s.Network)
			return d
		}
	}
	found := named
	if named = admittedUplinks(found, s.Namespace); len(named) == 0 && len(found) > 0 {
		d.resolved = uplinkNotAllowed(found[0], s.Namespace)
		return d
	}
	if s.ByNetwork && s.Network != "" {
		d.uplinks = named
	} else {
		d.chooseByAddress(named, n.ownedAddresses(b), s)
		if len(b.ExternalIPs) > 0 && len(n.ownedAddresses(b)) == 0 {
			d.resolved = intent.Finding{}
			d.accepted = intent.Finding{Reason: intent.AddressTaken, Message: fmt.Sprintf(
				"address %s of Service %s belongs to an EIp or an older Service of another namespace; "+
					"assign the Service an address of its own",
				b.ExternalIPs[0], s.Name)}
		}
	}
	d.accepted = firstProblem(d.accepted, d.checkMethod())
	return d
}

// chooseByAddress chooses the networks on which an address of the Service is reachable and, unless the interface's
// address is requested, that address.
func (d *nodeEgressPolicy) chooseByAddress(among []*snapshot.Uplink, external []netip.Addr, s snapshot.EgressService) {
	if len(external) == 0 {
		d.resolved = intent.Finding{Reason: intent.TargetHasNoAddress, Message: fmt.Sprintf(
			"Service %s has no external address yet; check the controller that assigns it, such as MetalLB", s.Name)}
		return
	}
	for _, a := range external {
		on := slices.DeleteFunc(slices.Clone(among), func(u *snapshot.Uplink) bool { return !servesAddress(u, a) })
		switch {
		case len(on) == 0:
			continue
		case len(d.uplinks) == 0:
			d.uplinks = on
		case !servesAddress(d.uplinks[0], a):
			continue // the first address decides
		}
		if !s.ByNetwork && !slices.ContainsFunc(d.addresses, func(o netip.Addr) bool { return ipfamily.Same(o, a) }) {
			d.addresses = append(d.addresses, a)
		}
	}
	if len(d.uplinks) > 0 {
		return
	}
	if s.Network != "" {
		d.accepted = intent.Finding{Reason: intent.AddressOfAnotherNetwork, Message: fmt.Sprintf(
			"address %s is not in nodes.addresses of network %s and would be dropped there; "+
				"omit spec.network, or use sourceIPBy Network",
			external[0], s.Network)}
		return
	}
	d.accepted = intent.Finding{Reason: intent.AddressOutsideNetwork, Message: fmt.Sprintf(
		"address %s is in nodes.addresses of no ExternalNetwork; "+
			"ask the operator to add it to the network that it is reachable on", external[0])}
}

// ownedAddresses returns the addresses of a Service that belong to its namespace. Several Services may show the same
// address, and only its owner's pods may use it as source.
func (n *nodesCompiler) ownedAddresses(b *snapshot.LoadBalancerService) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(b.ExternalIPs), func(a netip.Addr) bool {
		return n.w.AddressNamespaces[a] != b.Namespace
	})
}

// excludeHostNetwork returns the pods that have an address of their own. Host-network pods have the node's.
func (n *nodesCompiler) excludeHostNetwork(pods []snapshot.PodPlacement) []snapshot.PodPlacement {
	return slices.DeleteFunc(slices.Clone(pods), func(p snapshot.PodPlacement) bool {
		return p.Node == "" || n.hosts[p.Address]
	})
}

func (n *nodesCompiler) filterUplinks(fits func(*snapshot.Uplink) bool) (out []*snapshot.Uplink) {
	for _, u := range n.uplinks {
		if fits(u) {
			out = append(out, u)
		}
	}
	return out
}

// admittedUplinks returns the networks that a namespace may use.
func admittedUplinks(uplinks []*snapshot.Uplink, namespace string) []*snapshot.Uplink {
	return slices.DeleteFunc(slices.Clone(uplinks), func(u *snapshot.Uplink) bool {
		return !u.Admitted.AdmitsAny(namespace)
	})
}

// uplinkNotAllowed returns the finding that a namespace may not use a network.
func uplinkNotAllowed(u *snapshot.Uplink, namespace string) intent.Finding {
	return intent.Finding{Reason: intent.NetworkNotAllowed, Message: fmt.Sprintf(
		"network %s (type %s) is not available to namespace %s; "+
			"use another, or ask the operator to add it to allowedNamespaces of the ExternalNetwork",
		u.Name, u.Type, namespace)}
}

func (n *nodesCompiler) uplinkNotFound(what, name string) intent.Finding {
	message := fmt.Sprintf("there is no ExternalNetwork of %s %s with spec.nodes, "+
		"and pods of the management VPC leave through their nodes; ",
		what, humanize.Quote(name))
	known := make([]string, 0, len(n.uplinks))
	for _, u := range n.uplinks {
		known = append(known, fmt.Sprintf("%s (%s)", u.Name, u.Type))
	}
	if slices.Sort(known); len(known) > 0 {
		message += "use one of " + strings.Join(known, ", ") + ", or ask the operator to add spec.nodes to another"
	} else {
		message += "there is none at all: ask the operator for one, or use a project's namespace"
	}
	return intent.Finding{Reason: intent.NetworkNotFound, Message: message}
}

// hasGatewayFor reports whether a network has a gateway of an address's family.
func hasGatewayFor(u *snapshot.Uplink, a netip.Addr) bool {
	return slices.ContainsFunc(u.Gateways, func(g netip.Addr) bool { return ipfamily.Same(g, a) })
}

// checkFamilies checks that the network has a gateway for every destination.
func (d *nodeEgressPolicy) checkFamilies() intent.Finding {
	for _, to := range d.destinations {
		if !slices.ContainsFunc(d.uplinks, func(u *snapshot.Uplink) bool { return hasGatewayFor(u, to.Addr()) }) {
			return intent.Finding{Reason: intent.FamilyNotServed, Message: fmt.Sprintf(
				"network %s has no gateway of the family of destination %s; "+
					"omit it, or ask the operator to add one to nodes.gateways", d.uplinks[0].Name, to)}
		}
	}
	return intent.Finding{}
}

// checkMethod checks that the network's method can serve the destinations.
func (d *nodeEgressPolicy) checkMethod() intent.Finding {
	for _, u := range d.uplinks {
		if u.Method == string(kubedcv1alpha1.NodeStatic) &&
			slices.ContainsFunc(d.destinations, func(p netip.Prefix) bool { return p.Bits() == 0 }) {
			return intent.Finding{Reason: intent.NeedsAnotherMethod, Message: fmt.Sprintf(
				"network %s has method Static, which needs destinations, but the policy is for all destinations; "+
					"name destinations in an EgressRoute, or ask the operator for another method", u.Name)}
		}
	}
	return intent.Finding{}
}

// sourceAddress returns the source address for a pod, and whether there is one for its family; invalid: the
// interface's.
func (d *nodeEgressPolicy) sourceAddress(pod netip.Addr) (netip.Addr, bool) {
	for _, a := range d.addresses {
		if ipfamily.Same(a, pod) {
			return a, true
		}
	}
	return netip.Addr{}, len(d.addresses) == 0
}

// egressClaim is the policy that applies to a pod's packets to a destination, and the path it gives them.
type egressClaim struct {
	policy *nodeEgressPolicy
	pod    snapshot.PodPlacement
	uplink *snapshot.Uplink
	source netip.Addr
}

// hasSamePath reports whether packets take the same path with either claim.
func (c egressClaim) hasSamePath(o egressClaim) bool {
	return c.uplink == o.uplink && c.source == o.source
}

// egressClaims are the claims on a pod, by destination.
type egressClaims map[netip.Prefix]egressClaim

// exceptedPrefixes returns the longer prefixes in a destination that other policies send elsewhere.
func (c egressClaims) exceptedPrefixes(to netip.Prefix) (out []netip.Prefix) {
	for p, o := range c {
		if p.Bits() > to.Bits() && to.Contains(p.Addr()) && !o.hasSamePath(c[to]) {
			out = append(out, p)
		}
	}
	return out
}

// claimPods decides which policy applies to each pod and destination: the first that asks for it.
func (n *nodesCompiler) claimPods() {
	for _, d := range n.egressPolicies {
		if !d.isWanted() {
			continue
		}
		for _, p := range d.pods {
			c, can := n.newEgressClaim(d, p)
			if !can {
				continue
			}
			if d.claims = append(d.claims, c); n.claims[p.Address] == nil {
				n.claims[p.Address] = egressClaims{}
			}
			for _, to := range d.destinations {
				if _, taken := n.claims[p.Address][to]; !taken && ipfamily.Same(to.Addr(), p.Address) {
					n.claims[p.Address][to] = c
				}
			}
		}
	}
}

// newEgressClaim returns the path that a policy gives a pod, and whether it can: through the first of its networks that
// the pod's node is on.
func (n *nodesCompiler) newEgressClaim(d *nodeEgressPolicy, p snapshot.PodPlacement) (egressClaim, bool) {
	source, can := d.sourceAddress(p.Address)
	attached := false
	for _, u := range d.uplinks {
		if attached = attached || n.attached[nodeNetworkKey{p.Node, u.Name}]; can &&
			n.attached[nodeNetworkKey{p.Node, u.Name}] && hasGatewayFor(u, p.Address) {
			return egressClaim{d, p, u, source}, true
		}
	}
	if attached {
		return egressClaim{}, false // the network lacks the family; the pod's address of the other family is served
	}
	d.waiting = firstProblem(d.waiting, intent.Finding{Reason: intent.NodeNotOnNetwork, Message: fmt.Sprintf(
		"pod address %s is on node %s, which is not on network %s, and uses the default egress; "+
			"run the pod on another node, or select this node in the network's nodeSelector", p.Address, p.Node,
		d.uplinks[0].Name)})
	return egressClaim{}, false
}

// addNodeEgress returns a network with the pods of a node that leave through it.
func (n *nodesCompiler) addNodeEgress(network kubedcv1alpha1.NodeNetwork, node string) kubedcv1alpha1.NodeNetwork {
	network.Egress = n.egress[nodeNetworkKey{node, network.Name}]
	if slices.ContainsFunc(network.Egress, func(e kubedcv1alpha1.NodeEgress) bool { return len(e.Destinations) == 0 }) {
		network.Inside, network.Hosts = sortedStrings(n.w.ClusterPrefixes), sortedStrings(n.w.NodeAddresses)
	}
	return network
}

// podGroup is a group of pods on a node that leave through a network in the same way: with the same destinations and
// exceptions.
type podGroup struct {
	at     nodeNetworkKey
	key    string
	egress kubedcv1alpha1.NodeEgress
	pods   []netip.Addr
}

// groupPods builds the egress entries of each network on each node.
func (n *nodesCompiler) groupPods() {
	for _, d := range slices.SortedFunc(slices.Values(n.egressPolicies), func(a, b *nodeEgressPolicy) int {
		return a.key.Compare(b.key)
	}) {
		groups := map[string]*podGroup{}
		for _, c := range d.claims {
			for _, g := range n.groupDestinations(c) {
				id := fmt.Sprint(g.at, g.key)
				if groups[id] == nil {
					groups[id] = &g
				}
				groups[id].pods = append(groups[id].pods, c.pod.Address)
			}
		}
		for _, id := range slices.Sorted(maps.Keys(groups)) {
			g := groups[id]
			g.egress.Pods = sortedStrings(g.pods)
			n.egress[g.at] = append(n.egress[g.at], g.egress)
		}
	}
}

// groupDestinations returns the egress entries of a pod: one for all destinations with the same exceptions.
func (n *nodesCompiler) groupDestinations(c egressClaim) (out []podGroup) {
	destinations, excepts := map[string][]netip.Prefix{}, map[string][]string{}
	all := n.claims[c.pod.Address]
	for to, has := range all {
		if has.policy == c.policy {
			except := sortedStrings(all.exceptedPrefixes(to))
			key := strings.Join(except, " ")
			destinations[key], excepts[key] = append(destinations[key], to), except
		}
	}
	for key, to := range destinations {
		e := kubedcv1alpha1.NodeEgress{
			By:           c.policy.key.String(),
			Destinations: sortedStrings(to),
			Except:       excepts[key],
			Address:      formatAddr(c.source),
		}
		if slices.ContainsFunc(to, func(p netip.Prefix) bool { return p.Bits() == 0 }) {
			e.Destinations = nil
		}
		out = append(out, podGroup{
			at:     nodeNetworkKey{c.pod.Node, c.uplink.Name},
			key:    fmt.Sprint(e.Address, e.Destinations, e.Except),
			egress: e,
		})
	}
	return out
}

func formatAddr(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// buildVerdicts returns the verdict on each EgressService and EgressRoute. A Service with the annotation may be served
// by another controller, so problems with it become a note (an event) instead.
func (n *nodesCompiler) buildVerdicts() (out []intent.Verdict) {
	for _, d := range n.egressPolicies {
		if !d.byAnnotation {
			out = append(out, n.buildVerdict(d))
			continue
		}
		if wrong := firstProblem(d.accepted, d.resolved); !wrong.OK() {
			n.out.Notes = append(n.out.Notes, intent.Note{Object: d.key, Finding: intent.Finding{
				Reason:  intent.NoEgress,
				Message: "its address can't be the source address of its pods: " + wrong.Message,
			}})
		}
	}
	slices.SortStableFunc(out, func(a, b intent.Verdict) int { return a.Object.Compare(b.Object) })
	return out
}

func (n *nodesCompiler) buildVerdict(d *nodeEgressPolicy) intent.Verdict {
	out := intent.Verdict{
		Object:     d.key,
		Generation: d.meta.Generation,
		Accepted:   d.accepted,
		Resolved:   d.resolved,
		Facts:      intent.EgressPolicyFacts{},
	}
	if !d.isWanted() {
		out.Waiting = deletingFinding(d.meta.Deleting)
		return out
	}
	facts := intent.EgressPolicyFacts{Pods: countPods(d.pods)}
	if len(d.addresses) > 0 {
		facts.Address = d.addresses[0]
	}
	names, places := map[string]bool{}, map[nodeNetworkKey]bool{}
	for _, c := range d.claims {
		names[c.uplink.Name], places[nodeNetworkKey{c.pod.Node, c.uplink.Name}] = true, true
	}
	if len(names) == 0 {
		names[d.uplinks[0].Name] = true
	}
	facts.Network = strings.Join(slices.Sorted(maps.Keys(names)), ",")
	for _, at := range slices.SortedFunc(maps.Keys(places), nodeNetworkKey.compare) {
		out.Through = append(out.Through, nodeRef(at.node))
		out.Waiting = firstProblem(out.Waiting, checkAgentReport(n.w.NodePaths, at.node, at.network))
	}
	out.Facts, out.Waiting, out.Partly = facts, firstProblem(out.Waiting, d.waiting), n.checkOutboundFIPs(d)
	return out
}

// checkOutboundFIPs returns the finding that pods of a policy leave with the address of a FIp and never reach the rules
// of their node.
func (n *nodesCompiler) checkOutboundFIPs(d *nodeEgressPolicy) intent.Finding {
	var overridden []string
	for _, p := range d.pods {
		if name := n.w.OutboundFIps[p.Address]; name != "" {
			overridden = append(overridden, fmt.Sprintf("%s (FIp %s)", p.Address, name))
		}
	}
	if slices.Sort(overridden); len(overridden) == 0 {
		return intent.Finding{}
	}
	return intent.Finding{Reason: intent.OverriddenByFIp, Message: fmt.Sprintf(
		"it has no effect on pods that leave with a floating IP: %s; remove spec.outbound of the FIp, or exclude the pods",
		humanize.JoinLimited(slices.Compact(overridden), 3))}
}

// countPods returns the number of pods with these addresses. A pod may have an address of each family.
func countPods(pods []snapshot.PodPlacement) int {
	number := map[ipfamily.Family]int{}
	for _, p := range pods {
		number[ipfamily.Of(p.Address)]++
	}
	return slices.Max(slices.AppendSeq([]int{0}, maps.Values(number)))
}

// checkAgentReport returns the reason why a node does not serve a network yet, as reported by its agent. A node without
// a NodePath has none.
func checkAgentReport(paths map[string]snapshot.NodePathStatus, node, network string) intent.Finding {
	path, written := paths[node]
	problem, known := path.NetworkProblems[network]
	switch {
	case !written || path.IsCurrent && known && problem == "":
		return intent.Finding{}
	case path.IsCurrent && known:
		return intent.Finding{Reason: intent.WaitingForAgent, Message: fmt.Sprintf(
			"node %s can't apply it: %s; see NodePath %s", node, problem, node)}
	default:
		return intent.Finding{Reason: intent.WaitingForAgent, Message: fmt.Sprintf(
			"node %s has not applied it yet: its agent has not reported on the current NodePath %s; "+
				"check that sallyport-agent is running there", node, node)}
	}
}
