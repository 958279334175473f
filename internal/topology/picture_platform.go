package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/topology/drawing"
)

// platform draws nodes, egress addresses and Gateways beside the networks, and says where it ends.
func (p *picture) platform(at box) int {
	y := p.nodes(at)
	y = p.list(box{X: at.X, Y: y, W: at.W}, "Egress addresses", p.egressLines())
	return p.list(box{X: at.X, Y: y, W: at.W}, "Gateways of the Gateway API", p.gatewayLines())
}

// Sizes of a node's tile.
const (
	nodeWide = 164
	nodeHigh = 48
	mostOf   = 12 // nodes that are drawn; of more, those that matter
)

// nodes draws nodes: those that something is wrong with and those that hold something come first.
func (p *picture) nodes(at box) int {
	all := slices.Clone(p.g.Nodes)
	slices.SortStableFunc(all, func(a, b Node) int {
		return rank(severe(b.Problems)) - rank(severe(a.Problems)) + 2*(rank(len(b.Holds) > 0)-rank(len(a.Holds) > 0))
	})
	more := 0
	if len(all) > mostOf {
		more, all = len(all)-mostOf+1, all[:mostOf-1]
	}
	if len(all) == 0 {
		return at.Y
	}
	p.Text(at.X, at.Y+12, at.W, font{Size: 13, Bold: true}, "Nodes")
	columns := (at.W + 10) / (nodeWide + 10)
	y := at.Y + 22
	for i, n := range all {
		p.node(box{X: at.X + i%columns*(nodeWide+10), Y: y + i/columns*(nodeHigh+10), W: nodeWide, H: nodeHigh}, n)
	}
	i := len(all)
	if more > 0 {
		cell := box{X: at.X + i%columns*(nodeWide+10), Y: y + i/columns*(nodeHigh+10)}
		p.Text(cell.X+6, cell.Y+28, nodeWide-6, font{Soft: true}, fmt.Sprintf("and %s more", number(more)))
		i++
	}
	return y + (i+columns-1)/columns*(nodeHigh+10) + 4
}

// node draws a node, with how many addresses it holds of each network.
func (p *picture) node(at box, n Node) {
	title := ""
	if len(n.Problems) > 0 {
		title = tell(n.Ref, n.Problems)
	}
	p.Open("", n.Ref.String(), title)
	p.Rect(at, 6, cardClass(n.Problems))
	x := at.X + 10
	if severe(n.Problems) {
		p.Warn(x+6, at.Y+15, signOf(n.Problems))
		x += 18
	}
	role := n.role()
	room := drawing.Width(role, font{Size: 10})
	p.Text(x, at.Y+19, at.Right()-10-room-6-x, font{Bold: true}, n.Name)
	p.Text(at.Right()-10, at.Y+19, room, font{Size: 10, Soft: true, Right: true}, role)
	x = at.X + 10
	if len(n.Holds) == 0 {
		p.Text(x, at.Y+37, at.W-20, font{Size: 11, Soft: true}, join(n.Addresses))
	}
	for _, h := range n.held(p.g.Networks) {
		words := number(h.count)
		p.Circle(x+4, at.Y+33, 4, drawing.Network("f", p.colourOf(h.network)))
		p.Text(x+12, at.Y+37, 30, font{Size: 11}, words)
		x += 20 + drawing.Width(words, font{Size: 11})
	}
	p.Close()
}

func (n *Node) role() string {
	var words []string
	for _, w := range []struct {
		is   bool
		word string
	}{{!n.Ready, "not ready"}, {n.Gateway, "gateway"}, {n.Egress && !n.Gateway, "egress"}, {n.Cordoned, "cordoned"}} {
		if w.is {
			words = append(words, w.word)
		}
	}
	return strings.Join(words, " · ")
}

// held is how many addresses of a network a node holds.
type held struct {
	network string
	count   int
}

func (n *Node) held(networks []Network) (all []held) {
	for _, w := range networks {
		h := held{network: w.Name}
		for _, x := range n.Holds {
			h.count += rank(x.Network == w.Name)
		}
		if h.count > 0 {
			all = append(all, h)
		}
	}
	return all
}

// item is a line of a list: a sign, an object, and where it leads.
type item struct {
	ref      string
	sign     string
	name     string
	words    []string // each with the colour of its network
	colours  []int
	problems []Problem
}

func (p *picture) egressLines() (all []item) {
	for _, e := range p.g.Egress {
		i := item{ref: e.Ref.String(), sign: signEgress, name: e.Ref.Name, problems: e.Problems}
		for _, a := range e.Addresses {
			node := "nobody"
			if a.Node != "" {
				node = a.Node
			}
			i.words, i.colours = append(i.words, a.Address.String()+" on "+node), append(i.colours, p.colourOf(a.Network))
		}
		all = append(all, i)
	}
	return all
}

func (p *picture) gatewayLines() (all []item) {
	for _, w := range p.g.Gateways {
		routes := 0
		for _, r := range p.g.Routes {
			routes += rank(slices.Contains(r.Gateways, w.Ref))
		}
		i := item{ref: w.Ref.String(), sign: "GW", name: w.Ref.Namespace + "/" + w.Ref.Name, problems: w.Problems}
		i.words = []string{strings.Join(w.Addresses, ", "), strings.Join(w.Listeners, ", "), many(routes, "route")}
		i.colours = []int{-1, -1, -1}
		all = append(all, i)
	}
	return all
}

// list draws lines under a title, at most a few, and says where it ends.
func (p *picture) list(at box, title string, items []item) int {
	const most = 6 // an even number, for two columns
	if len(items) == 0 {
		return at.Y
	}
	slices.SortStableFunc(items, func(a, b item) int { return rank(severe(b.problems)) - rank(severe(a.problems)) })
	p.Text(at.X, at.Y+14, at.W, font{Size: 13, Bold: true}, title)
	y, shown := at.Y+22, items[:min(most, len(items))]
	columns := 1
	if at.W > wide*3/4 && len(shown) > 1 {
		columns = 2
	}
	width := at.W / columns
	for k, i := range shown {
		p.item(box{X: at.X + k%columns*width, Y: y + k/columns*lineHigh, W: width - 20, H: lineHigh}, i)
	}
	y += (len(shown) + columns - 1) / columns * lineHigh
	if more := len(items) - most; more > 0 {
		p.Text(at.X, y+15, at.W, font{Size: 11, Soft: true}, fmt.Sprintf("and %s more", number(more)))
		y += lineHigh
	}
	return y + 8
}

func (p *picture) item(at box, i item) {
	p.Open("", i.ref, "")
	p.tag(box{X: at.X, Y: at.Y + 3, W: 42, H: 16}, i.sign, -1)
	x := at.X + 50
	if severe(i.problems) {
		p.Warn(x+6, at.Y+11, signOf(i.problems))
		x += 18
	}
	p.Text(x, at.Y+15, at.X+236-x, font{}, i.name)
	x = at.X + 246
	for k, words := range i.words {
		if words == "" || x > at.Right()-60 {
			continue
		}
		p.Circle(x+4, at.Y+11, 3, drawing.Network("f", i.colours[k]))
		room := min(drawing.Width(words, font{Size: 11}), at.Right()-x-12)
		p.Text(x+12, at.Y+15, room, font{Size: 11, Soft: true}, words)
		x += room + 30
	}
	p.Close()
}
