package trace

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/state"
)

// traceRun follows one path of a packet and its reply. There is one run for each combination of choices.
type traceRun struct {
	*topology
	*choices
	query            Query
	conntrack        conntrackTable
	hops             []Hop
	steps            []DatapathStep
	onReply          bool // the packet followed is the reply
	passedRefs       []state.Ref
	caveats          []string
	silent           bool           // record no hops
	exhaustedChassis string         // the chassis that reached maxRecirculations
	exitSwitch       *logicalSwitch // the network through which the last packet left
	exitChassis      string         // the chassis that sent it
	entry            *Entry         // where the first packet entered
	foreignPolicies  []state.Ref    // owners of policies of unknown origin that rerouted it
}

// transition is what happens next to a packet. Exactly one of the pointers is set.
type transition struct {
	toRouter *routerPort    // it enters a router through this port
	toSwitch *switchPort    // it enters a switch through this port
	toWire   *logicalSwitch // it is on the physical network of this switch
	outcome  *outcome
	packet   packet
}

// outcome is the end of a packet's path.
type outcome struct {
	kind       outcomeKind
	packet     packet
	switchPort *switchPort // the receiver
	echoPort   *routerPort // the port of the router that answers a ping
	Path                   // verdict, code, reason and objects of a packet that does not arrive
}

type outcomeKind int

const (
	outcomeLost outcomeKind = iota
	outcomeDelivered
	outcomeArrived // at a host outside the cluster
	outcomeEchoed
)

// maxPipelines is how many routers and switches a packet may pass before it counts as a loop.
const maxPipelines = 64

// followPacket runs pipelines until the packet's path ends.
func (w *traceRun) followPacket(s transition) outcome {
	for range maxPipelines {
		switch {
		case w.exhaustedChassis != "":
			node := w.nodeOfChassis(w.exhaustedChassis)
			w.exhaustedChassis = ""
			reason := fmt.Sprintf(
				"node %s would recirculate it more often than Open vSwitch's userspace datapath allows", node)
			return *w.dropPacket(TooDeep, reason, clusterstate.NodeRef(node)).outcome
		case s.outcome != nil:
			if s.outcome.kind == outcomeLost && !isFlowDrop(s.outcome.Code) {
				w.skipOVNTrace()
			}
			return *s.outcome
		case s.toRouter != nil:
			s = w.runRouterPipeline(s.toRouter, s.packet)
		case s.toSwitch != nil:
			s = w.runSwitchPipeline(s.toSwitch, s.packet)
		default:
			s = w.sendOnWire(s.toWire, s.packet)
		}
	}
	return *w.dropPacket(Loop, "it loops between routers until its TTL expires").outcome
}

// dropPacket ends the path with verdict Dropped.
func (w *traceRun) dropPacket(code, reason string, about ...state.Ref) transition {
	return transition{outcome: &outcome{Path: Path{Verdict: Dropped, Code: code, Reason: reason, About: about}}}
}

// rejectPacket ends the path with verdict Refused.
func (w *traceRun) rejectPacket(code, reason string, about ...state.Ref) transition {
	out := w.dropPacket(code, reason, about...)
	out.outcome.Verdict = Refused
	return out
}

// addCaveat records something the trace cannot be sure of, once.
func (w *traceRun) addCaveat(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(w.caveats, text) {
		w.caveats = append(w.caveats, text)
	}
}

func (w *traceRun) notePassed(refs ...state.Ref) {
	for _, r := range refs {
		if r.Name != "" && !slices.Contains(w.passedRefs, r) {
			w.passedRefs = append(w.passedRefs, r)
		}
	}
}

// addHop adds a hop with its text, node and packet. A place without a reference of its own is that of the hop's object.
func (w *traceRun) addHop(f packet, h Hop, format string, args ...any) {
	w.notePassed(h.About, clusterstate.NodeRef(w.nodeOfChassis(f.chassis)))
	if w.silent {
		return
	}
	for i, at := range h.Places {
		if at.Ref == (state.Ref{}) && at.Kind != AtClient && h.About.Kind != returnPath {
			h.Places[i].Ref = h.About
		}
	}
	h.Text, h.Node, h.Packet = fmt.Sprintf(format, args...), w.nodeOfChassis(f.chassis), f.formatTuple(w.query)
	w.hops = append(w.hops, h)
}

// formatTuple formats the packet for people.
func (f packet) formatTuple(q Query) string {
	return f.formatSource(q) + " → " + f.formatDestination(q)
}

func (f packet) formatSource(q Query) string { return f.formatEndpoint(q, f.tuple().source) }

func (f packet) formatDestination(q Query) string { return f.formatEndpoint(q, f.tuple().destination) }

// formatEndpoint formats an address with its port, unless the port says nothing.
func (f packet) formatEndpoint(q Query, end netip.AddrPort) string {
	if f.isICMP() ||
		end.Port() == defaultClientPort && q.Client.Port() == 0 {
		return end.Addr().String()
	}
	return end.String()
}

// evaluateMatch reports whether a match holds for a packet. A match that cannot be evaluated becomes a caveat and does
// not hold: OVN does not install such a row either.
func (w *traceRun) evaluateMatch(text string, f packet, row string) bool {
	p := w.parseMatch(text)
	if p.err == nil {
		var holds bool
		if holds, p.err = p.Evaluate(f.Packet, chassisResolver{w.topology, f.chassis}); p.err == nil {
			return holds
		}
	}
	w.addCaveat("%s can't be evaluated: %v", row, p.err)
	return false
}

// choices are the decisions of a run that OVN makes by hash, such as the backend of a connection.
type choices struct {
	taken, optionCounts []int
	indexByRow          map[string]int // index into taken; all packets of a connection get the same choice
}

// chooseIndex returns which of n options a row takes in this run.
func (c *choices) chooseIndex(row string, n int) int {
	i, known := c.indexByRow[row]
	if !known {
		i = len(c.indexByRow)
		c.indexByRow[row] = i
	}
	if i == len(c.taken) {
		c.taken, c.optionCounts = append(c.taken, 0), append(c.optionCounts, n)
	}
	return min(c.taken[i], n-1)
}

// nextCombination advances to the next combination of choices. It returns false after the last one.
func (c *choices) nextCombination() bool {
	c.indexByRow = map[string]int{}
	for i := len(c.taken) - 1; i >= 0; i-- {
		if c.taken[i]++; c.taken[i] < c.optionCounts[i] {
			return true
		}
		c.taken, c.optionCounts = c.taken[:i], c.optionCounts[:i]
	}
	return false
}
