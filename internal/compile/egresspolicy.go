package compile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/match"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// vpcEgressPolicy is a set of pods that leave the project through another network than its default, with another source
// address, or both. EgressServices and EgressRoutes are such policies, and so are Services with the egress-service
// annotation.
type vpcEgressPolicy struct {
	key                         intent.ObjectKey
	meta                        snapshot.Meta
	accepted, resolved, waiting intent.Finding

	pods        []netip.Addr
	addressSet  string                   // name of the pods' address set
	external    *snapshot.ExternalSubnet // network; nil: unknown
	address     netip.Addr               // source address; invalid: that of the router's port
	rules       []egressRule
	natPriority int      // of the SNAT row: the higher one applies
	service     *service // with the annotation: its conditions report on the policy; nil: an own object
}

// egressRule is one destination of a policy and its router policy priorities.
type egressRule struct {
	destination    netip.Prefix // invalid: everything outside
	priority       int          // of the policy to the gateway; hosts on the network use onLinkPriority
	onLinkPriority int
}

// Priorities of SNAT rows.
const (
	natPriorityService = 10
	natPriorityRoute   = 20
)

func (d *vpcEgressPolicy) isWanted() bool {
	return d.accepted.OK() && d.external != nil && !d.meta.Deleting
}

// resolveEgressPolicies resolves the network, source address and pods of each EgressService and EgressRoute.
func (c *compiler) resolveEgressPolicies() {
	claimed := map[netip.Addr]bool{}
	for _, s := range c.listEgressServices() {
		d := c.resolveEgressService(s)
		// a pod behind several Services follows the oldest
		d.pods = slices.DeleteFunc(d.pods, func(a netip.Addr) bool { return claimed[a] })
		if d.isWanted() {
			for _, a := range d.pods {
				claimed[a] = true
			}
		}
		if d.service != nil && !d.accepted.OK() {
			d.setWaiting(intent.Finding{
				Reason:  intent.NoEgress,
				Message: "its address can't be the source address of its pods: " + d.accepted.Message,
			})
		}
		c.egressPolicies = append(c.egressPolicies, d)
	}
	same, counts := map[netip.Prefix]int{}, destinationCounts{}
	for _, r := range sortByAge(c.w.EgressRoutes, func(r snapshot.EgressRoute) snapshot.Meta { return r.Meta }) {
		d := c.resolveEgressRoute(r, same)
		if d.isWanted() {
			d.accepted = counts.admitRoute(r)
		}
		c.egressPolicies = append(c.egressPolicies, d)
	}
}

// maxDestinations is the maximum number of destinations of all EgressRoutes in a namespace. Each destination is two
// policies of the router, or a rule on every node that the pods run on.
const maxDestinations = 256

// destinationCounts is the number of EgressRoute destinations by namespace.
type destinationCounts map[string]int

// admitRoute counts the destinations of an EgressRoute, or returns the finding that there are too many.
func (n destinationCounts) admitRoute(r snapshot.EgressRoute) intent.Finding {
	if n[r.Namespace]+len(r.Destinations) > maxDestinations {
		return intent.Finding{Reason: intent.TooManyRoutes, Message: fmt.Sprintf(
			"older EgressRoutes of namespace %s have %d destinations, and the limit for all together is %d; "+
				"delete some, or combine them into shorter prefixes",
			r.Namespace, n[r.Namespace], maxDestinations)}
	}
	n[r.Namespace] += len(r.Destinations)
	return intent.Finding{}
}

// hasEgressPolicies reports whether the project has egress policies that apply, or FIps with outbound.
func (c *compiler) hasEgressPolicies() bool {
	return c.checkEgressSupported().OK() && !c.isVPCTerminating() &&
		(c.hasOutboundFIPs || slices.ContainsFunc(c.egressPolicies, (*vpcEgressPolicy).isWanted))
}

