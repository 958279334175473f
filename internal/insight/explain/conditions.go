package explain

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/internal/model/status"
)

// deriveConditions computes the conditions as the controller would write them now. For an object that was not compiled,
// it uses the conditions in its status.
func (e *explainer) deriveConditions() {
	stated := e.currentConditions()
	v := e.s.Verdict(e.ref)
	if v == nil {
		e.out.Conditions = stated
		return
	}
	e.out.Conditions = renderConditions(*v, e.out.Compiled)
	same := func(a, b Condition) bool { return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason }
	for _, c := range stated {
		known := slices.ContainsFunc(e.out.Conditions, func(f Condition) bool { return f.Type == c.Type })
		if known && !slices.ContainsFunc(e.out.Conditions, func(f Condition) bool { return same(f, c) }) {
			e.out.StaleConditions = append(e.out.StaleConditions, c)
		}
	}
}

// currentConditions returns the conditions in the object's status.
func (e *explainer) currentConditions() []Condition {
	var out []Condition
	for _, c := range e.findObject().Conditions {
		out = append(out, Condition{c.Type, c.Status, c.Reason, c.Message})
	}
	slices.SortFunc(out, compareConditions)
	return out
}

// compareConditions orders conditions by dependency: Accepted, ResolvedRefs, Programmed, then others by name.
func compareConditions(a, b Condition) int {
	rank := func(c Condition) int {
		return slices.Index([]string{
			kubedcv1.ConditionProgrammed, kubedcv1.ConditionResolvedRefs,
			kubedcv1.ConditionAccepted,
		}, c.Type)
	}
	return cmp.Or(cmp.Compare(rank(b), rank(a)), cmp.Compare(a.Type, b.Type))
}

// findObject returns the object, or the zero value.
func (e *explainer) findObject() clusterstate.Object {
	for _, o := range e.s.Cluster.Objects() {
		if o.Ref == e.ref {
			return o
		}
	}
	return clusterstate.Object{}
}

// renderConditions returns the conditions of a verdict, given which compiled entries are present.
func renderConditions(v intent.Verdict, made []Entry) []Condition {
	missing := map[state.Ref][]string{}
	for _, m := range made {
		if !m.Present {
			missing[m.Origin] = append(missing[m.Origin], m.Text)
		}
	}
	rendered := status.RenderStatuses([]intent.Verdict{v}, status.Outcome{Missing: missing})[v.Object].Value
	var body struct{ Conditions []Condition }
	if err := json.Unmarshal([]byte(rendered.Content), &body); err != nil {
		panic(fmt.Sprintf("a status that was just rendered can't be read: %v", err))
	}
	slices.SortFunc(body.Conditions, compareConditions)
	return body.Conditions
}

// summarizeState sets the state and the next steps.
func (e *explainer) summarizeState() {
	x := e.out
	x.State, x.Healthy = e.determineState()
	for _, f := range x.Findings {
		if f.Severity > diagnosis.Info && f.Remediation != "" && !slices.Contains(x.NextSteps, f.Remediation) {
			x.NextSteps = append(x.NextSteps, f.Remediation)
		}
	}
	if len(x.StaleConditions) > 0 && len(x.Findings) == 0 {
		x.NextSteps = append(x.NextSteps,
			"Check that the controller is running: the conditions in the status are out of date.")
	}
	unmade := slices.ContainsFunc(x.Conditions, func(c Condition) bool { return intent.IsConsequence(c.Reason) })
	if to := e.exampleEndpoint(); to != "" && !unmade {
		x.NextSteps = append(x.NextSteps, "To trace a packet: sallyport trace CLIENT "+to)
	}
}

// determineState returns the state as a phrase and whether the object works.
func (e *explainer) determineState() (words string, works bool) {
	of := func(kind string) Condition {
		for _, c := range e.out.Conditions {
			if c.Type == kind {
				return c
			}
		}
		return Condition{}
	}
	errors := slices.ContainsFunc(e.out.Findings, func(f diagnosis.Finding) bool {
		return f.Severity == diagnosis.Error
	})
	warnings := slices.ContainsFunc(e.out.Findings, func(f diagnosis.Finding) bool {
		return f.Severity == diagnosis.Warning
	})
	accepted, resolved, programmed := of(kubedcv1.ConditionAccepted), of(kubedcv1.ConditionResolvedRefs),
		of(kubedcv1.ConditionProgrammed)
	switch {
	case e.findObject().Deleting:
		return strings.TrimSuffix("is being deleted: "+of(status.ConditionDeletable).Reason, ": "), false
	case accepted.Status == "False":
		return "is refused: " + accepted.Reason, false
	case resolved.Status == "False":
		return "waits: " + resolved.Reason, false
	case programmed.Status == "False":
		return "is not in force: " + programmed.Reason, false
	case of(intent.HasEndpoints).Status == "False":
		return "is in force, and has no endpoints", false
	case errors && programmed.Status == "True":
		return "is in force, and does not work", false
	case errors:
		return "does not work", false
	case e.out.isBroken():
		return e.healthyState() + ", but its path is broken", false
	case e.ovnUnread:
		return "was in force when the controller last checked; OVN could not be read now", false
	case warnings:
		return e.healthyState() + ", with warnings", true
	default:
		return e.healthyState(), true
	}
}
