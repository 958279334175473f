package returnpath

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// mostSilence is what a stream may be silent.
const mostSilence = time.Second

// TestReturn7Soak: streams and new connections by every network and of every kind, while Kube-OVN's controller is killed again
// and again and Subnets are touched. Beside the project with legs, projects without any run the same: what is silent there is not
// silent because of a leg. And some streams do not pass OVN at all: what is silent there is the machine.
func TestReturn7Soak(t *testing.T) {
	harness.Alone(t)
	item := returns.Item(t, 7)
	s := &projectPair{Cluster: harness.SharedSallyport(t)}
	k := &soak{projectPair: s, length: show.Size(time.Hour, 25*time.Second), restart: show.Size(5*time.Minute, 10*time.Second), touch: show.Size(time.Minute, 10*time.Second)}
	if d, err := time.ParseDuration(*soakFor); err == nil {
		k.length = d
	}
	s.CreateOrganization(t, "soak")
	k.withLegs(t)
	for i, kind := range harness.NetworkTypes {
		k.without(t, kind, fmt.Sprintf("10.%d.0.0/24", 47+i))
	}
	k.outside(t)
	k.run(t)
	k.judge(t, item)
}

// soak is what runs.
type soak struct {
	*projectPair
	length, restart, touch time.Duration
	projects               []string
	streams                []*soakStream
	wires                  map[string]*arpLog
	evidence               []string
}

// add runs a kind of traffic by each protocol.
func (k *soak) add(what traffic, protocols ...string) {
	for _, p := range protocols {
		k.streams = append(k.streams, &soakStream{traffic: what, protocol: p})
	}
}

const (
	groupLegs    = "with legs"
	groupWithout = "without"
	groupOutside = "outside OVN"
)

// withLegs is a project with two legs: one pod has a floating IP on each network; another is behind load balancers.
func (k *soak) withLegs(t *testing.T) {
	t.Helper()
	ns := k.CreateProject(t, "soak", "legs", "10.46.0.0/24", "cloud")
	k.projects = append(k.projects, ns)
	k.populate(t, ns)
	for _, kind := range harness.NetworkTypes {
		address := k.CreateFIP(t, ns, "web-"+kind, "{podTarget: {podName: web}, externalNetworkType: "+kind+"}")
		k.add(traffic{groupLegs, kind, "floating IP", k.NS(k.Network(t, kind).Client), address}, "tcp", "udp", "new")
	}
	for _, kind := range []string{"cloud", "public"} {
		k.add(traffic{groupLegs, kind, "load balancer", k.NS(k.Network(t, kind).Client), k.balancer(t, ns, kind)}, "tcp", "new")
	}
	k.own(t, groupLegs, "cloud", ns)
}

// without is a project that has one network only, its default. Where no pod sends anything by itself, as on a secondary network,
// nothing but replies tells the wire where the router is.
func (k *soak) without(t *testing.T, kind, cidr string) {
	t.Helper()
	ns := k.CreateProject(t, "soak", "plain-"+kind, cidr, kind)
	k.projects = append(k.projects, ns)
	k.populate(t, ns)
	client := k.Network(t, kind).Client
	k.add(traffic{groupWithout, kind, "floating IP", k.NS(client), k.CreateFIP(t, ns, "web", "{podTarget: {podName: web}, externalNetworkType: "+kind+"}")}, "tcp", "udp", "new")
	k.add(traffic{groupWithout, kind, "load balancer", k.NS(client), k.balancer(t, ns, kind)}, "tcp", "new")
	if kind == "cloud" {
		k.own(t, groupWithout, kind, ns)
	}
}

// populate starts the two pods of a project.
func (k *soak) populate(t *testing.T, ns string) {
	t.Helper()
	k.RunPod(t, harness.Pod{Namespace: ns, Name: "web", Node: "node1"})
	k.RunPod(t, harness.Pod{Namespace: ns, Name: "backend", Node: "node3"})
}

// own is what pods send by themselves: to the outside and to each other.
func (k *soak) own(t *testing.T, group, kind, ns string) {
	t.Helper()
	k.add(traffic{group, kind, "own traffic of a pod with floating IPs", k.NS("web." + ns), harness.InternetAddress}, "tcp", "udp", "new")
	k.add(traffic{group, kind, "own traffic of a pod without", k.NS("backend." + ns), harness.InternetAddress}, "tcp", "new")
	k.add(traffic{group, kind, "east-west", k.NS("web." + ns), k.ReadField(t, "Pod", ns, "backend", "status", "podIP")}, "tcp", "udp", "new")
}

