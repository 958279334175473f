// Package blueprint is the lab as a value: what a person asked for, and every name and address that follows from it.
package blueprint

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"regexp"

	"sigs.k8s.io/yaml"
)

// Blueprint is what a lab consists of. Equal blueprints give equal labs: nothing in it is chosen at run time.
type Blueprint struct {
	// Nodes is the number of nodes with a data plane of their own.
	Nodes int `json:"nodes"`
	// RealNodes is how many of the nodes, the first ones, run containerd, a kubelet and Kube-OVN's daemon; on the
	// others the lab does their work.
	RealNodes int `json:"realNodes"`
	// Gateways is how many of the nodes, the last ones, may hold external gateways; the others never do.
	Gateways int `json:"gateways"`
	// FakeNodes and FakePods exist in the Kubernetes API, the OVN databases and Kube-OVN, and send no packets.
	FakeNodes int `json:"fakeNodes"`
	FakePods  int `json:"fakePods"`
	// Raft is the number of servers of each OVN database: 1, or 3 and more for a cluster.
	Raft int `json:"raft"`
	// Networks are the external networks, as Kube-OVN sees them and as wires to each node.
	Networks []Network `json:"networks"`
	// Uplinks are plain interfaces of the nodes, without Kube-OVN and OVN.
	Uplinks []Uplink `json:"uplinks"`
	// Pods, Join and Services are the cluster's own addresses: of Kube-OVN's default subnet, of nodes inside OVN, and
	// of Services.
	Pods     netip.Prefix `json:"pods"`
	Join     netip.Prefix `json:"join"`
	Services netip.Prefix `json:"services"`
	// Services6 are the IPv6 addresses of Services. Invalid: Services have IPv4 only.
	Services6 netip.Prefix `json:"services6"`
}

// Network is an external network with its router, a client behind the router and a neighbour on the wire.
type Network struct {
	Name     string         `json:"name"`
	Prefixes []netip.Prefix `json:"prefixes"`
	// IPv4Subnet leaves IPv6 out of Kube-OVN's Subnet: the wire has both families, and Kube-OVN knows one.
	IPv4Subnet bool `json:"ipv4Subnet"`
	// Default marks the network that projects use when they name none. Without a mark it is the last one.
	Default bool `json:"default"`
	// VLAN is the tag of the network's packets on the nodes' bridges; 0: none. The wire itself is an access port.
	VLAN int `json:"vlan"`
	// Reserved is how many addresses from the start of each prefix Kube-OVN does not give out; 0: those of the wire
	// itself.
	Reserved int `json:"reserved"`
}

// Uplink is a plain interface of every node, with a router and a client behind it.
type Uplink struct {
	Name     string         `json:"name"`
	Prefixes []netip.Prefix `json:"prefixes"`
	// BGP lets the router learn addresses from the nodes.
	BGP bool `json:"bgp"`
	// Reserved is how many addresses from the start of each prefix come before those of the nodes; 0: those of the wire
	// itself.
	Reserved int `json:"reserved"`
}

// Default is the lab that `lab up` starts when nothing is said.
func Default() Blueprint {
	return Blueprint{
		Nodes:    3,
		Gateways: 2,
		Raft:     1,
		Networks: []Network{
			{Name: "ext-public", Prefixes: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}},
			{Name: "ext-cloud", Prefixes: []netip.Prefix{netip.MustParsePrefix("100.65.0.0/16")}, Default: true},
		},
		Uplinks: []Uplink{
			{Name: "uplink-a", Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/25")}},
			{Name: "uplink-b", Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.128/25")}},
		},
	}
}

// Load reads a topology file. What the file leaves out is as in Default; a list that it has replaces the default list.
func Load(path string) (Blueprint, error) {
	raw, err := os.ReadFile(path) //nolint:gosec // the file that the user names
	if err != nil {
		return Blueprint{}, fmt.Errorf("read topology: %w", err)
	}
	b, err := Parse(raw)
	if err != nil {
		return Blueprint{}, fmt.Errorf("topology %s: %w", path, err)
	}
	return b, nil
}

// Parse reads the text of a topology file.
func Parse(raw []byte) (Blueprint, error) {
	b := Default()
	given := Blueprint{}
	if err := yaml.UnmarshalStrict(raw, &given); err != nil {
		return Blueprint{}, err
	}
	if given.Networks != nil {
		b.Networks = nil
	}
	if given.Uplinks != nil {
		b.Uplinks = nil
	}
	if err := yaml.UnmarshalStrict(raw, &b); err != nil {
		return Blueprint{}, err
	}
	return b, nil
}

// Provider networks become OVS bridges "br-<name>", and Linux allows 15 characters for the name of an interface.
const maxName = 12

// A segment's name becomes that of interfaces, of directories below /proc/sys/net, of an OVS bridge with "br-" before
// it, and of a Subnet beside Kube-OVN's own.
var reservedNames = map[string]bool{
	"lo": true, "all": true, "default": true, "eth0": true, "ovn0": true, "ul0": true, "ovs-netdev": true,
	"int": true, "br-int": true, "phy": true, "br-phy": true, "join": true, "ovn-default": true,
}

var nameForm = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)

