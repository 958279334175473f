package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/manifest"
)

// TestReturn3Live: what changes about the way back keeps the connections that there are.
func TestReturn3Live(t *testing.T) {
	item := returns.Item(t, 3)
	s := &stage{cluster: sallyport(t)}
	s.organization(t, "live")
	s.cloud = s.project(t, "live", "cloud", "10.44.0.0/24", "cloud")
	for _, part := range []struct {
		name string
		run  func(*stage, *testing.T) string
	}{
		{"from Source to Connection and back", (*stage).switchesLive},
		{"one more network", (*stage).addsLive},
		{"hairpin", (*stage).hairpin},
	} {
		t.Run(part.name, func(t *testing.T) {
			if figure := part.run(s, t); !t.Failed() {
				item.Figure("%s: %s", part.name, figure)
			}
		})
	}
}

// returnsBy makes an ExternalNetwork of the public one, with a way back.
func (s *stage) returnsBy(t *testing.T, way string) {
	t.Helper()
	s.apply(t, fmt.Sprintf(`
apiVersion: kube-dc.com/v1alpha1
kind: ExternalNetwork
metadata: {name: live}
spec: {type: public, subnets: [ext-public], returnPath: %s}`, way))
	s.wait(t, "ExternalNetwork", "", "live", manifest.Field(way, "status", "returnPath"))
}

// switchesLive: two projects, one with a NetworkPolicy, whose connections the pod's node knows, and one without.
func (s *stage) switchesLive(t *testing.T) string {
	s.returnsBy(t, "Source")
	t.Cleanup(func() { s.remove(t, "ExternalNetwork", "", "live") })
	known := s.project(t, "live", "known", "10.45.0.0/24", "cloud")
	s.apply(t, fmt.Sprintf(`
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: known, namespace: %s}
spec: {podSelector: {}, policyTypes: [Ingress], ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0}}]}]}`, known))
	var streams []*stream
	addresses := map[string]string{}
	for _, ns := range []string{s.cloud, known} {
		s.run(t, pod{namespace: ns, name: "web", node: "node1"})
		addresses[ns] = s.fip(t, ns, "web", "{podTarget: {podName: web}, externalNetworkType: public}")
		s.everyWay(t, "web."+ns, theInternet, "internet", addresses[ns])
		streams = append(streams, s.stream(t, "internet", addresses[ns]), s.stream(t, "client-ext-public", addresses[ns]))
	}
	survive(t, "before", 5*time.Second, streams...)
	var longest time.Duration
	for _, way := range []string{"Connection", "Source", "Connection"} {
		forgive(streams...)
		s.returnsBy(t, way)
		longest = max(longest, survive(t, "now by "+way, 15*time.Second, streams...))
		for ns, address := range addresses {
			s.takesEffect(t, "FIp", ns, "web")
			s.everyWay(t, "internet", address, "web", theInternet)
			leaves := address
			if way == "Connection" {
				leaves = s.field(t, "Project", "live", strings.TrimPrefix(ns, "live-"), "status", "externalIP")
			}
			s.everyWay(t, "web."+ns, theInternet, "internet", leaves)
		}
	}
	return fmt.Sprintf("%d streams survive three changes, with a silence of %v at most", len(streams), longest.Round(10*time.Millisecond))
}

// addsLive: a project that uses its default network, and a second, begins to use a third.
func (s *stage) addsLive(t *testing.T) string {
	s.run(t, pod{namespace: s.cloud, name: "grows", node: "node1"})
	s.run(t, pod{namespace: s.cloud, name: "near", node: "node2"})
	var streams []*stream
	add := func(kind string) {
		address := s.fip(t, s.cloud, "grows-"+kind, "{podTarget: {podName: grows}, externalNetworkType: "+kind+"}")
		streams = append(streams, s.stream(t, "internet", address), s.stream(t, s.network(t, kind).client, address))
		survive(t, "one more network, "+kind, 10*time.Second, streams...)
	}
	streams = append(streams, s.stream(t, "grows."+s.cloud, theInternet), s.stream(t, "near."+s.cloud, s.field(t, "Pod", s.cloud, "grows", "status", "podIP")))
	var longest time.Duration
	for _, kind := range []string{"cloud", "public", "third"} {
		forgive(streams...)
		add(kind)
		for _, x := range streams {
			longest = max(longest, x.silence())
		}
	}
	return fmt.Sprintf("%d streams, from outside, to outside and between pods, go on, with a silence of %v at most", len(streams), longest.Round(10*time.Millisecond))
}

// hairpin: a pod asks floating IPs of its own project. It works for a pod with a floating IP on the default network. Without one its
// packets would come back with the address of the router itself, and OVN drops those. The asked pod is on a node that holds no
// gateway: on the default network's gateway's own node it is not reached by that network.
func (s *stage) hairpin(t *testing.T) string {
	s.run(t, pod{namespace: s.cloud, name: "asker", node: "node2"})
	s.run(t, pod{namespace: s.cloud, name: "asked", node: "node1"})
	asked, ways := s.everywhere(t, "asked"), 0
	var asking sync.WaitGroup // each waits for an answer that does not come
	for _, kind := range kindsOfNetwork {
		asking.Go(func() { s.silent(t, "asker."+s.cloud, "http://"+asked[kind]) })
	}
	asking.Wait()
	asker := s.everywhere(t, "asker")
	for _, kind := range kindsOfNetwork {
		ways += s.everyWay(t, "asker."+s.cloud, asked[kind], "asked", asker["cloud"])
		ways += s.everyWay(t, "asked."+s.cloud, asked[kind], "asked", asked["cloud"])
	}
	return fmt.Sprintf("%d ways to floating IPs of the own project work for pods with one on the default network, and not for others", ways)
}
