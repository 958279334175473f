package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/insight/topology/drawing"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Sizes of a picture, in pixels.
const (
	pictureMargin = 24
	pictureWidth  = 1400
	cardWidth     = 290 // of a network
	rowHeight     = 22
	gap           = 14
	railSpacing   = 18
)

// The numbers of projects from which a picture is reduced: each project becomes a tile, and then a dot.
const (
	foldThreshold  = 9
	denseThreshold = 151
)

type (
	box  = drawing.Box
	font = drawing.Font
)

// RenderSVG draws the graph as SVG. The level of detail depends on the number of projects: every address of a few
// projects; one tile for each of many; tiles for those with the most problems and dots for the others of very many. The
// graph of one project is drawn in full, with the paths of packets and replies.
func (g *Graph) RenderSVG(theme drawing.Theme) string {
	p := g.drawPicture()
	title := "Network map of " + g.displayName()
	return p.SVG(title, g.formatSummary(), theme)
}

func (g *Graph) drawPicture() *picture {
	p := &picture{
		Canvas:          &drawing.Canvas{},
		graph:           g,
		colourByNetwork: map[string]int{},
		x:               pictureMargin,
		y:               pictureMargin,
		w:               pictureWidth - 2*pictureMargin,
	}
	for _, n := range g.Networks {
		p.colourByNetwork[n.Name] = n.Colour
	}
	p.drawHeader()
	switch projects := g.countProjects(); {
	case g.Focus != "":
		p.drawFocusedVPC()
	case projects < foldThreshold:
		p.drawDetailed()
	default:
		p.drawFolded(projects >= denseThreshold)
	}
	p.drawProblems()
	p.drawLegend()
	return p
}

// picture draws a graph. The next part is drawn below y.
type picture struct {
	*drawing.Canvas
	graph           *Graph
	colourByNetwork map[string]int
	x, y, w         int
}

func (g *Graph) displayName() string {
	if g.Focus != "" {
		return g.Focus
	}
	return g.Cluster
}

func (g *Graph) countProjects() (n int) {
	for _, v := range g.Vpcs {
		n += boolToInt(v.Project != nil)
	}
	return n
}

// formatSummary returns the numbers of objects in the graph as one line.
func (g *Graph) formatSummary() string {
	addresses, services, fips := 0, 0, 0
	for _, v := range g.Vpcs {
		addresses, services, fips = addresses+len(v.EIps), services+len(v.Services), fips+len(v.FIps)
	}
	things := []struct {
		n     int
		thing string
	}{
		{g.countProjects(), "project"},
		{len(g.Networks), "network"},
		{addresses, "external address"},
		{services, "Service"},
		{fips, "floating IP"},
		{len(g.EgressIPs), "EgressIP"},
		{len(g.Nodes), "node"},
		{len(g.SevereProblems()), "problem"},
	}
	if g.Focus != "" {
		things[0].n, things[0].thing = g.Vpcs[0].Pods, "pod"
	}
	var parts []string
	for _, t := range things {
		if t.n > 0 {
			parts = append(parts, pluralize(t.n, t.thing))
		}
	}
	return strings.Join(parts, " · ")
}

// pluralize returns a number with its noun.
func pluralize(n int, thing string) string {
	switch {
	case n == 1:
		return "1 " + thing
	case strings.HasSuffix(thing, "ss"):
		return formatNumber(n) + " " + thing + "es"
	}
	return formatNumber(n) + " " + thing + "s"
}

// formatNumber formats a number with thousands separators.
func formatNumber(n int) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func (p *picture) drawHeader() {
	p.DrawText(p.x, p.y+16, p.w-330, font{Size: 20, Bold: true}, p.graph.displayName())
	p.DrawText(p.x, p.y+38, p.w-330, font{Size: 13, Muted: true}, p.graph.formatSummary())
	p.DrawText(p.x+p.w, p.y+16, 320, font{Muted: true, AlignRight: true},
		p.graph.Taken.UTC().Format("2006-01-02 15:04 MST"))
	about := "Kubernetes " + p.graph.Version
	if p.graph.Focus != "" {
		about = p.graph.Cluster + " · " + about
	}
	p.DrawText(p.x+p.w, p.y+38, 320, font{Muted: true, AlignRight: true}, about)
	p.y += 62
}

