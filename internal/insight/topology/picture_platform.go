package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/insight/topology/drawing"
)

// drawPlatform draws nodes, egress addresses and Gateways beside the networks, and returns the y position of its end.
func (p *picture) drawPlatform(at box) int {
	y := p.drawNodeTiles(at)
	y = p.drawItemList(box{X: at.X, Y: y, W: at.W}, "Egress addresses", p.listEgressItems())
	return p.drawItemList(box{X: at.X, Y: y, W: at.W}, "Gateways of the Gateway API", p.listGatewayItems())
}

// Sizes of a node's tile.
const (
	nodeTileWidth  = 164
	nodeTileHeight = 48
	maxListed      = 12 // maximum of nodes that are drawn
)

// drawNodeTiles draws nodes. Nodes with problems and nodes that hold router ports come first.
func (p *picture) drawNodeTiles(at box) int {
	all := slices.Clone(p.graph.Nodes)
	slices.SortStableFunc(all, func(a, b Node) int {
		return boolToInt(hasSevereProblem(b.Problems)) - boolToInt(hasSevereProblem(a.Problems)) +
			2*(boolToInt(len(b.GatewayPorts) > 0)-boolToInt(len(a.GatewayPorts) > 0))
	})
	more := 0
	if len(all) > maxListed {
		more, all = len(all)-maxListed+1, all[:maxListed-1]
	}
	if len(all) == 0 {
		return at.Y
	}
	p.DrawText(at.X, at.Y+12, at.W, font{Size: 13, Bold: true}, "Nodes")
	columns := (at.W + 10) / (nodeTileWidth + 10)
	y := at.Y + 22
	for i, n := range all {
		p.drawNodeTile(box{
			X: at.X + i%columns*(nodeTileWidth+10),
			Y: y + i/columns*(nodeTileHeight+10),
			W: nodeTileWidth,
			H: nodeTileHeight,
		}, n)
	}
	i := len(all)
	if more > 0 {
		cell := box{X: at.X + i%columns*(nodeTileWidth+10), Y: y + i/columns*(nodeTileHeight+10)}
		p.DrawText(cell.X+6, cell.Y+28, nodeTileWidth-6, font{Muted: true},
			fmt.Sprintf("and %s more", formatNumber(more)))
		i++
	}
	return y + (i+columns-1)/columns*(nodeTileHeight+10) + 4
}

// drawNodeTile draws a node with the number of addresses that it holds on each network.
func (p *picture) drawNodeTile(at box, n Node) {
	title := ""
	if len(n.Problems) > 0 {
		title = formatTooltip(n.Ref, n.Problems)
	}
	p.OpenGroup("", n.Ref.String(), title)
	p.DrawRect(at, 6, cardClass(n.Problems))
	x := at.X + 10
	if hasSevereProblem(n.Problems) {
		p.DrawWarning(x+6, at.Y+15, severityClass(n.Problems))
		x += 18
	}
	role := n.formatRole()
	room := drawing.TextWidth(role, font{Size: 10})
	p.DrawText(x, at.Y+19, at.Right()-10-room-6-x, font{Bold: true}, n.Name)
	p.DrawText(at.Right()-10, at.Y+19, room, font{Size: 10, Muted: true, AlignRight: true}, role)
	x = at.X + 10
	if len(n.GatewayPorts) == 0 {
		p.DrawText(x, at.Y+37, at.W-20, font{Size: 11, Muted: true}, joinStrings(n.Addresses))
	}
	for _, h := range n.countGatewayPorts(p.graph.Networks) {
		words := formatNumber(h.count)
		p.DrawCircle(x+4, at.Y+33, 4, drawing.NetworkClass("f", p.networkColour(h.network)))
		p.DrawText(x+12, at.Y+37, 30, font{Size: 11}, words)
		x += 20 + drawing.TextWidth(words, font{Size: 11})
	}
	p.CloseGroup()
}

func (n *Node) formatRole() string {
	var words []string
	for _, w := range []struct {
		is   bool
		word string
	}{
		{!n.Ready, "not ready"},
		{n.Gateway, "gateway"},
		{n.EgressAssignable && !n.Gateway, "egress"},
		{n.Cordoned, "cordoned"},
	} {
		if w.is {
			words = append(words, w.word)
		}
	}
	return strings.Join(words, " · ")
}

