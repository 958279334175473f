package state

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Plan has the changes that a target needs. Preparing one only reads; printing it is a dry run.
type Plan interface {
	// Scope describes what the target owns.
	Scope() string
	// ChangeKeys returns the lines of all changes without their text, in order. Callers must not modify them.
	ChangeKeys() []Line
	// ChangeLines returns a line for each change, in order. Callers must not modify them.
	ChangeLines() []Line
	// DesiredLines returns a line for everything that the target should hold, in order.
	DesiredLines() []Line
	// applyAdditions makes additions and updates. applyRemovals makes removals, except for origins that are held back.
	applyAdditions(context.Context) []Failure
	applyRemovals(ctx context.Context, held map[Ref]bool) []Failure
}

// Line is a change of a plan, or a desired entry.
type Line struct {
	Text   string // empty in those of ChangeKeys
	Key    string // key of the entry
	Origin Ref
	// Removes: the change is a removal. Held: a guard blocks the change for now.
	Removes, Held bool
}

// Failure is a change that failed.
type Failure struct {
	Scope  string
	Key    string
	Origin Ref
	Err    error
}

// Error returns the failure as text, without its origin.
func (f Failure) Error() string { return fmt.Sprintf("%s: %s: %v", f.Scope, f.Key, f.Err) }

// Unwrap returns the cause.
func (f Failure) Unwrap() error { return f.Err }

// Guard is a safety check: it gets the changes of a plan and what was observed, and returns the changes that are
// allowed.
type Guard[K Key[K], V Value[V]] func([]Change[K, V], Set[K, V]) []Change[K, V]

// SkipRemovals is a guard that allows no removals. It is used until all inputs have been read once: an object that was
// not read yet looks as if it were deleted.
func SkipRemovals[K Key[K], V Value[V]](changes []Change[K, V], _ Set[K, V]) []Change[K, V] {
	return slices.DeleteFunc(slices.Clone(changes), Change[K, V].IsRemoval)
}

type plan[K Key[K], V Value[V]] struct {
	target  Target[K, V]
	desired Set[K, V]
	changes []Change[K, V]
	allowed []Change[K, V] // by the guards

	renderLines sync.Once
	lines       []Line // of the changes
	listKeys    sync.Once
	keys        []Line // of the changes, without text
}

// PreparePlan observes a target and computes its changes. It writes nothing.
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

// Prepared is a plan, or the error that prevented it.
type Prepared struct {
	Plan
	Err error
}

// TryPreparePlan prepares a plan and keeps the error, so that several can be listed in one expression.
func TryPreparePlan[K Key[K], V Value[V]](ctx context.Context, target Target[K, V], desired Set[K, V],
	guards ...Guard[K, V],
) Prepared {
	p, err := PreparePlan(ctx, target, desired, guards...)
	return Prepared{p, err}
}

// CollectPlans returns the plans, or the first error.
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

// JoinFailures returns the failures as one error.
func JoinFailures(failures []Failure) error {
	errs := make([]error, 0, len(failures))
	for _, f := range failures {
		errs = append(errs, f)
	}
	return errors.Join(errs...)
}

// Run applies plans: first additions and updates, in the order of the plans, then removals, in reverse order. So a
// replacement exists before the old entry is removed, and entries are removed before those they depend on. In a run,
// removals are skipped for origins with a failed addition.
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

// FormatPlans returns the plans as text: a heading for each target with changes, and the changes below it.
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

// String returns the printed line, with its origin.
func (l Line) String() string {
	if l.Held {
		return fmt.Sprintf("%s    # %s (waits)", l.Text, l.Origin)
	}
	return fmt.Sprintf("%s    # %s", l.Text, l.Origin)
}

func (p *plan[K, V]) Scope() string { return p.target.Scope() }

// ChangeKeys makes the lines once: a run asks for them several times, and there may be thousands. It never needs the text,
// which takes longer than everything else for objects of hundreds of kilobytes.
func (p *plan[K, V]) ChangeKeys() []Line {
	p.listKeys.Do(func() {
		allowed := make(map[K]bool, len(p.allowed))
		for _, c := range p.allowed {
			allowed[c.Key] = true
		}
		p.keys = make([]Line, 0, len(p.changes))
		for _, c := range p.changes {
			p.keys = append(p.keys, Line{
				Key: c.Key.String(), Origin: c.Origin, Removes: c.IsRemoval(), Held: !allowed[c.Key],
			})
		}
	})
	return p.keys
}

// ChangeLines renders the text of the lines once.
func (p *plan[K, V]) ChangeLines() []Line {
	p.renderLines.Do(func() {
		p.lines = slices.Clone(p.ChangeKeys())
		for i, c := range p.changes {
			p.lines[i].Text = c.String()
		}
	})
	return p.lines
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
