package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/topology/drawing"
)

// Sizes of a picture, in pixels.
const (
	edge      = 24   // round everything
	wide      = 1400 // the whole
	cardWide  = 290  // a network
	lineHigh  = 22   // a row
	gap       = 14
	railApart = 18
)

// From how many projects on a picture folds: each becomes a tile, and then a dot.
const (
	foldAt  = 9
	denseAt = 151
)

type (
	box  = drawing.Box
	font = drawing.Font
)

// Picture is the graph as SVG. What is drawn depends on its size: every address of a few projects, a tile for each of many, and of very many
// the worst, with a dot for each of the others. A graph of one project shows all of it, and the way of packets there and back.
func (g *Graph) Picture(theme drawing.Theme) string {
	p := g.draw()
	title := "Network map of " + g.name()
	return p.SVG(title, g.summary(), theme)
}

func (g *Graph) draw() *picture {
	p := &picture{Canvas: &drawing.Canvas{}, g: g, colour: map[string]int{}, x: edge, y: edge, w: wide - 2*edge}
	for _, n := range g.Networks {
		p.colour[n.Name] = n.Colour
	}
	p.header()
	switch projects := g.projects(); {
	case g.Focus != "":
		p.focused()
	case projects < foldAt:
		p.detailed()
	default:
		p.folded(projects >= denseAt)
	}
	p.troubles()
	p.legend()
	return p
}

// picture draws a graph; what comes next is drawn below y.
type picture struct {
	*drawing.Canvas
	g       *Graph
	colour  map[string]int
	x, y, w int
}

func (g *Graph) name() string {
	if g.Focus != "" {
		return g.Focus
	}
	return g.Cluster
}

func (g *Graph) projects() (n int) {
	for _, v := range g.Vpcs {
		n += rank(v.Project != nil)
	}
	return n
}

// summary is the graph in a sentence.
func (g *Graph) summary() string {
	addresses, services, fips := 0, 0, 0
	for _, v := range g.Vpcs {
		addresses, services, fips = addresses+len(v.EIps), services+len(v.Services), fips+len(v.FIps)
	}
	things := []struct {
		n     int
		thing string
	}{
		{g.projects(), "project"},
		{len(g.Networks), "network"},
		{addresses, "external address"},
		{services, "Service"},
		{fips, "floating IP"},
		{len(g.Egress), "EgressIP"},
		{len(g.Nodes), "node"},
		{len(g.Wrong()), "problem"},
	}
	if g.Focus != "" {
		things[0].n, things[0].thing = g.Vpcs[0].Pods, "pod"
	}
	var parts []string
	for _, t := range things {
		if t.n > 0 {
			parts = append(parts, many(t.n, t.thing))
		}
	}
	return strings.Join(parts, " · ")
}

// many is a number of things.
func many(n int, thing string) string {
	switch {
	case n == 1:
		return "1 " + thing
	case strings.HasSuffix(thing, "ss"):
		return number(n) + " " + thing + "es"
	}
	return number(n) + " " + thing + "s"
}

// number is a number with commas.
func number(n int) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func (p *picture) header() {
	p.Text(p.x, p.y+16, p.w-330, font{Size: 20, Bold: true}, p.g.name())
	p.Text(p.x, p.y+38, p.w-330, font{Size: 13, Soft: true}, p.g.summary())
	p.Text(p.x+p.w, p.y+16, 320, font{Soft: true, Right: true}, p.g.Taken.UTC().Format("2006-01-02 15:04 MST"))
	about := "Kubernetes " + p.g.Version
	if p.g.Focus != "" {
		about = p.g.Cluster + " · " + about
	}
	p.Text(p.x+p.w, p.y+38, 320, font{Soft: true, Right: true}, about)
	p.y += 62
}

// networkCard draws a network.
func (p *picture) networkCard(at box, n Network) {
	p.Open("", n.Ref.String(), "")
	p.Rect(at, 6, cardClass(n.Problems))
	p.Rect(box{X: at.X, Y: at.Y, W: 6, H: at.H}, 3, drawing.Network("f", n.Colour))
	x, room := at.X+18, at.W-30
	right := at.Right() - 12
	if severe(n.Problems) {
		p.Warn(right-7, at.Y+18, "wrong")
		right -= 20
	}
	badges := n.Type
	if n.Default {
		badges += " · default"
	}
	badgeRoom := drawing.Width(badges, font{Size: 11})
	p.Text(x, at.Y+23, right-x-badgeRoom-8, font{Size: 14, Bold: true}, n.Name)
	p.Text(right, at.Y+23, badgeRoom, font{Size: 11, Soft: true, Right: true}, badges)
	if n.Uplink != nil {
		p.uplinkLines(x, at.Y, room, n)
	}
	if len(n.Subnets) > 0 {
		p.subnetLines(x, at.Y, room, n)
	}
	p.Close()
}

