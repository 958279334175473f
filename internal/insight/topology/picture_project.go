package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/insight/topology/drawing"
)

// Columns of the picture of one project, from its left edge: networks, nodes, the router, addresses, pods.
const (
	nodeColumnX    = 336
	routerColumnX  = 470
	addressColumnX = 724
	podColumnX     = 1096
	routerWidth    = 190
	addressWidth   = 310
	entryHeight    = 40 // of an address
	podHeight      = 24
)

// drawFocusedVPC draws one VPC: each network is a band from the outside to its addresses, with lines to the pods on the
// right. The paths of packets and replies are below.
func (p *picture) drawFocusedVPC() {
	v := &p.graph.Vpcs[0]
	top := p.y
	p.DrawText(p.x, top+12, 200, font{Size: 13, Bold: true}, "Outside")
	p.DrawText(p.x+nodeColumnX, top+12, 120, font{Size: 13, Bold: true}, "Nodes")
	p.DrawText(p.x+routerColumnX, top+12, 200, font{Size: 13, Bold: true}, "Router")
	p.DrawText(p.x+addressColumnX, top+12, 300, font{Size: 13, Bold: true}, "Addresses")
	p.DrawText(p.x+podColumnX, top+12, 200, font{Size: 13, Bold: true}, "Pods")
	p.y += 24
	begin := p.y
	var entries []addressEntry
	for _, g := range p.graph.groupByNetwork(v) {
		entries = append(entries, p.drawNetworkLane(g)...)
	}
	pods := p.drawPods(v, entries, begin)
	bottom := max(p.y, pods.Bottom()+gap)
	p.drawRouter(v, begin)
	for _, e := range entries {
		p.drawAddressCard(e)
	}
	p.y = bottom
	p.drawPacketPaths(v)
}

// addressEntry is an address of the project with its position.
type addressEntry struct {
	box
	row addressRow
}

// drawNetworkLane draws a band: a network, the node that holds the router's port, and its line to the router. It
// returns the positions of the addresses.
func (p *picture) drawNetworkLane(g networkGroup) []addressEntry {
	high := g.bandHeight()
	at := box{X: p.x, Y: p.y, W: cardWidth, H: networkHeight}
	colour := p.networkColour(g.network)
	middle := at.MiddleY()
	if i := slices.IndexFunc(p.graph.Networks, func(n Network) bool { return n.Name == g.network }); i >= 0 {
		p.drawNetworkCard(at, p.graph.Networks[i])
	}
	if g.port.Name != "" {
		p.DrawPath("rail "+drawing.NetworkClass("n", colour),
			fmt.Sprintf("M%d %dH%d", at.Right(), middle, p.x+routerColumnX))
		p.drawNodeChip(box{X: p.x + nodeColumnX, Y: middle - 9, W: chipWidth + 10, H: 18}, g.port.Node, colour)
		if len(g.port.Standby) > 0 {
			p.DrawText(p.x+nodeColumnX, middle+24, chipWidth+24, font{Size: 10, Muted: true},
				"then "+strings.Join(g.port.Standby, ", "))
		}
	} else if g.network != "" {
		p.DrawPath("rail "+drawing.NetworkClass("n", colour),
			fmt.Sprintf("M%d %dH%d", at.Right(), middle, p.x+routerColumnX))
	}
	var entries []addressEntry
	for i, r := range g.rows {
		entries = append(entries, addressEntry{box{
			X: p.x + addressColumnX,
			Y: p.y + i*(entryHeight+8),
			W: addressWidth,
			H: entryHeight,
		}, r})
	}
	p.drawAddressWires(g, middle, entries)
	p.y += high + bandGap
	return entries
}

// bandGap is the gap between bands.
const bandGap = gap + 6

func (g networkGroup) bandHeight() int { return max(networkHeight, len(g.rows)*(entryHeight+8)-8) }

// drawAddressWires draws the lines from the router's port to its addresses.
func (p *picture) drawAddressWires(g networkGroup, middle int, entries []addressEntry) {
	if len(entries) == 0 {
		return
	}
	class := "wire " + drawing.NetworkClass("n", p.networkColour(g.network))
	x := p.x + routerColumnX + routerWidth
	bend := p.x + addressColumnX - 24
	p.DrawPath(class, fmt.Sprintf("M%d %dH%d", x, middle, bend))
	p.DrawPath(class, fmt.Sprintf("M%d %dV%d", bend, min(middle, entries[0].MiddleY()),
		max(middle, entries[len(entries)-1].MiddleY())))
	for _, e := range entries {
		p.DrawPath(class, fmt.Sprintf("M%d %dH%d", bend, e.MiddleY(), e.X))
	}
}

