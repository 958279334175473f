package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/internal/insight/adoption"
	"github.com/sallyport/sallyport/internal/insight/collector"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/humanize"
)

// adoptOptions holds the flags of adopt.
type adoptOptions struct {
	access clusterAccess
	output outputFlags
	apply  bool
	wait   time.Duration
}

func adoptCommand() *cobra.Command {
	var o adoptOptions
	cmd := &cobra.Command{
		Use:   "adopt [ORGANIZATION/PROJECT...]",
		Short: "Take over objects of kube-dc or Kube-OVN, without an interruption of traffic",
		Long: `Take over objects that kube-dc created, or that somebody wrote for Kube-OVN: a Vpc
with its Subnet, OvnEips, OvnFips and OvnSnatRule, and the EIps and FIps of kube-dc.

Without --apply, the command changes nothing. It prints what a Project could take
over, what would be created and changed, what stays as it is and why, and what the
controller would then write. Without names it does so for every Vpc that could belong
to a Project.

With --apply, it labels these objects, creates the Project, EIps and FIps that do not
exist, and waits until the controller has taken over everything. Names, addresses, MAC
addresses and translations stay: nothing is deleted and created again. The Projects
must be named. A Project that can't take over its Vpc as it is gets nothing, and
nothing of it is changed; run the command again after removing the reason, or after an
interruption.

Stop the controller that wrote the objects first. From then on the Project owns them:
deleting it deletes them.

Exit codes: 0; 1 for an error, or if a Project can't take over its Vpc.`,
		Example: `  sallyport adopt                      # what could be adopted
  sallyport adopt acme/web             # what adopting Vpc acme-web would change
  sallyport adopt acme/web --apply`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.runAdopt(cmd, args) },
	}
	o.access.addFlags(cmd)
	o.output.addFlag(cmd)
	cmd.Flags().BoolVar(&o.apply, "apply", false, "take over the objects of the named Projects")
	cmd.Flags().DurationVar(&o.wait, "wait", 2*time.Minute, "with --apply, maximum time until everything is taken over")
	return cmd
}

func (o *adoptOptions) runAdopt(cmd *cobra.Command, args []string) error {
	named, err := o.parseProjects(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.access.timeout)
	defer cancel()
	look, err := o.access.openObserver(ctx)
	if err != nil {
		return err
	}
	defer look.Close()
	done := showProgress(cmd, "reading the cluster")
	plans, unnamed, err := look.PlanAdoption(ctx, named)
	done()
	if err != nil {
		return err
	}
	report := newAdoptReport(plans, unnamed)
	if o.apply {
		o.applyPlans(cmd, look, &report)
	}
	report = clusterstate.EscapeControlChars(report)
	if err := o.output.printResult(cmd, report, report.printText); err != nil {
		return err
	}
	if report.Summary.Refused > 0 && len(named) > 0 || report.Summary.Failed > 0 {
		return exitMistakes
	}
	return nil
}

// parseProjects returns the organizations and names of the Projects.
func (o *adoptOptions) parseProjects(args []string) (out [][2]string, err error) {
	switch {
	case o.access.surveyPath != "":
		return nil, errors.New("adopt needs a cluster; omit --survey")
	case o.apply && len(args) == 0:
		return nil, errors.New("--apply needs the Projects, as ORGANIZATION/PROJECT; run the command without --apply to see them")
	}
	for _, text := range args {
		organization, name, ok := strings.Cut(text, "/")
		if !ok || organization == "" || name == "" || strings.Contains(name, "/") {
			return nil, fmt.Errorf("%s is not ORGANIZATION/PROJECT; Vpc acme-web is that of acme/web", humanize.Quote(text))
		}
		out = append(out, [2]string{organization, name})
	}
	return out, nil
}

// applyPlans carries out the plans that can be, one after the other.
func (o *adoptOptions) applyPlans(cmd *cobra.Command, look *collector.Collector, report *adoptReport) {
	for i := range report.Projects {
		p := &report.Projects[i]
		if len(p.plan.Problems) > 0 || p.plan.IsEmpty() {
			continue
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), o.wait)
		done := showProgress(cmd, "adopting "+p.Project)
		p.Pending, p.Error = adoptAndWait(ctx, look, p.plan)
		done()
		cancel()
		if p.Adopted = p.Error == "" && len(p.Pending) == 0; !p.Adopted {
			report.Summary.Failed++
		}
	}
}

// adoptAndWait carries out a plan, and waits until everything is ready. It returns what is not.
func adoptAndWait(ctx context.Context, look *collector.Collector, plan *adoption.Plan) (pending []string, problem string) {
	if err := look.ApplyAdoption(ctx, plan); err != nil {
		return nil, err.Error() + "; run the command again, what was done stays"
	}
	tick := time.NewTicker(time.Second / 2)
	defer tick.Stop()
	for {
		now, err := look.PendingAdoption(ctx, plan)
		switch {
		case ctx.Err() != nil:
			return pending, ""
		case err != nil:
			return pending, err.Error()
		case len(now) == 0:
			return nil, ""
		}
		pending = now
		select {
		case <-ctx.Done():
			return pending, ""
		case <-tick.C:
		}
	}
}

