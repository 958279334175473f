package trace

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/match"
)

// crossing is a packet in a switch, from one port to another.
type crossing struct {
	*walk
	*segment
	in, out *socket
	f       flight
	keeps   bool // the connection is to be written down
	label   uint32
}

// The directions of rules, as OVN calls them.
const (
	intoSwitch  = "from-lport"
	outOfSwitch = "to-lport"
)

// enterSwitch is what a switch does with a packet, in the order of OVN's tables.
func (w *walk) enterSwitch(in *socket, f flight) step {
	f.Inport, f.Outport = in.Name, ""
	w.enter(in.on.Name, f)
	c := &crossing{walk: w, segment: in.on, in: in, f: f}
	if in.port != nil { // between a router and a switch, what is known of the connection is forgotten
		c.f.forget()
	}
	for _, table := range []func() (step, bool){c.secure, c.track, c.filterIn, c.markIn, c.balance, c.filterBalanced, c.remember, c.find, c.exit} {
		if next, ends := table(); ends {
			return next
		}
	}
	return c.deliver()
}

// secure judges what a port sends.
func (c *crossing) secure() (step, bool) {
	switch {
	case c.in.Disabled:
		return ends(c.drop(Disabled, fmt.Sprintf("port %s of switch %s is disabled", c.in.Name, c.Name), c.socketAbout(c.in)))
	case !c.allowed(c.in.Security, c.f.EthSource, c.f.Source):
		about := c.socketAbout(c.in)
		return ends(c.drop(PortSecurityDrops, fmt.Sprintf("port security of %s lets it send as %s only", about, strings.Join(c.in.Security, ", ")), about))
	default:
		return goesOn()
	}
}

// allowed says whether an address may be a port's, as its port security has it: MAC addresses, each with the addresses beside it.
func (c *crossing) allowed(security []string, mac match.MAC, a netip.Addr) bool {
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
		return len(words) == 1 || slices.ContainsFunc(words[1:], func(word string) bool { return covers(word, a) })
	})
}

// covers says whether a text is an address or a prefix with it.
func covers(text string, a netip.Addr) bool {
	if p, err := netip.ParsePrefix(text); err == nil {
		return p.Masked().Contains(a) || p.Addr() == a
	}
	b, err := netip.ParseAddr(text)
	return err == nil && a == b
}

// tracking says whether the switch keeps track of connections at a port. It does not at those to routers.
func (c *crossing) tracking(at *socket) bool {
	switch {
	case at.port != nil || at.Type == "router":
		return false
	case at.Type == "localnet":
		return c.balancing()
	default:
		return c.tracks || c.balancing()
	}
}

// balancing says whether the switch has load balancers.
func (c *crossing) balancing() bool {
	for _, b := range c.Balancers {
		if len(b.VIPs) > 0 {
			return true
		}
	}
	return false
}

func (c *crossing) track() (step, bool) {
	if c.tracking(c.in) {
		c.lookUp("port "+c.in.Name, &c.f, c.balancing())
	}
	return goesOn()
}

func (c *crossing) filterIn() (step, bool) {
	return c.filter(intoSwitch, func(r rule) bool { return r.Options["apply-after-lb"] != "true" })
}

func (c *crossing) filterBalanced() (step, bool) {
	if c.f.Established && c.f.Reply {
		return goesOn()
	}
	return c.filter(intoSwitch, func(r rule) bool { return r.Options["apply-after-lb"] == "true" })
}

func (c *crossing) markIn() (step, bool) { return c.mark(intoSwitch) }

// mark carries out the switch's rules that mark packets.
func (c *crossing) mark(direction string) (step, bool) {
	best := -1
	for i, q := range c.QoS {
		if q.Direction == direction && (best < 0 || q.Priority > c.QoS[best].Priority) && c.holds(q.Match, c.f, fmt.Sprintf("QoS %s %d", c.Name, q.Priority)) {
			best = i
		}
	}
	if best < 0 {
		return goesOn()
	}
	mark, has := c.QoS[best].Action["mark"]
	if !has {
		return goesOn()
	}
	if c.f.Mark = uint32(mark); mark != 0 { //nolint:gosec // OVN's schema allows 32 bits
		q := c.QoS[best]
		//nolint:gosec // OVN's schema allows 32 bits
		c.hop(c.f, c.rowAbout(q.IDs, c.vpcOf(c.segment)), fmt.Sprintf("QoS %s %d", c.Name, q.Priority), "%s", c.markText(q, uint32(mark)))
	}
	return goesOn()
}

// balance gives a connection of a pod to a backend, on the pod's own node.
func (c *crossing) balance() (step, bool) {
	b, v := balancerOf(c.Balancers, c.f)
	if b != nil && c.f.Tracked && c.f.New {
		to, next, ended := c.pick(b, v, c.f)
		if ended {
			return ends(next)
		}
		c.hash(b, &c.f)
		as := c.f.tuple()
		if as.destination = to; to.Addr() == c.f.Source { // or the pod would answer itself directly
			as.source = netip.AddrPortFrom(v.Address.Addr(), as.source.Port())
		}
		c.commit("port "+c.in.Name, &c.f, as)
		c.hop(c.f, c.balancerAbout(b, v.Address.Addr()), "Load_Balancer "+b.Name, "%s", c.balanceText(b, v, to, c.inside()))
	}
	if c.f.Tracked && slices.Contains(c.in.Addresses, c.f.Destination) { // it is for who sent it
		c.f.EthSource, c.f.EthDestination, c.out = c.f.EthDestination, c.f.EthSource, c.in
		c.unasked() // ovn-trace does not turn it round
	}
	return goesOn()
}

