package trace

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/match"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// returnPath is the owner kind of the rows of the return path.
const returnPath = "ReturnPath"

func sortedKeys[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }

func protocolName(number uint8) string {
	switch number {
	case match.TCP:
		return "tcp"
	case match.UDP:
		return "udp"
	case match.SCTP:
		return "sctp"
	default:
		return "icmp"
	}
}

// routerOwnerRef returns the Project of a router, or else its Vpc.
func (f *topology) routerOwnerRef(router string) state.Ref {
	if p, known := f.projectsByShard[router]; known {
		return p
	}
	return state.Ref{Kind: string(intent.Vpc), Name: router}
}

// switchOwnerRef returns the owner of a switch's VPC, or else the Subnet.
func (f *topology) switchOwnerRef(s *logicalSwitch) state.Ref {
	if s.subnet != nil && s.subnet.Vpc != "" && s.localnetPort == nil {
		return f.routerOwnerRef(s.subnet.Vpc)
	}
	return subnetRef(s.Name)
}

func subnetRef(name string) state.Ref { return state.Ref{Kind: string(intent.Subnet), Name: name} }

// networkRef returns the external network of a switch, or else the Subnet.
func (f *topology) networkRef(s *logicalSwitch) state.Ref {
	if s.network != nil {
		return s.network.Ref
	}
	return subnetRef(s.Name)
}

func (f *topology) networkName(s *logicalSwitch) string { return "network " + f.networkRef(s).Name }

// switchPortRef returns the pod or node at a switch port, or else the port.
func (f *topology) switchPortRef(at *switchPort) state.Ref {
	if p := f.podRefAtPort(at); p != (state.Ref{}) {
		return p
	}
	if node, is := kubeovn.NodeOfPort(at.Name); is {
		return clusterstate.NodeRef(node)
	}
	return state.Ref{Kind: "Port", Name: at.Name}
}

// podRefAtPort returns the pod at a switch port. Kube-OVN names ports POD.NAMESPACE, and those of further interfaces
// POD.NAMESPACE.PROVIDER.
func (f *topology) podRefAtPort(at *switchPort) state.Ref {
	for name := at.Name; name != ""; name = name[:max(0, strings.LastIndexByte(name, '.'))] {
		if p, known := f.podsByPort[name]; known {
			return p
		}
	}
	return state.Ref{}
}

// describePod names the pod that has an address on one of the switches, or returns the address.
func (f *topology) describePod(a netip.Addr, on []*logicalSwitch) string {
	for _, s := range on {
		for _, at := range s.ports {
			if at.routerPort == nil && slices.Contains(at.Addresses, a) {
				return fmt.Sprintf("%s (%s)", f.switchPortRef(at), a)
			}
		}
	}
	return a.String()
}

// internalSwitches returns the switches of a router that are not external networks.
func (r *logicalRouter) internalSwitches() (out []*logicalSwitch) {
	for _, p := range r.ports {
		if p.switchPort != nil && p.switchPort.onSwitch.localnetPort == nil {
			out = append(out, p.switchPort.onSwitch)
		}
	}
	return out
}

// siblingSwitches returns the internal switches of all routers that a switch is connected to.
func (s *logicalSwitch) siblingSwitches() (out []*logicalSwitch) {
	for _, at := range s.ports {
		if at.routerPort != nil {
			out = append(out, at.routerPort.router.internalSwitches()...)
		}
	}
	return out
}

// rowOwnerRef returns the object that a row belongs to according to its external_ids, or else the given one.
func (f *topology) rowOwnerRef(ids logical.ExternalIDs, other state.Ref) state.Ref {
	if owner := ids.Owner(); owner != (state.Ref{}) {
		return owner
	}
	return other
}

// natOwnerRef returns the object that a NAT entry belongs to.
func (f *topology) natOwnerRef(t natEntry) state.Ref {
	if owner := t.IDs.Owner(); owner != (state.Ref{}) {
		return owner
	}
	if t.Type != "snat" {
		if known := f.addressRefs(t.External); len(known) > 0 {
			return known[0]
		}
	}
	return f.routerOwnerRef(t.gatewayPort.router.Name)
}

