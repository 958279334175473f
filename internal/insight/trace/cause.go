package trace

import (
	"cmp"
	"math"
	"slices"

	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Finding returns the end of a path as a finding, and false if the path is answered.
func (p Path) Finding() (diagnosis.Finding, bool) {
	if p.Passes() {
		return diagnosis.Finding{}, false
	}
	out := diagnosis.Finding{
		Code: p.Code, Severity: diagnosis.Error, About: p.About, Message: p.Reason, CauseRank: rootConsequence,
	}
	for _, c := range Codes {
		if c.Name == p.Code {
			out.Remediation, out.CauseRank = c.Remediation, c.Root
		}
	}
	if slices.Contains([]string{diagnosis.NothingListens, diagnosis.PortBlocked}, p.Code) {
		out.CauseRank = rootCause // the pod itself was asked
	}
	for _, c := range diagnosis.Codes {
		if out.Remediation == "" && c.Name == p.Code {
			out.Remediation = c.Remediation
		}
	}
	return out, true
}

// Causes returns why a path fails, the most explanatory finding first: how the path ends, and problems of everything it
// passes. For a path that is delivered according to the rows, it returns what may still prevent delivery: nodes and
// networks that do not implement the rows, and a target port that no container declares.
func (p Path) Causes(s *clusterstate.State, found []diagnosis.Finding) []diagnosis.Finding {
	own, bad := p.Finding()
	around := slices.Clone(p.PassedRefs)
	if bad { // the cause may be something it did not reach
		for _, r := range slices.Concat(p.About, p.PassedRefs) {
			around = append(around, s.DependenciesOf(r)...)
		}
	}
	on := slices.DeleteFunc(diagnosis.FilterByRefs(found, around...), func(f diagnosis.Finding) bool {
		return f.Severity < diagnosis.Error && f.Code != diagnosis.TargetPortNotDeclared || p.isAboutAnotherService(f)
	})
	if !bad {
		return slices.DeleteFunc(on, func(f diagnosis.Finding) bool {
			return !affectsForwarding(f.Code) || p.Verdict == Answered && f.Code == diagnosis.TargetPortNotDeclared
		})
	}
	on = slices.DeleteFunc(on, func(f diagnosis.Finding) bool { return f.Code == own.Code })
	on = append([]diagnosis.Finding{own}, on...)
	slices.SortStableFunc(on, func(a, b diagnosis.Finding) int {
		return cmp.Or(cmp.Compare(b.CauseRank, a.CauseRank), cmp.Compare(p.distanceTo(a), p.distanceTo(b)))
	})
	return on
}

// isAboutAnotherService reports whether a finding is about a Service that the packet does not pass. It may share pods with
// the path.
func (p Path) isAboutAnotherService(f diagnosis.Finding) bool {
	if len(f.About) == 0 {
		return false
	}
	main := f.About[0]
	return main.Kind == string(intent.Service) && !slices.Contains(p.PassedRefs, main) && !slices.Contains(p.About, main)
}

// distanceTo returns how much a finding is about the objects where the path ends: 0 if it is mainly about one of them,
// more if it only mentions one.
func (p Path) distanceTo(f diagnosis.Finding) int {
	at := slices.IndexFunc(f.About, func(r state.Ref) bool { return slices.Contains(p.About, r) })
	if at < 0 {
		return math.MaxInt
	}
	return at
}

// affectsForwarding reports whether a finding concerns the systems that forward or receive packets, rather than the
// request of a user.
func affectsForwarding(code string) bool {
	if slices.Contains([]string{
		diagnosis.NorthdBehind, diagnosis.ChassisMissing, diagnosis.ChassisBehind, diagnosis.ChassisMismatch,
		diagnosis.TargetPortNotDeclared,
	}, code) {
		return true
	}
	return slices.ContainsFunc(diagnosis.Codes, func(c diagnosis.Code) bool {
		return c.Name == code && (c.Area == "Nodes" || c.Area == "Wires")
	})
}
