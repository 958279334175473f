package blueprint

import (
	"fmt"
	"math/big"
	"net/netip"
	"slices"
)

// The lab's own links live in ranges that no segment may use. The layout of a range is written down here and nowhere
// else.
var (
	labRange4 = netip.MustParsePrefix("172.20.0.0/14")
	labRange6 = netip.MustParsePrefix("fd00:ab::/32")

	management = netip.MustParsePrefix("172.22.0.0/16") // the lab itself and every node: API, OVN databases
	tunnels    = netip.MustParsePrefix("172.23.0.0/16") // tunnel ends

	internet4 = netip.MustParseAddr("203.0.113.10")
	internet6 = netip.MustParseAddr("2001:db8:113::10")
)

// The cluster's own addresses, where a blueprint does not say.
var (
	pods     = netip.MustParsePrefix("10.16.0.0/16")
	join     = netip.MustParsePrefix("100.64.0.0/16")
	services = netip.MustParsePrefix("10.96.0.0/12")
)

// PodRange has the pods of Kube-OVN's default subnet.
func (b Blueprint) PodRange() netip.Prefix { return given(b.Pods, pods) }

// JoinRange has the nodes' addresses inside OVN.
func (b Blueprint) JoinRange() netip.Prefix { return given(b.Join, join) }

// ServiceRange has the cluster's Services.
func (b Blueprint) ServiceRange() netip.Prefix { return given(b.Services, services) }

// ServiceRanges is ServiceRange, and the range of the other family if there is one, as Kubernetes and Kube-OVN take them.
func (b Blueprint) ServiceRanges() string {
	if b.Services6.IsValid() {
		return b.ServiceRange().String() + "," + b.Services6.String()
	}
	return b.ServiceRange().String()
}

func given(p, otherwise netip.Prefix) netip.Prefix {
	if p.IsValid() {
		return p
	}
	return otherwise
}

// What the layout has room for.
const (
	maxNodes     = 200
	maxServers   = 9
	maxFakeNodes = 64_000
	maxSegments  = 256

	// UnderlayMTU leaves room for geneve round a full-size pod packet.
	UnderlayMTU = 2000
	// WireMTU is that of external networks and uplinks.
	WireMTU = 1500
)

// Node is one lab node.
type Node struct {
	Name       string
	Management netip.Prefix // its InternalIP, on eth0
	Tunnel     netip.Prefix // its geneve end, on br-phy
	Gateway    bool         // may hold external gateways
	Real       bool         // runs containerd, a kubelet and Kube-OVN's daemon
	Index      int
}

// Fake nodes are numbered apart from the others on the management and tunnel networks.
const (
	firstNode = 256
	firstFake = 1024
)

// NodeList lists the nodes with a data plane, node1 first.
func (b Blueprint) NodeList() []Node {
	nodes := numbered("node", b.Nodes, firstNode)
	for i := range nodes {
		nodes[i].Gateway = nodes[i].Index > b.Nodes-b.Gateways
		nodes[i].Real = nodes[i].Index <= b.RealNodes
	}
	return nodes
}

// FakeNodeList lists the nodes that exist in APIs only.
func (b Blueprint) FakeNodeList() []Node { return numbered("fake", b.FakeNodes, firstFake) }

func numbered(name string, count, from int) []Node {
	nodes := make([]Node, 0, count)
	for i := 1; i <= count; i++ {
		nodes = append(nodes, Node{
			Name:       fmt.Sprintf("%s%d", name, i),
			Management: hostIn(management, from+i),
			Tunnel:     hostIn(tunnels, from+i),
			Index:      i,
		})
	}
	return nodes
}

// ServerAddresses are the lab's own addresses on the management network, one for each server of an OVN database; the
// API server is at the first.
func (b Blueprint) ServerAddresses() []netip.Prefix {
	var out []netip.Prefix
	for i := 1; i <= b.Raft; i++ {
		out = append(out, hostIn(management, i))
	}
	return out
}

// InternetAddresses are the addresses of the internet host, the same whichever network it comes in by.
func InternetAddresses() []netip.Addr { return []netip.Addr{internet4, internet6} }

// DefaultNetwork is the external network of projects that name none; nil in a lab without networks.
func (b Blueprint) DefaultNetwork() *Network {
	for i := range b.Networks {
		if b.Networks[i].Default {
			return &b.Networks[i]
		}
	}
	if len(b.Networks) == 0 {
		return nil
	}
	return &b.Networks[len(b.Networks)-1]
}

// Kind tells what nodes have on a segment.
type Kind int

