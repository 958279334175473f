package compile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/sallyport/sallyport/internal/compile/assign"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/match"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Egress compiles the VPC that holds all egress addresses: a router with a port for each address, the nodes that hold
// it, and a link to each VPC whose pods use it. Shard compiles the other end of each link.
func Egress(w *snapshot.EgressInput) (*intent.Intent, []intent.Verdict) {
	out, verdicts, _ := EgressWithMemo(w)
	return out, verdicts
}

// EgressWithMemo does what Egress does. It also returns a memo, which is of use once everything is written: see Settle.
func EgressWithMemo(w *snapshot.EgressInput) (*intent.Intent, []intent.Verdict, *EgressMemo) {
	e := &egressCompiler{
		w:             w,
		out:           intent.New(),
		nodeByChassis: map[string]string{},
		linkNetworks:  map[string]netip.Prefix{},
		switchPorts:   map[*snapshot.ExternalSubnet][]string{},
	}
	e.readRequests()       // requested addresses and their networks
	e.assignNodes()        // node and standbys of each address
	e.emitEgressRouter()   // the router, and an OvnEip that reserves each address
	e.emitBFDSettings()    // BFD timers
	e.chooseLinkNetworks() // transit network of each link
	e.emitAddresses()      // ports, SNAT and routes
	e.emitLinkSourceACLs() // packets that no SNAT has translated
	return e.out, e.buildVerdicts(), &EgressMemo{w: w, requests: e.requests}
}

// egressCompiler holds one run.
type egressCompiler struct {
	w             *snapshot.EgressInput
	out           *intent.Intent
	requests      []*egressIPRequest
	nodeByChassis map[string]string
	linkNetworks  map[string]netip.Prefix               // networks of links, by port
	switchPorts   map[*snapshot.ExternalSubnet][]string // ports of egress addresses on external switches
}

// egressIPRequest is an EgressIP and the decisions about it.
type egressIPRequest struct {
	snapshot.EgressIP
	key               intent.ObjectKey
	addresses         []*egressAddress
	accepted, waiting intent.Finding
}

// egressAddress is one address of a request.
type egressAddress struct {
	address    netip.Addr
	external   *snapshot.ExternalSubnet
	node       string
	rebalanced bool     // moved to a node that holds fewer addresses
	chassis    []string // the node's, then those of the standbys
}

// egressRef is the origin of everything that all egress addresses share.
var egressRef = state.Ref{Kind: string(intent.Vpc), Name: ownership.EgressVpc}

// readRequests parses the requested addresses. One invalid or conflicting address rejects the whole request.
func (e *egressCompiler) readRequests() {
	for _, n := range e.w.Nodes {
		e.nodeByChassis[n.Chassis] = n.Name
	}
	for _, r := range sortByAge(e.w.EgressIPs, func(r snapshot.EgressIP) snapshot.Meta { return r.Meta }) {
		if r.Deleting {
			continue
		}
		q := &egressIPRequest{EgressIP: r, key: intent.ObjectKey{Kind: intent.EgressIP, Name: r.Name}}
		e.requests = append(e.requests, q)
		if r.Malformed != "" {
			q.accepted = intent.Finding{Reason: intent.InvalidEgressIP, Message: string(r.Malformed)}
			continue
		}
		for _, text := range r.Addresses {
			h, wrong := e.readAddress(text)
			q.accepted = firstProblem(q.accepted, wrong)
			if wrong.OK() {
				q.addresses = append(q.addresses, h)
			}
		}
		if !q.accepted.OK() {
			q.addresses = nil
		}
	}
}

