package compile

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// podMemo is the part of a memo that follows changes of pods in the management VPC: which address is in which address
// set. What EgressIPs make of an address depends on the pods with that address, and on nothing else that a pod changes.
type podMemo struct {
	pods       *snapshot.EgressPods
	byName     map[string]*selectionMemo // by EgressIP
	closes     bool                      // an EgressIP fails closed
	redirected []netip.Addr              // targets of FIps in the set of redirected pods
	returns    bool                      // there is such a set
	overlaps   map[overlap]int           // numbers of addresses
	origins    map[string]state.Ref      // of the address sets

	fipTargets        map[netip.Addr]bool // addresses that FIps depend on
	fipPods           map[string]bool     // the same: keys of pods
	serviceNamespaces map[string]bool     // namespaces with load balancers, whose pods decide about endpoints
}

// selectionMemo is an EgressIP that selects pods of the VPC.
type selectionMemo struct {
	*snapshot.Selection     // in the snapshot of the memo
	rank                int // oldest first
	redirects           bool
}

// overlap is an EgressIP that selects pods that use the addresses of an older one. There is a note about it.
type overlap struct{ younger, older string }

// podPlacement is what EgressIPs make of an address.
type podPlacement struct {
	selecting []*selectionMemo // that select a pod with the address, oldest first
	user      *selectionMemo   // whose addresses it uses; nil: none
	known     bool             // it is known whether EgressIPs select it
}

// PodUpdate is what follows from changed pods.
type PodUpdate struct {
	// Rows are the entries of address sets for the addresses that the pods have or had.
	Rows intent.Rows
}

// FollowPods makes a memo that is settled follow changes of pods. It returns false if there are none that it could.
func (m *Memo) FollowPods() bool {
	c := m.c
	if c.w.Management == nil || c.w.EgressPods == nil || !c.hasEgressIPs() || c.w.Engine.RouterPorts == nil {
		return false
	}
	p := &podMemo{
		pods: c.w.EgressPods, byName: map[string]*selectionMemo{}, overlaps: map[overlap]int{},
		origins:    map[string]state.Ref{},
		fipTargets: map[netip.Addr]bool{}, fipPods: map[string]bool{}, serviceNamespaces: map[string]bool{},
	}
	for i := range c.w.Selections {
		s := &c.w.Selections[i]
		p.byName[s.EgressIP] = &selectionMemo{Selection: s, redirects: len(s.Links) > 0 || !s.FailOpen}
		p.closes = p.closes || !s.FailOpen
	}
	for rank, s := range sortSelections(c.w.Selections) {
		p.byName[s.EgressIP].rank = rank
	}
	for _, f := range c.fips {
		p.fipTargets[f.target], p.fipTargets[f.Address] = true, true
		p.fipPods[snapshot.PodKey(f.Namespace, f.Pod)], p.fipPods[snapshot.PodKey(f.Namespace, f.VM)] = true, true
		if f.redirects {
			p.redirected = append(p.redirected, f.target)
		}
	}
	for _, s := range c.w.Services {
		p.serviceNamespaces[s.Namespace] = true
	}
	_, p.returns = m.rest[intent.AddressSet{Name: ownership.RedirectedPodSet(c.w.Shard)}.Key(c.w.Shard)]
	for _, a := range p.pods.Addresses() {
		at, ok := p.place(a)
		if !ok {
			return false
		}
		p.countOverlaps(at, 1, nil)
	}
	for name := range p.listSets(c.w.Shard) {
		key := intent.AddressSet{Name: name}.Key(c.w.Shard)
		p.origins[name] = m.rest[key].Origin
		delete(m.rest, key)
	}
	m.pods = p
	return true
}

// PodCount returns the number of pods that the memo follows.
func (m *Memo) PodCount() int {
	if m.pods == nil {
		return 0
	}
	return m.pods.pods.Size()
}

// place decides about an address. It returns false if an EgressIP is not known.
func (p *podMemo) place(a netip.Addr) (out podPlacement, ok bool) {
	names, known := p.pods.Find(a)
	out.known = known
	for _, name := range names {
		s := p.byName[name]
		if s == nil {
			return out, false
		}
		out.selecting = append(out.selecting, s)
	}
	slices.SortFunc(out.selecting, func(a, b *selectionMemo) int { return a.rank - b.rank })
	if i := slices.IndexFunc(out.selecting, func(s *selectionMemo) bool { return s.redirects }); i >= 0 {
		out.user = out.selecting[i]
	}
	return out, true
}

// countOverlaps adds n to the number of addresses of each overlap, and marks the overlaps in touched.
func (p *podMemo) countOverlaps(at podPlacement, n int, touched map[overlap]int) {
	if at.user == nil {
		return
	}
	for _, s := range at.selecting {
		if s.rank <= at.user.rank {
			continue
		}
		o := overlap{s.EgressIP, at.user.EgressIP}
		if _, seen := touched[o]; !seen && touched != nil {
			touched[o] = p.overlaps[o]
		}
		if p.overlaps[o] += n; p.overlaps[o] == 0 {
			delete(p.overlaps, o)
		}
	}
}

