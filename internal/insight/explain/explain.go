// Package explain is the explanation of one object or address: what was requested, what was compiled for it, which OVN
// rows exist, what is wrong and what to do next.
package explain

import (
	"cmp"
	"net/netip"
	"slices"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/insight/trace"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/internal/model/status"
)

// Explanation is the explanation of an object or address.
type Explanation struct {
	About state.Ref `json:"about"`
	// AddressOwners lists the owners of the address. It is nil if the subject is an object.
	AddressOwners *AddressOwners `json:"whose,omitempty"`
	// State is a short phrase such as "is in force". Healthy reports whether the object works.
	State     string       `json:"state"`
	Healthy   bool         `json:"works"`
	Addresses []netip.Addr `json:"addresses,omitempty"`
	Requested []string     `json:"asked,omitempty"`
	// Path lists the hops of connections that the object is for. Parts lists what the object consists of and depends on.
	Path  []trace.Hop `json:"path,omitempty"`
	Parts []Part      `json:"has,omitempty"`
	// Compiled lists everything compiled for the object, including what it shares with others.
	Compiled []Entry `json:"made,omitempty"`
	// Rows lists the OVN rows that belong to the object or contain its address, whoever wrote them.
	Rows  []Row  `json:"rows,omitempty"`
	Nodes []Fact `json:"nodes,omitempty"`
	// Differences lists what the controller would write for the object.
	Differences []Entry `json:"differs,omitempty"`
	// Conditions are the conditions computed from the cluster state. StaleConditions are the conditions in the
	// object's status that differ from them.
	Conditions      []Condition         `json:"conditions,omitempty"`
	StaleConditions []Condition         `json:"stated,omitempty"`
	Events          []Fact              `json:"events,omitempty"`
	Findings        []diagnosis.Finding `json:"wrong,omitempty"`
	NextSteps       []string            `json:"next,omitempty"`
	// ReadFailures lists the systems that could not be read. The explanation may be incomplete.
	ReadFailures []Fact `json:"unread,omitempty"`
}

// Part is a statement about an object. A broken part does not work.
type Part struct {
	About  state.Ref `json:"about"`
	Text   string    `json:"text"`
	Broken bool      `json:"broken,omitempty"`
}

// Entry is a compiled object, Vpc list entry or row. Present reports whether it exists as compiled.
type Entry struct {
	Scope   string    `json:"in"`
	Text    string    `json:"text"`
	Origin  state.Ref `json:"by"`
	Present bool      `json:"there"`
}

// Row is a row of the OVN northbound database.
type Row struct {
	Table  string `json:"table"`
	Parent string `json:"on,omitempty"` // router or switch
	Text   string `json:"text"`
}

// Fact is a statement about its source, such as a node, a system or the reason of an event.
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

// positiveConditions are the conditions that should be true. Other conditions, such as a node's DiskPressure, are
// ignored, except PortsError, which should not be true.
var positiveConditions = []string{
	kubedcv1.ConditionAccepted, kubedcv1.ConditionResolvedRefs, kubedcv1.ConditionProgrammed, intent.HasEndpoints,
	status.ConditionReturnPath,
	status.ConditionNetworkAllowed, "Ready",
}

// isFailing reports whether the condition indicates a problem.
func (c Condition) isFailing() bool {
	return c.Status != "True" && slices.Contains(positiveConditions, c.Type) || c.Status == "True" &&
		c.Type == status.ConditionPortsError
}

// explainer builds one explanation.
type explainer struct {
	s            *clusterstate.State
	ref          state.Ref
	dependencies []state.Ref
	// sharedOrigins are origins that the object shares with others, such as a return path. What was compiled for them
	// belongs to the object too.
	sharedOrigins []state.Ref
	// ovnUnread is set if the northbound database could not be read. Then a missing row means nothing.
	ovnUnread bool
	tracer    *trace.Tracer
	examples  []trace.Query // connections that the object is for
	// pathFindings are about pods that were asked whether they answer, and do not.
	pathFindings []diagnosis.Finding
	out          *Explanation
}

// explainObject explains an object, given all findings of the cluster.
func explainObject(s *clusterstate.State, ref state.Ref, findings []diagnosis.Finding) Explanation {
	e := &explainer{s: s, ref: ref, dependencies: s.DependenciesOf(ref), out: &Explanation{About: ref}}
	if v := s.Verdict(ref); v != nil {
		e.sharedOrigins = v.Through
	}
	e.ovnUnread = slices.ContainsFunc(s.Unread, func(u clusterstate.ReadFailure) bool {
		return u.System == clusterstate.Northbound
	})
	e.tracer = trace.New(s)
	e.examples = e.tracer.ExampleQueries(ref)
	e.addPath()
	e.describeRequest() // also adds the addresses and the parts
	e.collectCompiled()
	e.collectRows()
	e.collectNodeFacts()
	e.deriveConditions()
	e.collectEvents()
	e.selectFindings(findings)
	e.summarizeState()
	return *e.out
}

// belongsToObject reports whether the origin is the object or one that it shares with others.
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

// selectFindings selects the findings about the object and its dependencies, causes first. If there is none about the
// object itself, its first failing condition becomes a finding.
func (e *explainer) selectFindings(findings []diagnosis.Finding) {
	e.out.Findings = diagnosis.FilterByRefs(findings, e.dependencies...)
	for _, f := range e.pathFindings {
		if !slices.ContainsFunc(e.out.Findings, func(o diagnosis.Finding) bool { return o.Code == f.Code }) {
			f.About = append(f.About, e.ref)
			e.out.Findings = append(e.out.Findings, f)
			diagnosis.Sort(e.out.Findings)
		}
	}
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
		f.Severity = diagnosis.Warning // every object passes through this state
	}
	e.out.Findings = append(e.out.Findings, f)
	diagnosis.Sort(e.out.Findings)
}
