package compile

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Memo is a compiled VPC that follows changes of endpoints and, in the management VPC, of pods (podmemo.go): such a change
// costs the Services or pods that it is about, not the VPC. What compile decides about endpoints depends on other objects
// through few things, which the memo keeps: the decisions of the resolve stage, the load balancers that VIPs are in, and
// the addresses of drained endpoints. For every other change, and for changes of endpoints that concern other objects,
// there is no shortcut: Update says so, and the VPC is compiled again.
//
// A memo holds its snapshot as it would be read now: Check compares it with a compilation of that snapshot.
type Memo struct {
	c        *compiler
	services map[intent.ObjectKey]memoService // those whose endpoints concern nothing but VIPs
	rest     intent.Rows                      // all rows but the VIPs of these Services and the sets of pods
	pods     *podMemo                         // nil: changed pods are not followed
}

// memoService is a Service, and its position in the snapshot.
type memoService struct {
	*service
	index int
}

// ServiceUpdate is what follows from the new endpoints of some Services.
type ServiceUpdate struct {
	// Rows are all VIPs of these Services. RowKeys has their keys, and those of VIPs that they no longer have.
	Rows    intent.Rows
	RowKeys map[intent.RowKey]bool
	// LoadBalancers are the IDs of the load balancers of all these VIPs.
	LoadBalancers []string
	// Verdicts are the verdicts on these Services, and Before what they were.
	Verdicts, Before []intent.Verdict
}

// ShardWithMemo does what Shard does. It also returns a memo, which is of use once everything is written: see Settle.
func ShardWithMemo(world *snapshot.VpcInput) (*intent.Intent, []intent.Verdict, *Memo) {
	c := newCompiler(world)
	c.resolve()
	c.emit()
	return c.out, c.buildVerdicts(), &Memo{c: c}
}

// Settle prepares the memo for updates, after everything in the intent was written and observed. It takes over the
// snapshot, which nobody else may use any more. vips are the VIPs that OVN has now. It returns false if the VPC can't
// be updated.
func (m *Memo) Settle(vips map[string]snapshot.VIP) bool {
	if m.c.drainCollides || m.c.project == nil {
		return false
	}
	m.c.w.Engine.VIPs = vips
	m.services, m.rest = make(map[intent.ObjectKey]memoService, len(m.c.services)), intent.Rows{}
	for _, s := range m.c.services {
		s.endpointsByPort = nil // of use in one run only
		if s.isWanted() && s.HealthCheck == nil && !s.Autodelete && s.first == nil && s.second == nil {
			m.services[s.key] = memoService{service: s}
		}
	}
	for i := range m.c.w.Services {
		key := serviceKey(&m.c.w.Services[i])
		if s, known := m.services[key]; known {
			m.services[key] = memoService{s.service, i}
		}
	}
	for key, row := range m.c.out.Rows {
		v, isVIP := row.Value.(intent.VIP)
		has := vips[intent.FormatVIP(v.Protocol, v.Address)]
		if isVIP && (has.Service != v.Service || has.LoadBalancer != v.LoadBalancer) {
			return false
		}
		if _, known := m.services[originKey(row.Origin)]; !isVIP || !known {
			m.rest[key] = row
		}
	}
	m.c.out = nil // it is large, and of no use any more
	return true
}

func originKey(by state.Ref) intent.ObjectKey {
	return intent.ObjectKey{Kind: intent.Kind(by.Kind), Namespace: by.Namespace, Name: by.Name}
}

func serviceKey(s *snapshot.Service) intent.ObjectKey {
	return intent.ObjectKey{Kind: intent.Service, Namespace: s.Namespace, Name: s.Name}
}