// setsOf returns the address sets that an address is in.
func (p *podMemo) setsOf(vpc string, at podPlacement) (out []string) {
	if at.user != nil {
		out = append(out, ownership.EgressIPPodSet(vpc, at.user.EgressIP))
		if p.returns {
			out = append(out, ownership.RedirectedPodSet(vpc))
		}
		if !at.user.FailOpen {
			out = append(out, ownership.FailClosedPodSet(vpc))
		}
	}
	if at.known && p.closes {
		out = append(out, ownership.ClassifiedPodSet(vpc))
	}
	return out
}

// listSets returns the address sets that pods are in, with what they contain besides.
func (p *podMemo) listSets(vpc string) map[string][]netip.Addr {
	out := map[string][]netip.Addr{}
	if p.closes {
		out[ownership.FailClosedPodSet(vpc)], out[ownership.ClassifiedPodSet(vpc)] = nil, nil
	}
	if p.returns {
		out[ownership.RedirectedPodSet(vpc)] = p.redirected
	}
	for name, s := range p.byName {
		if s.redirects {
			out[ownership.EgressIPPodSet(vpc, name)] = nil
		}
	}
	return out
}

// UpdatePods follows changes of some pods: it returns what a compilation of all would change. If it returns false,
// everything has to be compiled again, and the memo must not be used any more.
func (m *Memo) UpdatePods(changed []snapshot.EgressPod) (*PodUpdate, bool) {
	p := m.pods
	if p == nil {
		return nil, false
	}
	before := map[netip.Addr]podPlacement{}
	for _, next := range changed {
		if p.fipPods[next.Key()] || p.serviceNamespaces[next.Namespace] {
			return nil, false
		}
		last := p.pods.Get(next.Key())
		for _, a := range slices.Concat(last.Ports, last.Claims, next.Ports, next.Claims) {
			at, ok := p.place(a)
			if before[a] = at; !ok || p.fipTargets[a] {
				return nil, false
			}
		}
	}
	for _, next := range changed {
		p.pods.Put(next)
	}
	out, overlaps := &PodUpdate{Rows: intent.Rows{}}, map[overlap]int{}
	for a, was := range before {
		is, ok := p.place(a)
		if !ok || !m.canMove(a, was, is) {
			return nil, false
		}
		p.countOverlaps(was, -1, overlaps)
		p.countOverlaps(is, 1, overlaps)
		m.updateSnapshot(a, was, is)
		m.addMembers(out, a, was, is)
	}
	for o, count := range overlaps {
		if (count == 0) != (p.overlaps[o] == 0) {
			return nil, false // a note comes or goes
		}
	}
	return out, true
}

// canMove reports whether a changed address concerns no rows but the entries of address sets: a pod on a Subnet that no
// namespace of its EgressIP has decides whether the EgressIP has a policy there.
func (m *Memo) canMove(a netip.Addr, was, is podPlacement) bool {
	differs := func(all, others []*selectionMemo, on string) bool {
		return slices.ContainsFunc(all, func(s *selectionMemo) bool {
			return !slices.Contains(others, s) && !slices.Contains(s.Subnets, on)
		})
	}
	for _, s := range m.c.otherSubnets {
		if m.c.onSubnet(s).project.owns(a) &&
			(differs(was.selecting, is.selecting, s.Name) || differs(is.selecting, was.selecting, s.Name)) {
			return false
		}
	}
	return true
}

// updateSnapshot makes the snapshot say of an address what is known of it now.
func (m *Memo) updateSnapshot(a netip.Addr, was, is podPlacement) {
	for _, s := range was.selecting {
		if !slices.Contains(is.selecting, s) {
			s.Pods = withoutAddress(s.Pods, a)
		}
	}
	for _, s := range is.selecting {
		s.Pods = withAddress(s.Pods, a)
	}
	if m.c.w.PodAddresses = withoutAddress(m.c.w.PodAddresses, a); is.known {
		m.c.w.PodAddresses = withAddress(m.c.w.PodAddresses, a)
	}
}

// withAddress and withoutAddress return sorted addresses with or without one.
func withAddress(list []netip.Addr, a netip.Addr) []netip.Addr {
	if i, found := slices.BinarySearchFunc(list, a, netip.Addr.Compare); !found {
		return slices.Insert(list, i, a)
	}
	return list
}

func withoutAddress(list []netip.Addr, a netip.Addr) []netip.Addr {
	if i, found := slices.BinarySearchFunc(list, a, netip.Addr.Compare); found {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// addMembers adds the entries of an address, in the sets that it is in and those that it was in.
func (m *Memo) addMembers(to *PodUpdate, a netip.Addr, was, is podPlacement) {
	vpc := m.c.w.Shard
	has := m.pods.setsOf(vpc, is)
	for _, set := range slices.Concat(has, m.pods.setsOf(vpc, was)) {
		member := intent.AddressSetMember{Set: set, Address: a, IsIn: slices.Contains(has, set)}
		to.Rows[member.Key(vpc)] = state.Entry[intent.Row]{Value: member, Origin: m.pods.origins[set]}
	}
}

// addRows adds the address sets with all of their addresses.
func (p *podMemo) addRows(to intent.Rows, vpc string) {
	sets := p.listSets(vpc)
	for name, more := range sets {
		sets[name] = slices.Clone(more)
	}
	for _, a := range p.pods.Addresses() {
		at, _ := p.place(a)
		for _, set := range p.setsOf(vpc, at) {
			sets[set] = append(sets[set], a)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		row := intent.AddressSet{Name: name, Addresses: joinAddresses(sets[name])}
		to[row.Key(vpc)] = state.Entry[intent.Row]{Value: row}
	}
}