func (p *picture) drawNetworkCard(at box, n Network) {
	p.OpenGroup("", n.Ref.String(), "")
	p.DrawRect(at, 6, cardClass(n.Problems))
	p.DrawRect(box{X: at.X, Y: at.Y, W: 6, H: at.H}, 3, drawing.NetworkClass("f", n.Colour))
	x, room := at.X+18, at.W-30
	right := at.Right() - 12
	if hasSevereProblem(n.Problems) {
		p.DrawWarning(right-7, at.Y+18, "wrong")
		right -= 20
	}
	badges := n.Type
	if n.Default {
		badges += " · default"
	}
	badgeRoom := drawing.TextWidth(badges, font{Size: 11})
	p.DrawText(x, at.Y+23, right-x-badgeRoom-8, font{Size: 14, Bold: true}, n.Name)
	p.DrawText(right, at.Y+23, badgeRoom, font{Size: 11, Muted: true, AlignRight: true}, badges)
	if n.Uplink != nil {
		p.drawUplinkLines(x, at.Y, room, n)
	}
	if len(n.Subnets) > 0 {
		p.drawSubnetLines(x, at.Y, room, n)
	}
	p.CloseGroup()
}

func (p *picture) drawSubnetLines(x, y, room int, n Network) {
	s, free, used := n.Subnets[0], 0, 0
	prefixes := slices.Clone(s.Prefixes)
	for i, o := range n.Subnets {
		free, used = free+o.Free, used+o.Used
		if i > 0 {
			prefixes = append(prefixes, o.Prefixes...)
		}
	}
	vlan := "no VLAN"
	if s.VLANTag > 0 {
		vlan = fmt.Sprintf("VLAN %d", s.VLANTag)
	}
	p.DrawText(x, y+43, room-86, font{Mono: true}, joinStrings(prefixes))
	p.DrawText(x+room, y+43, 80, font{Size: 11, Muted: true, AlignRight: true}, vlan)
	route := "internal"
	if n.Public {
		route = "internet"
	}
	p.DrawText(x, y+61, room-66, font{Size: 11, Muted: true},
		"gateway "+joinStrings(s.Gateways)+" · br-"+s.ProviderNetwork)
	p.DrawText(x+room, y+61, 60, font{Size: 11, Muted: true, AlignRight: true}, route)
	if total := free + used; total > 0 {
		bar := box{X: x, Y: y + 71, W: room - 120, H: 6}
		p.DrawRect(bar, 3, "track")
		bar.W = max(2, bar.W*used/total)
		p.DrawRect(bar, 3, drawing.NetworkClass("f", n.Colour))
		p.DrawText(x+room, y+78, 114, font{Size: 11, Muted: true, AlignRight: true},
			fmt.Sprintf("%s of %s", formatNumber(used), formatNumber(total)))
	}
}

func (p *picture) drawUplinkLines(x, y, room int, n Network) {
	u := n.Uplink
	p.DrawText(x, y+43, room, font{Mono: true}, joinStrings(u.Addresses))
	gateways := ""
	if len(u.Gateways) > 0 {
		gateways = "gateway " + joinStrings(u.Gateways) + " · "
	}
	p.DrawText(x, y+61, room, font{Size: 11, Muted: true}, gateways+u.Interface+" of "+pluralize(len(u.Nodes), "node"))
	p.DrawText(x, y+78, room, font{Size: 11, Muted: true}, "replies by "+u.Method)
}

const networkHeight = 90

// cardClass returns the CSS class of a box with these problems.
func cardClass(problems []Problem) string {
	switch worstSeverity(problems) {
	case "error":
		return "ill"
	case "warning":
		return "poor"
	}
	return "card"
}

func worstSeverity(problems []Problem) string {
	for _, severity := range []string{"error", "warning"} {
		if slices.ContainsFunc(problems, func(p Problem) bool { return p.Severity == severity }) {
			return severity
		}
	}
	return ""
}

