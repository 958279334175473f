package topology

import (
	"fmt"
	"slices"

	"github.com/sallyport/sallyport/internal/topology/drawing"
)

// Sizes of the way of packets.
const (
	stepHigh = 48
	mostWays = 24
	apart    = 30
)

// ways draws the way of packets there and back, each as a circuit: the outside is on the left, pods are on the right.
func (p *picture) ways(v *Vpc) {
	if len(v.Paths) == 0 {
		return
	}
	p.y += gap
	p.Text(p.x, p.y+14, p.w, font{Size: 14, Bold: true}, "The way of packets, there and back")
	p.y += 30
	for _, path := range v.Paths[:min(mostWays, len(v.Paths))] {
		p.way(path)
	}
	if more := len(v.Paths) - mostWays; more > 0 {
		p.Text(p.x, p.y+12, p.w, font{Soft: true}, fmt.Sprintf("and %s more", number(more)))
		p.y += lineHigh
	}
}

// stage is a place that packets pass on their way there, on their way back, or on both.
type stage struct{ there, back *Step }

// stages are the places of a path from the outside to the inside. Those of both ways stand together where they are of one kind.
func (path Path) stages() []stage {
	there, back := pointers(path.There), pointers(path.Back)
	if path.Inbound {
		slices.Reverse(back)
	} else {
		slices.Reverse(there)
	}
	var all []stage
	for len(there) > 0 || len(back) > 0 {
		switch {
		case len(there) > 0 && len(back) > 0 && (alike(*there[0], *back[0]) || len(there) == len(back)):
			all = append(all, stage{there[0], back[0]})
			there, back = there[1:], back[1:]
		case len(there) > len(back):
			all = append(all, stage{there: there[0]})
			there = there[1:]
		default:
			all = append(all, stage{back: back[0]})
			back = back[1:]
		}
	}
	return all
}

func pointers(steps []Step) (all []*Step) {
	for i := range steps {
		all = append(all, &steps[i])
	}
	return all
}

// alike says whether two steps are at the same place: a router has the addresses.
func alike(a, b Step) bool {
	router := func(s Step) string {
		if s.Kind == AtAddress {
			return AtRouter
		}
		return s.Kind
	}
	return router(a) == router(b)
}

// same says whether there is nothing more to say of the way back than of the way there.
func (s stage) same() bool {
	if s.there == nil || s.back == nil {
		return false
	}
	return s.there.Label == s.back.Label && (s.back.Action == "" || s.there.Action == s.back.Action) && s.there.Problem == s.back.Problem
}

func (p *picture) way(path Path) {
	colour := p.colourOf(path.Network)
	p.Open("", path.About.String(), "")
	p.Circle(p.x+5, p.y+8, 5, drawing.Network("f", colour))
	p.Text(p.x+18, p.y+12, p.w-18, font{Bold: true}, path.Title)
	p.y += 20
	stages := path.stages()
	width := min(250, (p.w+apart)/max(len(stages), 5)-apart)
	high := stepHigh
	if len(path.Back) > 0 {
		high = 2*stepHigh + 8
	}
	for i, s := range stages {
		at := box{X: p.x + i*(width+apart), Y: p.y, W: width, H: stepHigh}
		below := at
		below.Y += stepHigh + 8
		switch {
		case s.same():
			at.H = high
			p.step(at, *s.there)
		default:
			p.stepOr(at, s.there, path.There, colour)
			p.stepOr(below, s.back, path.Back, colour)
		}
		if i+1 < len(stages) {
			p.between(at.Right(), stages[i], stages[i+1], path)
		}
	}
	p.y += high + gap + 4
	p.Close()
}

// stepOr draws a step, or the line that goes past a place that only the other way has.
func (p *picture) stepOr(at box, s *Step, way []Step, colour int) {
	switch {
	case s != nil:
		p.step(at, *s)
	case len(way) > 0:
		p.Path("wire "+drawing.Network("n", colour), fmt.Sprintf("M%d %dH%d", at.X-apart+3, at.Middle(), at.Right()+apart-3))
	}
}

// between draws the arrows from one place to the next: the way there above, the way back below.
func (p *picture) between(x int, left, right stage, path Path) {
	const width = apart
	class := "wire " + drawing.Network("n", p.colourOf(path.Network))
	y, low := p.y+stepHigh/2, p.y+stepHigh+8+stepHigh/2
	to, from := "m-5 -4l5 4l-5 4", "m5 -4l-5 4l5 4"
	head := func(arrow string, s *Step) string {
		if s == nil {
			return "" // it goes past
		}
		return arrow
	}
	rightward, leftward := right.there, left.back
	if !path.Inbound {
		rightward, leftward = right.back, left.there
		y, low = low, y
	}
	there, back := class, class+" back"
	if !path.Inbound {
		there, back = back, there
	}
	if path.Inbound || len(path.Back) > 0 {
		p.Path(there, fmt.Sprintf("M%d %dh%d%s", x+3, y, width-6, head(to, rightward)))
	}
	if !path.Inbound || len(path.Back) > 0 {
		p.Path(back, fmt.Sprintf("M%d %dh-%d%s", x+width-3, low, width-6, head(from, leftward)))
	}
}

func (p *picture) step(at box, s Step) {
	class := "card"
	if s.Problem {
		class = "ill"
	}
	p.Open("", refText(s), "")
	p.Rect(at, 6, class)
	x, y := at.X+10, at.Middle()
	lines := drawing.Wrap(s.Action, at.W-20, (at.H-20)/13, font{Size: 10})
	y -= len(lines) * 13 / 2
	if s.Problem {
		p.Warn(at.Right()-13, at.Y+12, "wrong")
		p.Text(x, y+4, at.W-42, font{Bold: true, Size: 11}, s.Label)
	} else {
		p.Text(x, y+4, at.W-20, font{Bold: true, Size: 11}, s.Label)
	}
	for i, l := range lines {
		p.Text(x, y+18+i*13, at.W-20, font{Size: 10, Soft: true}, l)
	}
	p.Close()
}

func refText(s Step) string {
	if s.Ref.Kind == "" {
		return ""
	}
	return s.Ref.String()
}
