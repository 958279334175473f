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

// How long a transient condition and a deletion may last before they are reported.
const (
	transientGracePeriod = 15 * time.Second
	deletionGracePeriod  = time.Minute
)

// Reasons with which an object works, at least in part.
var partialFailureReasons = []string{
	intent.NoAddressForChecks, intent.NoEgress, intent.NodeNotOnNetwork, intent.NoEnvoyGateway, intent.SomePortTaken,
	intent.TooManyPorts,
	intent.EndpointOutsideProject, intent.EndpointNotInNamespace, intent.UnassignedRequest, intent.EngineTooOld,
	intent.Disturbed, intent.BeingDeleted, intent.NetworkNoLongerAllowed, intent.OverriddenByFIp,
}

// Reasons of objects that are being deleted.
var deletionReasons = []string{
	intent.Deleting, intent.ProjectDeleting, intent.CleaningUp,
	intent.NamespaceContentRemaining, intent.InUse,
}

// checkConditions reports failing conditions of objects.
func (p *checker) checkConditions() {
	for _, o := range p.managedObjects() {
		for _, c := range o.Conditions {
			if isFailingCondition(c) {
				p.reportCondition(o, c)
			}
		}
	}
}

// isFailingCondition reports whether a condition indicates a problem. Kubernetes' own condition on ports is an error
// when it is True.
func isFailingCondition(c clusterstate.Condition) bool {
	return c.Status == "False" && c.Type != status.ConditionPortsError || c.Status == "True" &&
		c.Type == status.ConditionPortsError
}

// reportCondition reports a condition, unless it is transient or another finding explains it better.
func (p *checker) reportCondition(o *clusterstate.Object, c clusterstate.Condition) {
	age := p.now.Sub(c.Since)
	severity, root := Error, rankSymptom
	switch {
	case intent.IsConsequence(c.Reason):
		return // another condition has the reason
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
			return // a check has found the cause
		}
	case slices.Contains(partialFailureReasons, c.Reason):
		severity = Warning
	default:
		root = rankSingleObject
	}
	if c.Type == status.ConditionPortsError && hasFalseCondition(o) {
		return // another condition has the same problem
	}
	p.findings = append(p.findings, &Finding{
		Code: c.Reason, Severity: severity, About: []state.Ref{o.Ref}, CauseRank: root,
		Message:     o.String() + ": " + cmp.Or(c.Message, intent.ReasonMeaning(c.Reason)),
		Remediation: intent.ReasonRemedy(c.Reason),
	})
}

// hasFinding reports whether an object already has a finding of at least a severity.
func (p *checker) hasFinding(ref state.Ref, least Severity) bool {
	return slices.ContainsFunc(p.findings, func(f *Finding) bool {
		return f.Severity >= least && slices.Contains(f.About, ref)
	})
}

func hasFalseCondition(o *clusterstate.Object) bool {
	return slices.ContainsFunc(o.Conditions, func(c clusterstate.Condition) bool { return c.Status == "False" })
}
