package compile

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/internal/model/status"
)

// finalizersHold checks that an object keeps its finalizer until everything created for it is gone, or nothing would
// remove that. Objects created for a Service, and the EIp of a FIp, are known by their labels.
func (p *invariants) finalizersHold() {
	for key, entry := range p.out.Objects {
		by := intent.ObjectKey{
			Kind:      intent.Kind(entry.Origin.Kind),
			Namespace: entry.Origin.Namespace,
			Name:      entry.Origin.Name,
		}
		if _, held := p.out.Finalizers[by]; !held && key.Kind != intent.EIp && by.Kind != intent.Service {
			p.Errorf("%s is wanted for %s, which has no finalizer", key, by)
		}
	}
	hold := func(key intent.ObjectKey, made intent.ObjectKey) {
		if _, held := p.out.Finalizers[key]; !held && p.w.Engine.OwnedObjects[made] {
			p.Errorf("%s has no finalizer, and %s is there", key, made)
		}
	}
	for _, e := range p.w.EIps {
		if e.ExistingOvnEip == "" {
			hold(intent.ObjectKey{Kind: intent.EIp, Namespace: testShard, Name: e.Name},
				intent.ObjectKey{Kind: intent.OvnEip, Name: "eip-" + testShard + "-" + e.Name})
		}
	}
	for _, f := range p.w.FIps {
		hold(intent.ObjectKey{Kind: intent.FIp, Namespace: testShard, Name: f.Name},
			intent.ObjectKey{Kind: intent.OvnFip, Name: testShard + "-" + f.Name})
	}
}

// policiesAreOurs checks that policies have priorities that the controller claims, and a next hop if they need one.
func (p *invariants) policiesAreOurs() {
	for key, entry := range p.out.VpcEntries {
		if key.List != intent.PolicyRoutes {
			continue
		}
		var policy struct {
			Priority  int
			Action    string
			NextHopIP netip.Addr
		}
		err := json.Unmarshal([]byte(entry.Value.Content), &policy)
		if err != nil || policy.NextHopIP.IsValid() != (policy.Action == "reroute") ||
			!ownership.IsOwnPriority(key.Vpc, policy.Priority) {
			p.Errorf("%s %s: %v", key, entry.Value, err)
		}
	}
	for key, entry := range p.out.Rows {
		if policy, ok := entry.Value.(intent.LogicalRouterPolicy); ok &&
			!ownership.IsOwnPriority(key.Router, policy.Priority) {
			p.Errorf("%s %s: the priority is not claimed", key, entry.Value)
		}
	}
}

// noSetIsNegated checks that no match negates a set: ovn-controller expands the complement of a negated set.
func (p *invariants) noSetIsNegated() {
	for key, entry := range p.out.Rows {
		rule, ok := entry.Value.(intent.ACL)
		if ok && (strings.Contains(rule.Match, "!(") || strings.Contains(rule.Match, "!= {") ||
			strings.Contains(rule.Match, "!= $")) {
			p.Errorf("%s: %q negates a set of addresses", key, rule.Match)
		}
	}
}

// verdictsAreComplete checks that each object has one verdict, with facts and with reasons that are documented.
func (p *invariants) verdictsAreComplete() {
	left := objectRefs(p.w)
	for _, v := range p.verdicts {
		if !left[v.Object.Ref()] {
			p.Errorf("a verdict too many on %s", v.Object)
		}
		delete(left, v.Object.Ref())
		if v.Facts == nil {
			p.Errorf("no facts about %s", v.Object)
		}
		for condition, f := range map[string]intent.Finding{
			"Accepted":     v.Accepted,
			"ResolvedRefs": v.Resolved,
			"Programmed":   v.Waiting,
			"Deletable":    v.Held,
		} {
			documented := slices.ContainsFunc(intent.Reasons, func(r intent.ReasonDoc) bool {
				return r.Condition == condition && r.Reason == f.Reason
			})
			if !f.OK() && (!documented || f.Message == "") {
				p.Errorf("%s: %s is %s, which is not documented or has no message: %q", v.Object, condition, f.Reason,
					f.Message)
			}
		}
	}
	for _, s := range p.w.Services { // not served by Sallyport, or of no project
		if !s.HasManagedStatus && (!s.IsLoadBalancer || s.Class != kubedcv1.LoadBalancerClass) {
			delete(left, state.Ref{Kind: "Service", Namespace: s.Namespace, Name: s.Name})
		}
	}
	for ref := range left {
		p.Errorf("no verdict on %s", ref)
	}
}

