package ownership

import "net/netip"

// The kernel of a node: a rule is ours when its preference is in one of these and its protocol is ours, a route when
// its protocol is, a link by its name, and everything in our nftables table.
const (
	// NodeProtocol is written into rules and routes. The kernel's list has it free.
	NodeProtocol = 91

	// NodesShard is the shard of all NodePaths. Vpcs of Kube-OVN's with this name could not be ours.
	NodesShard = "sallyport-nodes"

	// Preferences of rules. The kernel's own are 0 (local), 1000 (VRFs) and 32766 (main).
	NodeRuleToCluster = 990  // what goes into the cluster, before a VRF's table is asked
	NodeRuleMark      = 1110 // what is marked → the table of its network
	NodeRuleSource    = 1120 // what comes from a cluster address → the table of its network

	// NodeTableBase and a network's number is its routing table; NodeVethTableOffset more is the table that leads to
	// its leg.
	NodeTableBase       = 9100
	NodeVethTableOffset = 300

	// NodeMarkMask are our bits of marks, of packets and of connections. kube-proxy has 0x4000 and 0x8000, Kube-OVN has
	// 0x4000 and some of 0xf000f.
	NodeMarkMask  = 0x7f800000
	NodeMarkShift = 23

	// NodeNFTTable is our nftables table, of family inet.
	NodeNFTTable = "sallyport"

	// The names of our links begin so; a network's number follows.
	NodeVRFPrefix      = "sp-vrf-"
	NodeVethPrefix     = "sp-leg-"
	NodeVethPeerPrefix = "sp-far-"
)

// NodeNetworkMark is the mark of a network's number.
func NodeNetworkMark(number int) uint32 {
	return uint32(number) << NodeMarkShift //nolint:gosec // the API server allows 1 to 255
}

// NodeVethBase4 and NodeVethBase6 are the prefixes of which legs have addresses: of the link only.
var (
	NodeVethBase4 = netip.MustParseAddr("169.254.92.0")
	NodeVethBase6 = netip.MustParseAddr("fdfe:5a11:9070::")
)
