package topology

import (
	"fmt"
	"slices"

	"github.com/sallyport/sallyport/internal/insight/topology/drawing"
)

// Sizes of packet paths.
const (
	stepHeight    = 48
	maxPathsDrawn = 24
	stepSpacing   = 30
)

// drawPacketPaths draws the paths of packets and replies, each as a circuit: the outside on the left, pods on the
// right.
func (p *picture) drawPacketPaths(v *Vpc) {
	if len(v.Paths) == 0 {
		return
	}
	p.y += gap
	p.DrawText(p.x, p.y+14, p.w, font{Size: 14, Bold: true}, "The way of packets, there and back")
	p.y += 30
	for _, path := range v.Paths[:min(maxPathsDrawn, len(v.Paths))] {
		p.drawPacketPath(path)
	}
	if more := len(v.Paths) - maxPathsDrawn; more > 0 {
		p.DrawText(p.x, p.y+12, p.w, font{Muted: true}, fmt.Sprintf("and %s more", formatNumber(more)))
		p.y += rowHeight
	}
}

// stepPair is a step of the request, of the reply, or of both.
type stepPair struct{ forward, reply *Step }

// pairSteps returns the steps of a path from outside to inside. Steps of request and reply of the same kind are paired.
func (path Path) pairSteps() []stepPair {
	there, back := stepPointers(path.Forward), stepPointers(path.Reply)
	if path.Inbound {
		slices.Reverse(back)
	} else {
		slices.Reverse(there)
	}
	var all []stepPair
	for len(there) > 0 || len(back) > 0 {
		switch {
		case len(there) > 0 && len(back) > 0 && (isSamePlace(*there[0], *back[0]) || len(there) == len(back)):
			all = append(all, stepPair{there[0], back[0]})
			there, back = there[1:], back[1:]
		case len(there) > len(back):
			all = append(all, stepPair{forward: there[0]})
			there = there[1:]
		default:
			all = append(all, stepPair{reply: back[0]})
			back = back[1:]
		}
	}
	return all
}

func stepPointers(steps []Step) (all []*Step) {
	for i := range steps {
		all = append(all, &steps[i])
	}
	return all
}

// isSamePlace reports whether two steps are at the same place. An address is at the place of its router.
func isSamePlace(a, b Step) bool {
	router := func(s Step) string {
		if s.Kind == StepAddress {
			return StepRouter
		}
		return s.Kind
	}
	return router(a) == router(b)
}

// isSameBothWays reports whether the step of the reply adds nothing to the step of the request.
func (s stepPair) isSameBothWays() bool {
	if s.forward == nil || s.reply == nil {
		return false
	}
	return s.forward.Label == s.reply.Label && (s.reply.Action == "" || s.forward.Action == s.reply.Action) &&
		s.forward.Problem == s.reply.Problem
}

func (p *picture) drawPacketPath(path Path) {
	colour := p.networkColour(path.Network)
	p.OpenGroup("", path.About.String(), "")
	p.DrawCircle(p.x+5, p.y+8, 5, drawing.NetworkClass("f", colour))
	p.DrawText(p.x+18, p.y+12, p.w-18, font{Bold: true}, path.Title)
	p.y += 20
	stages := path.pairSteps()
	width := min(250, (p.w+stepSpacing)/max(len(stages), 5)-stepSpacing)
	high := stepHeight
	if len(path.Reply) > 0 {
		high = 2*stepHeight + 8
	}
	for i, s := range stages {
		at := box{X: p.x + i*(width+stepSpacing), Y: p.y, W: width, H: stepHeight}
		below := at
		below.Y += stepHeight + 8
		switch {
		case s.isSameBothWays():
			at.H = high
			p.drawStep(at, *s.forward)
		default:
			p.drawStepOrWire(at, s.forward, path.Forward, colour)
			p.drawStepOrWire(below, s.reply, path.Reply, colour)
		}
		if i+1 < len(stages) {
			p.drawStepArrows(at.Right(), stages[i], stages[i+1], path)
		}
	}
	p.y += high + gap + 4
	p.CloseGroup()
}

// drawStepOrWire draws a step, or a line past a step that only the other direction has.
func (p *picture) drawStepOrWire(at box, s *Step, way []Step, colour int) {
	switch {
	case s != nil:
		p.drawStep(at, *s)
	case len(way) > 0:
		p.DrawPath("wire "+drawing.NetworkClass("n", colour),
			fmt.Sprintf("M%d %dH%d", at.X-stepSpacing+3, at.MiddleY(), at.Right()+stepSpacing-3))
	}
}

// drawStepArrows draws the arrows between steps: the request above, the reply below.
func (p *picture) drawStepArrows(x int, left, right stepPair, path Path) {
	const width = stepSpacing
	class := "wire " + drawing.NetworkClass("n", p.networkColour(path.Network))
	y, low := p.y+stepHeight/2, p.y+stepHeight+8+stepHeight/2
	to, from := "m-5 -4l5 4l-5 4", "m5 -4l-5 4l5 4"
	head := func(arrow string, s *Step) string {
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

func (p *picture) drawStep(at box, s Step) {
	class := "card"
	if s.Problem {
		class = "ill"
	}
	p.OpenGroup("", formatStepRef(s), "")
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

func formatStepRef(s Step) string {
	if s.Ref.Kind == "" {
		return ""
	}
	return s.Ref.String()
}
