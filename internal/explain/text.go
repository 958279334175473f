package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/diagnosis"
	"github.com/sallyport/sallyport/internal/words"
)

// column is how wide the headings of a text are.
const column = 12

// page is a text of headings with lines beside them.
type page struct{ strings.Builder }

// section writes lines beside a heading; none: nothing.
func (p *page) section(heading string, lines ...string) {
	for i, l := range lines {
		if i > 0 {
			heading = ""
		}
		indented := strings.ReplaceAll(strings.TrimSpace(l), "\n", "\n"+strings.Repeat(" ", column))
		fmt.Fprintf(p, "%-*s%s\n", column, heading, indented)
	}
}

// Text is the explanation for people: a screen, or everything.
func (x Explanation) Text(all bool) string {
	p := &page{}
	x.headline(p)
	p.section("Address", words.Of(x.Addresses)...)
	p.section("Asked", x.Asked...)
	p.section("Path", arrows(x.Path)...)
	p.section("Has", told(x.Has)...)
	if all {
		x.everything(p)
	} else {
		p.section("In place", x.inPlace()...)
		p.section("Conditions", x.short()...)
	}
	p.section("Differs", x.differs(all)...)
	p.section("Not read", facts(x.Unread)...)
	p.section("Wrong", x.wrong()...)
	p.section("Next", x.next()...)
	return p.String()
}

func (x Explanation) headline(p *page) {
	switch w := x.Whose; {
	case w == nil:
		fmt.Fprintf(p, "%s %s\n", x.About, x.State)
	case len(w.Holders) == 0:
		fmt.Fprintf(p, "%s %s\n", w.Address, x.State)
		if w.Pool != "" {
			p.section("Pool", w.Pool)
		} else {
			p.section("Pool", "none of this cluster")
		}
	default:
		fmt.Fprintf(p, "%s: %s %s\n", w.Address, x.About, x.State)
		var who []string
		for _, h := range w.Holders {
			who = append(who, h.About.String()+": "+h.Text)
		}
		p.section("Whose", who...)
	}
}

func arrows(path []Step) []string {
	var out []string
	for i, s := range path {
		switch {
		case s.Broken:
			s.Text = "✗ " + s.Text
		case i > 0:
			s.Text = "→ " + s.Text
		}
		out = append(out, s.Text)
	}
	return out
}

func told(steps []Step) []string {
	var out []string
	for _, s := range steps {
		out = append(out, s.Text)
	}
	return out
}

// everything is what only somebody looks at who has to know exactly.
func (x Explanation) everything(p *page) {
	var made, rows []string
	for _, m := range x.Made {
		made = append(made, fmt.Sprintf("%s %s    # %s", map[bool]string{true: "✓", false: "✗"}[m.There], m.Text, m.By))
	}
	for _, r := range x.Rows {
		rows = append(rows, strings.TrimSpace(r.Table+" "+r.On)+": "+r.Text)
	}
	var conditions []string
	for _, c := range x.Conditions {
		conditions = append(conditions, c.String())
	}
	p.section("Compiled", made...)
	p.section("OVN", rows...)
	p.section("Nodes", facts(x.Nodes)...)
	p.section("Conditions", append(conditions, x.stale()...)...)
	p.section("Events", facts(x.Events)...)
}

// String is the condition in a line.
func (c Condition) String() string {
	out := c.Type + "=" + c.Status
	if c.Reason != "" && c.Reason != c.Type {
		out += " " + c.Reason
	}
	if c.Message != "" {
		out += ": " + c.Message
	}
	return out
}

func facts(list []Fact) []string {
	var out []string
	for _, f := range list {
		out = append(out, f.Who+": "+f.Text)
	}
	return out
}

// inPlace counts what was compiled for the object and is there, by kind and table.
func (x Explanation) inPlace() []string {
	if len(x.Made) == 0 {
		return nil
	}
	var order []string
	own, shared, there := map[string]int{}, 0, 0
	for _, m := range x.Made {
		if m.There {
			there++
		}
		kind, _, _ := strings.Cut(m.Text, " ")
		switch {
		case m.By != x.About:
			shared++
		case strings.HasPrefix(m.Text, x.About.String()+" "): // that we take care of the object is nothing that was made for it
		case own[kind] == 0:
			order = append(order, kind)
			fallthrough
		default:
			own[kind]++
		}
	}
	var counts []string
	for _, kind := range order {
		counts = append(counts, fmt.Sprintf("%d %s", own[kind], kind))
	}
	if shared > 0 {
		counts = append(counts, fmt.Sprintf("%d that it shares", shared))
	}
	return []string{fmt.Sprintf("%d of %d: %s", there, len(x.Made), strings.Join(counts, ", "))}
}

// short is the conditions in a line, and those that are not as they should be in full.
func (x Explanation) short() []string {
	var good, out []string
	for _, c := range x.Conditions {
		if c.bad() {
			out = append(out, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
		} else {
			good = append(good, c.Type)
		}
	}
	if len(good) > 0 {
		out = append([]string{strings.Join(good, ", ")}, out...)
	}
	return append(out, x.stale()...)
}

// stale is the conditions that the object has and that do not follow.
func (x Explanation) stale() []string {
	var out []string
	for _, c := range x.Stated {
		out = append(out, "it still says "+c.String())
	}
	return out
}

// differs is what is not as it should be.
func (x Explanation) differs(all bool) []string {
	var out []string
	for _, d := range x.Differs {
		sign, rest, _ := strings.Cut(d.Text, " ")
		out = append(out, map[string]string{"+": "missing: ", "-": "too much: ", "~": "other than it should be: "}[sign]+rest)
	}
	if most := 4; !all && len(out) > most {
		return append(out[:most:most], fmt.Sprintf("and %d more; -v shows all", len(out)-most))
	}
	return out
}

func (x Explanation) wrong() []string {
	out := make([]string, 0, len(x.Wrong))
	for _, f := range x.Wrong {
		line := fmt.Sprintf("%s %s: %s", f.Severity, f.Code, f.Message)
		if !slices.Contains(f.About, x.About) && len(f.About) > 0 && f.About[0] != diagnosis.Platform {
			line = fmt.Sprintf("%s %s, %s: %s", f.Severity, f.Code, f.About[0], f.Message)
		}
		if f.Cure != "" {
			line += "\nDo: " + f.Cure
		}
		out = append(out, line)
	}
	switch {
	case len(out) > 0 || len(x.Unread) > 0:
		return out
	case slices.ContainsFunc(x.Path, func(s Step) bool { return s.Broken }):
		return []string{"where the way has ✗"}
	default:
		return []string{"nothing found"}
	}
}

// next is what to do besides the cures, which are told with what they cure.
func (x Explanation) next() []string {
	return slices.DeleteFunc(slices.Clone(x.Next), func(n string) bool {
		return slices.ContainsFunc(x.Wrong, func(f diagnosis.Finding) bool { return f.Cure == n })
	})
}
