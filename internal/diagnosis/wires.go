package diagnosis

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/survey"
)

// answer is what one node heard for an address.
type answer struct {
	node string
	survey.Neighbour
}

// heard are the answers to questions on an external subnet, by address.
func (p *patient) heard(s *survey.Subnet) map[netip.Addr][]answer {
	out := map[netip.Addr][]answer{}
	for _, name := range byName(p.Inspected) {
		for _, n := range p.Inspected[name].Neighbours {
			if n.Interface == s.InterfaceOn(name) && n.Vlan == s.Tag && p.Cluster.Pool(n.Address) == s {
				out[n.Address] = append(out[n.Address], answer{name, n})
			}
		}
	}
	return out
}

// externals are the external subnets.
func (p *patient) externals() (out []*survey.Subnet) {
	for i := range p.Cluster.Subnets {
		if p.Cluster.Subnets[i].Network != "" {
			out = append(out, &p.Cluster.Subnets[i])
		}
	}
	return out
}

// gateways finds gateways for which nobody answers, or two.
func (p *patient) gateways() {
	for _, s := range p.externals() {
		heard := p.heard(s)
		for _, gateway := range s.Gateways {
			p.gateway(s, gateway, heard[gateway])
		}
	}
}

func (p *patient) gateway(s *survey.Subnet, gateway netip.Addr, answers []answer) {
	var silent, macs []string
	about := p.wire(s)
	for _, a := range answers {
		macs = append(macs, a.MACs...)
		if len(a.MACs) == 0 {
			silent, about = append(silent, a.node), append(about, survey.NodeRef(a.node))
		}
	}
	switch {
	case len(silent) > 0 && len(silent) == len(answers):
		p.report(GatewaySilent, about, "nobody answers for gateway %s of network %s (asked by %s)", gateway, s.Network, words(silent, 4))
	case len(silent) > 0:
		p.report(GatewaySilent, about, "on node %s nobody answers for gateway %s of network %s; on others somebody does",
			words(silent, 4), gateway, s.Network)
	}
	if macs = slices.Compact(slices.Sorted(slices.Values(macs))); len(macs) > 1 {
		p.report(GatewayDuplicate, p.wire(s), "%s answer for gateway %s of network %s", strings.Join(macs, " and "), gateway, s.Network)
	}
}

// presence is where an external address is in OVN: who may answer for it, and which chassis does.
type presence struct {
	macs, holders []string
	open          bool // OVN answers whoever asks
}

// present are the external addresses that OVN answers for.
func (p *patient) present() map[netip.Addr]*presence {
	out := map[netip.Addr]*presence{}
	for a, claims := range p.claims() {
		at := &presence{}
		for _, c := range claims {
			for _, port := range c.router.Ports {
				if slices.ContainsFunc(port.Networks, func(n netip.Prefix) bool { return n.Masked().Contains(a) }) {
					at.macs, at.holders = append(at.macs, strings.ToLower(port.MAC)), append(at.holders, port.Holder)
				}
			}
			at.open = at.open || !c.reserved
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

// neighbours finds addresses of ours for which somebody else answers, or nobody.
func (p *patient) neighbours() {
	if p.blind(survey.Northbound) {
		return // who should answer is not known
	}
	present := p.present()
	for _, s := range p.externals() {
		heard := p.heard(s)
		for _, a := range sortedAddresses(heard) {
			if slices.Contains(s.Gateways, a) {
				continue
			}
			p.neighbour(s, a, present[a], heard[a])
		}
	}
}

func (p *patient) neighbour(s *survey.Subnet, a netip.Addr, at *presence, answers []answer) {
	have := p.holders(a)
	if at == nil && len(have) == 0 {
		return // none of ours
	}
	about := distinct(append(have, p.wire(s)...)...)
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
		p.report(AddressDuplicate, about, "%s on the wire of network %s answers for %s too, and is none of OVN's", words(others, 3), s.Network, a)
	case at != nil && at.open && !answered && p.elsewhere(at, nodes):
		p.report(AddressSilent, about, "nobody answers for %s on the wire of network %s (asked by %s), and OVN should", a, s.Network, words(nodes, 3))
	}
}

// elsewhere says whether an address is held by another node than those that asked: a node does not hear itself.
func (p *patient) elsewhere(at *presence, nodes []string) bool {
	return !slices.ContainsFunc(at.holders, func(c string) bool {
		n := p.nodeOf(c)
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
