package topology

import (
	"fmt"
	"slices"

	"github.com/sallyport/sallyport/internal/topology/drawing"
)

// Sizes of what stands for a project.
const (
	tileHigh = 60
	dot      = 13
	dotApart = 16
)

// folded draws each project as a tile, grouped by the network that it leaves by: beside each network what is on it, so no line crosses
// another. Where it is dense, tiles are for the worst and the largest, and each of the others is a dot.
func (p *picture) folded(dense bool) {
	x := p.x + cardWide + 40
	p.y = p.platform(box{X: p.x, Y: p.y, W: p.w}) + gap
	for _, n := range p.g.Networks {
		mine := p.g.leaving(n.Name)
		card := box{X: p.x, Y: p.y, W: cardWide, H: networkHigh}
		right := box{X: x, Y: p.y, W: p.x + p.w - x}
		bottom := card.Bottom()
		if len(mine) > 0 {
			bottom = max(bottom, p.band(right, n, mine, dense))
			p.Path("rail "+drawing.Network("n", n.Colour), fmt.Sprintf("M%d %dH%d", card.Right(), card.Middle(), x-14))
			p.Path("rail "+drawing.Network("n", n.Colour), fmt.Sprintf("M%d %dV%d", x-14, p.y+4, bottom-6))
		}
		p.networkCard(card, n)
		p.y = bottom + gap + 6
	}
	if rest := p.g.leaving(""); len(rest) > 0 {
		p.Text(p.x, p.y+16, cardWide, font{Size: 14, Bold: true}, "no external network")
		p.y = p.tiles(box{X: x, Y: p.y, W: p.x + p.w - x}, rest) + gap
	}
}

// band draws the projects of a network, and says where it ends.
func (p *picture) band(at box, n Network, all []*Vpc, dense bool) int {
	p.Text(at.X, at.Y+14, 300, font{Size: 13, Bold: true}, many(len(all), "VPC")+" by "+n.Name)
	p.holders(box{X: at.X + 310, Y: at.Y, W: at.W - 310, H: lineHigh}, n)
	at.Y += 24
	if !dense {
		return p.tiles(at, all)
	}
	const most = 12
	shown := all[:min(most, len(all))]
	y, rest := p.tiles(at, shown), all[len(shown):]
	if len(rest) == 0 {
		return y
	}
	return p.dots(box{X: at.X, Y: y, W: at.W}, n, rest)
}

// holders draws how many routers of a network each node holds.
func (p *picture) holders(at box, n Network) {
	x := at.X
	for _, node := range p.g.Nodes {
		for _, h := range node.held([]Network{n}) {
			words := fmt.Sprintf("%s × %s", node.Name, number(h.count))
			width := drawing.Width(words, font{Size: 11}) + 26
			if x+width > at.Right() {
				return
			}
			chip := box{X: x, Y: at.Y, W: width, H: 18}
			p.Open("", node.Ref.String(), "")
			p.Rect(chip, 9, cardClass(node.Problems))
			p.Circle(chip.X+10, chip.Middle(), 3, drawing.Network("f", n.Colour))
			p.Text(chip.X+18, chip.Y+13, width-22, font{Size: 11}, words)
			p.Close()
			x += width + 8
		}
	}
}

// tiles draws VPCs as tiles, and says where they end.
func (p *picture) tiles(at box, all []*Vpc) int {
	const columns = 4
	width := (at.W - (columns-1)*10) / columns
	for i, v := range all {
		p.tile(box{X: at.X + i%columns*(width+10), Y: at.Y + i/columns*(tileHigh+10), W: width, H: tileHigh}, v)
	}
	return at.Y + (len(all)+columns-1)/columns*(tileHigh+10)
}

func (p *picture) tile(at box, v *Vpc) {
	wrong := v.Wrong()
	var problems []Problem
	title := ""
	for _, t := range wrong {
		problems = append(problems, t.Problem)
		title += t.Ref.String() + ": " + t.Message + "\n"
	}
	p.Open("", v.ref().String(), title)
	p.Rect(at, 6, cardClass(problems))
	p.Rect(box{X: at.X, Y: at.Y, W: 4, H: at.H}, 2, drawing.Network("f", p.colourOf(v.Network)))
	x, right := at.X+14, at.Right()-10
	if len(wrong) > 0 {
		words := number(len(wrong))
		room := drawing.Width(words, font{Bold: true})
		p.Text(right, at.Y+20, room, font{Bold: true, Right: true, Class: signOf(problems)}, words)
		p.Warn(right-room-12, at.Y+15, signOf(problems))
		right -= room + 26
	}
	p.Text(x, at.Y+20, right-x, font{Size: 13, Bold: true}, v.Name)
	p.Text(x, at.Y+36, 110, font{Size: 11, Mono: true}, text(v.Address))
	right = at.Right() - 10
	for _, n := range slices.Backward(v.Networks) {
		if n != v.Network {
			p.Circle(right-4, at.Y+32, 4, drawing.Network("f", p.colourOf(n)))
			right -= 13
		}
	}
	p.Text(x, at.Y+51, at.W-24, font{Size: 11, Soft: true}, v.tally())
	p.Close()
}

// tally is what a VPC has, in numbers.
func (v *Vpc) tally() string {
	pods := "pods"
	if v.Pods == 1 {
		pods = "pod"
	}
	words := ""
	for _, t := range []struct {
		n     int
		thing string
	}{
		{len(v.Services), "LB"}, {len(v.FIps), "FIp"}, {len(v.EIps), "EIp"}, {len(v.Routes) + len(v.Behind) + len(v.Egress), "out"}, {v.Pods, pods},
	} {
		if t.n > 0 {
			words += fmt.Sprintf("%d %s · ", t.n, t.thing)
		}
	}
	if words == "" {
		return "empty"
	}
	return words[:len(words)-len(" · ")]
}

// dots draws each VPC as a dot, the fuller the more addresses it has, and says where they end.
func (p *picture) dots(at box, n Network, all []*Vpc) int {
	addresses, pods := 0, 0
	for _, v := range all {
		addresses, pods = addresses+len(v.EIps), pods+v.Pods
	}
	p.Text(at.X, at.Y+16, at.W, font{Soft: true}, fmt.Sprintf("and %s more like these, with %s and %s",
		number(len(all)), many(addresses, "external address"), many(pods, "pod")))
	y, columns := at.Y+28, at.W/dotApart
	for i, v := range all {
		cell := box{X: at.X + i%columns*dotApart, Y: y + i/columns*dotApart, W: dot, H: dot}
		p.Open("", v.ref().String(), v.Name+": "+v.tally())
		if wrong := v.Wrong(); len(wrong) > 0 {
			p.Warn(cell.X+dot/2, cell.Y+dot/2, signOf([]Problem{wrong[0].Problem}))
		} else {
			p.Rect(cell, 3, drawing.Network("f", n.Colour)+fmt.Sprintf(" o%d", min(len(v.EIps), 4)))
		}
		p.Close()
	}
	return y + (len(all)+columns-1)/columns*dotApart
}
