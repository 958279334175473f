package clusterstate

import (
	"slices"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Shard is the result of compiling and comparing one shard.
type Shard struct {
	Name     string
	Verdicts []intent.Verdict
	// Wanted is everything that should exist.
	Wanted []DesiredEntry
	// Differs is what would be written.
	Differs []Difference
	// Problem is why the shard could not be computed.
	Problem string
}

// DesiredEntry is something that should exist, and whether it exists as desired.
type DesiredEntry struct {
	Scope string // of the target
	state.Line
	There bool
}

// Difference is a line of a plan: something that is not as desired.
type Difference struct {
	Scope string // of the target
	state.Line
}

// NewShard returns the content of the plans of a shard.
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

// HasPendingChanges reports whether something would be written now.
func (s Shard) HasPendingChanges() bool {
	return slices.ContainsFunc(s.Differs, func(d Difference) bool { return !d.Held })
}

// KeepPersistent returns the shard without the differences that it did not have before.
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
