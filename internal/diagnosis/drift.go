package diagnosis

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/kubeovn"
	"github.com/sallyport/sallyport/internal/logical"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
)

// drift finds what is not as it should be. What an object that is not in force still lacks is no drift: its conditions tell of it.
func (p *patient) drift() {
	if p.blind(survey.Kubernetes, survey.Northbound) {
		return
	}
	for i := range p.Shards {
		shard := &p.Shards[i]
		for _, d := range shard.Differs {
			what := read(d.Line)
			switch {
			case what.none || d.Held && d.Origin != (state.Ref{}):
			case d.Origin == (state.Ref{}):
				if what.row && shard.Name != kubeovn.ManagementVpc {
					p.report(RowForeign, append(p.tenants(shard.Name), survey.RouterRef(shard.Name)),
						"%s is on router %s, and neither Sallyport nor an object of Kube-OVN's that it made asks for it", text(d.Line), shard.Name)
				}
			case d.Removes:
				p.left(shard, d, what)
			case p.settled(shard, d.Origin):
				p.drifted(shard, d, what)
			}
		}
	}
}

// thing is what a line of a plan is about.
type thing struct {
	none, row, element bool
	table              string // of a row
	id                 string
}

// read tells from the key of a line what it is about: rows are "table router [id]", elements "Vpc name list [id]", the rest is objects.
// Marks that we leave on objects of others are nothing that a packet could miss.
func read(l state.Line) thing {
	if strings.HasSuffix(l.Text, intent.Finalizer{}.String()) || strings.HasSuffix(l.Text, intent.Stay{}.String()) {
		return thing{none: true}
	}
	where, id, listed := strings.Cut(strings.TrimSuffix(l.Key, "]"), " [")
	if !listed {
		return thing{id: l.Key}
	}
	table, _, _ := strings.Cut(where, " ")
	element := table == string(intent.Vpc)
	return thing{row: !element, element: element, table: table, id: id}
}

// text is a line without its sign.
func text(l state.Line) string { return short(strings.TrimLeft(l.Text, "+-~ ")) }

func short(s string) string {
	if len(s) > 300 {
		return strings.ToValidUTF8(s[:300], "") + "…"
	}
	return s
}

// settled says whether what is written for an origin was in force: then a difference is one from outside.
func (p *patient) settled(shard *survey.Shard, origin state.Ref) bool {
	if o := p.objects[origin]; o != nil {
		c := o.Condition(kubedcv1.ConditionProgrammed)
		inForce := c.Status == "True" || c.Reason == intent.PodsNotServed // told only when the rest is in force
		return inForce && !o.Deleting && (c.Generation == 0 || c.Generation == o.Generation)
	}
	return slices.ContainsFunc(dependents(shard, origin), func(r state.Ref) bool { return r != origin && p.settled(shard, r) })
}

// dependents are the objects that can't work without what is written for an origin.
func dependents(shard *survey.Shard, origin state.Ref) (refs []state.Ref) {
	for _, v := range shard.Verdicts {
		if slices.Contains(v.Through, origin) {
			refs = append(refs, v.Object.Ref())
		}
	}
	return refs
}

// drifted reports what is missing or not as it should be.
func (p *patient) drifted(shard *survey.Shard, d survey.Difference, what thing) {
	missing := strings.HasPrefix(d.Text, "+")
	code := map[bool]string{true: ObjectMissing, false: ObjectChanged}[missing]
	switch {
	case what.row:
		code = map[bool]string{true: RowMissing, false: RowChanged}[missing]
	case what.element:
		code = map[bool]string{true: ElementMissing, false: ElementChanged}[missing]
	}
	about := append([]state.Ref{d.Origin}, dependents(shard, d.Origin)...)
	if d.Origin.Kind == string(intent.Project) {
		about = append(about, survey.RouterRef(shard.Name))
	}
	p.report(code, distinct(about...), "%s; it is needed for %s%s", differing(d.Line), needed(what, d.Origin), p.unrepaired())
}

// differing is what a line says, in words.
func differing(l state.Line) string {
	value := strings.TrimSpace(strings.TrimPrefix(l.Text[1:], " "+l.Key))
	if strings.HasPrefix(l.Text, "+") {
		return short(fmt.Sprintf("%s is missing (%s)", l.Key, value))
	}
	is, should, _ := strings.Cut(value, " → ")
	return short(fmt.Sprintf("%s is %q and should be %q", l.Key, is, should))
}

// needed is what a row is for, in words.
func needed(what thing, origin state.Ref) string {
	uses := map[string]string{
		"NAT": "the translation of addresses", "Load_Balancer": "the load balancer", "Load_Balancer_Health_Check": "health checks",
		"Logical_Router_Policy": "", "Logical_Router_Static_Route": "the way of replies", "Logical_Router_Port": "the way of packets",
		"Logical_Switch_Port": "the way of packets", "Port_Group": "rules", "ACL": "rules", "QoS": "the marks of replies", "Address_Set": "rules",
		"Gateway_Chassis": "the gateway's node", "HA_Chassis_Group": "the node that holds addresses", "Static_MAC_Binding": "the way of replies",
	}
	use := uses[what.table]
	if first, _, _ := strings.Cut(what.id, " "); use == "" {
		use = band(first)
	}
	if use == "" {
		return origin.String()
	}
	return fmt.Sprintf("%s of %s", use, origin)
}

