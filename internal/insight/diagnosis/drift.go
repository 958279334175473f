package diagnosis

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// checkDrift finds rows, objects and list entries that differ from the intent. What is missing for an object that was
// never programmed is not drift: its conditions report that.
func (p *checker) checkDrift() {
	if p.isUnreadable(clusterstate.Kubernetes, clusterstate.Northbound) {
		return
	}
	for i := range p.Shards {
		shard := &p.Shards[i]
		for _, d := range shard.Differs {
			what := parsePlanLine(d.Line)
			switch {
			case what.ignored || d.Held && d.Origin != (state.Ref{}):
			case d.Origin == (state.Ref{}):
				if what.row && shard.Name != kubeovn.ManagementVpc {
					p.report(RowForeign, append(p.projectsOfShard(shard.Name), clusterstate.RouterRef(shard.Name)),
						"%s is on router %s, but belongs neither to Sallyport nor to a Kube-OVN object that "+
							"Sallyport created", lineWithoutSign(d.Line), shard.Name)
				}
			case d.Removes:
				p.reportLeftover(shard, d, what)
			case p.wasProgrammed(shard, d.Origin):
				p.reportDrift(shard, d, what)
			}
		}
	}
}

// planTarget is what a line of a plan is about.
type planTarget struct {
	ignored, row, vpcEntry bool
	table                  string // of a row
	id                     string
}

// parsePlanLine parses the key of a line: rows are "table router [id]", Vpc list entries "Vpc name list [id]", the rest
// are objects. Finalizers and marks on other objects are ignored, because they do not affect packets.
func parsePlanLine(l state.Line) planTarget {
	if strings.HasSuffix(l.Text, intent.Finalizer{}.String()) ||
		strings.HasSuffix(l.Text, intent.KeptService{}.String()) {
		return planTarget{ignored: true}
	}
	where, id, listed := strings.Cut(strings.TrimSuffix(l.Key, "]"), " [")
	if !listed {
		return planTarget{id: l.Key}
	}
	table, _, _ := strings.Cut(where, " ")
	element := table == string(intent.Vpc)
	return planTarget{row: !element, vpcEntry: element, table: table, id: id}
}

func lineWithoutSign(l state.Line) string { return truncateText(strings.TrimLeft(l.Text, "+-~ ")) }

func truncateText(s string) string {
	if len(s) > 300 {
		return strings.ToValidUTF8(s[:300], "") + "…"
	}
	return s
}

// wasProgrammed reports whether everything for an origin had been programmed. Then a difference was caused from
// outside.
func (p *checker) wasProgrammed(shard *clusterstate.Shard, origin state.Ref) bool {
	if o := p.objects[origin]; o != nil {
		c := o.Condition(kubedcv1.ConditionProgrammed)
		// PodsNotServed means that everything else is programmed
		inForce := c.Status == "True" || c.Reason == intent.PodsNotServed
		return inForce && !o.Deleting && (c.Generation == 0 || c.Generation == o.Generation)
	}
	return slices.ContainsFunc(dependentObjects(shard, origin), func(r state.Ref) bool {
		return r != origin && p.wasProgrammed(shard, r)
	})
}

// dependentObjects returns the objects that depend on what is written for an origin.
func dependentObjects(shard *clusterstate.Shard, origin state.Ref) (refs []state.Ref) {
	for _, v := range shard.Verdicts {
		if slices.Contains(v.Through, origin) {
			refs = append(refs, v.Object.Ref())
		}
	}
	return refs
}

// reportDrift reports something missing or changed.
func (p *checker) reportDrift(shard *clusterstate.Shard, d clusterstate.Difference, what planTarget) {
	missing := strings.HasPrefix(d.Text, "+")
	code := map[bool]string{true: ObjectMissing, false: ObjectChanged}[missing]
	switch {
	case what.row:
		code = map[bool]string{true: RowMissing, false: RowChanged}[missing]
	case what.vpcEntry:
		code = map[bool]string{true: ElementMissing, false: ElementChanged}[missing]
	}
	about := append([]state.Ref{d.Origin}, dependentObjects(shard, d.Origin)...)
	if d.Origin.Kind == string(intent.Project) {
		about = append(about, clusterstate.RouterRef(shard.Name))
	}
	f := p.report(code, uniqueRefs(about...), "%s; it is needed for %s%s", describeDrift(d.Line),
		describePurpose(what, d.Origin), p.notRepairedSuffix())
	if p.notRepairedSuffix() != "" {
		f.Remediation = "Start sallyport-controller, which restores it: kubectl -n NAMESPACE logs deployment/sallyport-controller."
	}
}

