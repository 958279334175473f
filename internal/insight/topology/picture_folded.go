package topology

import (
	"fmt"
	"slices"

	"github.com/sallyport/sallyport/internal/insight/topology/drawing"
)

// Sizes of tiles and dots.
const (
	tileHeight = 60
	dotSize    = 13
	dotSpacing = 16
)

// drawFolded draws each project as a tile beside its egress network, so that no line crosses another. If dense is set,
// only the first projects of each network, those with the most problems, are tiles, and each of the others is a dot.
func (p *picture) drawFolded(dense bool) {
	x := p.x + cardWidth + 40
	p.y = p.drawPlatform(box{X: p.x, Y: p.y, W: p.w}) + gap
	for _, n := range p.graph.Networks {
		mine := p.graph.vpcsByEgressNetwork(n.Name)
		card := box{X: p.x, Y: p.y, W: cardWidth, H: networkHeight}
		right := box{X: x, Y: p.y, W: p.x + p.w - x}
		bottom := card.Bottom()
		if len(mine) > 0 {
			bottom = max(bottom, p.drawNetworkBand(right, n, mine, dense))
			p.DrawPath("rail "+drawing.NetworkClass("n", n.Colour),
				fmt.Sprintf("M%d %dH%d", card.Right(), card.MiddleY(), x-14))
			p.DrawPath("rail "+drawing.NetworkClass("n", n.Colour), fmt.Sprintf("M%d %dV%d", x-14, p.y+4, bottom-6))
		}
		p.drawNetworkCard(card, n)
		p.y = bottom + gap + 6
	}
	if rest := p.graph.vpcsByEgressNetwork(""); len(rest) > 0 {
		p.DrawText(p.x, p.y+16, cardWidth, font{Size: 14, Bold: true}, "no external network")
		p.y = p.drawVPCTiles(box{X: x, Y: p.y, W: p.x + p.w - x}, rest) + gap
	}
}

// drawNetworkBand draws the projects of a network and returns the y position of its end.
func (p *picture) drawNetworkBand(at box, n Network, all []*Vpc, dense bool) int {
	p.DrawText(at.X, at.Y+14, 300, font{Size: 13, Bold: true}, pluralize(len(all), "VPC")+" by "+n.Name)
	p.drawGatewayNodes(box{X: at.X + 310, Y: at.Y, W: at.W - 310, H: rowHeight}, n)
	at.Y += 24
	if !dense {
		return p.drawVPCTiles(at, all)
	}
	const most = 12
	shown := all[:min(most, len(all))]
	y, rest := p.drawVPCTiles(at, shown), all[len(shown):]
	if len(rest) == 0 {
		return y
	}
	return p.drawVPCDots(box{X: at.X, Y: y, W: at.W}, n, rest)
}

// drawGatewayNodes draws the number of router ports on a network that each node holds.
func (p *picture) drawGatewayNodes(at box, n Network) {
	x := at.X
	for _, node := range p.graph.Nodes {
		for _, h := range node.countGatewayPorts([]Network{n}) {
			words := fmt.Sprintf("%s × %s", node.Name, formatNumber(h.count))
			width := drawing.TextWidth(words, font{Size: 11}) + 26
			if x+width > at.Right() {
				return
			}
			chip := box{X: x, Y: at.Y, W: width, H: 18}
			p.OpenGroup("", node.Ref.String(), "")
			p.DrawRect(chip, 9, cardClass(node.Problems))
			p.DrawCircle(chip.X+10, chip.MiddleY(), 3, drawing.NetworkClass("f", n.Colour))
			p.DrawText(chip.X+18, chip.Y+13, width-22, font{Size: 11}, words)
			p.CloseGroup()
			x += width + 8
		}
	}
}