// remember writes the connection down, as rules asked for it.
func (c *crossing) remember() (step, bool) {
	if c.keeps && c.f.Tracked {
		c.keep("port "+c.in.Name, &c.f, c.label)
	}
	c.keeps, c.label = false, 0
	return goesOn()
}

// find looks for the port with the MAC address that the packet is for.
func (c *crossing) find() (step, bool) {
	if c.out != nil {
		return goesOn()
	}
	for _, at := range c.sockets {
		switch {
		case at.port != nil && c.isAt(at.port):
			if next, elsewhere := c.overWire(at.port); elsewhere {
				c.unasked() // ovn-trace is on all nodes at once: to it, the frame is there already
				return ends(next)
			}
			c.out = at
		case at.port == nil && at.mac != 0 && at.mac == c.f.EthDestination:
			c.out = at
		default:
			continue
		}
		return goesOn()
	}
	if c.outside != nil && c.in != c.outside {
		c.out = c.outside
		return goesOn()
	}
	return ends(c.drop(NobodyAnswers, fmt.Sprintf("nobody on switch %s has MAC address %s", c.Name, c.f.EthDestination), c.vpcOf(c.segment)))
}

// isAt says whether a frame is for a router's port: for its own MAC address, or that of a translation that is carried out elsewhere.
func (c *crossing) isAt(p *port) bool {
	return p.mac == c.f.EthDestination || slices.ContainsFunc(p.router.translations, func(t translation) bool {
		mac, ok := match.ParseMAC(t.ExternalMAC)
		return ok && t.at != nil && t.port == p && mac == c.f.EthDestination
	})
}

// overWire lets a frame for a gateway that another node holds go there by the wire.
func (c *crossing) overWire(p *port) (step, bool) {
	if !p.gateway() || c.outside == nil {
		return step{}, false
	}
	holder := p.Holder
	for _, t := range p.router.translations {
		if mac, ok := match.ParseMAC(t.ExternalMAC); ok && t.at != nil && t.port == p && mac == c.f.EthDestination {
			holder = t.at.Chassis
		}
	}
	if holder == c.f.chassis {
		return step{}, false
	}
	if wrong, bad := c.held(p); bad && holder == p.Holder {
		return wrong, true
	}
	f := c.f
	c.move(&f, holder)
	return step{swtch: c.outside, flight: f}, true
}

// exit is the way out of the switch, on the node where the port is.
func (c *crossing) exit() (step, bool) {
	c.f.Outport = c.out.Name
	switch {
	case c.out == c.in && !slices.Contains(c.in.Addresses, c.f.Destination):
		return ends(c.drop(Loop, fmt.Sprintf("switch %s would send it back to where it came from", c.Name), c.socketAbout(c.out)))
	case c.out.port != nil || c.out == c.outside:
	case c.out.Disabled:
		return ends(c.drop(Disabled, fmt.Sprintf("port %s of switch %s is disabled", c.out.Name, c.Name), c.socketAbout(c.out)))
	default:
		if wrong, bad := c.bound(); bad {
			return ends(wrong)
		}
		c.move(&c.f, c.out.Chassis)
	}
	if c.tracking(c.out) {
		c.lookUp("port "+c.out.Name, &c.f, c.balancing())
	}
	if next, ended := c.filter(outOfSwitch, func(rule) bool { return true }); ended {
		return next, true
	}
	if next, ended := c.mark(outOfSwitch); ended {
		return next, true
	}
	if c.keeps && c.f.Tracked && c.tracking(c.out) {
		c.keep("port "+c.out.Name, &c.f, c.label)
	}
	if c.out.port == nil && c.out != c.outside && !c.allowed(c.out.Security, c.out.mac, c.f.Destination) {
		return ends(c.drop(PortSecurityDrops, fmt.Sprintf("port security of %s lets it get packets for %s only",
			c.socketAbout(c.out), strings.Join(c.out.Security, ", ")), c.socketAbout(c.out)))
	}
	return goesOn()
}

// bound says whether the port is on a node.
func (c *crossing) bound() (step, bool) {
	about := c.socketAbout(c.out)
	if c.out.Chassis == "" {
		return c.drop(TargetGone, fmt.Sprintf("%s is on no node: no Open vSwitch has its port %s", about, c.out.Name), about), true
	}
	return c.works(c.out.Chassis, "has "+about.String())
}

// deliver lets the packet out.
func (c *crossing) deliver() step {
	f := c.f
	c.leave(c.out.Name)
	switch {
	case c.out.port != nil:
		return step{router: c.out.port, flight: f}
	case c.out == c.outside:
		return step{leaves: c.segment, flight: f}
	default:
		return step{end: &ending{kind: delivered, at: c.out, flight: f}}
	}
}
