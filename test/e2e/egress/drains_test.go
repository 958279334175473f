package egress

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ovn-kubernetes/libovsdb/cache"
	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// haChassisRow is a node of a chassis group, in the northbound database.
type haChassisRow struct {
	UUID     string `ovsdb:"_uuid"`
	Chassis  string `ovsdb:"chassis_name"`
	Priority int    `ovsdb:"priority"`
}

// portBindingRow is a port of the southbound database, with the node that has claimed it.
type portBindingRow struct {
	UUID        string  `ovsdb:"_uuid"`
	LogicalPort string  `ovsdb:"logical_port"`
	Chassis     *string `ovsdb:"chassis"`
}

// drain is what happened when a node was drained. Times are relative to the label on the node.
type drain struct {
	gap, gapEnd    time.Duration
	written, claim time.Duration // the new order of nodes in the northbound database; the other node has claimed the port
}

func (d drain) String() string {
	return fmt.Sprintf("the order of nodes was written %d ms after the label, the other node claimed the port %d ms later, "+
		"and answers stopped %d ms and came back %d ms after the claim", d.written.Milliseconds(),
		(d.claim - d.written).Milliseconds(), (d.gapEnd - d.gap - d.claim).Milliseconds(), (d.gapEnd - d.claim).Milliseconds())
}

// drainWatch records when databases change.
type drainWatch struct {
	mu             sync.Mutex
	written, claim time.Time // first change of the order since reset, last claim
}

func (w *drainWatch) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written, w.claim = time.Time{}, time.Time{}
}

// watchDrains watches the chassis groups, and the port of an address, until the test ends.
func (y *egressFixture) watchDrains(t *testing.T, address netip.Addr) *drainWatch {
	t.Helper()
	w := &drainWatch{}
	order := func(model.Model) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.written.IsZero() {
			w.written = time.Now()
		}
	}
	port := "cr-" + ownership.EgressRouterPort(address)
	claim := func(m model.Model) {
		if row := m.(*portBindingRow); row.LogicalPort == port && row.Chassis != nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.claim = time.Now()
		}
	}
	monitor(t, y.NewNBClient(t, "HA_Chassis", &haChassisRow{}), order)
	monitor(t, y.NewSBClient(t, "Port_Binding", &portBindingRow{}), claim)
	return w
}

// monitor calls a function for each change of a row.
func monitor(t *testing.T, database client.Client, changed func(model.Model)) {
	t.Helper()
	ctx := harness.Within(t, time.Minute)
	if err := database.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	database.Cache().AddEventHandler(&cache.EventHandlerFuncs{
		AddFunc:    func(_ string, m model.Model) { changed(m) },
		UpdateFunc: func(_ string, _, m model.Model) { changed(m) },
	})
	if _, err := database.MonitorAll(ctx); err != nil {
		t.Fatal(err)
	}
}

// maxDrainGap is the longest time without an answer when a node is drained. 87 ms was the worst of 20; see
// docs/limits.md.
const maxDrainGap = 100 * time.Millisecond

// measureDrains drains the node with the address several times, and reports how long no answers arrived and where the
// time of the worst went.
func (y *egressFixture) measureDrains(t *testing.T, item *show.Item) {
	t.Helper()
	watch := y.watchDrains(t, netip.MustParseAddr("91.224.11.230"))
	var drains []drain
	for range show.ChooseSize(20, 1) {
		var begun time.Time
		var d drain
		gap, end := y.measureGap(t, faultCase{
			inject: func(y *egressFixture, t *testing.T, node string) {
				watch.reset()
				begun = time.Now()
				y.drainNode(t, node)
			},
			recover: func(y *egressFixture, t *testing.T, node string) {
				watch.mu.Lock()
				d.written, d.claim = watch.written.Sub(begun), watch.claim.Sub(begun)
				watch.mu.Unlock()
				y.undrainNode(t, node)
			},
		})
		d.gap, d.gapEnd = gap, end.Sub(begun)
		drains = append(drains, d)
	}
	slices.SortFunc(drains, func(a, b drain) int { return cmp.Compare(a.gap, b.gap) })
	median, worst := drains[len(drains)/2], drains[len(drains)-1]
	text := fmt.Sprintf("drained: nothing came back for %d ms (median), %d ms (worst of %d)", median.gap.Milliseconds(),
		worst.gap.Milliseconds(), len(drains))
	item.AddFigure("%s", text)
	all := scaleItems.Item(t, 10)
	all.AddFigure("%s", text)
	all.AddFigure("the worst: %s", worst)
	if limit := maxDrainGap + show.ChooseSize(0, 100*time.Millisecond); worst.gap > limit {
		t.Errorf("nothing came back for %s, want at most %s: %s", worst.gap, limit, worst)
	}
	if worst.claim <= 0 || worst.written <= 0 {
		t.Errorf("no change of the databases was seen: %+v", worst)
	}
}
