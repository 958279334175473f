package clusterstate

import (
	"slices"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Shard is what was made of one shard.
type Shard struct {
	Name     string
	Verdicts []intent.Verdict
	// Wanted is everything that should be there.
	Wanted []DesiredEntry
	// Differs is what would be written.
	Differs []Difference
	// Problem is why it could not be worked out.
	Problem string
}

// DesiredEntry is something that should be there, and whether it is, and as it should be.
type DesiredEntry struct {
	Scope string // of the target
	state.Line
	There bool
}

// Difference is something that is not as it should be: a line of a plan.
type Difference struct {
	Scope string // of the target
	state.Line
}

// NewShard is what plans of a shard say.
func NewShard(name string, plans []state.Plan, verdicts []intent.Verdict) Shard {
	s := Shard{Name: name, Verdicts: verdicts}
	for _, p := range plans {
		differs := map[string]bool{}
		for _, l := range p.ChangeLines() {
			differs[l.Key] = true
			s.Differs = append(s.Differs, Difference{p.Scope(), l})
		}
		for _, l := range p.DesiredLines() {
			s.Wanted = append(s.Wanted, DesiredEntry{p.Scope(), l, !differs[l.Key]})
		}
	}
	return s
}

// HasPendingChanges says whether something would be written at once.
func (s Shard) HasPendingChanges() bool {
	return slices.ContainsFunc(s.Differs, func(d Difference) bool { return !d.Held })
}

// KeepPersistent is the shard without the differences that were not there before.
func (s Shard) KeepPersistent(before Shard) Shard {
	was := map[Difference]bool{}
	for _, d := range before.Differs {
		was[d] = true
	}
	s.Differs = slices.DeleteFunc(slices.Clone(s.Differs), func(d Difference) bool { return !was[d] })
	s.Wanted = slices.Clone(s.Wanted)
	for i, w := range s.Wanted {
		s.Wanted[i].There = w.There || !slices.ContainsFunc(s.Differs, func(d Difference) bool {
			return d.Scope == w.Scope && d.Key == w.Key
		})
	}
	return s
}
