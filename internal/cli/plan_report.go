package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/intent"
)

// planReport is the output of plan.
type planReport struct {
	Objects  []plannedObject  `json:"objects,omitempty"`
	Projects []plannedProject `json:"projects"`
	// Mistakes are why objects of the files would be refused, Warnings what the files do not achieve.
	Mistakes []string `json:"mistakes,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// Ignored are objects in the files that do not concern Sallyport.
	Ignored []string    `json:"ignored,omitempty"`
	Summary planSummary `json:"summary"`
}

// plannedObject is what applying the files would do to an object.
type plannedObject struct {
	Action    string   `json:"action"` // create, change, delete, unchanged
	Kind      string   `json:"kind"`
	Namespace string   `json:"namespace,omitempty"`
	Name      string   `json:"name"`
	From      string   `json:"from"`
	Fields    []string `json:"fields,omitempty"`
}

// plannedProject is what the controller would write for a project.
type plannedProject struct {
	Name     string           `json:"name"`
	Changes  []plannedChange  `json:"changes,omitempty"`
	Problems []plannedProblem `json:"problems,omitempty"`
}

// plannedChange is a line of a plan.
type plannedChange struct {
	Scope string `json:"scope"`
	Line  string `json:"line"` // starts with +, - or ~
	For   string `json:"for,omitempty"`
	Held  bool   `json:"held,omitempty"` // waits for something else
}

// plannedProblem is why an object would not work, or what it waits for.
type plannedProblem struct {
	Object  string `json:"object"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Refused: the object would not work. Otherwise it waits for something, or a part of it would not work.
	Refused bool `json:"refused"`
	// InFiles: the object is in one of the files.
	InFiles bool `json:"inFiles,omitempty"`
}

// planSummary counts what is in a plan.
type planSummary struct {
	Add      int `json:"add"`
	Change   int `json:"change"`
	Delete   int `json:"delete"`
	Mistakes int `json:"mistakes"`
	Projects int `json:"projects"`
}

// newPlanReport returns the plans of shards. manifests are the objects that the plan is for, nil without files.
func newPlanReport(shards []clusterstate.Shard, manifests *kube.Manifests) (planReport, error) {
	out := planReport{Projects: []plannedProject{}}
	inFiles := map[intent.ObjectKey]bool{}
	if manifests != nil {
		for _, o := range manifests.Objects {
			if key, err := kube.KeyOf(o.Object); err == nil {
				inFiles[key] = true
			}
		}
	}
	for _, s := range shards {
		if s.Problem != "" {
			return out, fmt.Errorf("%s: %s", s.Name, s.Problem)
		}
		p := plannedProject{Name: s.Name}
		for _, d := range s.Differs {
			p.Changes = append(p.Changes, plannedChange{
				Scope: d.Scope, Line: d.Text, For: d.Origin.String(), Held: d.Held,
			})
			out.Summary.count(d.Text)
		}
		for _, v := range s.Verdicts {
			p.Problems = append(p.Problems, listProblems(v, inFiles[v.Object])...)
		}
		for _, problem := range p.Problems {
			if problem.Refused && problem.InFiles {
				out.Summary.Mistakes++
			}
		}
		out.Projects = append(out.Projects, p)
	}
	out.Summary.Projects = len(shards)
	return out, nil
}

// listProblems returns the findings of a verdict.
func listProblems(v intent.Verdict, inFiles bool) (out []plannedProblem) {
	for _, f := range []struct {
		intent.Finding
		refused bool
	}{{v.Accepted, true}, {v.Resolved, true}, {v.Waiting, false}, {v.Partly, false}, {v.Held, false}} {
		if !f.OK() {
			out = append(out, plannedProblem{
				Object: v.Object.String(), Reason: f.Reason, Message: f.Message,
				Refused: f.refused, InFiles: inFiles,
			})
		}
	}
	return out
}

// count counts a line of a plan.
func (s *planSummary) count(line string) {
	switch line[:min(1, len(line))] {
	case "+":
		s.Add++
	case "-":
		s.Delete++
	default:
		s.Change++
	}
}

// addPreview adds what the API server says about the objects of the files.
func (r *planReport) addPreview(m *kube.Manifests, preview *kube.ManifestPreview) {
	for _, c := range preview.Changes {
		r.Objects = append(r.Objects, plannedObject{
			Action: c.Action, Kind: c.Kind, Namespace: c.Namespace, Name: c.Object, From: c.Position, Fields: c.Fields,
		})
	}
	r.Mistakes, r.Warnings, r.Ignored = preview.Mistakes, preview.Warnings, m.Ignored
	r.Summary.Mistakes += len(r.Mistakes)
}