// checkEgressSupported checks whether the project can have egress policies.
func (c *compiler) checkEgressSupported() intent.Finding {
	if wrong := c.checkMembership(); !wrong.OK() {
		return wrong
	}
	p := c.project
	switch {
	case !p.prefix(c.familyOf(nil)).IsValid():
		return c.noPrefixOf(c.familyOf(nil))
	case p.defaultNetwork != nil && c.returnsBySource(p.defaultNetwork):
		return intent.Finding{Reason: intent.NeedsConnectionReturnPath, Message: fmt.Sprintf(
			"network %s routes replies by the pod's address (returnPath Source), so they would be redirected as well; "+
				"ask the operator for returnPath Connection, and for OVN 24.09 or later", p.defaultNetwork.Network)}
	default:
		return intent.Finding{}
	}
}

// egressServiceRequest is a request for the pods behind a Service, from an EgressService or from the Service's
// annotation.
type egressServiceRequest struct {
	snapshot.EgressService
	service *service // nil: from an EgressService
}

// listEgressServices returns the requests by age. An EgressService overrides the annotation of its Service.
func (c *compiler) listEgressServices() []egressServiceRequest {
	var all []egressServiceRequest
	requested := map[string]bool{}
	for _, s := range c.w.EgressServices {
		all = append(all, egressServiceRequest{EgressService: s})
		requested[s.Name] = !s.Deleting
	}
	for _, s := range c.services {
		if s.EgressByLBIP && !requested[s.Name] && s.Namespace == c.w.Shard {
			all = append(all, egressServiceRequest{snapshot.EgressService{Meta: s.Meta}, s})
		}
	}
	return sortByAge(all, func(b egressServiceRequest) snapshot.Meta { return b.Meta })
}

// resolveEgressService returns the policy for the pods behind a Service.
func (c *compiler) resolveEgressService(b egressServiceRequest) *vpcEgressPolicy {
	d := &vpcEgressPolicy{
		key: intent.ObjectKey{Kind: intent.EgressService, Namespace: b.Namespace, Name: b.Name}, meta: b.Meta,
		service:    b.service,
		addressSet: ownership.EgressServicePodSet(c.w.Shard, b.Name),
		rules: []egressRule{{
			priority:       ownership.EgressServiceBackends,
			onLinkPriority: ownership.EgressServiceOnLink,
		}}, natPriority: natPriorityService,
	}
	if b.service != nil {
		d.key = b.service.key
	}
	if d.accepted = c.checkEgressSupported(); !d.accepted.OK() {
		return d
	}
	i := slices.IndexFunc(c.services, func(s *service) bool {
		return s.key.Namespace == b.Namespace && s.key.Name == b.Name
	})
	if i < 0 {
		d.resolved = intent.Finding{Reason: intent.ServiceNotFound, Message: fmt.Sprintf(
			"Sallyport serves no Service %s of type LoadBalancer in namespace %s; "+
				"create it, or use the name of another", b.Name, b.Namespace)}
		return d
	}
	s := c.services[i]
	if s.isSecond {
		d.resolved = c.checkSecondService(&service{Service: s.Service, isSecond: true})
	}
	if !s.isWanted() {
		d.waiting = intent.Finding{
			Reason:  intent.WaitingForEIp,
			Message: fmt.Sprintf("Service %s has no address yet; see its conditions", s.Name),
		}
		return d
	}
	for _, e := range s.Endpoints {
		if c.project.owns(e.Address) {
			d.pods = append(d.pods, e.Address)
		}
	}
	d.external, d.resolved = c.chooseEgressNetwork(b, s)
	switch {
	case d.external == nil || b.ByNetwork:
	case d.external.Subnet != s.eip.external.Subnet:
		d.accepted = intent.Finding{Reason: intent.AddressOfAnotherNetwork, Message: fmt.Sprintf(
			"address %s belongs to network %s and would be dropped on %s; omit spec.network, or use sourceIPBy Network",
			s.eip.address, s.eip.external.Network, d.external.Network)}
	default:
		d.address = s.eip.address
	}
	return d
}

