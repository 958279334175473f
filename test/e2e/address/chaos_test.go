package address

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

func TestCore5FaultsUnderTheStormEndInTheSame(t *testing.T) {
	item := core.Item(t, 5)
	c := harness.StartLab(t, "chaos", stormLab(3))
	c.InstallSallyport(t)
	ctl := c.NewController(t, t.TempDir())
	ctl.Start(t)
	t.Cleanup(func() { ctl.Stop(syscall.SIGTERM) })
	s := newStorm(t, c, ctl, show.Size(12, 6), show.Size(60, 12))
	f := &faults{storm: s, number: show.Size(30, 3), r: rand.New(rand.NewPCG(s.seed, 1)), counts: map[string]int{}}

	calm, took := s.play(t, nil)
	s.clear(t)
	ctx, cancel := context.WithCancel(t.Context())
	go f.keep(ctx)
	disturbed, tookDisturbed := s.play(t, f.run)
	cancel()
	same := s.compare(t, "the run with faults", calm, disturbed)
	select {
	case <-ctl.Ended:
		t.Error("the controller has ended")
	default:
	}
	if t.Failed() {
		t.Logf("the controller's log ends with\n%s", ctl.LogTail(30))
	}
	item.Figure("seed %d: %d changes in %d projects; undisturbed %.1f s to settle, with %d faults (%s) %.1f s; the controller ran all the time",
		s.seed, s.size(), len(s.tenants), took.Seconds(), f.number, f, tookDisturbed.Seconds())
	item.Figure("%s", same)
	absence(t, c, item)
	ctl.Stop(syscall.SIGTERM)
	succession(t, c, item)
}

// faults are what goes wrong around the controller.
type faults struct {
	*storm
	number int
	r      *rand.Rand

	mu     sync.Mutex // held while something is down on purpose
	counts map[string]int
}

func (f *faults) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, what := range slices.Sorted(maps.Keys(f.counts)) {
		out = append(out, fmt.Sprintf("%s %d", what, f.counts[what]))
	}
	return strings.Join(out, ", ")
}

func (f *faults) run(t *testing.T, pass func(int)) {
	for _, kind := range f.r.Perm(f.number) {
		pass(f.size()/f.number + 1)
		f.pause(3 * time.Second)
		f.one(t, kind)
	}
}

func (f *faults) one(t *testing.T, kind int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch kind % 3 {
	case 0:
		f.restart(t, "kube-ovn-controller", time.Millisecond)
	case 1:
		f.restartAPI(t)
	default:
		f.failover(t)
	}
}

func (f *faults) pause(atMost time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(f.r.Int64N(int64(atMost))))
	defer cancel()
	<-ctx.Done()
}

// restart kills a process and starts it again some time later.
func (f *faults) restart(t *testing.T, process string, later time.Duration) {
	t.Helper()
	f.GiveOrder(t, "kill", process)
	f.pause(later)
	f.GiveOrder(t, "start", process)
	f.counts[process]++
}

// restartAPI restarts the API server. The namespace controller stands still until it is ready: when an API server restarts
// under it, the one of Kubernetes 1.35 ends namespaces and leaves the custom resources that are in them, for ever.
func (f *faults) restartAPI(t *testing.T) {
	t.Helper()
	f.GiveOrder(t, "pause", "kube-controller-manager")
	defer f.GiveOrder(t, "resume", "kube-controller-manager")
	f.restart(t, "kube-apiserver", time.Second)
	f.Until(t, "the API server", func() bool {
		return f.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(harness.Within(t, time.Second)).Error() == nil
	})
}

// failover kills the leader of the northbound database and brings it back when there is another.
func (f *faults) failover(t *testing.T) {
	t.Helper()
	leader := f.led(t)
	f.GiveOrder(t, "kill", leader)
	f.led(t)
	f.GiveOrder(t, "start", leader)
	f.RunTool(t, "ovsdb-client", "--timeout=30", "wait", "unix:"+f.ServerFile(leader, "sock"), "OVN_Northbound", "connected")
	f.counts["northbound leader"]++
}

// led waits until a server of the northbound database leads, and says which.
func (f *faults) led(t *testing.T) (leader string) {
	t.Helper()
	f.Until(t, "a leader of the northbound database", func() bool {
		for _, server := range f.Alive(t) {
			if strings.Contains(f.RunTool(t, "ovn-appctl", "-t", f.ServerFile(server, "ctl"), "cluster/status", "OVN_Northbound"), "\nRole: leader") {
				leader = server
			}
		}
		return leader != ""
	})
	return leader
}

// keep starts what has ended by itself because of a fault, as a kubelet would: Kube-OVN's controller ends when it can't renew its
// lease, which shows only some time after the fault.
func (f *faults) keep(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f.revive(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func (f *faults) revive(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	status, err := f.Status(ctx)
	if err != nil {
		return // asked again in a second
	}
	for _, p := range status.Processes {
		if p.State != "running" && f.Order(ctx, "start", p.Name) == nil {
			f.counts[p.Name+" ended by itself"]++
		}
	}
}
