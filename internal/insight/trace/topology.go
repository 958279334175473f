package trace

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/match"
)

// topology is the logical network with its parts linked to each other.
type topology struct {
	survey      *clusterstate.State
	routers     []*logicalRouter
	switches    map[string]*logicalSwitch
	routerPorts map[string]*routerPort
	switchPorts map[string]*switchPort
	portGroups  map[string]*logical.PortGroup
	// userspaceChassis are the chassis whose Open vSwitch uses the userspace datapath. bridgeMappings are the physical
	// networks of each chassis; empty if the chassis does not report them.
	userspaceChassis map[string]bool
	bridgeMappings   map[string][]string
	externalSwitches []*logicalSwitch // by name
	matchCache       map[string]parsedMatch
	index
}

type logicalRouter struct {
	*logical.Router
	ports        []*routerPort
	gatewayPorts []*routerPort // distributed gateway ports, each held by one chassis
	natEntries   []natEntry
}

type routerPort struct {
	*logical.RouterPort
	router     *logicalRouter
	switchPort *switchPort // its peer on a switch; nil: none
	peer       *routerPort // its peer on a router; nil: none
	mac        match.MAC
}

// natEntry is a NAT row with the gateway port that implements it.
type natEntry struct {
	*logical.NAT
	gatewayPort    *routerPort
	distributedVIF *switchPort // distributed NAT: the port of the pod; nil: on the gateway's chassis
	externalMAC    match.MAC   // of distributed NAT
}

type logicalSwitch struct {
	*logical.Switch
	ports         []*switchPort
	localnetPort  *switchPort // nil: not an external network
	acls          []acl
	hasRelatedACL bool // it has an ACL with action allow-related
	subnet        *clusterstate.Subnet
	network       *clusterstate.Network // nil: not an external network
	// addressOwners are the ports that answer for each address, portsByMAC those that receive frames for each MAC
	// address; nil: not asked for yet
	addressOwners map[netip.Addr][]addressOwner
	portsByMAC    map[match.MAC]*switchPort
}

type switchPort struct {
	*logical.SwitchPort
	onSwitch   *logicalSwitch
	routerPort *routerPort // its peer on a router; nil: none
	mac        match.MAC
}

// acl is an ACL with its port group.
type acl struct {
	*logical.ACL
	portGroup *logical.PortGroup // nil: an ACL of the switch
}

// parsedMatch is a parsed match, or the error.
type parsedMatch struct {
	match.Match
	err error
}

func newTopology(s *clusterstate.State) *topology {
	f := &topology{
		survey: s, switches: map[string]*logicalSwitch{}, routerPorts: map[string]*routerPort{},
		switchPorts: map[string]*switchPort{},
		portGroups:  map[string]*logical.PortGroup{}, matchCache: map[string]parsedMatch{},
		userspaceChassis: map[string]bool{}, bridgeMappings: map[string][]string{}, index: newIndex(s),
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
	f.linkNetworks(&s.Cluster)
	return f
}

// linkNetworks finds the Subnet and the external network of each switch.
func (f *topology) linkNetworks(c *clusterstate.Cluster) {
	for i := range c.Subnets {
		if on := f.switches[c.Subnets[i].Name]; on != nil {
			on.subnet = &c.Subnets[i]
		}
	}
	for i := range c.Networks {
		for _, name := range c.Networks[i].Subnets {
			if on := f.switches[name]; on != nil {
				on.network = &c.Networks[i]
			}
		}
	}
	for _, name := range sortedKeys(f.switches) {
		if s := f.switches[name]; s.localnetPort != nil {
			f.externalSwitches = append(f.externalSwitches, s)
		}
	}
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

// addPortGroup adds the ACLs of a port group to every switch that has one of its ports.
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

// resolveNATs finds the gateway port of each NAT entry as OVN does: by name, or the one whose network contains the
// external address. OVN ignores entries without one.
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
			if t.distributedVIF = f.switchPorts[t.LogicalPort]; t.distributedVIF != nil {
				t.externalMAC, _ = match.ParseMAC(t.ExternalMAC)
			}
		}
		if t.gatewayPort != nil {
			r.natEntries = append(r.natEntries, t)
		}
	}
}

// isResidentOn reports whether a chassis implements a NAT entry.
func (t natEntry) isResidentOn(chassis string) bool {
	if t.distributedVIF != nil {
		return t.distributedVIF.Chassis == chassis
	}
	return t.gatewayPort.isResidentOn(chassis)
}

// isResidentOn reports whether a chassis holds the gateway port.
func (p *routerPort) isResidentOn(chassis string) bool { return p.Holder != "" && p.Holder == chassis }

// isGatewayPort reports whether the port is a distributed gateway port.
func (p *routerPort) isGatewayPort() bool { return len(p.Chassis) > 0 }

// isOnLink reports whether a network of the port contains an address.
func (p *routerPort) isOnLink(a netip.Addr) bool {
	return slices.ContainsFunc(p.Networks, func(n netip.Prefix) bool { return n.Masked().Contains(a) })
}

// hasAddress reports whether an address is the port's own.
func (p *routerPort) hasAddress(a netip.Addr) bool {
	return slices.ContainsFunc(p.Networks, func(n netip.Prefix) bool { return n.Addr() == a })
}

// portWithAddress returns the router's port with an address, or nil.
func (r *logicalRouter) portWithAddress(a netip.Addr) *routerPort {
	for _, p := range r.ports {
		if p.hasAddress(a) {
			return p
		}
	}
	return nil
}

// hasVIP reports whether an address is a VIP of the router's load balancers.
func (r *logicalRouter) hasVIP(a netip.Addr) bool { return containsVIP(r.Balancers, a) }

func containsVIP(all []logical.LoadBalancer, a netip.Addr) bool {
	return slices.ContainsFunc(all, func(b logical.LoadBalancer) bool {
		return slices.ContainsFunc(b.VIPs, func(v logical.VIP) bool { return v.Address.Addr() == a })
	})
}

// prefixContaining returns the prefix of a switch that contains an address.
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
	for _, at := range s.ports { // without a Subnet, use the networks of its router ports
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

// gatewayFor returns the gateway that a host on the switch uses.
func (s *logicalSwitch) gatewayFor(from netip.Addr) netip.Addr {
	if s.subnet != nil {
		for _, a := range s.subnet.Gateways {
			if ipfamily.Same(a, from) {
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

// parseMatch parses a match, with a cache.
func (f *topology) parseMatch(text string) parsedMatch {
	p, known := f.matchCache[text]
	if !known {
		p.Match, p.err = match.Parse(text)
		f.matchCache[text] = p
	}
	return p
}

// chassisResolver resolves the names in matches, on a chassis.
type chassisResolver struct {
	*topology
	chassis string
}

func (n chassisResolver) AddressSet(name string) ([]string, bool) {
	set, there := n.survey.Logical.Sets[name]
	for _, f := range ipfamily.Both {
		if group, found := strings.CutSuffix(name, "_"+match.Symbol(f)); found && !there {
			return n.portGroupAddresses(group, f)
		}
	}
	return set, there
}

// portGroupAddresses returns the addresses of the ports of a group. OVN has such an address set for each family.
func (n chassisResolver) portGroupAddresses(name string, f ipfamily.Family) (out []string, there bool) {
	group := n.portGroups[name]
	if group == nil {
		return nil, false
	}
	for _, port := range group.Ports {
		if at := n.switchPorts[port]; at != nil {
			for _, a := range at.Addresses {
				if f.Contains(a) {
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
