package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sallyport/sallyport/internal/insight/trace"
)

// RenderText renders the graph as a tree for a terminal. Each of many projects is one line, and of very many only those
// with the most problems are shown.
func (g *Graph) RenderText() string {
	var t textWriter
	t.writeLine(0, "%s  %s  %s", g.displayName(), g.formatSummary(), g.Taken.UTC().Format("2006-01-02 15:04 MST"))
	t.writeTable("networks", g.buildNetworkTable())
	t.writeTable("nodes", g.buildNodeTable())
	t.writeTable("egress addresses", g.buildEgressTable())
	t.writeTable("gateways", g.buildGatewayTable())
	projects := g.countProjects()
	switch {
	case g.Focus != "" || projects < foldThreshold:
		for i := range g.Vpcs {
			t.writeLine(0, "")
			t.writeVPC(g, &g.Vpcs[i])
		}
	default:
		t.writeVPCsFolded(g, projects >= denseThreshold)
	}
	if g.Focus != "" {
		t.writePaths(&g.Vpcs[0])
	}
	t.writeProblems(g)
	return t.String()
}

// textWriter writes indented and aligned text.
type textWriter struct{ strings.Builder }

func (t *textWriter) writeLine(indent int, format string, args ...any) {
	text := strings.TrimRight(fmt.Sprintf(format, args...), " ")
	if text != "" {
		t.WriteString(strings.Repeat("  ", indent) + text)
	}
	t.WriteByte('\n')
}

// writeTable writes a title and aligned rows.
func (t *textWriter) writeTable(title string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	t.writeLine(0, "")
	t.writeLine(0, "%s", title)
	for _, line := range alignColumns(rows) {
		t.writeLine(1, "%s", line)
	}
}

