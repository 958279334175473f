// Package nodepath is the compiler from a NodePath to the state of its node's kernel: links, rules, routes, nftables
// objects and sysctls.
package nodepath

import (
	"cmp"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Node is what Compile has to know about a node.
type Node struct {
	Interfaces []Interface
	// ForwardsIPv6: the node forwards IPv6, which is one setting for all interfaces.
	ForwardsIPv6 bool
	// StrictRPFilter: strict reverse path filtering (rp_filter 1) is set for all interfaces. The kernel uses the
	// maximum of that setting and the interface's own, so 0 on an interface has no effect.
	StrictRPFilter bool
}

// Interface is a network interface of the node.
type Interface struct {
	Name, MAC string
	Up        bool
	Addresses []netip.Prefix
	Ours      bool   // created by the agent
	Master    string // the bridge, bond or VRF that it is in, unless created by the agent
}

// Kernel is everything that the kernel should hold for a NodePath.
type Kernel struct {
	Links   Links
	Rules   Rules
	Routes  Routes
	Nft     Nft
	Sysctls Sysctls
	// TableNames are names of routing tables for people. They are files of iproute2, not of the kernel.
	TableNames TableNames
	// Networks are the results, sorted by name.
	Networks []NetworkResult
}

// NetworkResult is the outcome for one network.
type NetworkResult struct {
	Name, Interface string
	Problem         string // empty: none
	Missing         bool   // the problem is a missing or unusable interface
}

// NetworkRef is the origin of a network's entries.
func NetworkRef(network string) state.Ref {
	return state.Ref{Kind: "ExternalNetwork", Name: network}
}

// Compile returns the kernel state that a NodePath asks for.
func Compile(spec Spec, node Node) *Kernel {
	k := &Kernel{
		Links: Links{}, Rules: Rules{}, Routes: Routes{}, Nft: Nft{}, Sysctls: Sysctls{}, TableNames: TableNames{},
	}
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

// findInterface returns the interface of a network, or the reason why there is none.
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

// networkCompiler compiles one network into the kernel state.
type networkCompiler struct {
	kernel   *Kernel
	node     Node
	spec     NetworkSpec
	origin   state.Ref
	number   int
	dev      Interface
	gateways []netip.Addr // the usable ones, sorted
}

// compileNetwork adds everything for the network and returns a problem if there is one. A problem with one address
// family does not affect the other.
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
		w.emitMarkRules()
	case kubedcv1alpha1.NodeVRF:
		if w.dev.Master != "" { // the kernel would remove it from that master
			return fmt.Sprintf("interface %s is in %s and can't be in a VRF as well; take it out of that, or choose another method", w.dev.Name, w.dev.Master)
		}
		w.emitVRF()
	default:
		w.emitRoutingTable()
		w.markConnections(w.dev.Name)
		w.emitMarkRules()
	}
	return cmp.Or(wrong, w.emitEgress())
}

// chooseGateways keeps the gateways that are reachable on the interface, and returns why another is not. They are
// sorted, because the kernel returns the addresses of veth pairs in that order.
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
		case ipfamily.Of(gateway) == ipfamily.V6 && !w.node.ForwardsIPv6:
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

// gatewayFor returns the gateway of a family; invalid: none.
func (w *networkCompiler) gatewayFor(f ipfamily.Family) netip.Addr {
	for _, g := range w.gateways {
		if f.Contains(g) {
			return g
		}
	}
	return netip.Addr{}
}

// parseValid parses texts that the API server has validated, and skips the rest.
func parseValid[T any](texts []string, read func(string) (T, error)) (out []T) {
	for _, text := range texts {
		if v, err := read(text); err == nil {
			out = append(out, v)
		}
	}
	return out
}

func (w *networkCompiler) tableID() int { return ownership.NodeTableBase + w.number }

// fwMark returns the network's packet mark.
func (w *networkCompiler) fwMark() uint32 { return ownership.NodeNetworkMark(w.number) }

// emitRoutingTable adds the network's routing table: the interface's prefixes on-link, everything else through the
// gateway.
func (w *networkCompiler) emitRoutingTable() {
	for _, p := range w.dev.Addresses {
		if w.gatewayFor(ipfamily.Of(p.Addr())).IsValid() && !p.IsSingleIP() {
			w.addRoute(Route{Table: w.tableID(), To: p.Masked(), Dev: w.dev.Name})
		}
	}
	for _, g := range w.gateways {
		w.addRoute(Route{Table: w.tableID(), To: ipfamily.Of(g).Everything(), Via: g, Dev: w.dev.Name})
	}
}

