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

// returnPath is what the rows of legs say that they are for.
const returnPath = "ReturnPath"

func sortedKeys[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }

// protocolName is the name of a protocol.
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

// routerOwnerRef is what a router is known as: the Project whose it is, or its Vpc.
func (f *topology) routerOwnerRef(router string) state.Ref {
	for _, p := range f.survey.Cluster.Projects {
		if p.Shard == router {
			return p.Ref
		}
	}
	return state.Ref{Kind: string(intent.Vpc), Name: router}
}

// switchOwnerRef is that of a switch.
func (f *topology) switchOwnerRef(s *logicalSwitch) state.Ref {
	if s.subnet != nil && s.subnet.Vpc != "" && s.localnetPort == nil {
		return f.routerOwnerRef(s.subnet.Vpc)
	}
	return subnetRef(s.Name)
}

func subnetRef(name string) state.Ref { return state.Ref{Kind: string(intent.Subnet), Name: name} }

// networkRef is the external network of a switch.
func (f *topology) networkRef(s *logicalSwitch) state.Ref {
	if s.network != nil {
		return s.network.Ref
	}
	return subnetRef(s.Name)
}

func (f *topology) networkName(s *logicalSwitch) string { return "network " + f.networkRef(s).Name }

// switchPortRef is who is at a port of a switch: a pod, a node, or whoever.
func (f *topology) switchPortRef(at *switchPort) state.Ref {
	if p := f.podRefAtPort(at); p != (state.Ref{}) {
		return p
	}
	if node, is := kubeovn.NodeOfPort(at.Name); is {
		return clusterstate.NodeRef(node)
	}
	return state.Ref{Kind: "Port", Name: at.Name}
}

// podRefAtPort is the pod at a port of a switch. Kube-OVN names ports POD.NAMESPACE, and those of further interfaces
// POD.NAMESPACE.PROVIDER.
func (f *topology) podRefAtPort(at *switchPort) state.Ref {
	for _, p := range f.survey.Cluster.Pods {
		if kubeovn.IsPodPort(at.Name, p.Name, p.Namespace) {
			return p.Ref
		}
	}
	return state.Ref{}
}

// describePod is the pod with an address on one of the switches, or the address.
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

// podsWithAddress are the pods with an address. Projects may have the same ones.
func (f *topology) podsWithAddress(a netip.Addr) (out []state.Ref) {
	for _, p := range f.survey.Cluster.Pods {
		if !p.HostNetwork && slices.Contains(p.Addresses, a) {
			out = append(out, p.Ref)
		}
	}
	return out
}

// internalSwitches are the switches of a router that are not outside.
func (r *logicalRouter) internalSwitches() (out []*logicalSwitch) {
	for _, p := range r.ports {
		if p.switchPort != nil && p.switchPort.onSwitch.localnetPort == nil {
			out = append(out, p.switchPort.onSwitch)
		}
	}
	return out
}

// siblingSwitches are the switches of the routers that a switch is on.
func (s *logicalSwitch) siblingSwitches() (out []*logicalSwitch) {
	for _, at := range s.ports {
		if at.routerPort != nil {
			out = append(out, at.routerPort.router.internalSwitches()...)
		}
	}
	return out
}

// addressRefs are the objects of the API that have an external address.
func (f *topology) addressRefs(a netip.Addr) (out []state.Ref) {
	for _, o := range f.survey.Cluster.FIps {
		if o.External == a {
			out = append(out, o.Ref)
		}
	}
	for _, o := range f.survey.Cluster.Services {
		if slices.Contains(o.Ingress, a) || slices.Contains(o.ExternalIPs, a) {
			out = append(out, o.Ref)
		}
	}
	for _, o := range f.survey.Cluster.EIps {
		if o.Address == a {
			out = append(out, o.Ref)
		}
	}
	for _, o := range f.survey.Cluster.EgressIPs {
		if slices.Contains(o.Addresses, a.String()) {
			out = append(out, o.Ref)
		}
	}
	return out
}

// rowOwnerRef is the object that a row exists for, or else another.
func (f *topology) rowOwnerRef(ids logical.ExternalIDs, other state.Ref) state.Ref {
	if owner := ids.Owner(); owner != (state.Ref{}) {
		return owner
	}
	return other
}

// natOwnerRef is the object that a translation is there for.
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

// loadBalancerRef is the Service of a load balancer. Kube-OVN has one for all cluster addresses of a VPC.
func (f *topology) loadBalancerRef(b *logical.LoadBalancer, at netip.Addr) state.Ref {
	for _, s := range f.survey.Cluster.Services { // Kube-OVN has one row for the Services of a VPC
		if s.ClusterIP == at {
			return s.Ref
		}
	}
	return f.rowOwnerRef(b.IDs, state.Ref{Kind: "LoadBalancer", Name: b.Name})
}

