package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/time/rate"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/engine/probe"
)

// A node sends one marked packet per second, and a few at once: whoever may create Inspections can't use it as a source
// of traffic.
const (
	sendInterval = time.Second
	sendBurst    = 8
	// resetDelay is the time until a connection that a server accepted is ended.
	resetDelay = time.Second
	// Time to count if the question has none, and the most.
	defaultCountTime = 4 * time.Second
	maxCountTime     = 10 * time.Second
)

func newSendLimiter() *rate.Limiter { return rate.NewLimiter(rate.Every(sendInterval), sendBurst) }

// sendPacket sends the marked packet of a question into OVN.
func (i *inspector) sendPacket(ctx context.Context, out *inspectionAnswer, q *kubedcv1alpha1.SendQuestion) {
	if q == nil {
		return
	}
	out.Sent = &kubedcv1alpha1.SendAnswer{}
	if err := i.trySendPacket(ctx, *q); err != nil {
		out.Sent.Problem = err.Error()
	}
}

func (i *inspector) trySendPacket(ctx context.Context, q kubedcv1alpha1.SendQuestion) error {
	m, err := parseSendQuestion(q)
	switch {
	case err != nil:
		return err
	case i.vswitch.SwitchDir == "":
		return errors.New("start the agent with --openvswitch-dir")
	}
	at, err := i.vswitch.FindLocalnetPort(ctx, q.LogicalPort)
	switch {
	case err != nil:
		return err
	case !i.sends.Allow():
		return fmt.Errorf("this node sends at most one packet per %s; ask again", sendInterval)
	}
	if err := i.vswitch.SendFrame(ctx, at, m.Frame()); err != nil {
		return err
	}
	reset, is := m.ResetFrame()
	if !is {
		return nil
	}
	select {
	case <-ctx.Done():
	case <-time.After(resetDelay):
	}
	return i.vswitch.SendFrame(context.WithoutCancel(ctx), at, reset)
}

// parseSendQuestion returns the packet of a question. The agent builds all of it except addresses, ports and mark.
func parseSendQuestion(q kubedcv1alpha1.SendQuestion) (out probe.MarkedPacket, err error) {
	from, badSource := netip.ParseAddr(q.From)
	to, badTarget := netip.ParseAddr(q.To)
	mac, badMAC := net.ParseMAC(q.MAC)
	if err := errors.Join(badSource, badTarget, badMAC); err != nil {
		return out, err
	}
	//nolint:gosec // the API server limits ports, VLAN and mark
	out = probe.MarkedPacket{
		MAC: mac, VLAN: uint16(q.Vlan), Protocol: q.Protocol, Mark: uint32(q.Mark),
		From: netip.AddrPortFrom(from, uint16(q.FromPort)), To: netip.AddrPortFrom(to, uint16(q.Port)),
	}
	return out, out.Validate()
}

// packetCount counts a marked packet for an Inspection.
type packetCount struct {
	counter *probe.MarkCounter
	names   map[int]string // of interfaces
	pods    map[string]string
	wires   map[string]string
	time    time.Duration
	problem error
}

// startCount begins to count. From then on no packet is missed.
func (i *inspector) startCount(ctx context.Context, q *kubedcv1alpha1.CountQuestion) *packetCount {
	if q == nil {
		return nil
	}
	out := &packetCount{names: map[int]string{}, pods: map[string]string{}, wires: map[string]string{}}
	out.time = min(max(time.Duration(q.Seconds)*time.Second, 0), maxCountTime)
	if out.time == 0 {
		out.time = defaultCountTime
	}
	if out.problem = out.readInterfaces(ctx, i); out.problem != nil {
		return out
	}
	out.counter, out.problem = probe.NewMarkCounter(uint32(q.Mark)) //nolint:gosec // the API server allows 32 bits
	return out
}

// readInterfaces finds out which interfaces are pods' and which are wires.
func (p *packetCount) readInterfaces(ctx context.Context, i *inspector) error {
	pods, err := i.podInterfaces(ctx)
	if err != nil {
		return err
	}
	for port, name := range pods {
		p.pods[name] = port
	}
	state, failed := i.vswitch.ReadState(ctx)
	if len(state.Bridges) == 0 && len(failed) > 0 {
		return errors.Join(failed...)
	}
	for _, b := range state.Bridges {
		for _, name := range b.Interfaces {
			p.wires[name] = b.Network
		}
	}
	links, err := net.Interfaces()
	for _, l := range links {
		p.names[l.Index] = l.Name
	}
	return err
}

// addTo counts until the time has passed, and adds the sightings to an answer.
func (p *packetCount) addTo(ctx context.Context, out *kubedcv1alpha1.InspectionStatus) {
	if p == nil {
		return
	}
	problem := p.problem
	if problem == nil {
		defer p.counter.Close()
		ctx, cancel := context.WithTimeout(ctx, p.time)
		defer cancel()
		var all []probe.MarkedCount
		all, problem = p.counter.Count(ctx)
		for _, c := range all {
			if answer, known := p.describe(c); known {
				out.Packets = append(out.Packets, answer)
			}
		}
	}
	if problem != nil {
		out.Problems = append(out.Problems, "packets were not counted: "+problem.Error())
		return
	}
	out.Counting = true
}

// describe returns a sighting with its place, and false for an interface that is neither a pod's nor leads out of the
// node: there the same packet is seen again.
func (p *packetCount) describe(c probe.MarkedCount) (kubedcv1alpha1.PacketAnswer, bool) {
	name := p.names[c.Interface]
	out := kubedcv1alpha1.PacketAnswer{
		Outgoing: c.Outgoing, Kind: c.Kind, Source: formatEndpoint(c.From), Destination: formatEndpoint(c.To),
		Count: int32(c.Count), //nolint:gosec // packets of a few seconds
	}
	port, isPod := p.pods[name]
	network, isWire := p.wires[name]
	switch {
	case c.Tunnel:
		out.Place = kubedcv1alpha1.PacketInTunnel
	case isPod:
		out.Place, out.LogicalPort = kubedcv1alpha1.PacketAtPod, port
	case isWire:
		out.Place, out.Network = kubedcv1alpha1.PacketOnWire, network
	default:
		return out, false
	}
	return out, true
}

// formatEndpoint formats an address with its port, if it has one.
func formatEndpoint(a netip.AddrPort) string {
	if a.Port() == 0 {
		return a.Addr().String()
	}
	return a.String()
}