// emitClientRoutes adds routes to the clients.
func (w *networkCompiler) emitClientRoutes() {
	for _, to := range parseValid(w.spec.Clients, netip.ParsePrefix) {
		if g := w.gatewayFor(ipfamily.Of(to.Addr())); g.IsValid() {
			w.addRoute(Route{Table: MainTable, To: to.Masked(), Via: g, Dev: w.dev.Name})
		}
	}
}

// serviceAddresses returns the cluster IPs of a family.
func (w *networkCompiler) serviceAddresses(f ipfamily.Family) []netip.Addr {
	if !w.gatewayFor(f).IsValid() {
		return nil
	}
	return filterSlice(parseValid(w.spec.Services, netip.ParseAddr), f.Contains)
}

// emitSourceRules adds rules that look up a table for packets with a cluster IP as source. Replies have it until they
// have been routed.
func (w *networkCompiler) emitSourceRules(table int) {
	for _, f := range ipfamily.Both {
		for _, a := range w.serviceAddresses(f) {
			w.addRule(RuleKey{Pref: ownership.NodeRuleSource, From: netip.PrefixFrom(a, a.BitLen()), Family: f}, table)
		}
	}
}

// emitMarkRules adds the rules that look up a table for marked packets. It relaxes reverse path filtering where incoming
// packets have no mark yet and their source would be routed through another interface.
func (w *networkCompiler) emitMarkRules() {
	table, unmarked := w.markTable()
	for _, g := range w.gateways {
		w.addRule(RuleKey{Pref: ownership.NodeRuleMark, Mark: w.fwMark(), Family: ipfamily.Of(g)}, table)
	}
	if unmarked != "" {
		w.relaxRPFilter(unmarked)
	}
}

// relaxRPFilter sets loose reverse path filtering on an interface. 0 is acceptable unless StrictRPFilter is set.
func (w *networkCompiler) relaxRPFilter(dev string) {
	var acceptable []string
	if !w.node.StrictRPFilter {
		acceptable = []string{"0"}
	}
	w.addSysctl("net.ipv4.conf."+escapeIfName(dev)+".rp_filter", "2", acceptable...)
}

// escapeIfName returns an interface name as part of a sysctl name: dots are written as slashes.
func escapeIfName(name string) string { return strings.ReplaceAll(name, ".", "/") }

func (w *networkCompiler) addRoute(r Route) {
	key := r.Key()
	w.kernel.Routes[key] = state.Entry[Route]{Value: r, Origin: w.origin}
	w.nameTable(r.Table)
}

// nameTable adds the name of one of the network's tables. It is built from the network's number: names of
// ExternalNetworks are up to 253 characters long.
func (w *networkCompiler) nameTable(table int) {
	prefix := ""
	switch table {
	case w.tableID():
		prefix = ownership.NodeTableNamePrefix
	case w.vethTableID():
		prefix = ownership.NodeVethPrefix
	default:
		return // the main table has its name
	}
	name := fmt.Sprintf("%s%d", prefix, w.number)
	w.kernel.TableNames[TableID(table)] = state.Entry[TableName]{Value: TableName(name), Origin: w.origin}
}

func (w *networkCompiler) addRule(key RuleKey, table int) {
	w.kernel.Rules[key] = state.Entry[Rule]{Value: Rule{table}, Origin: w.origin}
}

func (w *networkCompiler) addSysctl(name, value string, acceptable ...string) {
	w.kernel.Sysctls[SysctlKey(name)] = state.Entry[Sysctl]{Value: Sysctl{
		Text:       value,
		Acceptable: strings.Join(acceptable, " "),
	}, Origin: w.origin}
}

// Spec is the spec of a NodePath.
type Spec = kubedcv1alpha1.NodePathSpec

// NetworkSpec is one network of a NodePath.
type NetworkSpec = kubedcv1alpha1.NodeNetwork

// EgressSpec is a group of pods that leave through a network.
type EgressSpec = kubedcv1alpha1.NodeEgress

// Method is how replies are routed back to a network.
type Method = kubedcv1alpha1.NodeMethod
