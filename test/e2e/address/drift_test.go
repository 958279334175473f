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

// mendLimit is within what time everything of ours is back.
const mendLimit = 2 * time.Second

// drift is something that somebody does by hand to what is ours.
type drift struct {
	what string
	// about are words of the lines of a replica that have to change and to come back.
	about []string
	hand  func() error
	// answers are FIps that have to answer afterwards.
	answers []string
	// chain: Kube-OVN has to end and to begin again what depends on it, so the limit is another one.
	chain time.Duration
}

// Everything that we own and somebody deletes or changes by hand is back within 2 s, and nothing of others is touched. In a lab
// of its own, where all of the database and all objects can be compared.
func TestCore3Drift(t *testing.T) {
	harness.Alone(t)
	item := core.Item(t, 3)
	c := alone(t, "drift")
	p := newDriftedProject(t, c)
	foreign := p.foreign(t)
	t.Run("one by one", func(t *testing.T) { p.oneByOne(t, item.Figure) })
	t.Run("one port instead of another", p.anotherPort)
	t.Run("all at once", func(t *testing.T) { p.allAtOnce(t, item.Figure) })
	t.Run("others", func(t *testing.T) {
		if now := p.others(t); now.differs(foreign, 20) != "" || len(now) < 28 {
			t.Errorf("of %d lines of others some are not what they were:\n%s", len(foreign), now.differs(foreign, 20))
		}
		item.Figure("%d rows, objects, elements and fields of others: untouched", len(foreign))
	})
	t.Run("Vpc and Subnet", func(t *testing.T) { rebuilds(t, c, item.Figure) })
}

// driftedProject is a project to which things are done by hand.
type driftedProject struct {
	*harness.Cluster
	*replica
	api       client.Client
	addresses map[string]string // of FIps
	slow      []string          // what was undone too late the first time
}

const sick = "drift-web" // the patient's namespace, VPC and router

// newDriftedProject is a project with floating IPs on its default, a secondary and a third network.
func newDriftedProject(t *testing.T, c *harness.Cluster) *driftedProject {
	t.Helper()
	c.CreateOrganization(t, "drift")
	c.CreateProject(t, "drift", "web", "10.66.0.0/24", "cloud")
	c.RunPod(t, harness.Pod{Namespace: sick, Name: "a", Address: "10.66.0.11"})
	c.RunPod(t, harness.Pod{Namespace: sick, Name: "b", Address: "10.66.0.12"})
	p := &driftedProject{Cluster: c, api: c.DirectClient(t, nil), addresses: map[string]string{}}
	for _, o := range []struct{ kind, name, spec string }{
		{"EIp", "cloud", "externalNetworkType: cloud"},
		{"EIp", "public", "externalNetworkType: public"},
		{"FIp", "a", "eip: cloud, podTarget: {podName: a}"},
		{"FIp", "b", "eip: public, podTarget: {podName: b}"},
		{"FIp", "c", "externalNetworkType: third, ipAddress: 10.66.0.13"},
	} {
		c.Apply(t, fmt.Sprintf("{apiVersion: kube-dc.com/v1, kind: %s, metadata: {name: %s, namespace: %s}, spec: {%s}}", o.kind, o.name, sick, o.spec))
	}
	for _, name := range []string{"a", "b", "c"} {
		c.WaitProgrammed(t, "FIp", sick, name)
		o, err := c.Objects.Get(harness.Within(t, time.Minute), harness.Ref("FIp", sick, name))
		if err != nil {
			t.Fatal(err)
		}
		p.addresses[name] = harness.Text(o, "status", "externalIP")
	}
	quiet(t, c)
	p.replica = newReplica(t, c)
	return p
}

// oneByOne does everything that somebody could do by hand, and measures how long it takes until it is undone.
func (p *driftedProject) oneByOne(t *testing.T, figure func(string, ...any)) {
	var longest, chain time.Duration
	var times []string
	drifts := slices.Concat(p.rows(t), p.legDrifts(t), p.objectDrifts(t), p.elementDrifts(t), p.markDrifts(t))
	for _, d := range drifts {
		took := p.suffers(t, d)
		times = append(times, fmt.Sprintf("%6d ms  %s", took.Milliseconds(), d.what))
		if d.chain == 0 {
			longest = max(longest, took)
		} else {
			chain = max(chain, took)
		}
	}
	t.Logf("times until it is back:\n%s", strings.Join(times, "\n"))
	figure("%d changes by hand: each is undone within %d ms; where Kube-OVN has to undo others first, within %d ms",
		len(drifts), longest.Milliseconds(), chain.Milliseconds())
	if len(p.slow) > 0 {
		figure("undone later than that the first time, and done again: %s", strings.Join(p.slow, ", "))
	}
}

