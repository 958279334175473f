package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/insight/trace"
	"github.com/sallyport/sallyport/internal/model/humanize"
)

// headingWidth is the width of the column of headings.
const headingWidth = 12

// page is a text with a column of headings.
type page struct{ strings.Builder }

// writeSection writes lines with a heading. Without lines it writes nothing.
func (p *page) writeSection(heading string, lines ...string) {
	for i, l := range lines {
		if i > 0 {
			heading = ""
		}
		indented := strings.ReplaceAll(strings.TrimSpace(l), "\n", "\n"+strings.Repeat(" ", headingWidth))
		fmt.Fprintf(p, "%-*s%s\n", headingWidth, heading, indented)
	}
}

// Text returns the explanation as text. Unless all is set, it is shortened to fit on a screen.
func (x Explanation) Text(all bool) string {
	p := &page{}
	x.writeHeadline(p, all)
	p.writeSection("Address", limitLines(humanize.Strings(x.Addresses), all)...)
	p.writeSection("Requested", x.Requested...)
	p.writeSection("Path", formatPath(x.Path, all)...)
	p.writeSection("Has", formatParts(x.Parts, all)...)
	if all {
		x.writeDetails(p)
	} else {
		p.writeSection("In place", x.countCompiled()...)
		p.writeSection("Conditions", x.summarizeConditions()...)
	}
	p.writeSection("Differs", x.formatDifferences(all)...)
	p.writeSection("Not read", formatFacts(x.ReadFailures)...)
	x.writeFindings(p, all)
	p.writeSection("Next", x.remainingSteps()...)
	return p.String()
}

func (x Explanation) writeHeadline(p *page, all bool) {
	switch w := x.AddressOwners; {
	case w == nil:
		fmt.Fprintf(p, "%s %s\n", x.About, x.State)
	case len(w.Owners) == 0:
		fmt.Fprintf(p, "%s %s\n", w.Address, x.State)
		if w.Pool != "" {
			p.writeSection("Pool", w.Pool)
		} else {
			p.writeSection("Pool", "none of this cluster")
		}
	default:
		fmt.Fprintf(p, "%s: %s %s\n", w.Address, x.About, x.State)
		var who []string
		for _, h := range w.Owners {
			who = append(who, h.About.String()+": "+h.Text)
		}
		p.writeSection("Owner", limitLines(who, all)...)
	}
}

// formatPath formats the hops of a path.
func formatPath(path []trace.Hop, all bool) []string {
	var lines []Part
	for i, h := range path {
		text := h.About.String() + ": " + strings.TrimPrefix(h.Text, h.About.String()+" ")
		if i > 0 && !h.Broken {
			text = "→ " + text
		}
		lines = append(lines, Part{Text: text, Broken: h.Broken})
	}
	return formatParts(lines, all)
}

// formatParts formats parts. If there are too many, broken ones are kept and others are dropped from the end.
func formatParts(parts []Part, all bool) []string {
	var out []string
	left := maxSectionLines
	for _, s := range parts {
		if s.Broken {
			left--
		}
	}
	more := 0
	for _, s := range parts {
		switch left--; {
		case s.Broken:
			left++
			out = append(out, "✗ "+s.Text)
		case left < 0 && !all:
			more++
		default:
			out = append(out, s.Text)
		}
	}
	if more > 0 {
		out = append(out, fmt.Sprintf("and %d more; -v shows all", more))
	}
	return out
}

// writeDetails writes the sections that only a complete explanation has.
func (x Explanation) writeDetails(p *page) {
	var made, rows []string
	for _, m := range x.Compiled {
		made = append(made, fmt.Sprintf("%s %s    # %s", map[bool]string{true: "✓", false: "✗"}[m.Present], m.Text,
			m.Origin))
	}
	for _, r := range x.Rows {
		rows = append(rows, strings.TrimSpace(r.Table+" "+r.Parent)+": "+r.Text)
	}
	var conditions []string
	for _, c := range x.Conditions {
		conditions = append(conditions, c.String())
	}
	p.writeSection("Compiled", made...)
	p.writeSection("OVN", rows...)
	p.writeSection("Nodes", formatFacts(x.Nodes)...)
	p.writeSection("Conditions", append(conditions, x.formatStaleConditions()...)...)
	p.writeSection("Events", formatFacts(x.Events)...)
}