// describeDrift explains a line in words.
func describeDrift(l state.Line) string {
	value := strings.TrimSpace(strings.TrimPrefix(l.Text[1:], " "+l.Key))
	if strings.HasPrefix(l.Text, "+") {
		return truncateText(fmt.Sprintf("%s is missing (%s)", l.Key, value))
	}
	is, should, _ := strings.Cut(value, " → ")
	return truncateText(fmt.Sprintf("%s is %q but should be %q", l.Key, is, should))
}

// describePurpose explains in words what a row is for.
func describePurpose(what planTarget, origin state.Ref) string {
	uses := map[string]string{
		"NAT": "address translation", "Load_Balancer": "load balancing", "Load_Balancer vips": "load balancing",
		"Load_Balancer_Health_Check": "health checks",
		"Logical_Router_Policy":      "", "Logical_Router_Static_Route": "the return path",
		"Logical_Router_Port": "forwarding",
		"Logical_Switch_Port": "forwarding", "Port_Group": "the ACLs", "ACL": "the ACLs",
		"QoS": "marking replies", "Address_Set": "the ACLs",
		"Gateway_Chassis": "the gateway's node", "HA_Chassis_Group": "the node that holds the addresses",
		"Static_MAC_Binding": "the return path",
	}
	use := uses[what.table]
	if first, _, _ := strings.Cut(what.id, " "); use == "" {
		use = policyBandPurpose(first)
	}
	if use == "" {
		return origin.String()
	}
	return fmt.Sprintf("%s of %s", use, origin)
}

// policyBandPurpose returns the purpose of router policies with a priority.
func policyBandPurpose(priority string) string {
	n, err := strconv.Atoi(priority)
	for _, b := range ownership.PriorityBands {
		if err == nil && b.First <= n && n <= b.Last {
			return b.Purpose
		}
	}
	return ""
}

// notRepairedSuffix returns a note for messages if the controller does not run.
func (p *checker) notRepairedSuffix() string {
	if p.describeLapsedLease(ControllerLease) != "" {
		return "; it is not repaired because sallyport-controller does not run"
	}
	return ""
}

// reportLeftover reports something that should have been deleted.
func (p *checker) reportLeftover(shard *clusterstate.Shard, d clusterstate.Difference, what planTarget) {
	code := ObjectLeft
	if what.row || what.vpcEntry {
		code = RowLeft
	}
	p.report(code, uniqueRefs(d.Origin, clusterstate.RouterRef(shard.Name)), "%s should have been deleted%s",
		lineWithoutSign(d.Line), p.notRepairedSuffix())
}

// checkForeignRows finds rows on routers and switches of projects that neither Sallyport nor Kube-OVN wrote.
func (p *checker) checkForeignRows() {
	if p.isUnreadable(clusterstate.Kubernetes, clusterstate.Northbound) {
		return
	}
	for _, project := range p.Cluster.Projects {
		if r := p.Logical.Router(project.Shard); r != nil {
			for _, row := range foreignRouterRows(r) {
				p.report(RowForeign, []state.Ref{project.Ref, clusterstate.RouterRef(r.Name)},
					"%s on router %s was written neither by Sallyport nor by Kube-OVN", row, r.Name)
			}
		}
		s := p.Logical.Switch(ownership.VPCSubnetName(project.Shard))
		if s == nil {
			continue
		}
		for _, x := range s.ACLs {
			if isForeignRow(x.IDs) {
				p.report(RowForeign, []state.Ref{project.Ref, {Kind: string(intent.Subnet), Name: s.Name}},
					"ACL %d %q %s on switch %s was written neither by Sallyport nor by Kube-OVN", x.Priority,
					truncateText(x.Match), x.Action, s.Name)
			}
		}
	}
}

