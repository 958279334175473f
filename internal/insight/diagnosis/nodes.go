package diagnosis

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/state"
)

// maxLeaseSilence is how old a node's lease may be. Kubelets renew it every ten seconds; Kubernetes waits for forty.
const maxLeaseSilence = 25 * time.Second

// maxNodeClockSkew is how far a node's clock may be off.
const maxNodeClockSkew = 5 * time.Second

// checkNodeReadiness finds nodes that are down.
func (p *checker) checkNodeReadiness() {
	for i := range p.Cluster.Nodes {
		n := &p.Cluster.Nodes[i]
		quiet := p.now.Sub(n.Heartbeat)
		switch {
		case !n.Ready:
			ready := n.Condition("Ready")
			p.report(NodeNotReady, []state.Ref{n.Ref}, "node %s is not Ready%s; %s", n.Name, formatReason(ready),
				p.describeNodeLoad(n)).Severity = p.nodeDownSeverity(n)
		case !n.Heartbeat.IsZero() && quiet > maxLeaseSilence:
			f := p.report(NodeSilent, []state.Ref{n.Ref}, "node %s has not renewed its lease for %s; %s", n.Name,
				roundDuration(quiet), p.describeNodeLoad(n))
			if p.Inspected[n.Name].Problem != "" {
				f.Severity = p.nodeDownSeverity(n) // the agent does not answer either
			}
		}
	}
}

func formatReason(c clusterstate.Condition) string {
	if c.Reason == "" {
		return ""
	}
	return fmt.Sprintf(" (%s: %s)", c.Reason, c.Message)
}

// nodeDownSeverity returns the severity of a node being down.
func (p *checker) nodeDownSeverity(n *clusterstate.Node) Severity {
	if n.Gateway || n.Assignable || len(p.listNodeLoad(n)) > 0 {
		return Error
	}
	return Warning
}

// describeNodeLoad lists in words what runs on a node.
func (p *checker) describeNodeLoad(n *clusterstate.Node) string {
	load := p.listNodeLoad(n)
	if len(load) == 0 {
		return "it has no gateways, egress addresses or pods"
	}
	return "on it: " + joinLimited(load, 6)
}

// listNodeLoad lists what runs on a node: gateway ports, egress addresses and pods.
func (p *checker) listNodeLoad(n *clusterstate.Node) (out []string) {
	if c := p.chassisOfNode(n); c != nil {
		for _, r := range p.Logical.Routers {
			for _, port := range r.Ports {
				if port.Holder == c.Name {
					out = append(out, "gateway "+port.Name)
				}
			}
		}
	}
	for _, e := range p.Cluster.EgressIPs {
		for _, a := range sortedKeys(e.Held) {
			if e.Held[a] == n.Name {
				out = append(out, "egress address "+a)
			}
		}
	}
	for _, pod := range p.Cluster.Pods {
		if pod.Node == n.Name && !pod.HostNetwork && !isPodFinished(&pod) {
			out = append(out, "pod "+pod.Namespace+"/"+pod.Name)
		}
	}
	return out
}

// checkNodeChassis finds nodes without a chassis in OVN, or with one of another name.
func (p *checker) checkNodeChassis() {
	if p.isUnreadable(clusterstate.Kubernetes, clusterstate.Southbound) || len(p.Logical.Chassis) == 0 {
		return
	}
	for i := range p.Cluster.Nodes {
		n := &p.Cluster.Nodes[i]
		c := p.chassisOfNode(n)
		said := p.Inspected[n.Name].Switch.Chassis
		switch {
		case c == nil:
			p.report(ChassisMissing, []state.Ref{n.Ref}, "OVN's southbound database has no chassis for node %s; %s",
				n.Name, p.describeNodeLoad(n)).Severity = p.nodeDownSeverity(n)
		case n.Chassis != "" && n.Chassis != c.Name:
			p.report(ChassisMismatch, []state.Ref{n.Ref}, "the annotation of node %s names chassis %s, but OVN has %s",
				n.Name, n.Chassis, c.Name)
		case said != "" && said != c.Name:
			p.report(ChassisMismatch, []state.Ref{n.Ref}, "Open vSwitch of node %s has chassis name %s, but OVN has %s",
				n.Name, said, c.Name)
		}
	}
}