// Check says what is wrong with the blueprint, all of it at once.
func (b Blueprint) Check() error {
	var errs []error
	complain := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if b.Nodes < 0 || b.Nodes > maxNodes {
		complain("nodes: %d is not between 0 and %d", b.Nodes, maxNodes)
	}
	if b.RealNodes < 0 || b.RealNodes > b.Nodes {
		complain("realNodes: %d is not between 0 and the number of nodes, %d", b.RealNodes, b.Nodes)
	}
	if b.Gateways < 0 || b.Gateways > b.Nodes {
		complain("gateways: %d is not between 0 and the number of nodes, %d", b.Gateways, b.Nodes)
	}
	if b.Raft < 1 || b.Raft%2 == 0 || b.Raft > maxServers {
		complain("raft: %d is not an odd number of servers, at most %d", b.Raft, maxServers)
	}
	if b.FakeNodes < 0 || b.FakePods < 0 {
		complain("fakeNodes and fakePods can't be negative")
	}
	if b.FakeNodes > maxFakeNodes {
		complain("fakeNodes: %d are more than %d", b.FakeNodes, maxFakeNodes)
	}
	if b.FakePods > 0 && b.FakeNodes == 0 {
		complain("fakePods: %d fake pods need at least one fake node (fakeNodes)", b.FakePods)
	}
	if n := len(b.Networks) + len(b.Uplinks); n > maxSegments {
		complain("networks and uplinks: %d are more than %d", n, maxSegments)
		return errors.Join(errs...)
	}
	errs = append(errs, b.checkSegments()...)
	return errors.Join(errs...)
}

// checkSegments looks at the wires: each by itself, and that none takes a name or addresses of another.
func (b Blueprint) checkSegments() (errs []error) {
	taken, errs := b.ownRanges()
	names := map[string]bool{}
	for _, s := range b.Segments() {
		if names[s.Name] {
			errs = append(errs, fmt.Errorf("%s: the name is used twice", s.Name))
		}
		names[s.Name] = true
		if err := errors.Join(checkName(s.Name), checkFamilies(s.Prefixes)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.Name, err))
		}
		for _, p := range s.Prefixes {
			if err := b.checkRoom(s, p); err != nil {
				errs = append(errs, err)
			}
			for _, other := range taken {
				if p.Overlaps(other.prefix) {
					errs = append(errs, fmt.Errorf("%s: prefix %s overlaps %s of %s", s.Name, p, other.prefix,
						other.holder))
				}
			}
			taken = append(taken, claim{p, s.Name})
		}
	}
	return append(errs, b.checkNetworks(names)...)
}

// checkRoom looks at how many addresses of a wire are reserved, and whether enough are left.
func (b Blueprint) checkRoom(s Segment, p netip.Prefix) error {
	switch {
	case s.Reserved != 0 && (s.Reserved < 2 || !roomFor(p, s.Reserved, 1)):
		return fmt.Errorf("%s: %d reserved addresses of %s: the wire needs 2, and 1 has to be left", s.Name, s.Reserved,
			p)
	case s.Kind == Plain && !roomFor(p, s.Reserved, b.Nodes):
		return fmt.Errorf("%s: prefix %s has no addresses for %d nodes", s.Name, p, b.Nodes)
	}
	return nil
}