func (p *picture) subnetLines(x, y, room int, n Network) {
	s, free, used := n.Subnets[0], 0, 0
	prefixes := slices.Clone(s.Prefixes)
	for i, o := range n.Subnets {
		free, used = free+o.Free, used+o.Used
		if i > 0 {
			prefixes = append(prefixes, o.Prefixes...)
		}
	}
	vlan := "no VLAN"
	if s.Tag > 0 {
		vlan = fmt.Sprintf("VLAN %d", s.Tag)
	}
	p.Text(x, y+43, room-86, font{Mono: true}, join(prefixes))
	p.Text(x+room, y+43, 80, font{Size: 11, Soft: true, Right: true}, vlan)
	route := "internal"
	if n.Public {
		route = "internet"
	}
	p.Text(x, y+61, room-66, font{Size: 11, Soft: true}, "gateway "+join(s.Gateways)+" · br-"+s.Provider)
	p.Text(x+room, y+61, 60, font{Size: 11, Soft: true, Right: true}, route)
	if total := free + used; total > 0 {
		bar := box{X: x, Y: y + 71, W: room - 120, H: 6}
		p.Rect(bar, 3, "track")
		bar.W = max(2, bar.W*used/total)
		p.Rect(bar, 3, drawing.Network("f", n.Colour))
		p.Text(x+room, y+78, 114, font{Size: 11, Soft: true, Right: true}, fmt.Sprintf("%s of %s", number(used), number(total)))
	}
}

func (p *picture) uplinkLines(x, y, room int, n Network) {
	u := n.Uplink
	p.Text(x, y+43, room, font{Mono: true}, join(u.Addresses))
	gateways := ""
	if len(u.Gateways) > 0 {
		gateways = "gateway " + join(u.Gateways) + " · "
	}
	p.Text(x, y+61, room, font{Size: 11, Soft: true}, gateways+u.Interface+" of "+many(len(u.Nodes), "node"))
	p.Text(x, y+78, room, font{Size: 11, Soft: true}, "replies by "+u.Method)
}

const networkHigh = 90

// cardClass is how a box looks with these problems.
func cardClass(problems []Problem) string {
	switch worst(problems) {
	case "error":
		return "ill"
	case "warning":
		return "poor"
	}
	return "card"
}

func worst(problems []Problem) string {
	for _, severity := range []string{"error", "warning"} {
		if slices.ContainsFunc(problems, func(p Problem) bool { return p.Severity == severity }) {
			return severity
		}
	}
	return ""
}

// sign is the class of the mark of problems.
func signOf(problems []Problem) string {
	if worst(problems) == "error" {
		return "wrong"
	}
	return "warn"
}

// tell is problems as one text, for a mouse that rests there.
func tell(ref state.Ref, problems []Problem) string {
	lines := []string{ref.String()}
	for _, p := range problems {
		lines = append(lines, p.Code+": "+p.Message)
	}
	return strings.Join(lines, "\n")
}

// troubles draws what is wrong, the worst first.
func (p *picture) troubles() {
	all := p.g.Wrong()
	if len(all) == 0 {
		return
	}
	p.y += gap
	p.Text(p.x, p.y+14, p.w, font{Size: 14, Bold: true}, many(len(all), "problem"))
	p.y += 24
	for _, t := range condensed(all) {
		p.trouble(t)
	}
}

func (p *picture) trouble(t condensate) {
	p.Open("", t.Ref.String(), "")
	p.Warn(p.x+8, p.y+12, signOf([]Problem{t.Problem}))
	p.Text(p.x+24, p.y+16, 160, font{Bold: true}, t.Code)
	p.Text(p.x+196, p.y+16, 250, font{}, t.Ref.String())
	if t.more > 0 {
		p.Text(p.x+456, p.y+16, 110, font{Soft: true}, fmt.Sprintf("and %s more", number(t.more)))
	}
	p.Text(p.x+576, p.y+16, p.w-576, font{Soft: true}, t.Message)
	p.Close()
	p.y += lineHigh
}

// legend explains the signs.
func (p *picture) legend() {
	p.y += gap
	p.Path("edge", fmt.Sprintf("M%d %dH%d", p.x, p.y, p.x+p.w))
	p.y += 10
	x, small := p.x, font{Size: 11, Soft: true}
	explain := func(sign int, words string, draw func(x, y int)) {
		room := drawing.Width(words, small)
		if x+sign+room > p.x+p.w {
			x, p.y = p.x, p.y+lineHigh
		}
		draw(x, p.y)
		p.Text(x+sign, p.y+15, room, small, words)
		x += sign + room + 22
	}
	folds, dense := p.g.Focus == "" && p.g.projects() >= foldAt, p.g.Focus == "" && p.g.projects() >= denseAt
	for _, s := range signs {
		if folds && s[0] != signService && s[0] != signFIp && s[0] != signEIp && s[0] != signEgress {
			continue
		}
		tag := drawing.Width(s[0], font{Size: 10, Bold: true}) + 10
		explain(tag+6, s[1], func(x, y int) { p.tag(box{X: x, Y: y + 3, W: tag, H: 16}, s[0], -1) })
	}
	for _, n := range p.g.Networks {
		explain(24, n.Name, func(x, y int) { p.Path("rail "+drawing.Network("n", n.Colour), fmt.Sprintf("M%d %dh14", x+2, y+11)) })
	}
	if folds {
		explain(14, "it is on this network, too", func(x, y int) { p.Circle(x+4, y+11, 4, "fx") })
	}
	if dense {
		explain(20, "a project without problems; the fuller, the more addresses",
			func(x, y int) { p.Rect(box{X: x, Y: y + 5, W: dot, H: dot}, 3, "fx") })
	}
	explain(20, "something does not work", func(x, y int) { p.Warn(x+7, y+11, "wrong") })
	explain(20, "something may not work", func(x, y int) { p.Warn(x+7, y+11, "warn") })
	p.y += lineHigh
}

// tag draws a few letters in a box of the colour of a network; below 0: of none.
func (p *picture) tag(at box, letters string, colour int) {
	p.Rect(at, 4, drawing.Network("p", colour))
	p.Text(at.X+at.W/2, at.Y+12, at.W, font{Size: 10, Bold: true, Middle: true}, letters)
}