// chooseEgressNetwork returns the network for the pods behind a Service: the named one, preferably its subnet that the
// Service's address is in.
func (c *compiler) chooseEgressNetwork(b egressServiceRequest, s *service) (*snapshot.ExternalSubnet, intent.Finding) {
	if b.Network == "" {
		return s.eip.external, intent.Finding{}
	}
	found, wrong := c.resolveSubnets("", b.Network, b.Namespace)
	if wrong.Reason == intent.NetworkNotFound {
		found, wrong = c.resolveSubnets(b.Network, "", b.Namespace)
	}
	if !wrong.OK() {
		return nil, wrong
	}
	return pickPreferred(found,
		func(x *snapshot.ExternalSubnet) bool { return x.Subnet == s.eip.external.Subnet },
		func(x *snapshot.ExternalSubnet) bool { return c.hasExternalPort(x.Subnet) },
	), wrong
}

// resolveEgressRoute returns the policy of an EgressRoute. same counts the routes seen so far by destination.
func (c *compiler) resolveEgressRoute(r snapshot.EgressRoute, same map[netip.Prefix]int) *vpcEgressPolicy {
	d := &vpcEgressPolicy{
		key: intent.ObjectKey{Kind: intent.EgressRoute, Namespace: r.Namespace, Name: r.Name}, meta: r.Meta,
		addressSet: ownership.EgressRoutePodSet(c.w.Shard, r.Name), natPriority: natPriorityRoute,
	}
	if d.accepted = firstProblem(c.checkEgressSupported(), checkMalformed(r.Malformed),
		c.checkDestinations(r.Destinations)); !d.accepted.OK() {
		return d
	}
	found, wrong := c.resolveSubnets(r.Type, r.Network, r.Namespace)
	if d.resolved = wrong; !wrong.OK() {
		return d
	}
	for _, p := range r.Pods {
		if c.project.owns(p.Address) { // not the address of a host-network pod
			d.pods = append(d.pods, p.Address)
		}
	}
	for _, to := range r.Destinations {
		rank := same[to]
		if rank >= ownership.MaxRoutesPerDestination {
			d.accepted = intent.Finding{Reason: intent.TooManyRoutes, Message: fmt.Sprintf(
				"%d older EgressRoutes have destination %s, which is the limit; select their pods in one EgressRoute",
				rank, to)}
			return d
		}
		if !r.Deleting {
			same[to]++
		}
		priority := ownership.EgressRoutePriority(to.Bits(), rank)
		d.rules = append(d.rules, egressRule{destination: to, priority: priority, onLinkPriority: priority + 1})
	}
	d.external = pickPreferred(found, func(x *snapshot.ExternalSubnet) bool { return c.hasExternalPort(x.Subnet) })
	return d
}

// checkDestinations checks that all destinations are of the family of external networks.
func (c *compiler) checkDestinations(destinations []netip.Prefix) intent.Finding {
	f := c.familyOf(nil)
	for _, to := range destinations {
		if ipfamily.Of(to.Addr()) != f {
			return intent.Finding{Reason: intent.Malformed, Message: fmt.Sprintf(
				"destination %s is not an %[2]s prefix; external networks have %[2]s addresses only", to, f)}
		}
	}
	return intent.Finding{}
}

// emitEgressPolicies adds the rows of policies whose network the router is connected to.
func (c *compiler) emitEgressPolicies() {
	for _, d := range c.egressPolicies {
		if !d.isWanted() {
			continue
		}
		if why := c.checkConnected(d.external); !why.OK() {
			d.setWaiting(why)
			continue
		}
		c.emitOnLinkPort(d.external.Family())
		c.emitEgressReroutes(d)
		c.emitEgressSNAT(d)
	}
}

