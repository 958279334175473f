package trace

import (
	"fmt"
	"slices"

	"github.com/sallyport/sallyport/internal/match"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
)

// walk is one way of a packet and of its reply. It is taken once for each choice that the cluster has.
type walk struct {
	*fabric
	*choices
	query   Query
	tracked tracker
	hops    []Hop
	steps   []Step
	returns bool // the reply is followed
	passed  []state.Ref
	doubts  []string
	silent  bool        // nothing is written down
	tired   string      // a chassis that does not take a packet any further
	left    *segment    // the network by which a packet has left last
	blame   []state.Ref // whose policies have led it, that are nobody's here
}

// step is what comes next: one of these.
type step struct {
	router *port    // it comes in by this port of a router
	swtch  *socket  // it comes in by this port of a switch
	leaves *segment // it is on the wire of this network
	end    *ending
	flight flight
}

// ending is where a packet's way ends.
type ending struct {
	kind   kind
	flight flight
	at     *socket // that got it
	echo   *port   // of the router that answers itself
	Path           // verdict, code, reason and objects, of one that does not arrive
}

type kind int

const (
	lost kind = iota
	delivered
	arrived // outside
	echoed
)

// longest is how many routers and switches a packet may pass before it goes in circles.
const longest = 64

// run follows a packet until its way ends.
func (w *walk) run(s step) ending {
	for range longest {
		switch {
		case w.tired != "":
			node := w.node(w.tired)
			w.tired = ""
			reason := fmt.Sprintf("node %s would have to translate it more often than Open vSwitch does for one packet", node)
			return *w.drop(TooDeep, reason, survey.NodeRef(node)).end
		case s.end != nil:
			if s.end.kind == lost && !byFlows(s.end.Code) {
				w.unasked()
			}
			return *s.end
		case s.router != nil:
			s = w.enterRouter(s.router, s.flight)
		case s.swtch != nil:
			s = w.enterSwitch(s.swtch, s.flight)
		default:
			s = w.carry(s.leaves, s.flight)
		}
	}
	return *w.drop(Loop, "it goes in circles between routers until it dies").end
}

// drop ends a packet's way.
func (w *walk) drop(code, reason string, about ...state.Ref) step {
	return step{end: &ending{Path: Path{Verdict: Dropped, Code: code, Reason: reason, About: about}}}
}

// refuse ends it with an answer that nobody is there.
func (w *walk) refuse(code, reason string, about ...state.Ref) step {
	out := w.drop(code, reason, about...)
	out.end.Verdict = Refused
	return out
}

// doubt notes what the walk could not be sure of.
func (w *walk) doubt(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(w.doubts, text) {
		w.doubts = append(w.doubts, text)
	}
}

// pass notes what a packet passes.
func (w *walk) pass(refs ...state.Ref) {
	for _, r := range refs {
		if r.Name != "" && !slices.Contains(w.passed, r) {
			w.passed = append(w.passed, r)
		}
	}
}

// hop notes a step on the way.
func (w *walk) hop(f flight, about state.Ref, row, format string, args ...any) {
	w.pass(about, survey.NodeRef(w.node(f.chassis)))
	if w.silent {
		return
	}
	w.hops = append(w.hops, Hop{About: about, Text: fmt.Sprintf(format, args...), Node: w.node(f.chassis), Row: row, Packet: f.text(w.query)})
}

// text is the packet as people write it.
func (f flight) text(q Query) string {
	end := func(t string, port uint16) string {
		if f.Protocol == match.ICMP || f.Protocol == match.ICMPv6 || port == anyPort && q.Client.Port() == 0 {
			return t
		}
		return fmt.Sprintf("%s:%d", t, port)
	}
	return end(f.Source.String(), f.SourcePort) + " → " + end(f.Destination.String(), f.DestinationPort)
}

// holds says whether a match holds for a packet. One that can't be told is noted, and does not: OVN does not carry it out either.
func (w *walk) holds(text string, f flight, row string) bool {
	p := w.parse(text)
	if p.err == nil {
		var holds bool
		if holds, p.err = p.Holds(f.Packet, names{w.fabric, f.chassis}); p.err == nil {
			return holds
		}
	}
	w.doubt("%s can't be evaluated: %v", row, p.err)
	return false
}

// choices are the decisions of a walk that the cluster takes by chance, such as which backend gets a connection.
type choices struct {
	taken, of []int
	made      map[string]int // which of them, by what chooses: packets of one connection are treated alike
}

// choose lets a row take one of n.
func (c *choices) choose(row string, n int) int {
	i, known := c.made[row]
	if !known {
		i = len(c.made)
		c.made[row] = i
	}
	if i == len(c.taken) {
		c.taken, c.of = append(c.taken, 0), append(c.of, n)
	}
	return min(c.taken[i], n-1)
}

// next goes on to the next way to choose; false: that was the last.
func (c *choices) next() bool {
	c.made = map[string]int{}
	for i := len(c.taken) - 1; i >= 0; i-- {
		if c.taken[i]++; c.taken[i] < c.of[i] {
			return true
		}
		c.taken, c.of = c.taken[:i], c.of[:i]
	}
	return false
}
