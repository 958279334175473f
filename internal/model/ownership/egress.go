package ownership

import (
	"net/netip"
	"strings"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
)

// EgressVpc is the router that holds all egress addresses, and the shard that decides about them. It is a Vpc of
// Kube-OVN's, which would remove a router that is none.
const EgressVpc = "sallyport-egress"

// DashAddress is an address as a part of names.
func DashAddress(a netip.Addr) string {
	return strings.NewReplacer(".", "-", ":", "-").Replace(a.StringExpanded())
}

// EgressOvnEipName is the OvnEip that keeps an egress address from others.
func EgressOvnEipName(a netip.Addr) string { return "egress-" + DashAddress(a) }

// EgressRouterPort is the port of the egress router that has an egress address.
func EgressRouterPort(a netip.Addr) string { return EgressVpc + "-" + DashAddress(a) }

// EgressSwitchPort is the port of the external network's switch that leads there.
func EgressSwitchPort(subnet string, a netip.Addr) string { return subnet + "-" + EgressRouterPort(a) }

// EgressRouteTable is the routing table of an egress address.
func EgressRouteTable(a netip.Addr) string { return "egress-" + DashAddress(a) }

// EgressLinkPort is the egress router's end of the link between an egress address and a VPC.
func EgressLinkPort(a netip.Addr, vpc string) string { return EgressRouterPort(a) + "-" + vpc }

// VPCEgressLinkPort is the VPC's end of that link.
func VPCEgressLinkPort(vpc string, a netip.Addr) string {
	return vpc + egressLinkInfix + DashAddress(a)
}

const egressLinkInfix = "-egress-"

// EgressLinkRouter is the router of a link's end; empty: the port is no such end.
func EgressLinkRouter(port string) string {
	if strings.HasPrefix(port, EgressVpc+"-") {
		return EgressVpc
	}
	if i := strings.LastIndex(port, egressLinkInfix); i > 0 {
		return port[:i]
	}
	return ""
}

// EgressIPPodSet is the address set of the pods of a VPC that an EgressIP selects.
func EgressIPPodSet(vpc, egressIP string) string { return addressSetName(vpc + ".egress." + egressIP) }

// EgressServicePodSet is the address set of the pods behind an EgressService of a VPC.
func EgressServicePodSet(vpc, service string) string {
	return addressSetName(vpc + ".service." + service)
}

// EgressRoutePodSet is the address set of the pods that an EgressRoute of a VPC selects.
func EgressRoutePodSet(vpc, route string) string { return addressSetName(vpc + ".route." + route) }

// ForeignAddressSet is the addresses on external networks that other VPCs may have.
func ForeignAddressSet(vpc string) string { return addressSetName(vpc + ".others") }

// UnsharedAddressSet is the addresses of an external subnet that a VPC does not share with all others.
func UnsharedAddressSet(vpc, subnet string) string {
	return addressSetName(vpc + ".unshared." + subnet)
}

// AllowListAddressSet is the address set of those with whom a VPC may have connections that begin in a direction:
// ingress or egress.
func AllowListAddressSet(vpc, direction string) string {
	return addressSetName(vpc + ".allowed." + direction)
}

// prioritiesPerPrefixLength is how many priorities there are for a length of prefixes: two for each EgressRoute that
// has the same one.
const prioritiesPerPrefixLength = 20

// MaxRoutesPerDestination is how many EgressRoutes may have the same destination.
const MaxRoutesPerDestination = prioritiesPerPrefixLength / 2

// EgressRoutePriority is the priority of the way to a destination by its gateway; by that plus one, its neighbours are
// reached. The longest prefix comes first, and of the same ones the first by rank.
func EgressRoutePriority(bits, rank int) int {
	return EgressRouteFirst + bits*prioritiesPerPrefixLength + 2*(MaxRoutesPerDestination-1-rank)
}

// UnselectedPodSet is the address set of the pods of a VPC that leave by its default way.
func UnselectedPodSet(vpc string) string { return addressSetName(vpc + ".free") }

func addressSetName(name string) string { return strings.ReplaceAll("sallyport."+name, "-", "_") }

// IsRowOnlyPriority says whether router policies of a priority are rows of ours alone, and not also elements of a Vpc's
// list.
func IsRowOnlyPriority(p int) bool { return EgressFailClosed <= p && p <= EgressRouteLast }

// PolicyKeepKey in the external_ids of a router policy keeps Kube-OVN from removing one that is not in its Vpc's list.
const PolicyKeepKey = kubeovn.EgressGatewayPolicyKey
