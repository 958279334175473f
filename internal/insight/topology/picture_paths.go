package topology

import (
	"fmt"
	"slices"

	"github.com/sallyport/sallyport/internal/insight/topology/drawing"
	"github.com/sallyport/sallyport/internal/insight/trace"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Sizes of packet paths.
const (
	placeHeight   = 48
	maxPathsDrawn = 24
	placeSpacing  = 30
)

// drawPacketPaths draws the paths of packets and replies, each as a circuit: the outside on the left, pods on the
// right.
func (p *picture) drawPacketPaths(v *Vpc) {
	if len(v.Connections) == 0 {
		return
	}
	p.y += gap
	p.DrawText(p.x, p.y+14, p.w, font{Size: 14, Bold: true}, "The way of packets, there and back")
	p.y += 30
	for _, path := range v.Connections[:min(maxPathsDrawn, len(v.Connections))] {
		p.drawPacketPath(path)
	}
	if more := len(v.Connections) - maxPathsDrawn; more > 0 {
		p.DrawText(p.x, p.y+12, p.w, font{Muted: true}, fmt.Sprintf("and %s more", formatNumber(more)))
		p.y += rowHeight
	}
}

// placePair is a place of the request, of the reply, or of both.
type placePair struct{ forward, reply *trace.Place }

// pairPlaces returns the places of a path from outside to inside. Places of request and reply of the same kind are paired.
func (path Connection) pairPlaces() []placePair {
	there, back := placePointers(path.Request), placePointers(path.Reply)
	if path.Inbound {
		slices.Reverse(back)
	} else {
		slices.Reverse(there)
	}
	var all []placePair
	for len(there) > 0 || len(back) > 0 {
		switch {
		case len(there) > 0 && len(back) > 0 && (isSamePlace(*there[0], *back[0]) || len(there) == len(back)):
			all = append(all, placePair{there[0], back[0]})
			there, back = there[1:], back[1:]
		case len(there) > len(back):
			all = append(all, placePair{forward: there[0]})
			there = there[1:]
		default:
			all = append(all, placePair{reply: back[0]})
			back = back[1:]
		}
	}
	return all
}

func placePointers(steps []trace.Place) (all []*trace.Place) {
	for i := range steps {
		all = append(all, &steps[i])
	}
	return all
}

// isSamePlace reports whether two places are the same. An address is at the place of its router.
func isSamePlace(a, b trace.Place) bool {
	router := func(s trace.Place) string {
		if s.Kind == trace.AtAddress {
			return trace.AtRouter
		}
		return s.Kind
	}
	return router(a) == router(b)
}

// isSameBothWays reports whether one box shows the places of both directions.
func (s placePair) isSameBothWays() bool {
	if s.forward == nil || s.reply == nil || s.forward.Label != s.reply.Label || s.forward.Problem != s.reply.Problem {
		return false
	}
	return s.forward.Action == "" || s.reply.Action == "" || s.forward.Action == s.reply.Action
}

// joined returns the place of both directions.
func (s placePair) joined() trace.Place {
	if s.forward.Action == "" {
		return *s.reply
	}
	return *s.forward
}

// way is one direction of a path: how its lines look, and the stages between which it goes.
type way struct {
	class       string
	y           int // of its lines
	rightward   bool
	first, last int
}

// newWay returns the direction that has a place at the given stages.
func newWay(stages []placePair, has func(placePair) *trace.Place) way {
	w := way{first: len(stages), last: -1}
	for i, s := range stages {
		if has(s) != nil {
			w.first, w.last = min(w.first, i), i
		}
	}
	return w
}

func (p *picture) drawPacketPath(path Connection) {
	colour := p.networkColour(path.Network)
	p.OpenGroup("", path.About.String(), "")
	p.DrawCircle(p.x+5, p.y+8, 5, drawing.NetworkClass("f", colour))
	p.DrawText(p.x+18, p.y+12, p.w-18, font{Bold: true}, path.Title)
	p.y += 20
	stages := path.pairPlaces()
	width := min(250, (p.w+placeSpacing)/max(len(stages), 5)-placeSpacing)
	high := placeHeight
	if len(path.Reply) > 0 {
		high = 2*placeHeight + 8
	}
	request := newWay(stages, func(s placePair) *trace.Place { return s.forward })
	reply := newWay(stages, func(s placePair) *trace.Place { return s.reply })
	request.class, request.rightward = "wire "+drawing.NetworkClass("n", colour), path.Inbound
	reply.class, reply.rightward = request.class+" back", !path.Inbound
	request.y, reply.y = p.y+placeHeight/2, p.y+placeHeight+8+placeHeight/2
	for i, s := range stages {
		at := box{X: p.x + i*(width+placeSpacing), Y: p.y, W: width, H: placeHeight}
		if s.isSameBothWays() {
			at.H = high
			p.drawPlace(at, s.joined())
		} else {
			below := at
			below.Y += placeHeight + 8
			p.drawPlaceOrWire(at, s.forward, request, i)
			p.drawPlaceOrWire(below, s.reply, reply, i)
		}
		if i+1 < len(stages) {
			p.drawWayArrow(at.Right(), request, i, s.forward, stages[i+1].forward)
			p.drawWayArrow(at.Right(), reply, i, s.reply, stages[i+1].reply)
		}
	}
	p.y += high + gap + 4
	p.CloseGroup()
}

// drawPlaceOrWire draws a place, or a line past a place that only the other direction has.
func (p *picture) drawPlaceOrWire(at box, s *trace.Place, w way, stage int) {
	switch {
	case s != nil:
		p.drawPlace(at, *s)
	case w.first < stage && stage < w.last:
		p.DrawPath(w.class, fmt.Sprintf("M%d %dH%d", at.X-placeSpacing+3, at.MiddleY(), at.Right()+placeSpacing-3))
	}
}

// drawWayArrow draws a direction's line between two stages, with a head if it ends at a place.
func (p *picture) drawWayArrow(x int, w way, stage int, left, right *trace.Place) {
	const width = placeSpacing
	if stage < w.first || stage >= w.last {
		return
	}
	head := ""
	switch {
	case w.rightward && right != nil:
		head = "m-5 -4l5 4l-5 4"
	case !w.rightward && left != nil:
		head = "m5 -4l-5 4l5 4"
	}
	if w.rightward {
		p.DrawPath(w.class, fmt.Sprintf("M%d %dh%d%s", x+3, w.y, width-6, head))
	} else {
		p.DrawPath(w.class, fmt.Sprintf("M%d %dh-%d%s", x+width-3, w.y, width-6, head))
	}
}

func (p *picture) drawPlace(at box, s trace.Place) {
	class := "card"
	if s.Problem {
		class = "ill"
	}
	p.OpenGroup("", formatRef(s.Ref), "")
	p.DrawRect(at, 6, class)
	x, y := at.X+10, at.MiddleY()
	lines := drawing.WrapText(s.Action, at.W-20, (at.H-20)/13, font{Size: 10})
	y -= len(lines) * 13 / 2
	if s.Problem {
		p.DrawWarning(at.Right()-13, at.Y+12, "wrong")
		p.DrawText(x, y+4, at.W-42, font{Bold: true, Size: 11}, s.Label)
	} else {
		p.DrawText(x, y+4, at.W-20, font{Bold: true, Size: 11}, s.Label)
	}
	for i, l := range lines {
		p.DrawText(x, y+18+i*13, at.W-20, font{Size: 10, Muted: true}, l)
	}
	p.CloseGroup()
}

// formatRef returns a reference as text; empty: there is no object.
func formatRef(r state.Ref) string {
	if r.Kind == "" {
		return ""
	}
	return r.String()
}