func (w *traceRun) describeBackend(b *logical.LoadBalancer, v logical.VIP, to netip.AddrPort,
	on []*logicalSwitch,
) string {
	text := fmt.Sprintf("port %d goes to port %d of %s", v.Address.Port(), to.Port(), w.describePod(to.Addr(), on))
	if n := len(w.liveBackends(b, v)); n > 1 {
		text += fmt.Sprintf(", one of %d", n)
	}
	if seconds := b.Options["affinity_timeout"]; seconds != "" {
		text += fmt.Sprintf("; a client keeps its endpoint for %s s", seconds)
	}
	return text
}

// describeMark is what a mark is for.
func (w *traceRun) describeMark(q logical.QoS, mark uint32) string {
	switch owner := q.IDs.Owner(); {
	case mark == ownership.ForgedMark:
		return "is marked as one that pods may not send"
	case owner.Kind == returnPath:
		return "is a reply of a connection that came in by " + owner.Name + ": marked for the way back there"
	default:
		return fmt.Sprintf("is marked %#x", mark)
	}
}

// describePolicy are what a router policy is about, what it does, and whether it is nobody's that is known.
func (f *topology) describePolicy(r *logicalRouter, rule logical.RouterPolicy) (state.Ref, string, bool) {
	vpc := f.routerOwnerRef(r.Name)
	about := f.rowOwnerRef(rule.IDs, vpc)
	to := strings.Trim(fmt.Sprint(rule.NextHops), "[]")
	switch p := rule.Priority; {
	case rule.Action == "drop" && p == ownership.ReturnForged:
		return about, "a pod has sent to a leg of the return path itself, which drops it", false
	case rule.Action == "drop" && p == ownership.EgressFailClosed && ownership.IsOwnPriority(r.Name, p):
		return about, "no EgressIP selects the pod yet, and one of the project fails closed: it leaves nowhere", false
	case rule.Action == "drop" && p == ownership.EgressIPSelected && ownership.IsOwnPriority(r.Name, p):
		return about, fmt.Sprintf("%s has no address that a node holds, and fails closed", about), false
	case p == ownership.ReturnReply:
		return f.returnPortRef(r, to, about), "the mark leads it back through the switch to the leg of its network",
			false
	case p == ownership.ReturnLeave:
		return f.returnPortRef(r, to, about), fmt.Sprintf("what comes by the leg goes to gateway %s", to), false
	case p == ownership.DefaultEgress || p == ownership.EgressUnselected:
		return about, fmt.Sprintf("takes the project's way out, to gateway %s", to), false
	case p == ownership.DefaultEgressOnLink || p == ownership.EgressUnselectedOnLink:
		return about, "is for a host on the project's own external network", false
	case ownership.IsOwnPriority(r.Name, p):
		return about, fmt.Sprintf("%s leads it to %s", about, to), false
	default:
		return about, fmt.Sprintf("policy %d of router %s: %s %s", p, r.Name, rule.Action, to), !isKubeOVNPolicy(rule)
	}
}

// isKubeOVNPolicy says whether a policy looks like one that Kube-OVN makes for itself.
func isKubeOVNPolicy(rule logical.RouterPolicy) bool {
	own := []int{29000, 29090, 29100, 29150, 29190, 29200, 29250, 29400, 29500, 30000, 30050, 30060, 30100, 31000}
	return slices.Contains(own, rule.Priority) && rule.IDs["vendor"] == "kube-ovn"
}

// returnPortRef is the leg that a next hop belongs to.
func (f *topology) returnPortRef(r *logicalRouter, hop string, other state.Ref) state.Ref {
	for _, p := range r.ports {
		leg := p.IDs.Owner()
		if leg.Kind != returnPath {
			continue
		}
		for _, n := range f.survey.Logical.Static {
			if n.Address.String() == hop && n.MAC == p.MAC {
				return leg
			}
		}
		if gateway, err := netip.ParseAddr(hop); err == nil && f.switches[leg.Name] != nil &&
			f.switches[leg.Name].isGateway(gateway) {
			return leg
		}
	}
	return other
}

// describeACL are whose a rule is, what its effect is called, and what it does.
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
		return owner, SourceRangesDrop, fmt.Sprintf("%s %s: its loadBalancerSourceRanges do not have the client", owner,
			does)
	} else if owner == intent.IsolationRef(owner.Namespace) {
		return owner, RuleDrops, fmt.Sprintf("a pod is on network %s, where it does not belong: the isolation of %s %s",
			on.Name, owner.Namespace, does)
	} else if owner != (state.Ref{}) {
		switch r.Priority {
		case ownership.NetworkIsolationPriority:
			return owner, NetworkIsolates, fmt.Sprintf(
				"network %s keeps projects apart (isolation: Tenants) and %s: the source is another project's", on.Name,
				does)
		case ownership.AllowListPriority:
			return owner, AllowListDrops,
				fmt.Sprintf("an allow-list of %s %s: it does not have the other side", owner, does)
		default:
			return owner, RuleDrops, fmt.Sprintf("a rule of %s %s", owner, does)
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
		fmt.Sprintf("rule %s of %s %s (%s)", cmp.Or(r.Name, fmt.Sprint(r.Priority)), where, does, r.Match)
}