// String returns the condition as one line.
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

func formatFacts(list []Fact) []string {
	var out []string
	for _, f := range list {
		out = append(out, f.Source+": "+f.Text)
	}
	return out
}

// countCompiled counts the compiled entries by kind or table, and how many of them are present.
func (x Explanation) countCompiled() []string {
	var order []string
	own, shared, there, wanted := map[string]int{}, 0, 0, 0
	for _, m := range x.Compiled {
		if strings.HasPrefix(m.Text, x.About.String()+" ") {
			continue // the finalizer of the object itself does not count
		}
		wanted++
		if m.Present {
			there++
		}
		kind, _, _ := strings.Cut(m.Text, " ")
		switch {
		case m.Origin != x.About:
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
		counts = append(counts, fmt.Sprintf("%d shared", shared))
	}
	if wanted == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d of %d: %s", there, wanted, humanize.JoinLimited(counts, 6))}
}

// summarizeConditions lists the good conditions in one line and each failing condition in a line of its own.
func (x Explanation) summarizeConditions() []string {
	var good, out []string
	for _, c := range x.Conditions {
		switch {
		case c.isFailing():
			out = append(out, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
		case slices.Contains(positiveConditions, c.Type):
			good = append(good, c.Type)
		}
	}
	if len(good) > 0 {
		out = append([]string{strings.Join(good, ", ")}, out...)
	}
	return append(out, x.formatStaleConditions()...)
}

// formatStaleConditions lists the conditions in the object's status that are out of date.
func (x Explanation) formatStaleConditions() []string {
	var out []string
	for _, c := range x.StaleConditions {
		out = append(out, "it still says "+c.String())
	}
	return out
}

func (x Explanation) formatDifferences(all bool) []string {
	var out []string
	for _, d := range x.Differences {
		sign, rest, _ := strings.Cut(d.Text, " ")
		out = append(out, map[string]string{
			"+": "missing: ",
			"-": "unexpected: ",
			"~": "different: ",
		}[sign]+rest)
	}
	return limitLines(out, all)
}

// maxSectionLines limits the lines of a section, so that the text fits on a screen.
const maxSectionLines = 8

// limitLines returns the first lines and the number of omitted ones, or all lines.
func limitLines(lines []string, all bool) []string {
	if all || len(lines) <= maxSectionLines {
		return lines
	}
	return append(lines[:maxSectionLines-1:maxSectionLines-1],
		fmt.Sprintf("and %d more; -v shows all", len(lines)-maxSectionLines+1))
}

// writeFindings writes the findings with their remedies, causes first.
func (x Explanation) writeFindings(p *page, all bool) {
	found := slices.DeleteFunc(slices.Clone(x.Findings), func(f diagnosis.Finding) bool {
		return f.Severity == diagnosis.Info && !all
	})
	switch {
	case len(found) > 0:
		fmt.Fprintln(p, "Wrong")
	case x.isBroken():
		p.writeSection("Wrong", "see ✗ above")
	case len(x.ReadFailures) == 0:
		p.writeSection("Wrong", "nothing found")
	}
	for _, f := range found {
		about := x.About
		if !slices.Contains(f.About, about) && len(f.About) > 0 {
			about = f.About[0]
		}
		prefix := strings.TrimSpace(about.String()) + ": "
		fmt.Fprintf(p, "  %s %s %s%s\n", f.Severity, f.Code, prefix, strings.TrimPrefix(f.Message, prefix))
		if f.Remediation != "" {
			fmt.Fprintf(p, "    Do: %s\n", f.Remediation)
		}
	}
}

// remainingSteps returns the next steps that are not remedies of findings.
func (x Explanation) remainingSteps() []string {
	return slices.DeleteFunc(slices.Clone(x.NextSteps), func(n string) bool {
		return slices.ContainsFunc(x.Findings, func(f diagnosis.Finding) bool { return f.Remediation == n })
	})
}
