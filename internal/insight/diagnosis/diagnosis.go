// Package diagnosis finds problems of a cluster in a survey. Each finding has a cause and a remedy.
package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/state"
)

// Severity says how bad a finding is.
type Severity int

// The severities, in ascending order.
const (
	Info    Severity = iota // worth knowing
	Warning                 // something is going to fail, or partly fails
	Error                   // something does not work
)

// String returns info, warning or error.
func (s Severity) String() string { return [...]string{"info", "warning", "error"}[s] }

// MarshalText returns info, warning or error.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses info, warning or error.
func (s *Severity) UnmarshalText(text []byte) error {
	for _, known := range []Severity{Info, Warning, Error} {
		if string(text) == known.String() {
			*s = known
			return nil
		}
	}
	return fmt.Errorf("%q is none of info, warning and error", text)
}

// Finding is a problem.
type Finding struct {
	// Code is a constant of this package or the reason of a condition. The reference page explains each.
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	// About lists the affected objects, the main one first: API objects, a Node, Network or Router, or the Cluster as a
	// whole.
	About       []state.Ref `json:"about"`
	Message     string      `json:"message"`
	Remediation string      `json:"cure"`
	// CauseRank orders causes before their consequences. A higher rank explains more: the unreachable database comes
	// before the missing row.
	CauseRank int `json:"-"`
}

// Headline returns the code and the main object.
func (f Finding) Headline() string {
	if len(f.About) == 0 {
		return f.Code
	}
	return f.Code + " " + strings.TrimSpace(f.About[0].String())
}

// ClusterRef is the object of findings about no object in particular.
var ClusterRef = state.Ref{Kind: "Cluster"}

// Sort orders findings by severity, the worst first, then by cause rank, code and objects.
func Sort(findings []Finding) {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(b.Severity, a.Severity), cmp.Compare(b.listRank(), a.listRank()), cmp.Compare(a.Code, b.Code),
			slices.CompareFunc(a.About, b.About, compareRefs))
	})
}

// listRank is the rank in a list of all findings. A controller that does not run, or a lost database, explains what nobody
// repairs; for a single path, what is missing is the better explanation.
func (f Finding) listRank() int {
	if f.Code == ControllerDead || f.Code == KubeOVNDead || f.Code == LogicalSwitchMissing {
		return 2*rankExactRow + 1
	}
	return 2 * f.CauseRank
}

func compareRefs(a, b state.Ref) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// FilterByRefs returns the findings about one of the objects, or about the cluster as a whole.
func FilterByRefs(findings []Finding, refs ...state.Ref) []Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool {
		return !slices.ContainsFunc(f.About, func(r state.Ref) bool {
			return r == ClusterRef || slices.Contains(refs, r)
		})
	})
}