// gatewayPortCount is the number of addresses of a network that a node holds.
type gatewayPortCount struct {
	network string
	count   int
}

func (n *Node) countGatewayPorts(networks []Network) (all []gatewayPortCount) {
	for _, w := range networks {
		h := gatewayPortCount{network: w.Name}
		for _, x := range n.GatewayPorts {
			h.count += boolToInt(x.Network == w.Name)
		}
		if h.count > 0 {
			all = append(all, h)
		}
	}
	return all
}

// listItem is a line of a list: a tag, an object and texts.
type listItem struct {
	ref      string
	tag      string
	name     string
	texts    []string // each with the colour of its network
	colours  []int
	problems []Problem
}

func (p *picture) listEgressItems() (all []listItem) {
	for _, e := range p.graph.EgressIPs {
		i := listItem{ref: e.Ref.String(), tag: tagEgressIP, name: e.Ref.Name, problems: e.Problems}
		for _, a := range e.Addresses {
			node := "nobody"
			if a.Node != "" {
				node = a.Node
			}
			i.texts, i.colours = append(i.texts, a.Address.String()+" on "+node),
				append(i.colours, p.networkColour(a.Network))
		}
		all = append(all, i)
	}
	return all
}

func (p *picture) listGatewayItems() (all []listItem) {
	for _, w := range p.graph.Gateways {
		routes := 0
		for _, r := range p.graph.Routes {
			routes += boolToInt(slices.Contains(r.Gateways, w.Ref))
		}
		i := listItem{ref: w.Ref.String(), tag: "GW", name: w.Ref.Namespace + "/" + w.Ref.Name, problems: w.Problems}
		i.texts = []string{strings.Join(w.Addresses, ", "), strings.Join(w.Listeners, ", "), pluralize(routes, "route")}
		i.colours = []int{-1, -1, -1}
		all = append(all, i)
	}
	return all
}

// drawItemList draws the first items under a title and returns the y position of its end.
func (p *picture) drawItemList(at box, title string, items []listItem) int {
	const most = 6 // an even number, for two columns
	if len(items) == 0 {
		return at.Y
	}
	slices.SortStableFunc(items, func(a, b listItem) int {
		return boolToInt(hasSevereProblem(b.problems)) - boolToInt(hasSevereProblem(a.problems))
	})
	p.DrawText(at.X, at.Y+14, at.W, font{Size: 13, Bold: true}, title)
	y, shown := at.Y+22, items[:min(most, len(items))]
	columns := 1
	if at.W > pictureWidth*3/4 && len(shown) > 1 {
		columns = 2
	}
	width := at.W / columns
	for k, i := range shown {
		p.drawListItem(box{X: at.X + k%columns*width, Y: y + k/columns*rowHeight, W: width - 20, H: rowHeight}, i)
	}
	y += (len(shown) + columns - 1) / columns * rowHeight
	if more := len(items) - most; more > 0 {
		p.DrawText(at.X, y+15, at.W, font{Size: 11, Muted: true}, fmt.Sprintf("and %s more", formatNumber(more)))
		y += rowHeight
	}
	return y + 8
}

func (p *picture) drawListItem(at box, i listItem) {
	p.OpenGroup("", i.ref, "")
	p.drawTag(box{X: at.X, Y: at.Y + 3, W: 42, H: 16}, i.tag, -1)
	x := at.X + 50
	if hasSevereProblem(i.problems) {
		p.DrawWarning(x+6, at.Y+11, severityClass(i.problems))
		x += 18
	}
	p.DrawText(x, at.Y+15, at.X+236-x, font{}, i.name)
	x = at.X + 246
	for k, words := range i.texts {
		if words == "" || x > at.Right()-60 {
			continue
		}
		p.DrawCircle(x+4, at.Y+11, 3, drawing.NetworkClass("f", i.colours[k]))
		room := min(drawing.TextWidth(words, font{Size: 11}), at.Right()-x-12)
		p.DrawText(x+12, at.Y+15, room, font{Size: 11, Muted: true}, words)
		x += room + 30
	}
	p.CloseGroup()
}