const (
	// External segments end in an OVS bridge on each node.
	External Kind = iota
	// Plain segments end in a kernel interface with an address on each node.
	Plain
)

// Segment is one L2 wire with its router, the client behind the router and the router's link to the internet host.
type Segment struct {
	Name     string
	Kind     Kind
	Prefixes []netip.Prefix
	Reserved int        // addresses from the start of each prefix; 0: as many as usual
	BGP      bool       // the router learns addresses from the nodes
	RouterID netip.Addr // the router's name in BGP: an IPv4 address, also where there is no IPv4

	Router    string // namespaces
	Client    string
	Neighbour string

	Gateways   []netip.Prefix // the router on the wire
	Neighbours []netip.Prefix // the neighbour on the wire
	ClientSide []Pair         // router – client
	WideArea   []Pair         // router – internet
}

// Pair is the two ends of a point-to-point link, the router's first.
type Pair struct{ Router, Peer netip.Prefix }

// Segments lists every wire of the lab: external networks first, then uplinks.
func (b Blueprint) Segments() []Segment {
	var out []Segment
	for _, n := range b.Networks {
		s := segment(len(out), n.Name, External, n.Prefixes)
		s.Reserved = n.Reserved
		out = append(out, s)
	}
	for _, u := range b.Uplinks {
		s := segment(len(out), u.Name, Plain, u.Prefixes)
		s.BGP, s.Reserved = u.BGP, u.Reserved
		out = append(out, s)
	}
	return out
}

// BGP lists the uplinks whose routers learn addresses from the nodes.
func (b Blueprint) BGP() []Segment {
	return slices.DeleteFunc(b.Segments(), func(s Segment) bool { return !s.BGP })
}

func segment(index int, name string, kind Kind, prefixes []netip.Prefix) Segment {
	_, wide4 := linkRanges(true, index)
	s := Segment{
		Name:      name,
		Kind:      kind,
		Prefixes:  prefixes,
		RouterID:  hostIn(wide4, 1).Addr(),
		Router:    "router-" + name,
		Client:    "client-" + name,
		Neighbour: "host-" + name,
	}
	for _, p := range prefixes {
		s.Gateways = append(s.Gateways, hostIn(p, 1))
		s.Neighbours = append(s.Neighbours, hostIn(p, 2))
		client, wide := linkRanges(p.Addr().Is4(), index)
		s.ClientSide = append(s.ClientSide, Pair{Router: hostIn(client, 1), Peer: hostIn(client, 10)})
		s.WideArea = append(s.WideArea, Pair{Router: hostIn(wide, 1), Peer: hostIn(wide, 2)})
	}
	return s
}

func linkRanges(v4 bool, index int) (client, wide netip.Prefix) {
	if v4 {
		return netip.MustParsePrefix(fmt.Sprintf("172.20.%d.0/24", index)),
			netip.MustParsePrefix(fmt.Sprintf("172.21.%d.0/24", index))
	}
	return netip.MustParsePrefix(fmt.Sprintf("fd00:ab:20:%x::/64", index)),
		netip.MustParsePrefix(fmt.Sprintf("fd00:ab:21:%x::/64", index))
}

// reserved is how many addresses from the start of a prefix belong to the wire itself: router, neighbour, spare.
func reserved(p netip.Prefix, asked int) int {
	size := p.Addr().BitLen() - p.Bits()
	switch {
	case asked > 0:
		return asked
	case size >= 6:
		return 10
	}
	return 2
}

// ReservedRange is the reserved part of a prefix of the network in Kube-OVN's notation.
func (n Network) ReservedRange(p netip.Prefix) string {
	return fmt.Sprintf("%s..%s", hostIn(p, 1).Addr(), hostIn(p, reserved(p, n.Reserved)).Addr())
}

// NodeAddresses are a node's addresses on a plain segment.
func (s Segment) NodeAddresses(n Node) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range s.Prefixes {
		out = append(out, hostIn(p, reserved(p, s.Reserved)+n.Index))
	}
	return out
}

// hostIn is host number n of prefix p, with p's length; invalid where there is no such address.
func hostIn(p netip.Prefix, n int) netip.Prefix {
	base := new(big.Int).SetBytes(p.Masked().Addr().AsSlice())
	base.Add(base, big.NewInt(int64(n)))
	if base.BitLen() > p.Addr().BitLen() {
		return netip.Prefix{}
	}
	addr, _ := netip.AddrFromSlice(base.FillBytes(make([]byte, p.Addr().BitLen()/8)))
	return netip.PrefixFrom(addr, p.Bits())
}
