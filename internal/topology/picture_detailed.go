package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/topology/drawing"
)

// chipWide is a node on the way between a network and a router.
const chipWide = 92

// detailed draws every address of a few projects. Networks are rails that go down beside the projects; each router has a line to every rail
// that it is on. The default network is the nearest rail, so that the lines that there are most of cross none.
func (p *picture) detailed() {
	rails := p.onRails()
	left := p.x + cardWide + 26
	x := left + len(rails)*railApart + chipWide + 26
	right := box{X: x, Y: p.y, W: p.x + p.w - x}
	bottom := max(p.platform(right), p.y+len(rails)*(networkHigh+gap)-networkHigh/2)
	ways := map[string][]int{} // network → where lines leave its rail
	var plots []plot
	at := bottom + 6
	for i := range p.g.Vpcs {
		l := p.plot(&p.g.Vpcs[i], box{X: right.X, Y: at, W: right.W})
		for _, line := range l.lines {
			if line.head && line.group.port.Name != "" {
				ways[line.group.network] = append(ways[line.group.network], line.y+lineHigh/2)
			}
		}
		plots = append(plots, l)
		at = l.Bottom() + gap
	}
	p.rails(rails, left, ways)
	for _, l := range plots {
		for _, n := range l.lines {
			if n.head && n.group.port.Name != "" {
				p.stub(n, rails, left, ways)
			}
		}
		p.plotted(l)
	}
	p.y = max(at, p.y+len(p.g.Networks)*(networkHigh+gap))
}

// onRails are the networks that a router is on, the one with the most routers first: what is near crosses least.
func (p *picture) onRails() (all []Network) {
	routers := map[string]int{}
	for _, n := range p.g.Networks {
		for _, v := range p.g.Vpcs {
			routers[n.Name] += rank(v.port(n.Name).Name != "")
		}
		if routers[n.Name] > 0 {
			all = append(all, n)
		}
	}
	slices.SortStableFunc(all, func(a, b Network) int { return routers[b.Name] - routers[a.Name] })
	return all
}

// railX is where a rail goes down: the first is the nearest to the projects.
func railX(rails []Network, left int, network string) int {
	at := slices.IndexFunc(rails, func(n Network) bool { return n.Name == network })
	return left + (len(rails)-1-at)*railApart
}

// rails draws the networks, and the rail of each down to the last line that leaves it. Cards are in the order of the rails from right to
// left, so a card's line to its rail crosses no other.
func (p *picture) rails(rails []Network, left int, ways map[string][]int) {
	y := p.y
	others := slices.DeleteFunc(slices.Clone(p.g.Networks), func(n Network) bool {
		return slices.ContainsFunc(rails, func(r Network) bool { return r.Name == n.Name })
	})
	for _, n := range append(slices.Clone(rails), others...) {
		card := box{X: p.x, Y: y, W: cardWide, H: networkHigh}
		if lines := ways[n.Name]; len(lines) > 0 {
			x := railX(rails, left, n.Name)
			p.Path("rail "+drawing.Network("n", n.Colour), fmt.Sprintf("M%d %dH%dQ%d %d %d %dV%d",
				card.Right(), card.Middle(), x-8, x, card.Middle(), x, card.Middle()+8, slices.Max(lines)))
		}
		p.networkCard(card, n)
		y += networkHigh + gap
	}
}

// plot is where a VPC's box and lines are.
type plot struct {
	box
	vpc   *Vpc
	lines []line
}

// line is a line of a VPC's box: the head of a group, or a row of it.
type line struct {
	y     int
	head  bool
	group group
	row   row
}

func (p *picture) plot(v *Vpc, at box) plot {
	l := plot{box: at, vpc: v}
	y := at.Y + 34
	for _, g := range p.g.groups(v) {
		l.lines = append(l.lines, line{y: y, head: true, group: g})
		y += lineHigh
		for _, r := range g.rows {
			l.lines = append(l.lines, line{y: y, group: g, row: r})
			y += lineHigh
		}
		y += 4
	}
	l.H = y + 6 - at.Y
	return l
}

// plotted draws a VPC.
func (p *picture) plotted(l plot) {
	v := l.vpc
	p.Open("", v.ref().String(), "")
	p.Rect(l.box, 8, cardClass(v.Problems))
	x := l.X + 14
	if severe(v.Problems) {
		p.Warn(x+5, l.Y+17, signOf(v.Problems))
		x += 20
	}
	about := v.about()
	room := drawing.Width(about, font{Size: 11})
	p.Text(x, l.Y+22, l.Right()-14-room-12-x, font{Size: 14, Bold: true}, v.Name)
	p.Text(l.Right()-14, l.Y+22, room, font{Size: 11, Soft: true, Right: true}, about)
	for _, n := range l.lines {
		if n.head {
			p.head(l, n)
		} else {
			p.row(l, n)
		}
	}
	p.Close()
}

// about is a VPC in a few words.
func (v *Vpc) about() string {
	parts := []string{}
	if v.Management {
		parts = append(parts, "the cluster's own VPC")
	}
	for _, s := range v.Subnets {
		parts = append(parts, join(s.Prefixes))
	}
	return strings.Join(append(parts, many(v.Pods, "pod")), " · ")
}

// stub draws the line from a rail by the node that holds the port to a router. Rails that it crosses give way.
func (p *picture) stub(n line, rails []Network, left int, ways map[string][]int) {
	to := left + len(rails)*railApart + chipWide + 26
	y, from := n.y+lineHigh/2, railX(rails, left, n.group.network)
	colour := p.colour[n.group.network]
	for _, other := range rails {
		if x := railX(rails, left, other.Name); x > from && slices.Max(ways[other.Name]) > y {
			p.Path("halo", fmt.Sprintf("M%d %dv10", x, y-5))
		}
	}
	p.Path("wire "+drawing.Network("n", colour), fmt.Sprintf("M%d %dH%d", from, y, to))
	p.Circle(from, y, 4, drawing.Network("f", colour))
	p.chip(box{X: to - chipWide - 10, Y: y - 9, W: chipWide, H: 18}, n.group.port.Node, colour)
}

