package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/insight/topology/drawing"
)

// chipWidth is the width of a node between a network and a router.
const chipWidth = 92

// drawDetailed draws every address of a few projects. Networks are vertical rails beside the projects. Each router has
// a line to the rail of each of its networks. The rail with the most routers, usually the default network, is the
// nearest, so that most lines cross no rail.
func (p *picture) drawDetailed() {
	rails := p.listRailNetworks()
	left := p.x + cardWidth + 26
	x := left + len(rails)*railSpacing + chipWidth + 26
	right := box{X: x, Y: p.y, W: p.x + p.w - x}
	bottom := max(p.drawPlatform(right), p.y+len(rails)*(networkHeight+gap)-networkHeight/2)
	ways := map[string][]int{} // network → y positions of the lines from its rail
	var plots []vpcLayout
	at := bottom + 6
	for i := range p.graph.Vpcs {
		l := p.layoutVPC(&p.graph.Vpcs[i], box{X: right.X, Y: at, W: right.W})
		for _, line := range l.lines {
			if line.isHeader && line.group.port.Name != "" {
				ways[line.group.network] = append(ways[line.group.network], line.y+rowHeight/2)
			}
		}
		plots = append(plots, l)
		at = l.Bottom() + gap
	}
	p.drawRails(rails, left, ways)
	for _, l := range plots {
		for _, n := range l.lines {
			if n.isHeader && n.group.port.Name != "" {
				p.drawRouterWire(n, rails, left, ways)
			}
		}
		p.drawVPC(l)
	}
	p.y = max(at, p.y+len(p.graph.Networks)*(networkHeight+gap))
}

// listRailNetworks returns the networks with routers, the one with the most routers first: the nearest rail has the
// fewest crossings.
func (p *picture) listRailNetworks() (all []Network) {
	routers := map[string]int{}
	for _, n := range p.graph.Networks {
		for _, v := range p.graph.Vpcs {
			routers[n.Name] += boolToInt(v.externalPort(n.Name).Name != "")
		}
		if routers[n.Name] > 0 {
			all = append(all, n)
		}
	}
	slices.SortStableFunc(all, func(a, b Network) int { return routers[b.Name] - routers[a.Name] })
	return all
}

// railPositionX returns the x position of a rail. The first rail is the nearest to the projects.
func railPositionX(rails []Network, left int, network string) int {
	at := slices.IndexFunc(rails, func(n Network) bool { return n.Name == network })
	return left + (len(rails)-1-at)*railSpacing
}

// drawRails draws the cards of networks, and the rail of each down to its last line. The order of cards follows the
// rails from right to left, so that the line from a card to its rail crosses no other.
func (p *picture) drawRails(rails []Network, left int, ways map[string][]int) {
	y := p.y
	others := slices.DeleteFunc(slices.Clone(p.graph.Networks), func(n Network) bool {
		return slices.ContainsFunc(rails, func(r Network) bool { return r.Name == n.Name })
	})
	for _, n := range append(slices.Clone(rails), others...) {
		card := box{X: p.x, Y: y, W: cardWidth, H: networkHeight}
		if lines := ways[n.Name]; len(lines) > 0 {
			x := railPositionX(rails, left, n.Name)
			p.DrawPath("rail "+drawing.NetworkClass("n", n.Colour), fmt.Sprintf("M%d %dH%dQ%d %d %d %dV%d",
				card.Right(), card.MiddleY(), x-8, x, card.MiddleY(), x, card.MiddleY()+8, slices.Max(lines)))
		}
		p.drawNetworkCard(card, n)
		y += networkHeight + gap
	}
}

// vpcLayout holds the positions of a VPC's box and lines.
type vpcLayout struct {
	box
	vpc   *Vpc
	lines []layoutLine
}

// layoutLine is a line of a VPC's box: the header of a group, or one of its rows.
type layoutLine struct {
	y        int
	isHeader bool
	group    networkGroup
	row      addressRow
}

func (p *picture) layoutVPC(v *Vpc, at box) vpcLayout {
	l := vpcLayout{box: at, vpc: v}
	y := at.Y + 34
	for _, g := range p.graph.groupByNetwork(v) {
		l.lines = append(l.lines, layoutLine{y: y, isHeader: true, group: g})
		y += rowHeight
		for _, r := range g.rows {
			l.lines = append(l.lines, layoutLine{y: y, group: g, row: r})
			y += rowHeight
		}
		y += 4
	}
	l.H = y + 6 - at.Y
	return l
}

