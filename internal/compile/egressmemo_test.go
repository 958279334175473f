package compile

import (
	"fmt"
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

// egressMemoTest edits EgressIPs in a snapshot, and compares what a memo makes of it with a compilation of the snapshot.
type egressMemoTest struct {
	*testing.T
	random   *rand.Rand
	w        *snapshot.EgressInput
	out      *intent.Intent
	verdicts map[string]intent.Verdict
	memo     *EgressMemo // nil: the snapshot has none

	updates, refusals int // edits that the memo followed, and those that it refused
}

// newEgressMemoTest returns egress addresses at rest. Some EgressIPs request the same address or an invalid one, some
// select several VPCs, and one of these may not use the network.
func newEgressMemoTest(t *testing.T, random *rand.Rand) *egressMemoTest {
	t.Helper()
	m := &egressMemoTest{T: t, random: random}
	var requests []snapshot.EgressIP
	for i := range 2 + random.IntN(8) {
		requests = append(requests, m.randomEgressIP(fmt.Sprintf("e%d", i)))
	}
	m.w = egressFixture(requests...)
	m.w.ExternalSubnets[0].Admitted = snapshot.Admitted{"v0": true, "v1": true, "v2": false}
	m.compile()
	return m
}

func (m *egressMemoTest) randomEgressIP(name string) snapshot.EgressIP {
	out := snapshot.EgressIP{
		Meta:      snapshot.Meta{Name: name, UID: name, Created: time.Unix(m.random.Int64N(5), 0)},
		Addresses: []string{m.randomAddress()}, Vpcs: m.randomVPCs(),
	}
	if m.random.IntN(3) == 0 {
		out.Addresses = append(out.Addresses, m.randomAddress())
	}
	return out
}

func (m *egressMemoTest) randomAddress() string {
	if m.random.IntN(10) == 0 {
		return "203.0.113.7" // in no network
	}
	return fmt.Sprintf("198.51.100.%d", 1+m.random.IntN(20)) // .1 is the gateway
}

func (m *egressMemoTest) randomVPCs() (out []string) {
	for i := range 3 {
		if m.random.IntN(2) == 0 {
			out = append(out, fmt.Sprintf("v%d", i))
		}
	}
	return out
}

// compile compiles the whole snapshot until everything is written, and makes a memo.
func (m *egressMemoTest) compile() {
	for range 3 {
		m.out, _ = Egress(m.w)
		m.applyRows()
	}
	owned := *m.w // a memo takes over its snapshot
	owned.EgressIPs = slices.Clone(m.w.EgressIPs)
	out, verdicts, memo := EgressWithMemo(&owned)
	if changes := state.Diff(out.Rows, m.out.Rows); len(changes) > 0 {
		m.Fatalf("the snapshot is not at rest: %s", changes[0])
	}
	m.verdicts = map[string]intent.Verdict{}
	for _, v := range verdicts {
		m.verdicts[v.Object.Name] = v
	}
	if m.memo = memo; !memo.Settle() {
		m.memo = nil
	}
}

// applyRows changes what the snapshot says of OVN and Kube-OVN to what was compiled.
func (m *egressMemoTest) applyRows() {
	m.w.PortNetworks, m.w.ChassisGroups = map[string]netip.Prefix{}, map[string]snapshot.HAChassisGroup{}
	for _, entry := range m.out.Rows {
		switch row := entry.Value.(type) {
		case intent.LogicalRouterPort:
			m.w.PortNetworks[row.Name] = row.Network
			m.w.PeerPorts[row.Peer] = true
		case intent.HAChassisGroup:
			m.w.ChassisGroups[row.Name] = snapshot.HAChassisGroup{
				Chassis: strings.Fields(row.Chassis), EgressIP: entry.Origin.Name,
			}
		}
	}
	for _, r := range m.w.EgressIPs {
		for _, text := range r.Addresses {
			a := netip.MustParseAddr(text)
			m.w.Engine.OvnEips[ownership.EgressOvnEipName(a)] = snapshot.OvnEip{
				ObjectState: snapshot.ObjectState{Exists: true, Ready: true}, Address: a,
			}
		}
	}
}

// edit changes an EgressIP at random: something that only verdicts depend on, or anything.
func (m *egressMemoTest) edit(r *snapshot.EgressIP) {
	switch m.random.IntN(16) {
	case 0:
		r.Vpcs = m.randomVPCs()
	case 1:
		r.Addresses = []string{m.randomAddress()}
	case 2:
		r.EligibleNodes = map[string]bool{fmt.Sprintf("node%d", 1+m.random.IntN(3)): true}
	case 3:
		r.Malformed = snapshot.Malformed([]string{"", "podSelector: invalid"}[m.random.IntN(2)])
	case 4:
		r.Deleting = !r.Deleting
	case 5:
		r.RebalanceRequested = fmt.Sprint(m.random.IntN(2))
	case 6:
		r.Rebalanced = r.RebalanceRequested
	case 7, 8:
		r.UnservedPods = snapshot.PodSample{}
	default:
		r.UnservedPods.First = slices.Clone(r.UnservedPods.First) // the memo has the other
		r.UnservedPods.AddPod(fmt.Sprintf("other/pod%d", m.random.IntN(100)))
	}
	r.Generation++
}

// step edits some EgressIPs, or creates or deletes one, lets the memo follow, and compares.
func (m *egressMemoTest) step() {
	var changed []snapshot.EgressIP
	switch n := len(m.w.EgressIPs); {
	case m.random.IntN(12) == 0:
		m.w.EgressIPs = append(m.w.EgressIPs, m.randomEgressIP(fmt.Sprintf("new%d", n)))
		changed = m.w.EgressIPs[n:]
	case m.random.IntN(12) == 0 && n > 1:
		m.w.EgressIPs = m.w.EgressIPs[:n-1]
		m.compile() // without the object there is no update
		return
	default:
		for _, i := range m.random.Perm(n)[:1+m.random.IntN(min(n, 3))] {
			m.edit(&m.w.EgressIPs[i])
			changed = append(changed, m.w.EgressIPs[i])
		}
	}
	if m.memo == nil {
		m.compile()
		return
	}
	update, ok := m.memo.Update(slices.Clone(changed))
	if !ok {
		m.refusals++
		m.compile()
		return
	}
	m.updates++
	for i, v := range update.Verdicts {
		if before := update.Before[i]; !reflect.DeepEqual(before, m.verdicts[v.Object.Name]) {
			m.Errorf("the verdict before is %+v, wanted %+v", before, m.verdicts[v.Object.Name])
		}
		m.verdicts[v.Object.Name] = v
	}
	m.compare()
}

// compare compares with a compilation of everything.
func (m *egressMemoTest) compare() {
	m.Helper()
	fresh, verdicts := Egress(m.w)
	if !reflect.DeepEqual(fresh, m.out) {
		m.Errorf("an update has changed the intent: %v %v", state.Diff(fresh.Rows, m.out.Rows),
			state.Diff(fresh.Objects, m.out.Objects))
	}
	if len(verdicts) != len(m.verdicts) {
		m.Errorf("%d verdicts, wanted %d", len(m.verdicts), len(verdicts))
	}
	for _, v := range verdicts {
		if got := m.verdicts[v.Object.Name]; !reflect.DeepEqual(got, v) {
			m.Errorf("the verdict is %+v, wanted %+v", got, v)
		}
	}
	if m.random.IntN(3) == 0 {
		if err := m.memo.Check(); err != nil {
			m.Error(err)
		}
	}
}

// A memo that follows random changes says what a compilation of everything says.
func TestEgressMemo(t *testing.T) {
	updates, refusals := 0, 0
	for seed := range uint64(50) {
		m := newEgressMemoTest(t, rand.New(rand.NewPCG(seed, 1)))
		for range 20 {
			if m.step(); t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		updates, refusals = updates+m.updates, refusals+m.refusals
	}
	if updates < 200 || refusals < 200 {
		t.Errorf("the memos followed %d edits and refused %d", updates, refusals)
	}
}

// The check that runs in production finds a memo that has followed a change of rows, and one with a wrong verdict.
func TestEgressMemoCheck(t *testing.T) {
	for name, spoil := range map[string]func(*EgressMemo){
		"nothing": nil,
		"another VPC": func(m *EgressMemo) {
			m.before["a"] = m.w.EgressIPs[0]
			m.w.EgressIPs[0].Vpcs = []string{"other"}
			m.byName["a"].Vpcs = []string{"other"}
		},
		"unserved pods": func(m *EgressMemo) { m.byName["a"].UnservedPods.AddPod("other/pod") },
		"one too many":  func(m *EgressMemo) { m.byName["b"] = m.byName["a"] },
	} {
		_, _, memo := EgressWithMemo(egressFixture(newEgressIP("a", 0, "198.51.100.7")))
		if !memo.Settle() {
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