func (f *topology) formatNATRow(t natEntry) string {
	return fmt.Sprintf("NAT %s %s %s", t.Type, t.External, t.Logical)
}

// vipOwnerRef returns the Service of a VIP. Kube-OVN has one load balancer for all cluster IPs of a VPC.
func (f *topology) vipOwnerRef(b *logical.LoadBalancer, at netip.AddrPort) state.Ref {
	if s, known := f.servicesByClusterIP[at.Addr()]; known {
		return s
	}
	if owner := b.VIPOwner(at); owner != (state.Ref{}) {
		return owner
	}
	return state.Ref{Kind: "LoadBalancer", Name: b.Name}
}

func (w *traceRun) describeBackend(b *logical.LoadBalancer, v logical.VIP, to netip.AddrPort,
	on []*logicalSwitch,
) string {
	text := fmt.Sprintf("port %d is forwarded to port %d of %s", v.Address.Port(), to.Port(),
		w.describePod(to.Addr(), on))
	if n := len(w.liveBackends(b, v)); n > 1 {
		text += fmt.Sprintf(", one of %d", n)
	}
	if seconds := b.Options["affinity_timeout"]; seconds != "" {
		text += fmt.Sprintf("; session affinity keeps a client on its backend for %s s", seconds)
	}
	return text
}

// describeMark explains a mark.
func (w *traceRun) describeMark(q logical.QoS, mark uint32) string {
	switch owner := q.IDs.Owner(); {
	case mark == ownership.ForgedMark:
		return "is marked as forged: pods may not send to a return port or hairpin port"
	case mark == ownership.NodeReturnMark:
		return "is a reply of a connection that came in through a node: marked to leave through it"
	case owner.Kind == returnPath:
		return "is a reply of a connection that arrived on " + owner.Name + ": marked for the return path"
	default:
		return fmt.Sprintf("is marked %#x", mark)
	}
}

// describePolicy returns the owner of a router policy, what the policy does, and whether its origin is unknown.
func (f *topology) describePolicy(r *logicalRouter, rule logical.RouterPolicy) (state.Ref, string, bool) {
	vpc := f.routerOwnerRef(r.Name)
	about := f.rowOwnerRef(rule.IDs, vpc)
	to := strings.Trim(fmt.Sprint(rule.NextHops), "[]")
	switch p := rule.Priority; {
	case rule.Action == "drop" && ownership.IsOwnPriority(r.Name, p) && describeDrop(p, about) != "":
		return about, describeDrop(p, about), false
	case p == ownership.ReturnReply:
		return f.returnPortRef(r, to, about),
			"its mark sends it back through the switch to the return port of its network", false
	case p == ownership.ReturnLeave:
		return f.returnPortRef(r, to, about), fmt.Sprintf("packets from the return port go to gateway %s", to), false
	case p == ownership.DefaultEgress || p == ownership.EgressUnselected:
		return about, fmt.Sprintf("takes the project's default egress, to gateway %s", to), false
	case p == ownership.DefaultEgressOnLink || p == ownership.EgressUnselectedOnLink:
		return about, "is for an on-link host of the project's default network", false
	case ownership.IsOwnPriority(r.Name, p):
		return about, "sends it to " + f.describeNextHop(r, rule, to), false
	default:
		return about, fmt.Sprintf("policy %d of router %s: %s %s", p, r.Name, rule.Action, to), !isKubeOVNPolicy(rule)
	}
}

// describeNextHop returns where a policy sends packets: to another router by name, because the addresses of links between
// routers mean nothing to people, or else to an address.
func (f *topology) describeNextHop(r *logicalRouter, rule logical.RouterPolicy, to string) string {
	for _, hop := range rule.NextHops {
		for _, p := range r.ports {
			if p.peer != nil && p.peer.router != r && p.isOnLink(hop) {
				return "router " + p.peer.router.Name
			}
		}
	}
	return to
}

