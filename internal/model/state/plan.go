package state

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Plan is what one target needs, worked out by reading only. Printing it is a dry run.
type Plan interface {
	// Scope says in words what the target owns.
	Scope() string
	// ChangeLines are the lines of the plan, one for each change, in order.
	ChangeLines() []Line
	// DesiredLines are lines for everything that the target should hold, in order, whether it does or not.
	DesiredLines() []Line
	// applyAdditions carries out what comes or becomes another; shrink what goes, except for origins that are held
	// back.
	applyAdditions(context.Context) []Failure
	applyRemovals(ctx context.Context, held map[Ref]bool) []Failure
}

// Line is one change of a plan, or something that is wanted.
type Line struct {
	Text   string
	Key    string // of the entry
	Origin Ref
	// Removes: something goes. Held: a guard keeps the change from being carried out for now.
	Removes, Held bool
}

// Failure is a change that could not be carried out.
type Failure struct {
	Scope  string
	Key    string
	Origin Ref
	Err    error
}

// Error is the failure as a sentence, without whom it is reported to.
func (f Failure) Error() string { return fmt.Sprintf("%s: %s: %v", f.Scope, f.Key, f.Err) }

// Unwrap is what went wrong.
func (f Failure) Unwrap() error { return f.Err }

// Guard is a safety setting: a function over a plan's changes, with what was observed. It returns those that may be
// carried out.
type Guard[K Key[K], V Value[V]] func([]Change[K, V], Set[K, V]) []Change[K, V]

// SkipRemovals keeps what comes and drops what goes. It is in force until everything that decides has been read once:
// an object that was not seen yet looks like one that was deleted.
func SkipRemovals[K Key[K], V Value[V]](changes []Change[K, V], _ Set[K, V]) []Change[K, V] {
	return slices.DeleteFunc(slices.Clone(changes), Change[K, V].IsRemoval)
}

type plan[K Key[K], V Value[V]] struct {
	target  Target[K, V]
	desired Set[K, V]
	changes []Change[K, V]
	allowed []Change[K, V] // by the guards
}

// PreparePlan observes a target and works out what it needs. Nothing is written.
func PreparePlan[K Key[K], V Value[V]](ctx context.Context, target Target[K, V], desired Set[K, V],
	guards ...Guard[K, V],
) (Plan, error) {
	observed, err := target.Observe(ctx)
	if err != nil {
		return nil, fmt.Errorf("observe %s: %w", target.Scope(), err)
	}
	changes := Diff(desired, observed)
	allowed := changes
	for _, guard := range guards {
		allowed = guard(allowed, observed)
	}
	return &plan[K, V]{target: target, desired: desired, changes: changes, allowed: allowed}, nil
}

// Prepared is a plan, or why there is none.
type Prepared struct {
	Plan
	Err error
}

// TryPreparePlan prepares a plan, so that several can be written as a list.
func TryPreparePlan[K Key[K], V Value[V]](ctx context.Context, target Target[K, V], desired Set[K, V],
	guards ...Guard[K, V],
) Prepared {
	p, err := PreparePlan(ctx, target, desired, guards...)
	return Prepared{p, err}
}

// CollectPlans is the plans, or why one of them is missing.
func CollectPlans(plans ...Prepared) ([]Plan, error) {
	var out []Plan
	for _, p := range plans {
		if p.Err != nil {
			return nil, p.Err
		}
		out = append(out, p.Plan)
	}
	return out, nil
}

// JoinFailures is the failures as one error.
func JoinFailures(failures []Failure) error {
	errs := make([]error, 0, len(failures))
	for _, f := range failures {
		errs = append(errs, f)
	}
	return errors.Join(errs...)
}

// Run carries plans out: first what comes, in the order of the plans, then what goes, in the opposite order. So a new
// way exists before the old one ends, and what depends goes before what it depends on. What goes waits, for this run,
// while something of the same origin failed to come.
func Run(ctx context.Context, plans ...Plan) []Failure {
	var failures []Failure
	for _, p := range plans {
		failures = append(failures, p.applyAdditions(ctx)...)
	}
	held := map[Ref]bool{}
	for _, f := range failures {
		held[f.Origin] = true
	}
	for _, p := range slices.Backward(plans) {
		failures = append(failures, p.applyRemovals(ctx, held)...)
	}
	return failures
}

// FormatPlans is the plans as text: a heading for each target that needs something, and its changes below.
func FormatPlans(plans ...Plan) string {
	var out strings.Builder
	for _, p := range plans {
		lines := p.ChangeLines()
		if len(lines) == 0 {
			continue
		}
		fmt.Fprintf(&out, "%s\n", p.Scope())
		for _, l := range lines {
			fmt.Fprintf(&out, "  %s\n", l)
		}
	}
	return out.String()
}

// String is the line as it is printed, with who asked for it.
func (l Line) String() string {
	if l.Held {
		return fmt.Sprintf("%s    # %s (waits)", l.Text, l.Origin)
	}
	return fmt.Sprintf("%s    # %s", l.Text, l.Origin)
}

func (p *plan[K, V]) Scope() string { return p.target.Scope() }

func (p *plan[K, V]) ChangeLines() []Line {
	allowed := make(map[K]bool, len(p.allowed))
	for _, c := range p.allowed {
		allowed[c.Key] = true
	}
	lines := make([]Line, 0, len(p.changes))
	for _, c := range p.changes {
		lines = append(lines, Line{
			Text: c.String(), Key: c.Key.String(), Origin: c.Origin, Removes: c.IsRemoval(), Held: !allowed[c.Key],
		})
	}
	return lines
}

func (p *plan[K, V]) DesiredLines() []Line {
	lines := make([]Line, 0, len(p.desired))
	for _, key := range slices.SortedFunc(maps.Keys(p.desired), K.Compare) {
		entry := p.desired[key]
		lines = append(lines, Line{
			Text:   key.String() + " " + entry.Value.String(),
			Key:    key.String(),
			Origin: entry.Origin,
		})
	}
	return lines
}

func (p *plan[K, V]) applyAdditions(ctx context.Context) []Failure {
	return p.applyMatching(ctx, func(c Change[K, V]) bool { return !c.IsRemoval() })
}

func (p *plan[K, V]) applyRemovals(ctx context.Context, held map[Ref]bool) []Failure {
	return p.applyMatching(ctx, func(c Change[K, V]) bool { return c.IsRemoval() && !held[c.Origin] })
}

func (p *plan[K, V]) applyMatching(ctx context.Context, chosen func(Change[K, V]) bool) []Failure {
	batch := slices.DeleteFunc(slices.Clone(p.allowed), func(c Change[K, V]) bool { return !chosen(c) })
	if len(batch) == 0 {
		return nil
	}
	failed := p.target.Apply(ctx, batch)
	origins := make(map[K]Ref, len(batch))
	for _, c := range batch {
		origins[c.Key] = c.Origin
	}
	var out []Failure
	for _, key := range slices.SortedFunc(maps.Keys(failed), K.Compare) {
		out = append(out, Failure{Scope: p.Scope(), Key: key.String(), Origin: origins[key], Err: failed[key]})
	}
	return out
}
