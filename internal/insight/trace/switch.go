package trace

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/match"
)

// switchPipeline processes a packet in a logical switch, from ingress to egress port.
type switchPipeline struct {
	*traceRun
	*logicalSwitch
	inport, outport *switchPort
	pkt             packet
	commitNeeded    bool // commit the connection in ls_in_stateful or ls_out_stateful
	ctLabel         uint32
}

// The directions of ACLs and QoS rules, as OVN calls them.
const (
	fromLport = "from-lport"
	toLport   = "to-lport"
)

// runSwitchPipeline runs the pipeline stages of a switch, in OVN's order.
func (w *traceRun) runSwitchPipeline(in *switchPort, f packet) transition {
	f.Inport, f.Outport = in.Name, ""
	w.beginStep(in.onSwitch.Name, f)
	c := &switchPipeline{traceRun: w, logicalSwitch: in.onSwitch, inport: in, pkt: f}
	if in.routerPort != nil { // connection state is not carried between router and switch
		c.pkt.clearConntrack()
	}
	for _, table := range []func() (transition, bool){
		c.lsInCheckPortSec, c.lsInPreStateful, c.lsInACLEval, c.lsInQoS,
		c.lsInLB, c.lsInACLAfterLBEval, c.lsInStateful, c.lsInL2Lkup, c.runEgressStages,
	} {
		if next, ends := table(); ends {
			return next
		}
	}
	return c.deliverToPort()
}

// lsInCheckPortSec enforces port security on ingress.
func (c *switchPipeline) lsInCheckPortSec() (transition, bool) {
	switch {
	case c.inport.Disabled:
		return endPipeline(c.dropPacket(Disabled,
			fmt.Sprintf("port %s of switch %s is disabled", c.inport.Name, c.Name), c.switchPortRef(c.inport)))
	case !c.portSecurityAllows(c.inport.Security, c.pkt.EthSource, c.pkt.Source):
		about := c.switchPortRef(c.inport)
		return endPipeline(c.dropPacket(PortSecurityDrops, fmt.Sprintf(
			"port security of %s only allows it to send as %s", about, strings.Join(c.inport.Security, ", ")), about))
	default:
		return continuePipeline()
	}
}

// portSecurityAllows reports whether port security allows an address. Each entry is a MAC address, optionally followed
// by the IP addresses it may use.
func (c *switchPipeline) portSecurityAllows(security []string, mac match.MAC, a netip.Addr) bool {
	if len(security) == 0 {
		return true
	}
	return slices.ContainsFunc(security, func(text string) bool {
		words := strings.Fields(text)
		if len(words) == 0 {
			return false
		}
		if m, ok := match.ParseMAC(words[0]); !ok || m != mac {
			return false
		}
		return len(words) == 1 || slices.ContainsFunc(words[1:], func(word string) bool {
			return matchesAddress(word, a)
		})
	})
}

// matchesAddress reports whether text is the address, or a prefix that contains it.
func matchesAddress(text string, a netip.Addr) bool {
	if p, err := netip.ParsePrefix(text); err == nil {
		return p.Masked().Contains(a) || p.Addr() == a
	}
	b, err := netip.ParseAddr(text)
	return err == nil && a == b
}

// usesConntrack reports whether the switch tracks connections at a port. It does not at router ports.
func (c *switchPipeline) usesConntrack(at *switchPort) bool {
	switch {
	case at.routerPort != nil || at.Type == "router":
		return false
	case at.Type == "localnet":
		return c.hasLoadBalancers()
	default:
		return c.hasRelatedACL || c.hasLoadBalancers()
	}
}

func (c *switchPipeline) hasLoadBalancers() bool {
	for _, b := range c.Balancers {
		if len(b.VIPs) > 0 {
			return true
		}
	}
	return false
}

func (c *switchPipeline) lsInPreStateful() (transition, bool) {
	if c.usesConntrack(c.inport) {
		c.lookupConntrack("port "+c.inport.Name, &c.pkt, c.hasLoadBalancers())
	}
	return continuePipeline()
}

func (c *switchPipeline) lsInACLEval() (transition, bool) {
	return c.evaluateACLs(fromLport, func(r acl) bool { return r.Options["apply-after-lb"] != "true" })
}

func (c *switchPipeline) lsInACLAfterLBEval() (transition, bool) {
	if c.pkt.Established && c.pkt.Reply {
		return continuePipeline()
	}
	return c.evaluateACLs(fromLport, func(r acl) bool { return r.Options["apply-after-lb"] == "true" })
}

