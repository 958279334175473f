package compile

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// memoTest edits endpoints in a snapshot, and compares what a memo makes of it with a compilation of the snapshot.
type memoTest struct {
	*testing.T
	w        *snapshot.VpcInput
	rows     intent.Rows
	verdicts map[intent.ObjectKey]intent.Verdict
	out      *intent.Intent
	memo     *Memo // nil: the snapshot has none
	updates  int   // edits that the memo followed
}

// newMemoTest returns a project at rest whose Services have a port of its own address each.
func newMemoTest(t *testing.T, services int) *memoTest {
	t.Helper()
	w := manyPortsFixture(slices.Repeat([]int{1}, services)...)
	for i := range w.Services {
		w.Services[i].EIp, w.Services[i].Ports[0].Number = defaultEIPName, 1000+i
	}
	in, _ := Shard(w)
	for range maxRounds {
		w = applyIntent(w, in)
		in, _ = Shard(w)
	}
	m := &memoTest{T: t, w: w}
	if m.compile(); m.memo == nil || len(m.memo.services) != services {
		t.Fatal("there is no memo")
	}
	return m
}

// compile compiles the whole snapshot, as if everything were written.
func (m *memoTest) compile() {
	m.out, _ = Shard(m.w)
	(&simulatedEngine{VpcInput: m.w}).recordVIPs(m.out.Rows)
	owned := *m.w // a memo takes over its snapshot
	owned.Services = slices.Clone(m.w.Services)
	var verdicts []intent.Verdict
	m.out, verdicts, m.memo = ShardWithMemo(&owned)
	m.rows, m.verdicts = maps.Clone(m.out.Rows), map[intent.ObjectKey]intent.Verdict{}
	for _, v := range verdicts {
		m.verdicts[v.Object] = v
	}
	all := *m.out
	m.out = &all // the memo releases its own
	if !m.memo.Settle(maps.Clone(m.w.Engine.VIPs)) {
		m.memo = nil
	}
}

// recordVIPs records the VIPs only: the rest of the engine stays as it is.
func (e *simulatedEngine) recordVIPs(rows intent.Rows) {
	e.Engine.VIPs = map[string]snapshot.VIP{}
	for _, entry := range rows {
		if v, is := entry.Value.(intent.VIP); is {
			e.Engine.VIPs[intent.FormatVIP(v.Protocol, v.Address)] = snapshot.VIP{
				Service: v.Service, LoadBalancer: v.LoadBalancer,
			}
		}
	}
}

// edit changes the endpoints of some Services, lets the memo follow, and compares.
func (m *memoTest) edit(endpoints map[int][]snapshot.Endpoint) {
	var changed []snapshot.Service
	for i, list := range endpoints {
		m.w.Services[i].Endpoints = list
		changed = append(changed, m.w.Services[i])
	}
	if m.memo == nil {
		m.compile()
		return
	}
	update, ok := m.memo.Update(changed)
	if !ok {
		m.compile()
		return
	}
	m.updates++
	for key := range update.RowKeys {
		delete(m.rows, key)
	}
	maps.Copy(m.rows, update.Rows)
	for i, v := range update.Verdicts {
		if before := update.Before[i]; !reflect.DeepEqual(before, m.verdicts[v.Object]) {
			m.Errorf("the verdict before is %+v, wanted %+v", before, m.verdicts[v.Object])
		}
		m.verdicts[v.Object] = v
	}
	m.compare(update)
}

// compare compares with a compilation of everything.
func (m *memoTest) compare(update *ServiceUpdate) {
	m.Helper()
	fresh, verdicts := Shard(m.w)
	for _, c := range state.Diff(fresh.Rows, m.rows) {
		m.Errorf("%s", c)
	}
	if len(verdicts) != len(m.verdicts) {
		m.Errorf("%d verdicts, wanted %d", len(m.verdicts), len(verdicts))
	}
	for _, v := range verdicts {
		if !reflect.DeepEqual(m.verdicts[v.Object], v) {
			m.Errorf("the verdict is %+v, wanted %+v", m.verdicts[v.Object], v)
		}
	}
	fresh.Rows, m.out.Rows = nil, nil
	if !reflect.DeepEqual(fresh, m.out) {
		m.Errorf("the intent without its rows is %+v, wanted %+v", m.out, fresh)
	}
	if err := m.memo.Check(); err != nil {
		m.Error(err)
	}
	for key, row := range update.Rows {
		if !update.RowKeys[key] || !slices.Contains(update.LoadBalancers, row.Value.(intent.VIP).LoadBalancer) {
			m.Errorf("%s of %s is missing in %+v", key, row.Value, update)
		}
	}
	(&simulatedEngine{VpcInput: m.w}).recordVIPs(m.rows)
}

