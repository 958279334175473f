package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Text is the graph for a terminal: a tree. As in a picture, each of many projects is one line, and of very many the worst are shown.
func (g *Graph) Text() string {
	var t tree
	t.line(0, "%s  %s  %s", g.name(), g.summary(), g.Taken.UTC().Format("2006-01-02 15:04 MST"))
	t.table("networks", g.networkTable())
	t.table("nodes", g.nodeTable())
	t.table("egress addresses", g.egressTable())
	t.table("gateways", g.gatewayTable())
	projects := g.projects()
	switch {
	case g.Focus != "" || projects < foldAt:
		for i := range g.Vpcs {
			t.line(0, "")
			t.vpc(g, &g.Vpcs[i])
		}
	default:
		t.folded(g, projects >= denseAt)
	}
	if g.Focus != "" {
		t.paths(&g.Vpcs[0])
	}
	t.troubles(g)
	return t.String()
}

// tree is text that is indented and aligned.
type tree struct{ strings.Builder }

func (t *tree) line(indent int, format string, args ...any) {
	text := strings.TrimRight(fmt.Sprintf(format, args...), " ")
	if text != "" {
		t.WriteString(strings.Repeat("  ", indent) + text)
	}
	t.WriteByte('\n')
}

// table writes rows under a title, each column as wide as its widest cell.
func (t *tree) table(title string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	t.line(0, "")
	t.line(0, "%s", title)
	for _, line := range aligned(rows) {
		t.line(1, "%s", line)
	}
}

