package bgp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
)

// Announce is how a node's FRR is told to announce a prefix by uplinks, all of the prefix's family when none is named.
// What was said of the prefix before is replaced.
func Announce(b blueprint.Blueprint, node string, prefix netip.Prefix, by ...string) ([]string, error) {
	if err := check(b, node, prefix); err != nil {
		return nil, err
	}
	name, marks := "by", ""
	for i, s := range b.BGP() {
		if len(by) > 0 && !slices.Contains(by, s.Name) {
			continue
		}
		if speaks(s, prefix.Addr()) {
			name, marks = name+"-"+s.Name, marks+" "+community(i)
		} else if len(by) > 0 {
			return nil, fmt.Errorf("uplink %s has no %s prefix to reach %s by", s.Name, family(prefix.Addr()), prefix)
		}
	}
	for _, u := range by {
		if !slices.ContainsFunc(b.BGP(), func(s blueprint.Segment) bool { return s.Name == u }) {
			return nil, fmt.Errorf("no uplink %q with BGP; there are: %s", u, strings.Join(names(b), ", "))
		}
	}
	if marks == "" {
		return nil, fmt.Errorf("no uplink with BGP has an %s prefix to reach %s by", family(prefix.Addr()), prefix)
	}
	return []string{
		"configure terminal", "route-map " + name + " permit 10", "set community" + marks, "exit",
		fmt.Sprintf("router bgp %d", nodeAS), "address-family " + family(prefix.Addr()) + " unicast",
		fmt.Sprintf("network %s route-map %s", prefix, name),
	}, nil
}

// Withdraw is how a node's FRR is told to announce a prefix no longer, by any uplink.
func Withdraw(b blueprint.Blueprint, node string, prefix netip.Prefix) ([]string, error) {
	if err := check(b, node, prefix); err != nil {
		return nil, err
	}
	return []string{
		"configure terminal", fmt.Sprintf("router bgp %d", nodeAS),
		"address-family " + family(prefix.Addr()) + " unicast",
		fmt.Sprintf("no network %s", prefix),
	}, nil
}

func check(b blueprint.Blueprint, node string, prefix netip.Prefix) error {
	if len(b.BGP()) == 0 {
		return errors.New("this lab has no uplink with BGP; give one \"bgp: true\" in its topology file")
	}
	if !slices.ContainsFunc(b.NodeList(), func(n blueprint.Node) bool { return n.Name == node }) {
		return fmt.Errorf("no node %q; there are node1 to node%d", node, b.Nodes)
	}
	if !prefix.IsValid() || prefix != prefix.Masked() || !prefix.Addr().IsGlobalUnicast() || prefix.Addr().Is4In6() {
		return fmt.Errorf("%s can't be announced: it is no prefix of unicast addresses, such as 198.18.10.1/32", prefix)
	}
	return nil
}

func speaks(s blueprint.Segment, a netip.Addr) bool {
	return slices.ContainsFunc(s.Prefixes, func(p netip.Prefix) bool { return p.Addr().Is4() == a.Is4() })
}

func names(b blueprint.Blueprint) (out []string) {
	for _, s := range b.BGP() {
		out = append(out, s.Name)
	}
	return out
}
