package trace

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/logical"
	"github.com/sallyport/sallyport/internal/match"
	"github.com/sallyport/sallyport/internal/survey"
)

// fabric is the logical network with its parts connected.
type fabric struct {
	survey   *survey.Survey
	routers  []*router
	segments map[string]*segment
	ports    map[string]*port
	sockets  map[string]*socket
	groups   map[string]*logical.Group
	// userspace are the chassis whose Open vSwitch forwards in userspace, and bridges the physical networks that each chassis is on; none: it
	// does not say.
	userspace map[string]bool
	bridges   map[string][]string
	matches   map[string]parsed
}

// router is a logical router.
type router struct {
	*logical.Router
	ports        []*port
	gateways     []*port // those that one chassis holds
	translations []translation
}

// port is a port of a router.
type port struct {
	*logical.RouterPort
	router *router
	socket *socket // the port of a switch that leads to it; nil: none
	peer   *port   // the port of a router that it is linked with
	mac    match.MAC
}

// translation is a NAT with the gateway that carries it out.
type translation struct {
	*logical.NAT
	port *port
	at   *socket // of one that is carried out where this is; nil: where the gateway is
}

// segment is a logical switch.
type segment struct {
	*logical.Switch
	sockets []*socket
	outside *socket // to the wire; nil: it has none
	rules   []rule
	tracks  bool // a rule of it is about connections
	subnet  *survey.Subnet
	network *survey.Network // that it is a part of; nil: it is none outside
}

// socket is a port of a switch.
type socket struct {
	*logical.SwitchPort
	on   *segment
	port *port // of a router that it leads to; nil: to none
	mac  match.MAC
}

// rule is an ACL, and the group that it is of.
type rule struct {
	*logical.ACL
	group *logical.Group // nil: it is the switch's
}

// parsed is a match, or why it is none.
type parsed struct {
	match.Match
	err error
}

func newFabric(s *survey.Survey) *fabric {
	f := &fabric{
		survey: s, segments: map[string]*segment{}, ports: map[string]*port{}, sockets: map[string]*socket{},
		groups: map[string]*logical.Group{}, matches: map[string]parsed{},
		userspace: map[string]bool{}, bridges: map[string][]string{},
	}
	for _, c := range s.Logical.Chassis {
		f.userspace[c.Name] = c.Options["datapath-type"] == "netdev"
		for mapping := range strings.SplitSeq(c.Options["ovn-bridge-mappings"], ",") {
			if network, _, is := strings.Cut(mapping, ":"); is {
				f.bridges[c.Name] = append(f.bridges[c.Name], network)
			}
		}
	}
	for i := range s.Logical.Routers {
		f.addRouter(&s.Logical.Routers[i])
	}
	for i := range s.Logical.Switches {
		f.addSegment(&s.Logical.Switches[i])
	}
	for _, p := range f.ports {
		p.peer = f.ports[p.Peer]
	}
	for _, r := range f.routers {
		f.translate(r)
	}
	for i := range s.Logical.Groups {
		f.addGroup(&s.Logical.Groups[i])
	}
	for i := range s.Cluster.Subnets {
		if on := f.segments[s.Cluster.Subnets[i].Name]; on != nil {
			on.subnet = &s.Cluster.Subnets[i]
		}
	}
	for i := range s.Cluster.Networks {
		for _, name := range s.Cluster.Networks[i].Subnets {
			if on := f.segments[name]; on != nil {
				on.network = &s.Cluster.Networks[i]
			}
		}
	}
	return f
}

func (f *fabric) addRouter(row *logical.Router) {
	r := &router{Router: row}
	f.routers = append(f.routers, r)
	for i := range row.Ports {
		p := &port{RouterPort: &row.Ports[i], router: r}
		p.mac, _ = match.ParseMAC(p.MAC)
		f.ports[p.Name] = p
		if r.ports = append(r.ports, p); len(p.Chassis) > 0 {
			r.gateways = append(r.gateways, p)
		}
	}
}

func (f *fabric) addSegment(row *logical.Switch) {
	s := &segment{Switch: row}
	f.segments[row.Name] = s
	for i := range row.Ports {
		at := &socket{SwitchPort: &row.Ports[i], on: s}
		at.mac, _ = match.ParseMAC(at.MAC)
		s.sockets = append(s.sockets, at)
		f.sockets[at.Name] = at
		switch at.Type {
		case "router":
			if at.port = f.ports[at.Router]; at.port != nil {
				at.port.socket = at
			}
		case "localnet":
			s.outside = at
		}
	}
	for i := range row.ACLs {
		s.addRule(rule{ACL: &row.ACLs[i]})
	}
}

func (s *segment) addRule(r rule) {
	s.rules = append(s.rules, r)
	s.tracks = s.tracks || r.Action == "allow-related"
}

// addGroup gives the rules of a port group to every switch that a port of it is on.
func (f *fabric) addGroup(g *logical.Group) {
	f.groups[g.Name] = g
	var on []*segment
	for _, name := range g.Ports {
		if at := f.sockets[name]; at != nil && !slices.Contains(on, at.on) {
			on = append(on, at.on)
		}
	}
	for _, s := range on {
		for i := range g.ACLs {
			s.addRule(rule{&g.ACLs[i], g})
		}
	}
}