func (e *egressCompiler) readAddress(text string) (*egressAddress, intent.Finding) {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return nil, intent.Finding{
			Reason:  intent.InvalidEgressIP,
			Message: fmt.Sprintf("%s is not an IP address", humanize.Quote(text)),
		}
	}
	var prefixes []string
	for i := range e.w.ExternalSubnets {
		x := &e.w.ExternalSubnets[i]
		if x.Unsupported {
			continue
		}
		prefixes = append(prefixes, fmt.Sprintf("%s (%s)", x.Prefix, x.Network))
		if !x.Prefix.Contains(a) {
			continue
		}
		if holder := e.w.AddressOwners[a]; holder.OvnEip != "" && holder.OvnEip != ownership.EgressOvnEipName(a) {
			return nil, intent.Finding{Reason: intent.EgressIPConflict, Message: fmt.Sprintf(
				"address %s is held by OvnEip %s; choose another address, or delete the OvnEip", a, holder.OvnEip)}
		}
		if a == x.Gateway || a == x.Prefix.Masked().Addr() {
			return nil, intent.Finding{Reason: intent.EgressIPConflict, Message: fmt.Sprintf(
				"address %s is the gateway or the network address; choose another address", a)}
		}
		return &egressAddress{address: a, external: x}, intent.Finding{}
	}
	slices.Sort(prefixes)
	return nil, intent.Finding{Reason: intent.AddressOutsideNetwork, Message: fmt.Sprintf(
		"address %s is in no external network; choose an address of: %s", a,
		cmp.Or(strings.Join(prefixes, ", "), "none"))}
}

// assignNodes chooses the node of each address.
func (e *egressCompiler) assignNodes() {
	on := map[string]bool{}
	for _, x := range e.w.ExternalSubnets {
		on[x.Subnet] = true
	}
	var nodes []assign.Node
	chassis := map[string]string{}
	for _, n := range e.w.Nodes {
		chassis[n.Name] = n.Chassis
		nodes = append(nodes, assign.Node{Name: n.Name, State: nodeState(n), Dead: n.Dead, Networks: on, Addresses: n.Addresses})
	}
	var requests []assign.Request
	for _, q := range e.requests {
		r := assign.Request{
			Name:      q.Name,
			Created:   q.Created,
			Nodes:     q.EligibleNodes,
			Rebalance: q.RebalanceRequested != q.Rebalanced,
		}
		for _, h := range q.addresses {
			r.Addresses = append(r.Addresses, e.currentPlacement(q, h))
		}
		requests = append(requests, r)
	}
	placed := map[string][]assign.Placement{}
	for _, p := range assign.Addresses(nodes, requests, e.w.AllowedMoves) {
		placed[p.Request] = append(placed[p.Request], p)
	}
	for _, q := range e.requests {
		q.applyPlacements(placed[q.Name], chassis)
	}
}

// currentPlacement returns the current placement of an address. The holder is the first chassis of its group, unless
// OVN has found that one dead. Then the address stays where OVN moved it, so that it does not follow a node that
// flaps.
func (e *egressCompiler) currentPlacement(q *egressIPRequest, h *egressAddress) assign.Address {
	out := assign.Address{IP: h.address, Network: h.external.Subnet}
	port := ownership.EgressRouterPort(h.address)
	if e.w.ChassisGroups[port].EgressIP != q.Name {
		return out // no holder, or held for another EgressIP
	}
	out.AvoidNode = e.nodeByChassis[e.w.FailedOverFrom[port]]
	holders := slices.Clone(e.w.ChassisGroups[port].Chassis)
	if i := slices.Index(holders, e.w.FailedOverTo[port]); i > 0 {
		holders = append(append(holders[i:i+1:i+1], holders[i+1:]...), holders[:i]...)
	}
	for i, chassis := range holders {
		switch node := e.nodeByChassis[chassis]; {
		case i == 0 && node == "":
			out.Holder = chassis // may not hold addresses any more: treated as dead
		case i == 0:
			out.Holder = node
		case node != "":
			out.Standbys = append(out.Standbys, node)
		}
	}
	return out
}

func nodeState(n snapshot.Node) assign.State {
	switch {
	case !n.Ready:
		return assign.Down
	case n.Draining:
		return assign.Draining
	default:
		return assign.Up
	}
}