// drawRouter draws the router with its ports, each beside its network. Networks without a router port get a description
// instead.
func (p *picture) drawRouter(v *Vpc, top int) {
	at := box{X: p.x + routerColumnX, Y: top, W: routerWidth}
	var others []func()
	y := top
	for _, g := range p.graph.groupByNetwork(v) {
		band := box{X: at.X, Y: y, W: at.W, H: g.bandHeight()}
		if y += g.bandHeight() + bandGap; g.port.Name != "" {
			at.H = band.Bottom() - top
			continue
		}
		others = append(others, func() {
			band.H = networkHeight
			p.DrawRect(band, 8, "card")
			for i, line := range drawing.WrapText(g.describeWithoutPort(), band.W-24, 4, font{Size: 11}) {
				p.DrawText(band.X+14, band.Y+34+i*15, band.W-24, font{Size: 11, Muted: true}, line)
			}
		})
	}
	if at.H > 0 {
		p.OpenGroup("", v.Ref.String(), "")
		p.DrawRect(at, 8, "card")
		p.DrawText(at.X+14, at.Y+18, at.W-24, font{Size: 11, Muted: true}, v.Router.Name)
		p.drawRouterPorts(v, at)
		p.CloseGroup()
	}
	for _, draw := range others {
		draw()
	}
}

func (p *picture) drawRouterPorts(v *Vpc, at box) {
	y := at.Y
	for _, g := range p.graph.groupByNetwork(v) {
		middle := y + networkHeight/2
		y += g.bandHeight() + bandGap
		if g.port.Name == "" {
			continue
		}
		colour := p.networkColour(g.network)
		p.DrawCircle(at.X, middle, 5, drawing.NetworkClass("f", colour))
		p.DrawText(at.X+14, middle-3, at.W-24, font{Bold: true}, g.network)
		p.DrawText(at.X+14, middle+13, at.W-24, font{Size: 11, Mono: true}, joinStrings(g.port.Addresses))
		words := ""
		if g.network == v.EgressNetwork {
			words = "default way out"
		}
		if v.returnPort(g.network).Name != "" {
			words = "replies by a return port"
		}
		p.DrawText(at.X+14, middle+29, at.W-24, font{Size: 11, Muted: true}, words)
		if len(g.rows) > 0 {
			p.DrawCircle(at.Right(), middle, 4, drawing.NetworkClass("f", colour))
		}
	}
}

func (p *picture) drawAddressCard(e addressEntry) {
	r := e.row
	title := ""
	if len(r.problems) > 0 {
		title = formatTooltip(r.ref, r.problems)
	}
	p.OpenGroup("", r.ref.String(), title)
	class := cardClass(r.problems)
	if class == "card" {
		class = "inner"
	}
	p.DrawRect(e.box, 6, class)
	p.drawTag(box{X: e.X + 8, Y: e.Y + 12, W: 42, H: 16}, r.tag, p.networkColour(r.network))
	x, right := e.X+60, e.Right()-10
	if hasSevereProblem(r.problems) {
		p.DrawWarning(right-7, e.Y+19, severityClass(r.problems))
		right -= 22
	}
	first, mono := r.address, true
	if first == "" {
		first, mono = r.name, false
	}
	if r.ports != "" {
		first += " :" + strings.ReplaceAll(r.ports, " ", " :")
	}
	p.DrawText(x, e.Y+17, right-x, font{Mono: mono}, first)
	second := r.name
	if r.address == "" {
		second = r.targetText
	} else if len(r.targets) == 0 && r.targetText != "" && r.tag != tagSNAT {
		second += " · " + r.targetText
	}
	p.DrawText(x, e.Y+33, right-x, font{Size: 11, Muted: true}, second)
	p.CloseGroup()
}

// podGroup is a group of pods that are targets of the same addresses.
type podGroup struct {
	box
	pods    []Target
	entries []int
}

