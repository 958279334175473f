package compile

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// podMemoTest changes pods of the management VPC, and compares what a memo makes of it with a compilation of everything.
type podMemoTest struct {
	*testing.T
	random   *rand.Rand
	w        *snapshot.VpcInput // without what follows from pods
	pods     map[string]snapshot.EgressPod
	rows     intent.Rows
	out      *intent.Intent
	verdicts []intent.Verdict
	memo     *Memo

	updates, refusals int
}

func newPodMemoTest(t *testing.T, random *rand.Rand) *podMemoTest {
	t.Helper()
	m := &podMemoTest{T: t, random: random, pods: map[string]snapshot.EgressPod{}, w: managementFIPFixture()}
	if random.IntN(2) == 0 {
		m.w.FIps = []snapshot.FIp{newFIP("door", "cloud", random.IntN(2) == 0)}
	}
	if random.IntN(3) == 0 {
		m.w.Services = []snapshot.Service{{Meta: snapshot.Meta{Namespace: "plain", Name: "web"}}}
	}
	for i := range 1 + random.IntN(4) {
		s := snapshot.Selection{
			EgressIP: fmt.Sprintf("e%d", i), Created: time.Unix(random.Int64N(3), 0), FailOpen: random.IntN(3) == 0,
		}
		if random.IntN(3) > 0 {
			s.Addresses = []netip.Addr{addr(fmt.Sprintf("198.51.100.%d", 50+i))}
			s.Links = []snapshot.EgressLink{{
				Address: s.Addresses[0], PeerNetwork: netip.MustParsePrefix(fmt.Sprintf("240.0.%d.1/30", i)),
			}}
		}
		if random.IntN(2) == 0 {
			s.Subnets = []string{"gates"}
		}
		m.w.Selections = append(m.w.Selections, s)
	}
	for range random.IntN(12) {
		m.put(m.randomPod())
	}
	m.compile()
	return m
}

// randomPod returns a pod, often one whose name exists. EgressIPs select namespace mail only.
func (m *podMemoTest) randomPod() snapshot.EgressPod {
	out := snapshot.EgressPod{
		Namespace: []string{"mail", "plain"}[m.random.IntN(2)], Name: fmt.Sprintf("p%d", m.random.IntN(8)),
		Runs: m.random.IntN(3) > 0,
	}
	out.InSelected = out.Namespace == "mail"
	for range m.random.IntN(2) + m.random.IntN(2) {
		if a := m.randomAddress(); !slices.Contains(out.Ports, a) {
			out.Ports = append(out.Ports, a)
		}
	}
	if !out.Runs || !out.InSelected {
		out.Runs = false // as pods of these namespaces are read
		return out
	}
	if m.random.IntN(3) == 0 {
		out.Claims = []netip.Addr{m.randomAddress()}
	}
	for _, s := range m.w.Selections {
		if m.random.IntN(3) == 0 {
			out.EgressIPs = append(out.EgressIPs, s.EgressIP)
		}
	}
	return out
}

func (m *podMemoTest) randomAddress() netip.Addr {
	if m.random.IntN(8) == 0 {
		return addr(fmt.Sprintf("10.50.0.%d", 2+m.random.IntN(2)))
	}
	return addr(fmt.Sprintf("10.16.0.%d", 2+m.random.IntN(9)))
}

func (m *podMemoTest) put(p snapshot.EgressPod) { m.pods[p.Key()] = p }

// snapshot returns the snapshot with what follows from the pods, found the slow way.
func (m *podMemoTest) snapshot() *snapshot.VpcInput {
	w := *m.w
	w.Selections = slices.Clone(m.w.Selections)
	selected, known := map[string]map[netip.Addr]bool{}, map[netip.Addr]bool{}
	for _, p := range m.pods {
		for _, a := range m.knownAddresses(p) {
			known[a] = true
			for _, e := range p.EgressIPs {
				if selected[e] == nil {
					selected[e] = map[netip.Addr]bool{}
				}
				selected[e][a] = true
			}
		}
	}
	w.PodAddresses = slices.SortedFunc(maps.Keys(known), netip.Addr.Compare)
	for i := range w.Selections {
		w.Selections[i].Pods = slices.SortedFunc(maps.Keys(selected[w.Selections[i].EgressIP]), netip.Addr.Compare)
	}
	w.EgressPods = snapshot.NewEgressPods(slices.Collect(maps.Values(m.pods))...)
	return &w
}

