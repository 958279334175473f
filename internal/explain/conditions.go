package explain

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/diagnosis"
	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/status"
	"github.com/sallyport/sallyport/internal/survey"
)

// judge is the conditions that follow from what was read, as the controller would write them. Of an object that was not compiled they are
// those that it has.
func (e *explainer) judge() {
	stated := e.stated()
	v := e.s.Verdict(e.ref)
	if v == nil {
		e.out.Conditions = stated
		return
	}
	e.out.Conditions = follow(*v, e.out.Made)
	same := func(a, b Condition) bool { return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason }
	for _, c := range stated {
		known := slices.ContainsFunc(e.out.Conditions, func(f Condition) bool { return f.Type == c.Type })
		if known && !slices.ContainsFunc(e.out.Conditions, func(f Condition) bool { return same(f, c) }) {
			e.out.Stated = append(e.out.Stated, c)
		}
	}
}

// stated is the conditions that the object has.
func (e *explainer) stated() []Condition {
	var out []Condition
	for _, c := range e.object().Conditions {
		out = append(out, Condition{c.Type, c.Status, c.Reason, c.Message})
	}
	slices.SortFunc(out, inOrder)
	return out
}

// inOrder is conditions in the order in which they follow from each other, others after them.
func inOrder(a, b Condition) int {
	rank := func(c Condition) int {
		return slices.Index([]string{kubedcv1.ConditionProgrammed, kubedcv1.ConditionResolvedRefs, kubedcv1.ConditionAccepted}, c.Type)
	}
	return cmp.Or(cmp.Compare(rank(b), rank(a)), cmp.Compare(a.Type, b.Type))
}

// object is what all objects have; the zero value when there is none.
func (e *explainer) object() survey.Object {
	for _, o := range e.s.Cluster.Objects() {
		if o.Ref == e.ref {
			return o
		}
	}
	return survey.Object{}
}

// follow is the conditions of a verdict, given what is there of what it wants.
func follow(v intent.Verdict, made []Entry) []Condition {
	missing := map[state.Ref][]string{}
	for _, m := range made {
		if !m.There {
			missing[m.By] = append(missing[m.By], m.Text)
		}
	}
	rendered := status.Render([]intent.Verdict{v}, status.Outcome{Missing: missing})[v.Object].Value
	var body struct{ Conditions []Condition }
	if err := json.Unmarshal([]byte(rendered.Content), &body); err != nil {
		panic(fmt.Sprintf("a status that was just rendered can't be read: %v", err))
	}
	slices.SortFunc(body.Conditions, inOrder)
	return body.Conditions
}

// conclude is how the object is doing, and what to do next.
func (e *explainer) conclude() {
	x := e.out
	x.State, x.Works = e.state()
	for _, f := range x.Wrong {
		if f.Severity > diagnosis.Info && f.Cure != "" && !slices.Contains(x.Next, f.Cure) {
			x.Next = append(x.Next, f.Cure)
		}
	}
	if len(x.Stated) > 0 && len(x.Wrong) == 0 {
		x.Next = append(x.Next, "Look whether the controller runs: it has not written yet what follows.")
	}
	unmade := slices.ContainsFunc(x.Conditions, func(c Condition) bool { return c.Reason == intent.NotAccepted })
	if len(x.Addresses) > 0 && !unmade && e.inward() {
		x.Next = append(x.Next, "To follow a packet: sallyport trace CLIENT "+e.example())
	}
}

// state is how the object is doing.
func (e *explainer) state() (words string, works bool) {
	of := func(kind string) Condition {
		for _, c := range e.out.Conditions {
			if c.Type == kind {
				return c
			}
		}
		return Condition{}
	}
	errors := slices.ContainsFunc(e.out.Wrong, func(f diagnosis.Finding) bool { return f.Severity == diagnosis.Error })
	warnings := slices.ContainsFunc(e.out.Wrong, func(f diagnosis.Finding) bool { return f.Severity == diagnosis.Warning })
	accepted, resolved, programmed := of(kubedcv1.ConditionAccepted), of(kubedcv1.ConditionResolvedRefs), of(kubedcv1.ConditionProgrammed)
	switch {
	case e.object().Deleting:
		return strings.TrimSuffix("is being deleted: "+of(status.Deletable).Reason, ": "), false
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
	case slices.ContainsFunc(e.out.Path, func(s Step) bool { return s.Broken }):
		return e.well() + ", and its way is broken", false
	case e.blind:
		return "was in force when the controller last looked; OVN could not be read now", false
	case warnings:
		return e.well() + ", with warnings", true
	default:
		return e.well(), true
	}
}
