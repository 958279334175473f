package world

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/sallyport/sallyport/internal/lab/netns"
)

// A router's links.
const (
	lanSide    = "lan"     // to the segment's wire
	clientSide = "clients" // to the client
	wanSide    = "wan"     // to the internet host
)

// A router's counters.
const (
	Spoofed    = "spoofed"      // dropped: came from the wire with a source that is not the segment's (BCP 38)
	OutOfState = "out_of_state" // dropped: belongs to no connection whose beginning this router saw
	Out        = "out"          // passed from the wire
	In         = "in"           // passed to the wire
)

// The sets of dropped flows keep their first packets; an entry's rest of time says how long ago that was.
const (
	droppedSetSize = 64
	droppedSetAge  = 24 * time.Hour
)

// rules are a router's nftables rules. Invalid is what connection tracking calls a TCP segment other than a first SYN
// (so also SYN+ACK) without its connection, an ICMP reply without its request and an ICMP error about an unknown
// packet. A UDP reply can't be told from a request, so it passes.
//
// A source is the segment's when the router itself would send to it by the wire: that is the segment's prefix, and what
// nodes have announced by BGP.
func rules() string {
	var b strings.Builder
	b.WriteString("table inet edge {\n")
	for _, name := range []string{Spoofed, OutOfState, Out, In} {
		fmt.Fprintf(&b, "\tcounter %s {\n\t}\n", name)
	}
	for _, family := range []string{"ip", "ip6"} {
		fmt.Fprintf(&b, "\tset %s {\n\t\ttypeof %s\n\t\tsize %d\n\t\tflags dynamic,timeout\n\t\ttimeout %ds\n\t}\n",
			droppedSet(family), flowKey(family), droppedSetSize, int(droppedSetAge.Seconds()))
	}
	b.WriteString("\tchain forward {\n\t\ttype filter hook forward priority filter; policy accept;\n")
	drop := func(match, counter string) {
		for _, family := range []string{"ip", "ip6"} {
			fmt.Fprintf(&b, "\t\t%s add @%s { %s }\n", match, droppedSet(family), flowKey(family))
		}
		fmt.Fprintf(&b, "\t\t%s counter name %q drop\n", match, counter)
	}
	drop(fmt.Sprintf("iifname %q fib saddr . iif oif missing", lanSide), Spoofed)
	for _, direction := range []string{"iifname", "oifname"} {
		drop(fmt.Sprintf("%s %q ct state invalid", direction, lanSide), OutOfState)
	}
	fmt.Fprintf(&b, "\t\tiifname %q counter name %q\n", lanSide, Out)
	fmt.Fprintf(&b, "\t\toifname %q counter name %q\n", lanSide, In)
	b.WriteString("\t}\n}\n")
	return b.String()
}

// droppedSet is the nftables set with the flows of one family whose packets a router has dropped.
func droppedSet(family string) string { return "dropped_" + family }

// flowKey is what an entry of such a set says of a packet.
func flowKey(family string) string {
	return fmt.Sprintf("%[1]s saddr . %[1]s daddr . meta l4proto . th sport . th dport", family)
}

// guard puts a segment's rules on its router. The settings of connection tracking exist in a namespace only once a rule
// there has asked for it, so they come second.
func guard(ctx context.Context, router netns.NS) error {
	if _, err := nft(ctx, router, rules(), "-f", "-"); err != nil {
		return fmt.Errorf("load rules in %s: %w", router.Name, err)
	}
	return router.Sysctl(map[string]string{
		"netfilter/nf_conntrack_tcp_loose": "0", // else a connection may be picked up in its middle
		"netfilter/nf_conntrack_checksum":  "0", // a router forwards a wrong TCP checksum; it is not out of state
	})
}

// nft runs the nft program in a namespace.
func nft(ctx context.Context, ns netns.NS, input string, args ...string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "nft", args...) //nolint:gosec // rules of the lab
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	err := ns.Do(cmd.Run)
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("%w: apt-get install nftables", err)
	}
	if err != nil {
		return nil, fmt.Errorf("nft %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.Bytes(), nil
}