// alignColumns formats rows as lines, each column as wide as its widest cell.
func alignColumns(rows [][]string) (lines []string) {
	var wide []int
	for _, r := range rows {
		for i, cell := range r {
			if i == len(wide) {
				wide = append(wide, 0)
			}
			wide[i] = max(wide[i], utf8.RuneCountInString(cell))
		}
	}
	for _, r := range rows {
		line := ""
		for i, cell := range r {
			line += cell + strings.Repeat(" ", wide[i]-utf8.RuneCountInString(cell)+2)
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}

// problemMark returns the mark in front of objects with warnings or errors.
func problemMark(problems []Problem) string {
	if hasSevereProblem(problems) {
		return "!"
	}
	return " "
}

func (g *Graph) buildNetworkTable() (rows [][]string) {
	for _, n := range g.Networks {
		kind := n.Type
		if n.Default {
			kind += ", default"
		}
		if u := n.Uplink; u != nil {
			rows = append(rows, []string{
				problemMark(n.Problems) + " " + n.Name, kind, joinStrings(u.Addresses),
				"gateway " + joinStrings(u.Gateways),
				u.Interface + " of " + pluralize(len(u.Nodes), "node"), u.Method,
			})
		}
		for _, s := range n.Subnets {
			vlan := ""
			if s.VLANTag > 0 {
				vlan = fmt.Sprintf("VLAN %d", s.VLANTag)
			}
			rows = append(rows, []string{
				problemMark(slices.Concat(n.Problems, s.Problems)) + " " + n.Name, kind, joinStrings(s.Prefixes),
				"gateway " + joinStrings(s.Gateways),
				strings.TrimSpace(vlan + " br-" + s.ProviderNetwork),
				fmt.Sprintf("%s of %s used", formatNumber(s.Used), formatNumber(s.Free+s.Used)),
			})
		}
	}
	return rows
}

func (g *Graph) buildNodeTable() (rows [][]string) {
	idle := 0
	for _, n := range g.Nodes {
		if len(g.Nodes) > maxListed && len(n.GatewayPorts) == 0 && !hasSevereProblem(n.Problems) {
			idle++
			continue
		}
		var holds []string
		for _, h := range n.countGatewayPorts(g.Networks) {
			holds = append(holds, fmt.Sprintf("%s × %d", h.network, h.count))
		}
		rows = append(rows, []string{
			problemMark(n.Problems) + " " + n.Name, cmp.Or(n.formatRole(), "–"),
			joinStrings(n.Addresses), strings.Join(holds, ", "),
		})
	}
	if idle > 0 {
		rows = append(rows, []string{fmt.Sprintf("  and %s more", formatNumber(idle))})
	}
	return rows
}

func (g *Graph) buildEgressTable() (rows [][]string) {
	rest := 0
	for _, e := range g.EgressIPs {
		if len(g.EgressIPs) > maxListed && (!hasSevereProblem(e.Problems) || len(rows) >= maxListed) {
			rest++
			continue
		}
		for _, a := range e.Addresses {
			rows = append(rows, []string{
				problemMark(e.Problems) + " " + e.Ref.Name, a.Address.String(), a.Network,
				"on " + cmp.Or(a.Node, "no node"), pluralize(e.Pods, "pod"),
			})
		}
	}
	if rest > 0 {
		rows = append(rows, []string{fmt.Sprintf("  and %s more", formatNumber(rest))})
	}
	return rows
}

func (g *Graph) buildGatewayTable() (rows [][]string) {
	for _, w := range g.Gateways {
		rows = append(rows, []string{
			problemMark(w.Problems) + " " + w.Ref.Namespace + "/" + w.Ref.Name, strings.Join(w.Addresses, ", "),
			strings.Join(w.Listeners, ", "), w.Class,
		})
	}
	return rows
}

// writeVPC writes a VPC with everything in it.
func (t *textWriter) writeVPC(g *Graph, v *Vpc) {
	t.writeLine(0, "%s %s  %s", problemMark(v.Problems), v.Name, v.describeBriefly())
	groups := g.groupByNetwork(v)
	for i, o := range groups {
		branch, stem := "├─ ", "│  "
		if i == len(groups)-1 {
			branch, stem = "└─ ", "   "
		}
		head := o.describeWithoutPort()
		if o.port.Name != "" {
			head = fmt.Sprintf("%s  router port %s on %s", o.network, joinStrings(o.port.Addresses),
				cmp.Or(o.port.Node, "no node"))
			if o.network == v.EgressNetwork {
				head += ", default"
			}
		}
		t.writeLine(1, "%s%s", branch, head)
		var rows [][]string
		for k, r := range o.rows {
			twig := "├─"
			if k == len(o.rows)-1 {
				twig = "└─"
			}
			rows = append(rows, []string{
				stem + twig + problemMark(r.problems) + r.tag, cmp.Or(r.address, "–"), r.name,
				r.ports, r.formatTargets(),
			})
		}
		for _, line := range alignColumns(rows) {
			t.writeLine(1, "%s", line)
		}
	}
}

// formatTargets returns the targets of a row as text.
func (r addressRow) formatTargets() string {
	const most = 4
	if len(r.targets) == 0 {
		return r.targetText
	}
	var words []string
	for _, x := range r.targets[:min(most, len(r.targets))] {
		text := x.String()
		if !x.Ready {
			text += " (not ready)"
		}
		words = append(words, text)
	}
	if more := len(r.targets) - most; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return "→ " + strings.Join(words, ", ")
}

// writeVPCsFolded writes one line for each VPC, by egress network. If dense is set, it writes only the first of each
// network.
func (t *textWriter) writeVPCsFolded(g *Graph, dense bool) {
	const most = 12
	names := []string{}
	for _, n := range g.Networks {
		names = append(names, n.Name)
	}
	for _, name := range append(names, "") {
		all := g.vpcsByEgressNetwork(name)
		if len(all) == 0 {
			continue
		}
		t.writeLine(0, "")
		t.writeLine(0, "%s with egress through %s", pluralize(len(all), "VPC"), cmp.Or(name, "no external network"))
		shown := all
		if dense {
			shown = all[:min(most, len(all))]
		}
		var rows [][]string
		for _, v := range shown {
			var problems []Problem
			for _, w := range v.SevereProblems() {
				problems = append(problems, w.Problem)
			}
			rows = append(rows, []string{
				problemMark(problems) + " " + v.Name, formatAddrOrDash(v.SNATAddress),
				v.formatCounts(), formatOtherNetworks(v),
			})
		}
		for _, line := range alignColumns(rows) {
			t.writeLine(1, "%s", line)
		}
		if more := len(all) - len(shown); more > 0 {
			t.writeLine(1, "  and %s more", formatNumber(more))
		}
	}
}

// formatOtherNetworks returns the secondary networks of a VPC.
func formatOtherNetworks(v *Vpc) string {
	if len(v.Networks) < 2 {
		return ""
	}
	return "also on " + strings.Join(v.Networks[1:], ", ")
}

// writePaths writes the paths of packets and replies.
func (t *textWriter) writePaths(v *Vpc) {
	if len(v.Connections) == 0 {
		return
	}
	t.writeLine(0, "")
	t.writeLine(0, "packet paths")
	for _, p := range v.Connections {
		t.writeLine(1, "%s", p.Title)
		t.writeLine(2, "request  %s", formatPlaces(p.Request))
		if len(p.Reply) > 0 {
			t.writeLine(2, "reply    %s", formatPlaces(p.Reply))
		}
	}
}

func formatPlaces(all []trace.Place) string {
	var words []string
	for _, s := range all {
		word := s.Label
		if s.Action != "" {
			word += " (" + s.Action + ")"
		}
		if s.Problem {
			word = "! " + word
		}
		words = append(words, word)
	}
	return strings.Join(words, " → ")
}

func (t *textWriter) writeProblems(g *Graph) {
	var rows [][]string
	all := g.SevereProblems()
	for _, w := range condenseProblems(all) {
		more := ""
		if w.more > 0 {
			more = fmt.Sprintf("and %s more", formatNumber(w.more))
		}
		rows = append(rows, []string{"! " + w.Code, w.Ref.String(), more, w.Message})
	}
	t.writeTable(pluralize(len(all), "problem"), rows)
}
