package trace

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/match"
)

// topology is the logical network with its parts connected.
type topology struct {
	survey      *clusterstate.State
	routers     []*logicalRouter
	switches    map[string]*logicalSwitch
	routerPorts map[string]*routerPort
	switchPorts map[string]*switchPort
	portGroups  map[string]*logical.PortGroup
	// userspaceChassis are the chassis whose Open vSwitch forwards in userspace, and bridges the physical networks that
	// each chassis is on; none: it does not say.
	userspaceChassis map[string]bool
	bridgeMappings   map[string][]string
	matchCache       map[string]parsedMatch
}

// logicalRouter is a logical router.
type logicalRouter struct {
	*logical.Router
	ports        []*routerPort
	gatewayPorts []*routerPort // those that one chassis holds
	natEntries   []natEntry
}

// routerPort is a port of a router.
type routerPort struct {
	*logical.RouterPort
	router     *logicalRouter
	switchPort *switchPort // the port of a switch that leads to it; nil: none
	peer       *routerPort // the port of a router that it is linked with
	mac        match.MAC
}

// natEntry is a NAT with the gateway that carries it out.
type natEntry struct {
	*logical.NAT
	gatewayPort    *routerPort
	distributedVIF *switchPort // of one that is carried out where this is; nil: where the gateway is
}

// logicalSwitch is a logical switch.
type logicalSwitch struct {
	*logical.Switch
	ports         []*switchPort
	localnetPort  *switchPort // to the wire; nil: it has none
	acls          []acl
	hasRelatedACL bool // a rule of it is about connections
	subnet        *clusterstate.Subnet
	network       *clusterstate.Network // that it is a part of; nil: it is none outside
}

// switchPort is a port of a switch.
type switchPort struct {
	*logical.SwitchPort
	onSwitch   *logicalSwitch
	routerPort *routerPort // of a router that it leads to; nil: to none
	mac        match.MAC
}

// acl is an ACL, and the group that it is of.
type acl struct {
	*logical.ACL
	portGroup *logical.PortGroup // nil: it is the switch's
}

// parsedMatch is a match, or why it is none.
type parsedMatch struct {
	match.Match
	err error
}

func newTopology(s *clusterstate.State) *topology {
	f := &topology{
		survey: s, switches: map[string]*logicalSwitch{}, routerPorts: map[string]*routerPort{},
		switchPorts: map[string]*switchPort{},
		portGroups:  map[string]*logical.PortGroup{}, matchCache: map[string]parsedMatch{},
		userspaceChassis: map[string]bool{}, bridgeMappings: map[string][]string{},
	}
	for _, c := range s.Logical.Chassis {
		f.userspaceChassis[c.Name] = c.Options["datapath-type"] == "netdev"
		for mapping := range strings.SplitSeq(c.Options["ovn-bridge-mappings"], ",") {
			if network, _, is := strings.Cut(mapping, ":"); is {
				f.bridgeMappings[c.Name] = append(f.bridgeMappings[c.Name], network)
			}
		}
	}
	for i := range s.Logical.Routers {
		f.addRouter(&s.Logical.Routers[i])
	}
	for i := range s.Logical.Switches {
		f.addSwitch(&s.Logical.Switches[i])
	}
	for _, p := range f.routerPorts {
		p.peer = f.routerPorts[p.Peer]
	}
	for _, r := range f.routers {
		f.resolveNATs(r)
	}
	for i := range s.Logical.Groups {
		f.addPortGroup(&s.Logical.Groups[i])
	}
	for i := range s.Cluster.Subnets {
		if on := f.switches[s.Cluster.Subnets[i].Name]; on != nil {
			on.subnet = &s.Cluster.Subnets[i]
		}
	}
	for i := range s.Cluster.Networks {
		for _, name := range s.Cluster.Networks[i].Subnets {
			if on := f.switches[name]; on != nil {
				on.network = &s.Cluster.Networks[i]
			}
		}
	}
	return f
}