// readyIsWanted checks that everything is in the intent for an object that is reported as ready.
func (p *invariants) readyIsWanted() {
	wants := func(v intent.Verdict, kind intent.Kind, name string, row intent.Row) {
		if _, wanted := p.out.Objects[intent.ObjectKey{Kind: kind, Name: name}]; !wanted {
			p.Errorf("%s is ready without %s %s", v.Object, kind, name)
		}
		if have := p.out.Rows[row.Key(testShard)].Value; have == nil || !have.Equal(row) {
			p.Errorf("%s is ready without the row %s %s; there is %v", v.Object, row.Key(testShard), row, have)
		}
	}
	for _, v := range p.verdicts {
		switch facts := v.Facts.(type) {
		case intent.FIpFacts:
			if v.OK() {
				wants(v, intent.OvnFip, facts.OvnFip,
					intent.DNATAndSNAT{External: facts.External, Logical: facts.Target})
			}
		case intent.ProjectFacts:
			i := slices.IndexFunc(p.w.Projects, func(o snapshot.Project) bool {
				return o.Namespace == v.Object.Namespace && o.Name == v.Object.Name
			})
			if four := p.w.Projects[i].Prefixes; v.OK() && four[0].Addr().Is4() {
				wants(v, intent.OvnSnatRule, testShard, intent.SNAT{External: facts.ExternalIP, Logical: four[0]})
			}
		}
	}
}

// portsAreGiven checks that each VIP is in a load balancer of its protocol that has room, and that a ready Service has
// its ports. No two load balancers can have the same VIP, because it is the key.
func (p *invariants) portsAreGiven() {
	holders, count := map[string]string{}, map[string]int{}
	for _, entry := range p.out.Rows {
		v, is := entry.Value.(intent.VIP)
		if !is {
			continue
		}
		holders[intent.FormatVIP(v.Protocol, v.Address)] = v.Service
		count[v.LoadBalancer]++
		b, _ := p.out.Rows[intent.RowKey{Table: "Load_Balancer", Router: testShard, ID: v.LoadBalancer}].Value.(intent.LoadBalancer)
		if b.Protocol != v.Protocol || b.Service != "" && b.Service != v.Service ||
			b.Service == "" && count[v.LoadBalancer] > maxSharedVIPs {
			p.Errorf("%s %s is in load balancer %s", entry.Origin, v.Address, b)
		}
	}
	for _, v := range p.verdicts {
		facts, isService := v.Facts.(intent.ServiceFacts)
		if !isService || !v.OK() || facts.Foreign || !facts.Address.IsValid() {
			continue
		}
		for _, port := range facts.Ports {
			key := intent.FormatVIP(port.Protocol, newAddrPort(facts.Address, port.Number))
			if holders[key] != intent.ServiceKey(v.Object.Ref()) {
				p.Errorf("%s is ready, and %s is balanced by %q", v.Object, key, holders[key])
			}
		}
	}
}

// statusesAreTrue checks that Programmed is true only for objects that were accepted, resolved, created and observed.
func (p *invariants) statusesAreTrue() {
	outcome := status.Outcome{Missing: map[state.Ref][]string{}, Failed: map[state.Ref][]string{}}
	for i, v := range p.verdicts {
		switch i % 3 {
		case 1:
			outcome.Missing[v.Object.Ref()] = []string{"+ a row"}
		case 2:
			outcome.Failed[v.Object.Ref()] = []string{"a write was refused"}
		}
	}
	statuses := status.RenderStatuses(p.verdicts, outcome)
	if len(statuses) != len(p.verdicts) {
		p.Errorf("%d statuses for %d verdicts", len(statuses), len(p.verdicts))
	}
	for i, v := range p.verdicts {
		var got struct {
			Ready      bool
			Conditions []struct{ Type, Status, Reason string }
		}
		if err := json.Unmarshal([]byte(statuses[v.Object].Value.Content), &got); err != nil {
			p.Errorf("%s: %v", v.Object, err)
		}
		for _, c := range got.Conditions {
			if c.Type == kubedcv1.ConditionProgrammed && (c.Status == "True") != (v.OK() && i%3 == 0) {
				p.Errorf("%s: Programmed is %s with %+v", v.Object, c.Status, v)
			}
		}
		_, diverts := v.Facts.(intent.EgressPolicyFacts)
		if v.Object.Kind != intent.Service && !diverts && got.Ready != (v.OK() && i%3 == 0) {
			p.Errorf("%s: ready is %t with %+v", v.Object, got.Ready, v)
		}
	}
}