// translate finds the gateway of each translation, as OVN does: by name, or the one that has a network with the external address. One
// without is not carried out.
func (f *fabric) translate(r *router) {
	for i := range r.NATs {
		t := translation{NAT: &r.NATs[i]}
		for _, p := range r.gateways {
			if t.Port == p.Name || t.Port == "" && t.port == nil && (len(r.gateways) == 1 || p.near(t.External)) {
				t.port = p
			}
		}
		if t.Type == "dnat_and_snat" && t.ExternalMAC != "" && t.LogicalPort != "" {
			t.at = f.sockets[t.LogicalPort]
		}
		if t.port != nil {
			r.translations = append(r.translations, t)
		}
	}
}

// resident says whether a translation is carried out on a chassis.
func (t translation) resident(chassis string) bool {
	if t.at != nil {
		return t.at.Chassis == chassis
	}
	return t.port.resident(chassis)
}

// resident says whether a chassis holds the port.
func (p *port) resident(chassis string) bool { return p.Holder != "" && p.Holder == chassis }

// gateway says whether one chassis holds the port.
func (p *port) gateway() bool { return len(p.Chassis) > 0 }

// near says whether an address is of a network that the port is on.
func (p *port) near(a netip.Addr) bool {
	return slices.ContainsFunc(p.Networks, func(n netip.Prefix) bool { return n.Masked().Contains(a) })
}

// has says whether an address is the port's own.
func (p *port) has(a netip.Addr) bool {
	return slices.ContainsFunc(p.Networks, func(n netip.Prefix) bool { return n.Addr() == a })
}

// own is the router's port that has an address; nil: it has not.
func (r *router) own(a netip.Addr) *port {
	for _, p := range r.ports {
		if p.has(a) {
			return p
		}
	}
	return nil
}

// balances says whether an address is one of the router's load balancers.
func (r *router) balances(a netip.Addr) bool { return balances(r.Balancers, a) }

func balances(all []logical.Balancer, a netip.Addr) bool {
	return slices.ContainsFunc(all, func(b logical.Balancer) bool {
		return slices.ContainsFunc(b.VIPs, func(v logical.VIP) bool { return v.Address.Addr() == a })
	})
}

// prefix is the prefix of a segment that an address is in.
func (s *segment) prefix(a netip.Addr) (netip.Prefix, bool) {
	if s.subnet != nil {
		for _, p := range s.subnet.Prefixes {
			if p.Contains(a) {
				return p.Masked(), true
			}
		}
		return netip.Prefix{}, false
	}
	best := netip.Prefix{}
	for _, at := range s.sockets { // nobody says, but the routers on it do
		if at.port == nil {
			continue
		}
		for _, n := range at.port.Networks {
			if n.Masked().Contains(a) && n.Bits() > best.Bits() {
				best = n.Masked()
			}
		}
	}
	return best, best.IsValid()
}

// gateway is the address by which a host on the segment sends to others.
func (s *segment) gateway(from netip.Addr) netip.Addr {
	if s.subnet != nil {
		for _, a := range s.subnet.Gateways {
			if a.Is4() == from.Is4() {
				return a
			}
		}
	}
	prefix, _ := s.prefix(from)
	for _, at := range s.sockets {
		for _, n := range networks(at.port) {
			if n.Masked() == prefix {
				return n.Addr()
			}
		}
	}
	return netip.Addr{}
}

func networks(p *port) []netip.Prefix {
	if p == nil {
		return nil
	}
	return p.Networks
}

// node is the node that a chassis is on.
func (f *fabric) node(chassis string) string { return f.survey.NodeOf(chassis) }

// parse reads a match once.
func (f *fabric) parse(text string) parsed {
	p, known := f.matches[text]
	if !known {
		p.Match, p.err = match.Parse(text)
		f.matches[text] = p
	}
	return p
}

// names is what matches refer to, on a chassis.
type names struct {
	*fabric
	chassis string
}

func (n names) Set(name string) ([]string, bool) {
	set, there := n.survey.Logical.Sets[name]
	if family, base := name[max(0, len(name)-4):], strings.TrimSuffix(strings.TrimSuffix(name, "_ip4"), "_ip6"); !there && base != name {
		return n.ofGroup(base, family == "_ip4")
	}
	return set, there
}

// ofGroup is the addresses of the ports of a group. OVN has a set of each family of them.
func (n names) ofGroup(name string, four bool) (out []string, there bool) {
	group := n.groups[name]
	if group == nil {
		return nil, false
	}
	for _, port := range group.Ports {
		if at := n.sockets[port]; at != nil {
			for _, a := range at.Addresses {
				if a.Is4() == four {
					out = append(out, a.String())
				}
			}
		}
	}
	return out, true
}

func (n names) Group(name string) ([]string, bool) {
	group := n.groups[name]
	if group == nil {
		return nil, false
	}
	return group.Ports, true
}

func (n names) Resident(name string) bool {
	if p := n.ports[strings.TrimPrefix(name, "cr-")]; p != nil && strings.HasPrefix(name, "cr-") {
		return p.resident(n.chassis)
	}
	at := n.sockets[name]
	return at != nil && at.Chassis != "" && at.Chassis == n.chassis
}
