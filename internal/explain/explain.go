// Package explain is an object, or an address, told to somebody who has to know why it does not work: what was asked for, what was made of
// it, where it is, what is wrong and what to do next.
package explain

import (
	"cmp"
	"net/netip"
	"slices"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/diagnosis"
	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/status"
	"github.com/sallyport/sallyport/internal/survey"
)

// Explanation is an object explained.
type Explanation struct {
	About state.Ref `json:"about"`
	// Whose says who has the address that was asked about; nil: somebody asked about the object.
	Whose *Whose `json:"whose,omitempty"`
	// State is how it is doing, in a few words, and Works whether that is well.
	State     string       `json:"state"`
	Works     bool         `json:"works"`
	Addresses []netip.Addr `json:"addresses,omitempty"`
	Asked     []string     `json:"asked,omitempty"`
	// Path is the things that packets pass, in order, and Has what the object consists of.
	Path []Step `json:"path,omitempty"`
	Has  []Step `json:"has,omitempty"`
	// Made is what was compiled for it, alone or with others, and whether it is there.
	Made []Entry `json:"made,omitempty"`
	// Rows are those of OVN that are about it or have its address, whoever wrote them.
	Rows  []Row  `json:"rows,omitempty"`
	Nodes []Fact `json:"nodes,omitempty"`
	// Differs is what would be written for it.
	Differs []Entry `json:"differs,omitempty"`
	// Conditions are those that follow from all this, and Stated those that it has, where they differ.
	Conditions []Condition         `json:"conditions,omitempty"`
	Stated     []Condition         `json:"stated,omitempty"`
	Events     []Fact              `json:"events,omitempty"`
	Wrong      []diagnosis.Finding `json:"wrong,omitempty"`
	Next       []string            `json:"next,omitempty"`
	// Unread is what could not be read, so that something may be missing here.
	Unread []Fact `json:"unread,omitempty"`
}

// Step is something that packets pass. Broken: they do not.
type Step struct {
	About  state.Ref `json:"about"`
	Text   string    `json:"text"`
	Broken bool      `json:"broken,omitempty"`
}

// Entry is something that should be somewhere. There: it is, and as it should be.
type Entry struct {
	Scope string    `json:"in"`
	Text  string    `json:"text"`
	By    state.Ref `json:"by"`
	There bool      `json:"there"`
}

// Row is a row of OVN's databases.
type Row struct {
	Table string `json:"table"`
	On    string `json:"on,omitempty"` // router or switch
	Text  string `json:"text"`
}

// Fact is what somebody says.
type Fact struct {
	Who  string `json:"who"`
	Text string `json:"text"`
}

// Condition is a condition of an object.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// hoped are the conditions that should be true. Of others, such as those of nodes on their discs, nothing follows here; PortsError should
// not be there.
var hoped = []string{
	kubedcv1.ConditionAccepted, kubedcv1.ConditionResolvedRefs, kubedcv1.ConditionProgrammed, intent.HasEndpoints, status.ReturnPath,
	status.NetworkAllowed, "Ready",
}

// bad says whether the condition is one to look at.
func (c Condition) bad() bool {
	return c.Status != "True" && slices.Contains(hoped, c.Type) || c.Status == "True" && c.Type == status.PortsError
}

// explainer is one explanation in the making.
type explainer struct {
	s     *survey.Survey
	ref   state.Ref
	chain []state.Ref
	// through is what the object shares with others: what was made for these is made for it, too.
	through []state.Ref
	// blind: OVN could not be read, and nothing follows from what is not there.
	blind bool
	out   *Explanation
}

// object explains an object, given what is wrong with the cluster.
func object(s *survey.Survey, ref state.Ref, findings []diagnosis.Finding) Explanation {
	e := &explainer{s: s, ref: ref, chain: s.HangsOn(ref), out: &Explanation{About: ref}}
	if v := s.Verdict(ref); v != nil {
		e.through = v.Through
	}
	e.blind = slices.ContainsFunc(s.Unread, func(u survey.Unread) bool { return u.System == survey.Northbound })
	e.tell()     // what was asked for, and the way of packets
	e.compare()  // what was made of it, and what differs
	e.findRows() // what OVN has
	e.askNodes() // what nodes say
	e.judge()    // which conditions follow
	e.warn()     // what was said of it
	e.find(findings)
	e.conclude() // how it is doing, and what to do next
	return *e.out
}

// mine says whether something was made for the object, alone or with others.
func (e *explainer) mine(by state.Ref) bool { return by == e.ref || slices.Contains(e.through, by) }

func (e *explainer) compare() {
	for _, shard := range e.s.Shards {
		for _, w := range shard.Wanted {
			if e.mine(w.Origin) {
				e.out.Made = append(e.out.Made, Entry{w.Scope, w.Text, w.Origin, w.There})
			}
		}
		for _, d := range shard.Differs {
			if e.mine(d.Origin) {
				e.out.Differs = append(e.out.Differs, Entry{Scope: d.Scope, Text: d.Text, By: d.Origin})
			}
		}
		if shard.Problem != "" && slices.Contains(e.chain, survey.RouterRef(shard.Name)) {
			e.out.Unread = append(e.out.Unread, Fact{"shard " + shard.Name, shard.Problem})
		}
	}
	for _, u := range e.s.Unread {
		e.out.Unread = append(e.out.Unread, Fact{u.System, u.Problem})
	}
}

func (e *explainer) warn() {
	for _, w := range e.s.Cluster.Events {
		if w.About == e.ref {
			e.out.Events = append(e.out.Events, Fact{w.Reason, w.Message})
		}
	}
}

// find is what is wrong with the object and with what it hangs on, what explains the rest first. Where nothing is known of the object
// itself, its first condition that is not as it should be tells.
func (e *explainer) find(findings []diagnosis.Finding) {
	e.out.Wrong = diagnosis.Touching(findings, e.chain...)
	known := slices.ContainsFunc(e.out.Wrong, func(f diagnosis.Finding) bool {
		return f.Severity > diagnosis.Info && slices.Contains(f.About, e.ref)
	})
	i := slices.IndexFunc(e.out.Conditions, Condition.bad)
	if i < 0 || known || e.object().Deleting {
		return
	}
	c := e.out.Conditions[i]
	f := diagnosis.Finding{
		Code: c.Reason, Severity: diagnosis.Error, About: []state.Ref{e.ref}, Message: cmp.Or(c.Message, intent.Meaning(c.Reason)), Cure: intent.Next(c.Reason),
	}
	if intent.Passing(c.Reason) {
		f.Severity = diagnosis.Warning // as yet it is a stage that every object goes through
	}
	e.out.Wrong = append(e.out.Wrong, f)
	diagnosis.Sort(e.out.Wrong)
}
