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

// stormLab has one node, because nothing is sent, and a network with hardly more addresses than are asked for.
func stormLab(raft int) blueprint.Blueprint {
	network := func(name, prefix string) blueprint.Network {
		return blueprint.Network{Name: name, Prefixes: []netip.Prefix{netip.MustParsePrefix(prefix)}, Default: name == "ext-cloud"}
	}
	return blueprint.Blueprint{
		Nodes: 1, Gateways: 1, Raft: raft,
		Networks: []blueprint.Network{network("ext-public", "198.18.0.0/16"), network("ext-cloud", "100.65.0.0/16"), network("ext-tiny", "198.19.7.0/28")},
	}
}

// stormSeed is another one each time, or the one that is to be looked at again.
func stormSeed(t *testing.T) uint64 {
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
	item := core.Item(t, 4)
	kills := show.Size(100, 8)
	c := harness.StartLab(t, "storm", stormLab(1))
	c.InstallSallyport(t)
	ctl := c.NewController(t, t.TempDir())
	ctl.StartForTest(t)
	s := newStorm(t, c, ctl, show.Size(12, 6), show.Size(60, 12))

	calm, took := s.play(t, nil)
	s.clear(t)
	again, _ := s.play(t, nil)
	s.compare(t, "a second undisturbed run", calm, again)
	s.clear(t)
	lives := &restarts{storm: s, controller: ctl, kills: kills, r: rand.New(rand.NewPCG(s.seed, 0))}
	killed, tookKilled := s.play(t, lives.run)
	same := s.compare(t, fmt.Sprintf("the run with %d kills", kills), calm, killed)
	s.controls(t, calm)
	item.Figure("seed %d: %d changes in %d projects; undisturbed %.1f s to settle, with %d kills %.1f s; %d lives had written something (%.0f writes)",
		s.seed, s.size(), len(s.tenants), took.Seconds(), kills, tookKilled.Seconds(), lives.busy, lives.writes)
	item.Figure("%s", same)
}

// compare says in what two runs are the same, or complains.
func (s *storm) compare(t *testing.T, which string, calm, other remains) string {
	t.Helper()
	difference, doubles := calm.differs(other), s.ledger.found()
	if difference != "" {
		t.Errorf("%s differs from the undisturbed one:\n%s", which, difference)
	}
	for _, double := range doubles {
		t.Error(double)
	}
	if difference != "" || len(doubles) > 0 {
		return fmt.Sprintf("%s: not the same, or an address was given twice", which)
	}
	return fmt.Sprintf("%s: the same %d lines of Kubernetes and OVN; addresses were given %d times, none twice at a time", which, len(calm), s.ledger.given)
}

// controls shows that a difference and a double would be found.
func (s *storm) controls(t *testing.T, calm remains) {
	t.Helper()
	home, other := s.tenants[0].namespace(), s.tenants[1].namespace() // both are there in the end
	s.PutField(t, fmt.Sprintf("{apiVersion: kube-dc.com/v1, kind: EIp, metadata: {name: control, namespace: %s}}", home))
	s.WaitProgrammed(t, "EIp", home, "control")
	if d := calm.differs(collectRemains(t, s.Cluster)); !strings.Contains(d, "+ EIp "+home+"/control") {
		t.Errorf("one more EIp makes no difference: %q", d)
	}
	books := followAddresses(t, s.Cluster)
	way, err := s.Objects.Get(harness.Within(t, time.Minute), harness.Ref("EIp", home, "default-gw"))
	if err != nil {
		t.Fatal(err)
	}
	address, _, _ := unstructured.NestedString(way.Object, "status", "ipAddress")
	for i, router := range []string{home, other} { // lr-nat-add of OVN 25.03 ends with a segmentation fault here
		s.RunNbctl(t, "--id=@row", "create", "NAT", "type=dnat_and_snat", "external_ip="+address, fmt.Sprintf("logical_ip=10.%d.0.99", 50+i),
			"--", "add", "Logical_Router", router, "nat", "@row")
	}
	s.patchStatus(t, harness.Ref("EIp", home, "control"), fmt.Sprintf(`{"status": {"ipAddress": %q}}`, address))
	s.patchStatus(t, harness.Ref("OvnEip", "", "eip-"+home+"-control"), fmt.Sprintf(`{"status": {"v4Ip": %q}}`, address))
	for _, stream := range []string{eipStream, ovnEipStream, natStream} {
		s.Until(t, "the double in the stream of "+stream, func() bool {
			return slices.ContainsFunc(books.found(), func(double string) bool { return strings.HasPrefix(double, stream+": "+address) })
		})
	}
}

func (s *storm) patchStatus(t *testing.T, r manifest.Ref, patch string) {
	t.Helper()
	resource := s.api.Resource(harness.ResourceOf(r)).Namespace(r.Namespace)
	if _, err := resource.Patch(harness.Within(t, time.Minute), r.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// restarts kills the controller again and again, and starts it again at once.
type restarts struct {
	*storm
	controller *harness.Controller
	kills      int
	r          *rand.Rand

	busy   int // lives in which something was written
	writes float64
}

func (l *restarts) run(t *testing.T, pass func(int)) {
	for range l.kills {
		pass(l.size()/l.kills + 1)
		l.moment()
		if n := l.written(); n > 0 {
			l.busy++
			l.writes += n
		}
		l.controller.Stop(syscall.SIGKILL)
		l.controller.Start(t)
	}
}

// moment returns at a random moment: some time after the start, or when something has just happened.
func (l *restarts) moment() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(l.r.Int64N(int64(3*time.Second))))
	defer cancel()
	if l.r.IntN(2) == 0 {
		<-ctx.Done()
		return
	}
	l.ledger.after(ctx, 1+l.r.IntN(40))
}

// written is how often the controller has written in this life, as far as it can be asked.
func (l *restarts) written() float64 {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	counters, err := l.controller.Scrape(ctx)
	if err != nil {
		return 0 // it has only just started
	}
	return harness.SumWrites(counters)
}
