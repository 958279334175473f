package ownership

import (
	"net/netip"
	"strings"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
)

// EgressVpc is the router that holds all egress addresses, and their shard. It is a Vpc object, because Kube-OVN
// removes routers without one.
const EgressVpc = "sallyport-egress"

// DashAddress formats an address for use in names.
func DashAddress(a netip.Addr) string {
	return strings.NewReplacer(".", "-", ":", "-").Replace(a.StringExpanded())
}

// EgressOvnEipName returns the OvnEip that reserves an egress address.
func EgressOvnEipName(a netip.Addr) string { return "egress-" + DashAddress(a) }

// EgressRouterPort returns the port of the egress router that has an egress address.
func EgressRouterPort(a netip.Addr) string { return EgressVpc + "-" + DashAddress(a) }

// EgressSwitchPort returns the port of the external switch that leads to it.
func EgressSwitchPort(subnet string, a netip.Addr) string { return subnet + "-" + EgressRouterPort(a) }

// EgressRouteTable returns the routing table of an egress address.
func EgressRouteTable(a netip.Addr) string { return "egress-" + DashAddress(a) }

// EgressLinkPort returns the egress router's end of the link between an egress address and a VPC.
func EgressLinkPort(a netip.Addr, vpc string) string { return EgressRouterPort(a) + "-" + vpc }

// VPCEgressLinkPort returns the VPC's end of that link.
func VPCEgressLinkPort(vpc string, a netip.Addr) string {
	return vpc + egressLinkInfix + DashAddress(a)
}

const egressLinkInfix = "-egress-"

// EgressLinkRouter returns the router of an end of a link, or an empty string if the port is none.
func EgressLinkRouter(port string) string {
	if strings.HasPrefix(port, EgressVpc+"-") {
		return EgressVpc
	}
	if i := strings.LastIndex(port, egressLinkInfix); i > 0 {
		return port[:i]
	}
	return ""
}

// EgressIPPodSet returns the address set of the pods of a VPC that an EgressIP selects.
func EgressIPPodSet(vpc, egressIP string) string { return addressSetName(vpc + ".egress." + egressIP) }

// EgressServicePodSet returns the address set of the backends of an EgressService.
func EgressServicePodSet(vpc, service string) string {
	return addressSetName(vpc + ".service." + service)
}

// EgressRoutePodSet returns the address set of the pods that an EgressRoute selects.
func EgressRoutePodSet(vpc, route string) string { return addressSetName(vpc + ".route." + route) }

// ForeignAddressSet returns the address set of addresses of a family on external networks that other VPCs may have.
func ForeignAddressSet(vpc string, f ipfamily.Family) string {
	return addressSetName(vpc + ".others" + familySuffix(f))
}

// UnsharedAddressSet returns the address set of the addresses of an external subnet that a VPC does not share with all
// others.
func UnsharedAddressSet(vpc, subnet string) string {
	return addressSetName(vpc + ".unshared." + subnet)
}

// AllowListAddressSet returns the address set of the peers of a family that a VPC may have connections with, in the
// direction ingress or egress.
func AllowListAddressSet(vpc, direction string, f ipfamily.Family) string {
	return addressSetName(vpc + ".allowed." + direction + familySuffix(f))
}

// familySuffix tells the address sets of two families apart. OVN has no family in their names.
func familySuffix(f ipfamily.Family) string {
	if f == ipfamily.Default {
		return ""
	}
	return "." + f.String()
}

// prioritiesPerPrefixLength is the number of priorities for each prefix length: two for each EgressRoute with the same
// destination.
const prioritiesPerPrefixLength = 20

// MaxRoutesPerDestination limits the EgressRoutes with the same destination.
const MaxRoutesPerDestination = prioritiesPerPrefixLength / 2

// EgressRoutePriority returns the priority of the policy for a destination through the gateway. The next higher one is
// for neighbours on the network. Longer prefixes take precedence, then lower ranks.
func EgressRoutePriority(bits, rank int) int {
	return EgressRouteFirst + bits*prioritiesPerPrefixLength + 2*(MaxRoutesPerDestination-1-rank)
}

// EgressPortGroup returns the port group of the egress addresses on an external network. The names of the other groups
// begin with "sallyport." or "sallyport_isolation." and can't collide.
func EgressPortGroup(subnet string) string {
	return strings.ReplaceAll("sallyport_egress."+subnet, "-", "_")
}

// UnselectedPodSet returns the address set of the pods of a VPC that use the default egress.
func UnselectedPodSet(vpc string) string { return addressSetName(vpc + ".free") }

// RedirectedPodSet returns the address set of all pods of a VPC that use egress addresses.
func RedirectedPodSet(vpc string) string { return addressSetName(vpc + ".redirected") }

// FailClosedPodSet returns the address set of the pods of a VPC that use egress addresses or nothing.
func FailClosedPodSet(vpc string) string { return addressSetName(vpc + ".closed") }

// ClassifiedPodSet returns the address set of the pods of a VPC of which it is known whether an EgressIP selects them.
func ClassifiedPodSet(vpc string) string { return addressSetName(vpc + ".classified") }

// FIPTargetSet returns the address set of the targets of floating IPs on a Subnet of the management VPC.
func FIPTargetSet(subnet string) string { return addressSetName(subnet + ".fip.targets") }

// OtherSubnetSet returns the address set of the prefixes of the other Subnets.
func OtherSubnetSet(subnet string) string { return addressSetName(subnet + ".other.subnets") }

// InsideAddressSet returns the address set of the destinations inside the cluster.
func InsideAddressSet(vpc string) string { return addressSetName(vpc + ".inside") }

// OutsideAddressSet returns the address set of the destinations for which pods of a VPC use egress addresses.
func OutsideAddressSet(vpc string) string { return addressSetName(vpc + ".outside") }

func addressSetName(name string) string { return strings.ReplaceAll("sallyport."+name, "-", "_") }

// IsRowOnlyPriority reports whether router policies with a priority are rows only, without an entry in the Vpc's list.
func IsRowOnlyPriority(p int) bool {
	return EgressFailClosed <= p && p <= EgressRouteLast || ManagementFIP <= p && p <= ManagementEgressIP ||
		p == NodeBackend || p == FIPSubnets || p == NodeBackendReply
}

// PolicyKeepKey in the external_ids of a router policy prevents Kube-OVN from removing a policy that is not in the
// Vpc's list.
const PolicyKeepKey = kubeovn.EgressGatewayPolicyKey
