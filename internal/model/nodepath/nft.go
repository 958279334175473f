package nodepath

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// The chains of the agent's table: type, hook and priority. Connection marks can be read and written only after
// conntrack has processed the packet (-200), and must be set before it is routed. Pods' addresses are translated before
// the usual source NAT priority (100).
var chains = map[string]Chain{
	"zones":    {"filter", "prerouting", -300},
	"ownzones": {"filter", "output", -300},
	"marks":    {"filter", "prerouting", -150},
	"local":    {"route", "output", -150},
	"leaves":   {"nat", "postrouting", 95},
}

// Chain is the type, hook and priority of a chain.
type Chain struct {
	Type, Hook string
	Priority   int
}

// String formats the chain as nft does.
func (c Chain) String() string {
	return fmt.Sprintf("type %s hook %s priority %d", c.Type, c.Hook, c.Priority)
}

// ChainByName returns the chain of a name.
func ChainByName(name string) Chain { return chains[name] }

func checksum(text string) string {
	return fmt.Sprintf("%08x", ownership.HashName(text))
}

// addNftRule adds a rule, and its chain.
func (w *networkCompiler) addNftRule(chain, name, text string) {
	key := NftKey{Kind: NftChain, Name: chain}
	if _, there := w.kernel.Nft[key]; !there { // shared by several networks
		w.addNftObject(key, NftValue{Text: chains[chain].String()})
	}
	w.addNftObject(NftKey{Kind: NftRule, Parent: chain, Name: w.spec.Name + " " + name}, NftValue{text, checksum(text)})
}

func (w *networkCompiler) addNftObject(key NftKey, v NftValue) {
	w.kernel.Nft[key] = state.Entry[NftValue]{Value: v, Origin: w.origin}
}

// addAddressSet adds a set of addresses of one family, and returns its reference for a rule.
func (w *networkCompiler) addAddressSet(name string, f ipfamily.Family, addresses []netip.Addr) string {
	return w.addNftSet(name, NftValue{Text: nftAddrType(f)}, toStrings(addresses))
}

// addPrefixSet adds a set of prefixes of one family. It leaves out prefixes inside others, which the kernel would
// refuse.
func (w *networkCompiler) addPrefixSet(name string, f ipfamily.Family, prefixes []netip.Prefix) string {
	var out []string
	for i, p := range prefixes {
		inside := slices.ContainsFunc(prefixes, func(o netip.Prefix) bool {
			return o.Bits() < p.Bits() && o.Contains(p.Addr())
		})
		switch {
		case inside || slices.Contains(prefixes[:i], p):
		case p.IsSingleIP():
			out = append(out, p.Addr().String())
		default:
			out = append(out, p.Masked().String())
		}
	}
	return w.addNftSet(name, NftValue{Text: nftAddrType(f) + " " + IntervalFlag}, out)
}

// IntervalFlag marks sets of prefixes.
const IntervalFlag = "interval"

func (w *networkCompiler) addNftSet(name string, kind NftValue, elements []string) string {
	name = fmt.Sprintf("%s-%d-%s", name, w.number, kind.Text[:4])
	w.addNftObject(NftKey{Kind: NftSet, Name: name}, kind)
	for _, e := range elements {
		w.addNftObject(NftKey{Kind: NftElement, Parent: name, Name: e}, NftValue{})
	}
	return "@" + name
}

// nftAddrType returns the set type for addresses of a family.
func nftAddrType(f ipfamily.Family) string {
	if f == ipfamily.V4 {
		return "ipv4_addr"
	}
	return "ipv6_addr"
}

// markStatement returns the statement that sets the network's mark on a packet and keeps all other bits.
func (w *networkCompiler) markStatement() string {
	return fmt.Sprintf("meta mark set meta mark and %#x or %#x", ^uint32(ownership.NodeMarkMask), w.fwMark())
}

// markConnections adds the rules that mark connections and their replies. A connection that arrives on an interface
// gets the network's number as connection mark, if it has none. Its replies get that as packet mark, both forwarded and
// local ones. A connection that is older than the rules is marked with its next incoming packet.
func (w *networkCompiler) markConnections(arrival string) {
	w.addNftRule("marks", "comes", fmt.Sprintf(
		"iifname %q ct direction original ct mark and %#x == 0 ct mark set ct mark or %#x",
		arrival, ownership.NodeMarkMask, w.fwMark()))
	reply := fmt.Sprintf("ct direction reply ct mark and %#x == %#x %s", ownership.NodeMarkMask, w.fwMark(),
		w.markStatement())
	w.addNftRule("marks", "returns", fmt.Sprintf("iifname != %q %s", arrival, reply))
	w.addNftRule("local", "returns", reply)
}

// markServices adds the rules that mark packets with a cluster IP as source.
func (w *networkCompiler) markServices() {
	for _, f := range ipfamily.Both {
		if services := w.serviceAddresses(f); len(services) > 0 {
			w.addNftRule("marks", "services"+nftHeader(f), fmt.Sprintf("%s saddr %s %s", nftHeader(f),
				w.addAddressSet("services", f, services), w.markStatement()))
		}
	}
}

// nftHeader returns nft's name for the IP header of a family.
func nftHeader(f ipfamily.Family) string {
	if f == ipfamily.V4 {
		return "ip"
	}
	return "ip6"
}

