package diagnosis

import (
	"cmp"
	"slices"
	"time"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/status"
	"github.com/sallyport/sallyport/internal/survey"
)

// How long a stage that every object goes through may take before it is worth a word, and how long a deletion.
const (
	stage   = 15 * time.Second
	leaving = time.Minute
)

// Reasons that do not keep an object from working, or not all of it.
var partly = []string{
	intent.NoProber, intent.NoEgress, intent.NodeElsewhere, intent.NoEnvoyGateway, intent.SomePortTaken, intent.TooManyPorts,
	intent.OutsideUnused, intent.EndpointNotOwned, intent.UnassignedRequest, intent.EngineTooOld, intent.Disturbed, intent.BeingDeleted, intent.NoLongerAllowed,
}

// Reasons of what somebody wants to go.
var departing = []string{intent.Deleting, intent.ProjectDeleting, intent.Cleanup, intent.NamespaceRemains, intent.InUse}

// conditions finds what objects say of themselves.
func (p *patient) conditions() {
	for _, o := range p.judged() {
		for _, c := range o.Conditions {
			if wrong(c) {
				p.condition(o, c)
			}
		}
	}
}

// wrong says whether a condition is not as it should be. Kubernetes' own on ports is the other way round.
func wrong(c survey.Condition) bool {
	return c.Status == "False" && c.Type != status.PortsError || c.Status == "True" && c.Type == status.PortsError
}

// condition reports a condition, unless it will pass, or is told better already.
func (p *patient) condition(o *survey.Object, c survey.Condition) {
	age := p.now.Sub(c.Since)
	severity, root := Error, symptom
	switch {
	case c.Reason == intent.NotAccepted:
		return // another condition says why
	case slices.Contains(departing, c.Reason):
		if severity = Warning; age < leaving {
			return
		}
	case intent.Passing(c.Reason):
		if age < stage {
			return
		}
	case c.Reason == intent.NoEndpoints, c.Reason == intent.PodsNotServed:
		if p.told(o.Ref, Error) {
			return // a check has found out why
		}
	case slices.Contains(partly, c.Reason):
		severity = Warning
	default:
		root = single
	}
	if c.Type == status.PortsError && hasFalse(o) {
		return // said there, too
	}
	p.found = append(p.found, &Finding{
		Code: c.Reason, Severity: severity, About: []state.Ref{o.Ref}, Root: root,
		Message: o.String() + ": " + cmp.Or(c.Message, intent.Meaning(c.Reason)), Cure: intent.Next(c.Reason),
	})
}

// told says whether something as bad is known of an object.
func (p *patient) told(ref state.Ref, least Severity) bool {
	return slices.ContainsFunc(p.found, func(f *Finding) bool { return f.Severity >= least && slices.Contains(f.About, ref) })
}

func hasFalse(o *survey.Object) bool {
	return slices.ContainsFunc(o.Conditions, func(c survey.Condition) bool { return c.Status == "False" })
}