// checkGatewayChassis finds gateway ports that are assigned to chassis that do not exist.
func (p *checker) checkGatewayChassis() {
	if p.isUnreadable(clusterstate.Northbound, clusterstate.Southbound) || len(p.Logical.Chassis) == 0 {
		return
	}
	for _, r := range p.Logical.Routers {
		for _, port := range r.Ports {
			known := slices.DeleteFunc(slices.Clone(port.Chassis), func(c string) bool { return p.chassis[c] == nil })
			if len(known) == len(port.Chassis) {
				continue
			}
			about := append(p.projectsOfShard(r.Name), clusterstate.RouterRef(r.Name))
			f := p.report(ChassisMissing, about,
				"port %s of router %s may be held by chassis %s, which does not exist in OVN", port.Name, r.Name,
				joinLimited(slices.DeleteFunc(slices.Clone(port.Chassis), func(c string) bool {
					return p.chassis[c] != nil
				}), 3))
			if len(known) > 0 {
				f.Severity = Warning
			}
		}
	}
}

// checkDrainedGateways finds nodes that lost the label of gateways and still hold gateway ports. Clusters in which no node
// has the label choose their gateways in another way.
func (p *checker) checkDrainedGateways() {
	if p.isUnreadable(clusterstate.Kubernetes, clusterstate.Northbound, clusterstate.Southbound) ||
		!slices.ContainsFunc(p.Cluster.Nodes, func(n clusterstate.Node) bool { return n.Gateway }) {
		return
	}
	held := map[string][]string{}
	for _, r := range p.Logical.Routers {
		for _, port := range r.Ports {
			if n := p.nodeOfChassis(port.Holder); port.Holder != "" && n != nil && !n.Gateway {
				held[n.Name] = append(held[n.Name], port.Name)
			}
		}
	}
	for _, name := range sortedKeys(held) {
		p.report(GatewayNotMoved, []state.Ref{clusterstate.NodeRef(name)},
			"node %s is not labelled as a gateway, but still holds %s", name, joinLimited(held[name], 4))
	}
}

// checkAgents finds nodes whose agent does not answer.
func (p *checker) checkAgents() {
	var silent []string
	for _, name := range sortedKeys(p.Inspected) {
		if p.Inspected[name].Problem != "" {
			silent = append(silent, name)
		}
	}
	if len(silent) > 0 && len(silent) == len(p.Inspected) {
		p.report(AgentsAbsent, []state.Ref{ClusterRef}, "no node answers Inspections (%s: %s)", silent[0],
			p.Inspected[silent[0]].Problem)
		return
	}
	for _, name := range silent {
		if n := p.nodes[name]; n == nil || n.Ready {
			p.report(AgentMissing, []state.Ref{clusterstate.NodeRef(name)}, "the agent of node %s does not answer: %s", name,
				p.Inspected[name].Problem)
		}
	}
}

// checkClocks finds wrong clocks. A node answers between question and answer, so its clock should be between those
// times.
func (p *checker) checkClocks() {
	if off := p.Taken.Sub(p.now); off.Abs() >= maxLocalClockSkew {
		p.report(ClockSkew, []state.Ref{ClusterRef},
			"the clock of this machine differs by %s from the clocks of the cluster's nodes",
			roundDuration(off.Abs()))
		return
	}
	for _, name := range sortedKeys(p.Inspected) {
		i := p.Inspected[name]
		if i.Clock.IsZero() || i.Problem != "" {
			continue
		}
		off := max(i.Asked.Sub(i.Clock), i.Clock.Sub(i.Answered))
		if off > maxNodeClockSkew {
			p.report(ClockSkew, []state.Ref{clusterstate.NodeRef(name)}, "the clock of node %s is %s off", name,
				roundDuration(off))
		}
	}
}

// checkOpenVSwitch finds nodes whose Open vSwitch or ovn-controller does not work.
func (p *checker) checkOpenVSwitch() {
	for _, name := range sortedKeys(p.Inspected) {
		s := p.Inspected[name].Switch
		switch {
		case p.isOVSDown(name):
			p.report(SwitchSilent, []state.Ref{clusterstate.NodeRef(name)}, "Open vSwitch on node %s does not answer: %s",
				name, s.Problem)
		case s.Problem != "" || s.Controller != "" && s.Controller != "connected":
			p.report(SwitchNotConnected, []state.Ref{clusterstate.NodeRef(name)},
				"ovn-controller of node %s is not connected to the southbound database: %s",
				name, cmp.Or(s.Problem, s.Controller))
		}
	}
}

