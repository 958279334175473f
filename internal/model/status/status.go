// Package status is what each API object is told about itself: a function of verdicts, failures and what was observed.
package status

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/state"
)

// ConditionDeletable is the condition that an object has only while its deletion waits.
const ConditionDeletable = "Deletable"

// ConditionNetworkAllowed is the condition that an object has only while it has an address of a network that is not for
// its project any more.
const ConditionNetworkAllowed = "NetworkAllowed"

// ConditionReturnPath is the condition of an ExternalNetwork that says how replies find back to it.
const ConditionReturnPath = "ReturnPath"

// ConditionPortsError is the condition of a Service that Kubernetes has for ports which its load balancer can't have.
const ConditionPortsError = "LoadBalancerPortsError"

// Outcome is what a run found in the targets.
type Outcome struct {
	// Missing is, by origin, what is not observed as it should be.
	Missing map[state.Ref][]string
	// Failed is, by origin, what could not be written.
	Failed map[state.Ref][]string
}

// NewOutcome is the outcome of plans, before they were carried out, and of the failures when they were.
func NewOutcome(plans []state.Plan, failures []state.Failure) Outcome {
	out := Outcome{Missing: map[state.Ref][]string{}, Failed: map[state.Ref][]string{}}
	for _, p := range plans {
		for _, l := range p.ChangeLines() {
			if !l.Removes {
				out.Missing[l.Origin] = append(out.Missing[l.Origin], l.Key)
			}
		}
	}
	for _, f := range failures {
		out.Failed[f.Origin] = append(out.Failed[f.Origin], f.Error())
	}
	return out
}

// RenderStatuses is the status of each object that there is a verdict on.
func RenderStatuses(verdicts []intent.Verdict, outcome Outcome) intent.Statuses {
	out := intent.Statuses{}
	for _, v := range verdicts {
		programmed := programmedFinding(v, outcome)
		v.Isolated = isolatedFinding(v, outcome)
		body := statusFields(v, programmed.OK())
		if !isForeign(v) {
			body["conditions"] = renderConditions(v, programmed)
		}
		out[v.Object] = state.Entry[intent.Status]{Value: intent.NewStatus(body), Origin: v.Object.Ref()}
	}
	return out
}

// programmedFinding is why an object, or a part of it, is not in force, or nothing.
func programmedFinding(v intent.Verdict, outcome Outcome) intent.Finding {
	whole := wholeObjectFinding(v, outcome)
	switch {
	case v.Partly.OK() || !v.Accepted.OK() || !v.Resolved.OK():
		return whole
	case whole.OK():
		return v.Partly
	default:
		return intent.Finding{Reason: whole.Reason, Message: whole.Message + "; " + v.Partly.Message}
	}
}

// isolatedFinding is the finding on misplaced pods, with why their packets are not dropped yet although they should be.
func isolatedFinding(v intent.Verdict, outcome Outcome) intent.Finding {
	f, ref := v.Isolated, intent.IsolationRef(projectShard(v))
	switch {
	case f.OK():
	case len(outcome.Failed[ref]) > 0:
		f.Message = "packets are not dropped, because a write failed: " + summarizeLines(outcome.Failed[ref]) + "; " +
			f.Message
	case len(outcome.Missing[ref]) > 0:
		f.Message = "packets are not dropped yet; " + f.Message
	}
	return f
}

// projectShard is the shard of a Project.
func projectShard(v intent.Verdict) string {
	f, _ := v.Facts.(intent.ProjectFacts)
	return f.Namespace
}

// wholeObjectFinding is why nothing of an object may be in force, or nothing. What was only just written is not in
// force yet: it has to be observed, which is the next run's business.
func wholeObjectFinding(v intent.Verdict, outcome Outcome) intent.Finding {
	var failed, missing []string
	for _, ref := range append([]state.Ref{v.Object.Ref()}, v.Through...) {
		failed, missing = append(failed, outcome.Failed[ref]...), append(missing, outcome.Missing[ref]...)
	}
	switch {
	case !v.Accepted.OK() || !v.Resolved.OK():
		return intent.Finding{Reason: intent.NotAccepted, Message: "see the other conditions"}
	case len(failed) > 0:
		return intent.Finding{Reason: intent.WriteFailed, Message: summarizeLines(failed)}
	case !v.Waiting.OK():
		return v.Waiting
	case len(missing) > 0:
		return intent.Finding{Reason: intent.Programming, Message: "not observed yet: " + summarizeLines(missing)}
	default:
		return intent.Finding{}
	}
}

// summarizeLines is the first of several lines, and how many more there are.
func summarizeLines(lines []string) string {
	text := truncate(lines[0], 500)
	if len(lines) > 1 {
		return fmt.Sprintf("%s (and %d more)", text, len(lines)-1)
	}
	return text
}

// maxMessageBytes is how long a message may be, in bytes: the API server refuses Events with more than 1,024.
const maxMessageBytes = 1000