func (c *switchPipeline) lsInQoS() (transition, bool) { return c.applyQoSMark(fromLport) }

// applyQoSMark applies the QoS row with the highest priority that matches, if it sets a mark.
func (c *switchPipeline) applyQoSMark(direction string) (transition, bool) {
	best := -1
	for i, q := range c.QoS {
		if q.Direction == direction && (best < 0 || q.Priority > c.QoS[best].Priority) &&
			c.evaluateMatch(q.Match, c.pkt, fmt.Sprintf("QoS %s %d", c.Name, q.Priority)) {
			best = i
		}
	}
	if best < 0 {
		return continuePipeline()
	}
	mark, has := c.QoS[best].Action["mark"]
	if !has {
		return continuePipeline()
	}
	if c.pkt.Mark = uint32(mark); mark != 0 { //nolint:gosec // OVN's schema allows 32 bits
		q := c.QoS[best]
		//nolint:gosec // OVN's schema allows 32 bits
		c.addHop(c.pkt, Hop{
			About:  c.rowOwnerRef(q.IDs, c.switchOwnerRef(c.logicalSwitch)),
			Row:    fmt.Sprintf("QoS %s %d", c.Name, q.Priority),
			Places: c.atMark(q),
		}, "%s", c.describeMark(q, uint32(mark)))
	}
	return continuePipeline()
}

// atMark is the return port that a mark leads a reply to; nil: the mark is another one.
func (c *switchPipeline) atMark(q logical.QoS) []Place {
	owner := q.IDs.Owner()
	if owner.Kind != returnPath {
		return nil
	}
	return atReturnPort(owner.Name, "the connection's label leads its replies here")
}

// lsInLB translates a pod's new connection to a backend, on the pod's own node.
func (c *switchPipeline) lsInLB() (transition, bool) {
	b, v := findLoadBalancer(c.Balancers, c.pkt)
	if b != nil && c.pkt.Tracked && c.pkt.New {
		to, next, ended := c.pickBackend(b, v, c.pkt)
		if ended {
			return endPipeline(next)
		}
		c.recirculateForHash(b, &c.pkt)
		as := c.pkt.tuple()
		if as.destination = to; to.Addr() == c.pkt.Source { // hairpin: otherwise the pod would reply to itself directly
			as.source = netip.AddrPortFrom(v.Address.Addr(), as.source.Port())
		}
		c.commitNAT("port "+c.inport.Name, &c.pkt, as)
		c.addHop(c.pkt, Hop{
			About:  c.vipOwnerRef(b, v.Address),
			Row:    "Load_Balancer " + b.Name,
			Places: c.atLoadBalancer(b, v, to, ""),
		}, "%s", c.describeBackend(b, v, to, c.siblingSwitches()))
	}
	if c.pkt.Tracked && slices.Contains(c.inport.Addresses, c.pkt.Destination) { // the backend is the sender itself
		c.pkt.EthSource, c.pkt.EthDestination, c.outport = c.pkt.EthDestination, c.pkt.EthSource, c.inport
		c.skipOVNTrace() // ovn-trace does not hairpin it
	}
	return continuePipeline()
}

// lsInStateful commits the connection if ACLs require it.
func (c *switchPipeline) lsInStateful() (transition, bool) {
	if c.commitNeeded && c.pkt.Tracked {
		c.commitConnection("port "+c.inport.Name, &c.pkt, c.ctLabel)
	}
	c.commitNeeded, c.ctLabel = false, 0
	return continuePipeline()
}

// lsInL2Lkup finds the egress port by the destination MAC address.
func (c *switchPipeline) lsInL2Lkup() (transition, bool) {
	if c.outport != nil {
		return continuePipeline()
	}
	if at := c.portWithMAC(c.pkt.EthDestination); at != nil {
		if at.routerPort != nil {
			if next, elsewhere := c.redirectOverWire(at.routerPort); elsewhere {
				c.skipOVNTrace() // ovn-trace treats all nodes as one: for it, the frame has already arrived
				return endPipeline(next)
			}
		}
		c.outport = at
		return continuePipeline()
	}
	if c.localnetPort != nil && c.inport != c.localnetPort {
		c.outport = c.localnetPort
		return continuePipeline()
	}
	return endPipeline(c.dropPacket(NobodyAnswers, fmt.Sprintf("no port of switch %s has MAC address %s", c.Name,
		c.pkt.EthDestination), c.switchOwnerRef(c.logicalSwitch)))
}