// Update follows changes of the endpoints of some Services: it returns what a compilation of all would change. If it
// returns false, everything has to be compiled again, and the memo must not be used any more.
func (m *Memo) Update(changed []snapshot.Service) (*ServiceUpdate, bool) {
	out := &ServiceUpdate{Rows: intent.Rows{}, RowKeys: map[intent.RowKey]bool{}}
	var added []placedVIP
	for _, next := range sortByAge(changed, func(s snapshot.Service) snapshot.Meta { return s.Meta }) {
		s, served := m.services[serviceKey(&next)]
		if !served || !m.canUpdate(s, next) {
			return nil, false
		}
		before := m.c.listPlacedVIPs(s.service)
		for _, v := range before {
			delete(m.c.drainAddresses, v.Address) // of an own address there is no entry
		}
		out.Before = append(out.Before, s.buildVerdict(m.c))
		m.replaceEndpoints(s, next)
		after := m.c.listPlacedVIPs(s.service)
		if m.c.drainCollides || !m.removeVIPs(before, after) {
			return nil, false
		}
		for _, v := range before {
			out.addVIP(m.c.w.Shard, v)
		}
		for _, v := range after {
			if v.LoadBalancer == "" {
				added = append(added, v)
				continue
			}
			out.addVIP(m.c.w.Shard, v)
			m.addRow(out, v)
		}
	}
	if !m.placeVIPs(out, added) {
		return nil, false
	}
	for _, v := range out.Before {
		out.Verdicts = append(out.Verdicts, m.services[v.Object].buildVerdict(m.c))
	}
	slices.Sort(out.LoadBalancers)
	out.LoadBalancers = slices.Compact(out.LoadBalancers)
	return out, true
}

// canUpdate reports whether a Service differs from what is known of it in its endpoints only, and whether these concern
// no other object and no other row.
func (m *Memo) canUpdate(s memoService, next snapshot.Service) bool {
	known := m.c.w.Services[s.index]
	if !isSameButEndpoints(known, next) {
		return false
	}
	for _, v := range m.c.listPlacedVIPs(s.service) {
		if v.LoadBalancer == "" {
			return false
		}
	}
	// Return ports and egress policies are for the addresses of endpoints, whatever their state.
	return !m.c.hasReturnPorts && !m.c.hasEgressPolicyOf(s.service) ||
		slices.Equal(sortedAddresses(known.Endpoints), sortedAddresses(next.Endpoints))
}

// isSameButEndpoints reports whether two states of a Service differ in their endpoints only.
func isSameButEndpoints(a, b snapshot.Service) bool {
	a.Endpoints, a.OmittedEndpoints, b.Endpoints, b.OmittedEndpoints = nil, 0, nil, 0
	return reflect.DeepEqual(a, b)
}

