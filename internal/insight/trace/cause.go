package trace

import (
	"cmp"
	"slices"

	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

// Finding is a way that ends badly as a finding; false: it ends well.
func (p Path) Finding() (diagnosis.Finding, bool) {
	if p.Verdict == Answered {
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
	for _, c := range diagnosis.Codes {
		if out.Remediation == "" && c.Name == p.Code {
			out.Remediation = c.Remediation
		}
	}
	return out, true
}

// Causes are why a way does not end well, what explains most first: how it ends, and what is wrong with anything that
// it passes. Of a way that ends well by the rows, they are what may keep packets from it all the same: nodes and wires
// that do not do as the rows say, and a port that nobody seems to listen on.
func (p Path) Causes(s *clusterstate.State, found []diagnosis.Finding) []diagnosis.Finding {
	own, bad := p.Finding()
	around := slices.Clone(p.PassedRefs)
	if bad { // what it did not get to may be the cause
		for _, r := range slices.Concat(p.About, p.PassedRefs) {
			around = append(around, s.DependenciesOf(r)...)
		}
	}
	on := slices.DeleteFunc(diagnosis.FilterByRefs(found, around...), func(f diagnosis.Finding) bool {
		return f.Severity < diagnosis.Error && f.Code != diagnosis.TargetPortNotDeclared
	})
	if !bad {
		return slices.DeleteFunc(on, func(f diagnosis.Finding) bool { return !affectsForwarding(f.Code) })
	}
	on = slices.DeleteFunc(on, func(f diagnosis.Finding) bool { return f.Code == own.Code })
	on = append([]diagnosis.Finding{own}, on...)
	slices.SortStableFunc(on, func(a, b diagnosis.Finding) int { return cmp.Compare(b.CauseRank, a.CauseRank) })
	return on
}

// affectsForwarding says whether a finding is about who carries or gets packets, not about what was asked for.
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