// checkNetworks looks at what only networks have: a mark and a bridge.
func (b Blueprint) checkNetworks(names map[string]bool) (errs []error) {
	defaults := 0
	for _, n := range b.Networks {
		if n.Default {
			defaults++
		}
		if n.VLAN < 0 || n.VLAN > 4094 {
			errs = append(errs, fmt.Errorf("%s: VLAN %d is not between 0 and 4094", n.Name, n.VLAN))
		}
		if bridge := "br-" + n.Name; names[bridge] {
			errs = append(errs, fmt.Errorf("%s: the name is that of the bridge of network %s", bridge, n.Name))
		}
	}
	if defaults > 1 {
		errs = append(errs, fmt.Errorf("networks: %d are marked default, at most one can be", defaults))
	}
	return errs
}

// roomFor says whether so many hosts have an address in the prefix behind what is reserved, the last one of which is
// for broadcasts.
func roomFor(p netip.Prefix, asked, hosts int) bool {
	size := p.Addr().BitLen() - p.Bits()
	return size > 16 || reserved(p, asked)+hosts <= 1<<size-2
}

// claim is a prefix that somebody has already.
type claim struct {
	prefix netip.Prefix
	holder string
}

// ownRanges are the lab's own addresses and the cluster's, which may not overlap either.
func (b Blueprint) ownRanges() (claims []claim, errs []error) {
	all := []claim{
		{labRange4, "the lab's own links"},
		{labRange6, "the lab's own links"},
		{b.PodRange(), "Kube-OVN's default subnet"},
		{b.JoinRange(), "Kube-OVN's join subnet"},
		{b.ServiceRange(), "the cluster's Services"},
	}
	if b.Services6.IsValid() {
		all = append(all, claim{b.Services6, "the cluster's Services"})
	}
	for _, a := range InternetAddresses() {
		all = append(all, claim{netip.PrefixFrom(a, a.BitLen()), "the internet host"})
	}
	for _, c := range all {
		if err := checkFamilies([]netip.Prefix{c.prefix}); err != nil && !c.prefix.IsSingleIP() {
			errs = append(errs, fmt.Errorf("%s: %w", c.holder, err))
		}
		for _, other := range claims {
			if c.prefix.Overlaps(other.prefix) {
				errs = append(errs, fmt.Errorf("%s: prefix %s overlaps %s of %s", c.holder, c.prefix, other.prefix,
					other.holder))
			}
		}
		claims = append(claims, c)
	}
	return claims, errs
}

func checkName(name string) error {
	if len(name) > maxName || !nameForm.MatchString(name) {
		return fmt.Errorf("a name has at most %d characters, lower case letters, digits and hyphens", maxName)
	}
	if reservedNames[name] {
		return errors.New("the name has another use on a node or in Kube-OVN")
	}
	return nil
}

func checkFamilies(prefixes []netip.Prefix) error {
	if len(prefixes) == 0 || len(prefixes) > 2 {
		return fmt.Errorf("needs one prefix, or one of IPv4 and one of IPv6")
	}
	if len(prefixes) == 2 && prefixes[0].Addr().Is4() == prefixes[1].Addr().Is4() { //nolint:gosec // the length is checked before
		return fmt.Errorf("has two prefixes of one family")
	}
	for _, p := range prefixes {
		if !p.IsValid() {
			return errors.New("a prefix is not valid")
		}
		if p != p.Masked() {
			return fmt.Errorf("prefix %s has host bits set; did you mean %s?", p, p.Masked())
		}
		if p.Addr().BitLen()-p.Bits() < 3 {
			return fmt.Errorf("prefix %s is too small: a router, a neighbour and gateways need a /29 (IPv4) or /125 (IPv6)", p)
		}
		if !p.Addr().IsGlobalUnicast() || p.Addr().Is4In6() {
			return fmt.Errorf("prefix %s is not one of IPv4 or IPv6 unicast addresses", p)
		}
	}
	return nil
}
