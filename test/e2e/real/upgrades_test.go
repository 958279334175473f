package real

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/parts"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

const (
	// maxUpgradeSilence is how long a stream may be silent during what does not touch OVN's own programs.
	maxUpgradeSilence = 500 * time.Millisecond
	// upgradeFromVariable names the commit to upgrade from. There is no release yet: by default it is an older commit.
	upgradeFromVariable = "SALLYPORT_UPGRADE_FROM"
	upgradeFromDefault  = "HEAD~50"
	// apiServerOutage is how long the API server is away.
	apiServerOutage = time.Minute
)

// upgradeStep is something that happens to a cluster under load.
type upgradeStep struct {
	what string
	run  func(*upgradeFixture, *testing.T)
	// compared steps stop what forwards packets: they are allowed what the bare engine loses. In all others nothing is lost.
	compared bool
}

const idle = "nothing happens" // the control

// engineSteps happen to every cluster; the last one can't be undone.
var engineSteps = []upgradeStep{
	{what: idle, run: (*upgradeFixture).waitIdly},
	{what: "Kube-OVN's controller restarts", run: (*upgradeFixture).restartKubeOVN},
	{what: "the API server is down for a minute", run: (*upgradeFixture).stopAPIServer},
	{what: "a node is drained, switched off and returns", run: (*upgradeFixture).rebootNode, compared: true},
	{what: "OVN " + parts.OVNVersion + " is replaced by " + parts.NextOVNVersion, run: (*upgradeFixture).upgradeOVN, compared: true},
}

// sallyportSteps are of Sallyport alone.
var sallyportSteps = []upgradeStep{
	{what: "Sallyport is upgraded, replica by replica", run: (*upgradeFixture).upgrade},
	{what: "Sallyport is rolled back", run: (*upgradeFixture).rollBack},
	{what: "Sallyport is upgraded again", run: (*upgradeFixture).upgrade},
	{what: "the CRDs gain a field", run: (*upgradeFixture).extendCRDs},
}

// TestReal5Upgrades measures connections through every kind of address while parts of the cluster are replaced, in a cluster
// with Kube-OVN's own objects only and in one with Sallyport. It runs on the lab's own nodes.
func TestReal5Upgrades(t *testing.T) {
	item := realItems.Item(t, 5)
	if _, err := parts.EnsureOVN(t.Context(), parts.NextOVNVersion, func(line string) { t.Log(line) }); err != nil {
		t.Fatal(err)
	}
	bare := map[string]upgradeLoss{}
	if !t.Run("without Sallyport", func(t *testing.T) {
		f := newBareFixture(t)
		for _, s := range engineSteps {
			t.Run(s.what, func(t *testing.T) { bare[s.what] = f.measure(t, s) })
		}
	}) {
		t.Fatal("there is nothing to compare with")
	}
	t.Run("with Sallyport", func(t *testing.T) {
		from := cmp.Or(os.Getenv(upgradeFromVariable), upgradeFromDefault)
		f := newUpgradeFixture(t, buildController(t, from))
		for _, s := range append(sallyportSteps, engineSteps...) {
			t.Run(s.what, func(t *testing.T) {
				got := f.measure(t, s)
				without, measured := bare[s.what]
				if measured {
					item.AddFigure("%s: %s; without Sallyport %s", s.what, got, without)
				} else {
					item.AddFigure("%s: %s", s.what, got)
				}
				got.check(t, s, without)
				f.expectDrops(t, item, s.compared)
			})
		}
		f.expectFailureSeen(t)
		item.AddFigure("upgraded from commit %s; Open vSwitch is not replaced", from)
	})
}

// check compares a loss with what is allowed.
func (l upgradeLoss) check(t *testing.T, s upgradeStep, bare upgradeLoss) {
	t.Helper()
	if !s.compared {
		allowed := max(maxUpgradeSilence, bare.longest()*3/2) // a machine that does other things stops the lab for a moment
		if l.lost > 0 || l.ended > 0 || l.longest() > allowed {
			t.Errorf("%s; allowed are no lost connections and %v", l, allowed)
		}
		return
	}
	for kind, silence := range l.silence {
		// A BFD interval, or a recomputation of all flows, takes a different time each time.
		if allowed := max(bare.silence[kind]*3/2, maxUpgradeSilence); bare.has(kind) && silence > allowed {
			t.Errorf("%s: silent for %v, without Sallyport for %v", kind, silence, bare.silence[kind])
		}
		if l.lossRate(kind) > max(bare.lossRate(kind)*3/2, maxLossRate) && bare.has(kind) {
			t.Errorf("%s: %s lost; without Sallyport %s", kind, l, bare)
		}
	}
}

// maxLossRate is what is allowed even if the bare engine happens to lose nothing.
const maxLossRate = 0.01

// expectDrops fails the test if routers outside have dropped a packet. Packets of pods that were not translated are only
// counted: Kube-OVN deletes all load balancers when it starts, and a gateway does not know the connections of the one before.
// In compared steps, all are.
func (f *upgradeFixture) expectDrops(t *testing.T, item *show.Item, compared bool) {
	t.Helper()
	if f.untranslated == nil {
		f.ExpectNoDrops(t)
		return
	}
	replies := 0
	for router, dropped := range f.CountDrops(t) {
		for _, flow := range f.ReadDroppedFlows(t, router) {
			if compared || f.untranslated[flow.Source.Addr().String()] {
				replies++
			} else {
				t.Errorf("%s dropped %d packets: %v", router, dropped, flow)
			}
		}
	}
	item.AddFigure("  packets of %d connections left without the right translation, and were dropped by a router outside", replies)
	f.untranslated = nil
}

// buildController builds the controller of another commit.
func buildController(t *testing.T, commit string) string {
	t.Helper()
	dir := t.TempDir()
	source, built := filepath.Join(dir, "source"), filepath.Join(dir, "sallyport-controller")
	for _, argv := range [][]string{
		{"git", "-C", harness.RepositoryRoot, "worktree", "add", "--detach", source, commit},
		{"go", "-C", source, "build", "-o", built, "./cmd/sallyport-controller"},
	} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
		}
	}
	t.Cleanup(func() {
		_ = exec.Command("git", "-C", harness.RepositoryRoot, "worktree", "remove", "--force", source).Run()
	})
	return built
}
