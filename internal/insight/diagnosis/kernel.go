package diagnosis

import (
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Usage in percent that is reported as low and as full.
const (
	lowPercent  = 80
	fullPercent = 95
)

// Sysctls that are checked.
const (
	conntrackCountKey = "net.netfilter.nf_conntrack_count"
	conntrackMaxKey   = "net.netfilter.nf_conntrack_max"
)

// hasStrictRPFilter reports whether a node drops packets on an interface if the route back to the sender uses another
// one. The kernel uses the larger of the two settings.
func hasStrictRPFilter(i clusterstate.NodeInspection, name string) bool {
	all, _ := strconv.Atoi(i.Settings["net.ipv4.conf.all.rp_filter"])
	one, _ := strconv.Atoi(i.Settings["net.ipv4.conf."+name+".rp_filter"])
	return max(all, one) == 1
}

// nodeAttachment is a network that a node itself is connected to, and the interface.
type nodeAttachment struct {
	network  *clusterstate.Network
	iface    *clusterstate.Interface
	nodePath *clusterstate.NodePath // nil: no NodePath routes its replies
	settings clusterstate.NodeNetwork
}

// nodeAttachments returns the networks that a node itself is connected to.
func (p *checker) nodeAttachments(name string) (out []nodeAttachment) {
	i := p.Inspected[name]
	for k := range p.Cluster.Networks {
		n := &p.Cluster.Networks[k]
		if n.Interface == "" || !slices.Contains(n.OnNodes, name) {
			continue
		}
		for x := range i.Interfaces {
			if fits, err := path.Match(n.Interface, i.Interfaces[x].Name); err == nil && fits {
				o := nodeAttachment{network: n, iface: &i.Interfaces[x]}
				o.nodePath, o.settings = p.findNodePath(name, n.Name)
				out = append(out, o)
			}
		}
	}
	return out
}

// usesReplyMark reports whether replies on a network are recognized by their mark.
func usesReplyMark(w clusterstate.NodeNetwork) bool {
	return w.Mark != 0 && (w.Method == string(kubedcv1alpha1.NodeConnection) ||
		w.Method == string(kubedcv1alpha1.NodeMark))
}

func (p *checker) findNodePath(node, network string) (*clusterstate.NodePath, clusterstate.NodeNetwork) {
	for i := range p.Cluster.NodePaths {
		path := &p.Cluster.NodePaths[i]
		if path.Name != node {
			continue
		}
		for _, w := range path.Ways {
			if w.Network == network {
				return path, w
			}
		}
	}
	return nil, clusterstate.NodeNetwork{}
}

// checkRPFilters finds uplinks with a strict rp_filter.
func (p *checker) checkRPFilters() {
	for _, name := range sortedKeys(p.Inspected) {
		for _, o := range p.nodeAttachments(name) {
			if hasStrictRPFilter(p.Inspected[name], o.iface.Name) {
				p.report(RPFilterStrict, []state.Ref{clusterstate.NodeRef(name), o.network.Ref},
					"rp_filter of interface %s of node %s is strict: packets from other networks that arrive on "+
						"network %s are dropped", o.iface.Name, name, o.network.Name)
			}
		}
	}
}

// checkReplyRoutes finds replies that leave through another interface than the one their request arrived on.
func (p *checker) checkReplyRoutes() {
	for _, name := range sortedKeys(p.Inspected) {
		for _, r := range p.Inspected[name].Routes {
			if x := p.expectedInterface(name, r); x != nil && r.Output != x.Name {
				p.report(AsymmetricRoute, p.routeRefs(name, x, r),
					"node %s sends replies to %s%s through interface %s, but requests arrive on %s%s",
					name, r.To, formatSource(r.From), outputOrNone(r.Output, r.Problem), x.Name,
					p.explainReplyRoute(name, x.Name))
			}
		}
	}
}

// expectedInterface returns the interface through which a packet should leave, or nil if any will do. Packets with the
// mark of a network use its interface. Packets from an address of an interface use that interface, unless marks decide
// there and the packet has none.
func (p *checker) expectedInterface(node string, r clusterstate.RouteLookup) *clusterstate.Interface {
	networks := p.nodeAttachments(node)
	if r.Mark != 0 {
		for _, o := range networks {
			if usesReplyMark(o.settings) && o.settings.Mark == r.Mark {
				return o.iface
			}
		}
		return nil
	}
	i := p.Inspected[node]
	for k := range i.Interfaces {
		x := &i.Interfaces[k]
		byMark := slices.ContainsFunc(networks, func(o nodeAttachment) bool {
			return o.iface.Name == x.Name && usesReplyMark(o.settings)
		})
		own := slices.ContainsFunc(x.Addresses, func(a netip.Prefix) bool { return a.Addr() == r.From })
		if own && !byMark {
			return x
		}
	}
	return nil
}

func (p *checker) routeRefs(node string, x *clusterstate.Interface, r clusterstate.RouteLookup) []state.Ref {
	about := []state.Ref{clusterstate.NodeRef(node)}
	for _, o := range p.nodeAttachments(node) {
		if o.iface.Name == x.Name {
			about = append(about, o.network.Ref)
		}
	}
	return uniqueRefs(append(about, p.objectsWithAddress(r.From)...)...)
}

// explainReplyRoute returns why replies take the wrong interface.
func (p *checker) explainReplyRoute(node, by string) string {
	for _, o := range p.nodeAttachments(node) {
		if o.iface.Name == by && o.nodePath != nil {
			return "; a foreign ip rule precedes those of NodePath " + node
		}
	}
	return "; no ExternalNetwork routes its replies"
}

func formatSource(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return " from " + a.String()
}

func outputOrNone(output, problem string) string {
	if output == "" {
		return "none (" + problem + ")"
	}
	return output
}

// checkConntrack finds nodes whose connection table is full: that of the kernel, or that of Open vSwitch's userspace
// datapath.
func (p *checker) checkConntrack() {
	for _, name := range sortedKeys(p.Inspected) {
		i := p.Inspected[name]
		now, _ := strconv.Atoi(i.Settings[conntrackCountKey])
		most, _ := strconv.Atoi(i.Settings[conntrackMaxKey])
		p.reportConntrackUsage(name, "node "+name, now, most)
		p.reportConntrackUsage(name, "Open vSwitch of node "+name, i.Switch.Tracked, i.Switch.MaxTracked)
	}
}

func (p *checker) reportConntrackUsage(node, who string, now, most int) {
	if code := usageCode(now, most, ConntrackFull, ConntrackLow); code != "" {
		p.report(code, []state.Ref{clusterstate.NodeRef(node)}, "%s tracks %d connections of %d", who, now, most)
	}
}

// usageCode returns the code for a usage, or "" if it is not worth reporting.
func usageCode(used, of int, whenFull, whenLow string) string {
	switch {
	case of <= 0:
		return ""
	case used*100 >= of*fullPercent:
		return whenFull
	case used*100 >= of*lowPercent:
		return whenLow
	}
	return ""
}

// checkSNATPorts finds addresses whose ports are used up. Each node allocates ports on its own.
func (p *checker) checkSNATPorts() {
	for _, name := range sortedKeys(p.Inspected) {
		for _, u := range p.Inspected[name].Usage {
			u.Of = p.snatPortCount(u.Address, u.Of)
			code := usageCode(u.Ports, u.Of, SNATExhausted, SNATLow)
			if code == "" {
				continue
			}
			p.report(code, uniqueRefs(append(p.objectsWithAddress(u.Address), clusterstate.NodeRef(name))...),
				"%d of %d ports of %s are in use to %s (%s), on node %s",
				u.Ports, u.Of, u.Address, u.To, u.Protocol, name)
		}
	}
}

// snatPortCount returns how many ports of an address OVN uses: all, or the range of its NAT entry.
func (p *checker) snatPortCount(a netip.Addr, all int) int {
	for _, r := range p.Logical.Routers {
		for _, n := range r.NATs {
			low, high, ranged := strings.Cut(n.PortRange, "-")
			first, err := strconv.Atoi(low)
			last, err2 := strconv.Atoi(high)
			if n.External == a && ranged && err == nil && err2 == nil && first <= last {
				all = min(all, last-first+1)
			}
		}
	}
	return all
}

// inactiveStates are states of connections that do not send any more, or have not been established: a client without an
// answer retries from another port.
var inactiveStates = []string{"SYN_SENT", "TIME_WAIT", "CLOSE", "CLOSED", "SHUTDOWN_ACK_SENT"}

// checkConnections finds connections whose address now has another backend. A TCP connection to a pod that still exists
// may continue.
func (p *checker) checkConnections() {
	for _, name := range sortedKeys(p.Inspected) {
		for _, c := range p.Inspected[name].Connection {
			by, router, led := p.lookUpDestination(c)
			if !led || c.ReplySource == c.Destination || slices.Contains(inactiveStates, c.State) {
				continue
			}
			if c.Protocol != "udp" && p.PodAt(router, c.ReplySource.Addr()) != nil {
				continue
			}
			p.report(StaleConnection, uniqueRefs(append([]state.Ref{by},
				p.objectsWithAddress(c.Destination.Addr())...)...),
				"node %s still forwards packets from %s to %s (%s) to %s, which is no longer a backend", name,
				c.Source, c.Destination, c.Protocol,
				c.ReplySource)
		}
	}
}

// lookUpDestination returns the owner and router of a connection's address, and whether the connection has another
// backend than new connections would get.
func (p *checker) lookUpDestination(c clusterstate.Connection) (by state.Ref, router string, elsewhere bool) {
	if vip, by, router := p.findVIP(c.Destination, c.Protocol); vip != nil {
		return by, router, !slices.Contains(vip.Backends, c.ReplySource)
	}
	for i := range p.Logical.Routers {
		for _, n := range p.Logical.Routers[i].NATs {
			if n.Type != "snat" && n.External == c.Destination.Addr() {
				return p.floatingIPAt(n.External), p.Logical.Routers[i].Name, n.Logical.Addr() != c.ReplySource.Addr()
			}
		}
	}
	return state.Ref{}, "", false
}

// floatingIPAt returns the floating IP with an address.
func (p *checker) floatingIPAt(a netip.Addr) state.Ref {
	for i := range p.Cluster.FIps {
		if f := &p.Cluster.FIps[i]; f.External == a {
			return f.Ref
		}
	}
	return state.Ref{}
}

// findVIP returns the VIP at an address and port, its Service, and its router.
func (p *checker) findVIP(to netip.AddrPort, protocol string) (*logical.VIP, state.Ref, string) {
	for i := range p.Logical.Routers {
		for k := range p.Logical.Routers[i].Balancers {
			b := &p.Logical.Routers[i].Balancers[k]
			for v := range b.VIPs {
				if b.VIPs[v].Address == to && (b.Protocol == protocol || b.Protocol == "" && protocol == "tcp") {
					return &b.VIPs[v], b.VIPOwner(to), p.Logical.Routers[i].Name
				}
			}
		}
	}
	return nil, state.Ref{}, ""
}
