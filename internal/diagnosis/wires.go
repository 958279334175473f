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
			if n.Interface == s.Interface && n.Vlan == s.Tag && p.external(n.Address) == s {
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
			var silent, nodes []string
			var macs []string
			for _, a := range heard[gateway] {
				nodes = append(nodes, a.node)
				macs = append(macs, a.MACs...)
				if len(a.MACs) == 0 {
					silent = append(silent, a.node)
				}
			}
			about := p.wire(s)
			for _, n := range silent {
				about = append(about, nodeRef(n))
			}
			macs = slices.Compact(slices.Sorted(slices.Values(macs)))
			switch {
			case len(silent) > 0 && len(silent) == len(nodes):
				p.report(GatewaySilent, about, "nobody answers for gateway %s of network %s (asked by %s)", gateway, s.Network, words(silent, 4))
			case len(silent) > 0:
				p.report(GatewaySilent, about, "on node %s nobody answers for gateway %s of network %s; on others somebody does", words(silent, 4), gateway, s.Network)
			}
			if len(macs) > 1 {
				p.report(GatewayDuplicate, p.wire(s), "%s answer for gateway %s of network %s", strings.Join(macs, " and "), gateway, s.Network)
			}
		}
	}
}

// presence is where an external address is in OVN: who may answer for it, and which chassis does.
type presence struct {
	macs    []string
	holders []string // chassis
}

// present are the external addresses that OVN answers for.
func (p *patient) present() map[netip.Addr]*presence {
	out := map[netip.Addr]*presence{}
	for i := range p.Logical.Routers {
		r := &p.Logical.Routers[i]
		at := func(a netip.Addr) *presence {
			if out[a] == nil {
				out[a] = &presence{}
			}
			for _, port := range r.Ports {
				if slices.ContainsFunc(port.Networks, func(n netip.Prefix) bool { return n.Masked().Contains(a) }) && p.external(a) != nil {
					out[a].macs = append(out[a].macs, strings.ToLower(port.MAC))
					out[a].holders = append(out[a].holders, port.Holder)
				}
			}
			return out[a]
		}
		for _, port := range r.Ports {
			for _, n := range port.Networks {
				at(n.Addr())
			}
		}
		for _, n := range r.NATs {
			x := at(n.External)
			if n.ExternalMAC != "" {
				x.macs = append(x.macs, strings.ToLower(n.ExternalMAC))
			}
		}
		for _, b := range r.Balancers {
			for _, v := range b.VIPs {
				at(v.Address.Addr())
			}
		}
	}
	for a, x := range out {
		if len(x.macs) == 0 || p.external(a) == nil {
			delete(out, a)
		}
	}
	return out
}

// neighbours finds addresses of ours for which somebody else answers, or nobody.
func (p *patient) neighbours() {
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
	about := distinct(append(p.holders(a), p.wire(s)...)...)
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
	case at != nil && !answered && p.elsewhere(at, nodes):
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
