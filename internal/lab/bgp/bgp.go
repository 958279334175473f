// Package bgp is the BGP of a lab: an FRR on the router of each uplink that has it, and one on each node, announcing
// what it is told to.
package bgp

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
)

// The autonomous systems of the routers and of the nodes, out of those for private use.
const (
	routerAS = 64512
	nodeAS   = 64513
)

// Root is the root directory of the FRR of a node or router, below the lab's directory for data.
func Root(data, name string) string { return filepath.Join(data, "frr", name) }

// routerConfig lets a router learn from every node that calls, and tell none of them anything: a node's way out is its
// default route.
func routerConfig(s blueprint.Segment) string {
	var b strings.Builder
	b.WriteString("route-map nothing deny 10\nexit\n")
	begin(&b, routerAS, s.RouterID)
	// FRR's own limit is 100; a node calls once for each family.
	b.WriteString(" bgp listen limit 1000\n")
	for _, p := range s.Prefixes {
		group := "nodes-" + family(p.Addr())
		fmt.Fprintf(&b, " neighbor %s peer-group\n neighbor %[1]s remote-as %d\n neighbor %[1]s timers 3 9\n", group,
			nodeAS)
		fmt.Fprintf(&b, " bgp listen range %s peer-group %s\n", p, group)
		activate(&b, p.Addr(), group, "nothing")
	}
	b.WriteString("exit\n")
	return b.String()
}

// nodeConfig lets a node call every router, and tell each what is marked for its uplink with the uplink's community:
// nothing, at first.
func nodeConfig(n blueprint.Node, uplinks []blueprint.Segment) string {
	var b strings.Builder
	for i, s := range uplinks {
		fmt.Fprintf(&b, "bgp community-list standard %s permit %s\n", s.Name, community(i))
		fmt.Fprintf(&b, "route-map to-%s permit 10\n match community %[1]s\nexit\n", s.Name)
	}
	begin(&b, nodeAS, n.Management.Addr())
	b.WriteString(" no bgp network import-check\n") // an announced address need not be one of the node's
	for _, s := range uplinks {
		for _, g := range s.Gateways {
			router := g.Addr().String()
			fmt.Fprintf(&b, " neighbor %s remote-as %d\n neighbor %[1]s timers 3 9\n neighbor %[1]s timers connect 1\n",
				router, routerAS)
			activate(&b, g.Addr(), router, "to-"+s.Name)
		}
	}
	b.WriteString("exit\n")
	return b.String()
}

// begin writes what routers and nodes have in common: nothing happens that is not asked for by a line of the
// configuration.
func begin(b *strings.Builder, as int, id netip.Addr) {
	fmt.Fprintf(b, "router bgp %d\n bgp router-id %s\n no bgp ebgp-requires-policy\n no bgp default ipv4-unicast\n", as,
		id)
}

// activate lets a neighbour take part in the family of an address, and be told what the policy permits.
func activate(b *strings.Builder, a netip.Addr, neighbour, policy string) {
	fmt.Fprintf(b, " address-family %s unicast\n", family(a))
	fmt.Fprintf(b, "  neighbor %s activate\n  neighbor %[1]s route-map %s out\n exit-address-family\n", neighbour,
		policy)
}

func family(a netip.Addr) string {
	if a.Is4() {
		return "ipv4"
	}
	return "ipv6"
}

// community marks what is for the uplink of that place among those with BGP.
func community(place int) string { return fmt.Sprintf("%d:%d", nodeAS, place+1) }
