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

// isSameBothWays reports whether the place of the reply adds nothing to that of the request.
func (s placePair) isSameBothWays() bool {
	if s.forward == nil || s.reply == nil {
		return false
	}
	return s.forward.Label == s.reply.Label && (s.reply.Action == "" || s.forward.Action == s.reply.Action) &&
		s.forward.Problem == s.reply.Problem
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
	for i, s := range stages {
		at := box{X: p.x + i*(width+placeSpacing), Y: p.y, W: width, H: placeHeight}
		below := at
		below.Y += placeHeight + 8
		switch {
		case s.isSameBothWays():
			at.H = high
			p.drawPlace(at, *s.forward)
		default:
			p.drawPlaceOrWire(at, s.forward, path.Request, colour)
			p.drawPlaceOrWire(below, s.reply, path.Reply, colour)
		}
		if i+1 < len(stages) {
			p.drawPlaceArrows(at.Right(), stages[i], stages[i+1], path)
		}
	}
	p.y += high + gap + 4
	p.CloseGroup()
}

// drawPlaceOrWire draws a place, or a line past a place that only the other direction has.
func (p *picture) drawPlaceOrWire(at box, s *trace.Place, way []trace.Place, colour int) {
	switch {
	case s != nil:
		p.drawPlace(at, *s)
	case len(way) > 0:
		p.DrawPath("wire "+drawing.NetworkClass("n", colour),
			fmt.Sprintf("M%d %dH%d", at.X-placeSpacing+3, at.MiddleY(), at.Right()+placeSpacing-3))
	}
}

// drawPlaceArrows draws the arrows between places: the request above, the reply below.
func (p *picture) drawPlaceArrows(x int, left, right placePair, path Connection) {
	const width = placeSpacing
	class := "wire " + drawing.NetworkClass("n", p.networkColour(path.Network))
	y, low := p.y+placeHeight/2, p.y+placeHeight+8+placeHeight/2
	to, from := "m-5 -4l5 4l-5 4", "m5 -4l-5 4l5 4"
	head := func(arrow string, s *trace.Place) string {
		if s == nil {
			return "" // the line goes past
		}
		return arrow
	}
	rightward, leftward := right.forward, left.reply
	if !path.Inbound {
		rightward, leftward = right.reply, left.forward
		y, low = low, y
	}
	there, back := class, class+" back"
	if !path.Inbound {
		there, back = back, there
	}
	if path.Inbound || len(path.Reply) > 0 {
		p.DrawPath(there, fmt.Sprintf("M%d %dh%d%s", x+3, y, width-6, head(to, rightward)))
	}
	if !path.Inbound || len(path.Reply) > 0 {
		p.DrawPath(back, fmt.Sprintf("M%d %dh-%d%s", x+width-3, low, width-6, head(from, leftward)))
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