// isOVSDown reports whether Open vSwitch on a node does not answer. Then no changes are applied there, and its internal
// interfaces are down.
func (p *checker) isOVSDown(node string) bool {
	s := p.Inspected[node].Switch
	return s.Problem != "" && s.Version == "" // if it reports its version, it answers
}

func findInterface(i clusterstate.NodeInspection, name string) *clusterstate.Interface {
	for k := range i.Interfaces {
		if i.Interfaces[k].Name == name {
			return &i.Interfaces[k]
		}
	}
	return nil
}

// uplink is an interface that connects a node, and what depends on it.
type uplink struct {
	name     string
	iface    *clusterstate.Interface // nil: it does not exist
	refs     []state.Ref
	purpose  string
	overhead int // bytes of encapsulation added to pods' packets
}

// listUplinks returns the uplinks of an inspected node: those to external networks if it may hold gateways, and the one
// for tunnels.
func (p *checker) listUplinks(name string) (out []uplink) {
	i, n := p.Inspected[name], p.nodes[name]
	if n == nil || i.Problem != "" || len(i.Interfaces) == 0 {
		return nil
	}
	for k := range p.Cluster.Subnets {
		s := &p.Cluster.Subnets[k]
		by := s.InterfaceOn(name)
		if s.Network == "" || by == "" || !n.Gateway ||
			slices.ContainsFunc(out, func(u uplink) bool { return u.name == by }) {
			continue
		}
		out = append(out, uplink{
			by, findInterface(i, by), append([]state.Ref{n.Ref}, p.externalSubnetRefs(s)...),
			"to network " + s.Network, 0,
		})
	}
	if c := p.chassisOfNode(n); c != nil {
		for k := range i.Interfaces {
			if x := &i.Interfaces[k]; carriesTunnel(x, c.Encaps) {
				out = append(out, uplink{x.Name, x, []state.Ref{n.Ref}, "to other nodes", geneveOverhead(x)})
			}
		}
	}
	return out
}

// carriesTunnel reports whether an interface has the address of a tunnel endpoint. Encaps are a type and an address.
func carriesTunnel(x *clusterstate.Interface, encaps []string) bool {
	return slices.ContainsFunc(x.Addresses, func(own netip.Prefix) bool {
		return slices.ContainsFunc(encaps, func(e string) bool { return strings.HasSuffix(e, " "+own.Addr().String()) })
	})
}

// geneveOverhead returns the bytes that Geneve adds to a packet: IP, UDP, Geneve with OVN's option, and the inner
// Ethernet header.
func geneveOverhead(x *clusterstate.Interface) int {
	if len(x.Addresses) > 0 && ipfamily.V6.Contains(x.Addresses[0].Addr()) {
		return 78
	}
	return 58
}

// checkLinks finds uplinks that are down or do not exist.
func (p *checker) checkLinks() {
	for _, name := range sortedKeys(p.Inspected) {
		for _, u := range p.listUplinks(name) {
			switch {
			case u.iface == nil:
				p.report(LinkDown, u.refs, "node %s has no interface %s, its uplink %s", name, u.name, u.purpose)
			case !u.iface.Up && !p.isOVSDown(name):
				p.report(LinkDown, u.refs, "interface %s of node %s, its uplink %s, is down", u.name, name, u.purpose)
			}
		}
	}
}

// nodeNIC is the interface with which Kube-OVN connects a node itself. It has the MTU of pods.
const nodeNIC = "ovn0"

// checkMTUs finds uplinks whose MTU is too small for the largest packets of pods.
func (p *checker) checkMTUs() {
	largest := 0
	for _, name := range sortedKeys(p.Inspected) {
		if x := findInterface(p.Inspected[name], nodeNIC); x != nil {
			largest = max(largest, x.MTU)
		}
	}
	for _, s := range p.Cluster.Subnets {
		largest = max(largest, s.MTU)
	}
	for _, name := range sortedKeys(p.Inspected) {
		for _, u := range p.listUplinks(name) {
			if u.iface == nil || u.iface.MTU == 0 || largest == 0 || u.iface.MTU >= largest+u.overhead {
				continue
			}
			p.report(MTUTooSmall, u.refs,
				"interface %s of node %s, its uplink %s, has MTU %d, but pods send packets of up to %d bytes%s",
				u.name, name, u.purpose, u.iface.MTU, largest, describeOverhead(u.overhead))
		}
	}
}

func describeOverhead(room int) string {
	if room == 0 {
		return ""
	}
	return fmt.Sprintf(" plus %d bytes of encapsulation", room)
}