// sign is the CSS class of the mark of problems.
func severityClass(problems []Problem) string {
	if worstSeverity(problems) == "error" {
		return "wrong"
	}
	return "warn"
}

// formatTooltip returns problems as the text of a tooltip.
func formatTooltip(ref state.Ref, problems []Problem) string {
	lines := []string{ref.String()}
	for _, p := range problems {
		lines = append(lines, p.Code+": "+p.Message)
	}
	return strings.Join(lines, "\n")
}

// drawProblems draws the list of problems, most severe first.
func (p *picture) drawProblems() {
	all := p.graph.SevereProblems()
	if len(all) == 0 {
		return
	}
	p.y += gap
	p.DrawText(p.x, p.y+14, p.w, font{Size: 14, Bold: true}, pluralize(len(all), "problem"))
	p.y += 24
	for _, t := range condenseProblems(all) {
		p.drawProblem(t)
	}
}

func (p *picture) drawProblem(t condensedProblem) {
	p.OpenGroup("", t.Ref.String(), "")
	p.DrawWarning(p.x+8, p.y+12, severityClass([]Problem{t.Problem}))
	p.DrawText(p.x+24, p.y+16, 160, font{Bold: true}, t.Code)
	p.DrawText(p.x+196, p.y+16, 250, font{}, t.Ref.String())
	if t.more > 0 {
		p.DrawText(p.x+456, p.y+16, 110, font{Muted: true}, fmt.Sprintf("and %s more", formatNumber(t.more)))
	}
	p.DrawText(p.x+576, p.y+16, p.w-576, font{Muted: true}, t.Message)
	p.CloseGroup()
	p.y += rowHeight
}

// drawLegend draws the legend.
func (p *picture) drawLegend() {
	p.y += gap
	p.DrawPath("edge", fmt.Sprintf("M%d %dH%d", p.x, p.y, p.x+p.w))
	p.y += 10
	x, small := p.x, font{Size: 11, Muted: true}
	explain := func(sign int, words string, draw func(x, y int)) {
		room := drawing.TextWidth(words, small)
		if x+sign+room > p.x+p.w {
			x, p.y = p.x, p.y+rowHeight
		}
		draw(x, p.y)
		p.DrawText(x+sign, p.y+15, room, small, words)
		x += sign + room + 22
	}
	folds, dense := p.graph.Focus == "" && p.graph.countProjects() >= foldThreshold, p.graph.Focus == "" &&
		p.graph.countProjects() >= denseThreshold
	for _, s := range tagLegend {
		if folds && s[0] != tagLoadBalancer && s[0] != tagFIP && s[0] != tagReservedEIP && s[0] != tagEgressIP {
			continue
		}
		tag := drawing.TextWidth(s[0], font{Size: 10, Bold: true}) + 10
		explain(tag+6, s[1], func(x, y int) { p.drawTag(box{X: x, Y: y + 3, W: tag, H: 16}, s[0], -1) })
	}
	for _, n := range p.graph.Networks {
		explain(24, n.Name, func(x, y int) {
			p.DrawPath("rail "+drawing.NetworkClass("n", n.Colour), fmt.Sprintf("M%d %dh14", x+2, y+11))
		})
	}
	if folds {
		explain(14, "it is on this network, too", func(x, y int) { p.DrawCircle(x+4, y+11, 4, "fx") })
	}
	if dense {
		explain(20, "a project without problems; the fuller, the more addresses",
			func(x, y int) { p.DrawRect(box{X: x, Y: y + 5, W: dotSize, H: dotSize}, 3, "fx") })
	}
	explain(20, "something does not work", func(x, y int) { p.DrawWarning(x+7, y+11, "wrong") })
	explain(20, "something may not work", func(x, y int) { p.DrawWarning(x+7, y+11, "warn") })
	p.y += rowHeight
}

// drawTag draws a tag in the colour of a network, or without colour if colour is negative.
func (p *picture) drawTag(at box, letters string, colour int) {
	p.DrawRect(at, 4, drawing.NetworkClass("p", colour))
	p.DrawText(at.X+at.W/2, at.Y+12, at.W, font{Size: 10, Bold: true, AlignCenter: true}, letters)
}