// foreignRouterRows returns the rows on a router that neither Sallyport nor Kube-OVN wrote. Kube-OVN does not mark its
// NAT rows; checkDrift finds foreign ones in a plan.
func foreignRouterRows(r *logical.Router) (out []string) {
	for _, x := range r.Policies {
		if isForeignRow(x.IDs) {
			out = append(out, fmt.Sprintf("policy %d %q %s", x.Priority, truncateText(x.Match),
				strings.TrimSpace(x.Action+" "+joinNextHops(x))))
		}
	}
	for _, x := range r.Routes {
		if isForeignRow(x.IDs) {
			out = append(out, fmt.Sprintf("a route to %s via %s", x.Prefix, x.NextHop))
		}
	}
	for _, x := range r.Balancers {
		if isForeignRow(x.IDs) && len(x.VIPs) > 0 {
			out = append(out, fmt.Sprintf("load balancer %s of %s", x.Name, x.VIPs[0].Address))
		}
	}
	return out
}

func joinNextHops(x logical.RouterPolicy) string {
	var out []string
	for _, a := range x.NextHops {
		out = append(out, a.String())
	}
	return strings.Join(out, " ")
}

// isForeignRow reports whether a row belongs neither to Sallyport nor to Kube-OVN, which marks its rows with a key that
// Sallyport uses as well.
func isForeignRow(ids logical.ExternalIDs) bool {
	return ids[ownership.RowOwnerKey] == "" && ids[ownership.RowVendorKey] == ""
}

// maxInspectionAge is how old an Inspection may be that a command still waits for.
const maxInspectionAge = 10 * time.Minute

// checkLeaks finds rows and Inspections that are left over.
func (p *checker) checkLeaks() {
	if p.isUnreadable(clusterstate.Kubernetes, clusterstate.Northbound) {
		return
	}
	rows := map[state.Ref][]string{}
	p.visitOwnedRows(func(owner state.Ref, row string) { rows[owner] = append(rows[owner], row) })
	for _, owner := range slices.SortedFunc(maps.Keys(rows), compareRefs) {
		if p.isOwnerGone(owner) && !p.hasFinding(owner, Warning) {
			p.report(LeakedRow, []state.Ref{owner}, "%s does not exist any more, but OVN still has %s for it", owner,
				joinLimited(rows[owner], 3))
		}
	}
	var old []string
	for _, o := range p.Cluster.Inspections {
		if p.now.Sub(o.Created) > maxInspectionAge {
			old = append(old, o.Name)
		}
	}
	if len(old) > 0 {
		p.report(LeakedQuestion, []state.Ref{ClusterRef}, "Inspections that no command waits for: %s",
			joinLimited(old, 3))
	}
}

// isOwnerGone reports whether an owner of a known kind does not exist.
func (p *checker) isOwnerGone(owner state.Ref) bool {
	known := []intent.Kind{
		intent.Project, intent.EIp, intent.FIp, intent.Service, intent.EgressIP,
		intent.EgressService, intent.EgressRoute,
	}
	if !slices.Contains(known, intent.Kind(owner.Kind)) || p.objects[owner] != nil {
		return false
	}
	return !slices.ContainsFunc(p.Cluster.Services, func(s clusterstate.Service) bool { return s.Ref == owner })
}

// visitOwnedRows visits the rows that belong to Sallyport, with a name for each.
func (p *checker) visitOwnedRows(visit func(owner state.Ref, row string)) {
	see := func(ids logical.ExternalIDs, format string, args ...any) {
		if owner := ids.Owner(); owner != (state.Ref{}) {
			visit(owner, fmt.Sprintf(format, args...))
		}
	}
	for _, r := range p.Logical.Routers {
		for _, x := range r.Ports {
			see(x.IDs, "port %s", x.Name)
		}
		for _, x := range r.Policies {
			see(x.IDs, "policy %d on %s", x.Priority, r.Name)
		}
		for _, x := range r.NATs {
			see(x.IDs, "%s %s on %s", x.Type, x.External, r.Name)
		}
		for _, x := range r.Routes {
			see(x.IDs, "route %s on %s", x.Prefix, r.Name)
		}
		for _, x := range r.Balancers {
			visitVIPs(x, visit)
		}
	}
	for _, g := range p.Logical.Groups {
		see(g.IDs, "port group %s", g.Name)
	}
}

// visitVIPs visits the VIPs of a load balancer that belong to Sallyport.
func visitVIPs(b logical.LoadBalancer, visit func(owner state.Ref, row string)) {
	for _, v := range b.VIPs {
		if owner := b.VIPOwner(v.Address); owner != (state.Ref{}) {
			visit(owner, fmt.Sprintf("%s of load balancer %s", v.Address, b.Name))
		}
	}
}
