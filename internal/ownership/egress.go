package ownership

import (
	"net/netip"
	"strings"

	"github.com/sallyport/sallyport/internal/kubeovn"
)

// EgressVpc is the router that holds all egress addresses, and the shard that decides about them. It is a Vpc of Kube-OVN's, which
// would remove a router that is none.
const EgressVpc = "sallyport-egress"

// Dashed is an address as a part of names.
func Dashed(a netip.Addr) string {
	return strings.NewReplacer(".", "-", ":", "-").Replace(a.StringExpanded())
}

// EgressEip is the OvnEip that keeps an egress address from others.
func EgressEip(a netip.Addr) string { return "egress-" + Dashed(a) }

// EgressPort is the port of the egress router that has an egress address.
func EgressPort(a netip.Addr) string { return EgressVpc + "-" + Dashed(a) }

// EgressSocket is the port of the external network's switch that leads there.
func EgressSocket(subnet string, a netip.Addr) string { return subnet + "-" + EgressPort(a) }

// EgressTable is the routing table of an egress address.
func EgressTable(a netip.Addr) string { return "egress-" + Dashed(a) }

// EgressLink is the egress router's end of the link between an egress address and a VPC.
func EgressLink(a netip.Addr, vpc string) string { return EgressPort(a) + "-" + vpc }

// EgressEnd is the VPC's end of that link.
func EgressEnd(vpc string, a netip.Addr) string { return vpc + egressEnd + Dashed(a) }

const egressEnd = "-egress-"

// RouterOf is the router of a link's end; empty: the port is no such end.
func RouterOf(port string) string {
	if strings.HasPrefix(port, EgressVpc+"-") {
		return EgressVpc
	}
	if i := strings.LastIndex(port, egressEnd); i > 0 {
		return port[:i]
	}
	return ""
}

// EgressSet is the address set of the pods of a VPC that an EgressIP selects.
func EgressSet(vpc, egressIP string) string { return setName(vpc + ".egress." + egressIP) }

// BehindSet is the address set of the pods behind an EgressService of a VPC.
func BehindSet(vpc, service string) string { return setName(vpc + ".service." + service) }

// RouteSet is the address set of the pods that an EgressRoute of a VPC selects.
func RouteSet(vpc, route string) string { return setName(vpc + ".route." + route) }

// OthersSet is the addresses on external networks that other VPCs may have.
func OthersSet(vpc string) string { return setName(vpc + ".others") }

// UnsharedSet is the addresses of an external subnet that a VPC does not share with all others.
func UnsharedSet(vpc, subnet string) string { return setName(vpc + ".unshared." + subnet) }

// AllowedSet is the address set of those with whom a VPC may have connections that begin in a direction: ingress or egress.
func AllowedSet(vpc, direction string) string { return setName(vpc + ".allowed." + direction) }

// routeSteps is how many priorities there are for a length of prefixes: two for each EgressRoute that has the same one.
const routeSteps = 20

// SameRoutes is how many EgressRoutes may have the same destination.
const SameRoutes = routeSteps / 2

// RouteWay is the priority of the way to a destination by its gateway; by that plus one, its neighbours are reached. The longest prefix comes
// first, and of the same ones the first by rank.
func RouteWay(bits, rank int) int { return EgressTo + bits*routeSteps + 2*(SameRoutes-1-rank) }

// FreeSet is the address set of the pods of a VPC that leave by its default way.
func FreeSet(vpc string) string { return setName(vpc + ".free") }

func setName(name string) string { return strings.ReplaceAll("sallyport."+name, "-", "_") }

// Unlisted says whether router policies of a priority are rows of ours alone, and not also elements of a Vpc's list.
func Unlisted(p int) bool { return EgressRest <= p && p <= EgressToLast }

// KeptKey in the external_ids of a router policy keeps Kube-OVN from removing one that is not in its Vpc's list.
const KeptKey = kubeovn.PolicyKept
