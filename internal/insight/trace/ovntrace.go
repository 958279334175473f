package trace

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/match"
)

// DatapathStep is a packet in one router or switch, in a form that ovn-trace understands. Comparing the two shows
// whether the logical flows that northd made of the rows do the same.
type DatapathStep struct {
	Datapath string
	// Microflow is the packet on ingress, in OVN's expression language. CTStates are the results of its conntrack
	// lookups, in order.
	Microflow string
	CTStates  []string
	// Backend is the one that a load balancer chooses; invalid: none is chosen.
	Backend netip.AddrPort
	// Outport is the egress port; empty: the packet is dropped here.
	Outport string
	// HopsBefore is the number of earlier hops in the same direction. IsReply: the packet is the reply.
	HopsBefore int
	IsReply    bool

	// ovn-trace cannot decide it: which connection the packet belongs to, and what it is translated back to
	skipOVNTrace bool
}

// OVNTraceArgs returns the arguments for ovn-trace.
func (s DatapathStep) OVNTraceArgs() (out []string) {
	for _, state := range s.CTStates {
		out = append(out, "--ct="+state)
	}
	if s.Backend.IsValid() {
		out = append(out, "--lb-dst="+s.Backend.String())
	}
	return append(out, s.Datapath, s.Microflow)
}

// AgreesWithOutput reports whether the output of ovn-trace is what the step expects, and otherwise where the flows send
// the packet.
func (s DatapathStep) AgreesWithOutput(output string) (bool, string) {
	if begun := fmt.Sprintf("ingress(dp=%q", s.Datapath); !strings.Contains(output, begun) {
		return false, "do not know it: " + strings.TrimSpace(output)
	}
	_, egress, leaves := strings.Cut(output, fmt.Sprintf("egress(dp=%q", s.Datapath))
	if !leaves {
		return s.Outport == "", "nowhere"
	}
	// datapaths after the egress port belong to the next steps
	for _, next := range []string{"\ningress(dp=", "\negress(dp="} {
		egress, _, _ = strings.Cut(egress, next)
	}
	_, rest, leaves := strings.Cut(egress, `output to "`)
	if !leaves {
		return s.Outport == "", "nowhere"
	}
	port, _, _ := strings.Cut(rest, `"`)
	return port == s.Outport, "to port " + port
}

// isFlowDrop reports whether logical flows cause such a drop, so that ovn-trace sees it too. It does not see drops by
// nodes.
func isFlowDrop(code string) bool {
	return slices.Contains([]string{
		NetworkPolicyDrops, SecurityGroupDrops, SourceRangesDrop, NetworkIsolates, AllowListDrops, RuleDrops,
		PolicyDrops, ForeignPolicyDrops, NoRoute, Spoofed,
	}, code)
}

func (w *traceRun) beginStep(datapath string, f packet) {
	w.steps = append(w.steps, DatapathStep{
		Datapath:     datapath,
		Microflow:    f.microflow(),
		HopsBefore:   len(w.hops),
		IsReply:      w.onReply,
		skipOVNTrace: w.silent,
	})
}

// noteCTState adds the result of a conntrack lookup to the current step.
func (w *traceRun) noteCTState(f *packet, translated bool) {
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
	s.CTStates = append(s.CTStates, state)
	s.skipOVNTrace = s.skipOVNTrace || translated && s.Outport == "" && f.Outport == ""
}

// skipOVNTrace excludes the current step from the comparison, because ovn-trace behaves differently from Open vSwitch
// there.
func (w *traceRun) skipOVNTrace() {
	if len(w.steps) > 0 {
		w.steps[len(w.steps)-1].skipOVNTrace = true
	}
}

func (w *traceRun) endStep(port string) { w.steps[len(w.steps)-1].Outport = port }

// microflow formats the packet in OVN's expression language.
func (f packet) microflow() string {
	family := match.Symbol(ipfamily.Of(f.Source))
	words := []string{
		fmt.Sprintf("inport == %q", f.Inport), "eth.src == " + f.EthSource.String(),
		"eth.dst == " + f.EthDestination.String(),
		fmt.Sprintf("%s.src == %s", family, f.Source), fmt.Sprintf("%s.dst == %s", family, f.Destination),
		fmt.Sprintf("ip.ttl == %d", f.TTL),
	}
	switch name := protocolName(f.Protocol); f.Protocol {
	case match.ICMP, match.ICMPv6:
		words = append(words, fmt.Sprintf("%s%s.type == %d", name, family[2:], f.ICMPType),
			fmt.Sprintf("%s%s.code == 0", name, family[2:]))
	default:
		words = append(words, fmt.Sprintf("%s.src == %d", name, f.SourcePort),
			fmt.Sprintf("%s.dst == %d", name, f.DestinationPort))
		if f.Protocol == match.TCP {
			words = append(words, fmt.Sprintf("tcp.flags == %d", f.TCPFlags))
		}
	}
	if f.Mark != 0 {
		words = append(words, fmt.Sprintf("pkt.mark == %d", f.Mark))
	}
	if f.egressLooped {
		words = append(words, "reg9[0] == 1")
	}
	return strings.Join(words, " && ")
}
