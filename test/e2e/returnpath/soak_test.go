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

// maxSilence is the longest time that a stream may be silent.
var maxSilence = harness.TimeLimit(time.Second)

// TestReturn7Soak runs streams and new connections of every kind through every network while Kube-OVN's controller is
// killed repeatedly and Subnets are changed. Projects without return ports run the same traffic as a control: a silence
// that also occurs there is not caused by a return port. Some streams bypass OVN: a silence there is caused by the
// machine.
func TestReturn7Soak(t *testing.T) {
	harness.RunQuietly(t)
	item := returnItems.Item(t, 7)
	s := &projectPair{Cluster: harness.SharedSallyport(t)}
	k := &soakFixture{
		projectPair:  s,
		length:       show.ChooseSize(time.Hour, 25*time.Second),
		restartEvery: show.ChooseSize(5*time.Minute, 10*time.Second),
		touchEvery:   show.ChooseSize(time.Minute, 10*time.Second),
	}
	if d, err := time.ParseDuration(*soakDuration); err == nil {
		k.length = d
	}
	s.CreateOrganization(t, "soak")
	k.createReturnPathProject(t)
	for i, kind := range harness.NetworkTypes {
		k.createPlainProject(t, kind, fmt.Sprintf("10.%d.0.0/24", 47+i))
	}
	k.addOutsideTraffic(t)
	k.runStreams(t)
	k.judgeSilences(t, item)
}

type soakFixture struct {
	*projectPair
	length, restartEvery, touchEvery time.Duration
	projects                         []string
	streams                          []*soakStream
	arpLogs                          map[string]*arpLog
	evidence                         []string
}

// addStreams adds streams of a kind of traffic for each protocol.
func (k *soakFixture) addStreams(what traffic, protocols ...string) {
	for _, p := range protocols {
		k.streams = append(k.streams, &soakStream{traffic: what, protocol: p})
	}
}

const (
	groupReturnPath = "with legs"
	groupPlain      = "without"
	groupOutside    = "outside OVN"
)

// createReturnPathProject creates a project with two return ports: one pod has a floating IP on each network, another
// is behind load balancers.
func (k *soakFixture) createReturnPathProject(t *testing.T) {
	t.Helper()
	ns := k.CreateProject(t, "soak", "legs", "10.46.0.0/24", "cloud")
	k.projects = append(k.projects, ns)
	k.runPods(t, ns)
	for _, kind := range harness.NetworkTypes {
		address := k.CreateFIP(t, ns, "web-"+kind, "{podTarget: {podName: web}, externalNetworkType: "+kind+"}")
		k.addStreams(traffic{groupReturnPath, kind, "floating IP", k.NS(k.Network(t, kind).Client), address}, "tcp",
			"udp", "new")
	}
	for _, kind := range []string{"cloud", "public"} {
		k.addStreams(traffic{
			groupReturnPath, kind, "load balancer", k.NS(k.Network(t, kind).Client),
			k.createLoadBalancer(t, ns, kind),
		}, "tcp", "new")
	}
	k.addOwnTraffic(t, groupReturnPath, "cloud", ns)
}

// createPlainProject creates a project that uses only its default network. If no pod initiates connections, as on a
// secondary network, only replies announce the location of the router on the wire.
func (k *soakFixture) createPlainProject(t *testing.T, kind, cidr string) {
	t.Helper()
	ns := k.CreateProject(t, "soak", "plain-"+kind, cidr, kind)
	k.projects = append(k.projects, ns)
	k.runPods(t, ns)
	client := k.Network(t, kind).Client
	k.addStreams(traffic{
		groupPlain, kind, "floating IP", k.NS(client),
		k.CreateFIP(t, ns, "web", "{podTarget: {podName: web}, externalNetworkType: "+kind+"}"),
	}, "tcp", "udp", "new")
	k.addStreams(traffic{groupPlain, kind, "load balancer", k.NS(client), k.createLoadBalancer(t, ns, kind)}, "tcp",
		"new")
	if kind == "cloud" {
		k.addOwnTraffic(t, groupPlain, kind, ns)
	}
}

// runPods starts the two pods of a project.
func (k *soakFixture) runPods(t *testing.T, ns string) {
	t.Helper()
	k.RunPod(t, harness.Pod{Namespace: ns, Name: "web", Node: "node1"})
	k.RunPod(t, harness.Pod{Namespace: ns, Name: "backend", Node: "node3"})
}

// addOwnTraffic adds traffic that pods initiate, to the outside and to each other.
func (k *soakFixture) addOwnTraffic(t *testing.T, group, kind, ns string) {
	t.Helper()
	k.addStreams(traffic{
		group, kind, "own traffic of a pod with floating IPs", k.NS("web." + ns),
		harness.InternetAddress,
	}, "tcp", "udp", "new")
	k.addStreams(traffic{group, kind, "own traffic of a pod without", k.NS("backend." + ns), harness.InternetAddress},
		"tcp", "new")
	k.addStreams(traffic{
		group, kind, "east-west", k.NS("web." + ns),
		k.ReadField(t, "Pod", ns, "backend", "status", "podIP"),
	}, "tcp", "udp", "new")
}