// applyPlacements records where the addresses of a request are, and why some have no node.
func (q *egressIPRequest) applyPlacements(placed []assign.Placement, chassis map[string]string) {
	var unplaced []string
	for i, p := range placed {
		h := q.addresses[i]
		switch p.Reason {
		case assign.NodeAddress:
			q.accepted = firstProblem(q.accepted, intent.Finding{Reason: intent.EgressIPConflict, Message: fmt.Sprintf(
				"address %s belongs to node %s; choose another address", p.Address, p.ConflictsWith)})
		case assign.Taken:
			q.accepted = firstProblem(q.accepted,
				intent.Finding{Reason: intent.UnsupportedRequest, Message: fmt.Sprintf(
					"EgressIP %s already has address %s; choose another, or delete that EgressIP", p.ConflictsWith,
					p.Address)})
		case assign.NoNode:
			unplaced = append(unplaced, p.Address.String())
		default:
			h.node, h.rebalanced = p.Node, p.Rebalanced
			for _, node := range append([]string{p.Node}, p.Standbys...) {
				h.chassis = append(h.chassis, chassis[node])
			}
		}
	}
	next := "label nodes that are Ready with k8s.ovn.org/egress-assignable; each address needs a node of its own"
	switch {
	case !q.accepted.OK():
		q.addresses = nil
	case len(unplaced) == 0:
	case len(unplaced) == len(placed):
		q.waiting = intent.Finding{Reason: intent.NoMatchingNodeFound, Message: "no node can hold an address; " + next}
	default:
		q.waiting = intent.Finding{
			Reason:  intent.UnassignedRequest,
			Message: fmt.Sprintf("no node can hold %s; %s", strings.Join(unplaced, ", "), next),
		}
	}
}

// emitEgressRouter adds the Vpc and, for each address, the OvnEip that reserves it.
func (e *egressCompiler) emitEgressRouter() {
	meta := intent.Meta{Labels: ownership.ManagedLabels(ownership.EgressVpc)}
	if slices.ContainsFunc(e.requests, func(q *egressIPRequest) bool { return len(q.addresses) > 0 }) {
		e.out.AddObject(intent.ObjectKey{Kind: intent.Vpc, Name: ownership.EgressVpc},
			intent.NewObject(meta, kubeovn.VpcSpec{}), egressRef)
	}
	for _, q := range e.requests {
		for _, h := range q.addresses {
			if e.w.Engine.OvnEips[ownership.EgressOvnEipName(h.address)].FailedWithoutAddress {
				continue // Kube-OVN will never finish it: delete and recreate it
			}
			spec := kubeovn.OvnEipSpec{ExternalSubnet: h.external.Subnet, Type: "nat", Addresses: kubeovn.NewAddresses(h.address)}
			e.out.AddObject(intent.ObjectKey{Kind: intent.OvnEip, Name: ownership.EgressOvnEipName(h.address)},
				intent.NewObject(meta, spec), q.key.Ref())
		}
	}
}

// bfdMultiplier is the number of missed BFD packets after which a node is considered dead.
const bfdMultiplier = 3

// emitBFDSettings shortens OVN's BFD timers, unless somebody else has set them. The options are set with the first
// EgressIP and not removed with the last, because each change of them may move unrelated gateways for some seconds.
func (e *egressCompiler) emitBFDSettings() {
	if e.w.BFDInterval == 0 {
		return
	}
	period := strconv.FormatInt(e.w.BFDInterval.Milliseconds(), 10)
	for name, value := range map[string]string{
		"bfd-min-rx": period,
		"bfd-min-tx": period,
		"bfd-mult":   strconv.Itoa(bfdMultiplier),
	} {
		if ours, there := e.w.GlobalOptions[name]; ours || !there && len(e.out.Objects) > 0 {
			e.out.AddRow(ownership.EgressVpc, intent.NBGlobalOption{Name: name, Value: value}, egressRef)
		}
	}
}

