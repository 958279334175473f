package golden

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/internal/model/status"
)

// printIntent formats an intent and the statuses that follow from verdicts for review by a network engineer: one line
// for each entry, with the object that asked for it.
func printIntent(in *intent.Intent, verdicts []intent.Verdict, shard string, hide []string) string {
	p := &printer{hide: hide, hidden: map[state.Ref]int{}}
	printSection(p, "objects", in.Objects, func(k intent.ObjectKey, o intent.Object) string {
		return k.String() + formatObject(o)
	})
	printSection(p, "entries of Vpc "+shard, in.VpcEntries, func(k intent.VpcEntryKey, e intent.VpcEntry) string {
		return foreignPrefix(k.Vpc, shard) + formatElement(k, e)
	})
	printSection(p, "rows of router "+shard, in.Rows, func(k intent.RowKey, r intent.Row) string {
		return fmt.Sprintf("%s%s %s → %s", foreignPrefix(k.Router, shard), k.Table, k.ID, r)
	})
	p.printHidden()
	p.printLine("finalizers")
	for _, key := range slices.SortedFunc(maps.Keys(in.Finalizers), intent.ObjectKey.Compare) {
		p.printLine("  " + key.String())
	}
	p.printLine("status")
	statuses := status.RenderStatuses(verdicts, status.Outcome{})
	for _, key := range slices.SortedFunc(maps.Keys(statuses), intent.ObjectKey.Compare) {
		p.printStatus(key, statuses[key].Value.Content)
	}
	return p.out.String()
}

type printer struct {
	out    strings.Builder
	hide   []string
	hidden map[state.Ref]int
}

func (p *printer) printLine(text string) { p.out.WriteString(strings.TrimRight(text, " ") + "\n") }

func printSection[K state.Key[K], V state.Value[V]](p *printer, title string, set state.Set[K, V],
	text func(K, V) string,
) {
	p.printLine(title)
	for _, key := range slices.SortedFunc(maps.Keys(set), K.Compare) {
		entry := set[key]
		if slices.Contains(p.hide, entry.Origin.Kind) {
			p.hidden[entry.Origin]++
			continue
		}
		p.printLine(fmt.Sprintf("  %s  # %s", text(key, entry.Value), entry.Origin))
	}
}

// printHidden prints the numbers of hidden entries.
func (p *printer) printHidden() {
	byName := func(a, b state.Ref) int { return strings.Compare(a.String(), b.String()) }
	for _, ref := range slices.SortedFunc(maps.Keys(p.hidden), byName) {
		n := p.hidden[ref]
		p.printLine(fmt.Sprintf("and %d more  # %s", n, ref))
	}
}

// formatObject formats the spec of an object, and its labels except those that all objects of the controller have.
func formatObject(o intent.Object) string {
	var body struct {
		Metadata intent.Meta
		Spec     map[string]any
	}
	if err := json.Unmarshal([]byte(o.Content), &body); err != nil {
		panic(err)
	}
	out := ""
	if !ownership.IsManagedObject(body.Metadata.Labels) {
		out += " NOT OURS"
	}
	for _, name := range slices.Sorted(maps.Keys(body.Metadata.Labels)) {
		if name != ownership.ManagedByLabel && name != ownership.ShardLabel {
			out += fmt.Sprintf(" %s=%s", name, body.Metadata.Labels[name])
		}
	}
	if body.Spec == nil { // a kind without spec
		if err := json.Unmarshal([]byte(o.Content), &body.Spec); err != nil {
			panic(err)
		}
		delete(body.Spec, "metadata")
	}
	for _, name := range slices.Sorted(maps.Keys(body.Spec)) {
		out += fmt.Sprintf(" %s=%v", name, body.Spec[name])
	}
	if o.Terminating {
		out += " (being deleted)"
	}
	return out
}

// formatElement formats an entry of a Vpc's list without the fields that are in its key.
func formatElement(key intent.VpcEntryKey, e intent.VpcEntry) string {
	var body struct{ Action, Policy, NextHopIP string }
	if json.Unmarshal([]byte(e.Content), &body) != nil { // a plain value
		return fmt.Sprintf("%s %s", key.List, e.Content)
	}
	return fmt.Sprintf("%s %s → %s%s %s", key.List, key.ID, body.Action, body.Policy, body.NextHopIP)
}

// foreignPrefix marks an entry that does not belong to the shard.
func foreignPrefix(where, shard string) string {
	if where == shard {
		return ""
	}
	return "NOT OURS " + where + " "
}

// printStatus prints the fields of a status, and the conditions that are not true.
func (p *printer) printStatus(key intent.ObjectKey, content string) {
	body := map[string]any{}
	if err := json.Unmarshal([]byte(content), &body); err != nil {
		panic(err)
	}
	text := "  " + key.String() + ":"
	for _, name := range slices.Sorted(maps.Keys(body)) {
		if name != "conditions" && body[name] != "" {
			text += fmt.Sprintf(" %s=%v", name, formatOwners(body[name]))
		}
	}
	p.printLine(text)
	conditions, _ := body["conditions"].([]any)
	for _, c := range conditions {
		c := c.(map[string]any)
		if c["status"] != "True" && !intent.IsConsequence(fmt.Sprint(c["reason"])) {
			p.printLine(fmt.Sprintf("    %s=%s %s: %s", c["type"], c["status"], c["reason"], c["message"]))
		}
	}
}

// formatOwners formats a list of owners, and returns anything else unchanged.
func formatOwners(v any) any {
	list, isList := v.([]any)
	if !isList {
		return v
	}
	var names []string
	for _, item := range list {
		if owner, isOwner := item.(map[string]any); isOwner {
			names = append(names, fmt.Sprintf("%s %s", owner["type"], owner["ownerRef"]))
		}
	}
	return names
}
