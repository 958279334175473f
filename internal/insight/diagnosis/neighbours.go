package diagnosis

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

// neighbourAnswer is what one node received for an address.
type neighbourAnswer struct {
	node string
	clusterstate.Neighbour
}

// neighbourAnswers returns the answers on an external subnet, by address.
func (p *checker) neighbourAnswers(s *clusterstate.Subnet) map[netip.Addr][]neighbourAnswer {
	out := map[netip.Addr][]neighbourAnswer{}
	for _, name := range sortedKeys(p.Inspected) {
		for _, n := range p.Inspected[name].Neighbours {
			if n.Interface == s.InterfaceOn(name) && n.Vlan == s.Tag && p.Cluster.ExternalSubnetAt(n.Address) == s {
				out[n.Address] = append(out[n.Address], neighbourAnswer{name, n})
			}
		}
	}
	return out
}

func (p *checker) externalSubnets() (out []*clusterstate.Subnet) {
	for i := range p.Cluster.Subnets {
		if p.Cluster.Subnets[i].Network != "" {
			out = append(out, &p.Cluster.Subnets[i])
		}
	}
	return out
}

// checkGateways finds gateways for which nobody answers, or several hosts.
func (p *checker) checkGateways() {
	for _, s := range p.externalSubnets() {
		heard := p.neighbourAnswers(s)
		for _, gateway := range s.Gateways {
			p.checkGatewayAnswers(s, gateway, heard[gateway])
		}
	}
}

func (p *checker) checkGatewayAnswers(s *clusterstate.Subnet, gateway netip.Addr, answers []neighbourAnswer) {
	var silent, macs []string
	about := p.externalSubnetRefs(s)
	for _, a := range answers {
		macs = append(macs, a.MACs...)
		if len(a.MACs) == 0 {
			silent, about = append(silent, a.node), append(about, clusterstate.NodeRef(a.node))
		}
	}
	switch {
	case len(silent) > 0 && len(silent) == len(answers):
		p.report(GatewaySilent, about, "nobody answers for gateway %s of network %s (asked by %s)", gateway, s.Network,
			joinLimited(silent, 4))
	case len(silent) > 0:
		p.report(GatewaySilent, about, "nobody answers node %s for gateway %s of network %s; other nodes get answers",
			joinLimited(silent, 4), gateway, s.Network)
	}
	if macs = slices.Compact(slices.Sorted(slices.Values(macs))); len(macs) > 1 {
		p.report(GatewayDuplicate, p.externalSubnetRefs(s), "%s answer for gateway %s of network %s",
			strings.Join(macs, " and "), gateway, s.Network)
	}
}

// addressPresence says which MAC addresses and chassis answer for an external address in OVN.
type addressPresence struct {
	macs, chassis []string
	answersAnyone bool // OVN answers any request
}

// presentAddresses returns the external addresses that OVN answers for.
func (p *checker) presentAddresses() map[netip.Addr]*addressPresence {
	out := map[netip.Addr]*addressPresence{}
	for a, claims := range p.collectAddressClaims() {
		at := &addressPresence{}
		for _, c := range claims {
			for _, port := range c.router.Ports {
				if slices.ContainsFunc(port.Networks, func(n netip.Prefix) bool { return n.Masked().Contains(a) }) {
					at.macs, at.chassis = append(at.macs, strings.ToLower(port.MAC)), append(at.chassis, port.Holder)
				}
			}
			at.answersAnyone = at.answersAnyone || !c.localARPOnly
			if c.mac != "" {
				at.macs = append(at.macs, strings.ToLower(c.mac))
			}
		}
		if len(at.macs) > 0 {
			out[a] = at
		}
	}
	return out
}

// checkNeighbours finds addresses of the cluster for which another host answers, or nobody.
func (p *checker) checkNeighbours() {
	if p.isUnreadable(clusterstate.Northbound) {
		return // it is not known who should answer
	}
	present := p.presentAddresses()
	for _, s := range p.externalSubnets() {
		heard := p.neighbourAnswers(s)
		for _, a := range sortedAddresses(heard) {
			if slices.Contains(s.Gateways, a) {
				continue
			}
			p.checkNeighbourAnswers(s, a, present[a], heard[a])
		}
	}
}

func (p *checker) checkNeighbourAnswers(s *clusterstate.Subnet, a netip.Addr, at *addressPresence,
	answers []neighbourAnswer,
) {
	have := p.objectsWithAddress(a)
	if at == nil && len(have) == 0 {
		return // not an address of the cluster
	}
	about := uniqueRefs(append(have, p.externalSubnetRefs(s)...)...)
	var others, nodes []string
	answered := false
	for _, x := range answers {
		nodes = append(nodes, x.node)
		for _, mac := range x.MACs {
			if at != nil && slices.Contains(at.macs, strings.ToLower(mac)) {
				answered = true
			} else {
				others = append(others, mac)
			}
		}
	}
	switch {
	case len(others) > 0:
		p.report(AddressDuplicate, about, "%s on network %s also answers for %s, but is not a MAC address of OVN",
			joinLimited(others, 3), s.Network, a)
	case at != nil && at.answersAnyone && !answered && p.isHeldElsewhere(at, nodes):
		p.report(AddressSilent, about, "nobody answers for %s on network %s (asked by %s), but OVN should",
			a, s.Network, joinLimited(nodes, 3))
	}
}

// isHeldElsewhere reports whether none of the asking nodes holds an address: a node does not receive its own answers.
func (p *checker) isHeldElsewhere(at *addressPresence, nodes []string) bool {
	return !slices.ContainsFunc(at.chassis, func(c string) bool {
		n := p.nodeOfChassis(c)
		return n == nil || slices.Contains(nodes, n.Name)
	})
}

func sortedAddresses[T any](m map[netip.Addr]T) []netip.Addr {
	out := make([]netip.Addr, 0, len(m))
	for a := range m {
		out = append(out, a)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}
