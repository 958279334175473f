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
	x.headline(p, all)
	p.section("Address", some(words.Of(x.Addresses), all)...)
	p.section("Asked", x.Asked...)
	p.section("Path", arrows(x.Path, all)...)
	p.section("Has", some(told(x.Has), all)...)
	if all {
		x.everything(p)
	} else {
		p.section("In place", x.inPlace()...)
		p.section("Conditions", x.short()...)
	}
	p.section("Differs", x.differs(all)...)
	p.section("Not read", facts(x.Unread)...)
	x.wrong(p, all)
	p.section("Next", x.next()...)
	return p.String()
}

func (x Explanation) headline(p *page, all bool) {
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
		p.section("Whose", some(who, all)...)
	}
}

// arrows is a path in lines. Where there are too many, those stay that matter.
func arrows(path []Step, all bool) []string {
	var out []string
	left := screen
	for _, s := range path {
		if s.Broken {
			left--
		}
	}
	more := 0
	for i, s := range path {
		switch left--; {
		case s.Broken:
			left++
			out = append(out, "✗ "+s.Text)
		case left < 0 && !all:
			more++
		case i == 0:
			out = append(out, s.Text)
		default:
			out = append(out, "→ "+s.Text)
		}
	}
	if more > 0 {
		out = append(out, fmt.Sprintf("and %d more; -v shows all", more))
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
	var order []string
	own, shared, there, wanted := map[string]int{}, 0, 0, 0
	for _, m := range x.Made {
		if strings.HasPrefix(m.Text, x.About.String()+" ") {
			continue // that we take care of the object is nothing that was made for it
		}
		wanted++
		if m.There {
			there++
		}
		kind, _, _ := strings.Cut(m.Text, " ")
		switch {
		case m.By != x.About:
			shared++
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
	if wanted == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d of %d: %s", there, wanted, words.Few(counts, 6))}
}

// short is the conditions in a line, and those that are not as they should be in full.
func (x Explanation) short() []string {
	var good, out []string
	for _, c := range x.Conditions {
		switch {
		case c.bad():
			out = append(out, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
		case slices.Contains(hoped, c.Type):
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
	return some(out, all)
}

// screen is how many lines of a section fit on a screen with the others.
const screen = 8

// some are the first lines, and how many more there are; or all.
func some(lines []string, all bool) []string {
	if all || len(lines) <= screen {
		return lines
	}
	return append(lines[:screen-1:screen-1], fmt.Sprintf("and %d more; -v shows all", len(lines)-screen+1))
}

// wrong writes what is wrong, the cause first, and what to do about it.
func (x Explanation) wrong(p *page, all bool) {
	found := slices.DeleteFunc(slices.Clone(x.Wrong), func(f diagnosis.Finding) bool { return f.Severity == diagnosis.Info && !all })
	switch {
	case len(found) > 0:
		fmt.Fprintln(p, "Wrong")
	case slices.ContainsFunc(x.Path, func(s Step) bool { return s.Broken }):
		p.section("Wrong", "where the way has ✗")
	case len(x.Unread) == 0:
		p.section("Wrong", "nothing found")
	}
	for _, f := range found {
		about := x.About
		if !slices.Contains(f.About, about) && len(f.About) > 0 {
			about = f.About[0]
		}
		prefix := strings.TrimSpace(about.String()) + ": "
		fmt.Fprintf(p, "  %s %s %s%s\n", f.Severity, f.Code, prefix, strings.TrimPrefix(f.Message, prefix))
		if f.Cure != "" {
			fmt.Fprintf(p, "    Do: %s\n", f.Cure)
		}
	}
}

// next is what to do besides the cures, which are told with what they cure.
func (x Explanation) next() []string {
	return slices.DeleteFunc(slices.Clone(x.Next), func(n string) bool {
		return slices.ContainsFunc(x.Wrong, func(f diagnosis.Finding) bool { return f.Cure == n })
	})
}
