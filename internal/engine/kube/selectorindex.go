package kube

import (
	"math"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// selectorIndex finds the label selectors that match an object without evaluating all of them. A selector is stored
// under the label terms of one of its requirements, each of which an object has to have one of; selectors without such a
// requirement are evaluated for every object. Of several requirements it takes the one whose terms have the fewest
// selectors, so a term that many selectors share ("env=prod") does not make lookups slow if they have another one.
type selectorIndex struct {
	mu      sync.RWMutex
	entries map[string]indexedSelector               // by name
	byTerm  map[labelTerm]map[string]indexedSelector // the same, by term and name
}

// labelTerm is a label that an object has to have: with a value, or with any value. The zero term is that of selectors
// without a term.
type labelTerm struct {
	key, value string
	anyValue   bool
}

// indexValue returns the term as a value of labelIndex. A key contains no equals sign.
func (t labelTerm) indexValue() string {
	if t.anyValue {
		return t.key
	}
	return t.key + "=" + t.value
}

// indexByLabels returns the values of labelIndex for an object.
func indexByLabels(o client.Object) (out []string) {
	for key, value := range o.GetLabels() {
		out = append(out, labelTerm{key: key, anyValue: true}.indexValue(), labelTerm{key: key, value: value}.indexValue())
	}
	return out
}

// indexedSelector is a selector and the terms that it is stored under.
type indexedSelector struct {
	labels.Selector
	terms []labelTerm
}

// set adds a selector under a name, or replaces it.
func (x *selectorIndex) set(name string, s labels.Selector) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remove(name)
	requirements, selectable := s.Requirements()
	if !selectable {
		return // matches nothing
	}
	if x.entries == nil {
		x.entries, x.byTerm = map[string]indexedSelector{}, map[labelTerm]map[string]indexedSelector{}
	}
	entry := indexedSelector{s, x.chooseTerms(requirements)}
	x.entries[name] = entry
	for _, t := range entry.terms {
		if x.byTerm[t] == nil {
			x.byTerm[t] = map[string]indexedSelector{}
		}
		x.byTerm[t][name] = entry
	}
}

// delete removes a selector.
func (x *selectorIndex) delete(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remove(name)
}

func (x *selectorIndex) remove(name string) {
	for _, t := range x.entries[name].terms {
		if delete(x.byTerm[t], name); len(x.byTerm[t]) == 0 {
			delete(x.byTerm, t)
		}
	}
	delete(x.entries, name)
}

// chooseTerms returns the terms of the requirement that is cheapest to look up.
func (x *selectorIndex) chooseTerms(of labels.Requirements) []labelTerm {
	best, bestLoad := []labelTerm{{}}, math.MaxInt
	for _, r := range of {
		terms := requiredTerms(r)
		if len(terms) == 0 {
			continue
		}
		load := 0 // the most selectors that one of its terms has
		for _, t := range terms {
			load = max(load, len(x.byTerm[t]))
		}
		// With the same load, a value is better than any value, and few values are better than many.
		if load < bestLoad || load == bestLoad && (best[0].anyValue || len(terms) < len(best) && !terms[0].anyValue) {
			best, bestLoad = terms, load
		}
	}
	return best
}

// requiredTerms returns the terms one of which an object must have to meet a requirement; none: the requirement can be
// met without the label.
func requiredTerms(r labels.Requirement) (out []labelTerm) {
	switch r.Operator() {
	case selection.In, selection.Equals, selection.DoubleEquals:
		for _, value := range slices.Compact(slices.Sorted(slices.Values(r.ValuesUnsorted()))) {
			out = append(out, labelTerm{key: r.Key(), value: value})
		}
	case selection.Exists, selection.GreaterThan, selection.LessThan:
		out = append(out, labelTerm{key: r.Key(), anyValue: true})
	case selection.NotIn, selection.NotEquals, selection.DoesNotExist:
	}
	return out
}

// match returns the names of the selectors that match labels, sorted.
func (x *selectorIndex) match(of labels.Set) (out []string) {
	x.forEachMatch(of, func(name string) bool {
		out = append(out, name)
		return true
	})
	slices.Sort(out)
	return out
}

// matchesAny reports whether any selector matches labels.
func (x *selectorIndex) matchesAny(of labels.Set) (found bool) {
	x.forEachMatch(of, func(string) bool {
		found = true
		return false
	})
	return found
}

// forEachMatch calls do with the name of each selector that matches labels, until it returns false. Each selector is
// under one requirement, and an object has one value of its key, so no selector is found twice.
func (x *selectorIndex) forEachMatch(of labels.Set, do func(name string) bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	visit := func(t labelTerm) bool {
		for name, s := range x.byTerm[t] {
			if s.Matches(of) && !do(name) {
				return false
			}
		}
		return true
	}
	for key, value := range of {
		if !visit(labelTerm{key: key, value: value}) || !visit(labelTerm{key: key, anyValue: true}) {
			return
		}
	}
	visit(labelTerm{})
}

// size returns the number of selectors.
func (x *selectorIndex) size() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.entries)
}