// adoptReport is the output of adopt.
type adoptReport struct {
	Projects []adoptedProject `json:"projects"`
	// Left are the Vpcs that no Project can have.
	Left    []adoption.Item `json:"left,omitempty"`
	Summary adoptSummary    `json:"summary"`
}

// adoptedProject is what a Project takes over.
type adoptedProject struct {
	Project  string          `json:"project"`
	VPC      string          `json:"vpc"`
	Items    []adoption.Item `json:"items"`
	Problems []string        `json:"problems,omitempty"`
	// Changes are what the controller writes.
	Changes []string `json:"changes,omitempty"`
	Adopted bool     `json:"adopted,omitempty"`
	// Pending is what is not ready yet after --apply.
	Pending []string `json:"pending,omitempty"`
	Error   string   `json:"error,omitempty"`

	plan *adoption.Plan
}

// adoptSummary counts objects and Projects.
type adoptSummary struct {
	TakeOver int `json:"takeOver"`
	Create   int `json:"create"`
	Leave    int `json:"leave"`
	Refused  int `json:"refused"`
	Failed   int `json:"failed,omitempty"`
}

func newAdoptReport(plans []collector.Adoption, left []adoption.Item) adoptReport {
	out := adoptReport{Projects: []adoptedProject{}, Left: left}
	for _, a := range plans {
		p := adoptedProject{Project: a.Project, VPC: a.VPC, plan: a.Plan, Changes: a.CheckPreview(a.Shard)}
		p.Items, p.Problems = a.Items, a.Problems
		if len(p.Problems) > 0 {
			out.Summary.Refused++
		}
		for _, item := range p.Items {
			switch {
			case item.Action == adoption.Leave:
				out.Summary.Leave++
			case len(p.Problems) > 0:
			case item.Action == adoption.Create:
				out.Summary.Create++
			case item.Action == adoption.Take:
				out.Summary.TakeOver++
			}
		}
		out.Projects = append(out.Projects, p)
	}
	out.Summary.Leave += len(left)
	return out
}

// printText prints a table for each Project, then a summary.
func (r adoptReport) printText(w io.Writer, c colorizer) error {
	for _, p := range r.Projects {
		if err := p.printText(w, c); err != nil {
			return err
		}
	}
	for _, item := range r.Left {
		fmt.Fprintf(w, "%s %s stays as it is: %s\n", item.Kind, item.Name, item.Note)
	}
	s := r.Summary
	verb := "to take over"
	for _, p := range r.Projects {
		if p.Adopted {
			verb = "taken over"
		}
	}
	fmt.Fprintf(w, "%s %s, %d to create, %d left as they are; %s can't be adopted\n",
		humanize.Pluralize(s.TakeOver, "object", "objects"), verb, s.Create, s.Leave,
		humanize.Pluralize(s.Refused, "Project", "Projects"))
	return nil
}

// printChanges prints how many rows and entries the controller adds, and those that it changes or removes.
func (p adoptedProject) printChanges(w io.Writer) {
	if len(p.Changes) == 0 {
		return
	}
	added := 0
	for _, line := range p.Changes {
		if strings.HasPrefix(line, "+") {
			added++
		}
	}
	fmt.Fprintf(w, "  the controller adds %d rows of OVN and entries of the Vpc, and changes or removes %d (-o yaml lists all)\n",
		added, len(p.Changes)-added)
	for _, line := range p.Changes {
		if !strings.HasPrefix(line, "+") {
			fmt.Fprintf(w, "    %s\n", line)
		}
	}
}

func (p adoptedProject) printText(w io.Writer, c colorizer) error {
	fmt.Fprintf(w, "Project %s, Vpc %s\n", p.Project, p.VPC)
	for _, problem := range p.Problems {
		fmt.Fprintf(w, "  %s %s\n", c.red("!"), problem)
	}
	if len(p.Problems) > 0 {
		for _, item := range p.Items {
			if item.Action == adoption.Leave { // may be the cause
				fmt.Fprintf(w, "  leave %s %s: %s\n", item.Kind, item.Name, item.Note)
			}
		}
		fmt.Fprintf(w, "  nothing of it is changed\n\n")
		return nil
	}
	if p.plan != nil && p.plan.IsEmpty() {
		fmt.Fprintln(w, "  nothing is left to take over")
	}
	t := newTable(w)
	for i, item := range p.Items {
		if i == 0 {
			fmt.Fprintln(t, "  ACTION\tOBJECT\tBECOMES PART OF\tNOTE")
		}
		fmt.Fprintf(t, "  %s\t%s %s\t%s\t%s\n", item.Action, item.Kind, item.Name, orDash(item.Becomes), item.Note)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	p.printChanges(w)
	for _, pending := range p.Pending {
		fmt.Fprintf(w, "  %s %s\n", c.yellow("not ready:"), pending)
	}
	if p.Error != "" {
		fmt.Fprintf(w, "  %s %s\n", c.red("!"), p.Error)
	}
	if p.Adopted {
		fmt.Fprintf(w, "  adopted: Project %s owns these objects\n", p.Project)
	}
	fmt.Fprintln(w)
	return nil
}
