package address

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// repairLimit is the maximum time until everything of ours is restored, and chainLimit that where Kube-OVN has to delete and
// recreate dependent objects. CI's machine may be several times slower for minutes.
var (
	repairLimit = show.ChooseSize(2*time.Second, 15*time.Second)
	chainLimit  = show.ChooseSize(10*time.Second, time.Minute)
)

// driftCase is a manual change of something that belongs to us.
type driftCase struct {
	what string
	// watchedWords select the lines of the mirror that have to change and to be restored.
	watchedWords []string
	change       func() error
	// answeringFIPs must answer afterwards.
	answeringFIPs []string
	// isChain says that Kube-OVN has to delete and recreate dependent objects.
	isChain bool
}

// limit is the maximum time until the change is undone.
func (d driftCase) limit() time.Duration {
	if d.isChain {
		return chainLimit
	}
	return repairLimit
}

// TestCore3Drift shows that everything of ours that is deleted or changed by hand is restored within 2 s, and that
// nothing of others is changed. It uses a separate lab, in which the whole database and all objects can be compared.
func TestCore3Drift(t *testing.T) {
	harness.RunQuietly(t)
	item := coreItems.Item(t, 3)
	c := startOwnSallyport(t, "drift")
	p := newDriftedProject(t, c)
	foreign := p.createForeign(t)
	t.Run("one by one", func(t *testing.T) { p.checkEachDrift(t, item.AddFigure) })
	t.Run("one port instead of another", p.checkReplacedPort)
	t.Run("Kube-OVN forgets a network", func(t *testing.T) { p.checkForgottenNetwork(t, item.AddFigure) })
	t.Run("all at once", func(t *testing.T) { p.checkAllAtOnce(t, item.AddFigure) })
	t.Run("others", func(t *testing.T) {
		if now := p.collectForeign(t); now.diff(foreign, 20) != "" || len(now) < 28 {
			t.Errorf("of %d lines of others some are not what they were:\n%s", len(foreign), now.diff(foreign, 20))
		}
		item.AddFigure("%d rows, objects, elements and fields of others: untouched", len(foreign))
	})
	t.Run("Vpc and Subnet", func(t *testing.T) { checkRebuild(t, c, item.AddFigure) })
}

// driftedProject is a project whose rows and objects are changed by hand.
type driftedProject struct {
	*harness.Cluster
	*stateMirror
	api          client.Client
	fipAddresses map[string]string // by FIp
	slowRepairs  []string          // changes whose first repair took too long
}

const driftVPC = "drift-web" // the project's namespace, VPC and router

// newDriftedProject creates a project with floating IPs on its default, a secondary and a third network.
func newDriftedProject(t *testing.T, c *harness.Cluster) *driftedProject {
	t.Helper()
	c.CreateOrganization(t, "drift")
	c.CreateProject(t, "drift", "web", "10.66.0.0/24", "cloud")
	c.RunPod(t, harness.Pod{Namespace: driftVPC, Name: "a", Address: "10.66.0.11"})
	c.RunPod(t, harness.Pod{Namespace: driftVPC, Name: "b", Address: "10.66.0.12"})
	p := &driftedProject{Cluster: c, api: c.NewDirectClient(t, nil), fipAddresses: map[string]string{}}
	for _, o := range []struct{ kind, name, spec string }{
		{"EIp", "cloud", "externalNetworkType: cloud"},
		{"EIp", "public", "externalNetworkType: public"},
		{"FIp", "a", "eip: cloud, podTarget: {podName: a}"},
		{"FIp", "b", "eip: public, podTarget: {podName: b}"},
		{"FIp", "c", "externalNetworkType: third, ipAddress: 10.66.0.13"},
	} {
		c.Apply(t, fmt.Sprintf("{apiVersion: kube-dc.com/v1, kind: %s, metadata: {name: %s, namespace: %s}, spec: {%s}}", o.kind, o.name, driftVPC, o.spec))
	}
	for _, name := range []string{"a", "b", "c"} {
		c.WaitProgrammed(t, "FIp", driftVPC, name)
		o, err := c.Objects.Get(harness.Within(t, harness.Patience), harness.ObjectRef("FIp", driftVPC, name))
		if err != nil {
			t.Fatal(err)
		}
		p.fipAddresses[name] = harness.StringField(o, "status", "externalIP")
	}
	waitQuiet(t, c)
	p.stateMirror = newStateMirror(t, c)
	return p
}