func (p *picture) drawVPC(l vpcLayout) {
	v := l.vpc
	p.OpenGroup("", v.projectOrVPCRef().String(), "")
	p.DrawRect(l.box, 8, cardClass(v.Problems))
	x := l.X + 14
	if hasSevereProblem(v.Problems) {
		p.DrawWarning(x+5, l.Y+17, severityClass(v.Problems))
		x += 20
	}
	about := v.describeBriefly()
	room := drawing.TextWidth(about, font{Size: 11})
	p.DrawText(x, l.Y+22, l.Right()-14-room-12-x, font{Size: 14, Bold: true}, v.Name)
	p.DrawText(l.Right()-14, l.Y+22, room, font{Size: 11, Muted: true, AlignRight: true}, about)
	for _, n := range l.lines {
		if n.isHeader {
			p.drawGroupHeader(l, n)
		} else {
			p.drawAddressRow(l, n)
		}
	}
	p.CloseGroup()
}

// describeBriefly returns the prefixes and the number of pods of a VPC.
func (v *Vpc) describeBriefly() string {
	parts := []string{}
	if v.Management {
		parts = append(parts, "the cluster's own VPC")
	}
	for _, s := range v.Subnets {
		parts = append(parts, joinStrings(s.Prefixes))
	}
	return strings.Join(append(parts, pluralize(v.Pods, "pod")), " · ")
}

// drawRouterWire draws the line from a rail through the node that holds the port to a router. Rails that it crosses are
// interrupted.
func (p *picture) drawRouterWire(n layoutLine, rails []Network, left int, ways map[string][]int) {
	to := left + len(rails)*railSpacing + chipWidth + 26
	y, from := n.y+rowHeight/2, railPositionX(rails, left, n.group.network)
	colour := p.colourByNetwork[n.group.network]
	for _, other := range rails {
		if x := railPositionX(rails, left, other.Name); x > from && slices.Max(ways[other.Name]) > y {
			p.DrawPath("halo", fmt.Sprintf("M%d %dv10", x, y-5))
		}
	}
	p.DrawPath("wire "+drawing.NetworkClass("n", colour), fmt.Sprintf("M%d %dH%d", from, y, to))
	p.DrawCircle(from, y, 4, drawing.NetworkClass("f", colour))
	p.drawNodeChip(box{X: to - chipWidth - 10, Y: y - 9, W: chipWidth, H: 18}, n.group.port.Node, colour)
}

// drawNodeChip draws a node on a line.
func (p *picture) drawNodeChip(at box, node string, colour int) {
	class := "inner"
	i := slices.IndexFunc(p.graph.Nodes, func(n Node) bool { return n.Name == node })
	if node == "" || i >= 0 && hasSevereProblem(p.graph.Nodes[i].Problems) {
		class = "ill"
	}
	if node == "" {
		node = "no node"
	}
	p.OpenGroup("", "Node "+node, "")
	p.DrawRect(at, 9, class)
	p.DrawCircle(at.X+10, at.MiddleY(), 3, drawing.NetworkClass("f", colour))
	p.DrawText(at.X+18, at.Y+13, at.W-24, font{Size: 11}, node)
	p.CloseGroup()
}

// drawGroupHeader draws the port of a router on a network.
func (p *picture) drawGroupHeader(l vpcLayout, n layoutLine) {
	g, x := n.group, l.X+14
	if g.port.Name == "" {
		p.DrawText(x, n.y+15, l.W-28, font{Muted: true}, g.describeWithoutPort())
		return
	}
	colour := p.colourByNetwork[g.network]
	p.DrawCircle(l.X, n.y+rowHeight/2, 5, drawing.NetworkClass("f", colour))
	if len(g.rows) > 0 {
		p.DrawPath("wire "+drawing.NetworkClass("n", colour),
			fmt.Sprintf("M%d %dV%d", x+4, n.y+rowHeight-4, n.y+rowHeight*len(g.rows)+rowHeight/2))
	}
	room := drawing.TextWidth(g.network, font{Bold: true})
	p.DrawText(x, n.y+15, room, font{Bold: true}, g.network)
	words := "router port " + joinStrings(g.port.Addresses)
	if g.network == l.vpc.EgressNetwork {
		words += " · default"
	}
	if port := l.vpc.returnPort(g.network); port.Name != "" {
		words += " · replies by a return port"
	}
	p.DrawText(x+room+10, n.y+15, l.Right()-14-x-room-10, font{Size: 11, Muted: true}, words)
}

