// Package diagnosis is what is wrong with a cluster, told from a survey of it: findings with their cause and their
// cure.
package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/state"
)

// Severity is how bad a finding is.
type Severity int

// The severities, the worst last.
const (
	Info    Severity = iota // worth knowing
	Warning                 // something will break, or a part of it has
	Error                   // something does not work
)

// String is the word for it.
func (s Severity) String() string { return [...]string{"info", "warning", "error"}[s] }

// MarshalText is the word for it.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the word for it.
func (s *Severity) UnmarshalText(text []byte) error {
	for _, known := range []Severity{Info, Warning, Error} {
		if string(text) == known.String() {
			*s = known
			return nil
		}
	}
	return fmt.Errorf("%q is none of info, warning and error", text)
}

// Finding is something that is wrong.
type Finding struct {
	// Code is a constant of this package, or the reason of a condition; the reference page explains each.
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	// About is what it is found on, the first first: an object, or a Node, Network, Router, or the Cluster as a whole.
	About       []state.Ref `json:"about"`
	Message     string      `json:"message"`
	Remediation string      `json:"cure"`
	// CauseRank: others follow from it. What is deeper explains more: the database that can't be reached before the row
	// that is missing.
	CauseRank int `json:"-"`
}

// Headline is the code, and what it is found on first.
func (f Finding) Headline() string {
	if len(f.About) == 0 {
		return f.Code
	}
	return f.Code + " " + strings.TrimSpace(f.About[0].String())
}

// ClusterRef is what findings about no object in particular are about.
var ClusterRef = state.Ref{Kind: "Cluster"}

// Sort puts the worst first, of these what explains the others, and then by code and object.
func Sort(findings []Finding) {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(b.Severity, a.Severity), cmp.Compare(b.CauseRank, a.CauseRank), cmp.Compare(a.Code, b.Code),
			slices.CompareFunc(a.About, b.About, compareRefs))
	})
}

func compareRefs(a, b state.Ref) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// FilterByRefs are the findings about one of the objects, or about the platform as a whole.
func FilterByRefs(findings []Finding, refs ...state.Ref) []Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool {
		return !slices.ContainsFunc(f.About, func(r state.Ref) bool {
			return r == ClusterRef || slices.Contains(refs, r)
		})
	})
}
