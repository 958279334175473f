package engine

import (
	"net"
	"net/netip"
)

// Port is one interface of a pod or node on a logical switch, as Kube-OVN described it in annotations.
type Port struct {
	LogicalPort string // the name of the logical switch port: OVS external_ids:iface-id
	Interface   string // its name in the namespace: eth0, net1, ovn0
	MAC         net.HardwareAddr
	Addresses   []netip.Prefix // with the length of the subnet
	MTU         int            // 0: what is left of the underlay after geneve
}