// checkConnected returns the reason why a network can't be used yet.
func (c *compiler) checkConnected(x *snapshot.ExternalSubnet) intent.Finding {
	switch {
	case c.isVPCTerminating() || c.w.Engine.RouterPorts == nil:
		return intent.Finding{
			Reason:  intent.WaitingForEngine,
			Message: fmt.Sprintf("router %s does not exist yet", c.w.Shard),
		}
	case c.w.Engine.OvnEips[c.externalPortName(x.Subnet)].Deleting:
		return beingDeletedFinding(intent.OvnEip, c.externalPortName(x.Subnet))
	default:
		return c.checkExternalPort(x.Subnet)
	}
}

// setWaiting records what a policy waits for, on the policy or on the Service that requested it.
func (d *vpcEgressPolicy) setWaiting(why intent.Finding) {
	waiting := &d.waiting
	if d.service != nil {
		waiting = &d.service.waiting
	}
	*waiting = firstProblem(*waiting, why)
}

// emitEgressReroutes adds the policies that send pods' packets to the network's gateway, and directly to hosts on the
// network.
func (c *compiler) emitEgressReroutes(d *vpcEgressPolicy) {
	row := func(r intent.Row) { c.out.AddRow(c.w.Shard, r, d.key.Ref()) }
	row(intent.AddressSet{Name: d.addressSet, Addresses: joinAddresses(d.pods)})
	onLink := d.external.Prefix.Masked()
	for _, w := range d.rules {
		pods := match.AddressSet(d.external.Family(), d.addressSet)
		packets, onLinkPart := c.matchEgress(pods), onLink
		if w.destination.IsValid() {
			packets = match.All(packets, match.To(match.Prefix(w.destination)))
			onLinkPart = intersectPrefixes(w.destination, onLink)
		}
		row(intent.ReroutePolicy(w.priority, packets, d.external.Gateway).ToRouterPolicy())
		if onLinkPart.IsValid() {
			row(c.onLinkPolicy(w.onLinkPriority, d.external.Family(),
				match.All(match.From(pods), match.To(match.Prefix(onLinkPart)))).ToRouterPolicy())
		}
	}
}

// emitEgressSNAT adds the SNAT of a policy. The project's own SNAT covers its default network only.
func (c *compiler) emitEgressSNAT(d *vpcEgressPolicy) {
	if c.isDefaultNetwork(d.external) && !d.address.IsValid() {
		return
	}
	packets := match.From(match.AddressSet(d.external.Family(), d.addressSet))
	var to []match.Network
	for _, w := range d.rules {
		if w.destination.IsValid() {
			to = append(to, match.Prefix(w.destination))
		}
	}
	if len(to) > 0 {
		packets = match.All(packets, match.To(match.AnyOf(to...)))
	}
	c.out.AddRow(c.w.Shard, intent.GatewayPortSNAT{
		GatewayPort: c.externalPortName(d.external.Subnet), External: c.sourceAddress(d),
		Logical: d.external.Family().Everything(), Match: packets.String(), Priority: d.natPriority,
	}, d.key.Ref())
}

// sourceAddress returns the source address for the pods of a policy.
func (c *compiler) sourceAddress(d *vpcEgressPolicy) netip.Addr {
	return cmp.Or(d.address, c.w.Engine.OvnEips[c.externalPortName(d.external.Subnet)].Address)
}

// intersectPrefixes returns the intersection of two prefixes: the longer one, or none.
func intersectPrefixes(a, b netip.Prefix) netip.Prefix {
	switch {
	case !a.Overlaps(b):
		return netip.Prefix{}
	case a.Bits() > b.Bits():
		return a
	default:
		return b
	}
}

func (d *vpcEgressPolicy) buildVerdict(c *compiler) intent.Verdict {
	facts := intent.EgressPolicyFacts{}
	if d.isWanted() {
		facts = intent.EgressPolicyFacts{Network: d.external.Subnet, Address: c.sourceAddress(d), Pods: len(d.pods)}
	}
	return intent.Verdict{
		Object: d.key, Generation: d.meta.Generation, Facts: facts,
		Accepted: d.accepted, Resolved: d.resolved, Waiting: firstProblem(deletingFinding(d.meta.Deleting), d.waiting),
	}
}
