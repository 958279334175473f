package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/topology/drawing"
)

// Columns of the picture of one project, from its left edge: networks, nodes, the router, addresses, pods.
const (
	nodeAt    = 336
	routerAt  = 470
	addressAt = 724
	podsAt    = 1096
	routerOf  = 190 // wide
	addressOf = 310
	entryHigh = 40 // an address
	podHigh   = 24
)

// focused draws one VPC: each network is a band from the outside to its addresses, and all lead to the pods on the right. Below, the way of
// packets there and back.
func (p *picture) focused() {
	v := &p.g.Vpcs[0]
	top := p.y
	p.Text(p.x, top+12, 200, font{Size: 13, Bold: true}, "Outside")
	p.Text(p.x+nodeAt, top+12, 120, font{Size: 13, Bold: true}, "Nodes")
	p.Text(p.x+routerAt, top+12, 200, font{Size: 13, Bold: true}, "Router")
	p.Text(p.x+addressAt, top+12, 300, font{Size: 13, Bold: true}, "Addresses")
	p.Text(p.x+podsAt, top+12, 200, font{Size: 13, Bold: true}, "Pods")
	p.y += 24
	begin := p.y
	var entries []entry
	for _, g := range p.g.groups(v) {
		entries = append(entries, p.network(g)...)
	}
	pods := p.crowd(v, entries, begin)
	bottom := max(p.y, pods.Bottom()+gap)
	p.router(v, begin)
	for _, e := range entries {
		p.entry(e)
	}
	p.y = bottom
	p.ways(v)
}

// entry is an address of the project, where it is drawn.
type entry struct {
	box
	row row
}

// network draws a band: a network, the node that holds the router's port, and its line to the router. It returns where the addresses are.
func (p *picture) network(g group) []entry {
	high := g.high()
	at := box{X: p.x, Y: p.y, W: cardWide, H: networkHigh}
	colour := p.colourOf(g.network)
	middle := at.Middle()
	if i := slices.IndexFunc(p.g.Networks, func(n Network) bool { return n.Name == g.network }); i >= 0 {
		p.networkCard(at, p.g.Networks[i])
	}
	if g.port.Name != "" {
		p.Path("rail "+drawing.Network("n", colour), fmt.Sprintf("M%d %dH%d", at.Right(), middle, p.x+routerAt))
		p.chip(box{X: p.x + nodeAt, Y: middle - 9, W: chipWide + 10, H: 18}, g.port.Node, colour)
		if len(g.port.Standby) > 0 {
			p.Text(p.x+nodeAt, middle+24, chipWide+24, font{Size: 10, Soft: true}, "then "+strings.Join(g.port.Standby, ", "))
		}
	} else if g.network != "" {
		p.Path("rail "+drawing.Network("n", colour), fmt.Sprintf("M%d %dH%d", at.Right(), middle, p.x+routerAt))
	}
	var entries []entry
	for i, r := range g.rows {
		entries = append(entries, entry{box{X: p.x + addressAt, Y: p.y + i*(entryHigh+8), W: addressOf, H: entryHigh}, r})
	}
	p.trunk(g, middle, entries)
	p.y += high + between
	return entries
}

// between is what lies between bands.
const between = gap + 6

// high is how high the band of a group is.
func (g group) high() int { return max(networkHigh, len(g.rows)*(entryHigh+8)-8) }

// trunk draws the lines from the router's port to its addresses.
func (p *picture) trunk(g group, middle int, entries []entry) {
	if len(entries) == 0 {
		return
	}
	class := "wire " + drawing.Network("n", p.colourOf(g.network))
	x := p.x + routerAt + routerOf
	bend := p.x + addressAt - 24
	p.Path(class, fmt.Sprintf("M%d %dH%d", x, middle, bend))
	p.Path(class, fmt.Sprintf("M%d %dV%d", bend, min(middle, entries[0].Middle()), max(middle, entries[len(entries)-1].Middle())))
	for _, e := range entries {
		p.Path(class, fmt.Sprintf("M%d %dH%d", bend, e.Middle(), e.X))
	}
}

