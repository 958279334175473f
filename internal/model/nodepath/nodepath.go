// Package nodepath is what a NodePath means for the kernel of its node: links, rules, routes, nftables objects and
// settings.
package nodepath

import (
	"cmp"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Node is what has to be known of a node.
type Node struct {
	Interfaces []Interface
	// ForwardsIPv6: it forwards IPv6, which is one setting for all interfaces.
	ForwardsIPv6 bool
	// StrictRPFilter: on every interface that does not say more, the way back to a source has to be by it. The kernel
	// takes the greater of the setting for all interfaces and that of one, so 0 there says nothing.
	StrictRPFilter bool
}

// Interface is an interface of the node.
type Interface struct {
	Name, MAC string
	Up        bool
	Addresses []netip.Prefix
	Ours      bool   // made by us
	Master    string // the bridge, bond or VRF of somebody else that it is in
}

// Kernel is everything that the kernel should hold for a NodePath.
type Kernel struct {
	Links   Links
	Rules   Rules
	Routes  Routes
	Nft     Nft
	Sysctls Sysctls
	// Networks is what became of each network, in the order of the NodePath.
	Networks []NetworkResult
}

// NetworkResult is what became of a network.
type NetworkResult struct {
	Name, Interface string
	Problem         string // empty: none
	Missing         bool   // the problem is that the interface is not there, or not ready
}

// NetworkRef is the origin of a network's entries.
func NetworkRef(network string) state.Ref {
	return state.Ref{Kind: "ExternalNetwork", Name: network}
}

// Compile is what the kernel should hold.
func Compile(spec Spec, node Node) *Kernel {
	k := &Kernel{Links: Links{}, Rules: Rules{}, Routes: Routes{}, Nft: Nft{}, Sysctls: Sysctls{}}
	networks := slices.Clone(spec.Networks)
	slices.SortFunc(networks, func(a, b NetworkSpec) int { return strings.Compare(a.Name, b.Name) })
	for _, n := range networks {
		w := &networkCompiler{kernel: k, node: node, spec: n, origin: NetworkRef(n.Name), number: int(n.Number)}
		out := NetworkResult{Name: n.Name}
		w.dev, out.Problem = node.findInterface(n)
		if out.Interface, out.Missing = w.dev.Name, out.Problem != ""; out.Problem == "" {
			out.Problem = w.compileNetwork()
		}
		k.Networks = append(k.Networks, out)
	}
	return k
}

// findInterface is the interface of a network, or why there is none.
func (node Node) findInterface(n NetworkSpec) (Interface, string) {
	var found []Interface
	for _, i := range node.Interfaces {
		byMAC := n.MAC != "" && strings.EqualFold(i.MAC, n.MAC)
		byName, err := path.Match(n.Interface, i.Name)
		if err != nil {
			return Interface{}, fmt.Sprintf("interface %q is no name with wildcards; correct it in the ExternalNetwork",
				n.Interface)
		}
		if !i.Ours && (byMAC || n.MAC == "" && byName) {
			found = append(found, i)
		}
	}
	wanted := n.Interface
	if n.MAC != "" {
		wanted = "with MAC address " + n.MAC
	}
	switch {
	case len(found) == 0:
		return Interface{}, fmt.Sprintf(
			"the node has no interface %s; plug it in, or correct the ExternalNetwork's interface or nodeSelector",
			wanted)
	case len(found) > 1:
		return Interface{}, fmt.Sprintf("interfaces %s and %s both fit %s; name one of them", found[0].Name,
			found[1].Name, wanted)
	case !found[0].Up:
		return found[0], fmt.Sprintf("interface %s is down; set it up", found[0].Name)
	}
	return found[0], ""
}

// networkCompiler is a network on its way into the kernel.
type networkCompiler struct {
	kernel   *Kernel
	node     Node
	spec     NetworkSpec
	origin   state.Ref
	number   int
	dev      Interface
	gateways []netip.Addr // gateways
}

// compileNetwork wants everything for the network, and says what can't be. A family that can't be does not keep the
// other from working.
func (w *networkCompiler) compileNetwork() string {
	wrong := w.chooseGateways()
	if len(w.gateways) == 0 {
		return wrong
	}
	w.addSysctl("net.ipv4.conf."+escapeIfName(w.dev.Name)+".forwarding", "1")
	switch w.spec.Method {
	case kubedcv1alpha1.NodeStatic:
		w.emitClientRoutes()
	case kubedcv1alpha1.NodeSourceRule:
		w.emitRoutingTable()
		w.emitSourceRules(w.tableID())
	case kubedcv1alpha1.NodeMark:
		w.emitRoutingTable()
		w.markServices()
		w.emitMarkRules(w.tableID())
	case kubedcv1alpha1.NodeVRF:
		if w.dev.Master != "" { // the kernel would take it out of that
			return fmt.Sprintf("interface %s is in %s and can't be in a VRF as well; take it out of that, or choose another method", w.dev.Name, w.dev.Master)
		}
		w.emitVRF()
	default:
		w.emitRoutingTable()
		w.markConnections()
		w.emitMarkRules(w.tableID())
	}
	return cmp.Or(wrong, w.emitEgress())
}

// chooseGateways takes the gateways that the interface leads to, and says why it does not lead to another. They are
// sorted: the kernel gives the addresses of legs back in that order, too.
func (w *networkCompiler) chooseGateways() (wrong string) {
	for _, gateway := range slices.SortedFunc(slices.Values(parseValid(w.spec.Gateways, netip.ParseAddr)),
		netip.Addr.Compare) {
		near := gateway.IsLinkLocalUnicast() || slices.ContainsFunc(w.dev.Addresses, func(p netip.Prefix) bool {
			return p.Contains(gateway)
		})
		switch {
		case !near:
			wrong = fmt.Sprintf("gateway %s is in no prefix of %s (%s); correct the ExternalNetwork's gateways, or the interface's addresses",
				gateway, w.dev.Name, joinPrefixes(w.dev.Addresses))
		case gateway.Is6() && !w.node.ForwardsIPv6:
			wrong = "the node does not forward IPv6; set net.ipv6.conf.all.forwarding to 1, or take the IPv6 gateway out of the ExternalNetwork"
		default:
			w.gateways = append(w.gateways, gateway)
		}
	}
	return wrong
}

func joinPrefixes(list []netip.Prefix) string {
	if len(list) == 0 {
		return "it has none"
	}
	var out []string
	for _, p := range list {
		out = append(out, p.Masked().String())
	}
	return strings.Join(out, ", ")
}

// gatewayFor is that of a family; invalid: none.
func (w *networkCompiler) gatewayFor(v6 bool) netip.Addr {
	for _, g := range w.gateways {
		if g.Is6() == v6 {
			return g
		}
	}
	return netip.Addr{}
}

// parseValid reads what the API server has checked already.
func parseValid[T any](texts []string, read func(string) (T, error)) (out []T) {
	for _, text := range texts {
		if v, err := read(text); err == nil {
			out = append(out, v)
		}
	}
	return out
}

func (w *networkCompiler) tableID() int { return ownership.NodeTableBase + w.number }

// fwMark is the network's in marks.
func (w *networkCompiler) fwMark() uint32 { return ownership.NodeNetworkMark(w.number) }

// emitRoutingTable wants the routes by which packets leave by the interface: to its own prefixes at once, to all others
// by the gateway.
func (w *networkCompiler) emitRoutingTable() {
	for _, p := range w.dev.Addresses {
		if w.gatewayFor(p.Addr().Is6()).IsValid() && !p.IsSingleIP() {
			w.addRoute(Route{Table: w.tableID(), To: p.Masked(), Dev: w.dev.Name})
		}
	}
	for _, g := range w.gateways {
		w.addRoute(Route{Table: w.tableID(), To: DefaultPrefix(g.Is6()), Via: g, Dev: w.dev.Name})
	}
}

// DefaultPrefix is the prefix of all addresses of a family.
func DefaultPrefix(v6 bool) netip.Prefix {
	if v6 {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
}

// emitClientRoutes wants routes to the clients.
func (w *networkCompiler) emitClientRoutes() {
	for _, to := range parseValid(w.spec.Clients, netip.ParsePrefix) {
		if g := w.gatewayFor(to.Addr().Is6()); g.IsValid() {
			w.addRoute(Route{Table: MainTable, To: to.Masked(), Via: g, Dev: w.dev.Name})
		}
	}
}

// serviceAddresses are the cluster addresses of a family.
func (w *networkCompiler) serviceAddresses(v6 bool) []netip.Addr {
	if !w.gatewayFor(v6).IsValid() {
		return nil
	}
	return filterSlice(parseValid(w.spec.Services, netip.ParseAddr), func(a netip.Addr) bool { return a.Is6() == v6 })
}

// emitSourceRules wants rules that lead what has a cluster address as its source to a table. Replies have it until they
// have been routed.
func (w *networkCompiler) emitSourceRules(table int) {
	for _, v6 := range []bool{false, true} {
		for _, a := range w.serviceAddresses(v6) {
			w.addRule(RuleKey{Pref: ownership.NodeRuleSource, From: netip.PrefixFrom(a, a.BitLen()), V6: v6}, table)
		}
	}
}

// emitMarkRules wants the rules that lead marked packets to a table. What comes in has no mark yet, so its source would
// be routed back by another interface.
func (w *networkCompiler) emitMarkRules(table int) {
	for _, g := range w.gateways {
		w.addRule(RuleKey{Pref: ownership.NodeRuleMark, Mark: w.fwMark(), V6: g.Is6()}, table)
	}
	w.relaxRPFilter(w.dev.Name)
}

// relaxRPFilter wants an interface not to ask whether a source would be routed back by it.
func (w *networkCompiler) relaxRPFilter(dev string) {
	var also []string
	if !w.node.StrictRPFilter {
		also = []string{"0"}
	}
	w.addSysctl("net.ipv4.conf."+escapeIfName(dev)+".rp_filter", "2", also...)
}

// escapeIfName is an interface as a part of a setting's name: a dot in it is written as a slash.
func escapeIfName(name string) string { return strings.ReplaceAll(name, ".", "/") }

func (w *networkCompiler) addRoute(r Route) {
	key := r.Key()
	w.kernel.Routes[key] = state.Entry[Route]{Value: r, Origin: w.origin}
}

func (w *networkCompiler) addRule(key RuleKey, table int) {
	w.kernel.Rules[key] = state.Entry[Rule]{Value: Rule{table}, Origin: w.origin}
}

func (w *networkCompiler) addSysctl(name, value string, also ...string) {
	w.kernel.Sysctls[SysctlKey(name)] = state.Entry[Sysctl]{Value: Sysctl{
		Text:       value,
		Acceptable: strings.Join(also, " "),
	}, Origin: w.origin}
}

// Spec is what a NodePath asks for.
type Spec = kubedcv1alpha1.NodePathSpec

// NetworkSpec is what it asks for on one network.
type NetworkSpec = kubedcv1alpha1.NodeNetwork

// EgressSpec is which pods leave by that.
type EgressSpec = kubedcv1alpha1.NodeEgress

// Method is how replies find back.
type Method = kubedcv1alpha1.NodeMethod