// checkEachDrift makes every manual change, one at a time, and measures how long each repair takes.
func (p *driftedProject) checkEachDrift(t *testing.T, figure func(string, ...any)) {
	var longest, chain time.Duration
	var times []string
	drifts := slices.Concat(p.rowDrifts(t), p.returnPortDrifts(t), p.objectDrifts(t), p.vpcEntryDrifts(t),
		p.labelAndStatusDrifts(t))
	// One state for all changes: in between, Kube-OVN may be overwriting something for a moment because of the last one.
	all := p.linesWith()
	for _, d := range drifts {
		took := p.checkDrift(t, d, all)
		if t.Failed() {
			return // the state of all others would differ, too
		}
		times = append(times, fmt.Sprintf("%6d ms  %s", took.Milliseconds(), d.what))
		if d.isChain {
			chain = max(chain, took)
		} else {
			longest = max(longest, took)
		}
	}
	t.Logf("times until it is back:\n%s", strings.Join(times, "\n"))
	figure("%d changes by hand: each is undone within %d ms; where Kube-OVN has to undo others first, within %d ms",
		len(drifts), longest.Milliseconds(), chain.Milliseconds())
	if len(p.slowRepairs) > 0 {
		figure("undone later than that the first time, and done again: %s", strings.Join(p.slowRepairs, ", "))
	}
}

// checkDrift makes one change and waits until it is undone and everything is as it was before all changes.
func (p *driftedProject) checkDrift(t *testing.T, d driftCase, all stateDump) (took time.Duration) {
	t.Helper()
	took, err := p.applyDrift(d)
	// The repair may have been too fast to be seen: a busy server reports both as one update, in which nothing differs.
	for again := 0; errors.Is(err, errNoChangeSeen) && again < 9; again++ {
		took, err = p.applyDrift(d)
	}
	if err != nil {
		t.Errorf("%s: %v\nKube-OVN logged\n%s", d.what, err, p.GrepProcessLog("kube-ovn-controller", driftVPC, 150))
		return d.limit()
	}
	if limit := d.limit(); took > limit {
		// Kube-OVN may have been busy once.
		p.waitAllRestored(t, d.what, all)
		p.slowRepairs = append(p.slowRepairs, fmt.Sprintf("%s (%d ms)", d.what, took.Milliseconds()))
		if took, err = p.applyDrift(d); err != nil || took > limit {
			t.Errorf("%s: undone after %v when done again, wanted within %v (%v)", d.what, took, limit, err)
		}
	}
	p.waitAllRestored(t, d.what, all)
	p.expectFIPsAnswer(t, d.answeringFIPs...)
	return took
}

// applyDrift makes one change and returns how long the repair takes.
func (p *driftedProject) applyDrift(d driftCase) (time.Duration, error) {
	v := p.watchLines(d.watchedWords...)
	begin := time.Now()
	if err := d.change(); err != nil {
		return 0, err
	}
	// What we change ourselves is in the database by now. What follows from it in Kube-OVN takes longer.
	changeLimit := 2 * time.Second
	if d.isChain {
		changeLimit = d.limit()
	}
	back, err := p.waitLinesRestored(v, changeLimit, harness.Patience)
	return back.Sub(begin), err
}

// expectFIPsAnswer sends requests to floating IPs from outside. If the router's port was recreated, Kube-OVN has given
// it another MAC address.
func (p *driftedProject) expectFIPsAnswer(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		kind := map[string]string{"a": "cloud", "b": "public"}[name]
		p.ExpectAnswer(t, "client-ext-"+kind, "http://"+p.fipAddresses[name], name, "")
	}
}