// router draws the router with its ports, each beside its network; and what is there instead where addresses are not the router's.
func (p *picture) router(v *Vpc, top int) {
	at := box{X: p.x + routerAt, Y: top, W: routerOf}
	var others []func()
	y := top
	for _, g := range p.g.groups(v) {
		band := box{X: at.X, Y: y, W: at.W, H: g.high()}
		if y += g.high() + between; g.port.Name != "" {
			at.H = band.Bottom() - top
			continue
		}
		others = append(others, func() {
			band.H = networkHigh
			p.Rect(band, 8, "card")
			for i, line := range drawing.Wrap(g.without(), band.W-24, 4, font{Size: 11}) {
				p.Text(band.X+14, band.Y+34+i*15, band.W-24, font{Size: 11, Soft: true}, line)
			}
		})
	}
	if at.H > 0 {
		p.Open("", v.Ref.String(), "")
		p.Rect(at, 8, "card")
		p.Text(at.X+14, at.Y+18, at.W-24, font{Size: 11, Soft: true}, v.Router.Name)
		p.ports(v, at)
		p.Close()
	}
	for _, draw := range others {
		draw()
	}
}

func (p *picture) ports(v *Vpc, at box) {
	y := at.Y
	for _, g := range p.g.groups(v) {
		middle := y + networkHigh/2
		y += g.high() + between
		if g.port.Name == "" {
			continue
		}
		colour := p.colourOf(g.network)
		p.Circle(at.X, middle, 5, drawing.Network("f", colour))
		p.Text(at.X+14, middle-3, at.W-24, font{Bold: true}, g.network)
		p.Text(at.X+14, middle+13, at.W-24, font{Size: 11, Mono: true}, join(g.port.Addresses))
		words := ""
		if g.network == v.Network {
			words = "default way out"
		}
		if v.leg(g.network).Name != "" {
			words = "replies by a leg of their own"
		}
		p.Text(at.X+14, middle+29, at.W-24, font{Size: 11, Soft: true}, words)
		if len(g.rows) > 0 {
			p.Circle(at.Right(), middle, 4, drawing.Network("f", colour))
		}
	}
}

// entry draws an address.
func (p *picture) entry(e entry) {
	r := e.row
	title := ""
	if len(r.problems) > 0 {
		title = tell(r.ref, r.problems)
	}
	p.Open("", r.ref.String(), title)
	class := cardClass(r.problems)
	if class == "card" {
		class = "inner"
	}
	p.Rect(e.box, 6, class)
	p.tag(box{X: e.X + 8, Y: e.Y + 12, W: 42, H: 16}, r.sign, p.colourOf(r.network))
	x, right := e.X+60, e.Right()-10
	if severe(r.problems) {
		p.Warn(right-7, e.Y+19, signOf(r.problems))
		right -= 22
	}
	first, mono := r.address, true
	if first == "" {
		first, mono = r.name, false
	}
	if r.ports != "" {
		first += " :" + strings.ReplaceAll(r.ports, " ", " :")
	}
	p.Text(x, e.Y+17, right-x, font{Mono: mono}, first)
	second := r.name
	if r.address == "" {
		second = r.to
	} else if len(r.targets) == 0 && r.to != "" && r.sign != signOut {
		second += " · " + r.to
	}
	p.Text(x, e.Y+33, right-x, font{Size: 11, Soft: true}, second)
	p.Close()
}

// herd is pods that the same addresses lead to.
type herd struct {
	box
	pods    []Target
	entries []int
}

