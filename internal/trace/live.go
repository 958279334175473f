package trace

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/match"
)

// Step is a packet in one router or switch, as ovn-trace can be asked about it: whether the flows that northd has made of the rows do the same.
type Step struct {
	Datapath string
	// Flow is the packet as it comes in, in OVN's language, and States what connection tracking says of it, in order.
	Flow   string
	States []string
	// Backend is the one that a load balancer chooses; invalid: none does.
	Backend netip.AddrPort
	// Output is the port by which it leaves; empty: it does not.
	Output string
	// Hops is how many hops have been before it, of those in its direction; Back: of the reply.
	Hops int
	Back bool

	skip bool // ovn-trace can't tell: as to which connection the packet belongs, and what it is translated back to
}

// Arguments are those of ovn-trace.
func (s Step) Arguments() (out []string) {
	for _, state := range s.States {
		out = append(out, "--ct="+state)
	}
	if s.Backend.IsValid() {
		out = append(out, "--lb-dst="+s.Backend.String())
	}
	return append(out, s.Datapath, s.Flow)
}

// Agrees says whether the output of ovn-trace is what the step expects, and where the flows lead instead.
func (s Step) Agrees(output string) (bool, string) {
	if begun := fmt.Sprintf("ingress(dp=%q", s.Datapath); !strings.Contains(output, begun) {
		return false, "do not know it: " + strings.TrimSpace(output)
	}
	_, egress, leaves := strings.Cut(output, fmt.Sprintf("egress(dp=%q", s.Datapath))
	if !leaves {
		return s.Output == "", "nowhere"
	}
	for _, next := range []string{"\ningress(dp=", "\negress(dp="} { // what comes after the port is another step's business
		egress, _, _ = strings.Cut(egress, next)
	}
	_, rest, leaves := strings.Cut(egress, `output to "`)
	if !leaves {
		return s.Output == "", "nowhere"
	}
	port, _, _ := strings.Cut(rest, `"`)
	return port == s.Output, "to port " + port
}

// byFlows says whether it is flows that end a packet's way so, which ovn-trace knows, and not nodes, which it does not.
func byFlows(code string) bool {
	return slices.Contains([]string{
		NetworkPolicyDrops, SecurityGroupDrops, SourceRangesDrop, NetworkIsolates, AllowListDrops, RuleDrops, PolicyDrops, ForeignPolicyDrops, NoRoute, Spoofed,
	}, code)
}

// enter begins a step.
func (w *walk) enter(datapath string, f flight) {
	w.steps = append(w.steps, Step{Datapath: datapath, Flow: f.micro(), Hops: len(w.hops), Back: w.returns, skip: w.silent})
}

// note adds what connection tracking says of a packet to the step.
func (w *walk) note(f *flight, translated bool) {
	if len(w.steps) == 0 {
		return
	}
	s := &w.steps[len(w.steps)-1]
	state := "trk,new"
	if f.Established {
		state = "trk,est"
	}
	if f.Reply {
		state += ",rpl"
	}
	s.States = append(s.States, state)
	s.skip = s.skip || translated && s.Output == "" && f.Outport == ""
}

// unasked notes that ovn-trace is not asked about the step: it does otherwise than Open vSwitch.
func (w *walk) unasked() {
	if len(w.steps) > 0 {
		w.steps[len(w.steps)-1].skip = true
	}
}

// leave ends a step.
func (w *walk) leave(port string) { w.steps[len(w.steps)-1].Output = port }

// micro is the packet in OVN's language.
func (f flight) micro() string {
	family := "ip4"
	if f.Source.Is6() {
		family = "ip6"
	}
	words := []string{
		fmt.Sprintf("inport == %q", f.Inport), "eth.src == " + f.EthSource.String(), "eth.dst == " + f.EthDestination.String(),
		fmt.Sprintf("%s.src == %s", family, f.Source), fmt.Sprintf("%s.dst == %s", family, f.Destination), fmt.Sprintf("ip.ttl == %d", f.TTL),
	}
	switch name := protocolName(f.Protocol); f.Protocol {
	case match.ICMP, match.ICMPv6:
		words = append(words, fmt.Sprintf("%s%s.type == %d", name, family[2:], f.ICMPType), fmt.Sprintf("%s%s.code == 0", name, family[2:]))
	default:
		words = append(words, fmt.Sprintf("%s.src == %d", name, f.SourcePort), fmt.Sprintf("%s.dst == %d", name, f.DestinationPort))
		if f.Protocol == match.TCP {
			words = append(words, fmt.Sprintf("tcp.flags == %d", f.TCPFlags))
		}
	}
	if f.Mark != 0 {
		words = append(words, fmt.Sprintf("pkt.mark == %d", f.Mark))
	}
	if f.looped {
		words = append(words, "reg9[0] == 1")
	}
	return strings.Join(words, " && ")
}