// band is what router policies of a priority are for.
func band(priority string) string {
	n, err := strconv.Atoi(priority)
	for _, b := range ownership.Bands {
		if err == nil && b.First <= n && n <= b.Last {
			return b.For
		}
	}
	return ""
}

// unrepaired says whether somebody puts things right.
func (p *patient) unrepaired() string {
	if p.lapsed(ControllerLease) != "" {
		return "; nobody puts it right: sallyport-controller does not run"
	}
	return ""
}

// left reports what should have gone.
func (p *patient) left(shard *survey.Shard, d survey.Difference, what thing) {
	code := ObjectLeft
	if what.row || what.element {
		code = RowLeft
	}
	p.report(code, distinct(d.Origin, survey.RouterRef(shard.Name)), "%s should not be there any more%s", text(d.Line), p.unrepaired())
}

// foreignRows finds rows on routers and switches of projects that neither we nor Kube-OVN wrote.
func (p *patient) foreignRows() {
	if p.blind(survey.Kubernetes, survey.Northbound) {
		return
	}
	for _, project := range p.Cluster.Projects {
		if r := p.Logical.Router(project.Shard); r != nil {
			for _, row := range strangeRows(r) {
				p.report(RowForeign, []state.Ref{project.Ref, survey.RouterRef(r.Name)}, "somebody else wrote %s on router %s", row, r.Name)
			}
		}
		s := p.Logical.Switch(ownership.Subnet(project.Shard))
		if s == nil {
			continue
		}
		for _, x := range s.ACLs {
			if strange(x.IDs) {
				p.report(RowForeign, []state.Ref{project.Ref, {Kind: string(intent.Subnet), Name: s.Name}},
					"somebody else wrote rule %d %q %s on switch %s", x.Priority, short(x.Match), x.Action, s.Name)
			}
		}
	}
}

// strangeRows are rows on a router that neither we nor Kube-OVN wrote. Kube-OVN does not mark its NAT rows: those are told from a plan.
func strangeRows(r *logical.Router) (out []string) {
	for _, x := range r.Policies {
		if strange(x.IDs) {
			out = append(out, fmt.Sprintf("policy %d %q %s", x.Priority, short(x.Match), strings.TrimSpace(x.Action+" "+addresses(x))))
		}
	}
	for _, x := range r.Routes {
		if strange(x.IDs) {
			out = append(out, fmt.Sprintf("a route to %s by %s", x.Prefix, x.NextHop))
		}
	}
	for _, x := range r.Balancers {
		if strange(x.IDs) && len(x.VIPs) > 0 {
			out = append(out, fmt.Sprintf("load balancer %s of %s", x.Name, x.VIPs[0].Address))
		}
	}
	return out
}

func addresses(x logical.Policy) string {
	var out []string
	for _, a := range x.NextHops {
		out = append(out, a.String())
	}
	return strings.Join(out, " ")
}

// strange says whether a row is neither ours nor Kube-OVN's, which marks its own with a key that we use as well.
func strange(ids logical.IDs) bool {
	return ids[ownership.RowOwnerKey] == "" && ids[ownership.RowVendorKey] == ""
}

// forgotten is how old a question may be that somebody waits for.
const forgotten = 10 * time.Minute

// leaks finds rows and questions that are left over.
func (p *patient) leaks() {
	if p.blind(survey.Kubernetes, survey.Northbound) {
		return
	}
	rows := map[state.Ref][]string{}
	p.eachOwned(func(owner state.Ref, row string) { rows[owner] = append(rows[owner], row) })
	for _, owner := range slices.SortedFunc(maps.Keys(rows), compareRef) {
		if p.gone(owner) && !p.told(owner, Warning) {
			p.report(LeakedRow, []state.Ref{owner}, "%s does not exist any more, and OVN still has %s for it", owner, words(rows[owner], 3))
		}
	}
	var old []string
	for _, o := range p.Cluster.Inspections {
		if p.now.Sub(o.Created) > forgotten {
			old = append(old, o.Name)
		}
	}
	if len(old) > 0 {
		p.report(LeakedQuestion, []state.Ref{Platform}, "Inspections that nobody waits for: %s", words(old, 3))
	}
}

// gone says whether an object that we would know of is not there.
func (p *patient) gone(owner state.Ref) bool {
	known := []intent.Kind{intent.Project, intent.EIp, intent.FIp, intent.Service, intent.EgressIP, intent.EgressService, intent.EgressRoute}
	if !slices.Contains(known, intent.Kind(owner.Kind)) || p.objects[owner] != nil {
		return false
	}
	return !slices.ContainsFunc(p.Cluster.Services, func(s survey.Service) bool { return s.Ref == owner })
}

// eachOwned visits rows that are ours, with a name for each.
func (p *patient) eachOwned(visit func(owner state.Ref, row string)) {
	see := func(ids logical.IDs, format string, args ...any) {
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
			see(x.IDs, "load balancer %s", x.Name)
		}
	}
	for _, g := range p.Logical.Groups {
		see(g.IDs, "port group %s", g.Name)
	}
}