// waitAllRestored waits until everything is as before.
func (p *driftedProject) waitAllRestored(t *testing.T, what string, all stateDump) {
	t.Helper()
	deadline := time.After(harness.Patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for p.linesWith().diff(all, 1) != "" {
		select {
		case <-tick.C:
		case <-deadline:
			t.Errorf("%s: later, other things are not what they were:\n%s", what, p.linesWith().diff(all, 20))
			return
		}
	}
}

// checkForgottenNetwork makes what is left when Kube-OVN overwrites its record of connected networks while it connects one:
// the network is requested, recorded as not connected, has no port, and Kube-OVN does not look again.
func (p *driftedProject) checkForgottenNetwork(t *testing.T, figure func(string, ...any)) {
	all := p.linesWith()
	p.ControlLab(t, "pause", "kube-ovn-controller")
	resume := sync.OnceFunc(func() { p.ControlLab(t, "resume", "kube-ovn-controller") })
	t.Cleanup(resume)
	for _, change := range []func() error{
		p.patchStatus("Vpc", "", driftVPC, `{"status":{"extraExternalSubnets":["ext-cloud","ext-third"]}}`),
		p.nbctl("lrp-del", driftVPC+"-ext-public", "--", "lsp-del", "ext-public-"+driftVPC),
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
	}
	resume()
	took := harness.Eventually(t, "the router's port is back", func() bool {
		return p.RunNbctl(t, "--bare", "--columns=name", "find", "Logical_Router_Port", "name="+driftVPC+"-ext-public") != ""
	})
	p.waitAllRestored(t, "a forgotten network", all)
	p.expectFIPsAnswer(t, "b")
	figure("a network that Kube-OVN has forgotten: its port is back after %.0f s", took.Seconds())
}

// checkAllAtOnce makes all changes without a pause, at full size three times. Some fail because their object is being restored.
func (p *driftedProject) checkAllAtOnce(t *testing.T, figure func(string, ...any)) {
	all := p.linesWith()
	drifts := slices.Concat(p.rowDrifts(t), p.returnPortDrifts(t), p.objectDrifts(t), p.vpcEntryDrifts(t),
		p.labelAndStatusDrifts(t))
	var longest time.Duration
	done, rounds := 0, show.ChooseSize(3, 1)
	for range rounds {
		for _, d := range drifts {
			if d.change() == nil {
				done++
			}
		}
		begin := time.Now()
		p.waitAllRestored(t, "everything at once", all)
		longest = max(longest, time.Since(begin))
	}
	if done < rounds*len(drifts)*2/3 {
		t.Errorf("only %d of %d × %d things could be done", done, rounds, len(drifts))
	}
	p.expectFIPsAnswer(t, "a", "b")
	figure("%d of them without a pause: everything is as before %.1f s after the last", done, longest.Seconds())
}

// patchObject returns a function that patches an object.
func (p *driftedProject) patchObject(kind, namespace, name, text string) func() error {
	return p.withTimeout(func(ctx context.Context) error {
		return p.api.Patch(ctx, p.objectHandle(kind, namespace, name),
			client.RawPatch(types.MergePatchType, []byte(text)), client.FieldOwner("somebody"))
	})
}

// patchStatus returns a function that patches the status of an object.
func (p *driftedProject) patchStatus(kind, namespace, name, text string) func() error {
	return p.withTimeout(func(ctx context.Context) error {
		return p.api.Status().Patch(ctx, p.objectHandle(kind, namespace, name),
			client.RawPatch(types.MergePatchType, []byte(text)), client.FieldOwner("somebody"))
	})
}

// deleteObject returns a function that deletes an object.
func (p *driftedProject) deleteObject(kind, namespace, name string) func() error {
	return p.withTimeout(func(ctx context.Context) error {
		return p.api.Delete(ctx, p.objectHandle(kind, namespace, name))
	})
}

func (p *driftedProject) withTimeout(what func(context.Context) error) func() error {
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
		defer cancel()
		return what(ctx)
	}
}