// describeWithoutPort describes how addresses of a network without a router port are reached.
func (g networkGroup) describeWithoutPort() string {
	switch {
	case g.network == "":
		return "no external network"
	case len(g.rows) > 0 && g.rows[0].tag == tagNodeAddress:
		return g.network + ": by nodes themselves"
	case len(g.rows) > 0 && g.rows[0].tag == tagEgressIP:
		return g.network + ": by the router of egress addresses"
	}
	return g.network + ": not connected"
}

// Columns of rows, from the left edge of a VPC's box.
const (
	rowTagX     = 30
	rowAddressX = 80
	rowNameX    = 196
	rowPortsX   = 376
	rowTargetsX = 486
)

// drawAddressRow draws an address and its targets.
func (p *picture) drawAddressRow(l vpcLayout, n layoutLine) {
	r, x, y := n.row, l.X, n.y+15
	colour := p.networkColour(r.network)
	if n.group.port.Name != "" {
		p.DrawPath("wire "+drawing.NetworkClass("n", colour), fmt.Sprintf("M%d %dh9", x+18, n.y+rowHeight/2))
	}
	title := ""
	if len(r.problems) > 0 {
		title = formatTooltip(r.ref, r.problems)
	}
	p.OpenGroup("", r.ref.String(), title)
	p.drawTag(box{X: x + rowTagX, Y: n.y + 3, W: 42, H: 16}, r.tag, colour)
	named := rowNameX
	if r.address == "" {
		named = rowAddressX
	} else {
		p.DrawText(x+rowAddressX, y, rowNameX-rowAddressX-6, font{Mono: true}, r.address)
	}
	end := rowPortsX
	if r.ports == "" {
		end = rowTargetsX - 20
	}
	if hasSevereProblem(r.problems) {
		p.DrawWarning(x+named+5, n.y+11, severityClass(r.problems))
		named += 18
	}
	p.DrawText(x+named, y, end-named-6, font{}, r.name)
	p.DrawText(x+rowPortsX, y, rowTargetsX-rowPortsX-26, font{Size: 11, Muted: true}, r.ports)
	p.drawArrow(x+rowTargetsX-20, n.y+rowHeight/2, colour)
	p.drawTargets(box{X: x + rowTargetsX, Y: n.y, W: l.Right() - 14 - x - rowTargetsX, H: rowHeight}, r)
	p.CloseGroup()
}

func (p *picture) networkColour(network string) int {
	if c, ok := p.colourByNetwork[network]; ok {
		return c
	}
	return -1
}

func (p *picture) drawArrow(x, y, colour int) {
	p.DrawPath("wire "+drawing.NetworkClass("n", colour), fmt.Sprintf("M%d %dh12m-4 -4l4 4l-4 4", x, y))
}

// drawTargets draws as many targets of a row as fit.
func (p *picture) drawTargets(at box, r addressRow) {
	if len(r.targets) == 0 {
		p.DrawText(at.X, at.Y+15, at.W, font{Size: 11, Muted: true}, r.targetText)
		return
	}
	x := at.X
	small := font{Size: 11}
	for i, t := range r.targets {
		words := t.Name
		if words == "" || len(r.targets) == 1 {
			words = t.String()
		}
		width := drawing.TextWidth(words, small) + 14
		rest := fmt.Sprintf("and %d more", len(r.targets)-i)
		if x+width+drawing.TextWidth(rest, small)+8 > at.Right() && i > 0 {
			p.DrawText(x, at.Y+15, at.Right()-x, font{Size: 11, Muted: true}, rest)
			return
		}
		class := "inner"
		if !t.Ready {
			class = "ill"
		}
		width = min(width, at.Right()-x)
		p.DrawRect(box{X: x, Y: at.Y + 3, W: width, H: 16}, 4, class)
		p.DrawText(x+7, at.Y+15, width-12, small, words)
		x += width + 6
	}
}