// aligned are rows as lines, each column as wide as its widest cell.
func aligned(rows [][]string) (lines []string) {
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

// mark is in front of what something is wrong with.
func mark(problems []Problem) string {
	if severe(problems) {
		return "!"
	}
	return " "
}

func (g *Graph) networkTable() (rows [][]string) {
	for _, n := range g.Networks {
		kind := n.Type
		if n.Default {
			kind += ", default"
		}
		if u := n.Uplink; u != nil {
			rows = append(rows, []string{
				mark(n.Problems) + " " + n.Name, kind, join(u.Addresses), "gateway " + join(u.Gateways),
				u.Interface + " of " + many(len(u.Nodes), "node"), u.Method,
			})
		}
		for _, s := range n.Subnets {
			vlan := ""
			if s.Tag > 0 {
				vlan = fmt.Sprintf("VLAN %d", s.Tag)
			}
			rows = append(rows, []string{
				mark(slices.Concat(n.Problems, s.Problems)) + " " + n.Name, kind, join(s.Prefixes), "gateway " + join(s.Gateways),
				strings.TrimSpace(vlan + " br-" + s.Provider), fmt.Sprintf("%s of %s used", number(s.Used), number(s.Free+s.Used)),
			})
		}
	}
	return rows
}

func (g *Graph) nodeTable() (rows [][]string) {
	idle := 0
	for _, n := range g.Nodes {
		if len(g.Nodes) > mostOf && len(n.Holds) == 0 && !severe(n.Problems) {
			idle++
			continue
		}
		var holds []string
		for _, h := range n.held(g.Networks) {
			holds = append(holds, fmt.Sprintf("%s × %d", h.network, h.count))
		}
		rows = append(rows, []string{mark(n.Problems) + " " + n.Name, cmp.Or(n.role(), "–"), join(n.Addresses), strings.Join(holds, ", ")})
	}
	if idle > 0 {
		rows = append(rows, []string{fmt.Sprintf("  and %s more", number(idle))})
	}
	return rows
}

func (g *Graph) egressTable() (rows [][]string) {
	rest := 0
	for _, e := range g.Egress {
		if len(g.Egress) > mostOf && (!severe(e.Problems) || len(rows) >= mostOf) {
			rest++
			continue
		}
		for _, a := range e.Addresses {
			rows = append(rows, []string{
				mark(e.Problems) + " " + e.Ref.Name, a.Address.String(), a.Network, "on " + cmp.Or(a.Node, "nobody"), many(e.Pods, "pod"),
			})
		}
	}
	if rest > 0 {
		rows = append(rows, []string{fmt.Sprintf("  and %s more", number(rest))})
	}
	return rows
}

func (g *Graph) gatewayTable() (rows [][]string) {
	for _, w := range g.Gateways {
		rows = append(rows, []string{
			mark(w.Problems) + " " + w.Ref.Namespace + "/" + w.Ref.Name, strings.Join(w.Addresses, ", "), strings.Join(w.Listeners, ", "), w.Class,
		})
	}
	return rows
}

// vpc writes a VPC with everything in it.
func (t *tree) vpc(g *Graph, v *Vpc) {
	t.line(0, "%s %s  %s", mark(v.Problems), v.Name, v.about())
	groups := g.groups(v)
	for i, o := range groups {
		branch, stem := "├─ ", "│  "
		if i == len(groups)-1 {
			branch, stem = "└─ ", "   "
		}
		head := o.without()
		if o.port.Name != "" {
			head = fmt.Sprintf("%s  router port %s on %s", o.network, join(o.port.Addresses), cmp.Or(o.port.Node, "no node"))
			if o.network == v.Network {
				head += ", default"
			}
		}
		t.line(1, "%s%s", branch, head)
		var rows [][]string
		for k, r := range o.rows {
			twig := "├─"
			if k == len(o.rows)-1 {
				twig = "└─"
			}
			rows = append(rows, []string{stem + twig + mark(r.problems) + r.sign, cmp.Or(r.address, "–"), r.name, r.ports, r.ends()})
		}
		for _, line := range aligned(rows) {
			t.line(1, "%s", line)
		}
	}
}

// ends is where connections of a row end, in words.
func (r row) ends() string {
	const most = 4
	if len(r.targets) == 0 {
		return r.to
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

// folded writes a line for each VPC, by network; of very many, the worst.
func (t *tree) folded(g *Graph, dense bool) {
	const most = 12
	names := []string{}
	for _, n := range g.Networks {
		names = append(names, n.Name)
	}
	for _, name := range append(names, "") {
		all := g.leaving(name)
		if len(all) == 0 {
			continue
		}
		t.line(0, "")
		t.line(0, "%s by %s", many(len(all), "VPC"), cmp.Or(name, "no external network"))
		shown := all
		if dense {
			shown = all[:min(most, len(all))]
		}
		var rows [][]string
		for _, v := range shown {
			var problems []Problem
			for _, w := range v.Wrong() {
				problems = append(problems, w.Problem)
			}
			rows = append(rows, []string{mark(problems) + " " + v.Name, text(v.Address), v.tally(), others(v)})
		}
		for _, line := range aligned(rows) {
			t.line(1, "%s", line)
		}
		if more := len(all) - len(shown); more > 0 {
			t.line(1, "  and %s more like these", number(more))
		}
	}
}

// others are the networks that a VPC is on beside the default one.
func others(v *Vpc) string {
	if len(v.Networks) < 2 {
		return ""
	}
	return "also on " + strings.Join(v.Networks[1:], ", ")
}

// paths writes the way of packets there and back.
func (t *tree) paths(v *Vpc) {
	if len(v.Paths) == 0 {
		return
	}
	t.line(0, "")
	t.line(0, "the way of packets, there and back")
	for _, p := range v.Paths {
		t.line(1, "%s", p.Title)
		t.line(2, "there  %s", steps(p.There))
		if len(p.Back) > 0 {
			t.line(2, "back   %s", steps(p.Back))
		}
	}
}

func steps(all []Step) string {
	var words []string
	for _, s := range all {
		word := s.Label
		if s.Action != "" && (s.Kind != AtNode || s.Ref.Kind == "") {
			word += " (" + s.Action + ")"
		}
		if s.Problem {
			word = "! " + word
		}
		words = append(words, word)
	}
	return strings.Join(words, " → ")
}

func (t *tree) troubles(g *Graph) {
	var rows [][]string
	all := g.Wrong()
	for _, w := range condensed(all) {
		more := ""
		if w.more > 0 {
			more = fmt.Sprintf("and %s more", number(w.more))
		}
		rows = append(rows, []string{"! " + w.Code, w.Ref.String(), more, w.Message})
	}
	t.table(many(len(all), "problem"), rows)
}