// knownAddresses returns the addresses of a pod: those of its ports, and those that it claims and a port of its namespace
// has.
func (m *podMemoTest) knownAddresses(p snapshot.EgressPod) []netip.Addr {
	if p.Namespace == "mail" && !p.Runs {
		return nil
	}
	out := slices.Clone(p.Ports)
	for _, a := range p.Claims {
		for _, other := range m.pods {
			if other.Namespace == p.Namespace && slices.Contains(other.Ports, a) {
				out = append(out, a)
			}
		}
	}
	return out
}

// compile compiles everything, and makes a memo.
func (m *podMemoTest) compile() {
	m.Helper()
	var memo *Memo
	m.out, m.verdicts, memo = ShardWithMemo(m.snapshot())
	all := *m.out
	m.out, m.rows = &all, maps.Clone(all.Rows) // the memo releases its own
	if !memo.Settle(nil) || !memo.FollowPods() {
		m.Fatal("there is no memo")
	}
	m.memo = memo
}

// step changes some pods, lets the memo follow, and compares.
func (m *podMemoTest) step() {
	var changed []snapshot.EgressPod
	for range 1 + m.random.IntN(3) {
		p := m.randomPod()
		changed = append(slices.DeleteFunc(changed, func(o snapshot.EgressPod) bool { return o.Key() == p.Key() }), p)
	}
	for _, p := range changed {
		m.put(p)
	}
	update, ok := m.memo.UpdatePods(changed)
	if !ok {
		m.refusals++
		m.compile()
		return
	}
	m.updates++
	m.apply(update.Rows)
	fresh, verdicts := Shard(m.snapshot())
	if changes := state.Diff(fresh.Rows, m.rows); len(changes) > 0 {
		m.Errorf("%d rows differ, the first: %s", len(changes), changes[0])
	}
	if !reflect.DeepEqual(verdicts, m.verdicts) || len(state.Diff(fresh.Objects, m.out.Objects)) > 0 ||
		len(state.Diff(fresh.VpcEntries, m.out.VpcEntries)) > 0 || !reflect.DeepEqual(fresh.Notes, m.out.Notes) {
		m.Error("more than the rows differs")
	}
	if m.random.IntN(3) == 0 {
		if err := m.memo.Check(); err != nil {
			m.Error(err)
		}
	}
}

// apply changes the entries of address sets. An entry has to be in a set that exists.
func (m *podMemoTest) apply(entries intent.Rows) {
	m.Helper()
	for _, entry := range entries {
		member := entry.Value.(intent.AddressSetMember)
		key := intent.AddressSet{Name: member.Set}.Key(m.w.Shard)
		set, exists := m.rows[key].Value.(intent.AddressSet)
		if !exists {
			m.Fatalf("there is no set %s", member.Set)
		}
		addresses := slices.DeleteFunc(strings.Fields(set.Addresses), func(a string) bool { return a == member.Address.String() })
		if member.IsIn {
			addresses = append(addresses, member.Address.String())
		}
		slices.Sort(addresses)
		set.Addresses = strings.Join(addresses, " ")
		m.rows[key] = state.Entry[intent.Row]{Value: set, Origin: m.rows[key].Origin}
		if m.rows[key].Origin != entry.Origin {
			m.Errorf("the origin of %s is %s, wanted %s", member, entry.Origin, m.rows[key].Origin)
		}
	}
}