// randomEndpoints returns the endpoints of a Service of randomWorld.
func randomEndpoints(d *fuzzInput) (out []snapshot.Endpoint) {
	for range d.intn(4) {
		out = append(out, snapshot.Endpoint{
			PortName: pickOne(d, "0", "0", "1"), Number: 8080, Ready: d.bool(), Serving: d.bool(),
			Address: pickOne(d, podIP(5), podIP(6), podIP(7), netip.MustParseAddr("10.9.9.9")),
		})
	}
	return out
}

// checkMemo checks that a memo of a snapshot at rest follows changes of endpoints.
func (p *invariants) checkMemo(d *fuzzInput) (updates int) {
	w := *p.w
	w.Services = slices.Clone(p.w.Services)
	m := &memoTest{T: p.T, w: &w}
	m.compile()
	for range 5 {
		edits := map[int][]snapshot.Endpoint{}
		for range 1 + d.intn(2) {
			if len(w.Services) > 0 {
				edits[d.intn(len(w.Services))] = randomEndpoints(d)
			}
		}
		m.edit(edits)
	}
	return m.updates
}

// The memo follows most changes of endpoints of random snapshots. FuzzShard has more of them.
func TestMemoFollowsRandomEdits(t *testing.T) {
	chance := rand.New(rand.NewPCG(5, 6))
	updates := 0
	for range 2000 {
		seed := make([]byte, 300)
		for i := range seed {
			seed[i] = byte(chance.Uint32())
		}
		d := &fuzzInput{seed}
		p := &invariants{T: t, w: randomWorld(d)}
		p.out, p.verdicts = Shard(p.w)
		p.checkSettles()
		updates += p.checkMemo(d)
	}
	if updates < 1000 {
		t.Errorf("memos followed %d changes only", updates)
	}
	t.Logf("memos followed %d changes", updates)
}

// Services of a large project, whose endpoints come, go and drain: VIPs come and go in full load balancers.
func TestMemoFollowsManyServices(t *testing.T) {
	const services = 150
	m := newMemoTest(t, services)
	w := m.w
	chance := rand.New(rand.NewPCG(7, 8))
	const edits = 400
	for range edits {
		list := map[int][]snapshot.Endpoint{}
		for range 1 + chance.IntN(3) {
			i := chance.IntN(services)
			var endpoints []snapshot.Endpoint
			for n := range chance.IntN(4) {
				endpoints = append(endpoints, snapshot.Endpoint{
					PortName: w.Services[i].Ports[0].Name, Address: podIP(byte(5 + n)), Number: 8080,
					Ready: chance.IntN(2) == 0, Serving: chance.IntN(2) == 0,
				})
			}
			list[i] = endpoints
		}
		m.edit(list)
	}
	if m.updates < edits*3/4 {
		t.Errorf("the memo followed %d of %d changes", m.updates, edits)
	}
}

// A memo that misses a change is found out.
func TestMemoCheckFindsDifferences(t *testing.T) {
	for name, damage := range map[string]func(*Memo){
		"endpoint": func(m *Memo) { m.c.w.Services[0].Endpoints[0].Number++ },
		"row":      func(m *Memo) { clear(m.rest) },
		"finding":  func(m *Memo) { m.c.services[0].waiting = intent.Finding{Reason: intent.NoEgress} },
	} {
		m := newMemoTest(t, 2)
		if err := m.memo.Check(); err != nil {
			t.Fatal(err)
		}
		for i := range m.memo.c.w.Services {
			s := &m.memo.c.w.Services[i]
			s.Endpoints = slices.Clone(s.Endpoints)
		}
		if damage(m.memo); m.memo.Check() == nil {
			t.Errorf("%s: the difference was not found", name)
		}
	}
}

// What concerns other objects is compiled as a whole.
func TestMemoRefuses(t *testing.T) {
	for name, change := range map[string]func(*snapshot.Service){
		"a port":         func(s *snapshot.Service) { s.Ports[0].Number++ },
		"a health check": func(s *snapshot.Service) { s.HealthCheck = &snapshot.HealthCheck{Interval: 1} },
		"deletion":       func(s *snapshot.Service) { s.Deleting = true },
		"another name":   func(s *snapshot.Service) { s.Name = "unknown" },
	} {
		m := newMemoTest(t, 2)
		w := m.w
		next := w.Services[0]
		next.Ports, next.Endpoints = slices.Clone(next.Ports), nil
		if _, ok := m.memo.Update([]snapshot.Service{next}); !ok {
			t.Fatal("the memo does not follow a change of endpoints")
		}
		if change(&next); fmt.Sprint(next) == fmt.Sprint(w.Services[0]) {
			t.Fatal("nothing has changed")
		}
		if _, ok := m.memo.Update([]snapshot.Service{next}); ok {
			t.Errorf("the memo followed a change of %s", name)
		}
	}
}