// drawPods draws the pods of a VPC that are targets of addresses, grouped by these addresses, and the lines to them.
func (p *picture) drawPods(v *Vpc, entries []addressEntry, top int) box {
	frame := box{X: p.x + podColumnX, Y: top, W: p.w - podColumnX}
	herds := groupPodsByEntries(entries)
	y := top + 46
	for i := range herds {
		herds[i].box = box{X: frame.X + 12, Y: y, W: frame.W - 24, H: len(herds[i].pods)*podHeight + 8}
		y += herds[i].H + 10
	}
	frame.H = max(y, p.y-gap) - top
	p.DrawRect(frame, 8, "card")
	reached := 0
	for _, h := range herds {
		reached += len(h.pods)
	}
	p.DrawText(frame.X+12, top+20, frame.W-24, font{Bold: true}, v.firstPodPrefix().String())
	p.DrawText(frame.X+12, top+36, frame.W-24, font{Size: 11, Muted: true},
		fmt.Sprintf("%s, %d reached from outside", pluralize(v.Pods, "pod"), reached))
	for i, e := range entries {
		if e.row.tag == tagSNAT || e.row.tag == tagEgressPolicy || e.row.tag == tagEgressIP {
			p.DrawPath("wire "+drawing.NetworkClass("n", p.networkColour(e.row.network)),
				fmt.Sprintf("M%d %dH%dm5 -4l-5 4l5 4", frame.X, e.MiddleY(), e.Right()))
		}
		p.drawPodWires(i, e, herds)
	}
	for _, h := range herds {
		p.drawPodGroup(v, h)
	}
	return frame
}

// groupPodsByEntries groups the target pods of addresses. Groups are sorted by the mean position of their addresses,
// which keeps crossings of lines few.
func groupPodsByEntries(entries []addressEntry) []podGroup {
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
	var all []podGroup
	for _, key := range sortedKeys(pods) {
		at := slices.IndexFunc(all, func(h podGroup) bool { return slices.Equal(h.entries, by[key]) })
		if at < 0 {
			all, at = append(all, podGroup{entries: by[key]}), len(all)
		}
		all[at].pods = append(all[at].pods, pods[key])
	}
	for _, h := range all {
		slices.SortFunc(h.pods, func(a, b Target) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), a.Address.Compare(b.Address))
		})
	}
	middle := func(h podGroup) int {
		sum := 0
		for _, i := range h.entries {
			sum += entries[i].MiddleY()
		}
		return sum / len(h.entries)
	}
	slices.SortStableFunc(all, func(a, b podGroup) int { return cmp.Compare(middle(a), middle(b)) })
	return all
}

// drawPodWires draws the lines from an address to its pods. They end side by side, in the order of the addresses.
func (p *picture) drawPodWires(i int, e addressEntry, herds []podGroup) {
	for _, h := range herds {
		at := slices.Index(h.entries, i)
		if at < 0 {
			continue
		}
		y := h.Y + (at+1)*h.H/(len(h.entries)+1)
		half := (h.X - e.Right()) / 2
		p.DrawPath("wire "+drawing.NetworkClass("n", p.networkColour(e.row.network)),
			fmt.Sprintf("M%d %dC%d %d %d %d %d %dm-5 -4l5 4l-5 4", e.Right(), e.MiddleY(), e.Right()+half, e.MiddleY(),
				h.X-half, y, h.X, y))
	}
}

func (p *picture) drawPodGroup(v *Vpc, h podGroup) {
	p.DrawRect(h.box, 6, "inner")
	for i, t := range h.pods {
		y := h.Y + 4 + i*podHeight
		x := h.X + 12
		p.OpenGroup("", formatRef(t.podRef(v.firstNamespace())), "")
		if !t.Ready {
			p.DrawWarning(x+4, y+12, "wrong")
			x += 18
		}
		p.DrawText(x, y+16, h.Right()-8-x, font{}, strings.TrimSpace(t.String()+" "+formatOnNode(t)))
		p.CloseGroup()
	}
}

func formatOnNode(t Target) string {
	if t.Node == "" {
		return ""
	}
	return "· " + t.Node
}

// firstNamespace returns the namespace of a project.
func (v *Vpc) firstNamespace() string {
	if len(v.Namespaces) == 0 {
		return ""
	}
	return v.Namespaces[0]
}
