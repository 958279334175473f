package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/insight/trace"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

// traceResult is the result of a trace: the paths of the packet and the problems on them.
type traceResult struct {
	Query       trace.Query                `json:"query"`
	Delivered   bool                       `json:"delivered"` // on every path, as far as is known
	Answered    bool                       `json:"answered"`  // on every path; the pods were asked
	Paths       []tracedPath               `json:"ways"`
	Unread      []clusterstate.ReadFailure `json:"unread,omitempty"`
	LiveSummary []string                   `json:"live,omitempty"` // result of --live
	Sent        *sentResult                `json:"sent,omitempty"` // result of --send

	verbose bool
}

// tracedPath is one path, with the findings that explain its verdict.
type tracedPath struct {
	trace.Path
	Causes   []diagnosis.Finding `json:"causes,omitempty"`
	Mismatch *traceMismatch      `json:"disagrees,omitempty"`
}

func newTraceResult(s *clusterstate.State, q trace.Query) *traceResult {
	out := &traceResult{Query: q, Delivered: true, Answered: true, Unread: s.Unread}
	found := diagnosis.CheckCluster(s)
	for _, p := range trace.New(s).Trace(q).Paths {
		w := tracedPath{Path: p, Causes: p.Causes(s, found)}
		out.Paths = append(out.Paths, w)
		passes := p.Passes() &&
			!slices.ContainsFunc(w.Causes, func(f diagnosis.Finding) bool { return f.Severity == diagnosis.Error })
		out.Delivered = out.Delivered && passes
		out.Answered = out.Answered && passes && p.Verdict == trace.Answered
	}
	return out
}

// printText prints the paths. Paths with the same outcome form a group, of which the first is printed hop by hop.
func (v *traceResult) printText(w io.Writer, i colorizer) error {
	fmt.Fprintf(w, "%s\n", i.bold(v.headline()))
	for _, u := range v.Unread {
		fmt.Fprintf(w, "%s\n", i.yellow(fmt.Sprintf("%s cannot be read: %s", u.System, u.Problem)))
	}
	for _, alike := range v.groupByOutcome() {
		if err := v.printGroup(w, i, alike); err != nil {
			return err
		}
	}
	if len(v.LiveSummary) > 0 {
		fmt.Fprintf(w, "\n%s\n", strings.Join(v.LiveSummary, "\n"))
	}
	if v.Sent != nil {
		return v.Sent.printText(w, i)
	}
	return nil
}

// headline returns the query as one line.
func (v *traceResult) headline() string {
	q := v.Query
	from, to := q.Client.Addr().String(), q.Server.String()
	if q.Client.Port() != 0 {
		from = q.Client.String()
	}
	if q.Pod != "" {
		from = "pod " + q.Pod
	}
	if q.Node != "" {
		from = "node " + q.Node
	}
	if q.Protocol == "icmp" {
		to = q.Server.Addr().String()
	}
	return fmt.Sprintf("%s → %s  %s", from, to, q.Protocol)
}

// groupByOutcome groups paths with the same outcome. With --verbose, each path is a group.
func (v *traceResult) groupByOutcome() (out [][]tracedPath) {
	for _, w := range v.Paths {
		i := slices.IndexFunc(out, func(o []tracedPath) bool {
			return !v.verbose && o[0].Verdict == w.Verdict && o[0].Code == w.Code && o[0].Network == w.Network &&
				o[0].Mismatch == nil && w.Mismatch == nil
		})
		if i < 0 {
			out = append(out, []tracedPath{w})
			continue
		}
		out[i] = append(out[i], w)
	}
	return out
}

