package diagnosis

import (
	"cmp"
	"slices"
	"time"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/internal/model/status"
)

// How long a stage that every object goes through may take before it is worth a word, and how long a deletion.
const (
	transientGracePeriod = 15 * time.Second
	deletionGracePeriod  = time.Minute
)

// Reasons that do not keep an object from working, or not all of it.
var partialFailureReasons = []string{
	intent.NoAddressForChecks, intent.NoEgress, intent.NodeNotOnNetwork, intent.NoEnvoyGateway, intent.SomePortTaken,
	intent.TooManyPorts,
	intent.EndpointOutsideProject, intent.EndpointNotInNamespace, intent.UnassignedRequest, intent.EngineTooOld,
	intent.Disturbed, intent.BeingDeleted, intent.NetworkNoLongerAllowed,
}

// Reasons of what somebody wants to go.
var deletionReasons = []string{
	intent.Deleting, intent.ProjectDeleting, intent.CleaningUp,
	intent.NamespaceContentRemaining, intent.InUse,
}

// checkConditions finds what objects say of themselves.
func (p *checker) checkConditions() {
	for _, o := range p.managedObjects() {
		for _, c := range o.Conditions {
			if isFailingCondition(c) {
				p.reportCondition(o, c)
			}
		}
	}
}

// isFailingCondition says whether a condition is not as it should be. Kubernetes' own on ports is the other way round.
func isFailingCondition(c clusterstate.Condition) bool {
	return c.Status == "False" && c.Type != status.ConditionPortsError || c.Status == "True" &&
		c.Type == status.ConditionPortsError
}

// reportCondition reports a condition, unless it will pass, or is told better already.
func (p *checker) reportCondition(o *clusterstate.Object, c clusterstate.Condition) {
	age := p.now.Sub(c.Since)
	severity, root := Error, rankSymptom
	switch {
	case c.Reason == intent.NotAccepted:
		return // another condition says why
	case slices.Contains(deletionReasons, c.Reason):
		if severity = Warning; age < deletionGracePeriod {
			return
		}
	case intent.IsTransientReason(c.Reason):
		if age < transientGracePeriod {
			return
		}
	case c.Reason == intent.NoEndpoints, c.Reason == intent.PodsNotServed:
		if p.hasFinding(o.Ref, Error) {
			return // a check has found out why
		}
	case slices.Contains(partialFailureReasons, c.Reason):
		severity = Warning
	default:
		root = rankSingleObject
	}
	if c.Type == status.ConditionPortsError && hasFalseCondition(o) {
		return // said there, too
	}
	p.findings = append(p.findings, &Finding{
		Code: c.Reason, Severity: severity, About: []state.Ref{o.Ref}, CauseRank: root,
		Message:     o.String() + ": " + cmp.Or(c.Message, intent.ReasonMeaning(c.Reason)),
		Remediation: intent.ReasonRemedy(c.Reason),
	})
}

// hasFinding says whether something as bad is known of an object.
func (p *checker) hasFinding(ref state.Ref, least Severity) bool {
	return slices.ContainsFunc(p.findings, func(f *Finding) bool {
		return f.Severity >= least && slices.Contains(f.About, ref)
	})
}

func hasFalseCondition(o *clusterstate.Object) bool {
	return slices.ContainsFunc(o.Conditions, func(c clusterstate.Condition) bool { return c.Status == "False" })
}
