package address

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// churnTopology has one node, because no packets are sent, and a network with hardly more addresses than are requested.
func churnTopology(raft int) blueprint.Blueprint {
	network := func(name, prefix string) blueprint.Network {
		return blueprint.Network{
			Name:     name,
			Prefixes: []netip.Prefix{netip.MustParsePrefix(prefix)},
			Default:  name == "ext-cloud",
		}
	}
	return blueprint.Blueprint{
		Nodes: 1, Gateways: 1, Raft: raft,
		Networks: []blueprint.Network{
			network("ext-public", "198.18.0.0/16"), network("ext-cloud", "100.65.0.0/16"),
			network("ext-tiny", "198.19.7.0/28"),
		},
	}
}

// churnSeed returns a new seed each time, or the given one to reproduce a run.
func churnSeed(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64N(1_000_000)
	if text := os.Getenv("SALLYPORT_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d; again with SALLYPORT_SEED=%d", seed, seed)
	return seed
}

func TestCore4KilledControllerConvergesToTheSame(t *testing.T) {
	item := coreItems.Item(t, 4)
	kills := show.ChooseSize(100, 8)
	c := harness.StartLab(t, "storm", churnTopology(1))
	c.InstallSallyport(t)
	ctl := c.NewController(t, t.TempDir())
	ctl.StartForTest(t)
	s := newChurnRun(t, c, ctl, show.ChooseSize(12, 6), show.ChooseSize(60, 12))

	calm, took := s.runScripts(t, nil)
	s.deleteProjects(t)
	again, _ := s.runScripts(t, nil)
	s.expectSameState(t, "a second undisturbed run", calm, again)
	s.deleteProjects(t)
	lives := &controllerKiller{churnRun: s, controller: ctl, kills: kills, rng: rand.New(rand.NewPCG(s.seed, 0))}
	killed, tookKilled := s.runScripts(t, lives.killAndRestart)
	same := s.expectSameState(t, fmt.Sprintf("the run with %d kills", kills), calm, killed)
	s.checkDetection(t, calm)
	item.AddFigure("seed %d: %d changes in %d projects; undisturbed %.1f s to settle, with %d kills %.1f s; %d lives had written something (%.0f writes)",
		s.seed, s.countSteps(), len(s.tenants), took.Seconds(), kills, tookKilled.Seconds(), lives.livesWithWrites,
		lives.writes)
	item.AddFigure("%s", same)
}

// expectSameState fails the test if two runs differ, and otherwise describes what they have in common.
func (s *churnRun) expectSameState(t *testing.T, which string, calm, other stateLines) string {
	t.Helper()
	difference, doubles := calm.diff(other), s.allocations.foundDoubles()
	if difference != "" {
		t.Errorf("%s differs from the undisturbed one:\n%s", which, difference)
	}
	for _, double := range doubles {
		t.Error(double)
	}
	if difference != "" || len(doubles) > 0 {
		return fmt.Sprintf("%s: not the same, or an address was given twice", which)
	}
	return fmt.Sprintf("%s: the same %d lines of Kubernetes and OVN; addresses were given %d times, none twice at a time", which, len(calm), s.allocations.grants)
}

// checkDetection shows that a difference and a double allocation would be detected.
func (s *churnRun) checkDetection(t *testing.T, calm stateLines) {
	t.Helper()
	home, other := s.tenants[0].namespace(), s.tenants[1].namespace() // both exist in the final state
	s.ApplyWithoutCleanup(t, fmt.Sprintf(
		"{apiVersion: kube-dc.com/v1, kind: EIp, metadata: {name: control, namespace: %s}}", home))
	s.WaitProgrammed(t, "EIp", home, "control")
	if d := calm.diff(collectState(t, s.Cluster)); !strings.Contains(d, "+ EIp "+home+"/control") {
		t.Errorf("one more EIp makes no difference: %q", d)
	}
	books := watchAllocations(t, s.Cluster)
	way, err := s.Objects.Get(harness.Within(t, harness.Patience), harness.ObjectRef("EIp", home, "default-gw"))
	if err != nil {
		t.Fatal(err)
	}
	address, _, _ := unstructured.NestedString(way.Object, "status", "ipAddress")
	for i, router := range []string{home, other} { // lr-nat-add of OVN 25.03 crashes here with a segmentation fault
		s.RunNbctl(t, "--id=@row", "create", "NAT", "type=dnat_and_snat", "external_ip="+address,
			fmt.Sprintf("logical_ip=10.%d.0.99", 50+i),
			"--", "add", "Logical_Router", router, "nat", "@row")
	}
	s.patchStatus(t, harness.ObjectRef("EIp", home, "control"), fmt.Sprintf(`{"status": {"ipAddress": %q}}`, address))
	s.patchStatus(t, harness.ObjectRef("OvnEip", "", "eip-"+home+"-control"),
		fmt.Sprintf(`{"status": {"v4Ip": %q}}`, address))
	for _, stream := range []string{eipStream, ovnEipStream, natStream} {
		s.PollUntil(t, "the double in the stream of "+stream, func() bool {
			return slices.ContainsFunc(books.foundDoubles(), func(double string) bool {
				return strings.HasPrefix(double, stream+": "+address)
			})
		})
	}
}

func (s *churnRun) patchStatus(t *testing.T, r manifest.Ref, patch string) {
	t.Helper()
	resource := s.api.Resource(harness.ResourceForRef(r)).Namespace(r.Namespace)
	if _, err := resource.Patch(harness.Within(t, harness.Patience), r.Name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// controllerKiller kills the controller repeatedly and restarts it at once.
type controllerKiller struct {
	*churnRun
	controller *harness.Controller
	kills      int
	rng        *rand.Rand

	livesWithWrites int // starts after which something was written
	writes          float64
}

func (l *controllerKiller) killAndRestart(t *testing.T, pass func(int)) {
	for range l.kills {
		pass(l.countSteps()/l.kills + 1)
		l.waitRandomMoment()
		if n := l.countWrites(); n > 0 {
			l.livesWithWrites++
			l.writes += n
		}
		l.controller.Stop(syscall.SIGKILL)
		l.controller.Start(t)
	}
}

// waitRandomMoment returns at a random moment: some time after the start, or right after an event.
func (l *controllerKiller) waitRandomMoment() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(l.rng.Int64N(int64(3*time.Second))))
	defer cancel()
	if l.rng.IntN(2) == 0 {
		<-ctx.Done()
		return
	}
	l.allocations.waitEvents(ctx, 1+l.rng.IntN(40))
}

// countWrites returns the number of writes since the last start, if the controller answers.
func (l *controllerKiller) countWrites() float64 {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	counters, err := l.controller.ScrapeMetrics(ctx)
	if err != nil {
		return 0 // it has just started
	}
	return harness.SumWrites(counters)
}
