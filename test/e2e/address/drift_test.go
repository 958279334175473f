package address

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// repairLimit is within what time everything of ours is back.
const repairLimit = 2 * time.Second

// driftCase is something that somebody does by hand to what is ours.
type driftCase struct {
	what string
	// watchedWords are words of the lines of a replica that have to change and to come back.
	watchedWords []string
	change       func() error
	// answeringFIPs are FIps that have to answer afterwards.
	answeringFIPs []string
	// chainLimit: Kube-OVN has to end and to begin again what depends on it, so the limit is another one.
	chainLimit time.Duration
}

// Everything that we own and somebody deletes or changes by hand is back within 2 s, and nothing of others is touched.
// In a lab of its own, where all of the database and all objects can be compared.
func TestCore3Drift(t *testing.T) {
	harness.RunAlone(t)
	item := coreItems.Item(t, 3)
	c := startOwnSallyport(t, "drift")
	p := newDriftedProject(t, c)
	foreign := p.createForeign(t)
	t.Run("one by one", func(t *testing.T) { p.checkEachDrift(t, item.AddFigure) })
	t.Run("one port instead of another", p.checkReplacedPort)
	t.Run("all at once", func(t *testing.T) { p.checkAllAtOnce(t, item.AddFigure) })
	t.Run("others", func(t *testing.T) {
		if now := p.collectForeign(t); now.diff(foreign, 20) != "" || len(now) < 28 {
			t.Errorf("of %d lines of others some are not what they were:\n%s", len(foreign), now.diff(foreign, 20))
		}
		item.AddFigure("%d rows, objects, elements and fields of others: untouched", len(foreign))
	})
	t.Run("Vpc and Subnet", func(t *testing.T) { checkRebuild(t, c, item.AddFigure) })
}

// driftedProject is a project to which things are done by hand.
type driftedProject struct {
	*harness.Cluster
	*stateMirror
	api          client.Client
	fipAddresses map[string]string // of FIps
	slowRepairs  []string          // what was undone too late the first time
}

const driftVPC = "drift-web" // the patient's namespace, VPC and router

// newDriftedProject is a project with floating IPs on its default, a secondary and a third network.
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
		o, err := c.Objects.Get(harness.Within(t, time.Minute), harness.ObjectRef("FIp", driftVPC, name))
		if err != nil {
			t.Fatal(err)
		}
		p.fipAddresses[name] = harness.StringField(o, "status", "externalIP")
	}
	waitQuiet(t, c)
	p.stateMirror = newStateMirror(t, c)
	return p
}

// checkEachDrift does everything that somebody could do by hand, and measures how long it takes until it is undone.
func (p *driftedProject) checkEachDrift(t *testing.T, figure func(string, ...any)) {
	var longest, chain time.Duration
	var times []string
	drifts := slices.Concat(p.rowDrifts(t), p.returnPortDrifts(t), p.objectDrifts(t), p.vpcEntryDrifts(t),
		p.labelAndStatusDrifts(t))
	for _, d := range drifts {
		took := p.checkDrift(t, d)
		times = append(times, fmt.Sprintf("%6d ms  %s", took.Milliseconds(), d.what))
		if d.chainLimit == 0 {
			longest = max(longest, took)
		} else {
			chain = max(chain, took)
		}
	}
	t.Logf("times until it is back:\n%s", strings.Join(times, "\n"))
	figure("%d changes by hand: each is undone within %d ms; where Kube-OVN has to undo others first, within %d ms",
		len(drifts), longest.Milliseconds(), chain.Milliseconds())
	if len(p.slowRepairs) > 0 {
		figure("undone later than that the first time, and done again: %s", strings.Join(p.slowRepairs, ", "))
	}
}

// checkDrift does one thing and waits until it is undone, and until nothing else shows that it happened.
func (p *driftedProject) checkDrift(t *testing.T, d driftCase) (took time.Duration) {
	t.Helper()
	all := p.linesWith()
	took, err := p.applyDrift(d)
	// it may have been undone too fast to be seen
	for again := 0; errors.Is(err, errNoChangeSeen) && again < 2; again++ {
		took, err = p.applyDrift(d)
	}
	if err != nil {
		t.Errorf("%s: %v", d.what, err)
		return 15 * time.Second
	}
	if limit := max(d.chainLimit, repairLimit); took > limit {
		// Kube-OVN may have been busy with something else, once.
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

// applyDrift does one thing, and returns how long it takes until it is undone.
func (p *driftedProject) applyDrift(d driftCase) (time.Duration, error) {
	v := p.watchLines(d.watchedWords...)
	begin := time.Now()
	if err := d.change(); err != nil {
		return 0, err
	}
	back, err := p.waitLinesRestored(v, 15*time.Second)
	return back.Sub(begin), err
}

// expectFIPsAnswer asks floating IPs from outside. Where the router's port was made again, Kube-OVN has given it
// another MAC address.
func (p *driftedProject) expectFIPsAnswer(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		kind := map[string]string{"a": "cloud", "b": "public"}[name]
		p.ExpectAnswer(t, "client-ext-"+kind, "http://"+p.fipAddresses[name], name, "")
	}
}

// waitAllRestored waits until everything is as it was.
func (p *driftedProject) waitAllRestored(t *testing.T, what string, all stateDump) {
	t.Helper()
	deadline := time.After(time.Minute)
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

// checkAllAtOnce does everything without a pause, three times. Some of it can't be done, because it was undone a moment
// ago.
func (p *driftedProject) checkAllAtOnce(t *testing.T, figure func(string, ...any)) {
	all := p.linesWith()
	drifts := slices.Concat(p.rowDrifts(t), p.returnPortDrifts(t), p.objectDrifts(t), p.vpcEntryDrifts(t),
		p.labelAndStatusDrifts(t))
	var longest time.Duration
	done := 0
	for range 3 {
		for _, d := range drifts {
			if d.change() == nil {
				done++
			}
		}
		begin := time.Now()
		p.waitAllRestored(t, "everything at once", all)
		longest = max(longest, time.Since(begin))
	}
	if done < 2*len(drifts) {
		t.Errorf("only %d of 3 × %d things could be done", done, len(drifts))
	}
	p.expectFIPsAnswer(t, "a", "b")
	figure("%d of them without a pause: everything is as before %.1f s after the last", done, longest.Seconds())
}

// patchObject changes an object by hand.
func (p *driftedProject) patchObject(kind, namespace, name, text string) func() error {
	return p.withTimeout(func(ctx context.Context) error {
		return p.api.Patch(ctx, p.objectHandle(kind, namespace, name),
			client.RawPatch(types.MergePatchType, []byte(text)), client.FieldOwner("somebody"))
	})
}

// patchStatus changes the status of an object by hand.
func (p *driftedProject) patchStatus(kind, namespace, name, text string) func() error {
	return p.withTimeout(func(ctx context.Context) error {
		return p.api.Status().Patch(ctx, p.objectHandle(kind, namespace, name),
			client.RawPatch(types.MergePatchType, []byte(text)), client.FieldOwner("somebody"))
	})
}

// deleteObject deletes an object by hand.
func (p *driftedProject) deleteObject(kind, namespace, name string) func() error {
	return p.withTimeout(func(ctx context.Context) error {
		return p.api.Delete(ctx, p.objectHandle(kind, namespace, name))
	})
}

func (p *driftedProject) withTimeout(what func(context.Context) error) func() error {
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return what(ctx)
	}
}