// outside is the control: by the lab's routers only.
func (k *soak) outside(t *testing.T) {
	t.Helper()
	for _, kind := range harness.NetworkTypes {
		k.add(traffic{groupOutside, kind, "client to the internet", k.NS(k.Network(t, kind).Client), harness.InternetAddress}, "tcp", "udp", "new")
	}
}

// balancer makes a load balancer of Kube-OVN's for port 80 of the pod backend, and returns its address.
func (k *soak) balancer(t *testing.T, ns, kind string) string {
	t.Helper()
	name := ns + "-lb-" + kind
	k.Apply(t, fmt.Sprintf("{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: %s}, spec: {externalSubnet: ext-%s, type: nat}}", name, kind))
	k.Wait(t, "OvnEip", "", name, manifest.Field("true", "status", "ready"))
	balance(t, k.Cluster, dnat{name: name, ovnEip: name, vpc: ns, target: k.ReadField(t, "Pod", ns, "backend", "status", "podIP"), port: 80})
	return k.ReadField(t, "OvnEip", "", name, "status", "v4Ip")
}

// run lets everything run for the length.
func (k *soak) run(t *testing.T) {
	t.Helper()
	k.SyncFlows(t)
	for _, s := range k.streams { // the first packets may wait for neighbours
		_, _ = k.Ask(s.from.Name, "tcp://"+s.address+":80")
	}
	k.wires = map[string]*arpLog{}
	for _, kind := range harness.NetworkTypes {
		k.wires[kind] = overhear(t, k.Cluster, "router-ext-"+kind)
	}
	ctx, cancel := context.WithTimeout(context.Background(), k.length)
	defer cancel()
	var all sync.WaitGroup
	for _, s := range k.streams {
		all.Go(func() { s.run(ctx) })
	}
	k.trouble(ctx, t)
	all.Wait()
}

// trouble kills Kube-OVN's controller, touches Subnets, and looks into silences, until the context ends.
func (k *soak) trouble(ctx context.Context, t *testing.T) {
	t.Helper()
	restart, touch, look := time.NewTicker(k.restart), time.NewTicker(k.touch), time.NewTicker(beat)
	defer restart.Stop()
	defer touch.Stop()
	defer look.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-restart.C:
			if left, _ := ctx.Deadline(); time.Until(left) < 10*time.Second {
				continue // it has to find back, too
			}
			k.note("Kube-OVN's controller is killed and started")
			k.GiveOrder(t, "kill", "kube-ovn-controller")
			k.GiveOrder(t, "start", "kube-ovn-controller")
		case <-touch.C:
			for _, ns := range k.projects {
				text := "{apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {name: %s-default, annotations: {soak: '%d'}}}"
				if err := k.Objects.Apply(harness.Within(t, time.Minute), fmt.Sprintf(text, ns, n)); err != nil {
					t.Error(err)
				}
			}
		case now := <-look.C:
			k.look(t, now)
		}
	}
}

// note adds a line to the evidence.
func (k *soak) note(format string, args ...any) {
	k.evidence = append(k.evidence, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// judge says what was silent for how long. A silence counts when projects without legs, and streams that OVN does not see,
// had none like it.
func (k *soak) judge(t *testing.T, item *show.Item) {
	t.Helper()
	worst := map[string]time.Duration{}
	for _, group := range []string{groupLegs, groupWithout, groupOutside} {
		var of []*soakStream
		answers, broken := 0, 0
		for _, s := range k.streams {
			if s.group == group {
				of = append(of, s)
				answers, broken = answers+s.answers, broken+len(s.broken)
			}
		}
		first := slices.MaxFunc(of, func(a, b *soakStream) int { return cmp.Compare(a.longest, b.longest) })
		worst[group] = first.longest
		long := len(slices.DeleteFunc(slices.Clone(of), func(s *soakStream) bool { return s.longest <= mostSilence }))
		item.Figure("%s: %d streams for %s, %d answers, %d connections failed; %d were silent for more than %s; longest silence %s (%s)",
			group, len(of), k.length, answers, broken, long, mostSilence, first.longest.Round(time.Millisecond), first)
		for _, s := range of {
			if s.longest > mostSilence || len(s.broken) > 0 || s.answers == 0 {
				t.Logf("%s: longest silence %s from %s, %d answers, failed: %q", s, s.longest, s.at.Format("15:04:05.000"), s.answers, s.broken[:min(len(s.broken), 10)])
			}
			if s.answers == 0 {
				t.Errorf("%s: nobody ever answered", s)
			}
		}
	}
	if limit := max(mostSilence, 2*worst[groupWithout], 2*worst[groupOutside]); worst[groupLegs] > limit {
		t.Errorf("with legs a stream was silent for %s, without for %s, outside OVN for %s", worst[groupLegs], worst[groupWithout], worst[groupOutside])
	}
	for _, line := range k.evidence {
		t.Log(line)
	}
}