// chooseLinkNetworks chooses the network of each link: the current one, or one derived from its name.
func (e *egressCompiler) chooseLinkNetworks() {
	taken := map[netip.Prefix]bool{}
	type freshLink struct {
		port   string
		inside internalAddresses
	}
	var fresh []freshLink
	e.forEachLink(func(_ *egressIPRequest, h *egressAddress, vpc string) {
		port, inside := ownership.EgressLinkPort(h.address, vpc), internalByFamily[ipfamily.Of(h.address)]
		if n := e.w.PortNetworks[port]; n.IsValid() && inside.linkPool.Contains(n.Addr()) &&
			n.Bits() == inside.linkPrefixLen && n.Addr() == n.Masked().Addr().Next() && !taken[n.Masked()] {
			e.linkNetworks[port], taken[n.Masked()] = n, true
			return
		}
		fresh = append(fresh, freshLink{port, inside})
	})
	for _, link := range fresh {
		port := link.port
		for n := ownership.HashName(port); ; n++ {
			network := link.inside.linkNetwork(n)
			if !taken[network.Masked()] {
				e.linkNetworks[port], taken[network.Masked()] = network, true
				break
			}
		}
	}
}

// linkNetwork returns the network of a link by number, with the egress router's address. A link has four addresses.
func (i internalAddresses) linkNetwork(number uint32) netip.Prefix {
	return netip.PrefixFrom(addressAt(i.linkPool, number<<2).Next(), i.linkPrefixLen)
}

func (e *egressCompiler) forEachLink(do func(q *egressIPRequest, h *egressAddress, vpc string)) {
	for _, q := range e.requests {
		for _, h := range q.addresses {
			for _, vpc := range q.admittedVPCs(h) {
				if h.node != "" {
					do(q, h, vpc)
				}
			}
		}
	}
}

// emitAddresses adds the rows of each address that has a node, as soon as its OvnEip reserves it.
func (e *egressCompiler) emitAddresses() {
	if e.w.PortNetworks != nil && len(e.out.Objects) > 0 {
		e.out.AddRow(ownership.EgressVpc, intent.LearnNeighboursOption(ownership.EgressVpc), egressRef)
	}
	for _, q := range e.requests {
		for _, h := range q.addresses {
			eip := e.w.Engine.OvnEips[ownership.EgressOvnEipName(h.address)]
			switch {
			case e.w.PortNetworks == nil:
				q.waiting = firstProblem(q.waiting,
					intent.Finding{Reason: intent.WaitingForEngine, Message: fmt.Sprintf(
						"Kube-OVN has not created the router of Vpc %s yet", ownership.EgressVpc)})
			case !eip.Ready || eip.Address != h.address:
				q.waiting = firstProblem(q.waiting,
					intent.Finding{Reason: intent.WaitingForEngine, Message: fmt.Sprintf(
						"OvnEip %s is not ready yet", ownership.EgressOvnEipName(h.address))})
			case h.node != "":
				e.emitAddress(q, h)
			}
		}
	}
	e.forEachLink(func(q *egressIPRequest, h *egressAddress, vpc string) {
		if e.w.PortNetworks != nil && !e.w.PeerPorts[ownership.VPCEgressLinkPort(vpc, h.address)] {
			q.waiting = firstProblem(q.waiting, intent.Finding{
				Reason:  intent.Programming,
				Message: fmt.Sprintf("VPC %s has no link to %s yet", vpc, h.address),
			})
		}
	})
}