func sortedAddresses(list []snapshot.Endpoint) []netip.Addr {
	out := make([]netip.Addr, 0, len(list))
	for _, e := range list {
		out = append(out, e.Address)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// hasEgressPolicyOf reports whether an egress policy is for the pods behind a Service.
func (c *compiler) hasEgressPolicyOf(s *service) bool {
	return slices.ContainsFunc(c.egressPolicies, func(d *vpcEgressPolicy) bool {
		return (d.key.Kind == intent.EgressService || d.service != nil) &&
			d.key.Namespace == s.Namespace && d.key.Name == s.Name
	})
}

// replaceEndpoints replaces the endpoints of a Service, here and in the snapshot.
func (m *Memo) replaceEndpoints(s memoService, next snapshot.Service) {
	s.Endpoints, s.OmittedEndpoints = endpointsOf(s.family, next.Endpoints), next.OmittedEndpoints
	s.endpointsByPort = nil
	s.endpointProblem = m.c.checkEndpoints(s.service)
	known := &m.c.w.Services[s.index]
	known.Endpoints, known.OmittedEndpoints = next.Endpoints, next.OmittedEndpoints
}

// placedVIP is a VIP of a shared load balancer, with the class of the load balancer. If it is not in one yet, it names
// none.
type placedVIP struct {
	intent.VIP
	class vipClass
}

// listPlacedVIPs returns the VIPs of a Service, with the load balancers that they are in.
func (c *compiler) listPlacedVIPs(s *service) (out []placedVIP) {
	for _, p := range protocols {
		vips, drained := c.listVIPs(s, p)
		for _, v := range slices.Concat(vips, drained) {
			if has := c.w.Engine.VIPs[intent.FormatVIP(v.Protocol, v.Address)]; has.Service == v.Service {
				v.LoadBalancer = has.LoadBalancer
			}
			out = append(out, placedVIP{v, vipClass{p, min(s.AffinitySeconds, maxAffinity)}})
		}
	}
	return out
}

// removeVIPs removes the VIPs that a Service no longer has. It returns false if a load balancer goes with them.
func (m *Memo) removeVIPs(before, after []placedVIP) bool {
	kept := map[string]bool{}
	for _, v := range after {
		kept[intent.FormatVIP(v.Protocol, v.Address)] = true
	}
	for _, v := range before {
		text := intent.FormatVIP(v.Protocol, v.Address)
		if kept[text] {
			continue
		}
		placement := m.c.placements[v.class]
		number, ok := placement.parseName(v.LoadBalancer)
		if !ok {
			return false
		}
		placement.remove(v.Address.Addr(), number)
		delete(m.c.w.Engine.VIPs, text)
		isKeptEmpty := number == 0 && v.class.affinity == 0 && m.c.keepsEmptyLoadBalancers()
		if placement.count[number] == 0 && !isKeptEmpty {
			return false
		}
	}
	return true
}

// placeVIPs assigns new VIPs to load balancers. It returns false if another load balancer is needed.
func (m *Memo) placeVIPs(out *ServiceUpdate, added []placedVIP) bool {
	for _, v := range added {
		placement := m.c.placements[v.class]
		number := placement.choose(v.Address.Addr())
		placement.add(v.Address.Addr(), number)
		v.LoadBalancer = placement.name(number)
		balancer := m.c.newLoadBalancer(v.class, v.LoadBalancer)
		if _, exists := m.rest[balancer.Key(m.c.w.Shard)]; !exists {
			return false
		}
		m.c.w.Engine.VIPs[intent.FormatVIP(v.Protocol, v.Address)] = snapshot.VIP{
			Service: v.Service, LoadBalancer: v.LoadBalancer,
		}
		out.addVIP(m.c.w.Shard, v)
		m.addRow(out, v)
	}
	return true
}

// addVIP adds the key and the load balancer of a VIP that a Service has or had.
func (u *ServiceUpdate) addVIP(shard string, v placedVIP) {
	u.RowKeys[v.Key(shard)] = true
	u.LoadBalancers = append(u.LoadBalancers, v.LoadBalancer)
}

// addRow adds a VIP that a Service has.
func (m *Memo) addRow(to *ServiceUpdate, v placedVIP) {
	by, _ := intent.ParseServiceKey(v.Service) // listVIPs has written it
	to.Rows[v.Key(m.c.w.Shard)] = state.Entry[intent.Row]{Value: v.VIP, Origin: by}
}

// Check compiles the snapshot of the memo again, and returns an error if the memo differs. It costs the whole VPC.
func (m *Memo) Check() error {
	fresh, verdicts := Shard(m.c.w)
	have := &ServiceUpdate{Rows: maps.Clone(m.rest)}
	for _, s := range m.services {
		for _, v := range m.c.listPlacedVIPs(s.service) {
			if v.LoadBalancer != "" {
				m.addRow(have, v)
			}
		}
	}
	if m.pods != nil {
		m.pods.addRows(have.Rows, m.c.w.Shard)
	}
	if changes := state.Diff(fresh.Rows, have.Rows); len(changes) > 0 {
		return fmt.Errorf("%d rows differ, the first: %s", len(changes), changes[0])
	}
	for _, v := range verdicts {
		if s, served := m.services[v.Object]; served && !reflect.DeepEqual(v, s.buildVerdict(m.c)) {
			return fmt.Errorf("the verdict on %s differs", v.Object)
		}
	}
	return nil
}