func truncate(text string, most int) string {
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// condition is a condition without the time of its last change, which the target knows.
type condition struct {
	Type, Status, Reason, Message string
}

// toJSONMap is the condition as it is written. A message is one line without control characters, whatever users' texts
// are in it.
func (c condition) toJSONMap(generation int64) map[string]any {
	out := map[string]any{
		"type":    c.Type,
		"status":  c.Status,
		"reason":  c.Reason,
		"message": truncate(humanize.EscapeTerminal(c.Message), maxMessageBytes),
	}
	if generation != 0 {
		out["observedGeneration"] = generation
	}
	return out
}

// ConditionKey is a condition without what is particular to its object.
type ConditionKey struct{ Kind, Condition, Status, Reason string }

// CountConditions is how many objects are told what.
func CountConditions(verdicts []intent.Verdict, outcome Outcome) map[ConditionKey]int {
	out := map[ConditionKey]int{}
	for _, v := range verdicts {
		if isForeign(v) {
			continue
		}
		for _, c := range listConditions(v, programmedFinding(v, outcome)) {
			out[ConditionKey{string(v.Object.Kind), c.Type, c.Status, c.Reason}]++
		}
	}
	return out
}

// isForeign says whether an object is not ours any more.
func isForeign(v intent.Verdict) bool {
	f, isService := v.Facts.(intent.ServiceFacts)
	return isService && f.Foreign
}

func renderConditions(v intent.Verdict, programmed intent.Finding) []any {
	var out []any
	for _, c := range listConditions(v, programmed) {
		out = append(out, c.toJSONMap(v.Generation))
	}
	return out
}

// listConditions is every condition of an object.
func listConditions(v intent.Verdict, programmed intent.Finding) []condition {
	list := []condition{
		newCondition(kubedcv1.ConditionAccepted, intent.Accepted, v.Accepted),
		newCondition(kubedcv1.ConditionResolvedRefs, intent.ResolvedRefs, v.Resolved),
		newCondition(kubedcv1.ConditionProgrammed, intent.Programmed, programmed),
	}
	if !v.Held.OK() {
		list = append(list, newCondition(ConditionDeletable, "", v.Held))
	}
	if !v.Tolerated.OK() {
		list = append(list, newCondition(ConditionNetworkAllowed, "", v.Tolerated))
	}
	if !v.Isolated.OK() {
		list = append(list, newCondition(kubedcv1.ConditionIsolated, "", v.Isolated))
	}
	if f, isNetwork := v.Facts.(intent.NetworkFacts); isNetwork {
		list = append(list, newCondition(ConditionReturnPath, f.Return, f.Obsolete))
	}
	if f, isService := v.Facts.(intent.ServiceFacts); isService {
		list = append(append(list, portsConditions(f)...), endpointsCondition(f))
	}
	return list
}

// newCondition is a condition that is true with a reason of its own when there is nothing against it.
func newCondition(kind, reason string, f intent.Finding) condition {
	if f.OK() {
		return condition{Type: kind, Status: "True", Reason: reason}
	}
	return condition{Type: kind, Status: "False", Reason: f.Reason, Message: f.Message}
}

// statusFields is the status without conditions, as plain JSON.
func statusFields(v intent.Verdict, ready bool) map[string]any {
	switch f := v.Facts.(type) {
	case intent.ProjectFacts:
		return encodeJSONMap(kubedcv1.ProjectStatus{
			Namespace: f.Namespace, VPC: f.Vpc, Subnet: f.Subnet, ExternalIP: formatAddr(f.ExternalIP),
			EIpsUsed: int32(f.EIpsUsed), //nolint:gosec // fewer than there are addresses
			Ready:    ready, ObservedGeneration: v.Generation,
		})
	case intent.EIpFacts:
		return encodeJSONMap(eipStatus(v, f, ready))
	case intent.FIpFacts:
		s := kubedcv1.FIpStatus{
			EIp: f.EIp, ExternalIP: formatAddr(f.External), OvnFip: f.OvnFip, ResolvedTargetIP: formatAddr(f.Target),
			Ready: ready, ObservedGeneration: v.Generation,
		}
		if f.VM != nil {
			s.TargetVMInterface = &kubedcv1.VMInterface{
				VMName:        f.VM.VM,
				InterfaceName: f.VM.Interface,
				IPAddress:     formatAddr(f.VM.Address),
				MAC:           f.VM.MAC,
			}
		}
		return encodeJSONMap(s)
	case intent.ServiceFacts:
		return serviceStatus(f)
	case intent.NetworkFacts:
		return encodeJSONMap(networkStatus(v, f))
	case intent.EgressIPFacts:
		return encodeJSONMap(egressIPStatus(v, f))
	case intent.EgressPolicyFacts:
		return encodeJSONMap(egressPolicyStatus(v, f, ready))
	default:
		panic(fmt.Sprintf("a verdict on %s without facts", v.Object))
	}
}

func eipStatus(v intent.Verdict, f intent.EIpFacts, ready bool) kubedcv1.EIpStatus {
	s := kubedcv1.EIpStatus{
		IPAddress: formatAddr(f.Address), OvnEIpRef: f.OvnEip, ExternalNetwork: f.Network,
		OwnershipType:  kubedcv1.OwnershipReleased,
		DeleteReleased: f.MadeForOwner, Ready: ready, ObservedGeneration: v.Generation,
	}
	for _, h := range f.Holders {
		s.OwnershipType = kubedcv1.OwnershipExclusive
		if h.Kind == intent.Service {
			s.OwnershipType = kubedcv1.OwnershipShared // others may have other ports
		}
		s.Owners = append(s.Owners, kubedcv1.EIpOwner{OwnerRef: h.Name, Type: string(h.Kind)})
	}
	return s
}

// serviceStatus is Kubernetes' own status of a Service, with the ports that it can't have.
func serviceStatus(f intent.ServiceFacts) map[string]any {
	if !f.Address.IsValid() {
		return map[string]any{}
	}
	ingress := map[string]any{"ip": f.Address.String(), "ipMode": "VIP"}
	var ports []any
	for _, p := range f.Ports {
		if p.Refused.OK() {
			continue
		}
		ports = append(ports, map[string]any{
			"port":     p.Number,
			"protocol": strings.ToUpper(string(p.Protocol)),
			"error":    "kube-dc.com/" + p.Refused.Reason,
		})
	}
	if len(ports) > 0 {
		ingress["ports"] = ports
	}
	return map[string]any{"loadBalancer": map[string]any{"ingress": []any{ingress}}}
}

// endpointsCondition is the condition of a Service that says whether connections have somewhere to go.
func endpointsCondition(f intent.ServiceFacts) condition {
	if !f.Lonely {
		return newCondition(intent.HasEndpoints, intent.HasEndpoints, intent.Finding{})
	}
	message := "no endpoint is ready, and connections are refused; look at the pods that the Service selects"
	if f.Expires {
		message += "; if it stays so, the Service is deleted, as its annotation asks for"
	}
	return newCondition(intent.HasEndpoints, "", intent.Finding{Reason: intent.NoEndpoints, Message: message})
}

// portsConditions is Kubernetes' own condition on ports that a load balancer can't have, while there are any.
func portsConditions(f intent.ServiceFacts) []condition {
	for _, p := range f.Ports {
		if !p.Refused.OK() {
			return []condition{{
				Type:    ConditionPortsError,
				Status:  "True",
				Reason:  p.Refused.Reason,
				Message: p.Refused.Message,
			}}
		}
	}
	return nil
}

func networkStatus(v intent.Verdict, f intent.NetworkFacts) kubedcv1alpha1.ExternalNetworkStatus {
	s := kubedcv1alpha1.ExternalNetworkStatus{
		ObservedGeneration: v.Generation,
		ReturnPath:         kubedcv1alpha1.ReturnPath(f.Return),
	}
	for _, x := range f.Subnets {
		s.Subnets = append(s.Subnets, kubedcv1alpha1.ExternalSubnet{
			Name: x.Name, CIDR: x.Prefix.String(), Gateway: formatAddr(x.Gateway), Available: int64(x.Free),
			Used: int64(x.Used),
		})
		s.Available, s.Used = s.Available+int64(x.Free), s.Used+int64(x.Used)
	}
	return s
}

func egressIPStatus(v intent.Verdict, f intent.EgressIPFacts) ovnv1.EgressIPStatus {
	s := ovnv1.EgressIPStatus{ObservedGeneration: v.Generation, Rebalanced: f.Rebalanced}
	for _, i := range f.Items {
		s.Items = append(s.Items, ovnv1.EgressIPStatusItem{Node: i.Node, EgressIP: i.Address.String()})
	}
	return s
}

// egressPolicyStatus is the status of an EgressService or an EgressRoute.
func egressPolicyStatus(v intent.Verdict, f intent.EgressPolicyFacts, ready bool) any {
	if v.Object.Kind == intent.EgressRoute {
		return kubedcv1alpha1.EgressRouteStatus{
			//nolint:gosec // fewer than there are addresses or pods
			ExternalNetwork: f.Network, ExternalIP: formatAddr(f.Address), Pods: int32(f.Pods),
			ObservedGeneration: v.Generation,
		}
	}
	s := ovnv1.EgressServiceStatus{
		ExternalNetwork:    f.Network,
		ExternalIP:         formatAddr(f.Address),
		ObservedGeneration: v.Generation,
	}
	if ready {
		s.Host = ovnv1.AllHosts
	}
	return s
}

func formatAddr(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// encodeJSONMap is a value as JSON objects, so that fields which are left out when empty are left out here too.
func encodeJSONMap(v any) map[string]any {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("a status can't be written as JSON: %v", err))
	}
	out := map[string]any{}
	if err := json.Unmarshal(raw, &out); err != nil {
		panic(fmt.Sprintf("a status that was just written can't be read: %v", err))
	}
	return out
}
