package compile

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// EgressMemo is the compiled egress addresses. It follows changes of EgressIPs that change nothing but verdicts: other
// pods of the same VPCs, or pods that can't be served. Such a change costs its EgressIP, not all of them. For every other
// change there is no shortcut: Update says so, and all egress addresses are compiled again. What other EgressIPs decide
// about an EgressIP (who has an address, which node holds it, the networks of links) does not depend on what changes.
//
// A memo holds its snapshot as it would be read now: Check compares it with a compilation of that snapshot.
type EgressMemo struct {
	w        *snapshot.EgressInput
	requests []*egressIPRequest

	byName map[string]egressMemoEntry
	before map[string]snapshot.EgressIP // of those that changed: as they were when everything was compiled
}

// egressMemoEntry is a request, and its position in the snapshot.
type egressMemoEntry struct {
	*egressIPRequest
	index int
}

// EgressUpdate is what follows from changed EgressIPs.
type EgressUpdate struct {
	// Verdicts are the verdicts on these EgressIPs, and Before what they were.
	Verdicts, Before []intent.Verdict
}

// Settle prepares the memo for updates, after everything in the intent was written and observed. It takes over the
// snapshot, which nobody else may use any more. It returns false if addresses are about to move: then everything has to
// be compiled again.
func (m *EgressMemo) Settle() bool {
	m.byName = make(map[string]egressMemoEntry, len(m.requests))
	m.before = map[string]snapshot.EgressIP{}
	for _, q := range m.requests {
		if q.RebalanceRequested != q.Rebalanced ||
			slices.ContainsFunc(q.addresses, func(h *egressAddress) bool { return h.rebalanced }) {
			return false
		}
		m.byName[q.Name] = egressMemoEntry{egressIPRequest: q}
	}
	for i := range m.w.EgressIPs {
		if entry, known := m.byName[m.w.EgressIPs[i].Name]; known {
			entry.index = i
			m.byName[entry.Name] = entry
		}
	}
	return true
}

// Update follows changes of some EgressIPs: it returns what a compilation of all would change. If it returns false,
// everything has to be compiled again, and the memo must not be used any more.
func (m *EgressMemo) Update(changed []snapshot.EgressIP) (*EgressUpdate, bool) {
	out := &EgressUpdate{}
	for _, next := range changed {
		entry, known := m.byName[next.Name]
		if !known || !hasSameRows(entry.EgressIP, next) {
			return nil, false
		}
		out.Before = append(out.Before, entry.buildVerdict())
		if _, again := m.before[next.Name]; !again {
			m.before[next.Name] = entry.EgressIP
		}
		entry.EgressIP, m.w.EgressIPs[entry.index] = next, next
		out.Verdicts = append(out.Verdicts, entry.buildVerdict())
	}
	return out, true
}

// hasSameRows reports whether two states of an EgressIP differ in nothing that rows, objects or other EgressIPs depend
// on.
func hasSameRows(a, b snapshot.EgressIP) bool {
	for _, e := range []*snapshot.EgressIP{&a, &b} {
		e.Generation, e.UnservedPods = 0, snapshot.PodSample{}
	}
	return reflect.DeepEqual(a, b)
}

// Check compiles the snapshot of the memo again, and returns an error if the memo differs: in a verdict, or because an
// update has changed a row or an object. It costs all egress addresses.
func (m *EgressMemo) Check() error {
	settled := *m.w
	settled.EgressIPs = slices.Clone(m.w.EgressIPs)
	for name, before := range m.before {
		settled.EgressIPs[m.byName[name].index] = before
	}
	written, _ := Egress(&settled)
	fresh, verdicts := Egress(m.w)
	if changes := state.Diff(fresh.Rows, written.Rows); len(changes) > 0 {
		return fmt.Errorf("%d rows differ, the first: %s", len(changes), changes[0])
	}
	if changes := state.Diff(fresh.Objects, written.Objects); len(changes) > 0 {
		return fmt.Errorf("%d objects differ, the first: %s", len(changes), changes[0])
	}
	if len(verdicts) != len(m.byName) {
		return fmt.Errorf("%d verdicts, wanted %d", len(m.byName), len(verdicts))
	}
	for _, v := range verdicts {
		if entry, known := m.byName[v.Object.Name]; !known || !reflect.DeepEqual(v, entry.buildVerdict()) {
			return fmt.Errorf("the verdict on %s differs", v.Object)
		}
	}
	clear(m.before) // the next check compares with this one
	return nil
}
