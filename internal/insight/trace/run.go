package trace

import (
	"fmt"
	"slices"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/match"
	"github.com/sallyport/sallyport/internal/model/state"
)

// traceRun is one way of a packet and of its reply. It is taken once for each choice that the cluster has.
type traceRun struct {
	*topology
	*choices
	query            Query
	conntrack        conntrackTable
	hops             []Hop
	steps            []DatapathStep
	onReply          bool // the reply is followed
	passedRefs       []state.Ref
	caveats          []string
	silent           bool           // nothing is written down
	exhaustedChassis string         // a chassis that does not take a packet any further
	exitSwitch       *logicalSwitch // the network by which a packet has left last
	foreignPolicies  []state.Ref    // whose policies have led it, that are nobody's here
}

// transition is what comes next: one of these.
type transition struct {
	toRouter *routerPort    // it comes in by this port of a router
	toSwitch *switchPort    // it comes in by this port of a switch
	toWire   *logicalSwitch // it is on the wire of this network
	outcome  *outcome
	packet   packet
}

// outcome is where a packet's way ends.
type outcome struct {
	kind       outcomeKind
	packet     packet
	switchPort *switchPort // that got it
	echoPort   *routerPort // of the router that answers itself
	Path                   // verdict, code, reason and objects, of one that does not arrive
}

type outcomeKind int

const (
	outcomeLost outcomeKind = iota
	outcomeDelivered
	outcomeArrived // outside
	outcomeEchoed
)

// maxPipelines is how many routers and switches a packet may pass before it goes in circles.
const maxPipelines = 64

// followPacket follows a packet until its way ends.
func (w *traceRun) followPacket(s transition) outcome {
	for range maxPipelines {
		switch {
		case w.exhaustedChassis != "":
			node := w.nodeOfChassis(w.exhaustedChassis)
			w.exhaustedChassis = ""
			reason := fmt.Sprintf("node %s would have to translate it more often than Open vSwitch does for one packet",
				node)
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
	return *w.dropPacket(Loop, "it goes in circles between routers until it dies").outcome
}

// dropPacket ends a packet's way.
func (w *traceRun) dropPacket(code, reason string, about ...state.Ref) transition {
	return transition{outcome: &outcome{Path: Path{Verdict: Dropped, Code: code, Reason: reason, About: about}}}
}

// rejectPacket ends it with an answer that nobody is there.
func (w *traceRun) rejectPacket(code, reason string, about ...state.Ref) transition {
	out := w.dropPacket(code, reason, about...)
	out.outcome.Verdict = Refused
	return out
}

// addCaveat notes what the walk could not be sure of.
func (w *traceRun) addCaveat(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(w.caveats, text) {
		w.caveats = append(w.caveats, text)
	}
}

// notePassed notes what a packet passes.
func (w *traceRun) notePassed(refs ...state.Ref) {
	for _, r := range refs {
		if r.Name != "" && !slices.Contains(w.passedRefs, r) {
			w.passedRefs = append(w.passedRefs, r)
		}
	}
}

// addHop notes a step on the way.
func (w *traceRun) addHop(f packet, about state.Ref, row, format string, args ...any) {
	w.notePassed(about, clusterstate.NodeRef(w.nodeOfChassis(f.chassis)))
	if w.silent {
		return
	}
	w.hops = append(w.hops, Hop{
		About:  about,
		Text:   fmt.Sprintf(format, args...),
		Node:   w.nodeOfChassis(f.chassis),
		Row:    row,
		Packet: f.formatTuple(w.query),
	})
}

// formatTuple is the packet as people write it.
func (f packet) formatTuple(q Query) string {
	end := func(t string, port uint16) string {
		if f.Protocol == match.ICMP || f.Protocol == match.ICMPv6 || port == defaultClientPort && q.Client.Port() == 0 {
			return t
		}
		return fmt.Sprintf("%s:%d", t, port)
	}
	return end(f.Source.String(), f.SourcePort) + " → " + end(f.Destination.String(), f.DestinationPort)
}

// evaluateMatch says whether a match holds for a packet. One that can't be told is noted, and does not: OVN does not
// carry it out either.
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

// choices are the decisions of a walk that the cluster takes by chance, such as which backend gets a connection.
type choices struct {
	taken, optionCounts []int
	indexByRow          map[string]int // which of them, by what chooses: packets of one connection are treated alike
}

// chooseIndex lets a row take one of n.
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

// nextCombination goes on to the next way to choose; false: that was the last.
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