// drawVPCTiles draws VPCs as tiles and returns the y position of their end.
func (p *picture) drawVPCTiles(at box, all []*Vpc) int {
	const columns = 4
	width := (at.W - (columns-1)*10) / columns
	for i, v := range all {
		p.drawVPCTile(box{X: at.X + i%columns*(width+10), Y: at.Y + i/columns*(tileHeight+10), W: width, H: tileHeight},
			v)
	}
	return at.Y + (len(all)+columns-1)/columns*(tileHeight+10)
}

func (p *picture) drawVPCTile(at box, v *Vpc) {
	wrong := v.SevereProblems()
	var problems []Problem
	title := ""
	for _, t := range wrong {
		problems = append(problems, t.Problem)
		title += t.Ref.String() + ": " + t.Message + "\n"
	}
	p.OpenGroup("", v.projectOrVPCRef().String(), title)
	p.DrawRect(at, 6, cardClass(problems))
	p.DrawRect(box{X: at.X, Y: at.Y, W: 4, H: at.H}, 2, drawing.NetworkClass("f", p.networkColour(v.EgressNetwork)))
	x, right := at.X+14, at.Right()-10
	if len(wrong) > 0 {
		words := formatNumber(len(wrong))
		room := drawing.TextWidth(words, font{Bold: true})
		p.DrawText(right, at.Y+20, room, font{Bold: true, AlignRight: true, Class: severityClass(problems)}, words)
		p.DrawWarning(right-room-12, at.Y+15, severityClass(problems))
		right -= room + 26
	}
	p.DrawText(x, at.Y+20, right-x, font{Size: 13, Bold: true}, v.Name)
	p.DrawText(x, at.Y+36, 110, font{Size: 11, Mono: true}, formatAddrOrDash(v.SNATAddress))
	right = at.Right() - 10
	for _, n := range slices.Backward(v.Networks) {
		if n != v.EgressNetwork {
			p.DrawCircle(right-4, at.Y+32, 4, drawing.NetworkClass("f", p.networkColour(n)))
			right -= 13
		}
	}
	p.DrawText(x, at.Y+51, at.W-24, font{Size: 11, Muted: true}, v.formatCounts())
	p.CloseGroup()
}

// formatCounts returns the numbers of objects of a VPC.
func (v *Vpc) formatCounts() string {
	pods := "pods"
	if v.Pods == 1 {
		pods = "pod"
	}
	words := ""
	for _, t := range []struct {
		n     int
		thing string
	}{
		{len(v.Services), "LB"},
		{len(v.FIps), "FIp"},
		{len(v.EIps), "EIp"},
		{len(v.EgressRoutes) + len(v.EgressServices) + len(v.EgressIPs), "out"},
		{v.Pods, pods},
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

// drawVPCDots draws each VPC as a dot, the fuller the more addresses it has, and returns the y position of their end.
func (p *picture) drawVPCDots(at box, n Network, all []*Vpc) int {
	addresses, pods := 0, 0
	for _, v := range all {
		addresses, pods = addresses+len(v.EIps), pods+v.Pods
	}
	p.DrawText(at.X, at.Y+16, at.W, font{Muted: true}, fmt.Sprintf("and %s more like these, with %s and %s",
		formatNumber(len(all)), pluralize(addresses, "external address"), pluralize(pods, "pod")))
	y, columns := at.Y+28, at.W/dotSpacing
	for i, v := range all {
		cell := box{X: at.X + i%columns*dotSpacing, Y: y + i/columns*dotSpacing, W: dotSize, H: dotSize}
		p.OpenGroup("", v.projectOrVPCRef().String(), v.Name+": "+v.formatCounts())
		if wrong := v.SevereProblems(); len(wrong) > 0 {
			p.DrawWarning(cell.X+dotSize/2, cell.Y+dotSize/2, severityClass([]Problem{wrong[0].Problem}))
		} else {
			p.DrawRect(cell, 3, drawing.NetworkClass("f", n.Colour)+fmt.Sprintf(" o%d", min(len(v.EIps), 4)))
		}
		p.CloseGroup()
	}
	return y + (len(all)+columns-1)/columns*dotSpacing
}