func (r planReport) hasMistakes() bool { return r.Summary.Mistakes > 0 }

// hasChanges reports whether something would be written.
func (r planReport) hasChanges() bool {
	return r.Summary.Add+r.Summary.Change+r.Summary.Delete > 0 ||
		slices.ContainsFunc(r.Objects, func(o plannedObject) bool { return o.Action != kube.ActionUnchanged })
}

// printText prints the plan: mistakes first.
func (r planReport) printText(w io.Writer, i colorizer) error {
	for _, wrong := range r.Mistakes {
		fmt.Fprintf(w, "%s %s\n", i.red("!"), wrong)
	}
	for _, warning := range r.Warnings {
		fmt.Fprintf(w, "%s %s\n", i.yellow("warning:"), warning)
	}
	if len(r.Ignored) > 0 {
		fmt.Fprintf(w, "ignored: %s\n", humanize.JoinLimited(r.Ignored, maxShownObjects))
	}
	if len(r.Objects) > 0 {
		fmt.Fprintln(w, "objects of the files")
	}
	for _, o := range r.Objects {
		name := strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
		fmt.Fprintf(w, "  %s %s %s%s\n", actionSign(o.Action), o.Kind, name, describeAction(o))
	}
	for _, p := range r.Projects {
		p.printText(w, i)
	}
	_, err := fmt.Fprintln(w, r.summarize())
	return err
}

func actionSign(action string) string {
	switch action {
	case kube.ActionCreate:
		return "+"
	case kube.ActionChange:
		return "~"
	case kube.ActionDelete:
		return "-"
	default:
		return " "
	}
}

func describeAction(o plannedObject) string {
	switch o.Action {
	case kube.ActionUnchanged:
		return ": no change"
	case kube.ActionChange:
		return ": " + humanize.JoinLimited(o.Fields, maxShownObjects)
	default:
		return ""
	}
}

// printText prints what the controller would write for a project, if there is anything.
func (p plannedProject) printText(w io.Writer, i colorizer) {
	if len(p.Changes)+len(p.Problems) == 0 {
		return
	}
	fmt.Fprintf(w, "project %s\n", p.Name)
	scope := ""
	for _, c := range p.Changes {
		if c.Scope != scope {
			fmt.Fprintf(w, "  %s\n", c.Scope)
			scope = c.Scope
		}
		waits := ""
		if c.Held {
			waits = " (waits)"
		}
		fmt.Fprintf(w, "    %s    # %s%s\n", c.Line, c.For, waits)
	}
	for _, problem := range p.Problems {
		sign := "waiting:"
		if problem.Refused {
			sign = i.red("!")
		}
		fmt.Fprintf(w, "  %s %s: %s: %s\n", sign, problem.Object, problem.Reason, problem.Message)
	}
}

// summarize returns the last line.
func (r planReport) summarize() string {
	scope := humanize.Pluralize(r.Summary.Projects, "project", "projects")
	if len(r.Objects) > 0 {
		scope = humanize.Pluralize(len(r.Objects), "object", "objects") + " of the files, " + scope
	}
	mistakes := ""
	if r.Summary.Mistakes > 0 {
		mistakes = humanize.Pluralize(r.Summary.Mistakes, "mistake", "mistakes") + "; "
	}
	if !r.hasChanges() && r.Summary.Projects+len(r.Objects) == 0 && mistakes != "" {
		return strings.TrimSuffix(mistakes, "; ")
	}
	if !r.hasChanges() {
		return mistakes + "no changes: " + scope + " compared"
	}
	changed := 0
	for _, o := range r.Objects {
		if o.Action != kube.ActionUnchanged {
			changed++
		}
	}
	api := ""
	if changed > 0 {
		api = humanize.Pluralize(changed, "object", "objects") + " of the files to apply; "
		if r.Objects[0].Action == kube.ActionDelete {
			api = humanize.Pluralize(changed, "object", "objects") + " of the files to delete; "
		}
	}
	return fmt.Sprintf("%splan: %sfor %s, the controller would add %d, change %d and delete %d", mistakes, api,
		humanize.Pluralize(r.Summary.Projects, "project", "projects"), r.Summary.Add, r.Summary.Change, r.Summary.Delete)
}
