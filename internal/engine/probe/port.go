package probe

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"

	"golang.org/x/net/bpf"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// PortQuery asks whether the pod behind an interface answers on a port. The interface is the node's end of the pod's
// veth pair, so that the packet enters the pod without passing OVN.
type PortQuery struct {
	Interface string
	// MAC and To are the address of the pod. Port is 0 for ICMP.
	MAC net.HardwareAddr
	To  netip.AddrPort
	// From is the source of the packet: the pod's gateway, so that the pod's reply ends at its router.
	From     netip.Addr
	Protocol string // tcp, udp, sctp or icmp
}

// Results of a query about a port.
const (
	PortOpen     = "Open"     // the pod answered
	PortClosed   = "Closed"   // the pod refused: nothing listens
	PortRejected = "Rejected" // the pod refused with an error that firewalls send
	PortSilent   = "Silent"   // the pod did not answer
)

// PortResult is the answer of a pod.
type PortResult struct {
	Result string
	Err    error // why the request failed
}

// Source ports of queries: random ones among those that hosts use for connections.
const (
	firstSourcePort = 49152
	sourcePorts     = 16384
)

// FindOpenPorts sends all queries at the same time, and returns the results in their order. It takes a second if a pod
// does not answer.
func FindOpenPorts(ctx context.Context, questions []PortQuery) []PortResult {
	out := make([]PortResult, len(questions))
	var wait errgroup.Group
	for i, q := range questions {
		if err := q.validate(); err != nil {
			out[i].Err = err
			continue
		}
		s, err := openSocketFor(q.Interface, buildPortFilter(q.From)) // here, because of the network namespace of the caller's thread
		if err != nil {
			out[i].Err = err
			continue
		}
		wait.Go(func() error {
			defer s.close()
			out[i] = s.askPort(ctx, q)
			return nil
		})
	}
	_ = wait.Wait()
	return out
}

// validate returns why a query cannot be sent.
func (q PortQuery) validate() error {
	to, from := q.To.Addr(), q.From
	switch {
	case !to.IsValid() || !from.IsValid() || to.Is4() != from.Is4():
		return fmt.Errorf("%s and %s are not two addresses of one family", to, from)
	case to.IsMulticast() || from.IsMulticast() || from.IsUnspecified() || from.IsLoopback() || from == to:
		return fmt.Errorf("a packet from %s to %s is not allowed", from, to)
	case len(q.MAC) != len(broadcastMAC) || q.MAC[0]&1 != 0:
		return fmt.Errorf("%s is not the MAC address of a pod", q.MAC)
	}
	if _, known := probes[q.Protocol]; !known {
		return fmt.Errorf("protocol %q is not tcp, udp, sctp or icmp", q.Protocol)
	}
	return nil
}

// buildPortFilter returns a filter that accepts packets to an address only: a busy pod must not keep the agent busy.
func buildPortFilter(to netip.Addr) []bpf.Instruction {
	offset, kind := uint32(ipv4DestinationOffset), uint32(unix.ETH_P_IP)
	if to.Is6() {
		offset, kind = ipv6DestinationOffset, unix.ETH_P_IPV6
	}
	words := to.AsSlice()
	checks := len(words) / 4
	out := []bpf.Instruction{
		bpf.LoadAbsolute{Off: etherTypeOffset, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: kind, SkipTrue: uint8(2*checks + 1)}, //nolint:gosec // at most 9
	}
	for i := range checks {
		w := words[4*i:]
		out = append(out,
			bpf.LoadAbsolute{Off: offset + uint32(4*i), Size: 4},
			bpf.JumpIf{
				Cond: bpf.JumpNotEqual, Val: uint32(w[0])<<24 | uint32(w[1])<<16 | uint32(w[2])<<8 | uint32(w[3]),
				SkipTrue: uint8(2*(checks-i-1) + 1), //nolint:gosec // at most 7
			})
	}
	return append(out, bpf.RetConstant{Val: maxFrameLength}, bpf.RetConstant{Val: 0})
}

// askPort sends a first packet until the pod answers, and ends a connection that the pod accepted.
func (s *packetSocket) askPort(ctx context.Context, q PortQuery) PortResult {
	f := firstPacket{PortQuery: q, mac: s.mac, port: uint16(firstSourcePort + rand.IntN(sourcePorts))} //nolint:gosec // any port, which need not be a secret
	out := PortResult{Result: PortSilent}
	out.Err = s.exchangeFrames(ctx, [][]byte{f.build()}, func(frame, _ []byte) bool {
		result, found := f.parseReply(frame)
		if found {
			out.Result = result
		}
		return found
	})
	if out.Err != nil {
		out.Result = ""
	}
	if out.Result == PortOpen && q.Protocol == "tcp" {
		_ = s.sendFrame(f.buildReset()) // otherwise the pod repeats its answer for a minute
	}
	return out
}
