// Package status is the status of each API object, computed from verdicts, failures and observations.
package status

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/state"
)

// ConditionDeletable is a condition that an object has only while its deletion is blocked.
const ConditionDeletable = "Deletable"

// ConditionNetworkAllowed is a condition that an object has only while it has an address of a network that its project
// may no longer use.
const ConditionNetworkAllowed = "NetworkAllowed"

// ConditionReturnPath is the condition of an ExternalNetwork for its return path mode.
const ConditionReturnPath = "ReturnPath"

// ConditionPortsError is Kubernetes' condition of a Service for ports that its load balancer can't have.
const ConditionPortsError = "LoadBalancerPortsError"

// Outcome is the result of a run.
type Outcome struct {
	// Missing lists, by origin, what was not observed as desired.
	Missing map[state.Ref][]string
	// Failed lists, by origin, what could not be written.
	Failed map[state.Ref][]string
}

// NewOutcome computes the outcome from plans, as prepared, and from the failures of applying them.
func NewOutcome(plans []state.Plan, failures []state.Failure) Outcome {
	out := Outcome{Missing: map[state.Ref][]string{}, Failed: map[state.Ref][]string{}}
	for _, p := range plans {
		for _, l := range p.ChangeKeys() {
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

// RenderStatuses returns the status of each object with a verdict.
func RenderStatuses(verdicts []intent.Verdict, outcome Outcome) intent.Statuses {
	out, rendered := make(intent.Statuses, len(verdicts)), map[serviceStatusKey]intent.Status{}
	for _, v := range verdicts {
		programmed := programmedFinding(v, outcome)
		v.Isolated = isolatedFinding(v, outcome)
		key, isPlain := newServiceStatusKey(v, programmed)
		status, known := rendered[key]
		if !known || !isPlain {
			status = renderStatus(v, programmed)
		}
		if isPlain {
			rendered[key] = status
		}
		out[v.Object] = state.Entry[intent.Status]{Value: status, Origin: v.Object.Ref()}
	}
	return out
}

func renderStatus(v intent.Verdict, programmed intent.Finding) intent.Status {
	body := statusFields(v, programmed.OK())
	if !isForeign(v) {
		body["conditions"] = renderConditions(v, programmed)
	}
	return intent.NewStatus(body)
}

// serviceStatusKey is everything that the status of a Service depends on. Most Services of a project have the same
// status, which is rendered once.
type serviceStatusKey struct {
	address, second                netip.Addr
	generation                     int64
	accepted, resolved, programmed intent.Finding
	lonely, expires                bool
}

// newServiceStatusKey returns the key of a Service, and false for other objects and for Services with more to say.
func newServiceStatusKey(v intent.Verdict, programmed intent.Finding) (serviceStatusKey, bool) {
	f, isService := v.Facts.(intent.ServiceFacts)
	isRefused := func(p intent.PortFacts) bool { return !p.Refused.OK() }
	if !isService || f.Foreign || slices.ContainsFunc(f.Ports, isRefused) ||
		!v.Held.OK() || !v.Tolerated.OK() || !v.Isolated.OK() {
		return serviceStatusKey{}, false
	}
	return serviceStatusKey{
		f.Address, f.SecondAddress, v.Generation, v.Accepted, v.Resolved, programmed, f.Lonely, f.Expires,
	}, true
}

// programmedFinding returns why an object, or a part of it, is not programmed.
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

// ProgrammedReason returns the reason why an object is not programmed; empty: it is.
func ProgrammedReason(v intent.Verdict, outcome Outcome) string {
	return programmedFinding(v, outcome).Reason
}

// isolatedFinding returns the finding about misplaced pods, with the reason why their packets are not dropped yet
// although they should be.
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

// projectShard returns the shard of a Project.
func projectShard(v intent.Verdict) string {
	f, _ := v.Facts.(intent.ProjectFacts)
	return f.Namespace
}

// wholeObjectFinding returns why an object as a whole is not programmed. What was just written does not count as
// programmed: the next run has to observe it.
func wholeObjectFinding(v intent.Verdict, outcome Outcome) intent.Finding {
	var failed, missing []string
	for _, ref := range append([]state.Ref{v.Object.Ref()}, v.Through...) {
		failed, missing = append(failed, outcome.Failed[ref]...), append(missing, outcome.Missing[ref]...)
	}
	switch {
	case !v.Accepted.OK():
		return intent.Finding{Reason: intent.NotAccepted, Message: v.Accepted.Reason + ": " + v.Accepted.Message}
	case !v.Resolved.OK():
		return intent.Finding{Reason: intent.NotResolved, Message: v.Resolved.Reason + ": " + v.Resolved.Message}
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

// summarizeLines returns the first line and the number of further ones.
func summarizeLines(lines []string) string {
	text := truncate(lines[0], 500)
	if len(lines) > 1 {
		return fmt.Sprintf("%s (and %d more)", text, len(lines)-1)
	}
	return text
}

// maxMessageBytes limits the length of a message. The API server refuses Events with more than 1,024 bytes.
const maxMessageBytes = 1000

func truncate(text string, most int) string {
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// condition is a condition without the time of its last transition, which the target knows.
type condition struct {
	Type, Status, Reason, Message string
}

// toJSONMap returns the condition as JSON. The message is one line without control characters, whatever users have
// written.
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

// ConditionKey is a condition without the details of its object.
type ConditionKey struct{ Kind, Condition, Status, Reason string }

// CountConditions counts the objects by condition.
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

// isForeign reports whether an object is no longer ours.
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

// listConditions returns all conditions of an object.
func listConditions(v intent.Verdict, programmed intent.Finding) []condition {
	list := []condition{
		newCondition(kubedcv1.ConditionAccepted, intent.Accepted, v.Accepted),
		newCondition(kubedcv1.ConditionResolvedRefs, intent.ResolvedRefs, v.Resolved),
		newCondition(kubedcv1.ConditionProgrammed, intent.Programmed, programmed),
	}
	if programmed.OK() {
		list[len(list)-1].Message = describeProgrammed(v)
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

// newCondition returns a condition that is true with the given reason if there is no finding.
func newCondition(kind, reason string, f intent.Finding) condition {
	if f.OK() {
		return condition{Type: kind, Status: "True", Reason: reason}
	}
	return condition{Type: kind, Status: "False", Reason: f.Reason, Message: f.Message}
}

// statusFields returns the status without conditions, as plain JSON.
func statusFields(v intent.Verdict, ready bool) map[string]any {
	switch f := v.Facts.(type) {
	case intent.ProjectFacts:
		return encodeJSONMap(kubedcv1.ProjectStatus{
			Namespace: f.Namespace, VPC: f.Vpc, Subnet: f.Subnet, ExternalIP: formatAddr(f.ExternalIP),
			EIpsUsed: int32(f.EIpsUsed), //nolint:gosec // fewer than there are addresses
			EIps:     formatQuota(f.EIpsUsed, f.EIpQuota),
			Ready:    ready, ObservedGeneration: v.Generation,
		})
	case intent.EIpFacts:
		return encodeJSONMap(eipStatus(v, f, ready))
	case intent.FIpFacts:
		s := kubedcv1.FIpStatus{
			EIp: f.EIp, ExternalIP: formatAddr(f.External), ExternalNetwork: f.Network, OvnFip: f.OvnFip, ResolvedTargetIP: formatAddr(f.Target),
			Ready: ready, ObservedGeneration: v.Generation,
		}
		switch {
		case f.Outbound:
			s.Direction = kubedcv1.FIpBoth
		case f.Translated:
			s.Direction = kubedcv1.FIpInbound
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
			s.OwnershipType = kubedcv1.OwnershipShared // other ports may belong to others
		}
		s.Owners = append(s.Owners, kubedcv1.EIpOwner{OwnerRef: h.Name, Type: string(h.Kind)})
	}
	s.UsedBy = describeHolders(f.Holders)
	return s
}

// serviceStatus returns Kubernetes' own status of a Service, including ports that it can't have.
func serviceStatus(f intent.ServiceFacts) map[string]any {
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
	var addresses []any
	for _, a := range []netip.Addr{f.Address, f.SecondAddress} {
		if !a.IsValid() {
			continue
		}
		ingress := map[string]any{"ip": a.String(), "ipMode": "VIP"}
		if len(ports) > 0 {
			ingress["ports"] = ports
		}
		addresses = append(addresses, ingress)
	}
	if len(addresses) == 0 {
		return map[string]any{}
	}
	return map[string]any{"loadBalancer": map[string]any{"ingress": addresses}}
}

// endpointsCondition returns the condition for whether a Service has endpoints.
func endpointsCondition(f intent.ServiceFacts) condition {
	if !f.Lonely {
		return newCondition(intent.HasEndpoints, intent.HasEndpoints, intent.Finding{})
	}
	message := "no endpoint is ready, and connections are refused; look at the pods that the Service selects"
	if f.Expires {
		message += "; if no endpoint becomes ready, the Service is deleted, as its autodelete annotation requests"
	}
	return newCondition(intent.HasEndpoints, "", intent.Finding{Reason: intent.NoEndpoints, Message: message})
}

// portsConditions returns Kubernetes' own condition for ports that a load balancer can't have, if there are any.
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

// egressPolicyStatus returns the status of an EgressService or an EgressRoute.
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

// encodeJSONMap returns a value as JSON objects. Fields with omitempty are omitted.
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
