package ownership

import "net/netip"

// The kernel of a node. An ip rule is ours if it has our protocol and one of these preferences, a route if it has our
// protocol, a link by its name. Our nftables table is ours as a whole.
const (
	// NodeProtocol is the protocol of our rules and routes. It is unused in the kernel's list.
	NodeProtocol = 91

	// NodesShard is the shard of all NodePaths. No project may have a Vpc of this name.
	NodesShard = "sallyport-nodes"
	// NetworksShard is the shard of the ExternalNetworks that are created from labelled Subnets. No project may have a
	// Vpc of this name.
	NetworksShard = "sallyport-networks"

	// Preferences of ip rules. The kernel's own are 0 (local), 1000 (VRFs) and 32766 (main).
	NodeRuleToCluster = 990  // packets into the cluster, before the table of a VRF
	NodeRuleMark      = 1110 // marked packets → the table of their network
	NodeRuleSource    = 1120 // packets from a cluster address → the table of its network

	// NodeTableBase plus the number of a network is its routing table. Adding NodeVethTableOffset gives the table that
	// routes into its veth pair.
	NodeTableBase       = 9100
	NodeVethTableOffset = 300

	// NodeTableNamePrefix and the number of a network are the name of its routing table, NodeVethPrefix and the number
	// that of the table into its veth pair. NodeTableNamesFile has them, in a directory that iproute2 reads.
	NodeTableNamePrefix = "sp-net-"
	NodeTableNamesFile  = "sallyport.conf"

	// NodeMarkMask are our bits of packet and connection marks. kube-proxy uses 0x4000 and 0x8000, Kube-OVN 0x4000 and
	// some of 0xf000f.
	NodeMarkMask  = 0x7f800000
	NodeMarkShift = 23

	// NodeNFTTable is our nftables table, of family inet.
	NodeNFTTable = "sallyport"

	// Prefixes of the names of our links. The number of a network follows.
	NodeVRFPrefix      = "sp-vrf-"
	NodeVethPrefix     = "sp-leg-"
	NodeVethPeerPrefix = "sp-far-"
)

// NodeNetworkMark returns the mark of the network with a number.
func NodeNetworkMark(number int) uint32 {
	return uint32(number) << NodeMarkShift //nolint:gosec // the API server allows 1 to 255
}

// NodeVethBase4 and NodeVethBase6 are the prefixes for the link-only addresses of veth pairs.
var (
	NodeVethBase4 = netip.MustParseAddr("169.254.92.0")
	NodeVethBase6 = netip.MustParseAddr("fdfe:5a11:9070::")
)