// addOutsideTraffic adds the control traffic, which passes only the lab's routers.
func (k *soakFixture) addOutsideTraffic(t *testing.T) {
	t.Helper()
	for _, kind := range harness.NetworkTypes {
		k.addStreams(traffic{
			groupOutside, kind, "client to the internet", k.NS(k.Network(t, kind).Client),
			harness.InternetAddress,
		}, "tcp", "udp", "new")
	}
}

// createLoadBalancer creates a Kube-OVN load balancer for port 80 of the pod backend, and returns its address.
func (k *soakFixture) createLoadBalancer(t *testing.T, ns, kind string) string {
	t.Helper()
	name := ns + "-lb-" + kind
	k.Apply(t, fmt.Sprintf("{apiVersion: kubeovn.io/v1, kind: OvnEip, metadata: {name: %s}, spec: {externalSubnet: ext-%s, type: nat}}", name, kind))
	k.WaitForObject(t, "OvnEip", "", name, manifest.Field("true", "status", "ready"))
	createDNATRule(t, k.Cluster, dnatRule{
		name: name, ovnEip: name, vpc: ns, target: k.ReadField(t, "Pod", ns, "backend", "status", "podIP"), port: 80,
	})
	return k.ReadField(t, "OvnEip", "", name, "status", "v4Ip")
}

// runStreams runs all streams for the configured time.
func (k *soakFixture) runStreams(t *testing.T) {
	t.Helper()
	k.SyncFlows(t)
	for _, s := range k.streams { // the first packets may wait for ARP resolution
		_, _ = k.SendRequest(s.from.Name, "tcp://"+s.address+":80")
	}
	k.arpLogs = map[string]*arpLog{}
	for _, kind := range harness.NetworkTypes {
		k.arpLogs[kind] = captureARP(t, k.Cluster, "router-ext-"+kind)
	}
	ctx, cancel := context.WithTimeout(context.Background(), k.length)
	defer cancel()
	var all sync.WaitGroup
	for _, s := range k.streams {
		all.Go(func() { s.runUntilDone(ctx) })
	}
	k.injectFaults(ctx, t)
	all.Wait()
}

// injectFaults kills Kube-OVN's controller, changes Subnets and examines silences until the context ends.
func (k *soakFixture) injectFaults(ctx context.Context, t *testing.T) {
	t.Helper()
	restart, touch, look := time.NewTicker(k.restartEvery), time.NewTicker(k.touchEvery), time.NewTicker(streamInterval)
	defer restart.Stop()
	defer touch.Stop()
	defer look.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-restart.C:
			if left, _ := ctx.Deadline(); time.Until(left) < 10*time.Second {
				continue // it needs time to recover before the end
			}
			k.addEvidence("Kube-OVN's controller is killed and started")
			k.ControlLab(t, "kill", "kube-ovn-controller")
			k.ControlLab(t, "start", "kube-ovn-controller")
		case <-touch.C:
			for _, ns := range k.projects {
				text := "{apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {name: %s-default, annotations: {soak: '%d'}}}"
				if err := k.Objects.Apply(harness.Within(t, harness.Patience), fmt.Sprintf(text, ns, n)); err != nil {
					t.Error(err)
				}
			}
		case now := <-look.C:
			k.findSilentStreams(t, now)
		}
	}
}

func (k *soakFixture) addEvidence(format string, args ...any) {
	k.evidence = append(k.evidence, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// judgeSilences reports the longest silences. A silence counts if projects without return ports, and streams that
// bypass OVN, had no similar one.
func (k *soakFixture) judgeSilences(t *testing.T, item *show.Item) {
	t.Helper()
	worst := map[string]time.Duration{}
	for _, group := range []string{groupReturnPath, groupPlain, groupOutside} {
		var of []*soakStream
		answers, broken := 0, 0
		for _, s := range k.streams {
			if s.group == group {
				of = append(of, s)
				answers, broken = answers+s.answers, broken+len(s.failures)
			}
		}
		first := slices.MaxFunc(of, func(a, b *soakStream) int {
			return cmp.Compare(a.longestSilence, b.longestSilence)
		})
		worst[group] = first.longestSilence
		long := len(slices.DeleteFunc(slices.Clone(of), func(s *soakStream) bool {
			return s.longestSilence <= maxSilence
		}))
		item.AddFigure("%s: %d streams for %s, %d answers, %d connections failed; %d were silent for more than %s; longest silence %s (%s)",
			group, len(of), k.length, answers, broken, long, maxSilence, first.longestSilence.Round(time.Millisecond),
			first)
		for _, s := range of {
			if s.longestSilence > maxSilence || len(s.failures) > 0 || s.answers == 0 {
				t.Logf("%s: longest silence %s from %s, %d answers, failed: %q", s, s.longestSilence,
					s.silentSince.Format("15:04:05.000"), s.answers, s.failures[:min(len(s.failures), 10)])
			}
			if s.answers == 0 {
				t.Errorf("%s: nobody ever answered", s)
			}
		}
	}
	if limit := max(maxSilence, 2*worst[groupPlain], 2*worst[groupOutside]); worst[groupReturnPath] > limit {
		t.Errorf("with legs a stream was silent for %s, without for %s, outside OVN for %s", worst[groupReturnPath],
			worst[groupPlain], worst[groupOutside])
	}
	for _, line := range k.evidence {
		t.Log(line)
	}
}