// suffers does one thing and waits until it is undone, and until nothing else shows that it happened.
func (p *driftedProject) suffers(t *testing.T, d drift) (took time.Duration) {
	t.Helper()
	all := p.now()
	took, err := p.once(d)
	for again := 0; errors.Is(err, errUnseen) && again < 2; again++ { // it may have been undone too fast to be seen
		took, err = p.once(d)
	}
	if err != nil {
		t.Errorf("%s: %v", d.what, err)
		return 15 * time.Second
	}
	if limit := max(d.chain, mendLimit); took > limit {
		// Kube-OVN may have been busy with something else, once.
		p.recovers(t, d.what, all)
		p.slow = append(p.slow, fmt.Sprintf("%s (%d ms)", d.what, took.Milliseconds()))
		if took, err = p.once(d); err != nil || took > limit {
			t.Errorf("%s: undone after %v when done again, wanted within %v (%v)", d.what, took, limit, err)
		}
	}
	p.recovers(t, d.what, all)
	p.respond(t, d.answers...)
	return took
}

// once does one thing, and returns how long it takes until it is undone.
func (p *driftedProject) once(d drift) (time.Duration, error) {
	v := p.watch(d.about...)
	begin := time.Now()
	if err := d.hand(); err != nil {
		return 0, err
	}
	back, err := p.mended(v, 15*time.Second)
	return back.Sub(begin), err
}

// respond asks floating IPs from outside. Where the router's port was made again, Kube-OVN has given it another MAC address.
func (p *driftedProject) respond(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		kind := map[string]string{"a": "cloud", "b": "public"}[name]
		p.ExpectAnswer(t, "client-ext-"+kind, "http://"+p.addresses[name], name, "")
	}
}

// recovers waits until everything is as it was.
func (p *driftedProject) recovers(t *testing.T, what string, all dump) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for p.now().differs(all, 1) != "" {
		select {
		case <-tick.C:
		case <-deadline:
			t.Errorf("%s: later, other things are not what they were:\n%s", what, p.now().differs(all, 20))
			return
		}
	}
}

// allAtOnce does everything without a pause, three times. Some of it can't be done, because it was undone a moment ago.
func (p *driftedProject) allAtOnce(t *testing.T, figure func(string, ...any)) {
	all := p.now()
	drifts := slices.Concat(p.rows(t), p.legDrifts(t), p.objectDrifts(t), p.elementDrifts(t), p.markDrifts(t))
	var longest time.Duration
	done := 0
	for range 3 {
		for _, d := range drifts {
			if d.hand() == nil {
				done++
			}
		}
		begin := time.Now()
		p.recovers(t, "everything at once", all)
		longest = max(longest, time.Since(begin))
	}
	if done < 2*len(drifts) {
		t.Errorf("only %d of 3 × %d things could be done", done, len(drifts))
	}
	p.respond(t, "a", "b")
	figure("%d of them without a pause: everything is as before %.1f s after the last", done, longest.Seconds())
}

// patch changes an object by hand.
func (p *driftedProject) patch(kind, namespace, name, text string) func() error {
	return p.does(func(ctx context.Context) error {
		return p.api.Patch(ctx, p.handle(kind, namespace, name), client.RawPatch(types.MergePatchType, []byte(text)), client.FieldOwner("somebody"))
	})
}

// patchStatus changes the status of an object by hand.
func (p *driftedProject) patchStatus(kind, namespace, name, text string) func() error {
	return p.does(func(ctx context.Context) error {
		return p.api.Status().Patch(ctx, p.handle(kind, namespace, name), client.RawPatch(types.MergePatchType, []byte(text)), client.FieldOwner("somebody"))
	})
}

// deletes deletes an object by hand.
func (p *driftedProject) deletes(kind, namespace, name string) func() error {
	return p.does(func(ctx context.Context) error { return p.api.Delete(ctx, p.handle(kind, namespace, name)) })
}

func (p *driftedProject) does(what func(context.Context) error) func() error {
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return what(ctx)
	}
}