// crowd draws the pods of a VPC that something leads to, those that the same addresses lead to together, and the lines to them.
func (p *picture) crowd(v *Vpc, entries []entry, top int) box {
	frame := box{X: p.x + podsAt, Y: top, W: p.w - podsAt}
	herds := herdsOf(entries)
	y := top + 46
	for i := range herds {
		herds[i].box = box{X: frame.X + 12, Y: y, W: frame.W - 24, H: len(herds[i].pods)*podHigh + 8}
		y += herds[i].H + 10
	}
	frame.H = max(y, p.y-gap) - top
	p.Rect(frame, 8, "card")
	reached := 0
	for _, h := range herds {
		reached += len(h.pods)
	}
	p.Text(frame.X+12, top+20, frame.W-24, font{Bold: true}, v.inner().String())
	p.Text(frame.X+12, top+36, frame.W-24, font{Size: 11, Soft: true}, fmt.Sprintf("%s, %d reached from outside", many(v.Pods, "pod"), reached))
	for i, e := range entries {
		if e.row.sign == signOut || e.row.sign == signDivert || e.row.sign == signEgress {
			p.Path("wire "+drawing.Network("n", p.colourOf(e.row.network)),
				fmt.Sprintf("M%d %dH%dm5 -4l-5 4l5 4", frame.X, e.Middle(), e.Right()))
		}
		p.leads(i, e, herds)
	}
	for _, h := range herds {
		p.herd(v, h)
	}
	return frame
}

// herdsOf are the pods that addresses lead to, in the order of the middle of what leads to them: so their lines cross least.
func herdsOf(entries []entry) []herd {
	by := map[string][]int{}
	pods := map[string]Target{}
	for i, e := range entries {
		for _, t := range e.row.targets {
			key := t.Address.String()
			t.Port = 0
			pods[key] = t
			by[key] = append(by[key], i)
		}
	}
	var all []herd
	for _, key := range sortedKeys(pods) {
		at := slices.IndexFunc(all, func(h herd) bool { return slices.Equal(h.entries, by[key]) })
		if at < 0 {
			all, at = append(all, herd{entries: by[key]}), len(all)
		}
		all[at].pods = append(all[at].pods, pods[key])
	}
	for _, h := range all {
		slices.SortFunc(h.pods, func(a, b Target) int { return cmp.Or(cmp.Compare(a.Name, b.Name), a.Address.Compare(b.Address)) })
	}
	middle := func(h herd) int {
		sum := 0
		for _, i := range h.entries {
			sum += entries[i].Middle()
		}
		return sum / len(h.entries)
	}
	slices.SortStableFunc(all, func(a, b herd) int { return cmp.Compare(middle(a), middle(b)) })
	return all
}

// leads draws the lines from an address to its pods. They end side by side, in the order in which they come.
func (p *picture) leads(i int, e entry, herds []herd) {
	for _, h := range herds {
		at := slices.Index(h.entries, i)
		if at < 0 {
			continue
		}
		y := h.Y + (at+1)*h.H/(len(h.entries)+1)
		half := (h.X - e.Right()) / 2
		p.Path("wire "+drawing.Network("n", p.colourOf(e.row.network)),
			fmt.Sprintf("M%d %dC%d %d %d %d %d %dm-5 -4l5 4l-5 4", e.Right(), e.Middle(), e.Right()+half, e.Middle(), h.X-half, y, h.X, y))
	}
}

func (p *picture) herd(v *Vpc, h herd) {
	p.Rect(h.box, 6, "inner")
	for i, t := range h.pods {
		y := h.Y + 4 + i*podHigh
		x := h.X + 12
		p.Open("", t.step(v.namespace()).Ref.String(), "")
		if !t.Ready {
			p.Warn(x+4, y+12, "wrong")
			x += 18
		}
		p.Text(x, y+16, h.Right()-8-x, font{}, strings.TrimSpace(t.String()+" "+onNode(t)))
		p.Close()
	}
}

func onNode(t Target) string {
	if t.Node == "" {
		return ""
	}
	return "· " + t.Node
}

// namespace is the one of a project.
func (v *Vpc) namespace() string {
	if len(v.Namespaces) == 0 {
		return ""
	}
	return v.Namespaces[0]
}