// portWithMAC returns the first port of the switch that frames for a MAC address go to, or nil. Router ports have those
// of distributed NAT entries too.
func (s *logicalSwitch) portWithMAC(mac match.MAC) *switchPort {
	if s.portsByMAC == nil {
		s.portsByMAC = map[match.MAC]*switchPort{}
		for _, at := range slices.Backward(s.ports) {
			if at.routerPort == nil {
				s.portsByMAC[at.mac] = at
				continue
			}
			s.portsByMAC[at.routerPort.mac] = at
			for _, t := range at.routerPort.router.natEntries {
				if t.gatewayPort == at.routerPort {
					s.portsByMAC[t.externalMAC] = at
				}
			}
		}
		delete(s.portsByMAC, 0)
	}
	return s.portsByMAC[mac]
}

// redirectOverWire sends a frame for a gateway port that another chassis holds there over the physical network.
func (c *switchPipeline) redirectOverWire(p *routerPort) (transition, bool) {
	if !p.isGatewayPort() || c.localnetPort == nil {
		return transition{}, false
	}
	holder := p.Holder
	for _, t := range p.router.natEntries {
		if t.externalMAC != 0 && t.gatewayPort == p && t.externalMAC == c.pkt.EthDestination {
			holder = t.distributedVIF.Chassis
		}
	}
	if holder == c.pkt.chassis {
		return transition{}, false
	}
	if wrong, bad := c.checkGatewayChassis(p); bad && holder == p.Holder {
		return wrong, true
	}
	f := c.pkt
	c.moveToChassis(&f, holder)
	return transition{toSwitch: c.localnetPort, packet: f}, true
}

// runEgressStages runs the egress pipeline of the switch, on the chassis of the egress port.
func (c *switchPipeline) runEgressStages() (transition, bool) {
	c.pkt.Outport = c.outport.Name
	switch {
	case c.outport == c.inport && !slices.Contains(c.inport.Addresses, c.pkt.Destination):
		return endPipeline(c.dropPacket(Loop,
			fmt.Sprintf("switch %s would send it back out of its ingress port", c.Name), c.switchPortRef(c.outport)))
	case c.outport.routerPort != nil || c.outport == c.localnetPort:
	case c.outport.Disabled:
		return endPipeline(c.dropPacket(Disabled,
			fmt.Sprintf("port %s of switch %s is disabled", c.outport.Name, c.Name), c.switchPortRef(c.outport)))
	default:
		if wrong, bad := c.checkPortBound(); bad {
			return endPipeline(wrong)
		}
		c.moveToChassis(&c.pkt, c.outport.Chassis)
	}
	if c.usesConntrack(c.outport) {
		c.lookupConntrack("port "+c.outport.Name, &c.pkt, c.hasLoadBalancers())
	}
	if next, ended := c.evaluateACLs(toLport, func(acl) bool { return true }); ended {
		return next, true
	}
	if next, ended := c.applyQoSMark(toLport); ended {
		return next, true
	}
	if c.commitNeeded && c.pkt.Tracked && c.usesConntrack(c.outport) {
		c.commitConnection("port "+c.outport.Name, &c.pkt, c.ctLabel)
	}
	if c.outport.routerPort == nil && c.outport != c.localnetPort &&
		!c.portSecurityAllows(c.outport.Security, c.outport.mac, c.pkt.Destination) {
		return endPipeline(c.dropPacket(PortSecurityDrops,
			fmt.Sprintf("port security of %s only allows it to receive packets for %s",
				c.switchPortRef(c.outport), strings.Join(c.outport.Security, ", ")), c.switchPortRef(c.outport)))
	}
	return continuePipeline()
}

// checkPortBound ends the path if the egress port is not bound to a chassis whose node is Ready.
func (c *switchPipeline) checkPortBound() (transition, bool) {
	about := c.switchPortRef(c.outport)
	if c.outport.Chassis == "" {
		return c.dropPacket(TargetGone, fmt.Sprintf("%s is on no node: its port %s is not bound to a chassis", about,
			c.outport.Name), about), true
	}
	return c.checkNodeReady(c.outport.Chassis, "hosts "+about.String())
}

// deliverToPort outputs the packet.
func (c *switchPipeline) deliverToPort() transition {
	f := c.pkt
	c.endStep(c.outport.Name)
	switch {
	case c.outport.routerPort != nil:
		return transition{toRouter: c.outport.routerPort, packet: f}
	case c.outport == c.localnetPort:
		return transition{toWire: c.logicalSwitch, packet: f}
	default:
		return transition{outcome: &outcome{kind: outcomeDelivered, switchPort: c.outport, packet: f}}
	}
}
