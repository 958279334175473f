// Package explain is an object, or an address, told to somebody who has to know why it does not work: what was asked
// for, what was made of it, where it is, what is wrong and what to do next.
package explain

import (
	"cmp"
	"net/netip"
	"slices"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/internal/model/status"
)

// Explanation is an object explained.
type Explanation struct {
	About state.Ref `json:"about"`
	// AddressOwners says who has the address that was asked about; nil: somebody asked about the object.
	AddressOwners *AddressOwners `json:"whose,omitempty"`
	// State is how it is doing, in a few words, and Works whether that is well.
	State     string       `json:"state"`
	Healthy   bool         `json:"works"`
	Addresses []netip.Addr `json:"addresses,omitempty"`
	Requested []string     `json:"asked,omitempty"`
	// Path is the things that packets pass, in order, and Has what the object consists of.
	Path  []Step `json:"path,omitempty"`
	Parts []Step `json:"has,omitempty"`
	// Compiled is what was compiled for it, alone or with others, and whether it is there.
	Compiled []Entry `json:"made,omitempty"`
	// Rows are those of OVN that are about it or have its address, whoever wrote them.
	Rows  []Row  `json:"rows,omitempty"`
	Nodes []Fact `json:"nodes,omitempty"`
	// Differences is what would be written for it.
	Differences []Entry `json:"differs,omitempty"`
	// Conditions are those that follow from all this, and Stated those that it has, where they differ.
	Conditions      []Condition         `json:"conditions,omitempty"`
	StaleConditions []Condition         `json:"stated,omitempty"`
	Events          []Fact              `json:"events,omitempty"`
	Findings        []diagnosis.Finding `json:"wrong,omitempty"`
	NextSteps       []string            `json:"next,omitempty"`
	// ReadFailures is what could not be read, so that something may be missing here.
	ReadFailures []Fact `json:"unread,omitempty"`
}

// Step is something that packets pass. Broken: they do not.
type Step struct {
	About  state.Ref `json:"about"`
	Text   string    `json:"text"`
	Broken bool      `json:"broken,omitempty"`
}

// Entry is something that should be somewhere. There: it is, and as it should be.
type Entry struct {
	Scope   string    `json:"in"`
	Text    string    `json:"text"`
	Origin  state.Ref `json:"by"`
	Present bool      `json:"there"`
}

// Row is a row of OVN's databases.
type Row struct {
	Table  string `json:"table"`
	Parent string `json:"on,omitempty"` // router or switch
	Text   string `json:"text"`
}

// Fact is what somebody says.
type Fact struct {
	Source string `json:"who"`
	Text   string `json:"text"`
}

// Condition is a condition of an object.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// positiveConditions are the conditions that should be true. Of others, such as those of nodes on their discs, nothing
// follows here; PortsError should not be there.
var positiveConditions = []string{
	kubedcv1.ConditionAccepted, kubedcv1.ConditionResolvedRefs, kubedcv1.ConditionProgrammed, intent.HasEndpoints,
	status.ConditionReturnPath,
	status.ConditionNetworkAllowed, "Ready",
}

// isFailing says whether the condition is one to look at.
func (c Condition) isFailing() bool {
	return c.Status != "True" && slices.Contains(positiveConditions, c.Type) || c.Status == "True" &&
		c.Type == status.ConditionPortsError
}

// explainer is one explanation in the making.
type explainer struct {
	s            *clusterstate.State
	ref          state.Ref
	dependencies []state.Ref
	// sharedOrigins is what the object shares with others: what was made for these is made for it, too.
	sharedOrigins []state.Ref
	// ovnUnread: OVN could not be read, and nothing follows from what is not there.
	ovnUnread bool
	out       *Explanation
}

// explainObject explains an object, given what is wrong with the cluster.
func explainObject(s *clusterstate.State, ref state.Ref, findings []diagnosis.Finding) Explanation {
	e := &explainer{s: s, ref: ref, dependencies: s.DependenciesOf(ref), out: &Explanation{About: ref}}
	if v := s.Verdict(ref); v != nil {
		e.sharedOrigins = v.Through
	}
	e.ovnUnread = slices.ContainsFunc(s.Unread, func(u clusterstate.ReadFailure) bool {
		return u.System == clusterstate.Northbound
	})
	e.describeRequest()  // what was asked for, and the way of packets
	e.collectCompiled()  // what was made of it, and what differs
	e.collectRows()      // what OVN has
	e.collectNodeFacts() // what nodes say
	e.deriveConditions() // which conditions follow
	e.collectEvents()    // what was said of it
	e.selectFindings(findings)
	e.summarizeState() // how it is doing, and what to do next
	return *e.out
}

// belongsToObject says whether something was made for the object, alone or with others.
func (e *explainer) belongsToObject(by state.Ref) bool {
	return by == e.ref || slices.Contains(e.sharedOrigins, by)
}

func (e *explainer) collectCompiled() {
	for _, shard := range e.s.Shards {
		for _, w := range shard.Wanted {
			if e.belongsToObject(w.Origin) {
				e.out.Compiled = append(e.out.Compiled, Entry{w.Scope, w.Text, w.Origin, w.There})
			}
		}
		for _, d := range shard.Differs {
			if e.belongsToObject(d.Origin) {
				e.out.Differences = append(e.out.Differences, Entry{Scope: d.Scope, Text: d.Text, Origin: d.Origin})
			}
		}
		if shard.Problem != "" && slices.Contains(e.dependencies, clusterstate.RouterRef(shard.Name)) {
			e.out.ReadFailures = append(e.out.ReadFailures, Fact{"shard " + shard.Name, shard.Problem})
		}
	}
	for _, u := range e.s.Unread {
		e.out.ReadFailures = append(e.out.ReadFailures, Fact{u.System, u.Problem})
	}
}

func (e *explainer) collectEvents() {
	for _, w := range e.s.Cluster.Events {
		if w.About == e.ref {
			e.out.Events = append(e.out.Events, Fact{w.Reason, w.Message})
		}
	}
}

// selectFindings is what is wrong with the object and with what it hangs on, what explains the rest first. Where
// nothing is known of the object itself, its first condition that is not as it should be tells.
func (e *explainer) selectFindings(findings []diagnosis.Finding) {
	e.out.Findings = diagnosis.FilterByRefs(findings, e.dependencies...)
	known := slices.ContainsFunc(e.out.Findings, func(f diagnosis.Finding) bool {
		return f.Severity > diagnosis.Info && slices.Contains(f.About, e.ref)
	})
	i := slices.IndexFunc(e.out.Conditions, Condition.isFailing)
	if i < 0 || known || e.findObject().Deleting {
		return
	}
	c := e.out.Conditions[i]
	f := diagnosis.Finding{
		Code: c.Reason, Severity: diagnosis.Error, About: []state.Ref{e.ref},
		Message: cmp.Or(c.Message, intent.ReasonMeaning(c.Reason)), Remediation: intent.ReasonRemedy(c.Reason),
	}
	if intent.IsTransientReason(c.Reason) {
		f.Severity = diagnosis.Warning // as yet it is a stage that every object goes through
	}
	e.out.Findings = append(e.out.Findings, f)
	diagnosis.Sort(e.out.Findings)
}