// A memo that follows random changes of pods says what a compilation of everything says.
func TestPodMemo(t *testing.T) {
	updates, refusals := 0, 0
	for seed := range uint64(25) {
		m := newPodMemoTest(t, rand.New(rand.NewPCG(seed, 2)))
		for range 20 {
			if m.step(); t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		updates, refusals = updates+m.updates, refusals+m.refusals
	}
	if updates < 150 || refusals < 60 {
		t.Errorf("the memos followed %d changes and refused %d", updates, refusals)
	}
}

// Whatever pods claim, a memo says of no address that a pod may leave if its own EgressIP is not known: such an address is
// in no set, so packets from it are dropped. An address that an EgressIP selects which fails closed is in the set that is
// dropped without a way out.
func TestPodMemoFailsClosed(t *testing.T) {
	for seed := range uint64(8) {
		m := newPodMemoTest(t, rand.New(rand.NewPCG(seed, 3)))
		for range 20 {
			m.step()
			for _, p := range m.pods {
				for _, a := range slices.Concat(p.Ports, p.Claims) {
					m.checkClosed(a)
				}
			}
		}
	}
}

func (m *podMemoTest) checkClosed(a netip.Addr) {
	m.Helper()
	in := func(name string) bool {
		set, _ := m.rows[intent.AddressSet{Name: name}.Key(m.w.Shard)].Value.(intent.AddressSet)
		return slices.Contains(strings.Fields(set.Addresses), a.String())
	}
	w := m.snapshot()
	closes := slices.ContainsFunc(w.Selections, func(s snapshot.Selection) bool { return !s.FailOpen })
	if known := slices.Contains(w.PodAddresses, a); closes && in(ownership.ClassifiedPodSet(w.Shard)) != known {
		m.Errorf("%s: classified is %t, known %t", a, !known, known)
	}
	for _, s := range sortSelections(w.Selections) {
		if !slices.Contains(s.Pods, a) || s.FailOpen && len(s.Links) == 0 {
			continue
		}
		if in(ownership.FailClosedPodSet(w.Shard)) == s.FailOpen || !in(ownership.EgressIPPodSet(w.Shard, s.EgressIP)) {
			m.Errorf("%s: EgressIP %s fails open: %t; its sets say something else", a, s.EgressIP, s.FailOpen)
		}
		return
	}
}

// The check that runs in production finds a memo that is wrong about a pod.
func TestPodMemoCheck(t *testing.T) {
	for name, spoil := range map[string]func(*Memo){
		"nothing": nil,
		"a pod that nobody has reported": func(m *Memo) {
			m.pods.pods.Put(snapshot.EgressPod{Namespace: "plain", Name: "new", Ports: []netip.Addr{addr("10.16.9.9")}})
		},
		"a snapshot that is not followed": func(m *Memo) { m.c.w.Selections[0].Pods = nil },
		"another precedence":              func(m *Memo) { m.pods.byName["mail"].redirects = false },
	} {
		w := managementEgressFixture(nil)
		w.EgressPods = snapshot.NewEgressPods(
			snapshot.EgressPod{
				Namespace: "mail", Name: "a", Ports: []netip.Addr{addr("10.16.0.2")}, Runs: true, InSelected: true,
				EgressIPs: []string{"mail"},
			},
			snapshot.EgressPod{Namespace: "plain", Name: "b", Ports: []netip.Addr{addr("10.16.0.3")}})
		_, _, memo := ShardWithMemo(w)
		if !memo.Settle(nil) || !memo.FollowPods() || memo.PodCount() != 2 {
			t.Fatal("there is no memo")
		}
		if spoil != nil {
			spoil(memo)
		}
		if err := memo.Check(); (err == nil) != (spoil == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Pods that decide about other objects are refused: those of namespaces with load balancers, and targets of floating IPs.
func TestPodMemoRefuses(t *testing.T) {
	for key, want := range map[string]bool{
		"mail/other": true, "plain/other": true, "mail/target": false, "mail/machine": false, "shop/other": false,
	} {
		w := managementFIPFixture(snapshot.FIp{Meta: snapshot.Meta{Namespace: "mail", Name: "a"}, Pod: "target"},
			snapshot.FIp{Meta: snapshot.Meta{Namespace: "mail", Name: "b"}, VM: "machine"})
		w.Services = []snapshot.Service{{Meta: snapshot.Meta{Namespace: "shop", Name: "web"}}}
		w.Selections, w.EgressPods = []snapshot.Selection{{EgressIP: "mail"}}, snapshot.NewEgressPods()
		_, _, memo := ShardWithMemo(w)
		if !memo.Settle(nil) || !memo.FollowPods() {
			t.Fatal("there is no memo")
		}
		namespace, name, _ := strings.Cut(key, "/")
		update, ok := memo.UpdatePods([]snapshot.EgressPod{{
			Namespace: namespace, Name: name, Ports: []netip.Addr{addr("10.16.0.77")}, Runs: true, InSelected: true,
			EgressIPs: []string{"mail"},
		}})
		if ok != want || ok && len(update.Rows) == 0 {
			t.Errorf("%s: followed is %t, %v", key, ok, update)
		}
	}
}
