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

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

func TestCore5FaultsUnderTheStormEndInTheSame(t *testing.T) {
	item := coreItems.Item(t, 5)
	c := harness.StartLab(t, "chaos", churnTopology(3))
	c.InstallSallyport(t)
	ctl := c.NewController(t, t.TempDir())
	ctl.Start(t)
	t.Cleanup(func() { ctl.Stop(syscall.SIGTERM) })
	s := newChurnRun(t, c, ctl, show.ChooseSize(12, 6), show.ChooseSize(60, 12))
	f := &faultInjector{
		churnRun:   s,
		faultCount: show.ChooseSize(30, 3),
		rng:        rand.New(rand.NewPCG(s.seed, 1)),
		counts:     map[string]int{},
	}

	calm, took := s.runScripts(t, nil)
	s.deleteProjects(t)
	ctx, cancel := context.WithCancel(t.Context())
	go f.superviseProcesses(ctx)
	disturbed, tookDisturbed := s.runScripts(t, f.injectFaults)
	cancel()
	same := s.expectSameState(t, "the run with faults", calm, disturbed)
	select {
	case <-ctl.Exited:
		t.Error("the controller has ended")
	default:
	}
	if t.Failed() {
		t.Logf("the controller's log ends with\n%s", ctl.LogTail(30))
		f.describeUnsettled(t)
		t.FailNow()
	}
	item.AddFigure("seed %d: %d changes in %d projects; undisturbed %.1f s to settle, with %d faults (%s) %.1f s; the controller ran all the time",
		s.seed, s.countSteps(), len(s.tenants), took.Seconds(), f.faultCount, f, tookDisturbed.Seconds())
	item.AddFigure("%s", same)
	checkDeletionDuringOutage(t, c, item)
	checkForgottenRouter(t, c, ctl, item)
	ctl.Stop(syscall.SIGTERM)
	checkLeaderFailover(t, c, item)
}

// describeUnsettled logs what the controller does while nothing changes, and what Kube-OVN logged about each project that
// is not Programmed.
func (s *churnRun) describeUnsettled(t *testing.T) {
	t.Helper()
	before := s.controller.ReadMetrics(t)
	<-time.After(35 * time.Second) // waiting shards run every 30 s
	after := s.controller.ReadMetrics(t)
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if d := after[name] - before[name]; d != 0 && strings.HasPrefix(name, "sallyport_shard") {
			t.Logf("in the next 35 s: %s %+.0f", name, d)
		}
	}
	for _, n := range s.tenants {
		name := n.projectName()
		o, err := s.Objects.Get(harness.Within(t, harness.Patience), harness.ObjectRef("Project", churnOrganization, name))
		if err != nil || manifest.True("Programmed")(o) {
			continue
		}
		vpc := churnOrganization + "-" + name
		t.Logf("about %s, Kube-OVN logged\n%s\n%s", vpc, s.GrepProcessLog("kube-ovn-controller", vpc, 120),
			s.RunNbctl(t, "--if-exists", "list", "Logical_Router", vpc))
		if v, err := s.Objects.Get(harness.Within(t, harness.Patience), harness.ObjectRef("Vpc", "", vpc)); err == nil {
			t.Logf("%v", v.Object)
		}
	}
}

// faultInjector injects faults around the controller.
type faultInjector struct {
	*churnRun
	faultCount int
	rng        *rand.Rand

	mu     sync.Mutex // held while a process is down on purpose
	counts map[string]int
}

func (f *faultInjector) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, what := range slices.Sorted(maps.Keys(f.counts)) {
		out = append(out, fmt.Sprintf("%s %d", what, f.counts[what]))
	}
	return strings.Join(out, ", ")
}

func (f *faultInjector) injectFaults(t *testing.T, pass func(int)) {
	for _, kind := range f.rng.Perm(f.faultCount) {
		pass(f.countSteps()/f.faultCount + 1)
		f.sleepAtMost(3 * time.Second)
		f.injectFault(t, kind)
	}
}

func (f *faultInjector) injectFault(t *testing.T, kind int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch kind % 3 {
	case 0:
		f.restartProcess(t, "kube-ovn-controller", time.Millisecond)
	case 1:
		f.restartAPIServer(t)
	default:
		f.failOverNBLeader(t)
	}
}

func (f *faultInjector) sleepAtMost(atMost time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(f.rng.Int64N(int64(atMost))))
	defer cancel()
	<-ctx.Done()
}

// restartProcess kills a process and starts it again after a delay.
func (f *faultInjector) restartProcess(t *testing.T, process string, later time.Duration) {
	t.Helper()
	f.ControlLab(t, "kill", process)
	f.sleepAtMost(later)
	f.ControlLab(t, "start", process)
	f.counts[process]++
}

// restartAPIServer restarts the API server. The namespace controller is paused until it is ready: if an API server
// restarts under it, the namespace controller of Kubernetes 1.35 finishes the deletion of namespaces and leaves the
// custom resources in them forever.
func (f *faultInjector) restartAPIServer(t *testing.T) {
	t.Helper()
	f.ControlLab(t, "pause", "kube-controller-manager")
	defer f.ControlLab(t, "resume", "kube-controller-manager")
	f.restartProcess(t, "kube-apiserver", time.Second)
	f.PollUntil(t, "the API server", func() bool {
		return f.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(harness.Within(t,
			time.Second)).Error() == nil
	})
}

// failOverNBLeader kills the leader of the northbound database and restarts it when there is another leader.
func (f *faultInjector) failOverNBLeader(t *testing.T) {
	t.Helper()
	leader := f.waitForNBLeader(t)
	f.ControlLab(t, "kill", leader)
	f.waitForNBLeader(t)
	f.ControlLab(t, "start", leader)
	f.RunTool(t, "ovsdb-client", harness.ToolTimeout, "wait", "unix:"+f.DatabaseFile(leader, "sock"), "OVN_Northbound",
		"connected")
	f.counts["northbound leader"]++
}

// waitForNBLeader waits until a server of the northbound database leads, and returns its name.
func (f *faultInjector) waitForNBLeader(t *testing.T) (leader string) {
	t.Helper()
	f.PollUntil(t, "a leader of the northbound database", func() bool {
		for _, server := range f.RunningNBServers(t) {
			if strings.Contains(f.RunTool(t, "ovn-appctl", "-t", f.DatabaseFile(server, "ctl"), "cluster/status",
				"OVN_Northbound"), "\nRole: leader") {
				leader = server
			}
		}
		return leader != ""
	})
	return leader
}

// superviseProcesses restarts processes that ended because of a fault, as a kubelet would: Kube-OVN's controller exits
// if it cannot renew its lease, some time after the fault.
func (f *faultInjector) superviseProcesses(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f.restartStopped(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func (f *faultInjector) restartStopped(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	status, err := f.Status(ctx)
	if err != nil {
		return // retried in a second
	}
	for _, p := range status.Processes {
		if p.State != "running" && f.Order(ctx, "start", p.Name) == nil {
			f.counts[p.Name+" ended by itself"]++
		}
	}
}
