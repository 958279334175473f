package diagnosis

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/state"
)

// maxLeaseSilence is how long a node may leave its lease alone. Kubelets renew it every ten seconds; Kubernetes waits
// for forty.
const maxLeaseSilence = 25 * time.Second

// maxNodeClockSkew is how wrong a clock may be.
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
				f.Severity = p.nodeDownSeverity(n) // it does not answer either
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

// nodeDownSeverity is how bad it is that a node is down.
func (p *checker) nodeDownSeverity(n *clusterstate.Node) Severity {
	if n.Gateway || n.Assignable || len(p.listNodeLoad(n)) > 0 {
		return Error
	}
	return Warning
}

// describeNodeLoad is what is on a node, in words.
func (p *checker) describeNodeLoad(n *clusterstate.Node) string {
	load := p.listNodeLoad(n)
	if len(load) == 0 {
		return "nothing that is reached from outside is on it"
	}
	return "on it: " + joinLimited(load, 6)
}

// listNodeLoad is what is on a node: gateways that it holds, egress addresses, and pods.
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

// checkNodeChassis finds nodes that OVN does not know, or knows by another name.
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
			p.report(ChassisMismatch, []state.Ref{n.Ref}, "Kube-OVN noted chassis %s for node %s, and OVN has %s",
				n.Chassis, n.Name, c.Name)
		case said != "" && said != c.Name:
			p.report(ChassisMismatch, []state.Ref{n.Ref}, "node %s says that it is chassis %s, and OVN has %s for it",
				n.Name, said, c.Name)
		}
	}
}

// checkGatewayChassis finds router ports that nobody can hold.
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
				"port %s of router %s may be held by chassis %s, which OVN does not know", port.Name, r.Name,
				joinLimited(slices.DeleteFunc(slices.Clone(port.Chassis), func(c string) bool {
					return p.chassis[c] != nil
				}), 3))
			if len(known) > 0 {
				f.Severity = Warning
			}
		}
	}
}

// checkAgents finds nodes that do not answer.
func (p *checker) checkAgents() {
	var silent []string
	for _, name := range sortedKeys(p.Inspected) {
		if p.Inspected[name].Problem != "" {
			silent = append(silent, name)
		}
	}
	if len(silent) > 0 && len(silent) == len(p.Inspected) {
		p.report(AgentsAbsent, []state.Ref{ClusterRef}, "no node answers questions about itself (%s: %s)", silent[0],
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

// checkClocks finds those that are wrong. A node answers between question and answer, so its clock lies between ours.
func (p *checker) checkClocks() {
	if off := p.Taken.Sub(p.now); off.Abs() >= maxLocalClockSkew {
		p.report(ClockSkew, []state.Ref{ClusterRef}, "the clock of this machine is %s off that of the cluster's nodes",
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

// checkOpenVSwitch finds Open vSwitches that do not work.
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

// isOVSDown says whether Open vSwitch on a node does not answer: nothing is carried out there, and interfaces that are
// its own are down.
func (p *checker) isOVSDown(node string) bool {
	s := p.Inspected[node].Switch
	return s.Problem != "" && s.Version == "" // what tells its version answers
}

// findInterface is an interface of a node.
func findInterface(i clusterstate.NodeInspection, name string) *clusterstate.Interface {
	for k := range i.Interfaces {
		if i.Interfaces[k].Name == name {
			return &i.Interfaces[k]
		}
	}
	return nil
}

// uplink is an interface by which a node is connected, and what hangs on it.
type uplink struct {
	name     string
	iface    *clusterstate.Interface // nil: it is not there
	refs     []state.Ref
	purpose  string
	overhead int // how many bytes its packets have on top of pods'
}

// listUplinks are those of a node that have answered: of external networks where it may hold gateways, and the one of
// its tunnels.
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

// carriesTunnel says whether tunnels begin at an interface. Encaps are a type and an address.
func carriesTunnel(x *clusterstate.Interface, encaps []string) bool {
	return slices.ContainsFunc(x.Addresses, func(own netip.Prefix) bool {
		return slices.ContainsFunc(encaps, func(e string) bool { return strings.HasSuffix(e, " "+own.Addr().String()) })
	})
}

// geneveOverhead is what geneve puts round a packet: IP, UDP, geneve with OVN's option, and the inner Ethernet header.
func geneveOverhead(x *clusterstate.Interface) int {
	if len(x.Addresses) > 0 && x.Addresses[0].Addr().Is6() {
		return 78
	}
	return 58
}

// checkLinks finds interfaces that are down or not there.
func (p *checker) checkLinks() {
	for _, name := range sortedKeys(p.Inspected) {
		for _, u := range p.listUplinks(name) {
			switch {
			case u.iface == nil:
				p.report(LinkDown, u.refs, "node %s has no interface %s, which leads %s", name, u.name, u.purpose)
			case !u.iface.Up && !p.isOVSDown(name):
				p.report(LinkDown, u.refs, "interface %s of node %s, which leads %s, is down", u.name, name, u.purpose)
			}
		}
	}
}

// nodeNIC is the interface with which Kube-OVN connects a node itself; it has the MTU of pods.
const nodeNIC = "ovn0"

// checkMTUs finds interfaces that the largest packets of pods do not pass.
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
				"interface %s of node %s, which leads %s, lets packets of %d bytes through, and pods send up to %d%s",
				u.name, name, u.purpose, u.iface.MTU, largest, describeOverhead(u.overhead))
		}
	}
}

func describeOverhead(room int) string {
	if room == 0 {
		return ""
	}
	return fmt.Sprintf(" with %d more around them", room)
}