func (f *topology) addRouter(row *logical.Router) {
	r := &logicalRouter{Router: row}
	f.routers = append(f.routers, r)
	for i := range row.Ports {
		p := &routerPort{RouterPort: &row.Ports[i], router: r}
		p.mac, _ = match.ParseMAC(p.MAC)
		f.routerPorts[p.Name] = p
		if r.ports = append(r.ports, p); len(p.Chassis) > 0 {
			r.gatewayPorts = append(r.gatewayPorts, p)
		}
	}
}

func (f *topology) addSwitch(row *logical.Switch) {
	s := &logicalSwitch{Switch: row}
	f.switches[row.Name] = s
	for i := range row.Ports {
		at := &switchPort{SwitchPort: &row.Ports[i], onSwitch: s}
		at.mac, _ = match.ParseMAC(at.MAC)
		s.ports = append(s.ports, at)
		f.switchPorts[at.Name] = at
		switch at.Type {
		case "router":
			if at.routerPort = f.routerPorts[at.Router]; at.routerPort != nil {
				at.routerPort.switchPort = at
			}
		case "localnet":
			s.localnetPort = at
		}
	}
	for i := range row.ACLs {
		s.addACL(acl{ACL: &row.ACLs[i]})
	}
}

func (s *logicalSwitch) addACL(r acl) {
	s.acls = append(s.acls, r)
	s.hasRelatedACL = s.hasRelatedACL || r.Action == "allow-related"
}

// addPortGroup gives the rules of a port group to every switch that a port of it is on.
func (f *topology) addPortGroup(g *logical.PortGroup) {
	f.portGroups[g.Name] = g
	var on []*logicalSwitch
	for _, name := range g.Ports {
		if at := f.switchPorts[name]; at != nil && !slices.Contains(on, at.onSwitch) {
			on = append(on, at.onSwitch)
		}
	}
	for _, s := range on {
		for i := range g.ACLs {
			s.addACL(acl{&g.ACLs[i], g})
		}
	}
}

// resolveNATs finds the gateway of each translation, as OVN does: by name, or the one that has a network with the
// external address. One without is not carried out.
func (f *topology) resolveNATs(r *logicalRouter) {
	for i := range r.NATs {
		t := natEntry{NAT: &r.NATs[i]}
		for _, p := range r.gatewayPorts {
			if t.Port == p.Name || t.Port == "" && t.gatewayPort == nil &&
				(len(r.gatewayPorts) == 1 || p.isOnLink(t.External)) {
				t.gatewayPort = p
			}
		}
		if t.Type == "dnat_and_snat" && t.ExternalMAC != "" && t.LogicalPort != "" {
			t.distributedVIF = f.switchPorts[t.LogicalPort]
		}
		if t.gatewayPort != nil {
			r.natEntries = append(r.natEntries, t)
		}
	}
}

// isResidentOn says whether a translation is carried out on a chassis.
func (t natEntry) isResidentOn(chassis string) bool {
	if t.distributedVIF != nil {
		return t.distributedVIF.Chassis == chassis
	}
	return t.gatewayPort.isResidentOn(chassis)
}

// isResidentOn says whether a chassis holds the port.
func (p *routerPort) isResidentOn(chassis string) bool { return p.Holder != "" && p.Holder == chassis }

// isGatewayPort says whether one chassis holds the port.
func (p *routerPort) isGatewayPort() bool { return len(p.Chassis) > 0 }

// isOnLink says whether an address is of a network that the port is on.
func (p *routerPort) isOnLink(a netip.Addr) bool {
	return slices.ContainsFunc(p.Networks, func(n netip.Prefix) bool { return n.Masked().Contains(a) })
}

// hasAddress says whether an address is the port's own.
func (p *routerPort) hasAddress(a netip.Addr) bool {
	return slices.ContainsFunc(p.Networks, func(n netip.Prefix) bool { return n.Addr() == a })
}