// emitAddress adds the rows of an address. Its port is on the network like a host. Its own routing table sends packets
// from its links out through this port, not through another port on the same or another network.
func (e *egressCompiler) emitAddress(q *egressIPRequest, h *egressAddress) {
	row := func(r intent.Row) { e.out.AddRow(ownership.EgressVpc, r, q.key.Ref()) }
	port, table, x := ownership.EgressRouterPort(h.address), ownership.EgressRouteTable(h.address), h.external
	row(intent.HAChassisGroup{Name: port, Chassis: strings.Join(h.chassis, " ")})
	row(intent.LogicalRouterPort{
		Name:           port,
		MAC:            intent.DeriveMAC(port),
		Network:        netip.PrefixFrom(h.address, x.Prefix.Bits()),
		HAChassisGroup: port,
	})
	e.switchPorts[x] = append(e.switchPorts[x], ownership.EgressSwitchPort(x.Subnet, h.address))
	row(intent.LogicalSwitchPort{
		Switch:               x.Subnet,
		Name:                 ownership.EgressSwitchPort(x.Subnet, h.address),
		RouterPort:           port,
		AnnounceNATAddresses: true,
	})
	row(intent.GatewayPortSNAT{GatewayPort: port, External: h.address, Logical: internalByFamily[x.Family()].linkPool})
	row(intent.LogicalRouterStaticRoute{
		RouteTable: table,
		Prefix:     x.Family().Everything(),
		NextHop:    x.Gateway,
		OutputPort: port,
	})
	for _, half := range splitPrefix(x.Prefix.Masked()) {
		row(intent.LogicalRouterStaticRoute{RouteTable: table, Prefix: half, OutputPort: port})
	}
	for _, half := range e.splitOtherNetworks(x) {
		row(intent.LogicalRouterStaticRoute{RouteTable: table, Prefix: half, NextHop: x.Gateway, OutputPort: port})
	}
	for _, vpc := range q.admittedVPCs(h) {
		link := ownership.EgressLinkPort(h.address, vpc)
		row(intent.LogicalRouterPort{
			Name:       link,
			MAC:        intent.DeriveMAC(link),
			Network:    e.linkNetworks[link],
			Peer:       ownership.VPCEgressLinkPort(vpc, h.address),
			RouteTable: table,
		})
		// The other end translates to its own address. If it loses its chassis group, it does not, and the packets
		// would leave with the pods' addresses.
		row(intent.DropPolicy(ownership.EgressLinkSource, match.All(match.InPort(link),
			match.NotFrom(match.Addr(e.linkNetworks[link].Addr().Next())))).ToRouterPolicy())
	}
}