// chip draws a node on a line.
func (p *picture) chip(at box, node string, colour int) {
	class := "inner"
	i := slices.IndexFunc(p.g.Nodes, func(n Node) bool { return n.Name == node })
	if node == "" || i >= 0 && severe(p.g.Nodes[i].Problems) {
		class = "ill"
	}
	if node == "" {
		node = "no node"
	}
	p.Open("", "Node "+node, "")
	p.Rect(at, 9, class)
	p.Circle(at.X+10, at.Middle(), 3, drawing.Network("f", colour))
	p.Text(at.X+18, at.Y+13, at.W-24, font{Size: 11}, node)
	p.Close()
}

// head draws the port of a router on a network.
func (p *picture) head(l plot, n line) {
	g, x := n.group, l.X+14
	if g.port.Name == "" {
		p.Text(x, n.y+15, l.W-28, font{Soft: true}, g.without())
		return
	}
	colour := p.colour[g.network]
	p.Circle(l.X, n.y+lineHigh/2, 5, drawing.Network("f", colour))
	if len(g.rows) > 0 {
		p.Path("wire "+drawing.Network("n", colour), fmt.Sprintf("M%d %dV%d", x+4, n.y+lineHigh-4, n.y+lineHigh*len(g.rows)+lineHigh/2))
	}
	room := drawing.Width(g.network, font{Bold: true})
	p.Text(x, n.y+15, room, font{Bold: true}, g.network)
	words := "router port " + join(g.port.Addresses)
	if g.network == l.vpc.Network {
		words += " · default"
	}
	if leg := l.vpc.leg(g.network); leg.Name != "" {
		words += " · replies by a leg of their own"
	}
	p.Text(x+room+10, n.y+15, l.Right()-14-x-room-10, font{Size: 11, Soft: true}, words)
}

// without says how addresses are reached of a network that the router is not on.
func (g group) without() string {
	switch {
	case g.network == "":
		return "no external network"
	case len(g.rows) > 0 && g.rows[0].sign == signNodes:
		return g.network + ": by nodes themselves"
	case len(g.rows) > 0 && g.rows[0].sign == signEgress:
		return g.network + ": by the router of egress addresses"
	}
	return g.network + ": not connected"
}

// Columns of rows, from the left edge of a VPC's box.
const (
	atSign    = 30
	atAddress = 80
	atName    = 196
	atPorts   = 376
	atTargets = 486
)

// row draws an address, and what it leads to.
func (p *picture) row(l plot, n line) {
	r, x, y := n.row, l.X, n.y+15
	colour := p.colourOf(r.network)
	if n.group.port.Name != "" {
		p.Path("wire "+drawing.Network("n", colour), fmt.Sprintf("M%d %dh9", x+18, n.y+lineHigh/2))
	}
	title := ""
	if len(r.problems) > 0 {
		title = tell(r.ref, r.problems)
	}
	p.Open("", r.ref.String(), title)
	p.tag(box{X: x + atSign, Y: n.y + 3, W: 42, H: 16}, r.sign, colour)
	named := atName
	if r.address == "" {
		named = atAddress
	} else {
		p.Text(x+atAddress, y, atName-atAddress-6, font{Mono: true}, r.address)
	}
	end := atPorts
	if r.ports == "" {
		end = atTargets - 20
	}
	if severe(r.problems) {
		p.Warn(x+named+5, n.y+11, signOf(r.problems))
		named += 18
	}
	p.Text(x+named, y, end-named-6, font{}, r.name)
	p.Text(x+atPorts, y, atTargets-atPorts-26, font{Size: 11, Soft: true}, r.ports)
	p.arrow(x+atTargets-20, n.y+lineHigh/2, colour)
	p.ends(box{X: x + atTargets, Y: n.y, W: l.Right() - 14 - x - atTargets, H: lineHigh}, r)
	p.Close()
}

func (p *picture) colourOf(network string) int {
	if c, ok := p.colour[network]; ok {
		return c
	}
	return -1
}

func (p *picture) arrow(x, y, colour int) {
	p.Path("wire "+drawing.Network("n", colour), fmt.Sprintf("M%d %dh12m-4 -4l4 4l-4 4", x, y))
}

// ends draws where connections of a row end, as far as there is room.
func (p *picture) ends(at box, r row) {
	if len(r.targets) == 0 {
		p.Text(at.X, at.Y+15, at.W, font{Size: 11, Soft: true}, r.to)
		return
	}
	x := at.X
	small := font{Size: 11}
	for i, t := range r.targets {
		words := t.Name
		if words == "" || len(r.targets) == 1 {
			words = t.String()
		}
		width := drawing.Width(words, small) + 14
		rest := fmt.Sprintf("and %d more", len(r.targets)-i)
		if x+width+drawing.Width(rest, small)+8 > at.Right() && i > 0 {
			p.Text(x, at.Y+15, at.Right()-x, font{Size: 11, Soft: true}, rest)
			return
		}
		class := "inner"
		if !t.Ready {
			class = "ill"
		}
		width = min(width, at.Right()-x)
		p.Rect(box{X: x, Y: at.Y + 3, W: width, H: 16}, 4, class)
		p.Text(x+7, at.Y+15, width-12, small, words)
		x += width + 6
	}
}