func (v *traceResult) printGroup(w io.Writer, i colorizer, alike []tracedPath) error {
	first := alike[0]
	for _, direction := range []struct {
		name string
		hops []trace.Hop
		back bool
	}{{"There", first.RequestHops, false}, {"Back", first.ReplyHops, true}} {
		if len(direction.hops) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s\n", i.faint(direction.name))
		if err := v.printHops(w, i, direction.hops, first.Mismatch.hopIndex(direction.back)); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "\n%s\n", first.verdictLine(i))
	if len(alike) > 1 {
		fmt.Fprintf(w, "  likewise by %s\n", strings.Join(backendNames(alike[1:]), ", "))
	}
	for _, doubt := range first.Caveats {
		fmt.Fprintf(w, "  %s\n", i.yellow(doubt))
	}
	printCauses(w, i, first)
	return nil
}

// printHops prints the hops of one direction: node, object, action, and the packet where it changed.
func (v *traceResult) printHops(w io.Writer, i colorizer, hops []trace.Hop, marked int) error {
	rows := newTable(w)
	packet, node := "", ""
	for k, h := range hops {
		changed, at := h.Packet, h.Node
		if changed == packet {
			changed = ""
		}
		if at == node {
			at = ""
		}
		packet, node = h.Packet, h.Node
		text := h.Text
		if k == marked {
			text = "✗ " + text
		}
		if v.verbose && h.Row != "" {
			text += " [" + h.Row + "]"
		}
		fmt.Fprintln(rows, strings.TrimRight(fmt.Sprintf("  %s\t%s\t%s\t%s", at, h.About, text, i.faint(changed)),
			" \t"))
	}
	return rows.Flush()
}

// verdictLine returns the verdict of a path as one line.
func (x tracedPath) verdictLine(i colorizer) string {
	switch {
	case !x.Passes():
		return i.red(x.Verdict) + ": " + x.Reason
	case len(x.Causes) > 0:
		return i.yellow(x.Verdict+" according to OVN's rows") + ", but there are problems on the path"
	}
	text := fmt.Sprintf("%s to %s, which sees %s", i.green(x.Verdict), x.serverText(), x.SeenSource)
	if x.Verdict == trace.Answered {
		text = fmt.Sprintf("%s by %s, which sees %s", i.green(x.Verdict), x.serverText(), x.SeenSource)
	}
	if x.Network != "" {
		text += "; by network " + x.Network
	}
	return text
}

// serverText returns the backend that receives the packet, without a port for ICMP.
func (x tracedPath) serverText() string {
	if x.Server.Port() == 0 {
		return x.Server.Addr().String()
	}
	return x.Server.String()
}

// backendNames returns the backend of each path.
func backendNames(all []tracedPath) (out []string) {
	for _, w := range all {
		name := w.serverText()
		if n := len(w.RequestHops); n > 0 && w.RequestHops[n-1].About.Kind == clusterstate.PodKind {
			name = w.RequestHops[n-1].About.String()
		}
		out = append(out, name)
	}
	return out
}

// maxCauses limits the findings that are printed after the first.
const maxCauses = 4

// printCauses prints the findings that explain the verdict, without those that repeat its reason.
func printCauses(w io.Writer, i colorizer, x tracedPath) {
	if len(x.Causes) == 0 {
		return
	}
	first := x.Causes[0]
	fmt.Fprintf(w, "\n%s: %s\n", i.bold("Cause"), i.red(first.Headline()))
	if first.Message != x.Reason {
		fmt.Fprintf(w, "  %s\n", first.Message)
	}
	fmt.Fprintf(w, "  → %s\n", first.Remediation)
	rest := slices.DeleteFunc(slices.Clone(x.Causes[1:]), func(f diagnosis.Finding) bool {
		return f.Message == x.Reason
	})
	for k, f := range rest {
		if k == 0 {
			fmt.Fprintf(w, "\nOther problems on the path\n")
		}
		if k == maxCauses {
			fmt.Fprintf(w, "  … and %d more: sallyport doctor\n", len(rest)-k)
			return
		}
		fmt.Fprintf(w, "  %s: %s\n", f.Code, f.Message)
	}
}