func toStrings[T fmt.Stringer](list []T) (out []string) {
	for _, v := range list {
		out = append(out, v.String())
	}
	return out
}

// emitEgress adds the egress of pods through this network, and returns a problem if there is one.
func (w *networkCompiler) emitEgress() string {
	for i, e := range w.spec.Egress {
		for _, f := range ipfamily.Both {
			pods := filterSlice(parseValid(e.Pods, netip.ParseAddr), f.Contains)
			destinations := filterSlice(parseValid(e.Destinations, netip.ParsePrefix), func(p netip.Prefix) bool {
				return f.Contains(p.Addr())
			})
			if len(pods) == 0 || !w.gatewayFor(f).IsValid() || len(e.Destinations) > 0 && len(destinations) == 0 {
				continue
			}
			if wrong := w.emitPodEgress(fmt.Sprintf("egress%d", i), e, pods, destinations); wrong != "" {
				return wrong
			}
		}
	}
	return ""
}

func filterSlice[T any](list []T, fits func(T) bool) (out []T) {
	for _, v := range list {
		if fits(v) {
			out = append(out, v)
		}
	}
	return out
}

// emitPodEgress adds the egress of a group of pods. It applies to connections that the pods initiate; replies to
// requests that arrived on another path are not affected.
func (w *networkCompiler) emitPodEgress(name string, e EgressSpec, pods []netip.Addr,
	destinations []netip.Prefix,
) string {
	f := ipfamily.Of(pods[0])
	ofFamily := func(p netip.Prefix) bool { return f.Contains(p.Addr()) }
	match := fmt.Sprintf("%s saddr %s", nftHeader(f), w.addAddressSet(name+"-pods", f, pods))
	switch inside := filterSlice(w.excludedPrefixes(), ofFamily); {
	case len(destinations) > 0:
		match += fmt.Sprintf(" %s daddr %s", nftHeader(f), w.addPrefixSet(name+"-to", f, destinations))
	case len(inside) > 0:
		match += fmt.Sprintf(" %s daddr != %s", nftHeader(f), w.addPrefixSet("inside", f, inside))
	}
	if except := filterSlice(parseValid(e.Except, netip.ParsePrefix), ofFamily); len(except) > 0 {
		match += fmt.Sprintf(" %s daddr != %s", nftHeader(f), w.addPrefixSet(name+"-not", f, except))
	}
	if err := w.emitPodRouting(name, match, pods, destinations); err != "" {
		return err
	}
	translation := "masquerade"
	if a, err := netip.ParseAddr(e.Address); err == nil && f.Contains(a) {
		translation = fmt.Sprintf("snat %s to %s", nftHeader(f), a)
	}
	w.addNftRule("leaves", name+nftHeader(f),
		fmt.Sprintf("oifname %q ct direction original %s %s", w.dev.Name, match, translation))
	return ""
}

// excludedPrefixes returns the prefixes of the cluster and of its nodes. Pods reach them directly unless they are
// listed as destinations.
func (w *networkCompiler) excludedPrefixes() []netip.Prefix {
	out := parseValid(w.spec.Inside, netip.ParsePrefix)
	for _, a := range parseValid(w.spec.Hosts, netip.ParseAddr) {
		out = append(out, netip.PrefixFrom(a, a.BitLen()))
	}
	return out
}

// emitPodRouting adds the routing of pods' connections to the network, according to its method.
func (w *networkCompiler) emitPodRouting(name, match string, pods []netip.Addr, destinations []netip.Prefix) string {
	f := ipfamily.Of(pods[0])
	switch w.spec.Method {
	case "Static":
		if len(destinations) == 0 {
			return "method Static can't lead pods out by this network: routes know destinations only; choose another method, or name destinations"
		}
		for _, to := range destinations {
			w.addRoute(Route{Table: MainTable, To: to.Masked(), Via: w.gatewayFor(f), Dev: w.dev.Name})
		}
	default:
		w.addNftRule("marks", name+nftHeader(f),
			fmt.Sprintf("iifname != %q ct direction original %s %s", w.dev.Name, match, w.markStatement()))
		table, replies := w.markTable()
		w.addRule(RuleKey{Pref: ownership.NodeRuleMark, Mark: w.fwMark(), Family: f}, table)
		if replies != "" {
			w.relaxRPFilter(replies)
		}
	}
	return ""
}

// markTable returns the table for marked packets, and the interface on which reverse path filtering must be relaxed,
// because packets that arrive there have no mark and their source would be routed through another interface. In a VRF
// without a veth pair there is none: the kernel uses the VRF's table for the check. With a veth pair, packets from the
// network cross it, also replies to pods, because conntrack has their connection in the VRF's zone.
func (w *networkCompiler) markTable() (table int, unmarked string) {
	switch near, _ := w.vethNames(); {
	case w.spec.Method != kubedcv1alpha1.NodeVRF:
		return w.tableID(), w.dev.Name
	case w.spec.Legs:
		return w.vethTableID(), near
	default:
		return w.tableID(), ""
	}
}

// ParseComment returns the rule name and the checksum in a rule's comment.
func ParseComment(comment string) (name, sum string) {
	i := strings.LastIndex(comment, " ")
	if i < 0 {
		return comment, ""
	}
	return comment[:i], comment[i+1:]
}

// FormatComment returns the comment of a rule.
func FormatComment(name string, v NftValue) string { return name + " " + v.Checksum }