// splitOtherNetworks returns the halves of the prefixes of all other external networks. The router's connected routes are
// part of every routing table. Without a longer prefix, a packet to a host on another network would leave there, with the
// address of whoever has an EgressIP there.
func (e *egressCompiler) splitOtherNetworks(x *snapshot.ExternalSubnet) (out []netip.Prefix) {
	for i := range e.w.ExternalSubnets {
		other := &e.w.ExternalSubnets[i]
		if !other.Unsupported && other.Family() == x.Family() && other.Prefix.Masked() != x.Prefix.Masked() {
			halves := splitPrefix(other.Prefix.Masked())
			out = append(out, halves[:]...)
		}
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}

// emitLinkSourceACLs drops packets with the address of a link on the switches of external networks. OVN translates them
// on the node that holds the egress address only: a port without its chassis group, or a node that has just lost the
// address, would let them out.
func (e *egressCompiler) emitLinkSourceACLs() {
	for x, ports := range e.switchPorts {
		slices.Sort(ports)
		group := ownership.EgressPortGroup(x.Subnet)
		e.out.AddRow(ownership.EgressVpc, intent.PortGroup{Name: group, Ports: strings.Join(ports, " ")}, egressRef)
		e.out.AddRow(ownership.EgressVpc, intent.ACL{
			PortGroup: group, Direction: intent.FromLport, Priority: ownership.LinkSourcePriority, Action: "drop",
			Match: match.From(match.Prefix(internalByFamily[x.Family()].linkPool)).String(),
		}, egressRef)
	}
}

// namespacesIn returns the selected namespaces of a VPC. That of a project has its name.
func (q *egressIPRequest) namespacesIn(vpc string) []string {
	if vpc == kubeovn.ManagementVpc {
		return q.ManagementNamespaces
	}
	return []string{vpc}
}

// refusedNamespaces returns the selected namespaces of a VPC that may not use an address's network.
func (q *egressIPRequest) refusedNamespaces(h *egressAddress, vpc string) []string {
	return slices.DeleteFunc(slices.Clone(q.namespacesIn(vpc)), func(ns string) bool {
		return h.external.Admitted.AdmitsAny(ns)
	})
}

// admittedVPCs returns the VPCs that may use an address's network. All selected pods of a VPC use the same link, so all
// their namespaces have to be admitted.
func (q *egressIPRequest) admittedVPCs(h *egressAddress) []string {
	return slices.DeleteFunc(slices.Clone(q.Vpcs), func(vpc string) bool {
		return len(q.refusedNamespaces(h, vpc)) > 0
	})
}

// checkAdmission returns the finding that selected namespaces may not use the network of an address.
func (q *egressIPRequest) checkAdmission() intent.Finding {
	for _, h := range q.addresses {
		var refused []string
		for _, vpc := range q.Vpcs {
			refused = append(refused, q.refusedNamespaces(h, vpc)...)
		}
		if len(refused) > 0 {
			return intent.Finding{Reason: intent.NetworkNotAllowed, Message: fmt.Sprintf(
				"network %s of address %s is not available to %s; failurePolicy applies to all selected pods of "+
					"their VPCs; add them to allowedProjects or allowedNamespaces of the ExternalNetwork, "+
					"or exclude them in the selectors",
				h.external.Network, h.address, humanize.JoinLimited(refused, 3))}
		}
	}
	return intent.Finding{}
}

// checkUnservedPods returns the finding that the selectors match pods that can't use the addresses. Such pods are not
// redirected, and nothing stops them from leaving as they do without the EgressIP.
func (q *egressIPRequest) checkUnservedPods() intent.Finding {
	if q.UnservedPods.Number == 0 || !q.accepted.OK() {
		return intent.Finding{}
	}
	what, they := "selected pods are", "they leave"
	if q.UnservedPods.Number == 1 {
		what, they = "selected pod is", "it leaves"
	}
	served := ""
	if len(q.Vpcs) > 0 {
		served = fmt.Sprintf("; selected pods of %s are served", humanize.JoinLimited(q.Vpcs, 3))
	}
	return intent.Finding{Reason: intent.PodsNotServed, Message: fmt.Sprintf(
		"%d %s neither of a project nor on an overlay Subnet of VPC %s and can't use the addresses (%s as if not selected, "+
			"regardless of failurePolicy): %s%s; restrict the selectors to namespaces of projects and of such Subnets",
		q.UnservedPods.Number, what, kubeovn.ManagementVpc, they, q.UnservedPods, served)}
}

func (e *egressCompiler) buildVerdicts() []intent.Verdict {
	out := make([]intent.Verdict, 0, len(e.requests))
	for _, q := range e.requests {
		out = append(out, q.buildVerdict())
	}
	return out
}

func (q *egressIPRequest) buildVerdict() intent.Verdict {
	facts := intent.EgressIPFacts{Rebalanced: q.RebalanceRequested}
	for _, h := range q.addresses {
		if h.node != "" {
			facts.Leveled = facts.Leveled || h.rebalanced
			facts.Items = append(facts.Items, intent.EgressIPAssignment{Node: h.node, Address: h.address})
		}
	}
	return intent.Verdict{
		Object: q.key, Generation: q.Generation, Facts: facts, Accepted: q.accepted, Waiting: q.waiting,
		Partly:  firstProblem(q.checkAdmission(), q.checkUnservedPods()),
		Through: []state.Ref{egressRef},
	}
}