// portWithAddress is the router's port that has an address; nil: it has not.
func (r *logicalRouter) portWithAddress(a netip.Addr) *routerPort {
	for _, p := range r.ports {
		if p.hasAddress(a) {
			return p
		}
	}
	return nil
}

// hasVIP says whether an address is one of the router's load balancers.
func (r *logicalRouter) hasVIP(a netip.Addr) bool { return containsVIP(r.Balancers, a) }

func containsVIP(all []logical.LoadBalancer, a netip.Addr) bool {
	return slices.ContainsFunc(all, func(b logical.LoadBalancer) bool {
		return slices.ContainsFunc(b.VIPs, func(v logical.VIP) bool { return v.Address.Addr() == a })
	})
}

// prefixContaining is the prefix of a segment that an address is in.
func (s *logicalSwitch) prefixContaining(a netip.Addr) (netip.Prefix, bool) {
	if s.subnet != nil {
		for _, p := range s.subnet.Prefixes {
			if p.Contains(a) {
				return p.Masked(), true
			}
		}
		return netip.Prefix{}, false
	}
	best := netip.Prefix{}
	for _, at := range s.ports { // nobody says, but the routers on it do
		if at.routerPort == nil {
			continue
		}
		for _, n := range at.routerPort.Networks {
			if n.Masked().Contains(a) && n.Bits() > best.Bits() {
				best = n.Masked()
			}
		}
	}
	return best, best.IsValid()
}

// gatewayFor is the address by which a host on the segment sends to others.
func (s *logicalSwitch) gatewayFor(from netip.Addr) netip.Addr {
	if s.subnet != nil {
		for _, a := range s.subnet.Gateways {
			if a.Is4() == from.Is4() {
				return a
			}
		}
	}
	prefix, _ := s.prefixContaining(from)
	for _, at := range s.ports {
		for _, n := range portNetworks(at.routerPort) {
			if n.Masked() == prefix {
				return n.Addr()
			}
		}
	}
	return netip.Addr{}
}

func portNetworks(p *routerPort) []netip.Prefix {
	if p == nil {
		return nil
	}
	return p.Networks
}

// nodeOfChassis is the node that a chassis is on.
func (f *topology) nodeOfChassis(chassis string) string { return f.survey.NodeOfChassis(chassis) }

// parseMatch reads a match once.
func (f *topology) parseMatch(text string) parsedMatch {
	p, known := f.matchCache[text]
	if !known {
		p.Match, p.err = match.Parse(text)
		f.matchCache[text] = p
	}
	return p
}

// chassisResolver is what matches refer to, on a chassis.
type chassisResolver struct {
	*topology
	chassis string
}

func (n chassisResolver) AddressSet(name string) ([]string, bool) {
	set, there := n.survey.Logical.Sets[name]
	if family, base := name[max(0, len(name)-4):],
		strings.TrimSuffix(strings.TrimSuffix(name, "_ip4"), "_ip6"); !there && base != name {
		return n.portGroupAddresses(base, family == "_ip4")
	}
	return set, there
}

// portGroupAddresses is the addresses of the ports of a group. OVN has a set of each family of them.
func (n chassisResolver) portGroupAddresses(name string, four bool) (out []string, there bool) {
	group := n.portGroups[name]
	if group == nil {
		return nil, false
	}
	for _, port := range group.Ports {
		if at := n.switchPorts[port]; at != nil {
			for _, a := range at.Addresses {
				if a.Is4() == four {
					out = append(out, a.String())
				}
			}
		}
	}
	return out, true
}

func (n chassisResolver) PortGroup(name string) ([]string, bool) {
	group := n.portGroups[name]
	if group == nil {
		return nil, false
	}
	return group.Ports, true
}

func (n chassisResolver) IsChassisResident(name string) bool {
	if p := n.routerPorts[strings.TrimPrefix(name, "cr-")]; p != nil && strings.HasPrefix(name, "cr-") {
		return p.isResidentOn(n.chassis)
	}
	at := n.switchPorts[name]
	return at != nil && at.Chassis != "" && at.Chassis == n.chassis
}
