package clusterstate_test

import (
	"slices"
	"testing"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/internal/model/state/statetest"
)

func TestShardTellsWhatIsWantedAndWhetherItIsThere(t *testing.T) {
	by := state.Ref{Kind: "EgressIP", Name: "out"}
	set := func(values ...string) intent.Rows {
		rows := intent.Rows{}
		for _, v := range values {
			rows[intent.RowKey{
				Table: "NB_Global",
				ID:    v[:1],
			}] = state.Entry[intent.Row]{Value: intent.NBGlobalOption{Name: v[:1], Value: v[1:]}, Origin: by}
		}
		return rows
	}
	target := &statetest.MemoryTarget[intent.RowKey, intent.Row]{Name: "settings"}
	plan := func(rows intent.Rows) state.Plan {
		p, err := state.PreparePlan(t.Context(), target, rows)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if failures := state.Run(t.Context(), plan(set("a1", "b1", "d1"))); len(failures) > 0 {
		t.Fatal(failures)
	}
	shard := clusterstate.NewShard("acme", []state.Plan{plan(set("a1", "b2", "c1"))}, nil)
	there := map[string]bool{}
	for _, w := range shard.Wanted {
		there[w.Text] = w.There
		if w.Scope != "settings" || w.Origin != by {
			t.Errorf("%+v: want its scope and who asked for it", w)
		}
	}
	want := map[string]bool{"NB_Global  [a] 1": true, "NB_Global  [b] 2": false, "NB_Global  [c] 1": false}
	for text, is := range want {
		if got, known := there[text]; !known || got != is {
			t.Errorf("%q is wanted: %t, there: %t; want there: %t", text, known, got, is)
		}
	}
	if len(there) != len(want) || len(shard.Differs) != 3 { // a changed, a missing and a superfluous entry
		t.Errorf("got %v and %v", there, shard.Differs)
	}
}

// Only differences that two readings of a shard have in common count.
func TestShardSince(t *testing.T) {
	line := func(text string, held bool) clusterstate.Difference {
		return clusterstate.Difference{Scope: "rows", Line: state.Line{Text: text, Key: text[2:], Held: held}}
	}
	passing, lasting, waiting := line("+ a", false), line("+ b", false), line("- c", true)
	before := clusterstate.Shard{Differs: []clusterstate.Difference{passing, lasting, waiting}}
	now := clusterstate.Shard{
		Differs: []clusterstate.Difference{line("+ d", false), lasting, waiting},
		Wanted: []clusterstate.DesiredEntry{
			{Scope: "rows", Line: lasting.Line},
			{Scope: "rows", Line: state.Line{Key: "d"}},
		},
	}
	got := now.KeepPersistent(before)
	if !slices.Equal(got.Differs, []clusterstate.Difference{lasting, waiting}) || got.Wanted[0].There ||
		!got.Wanted[1].There {
		t.Errorf("%+v", got)
	}
	if !got.HasPendingChanges() || (clusterstate.Shard{Differs: []clusterstate.Difference{waiting}}).HasPendingChanges() {
		t.Error("what waits does not count, what would be written does")
	}
}