// describeDrop returns why a policy of Sallyport drops a packet, or an empty string if the priority does not say it.
func describeDrop(priority int, about state.Ref) string {
	switch priority {
	case ownership.ReturnForged:
		return "a pod has sent it directly to a port of the return path, which is not allowed"
	case ownership.EgressFailClosed:
		return "no EgressIP selects the pod yet, and an EgressIP of the project fails closed"
	case ownership.ManagementFailClosed:
		return "the router has no port to the egress address of the pod, and its EgressIP fails closed"
	case ownership.EgressIPSelected, ownership.ManagementEgressIP:
		return fmt.Sprintf("no node holds an address of %s, and it fails closed", about)
	default:
		return ""
	}
}

// isKubeOVNPolicy reports whether a policy looks like one of Kube-OVN's own.
func isKubeOVNPolicy(rule logical.RouterPolicy) bool {
	own := []int{29000, 29090, 29100, 29150, 29190, 29200, 29250, 29400, 29500, 30000, 30050, 30060, 30100, 31000}
	return slices.Contains(own, rule.Priority) && rule.IDs["vendor"] == "kube-ovn"
}

// returnPortRef returns the return path that a next hop belongs to, or else the given object.
func (f *topology) returnPortRef(r *logicalRouter, hop string, other state.Ref) state.Ref {
	for _, p := range r.ports {
		owner := p.IDs.Owner()
		if owner.Kind != returnPath {
			continue
		}
		for _, n := range f.survey.Logical.Static {
			if n.Address.String() == hop && n.MAC == p.MAC {
				return owner
			}
		}
		if gateway, err := netip.ParseAddr(hop); err == nil && f.switches[owner.Name] != nil &&
			f.switches[owner.Name].isGateway(gateway) {
			return owner
		}
	}
	return other
}

// describeACL returns the owner of an ACL, the code for its effect, and what it does.
func (f *topology) describeACL(r acl, on *logicalSwitch) (state.Ref, string, string) {
	does := "drops it"
	if r.Action == "reject" {
		does = "rejects it"
	}
	ids := logical.ExternalIDs{}
	if r.portGroup != nil {
		ids = r.portGroup.IDs
	}
	if owner := r.IDs.Owner(); owner.Kind == string(intent.Service) {
		return owner, SourceRangesDrop,
			fmt.Sprintf("%s %s: its loadBalancerSourceRanges do not contain the client", owner, does)
	} else if owner == intent.IsolationRef(owner.Namespace) {
		return owner, RuleDrops, fmt.Sprintf("a misplaced pod is on switch %s: the isolation of %s %s",
			on.Name, owner.Namespace, does)
	} else if owner != (state.Ref{}) {
		switch r.Priority {
		case ownership.NetworkIsolationPriority:
			return owner, NetworkIsolates, fmt.Sprintf(
				"network %s keeps projects apart (isolation: Tenants) and %s: the source belongs to another project",
				on.Name, does)
		case ownership.LinkSourcePriority:
			return owner, RuleDrops, fmt.Sprintf("an ACL of network %s %s: it has the address of a link, because no "+
				"egress address translated it", on.Name, does)
		case ownership.AllowListPriority:
			return owner, AllowListDrops,
				fmt.Sprintf("an allow-list of %s %s: the peer is not on it", owner, does)
		case ownership.UnclassifiedPodPriority:
			return owner, RuleDrops, fmt.Sprintf("an ACL of %s %s: an EgressIP fails closed, and the controller has "+
				"not seen yet whether it selects the pod", owner, does)
		default:
			return owner, RuleDrops, fmt.Sprintf("an ACL of %s %s", owner, does)
		}
	}
	if namespace, name, is := strings.Cut(ids["np"], "/"); is {
		about := state.Ref{Kind: "NetworkPolicy", Namespace: namespace, Name: name}
		return about, NetworkPolicyDrops, fmt.Sprintf("%s %s: none of its rules allows this packet", about, does)
	}
	if sg := ids["sg"]; sg != "" {
		about := state.Ref{Kind: "SecurityGroup", Name: sg}
		return about, SecurityGroupDrops, fmt.Sprintf("%s %s", about, does)
	}
	where := "switch " + on.Name
	if r.portGroup != nil {
		where = "port group " + r.portGroup.Name
	}
	return f.switchOwnerRef(on), RuleDrops,
		fmt.Sprintf("ACL %s of %s %s (%s)", cmp.Or(r.Name, fmt.Sprint(r.Priority)), where, does, r.Match)
}
