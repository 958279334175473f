package returnpath

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// TestReturn3Live shows that open connections survive changes of the return path.
func TestReturn3Live(t *testing.T) {
	harness.RunQuietly(t)
	item := returnItems.Item(t, 3)
	s := &projectPair{Cluster: harness.SharedSallyport(t)}
	s.CreateOrganization(t, "live")
	s.cloud = s.CreateProject(t, "live", "cloud", "10.44.0.0/24", "cloud")
	for _, part := range []struct {
		name string
		run  func(*projectPair, *testing.T) string
	}{
		{"from Source to Connection and back", (*projectPair).checkLiveSwitch},
		{"one more network", (*projectPair).checkLiveNetworkAdd},
		{"hairpin", (*projectPair).checkHairpin},
	} {
		t.Run(part.name, func(t *testing.T) {
			if figure := part.run(s, t); !t.Failed() {
				item.AddFigure("%s: %s", part.name, figure)
			}
		})
	}
}

// setReturnPath creates an ExternalNetwork for the public network with the given return path.
func (s *projectPair) setReturnPath(t *testing.T, way string) {
	t.Helper()
	s.Apply(t, fmt.Sprintf(`
apiVersion: kube-dc.com/v1alpha1
kind: ExternalNetwork
metadata: {name: live}
spec: {type: public, subnets: [ext-public], returnPath: %s}`, way))
	s.WaitForObject(t, "ExternalNetwork", "", "live", manifest.Field(way, "status", "returnPath"))
}

// checkLiveSwitch changes the mode for two projects: one with a NetworkPolicy, so that the pod's node tracks its
// connections, and one without.
func (s *projectPair) checkLiveSwitch(t *testing.T) string {
	s.setReturnPath(t, "Source")
	t.Cleanup(func() { s.DeleteAndWait(t, "ExternalNetwork", "", "live") })
	known := s.CreateProject(t, "live", "known", "10.45.0.0/24", "cloud")
	s.Apply(t, fmt.Sprintf(`
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: known, namespace: %s}
spec: {podSelector: {}, policyTypes: [Ingress], ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0}}]}]}`, known))
	var streams []*harness.Stream
	addresses := map[string]string{}
	for _, ns := range []string{s.cloud, known} {
		s.RunPod(t, harness.Pod{Namespace: ns, Name: "web", Node: "node1"})
		addresses[ns] = s.CreateFIP(t, ns, "web", "{podTarget: {podName: web}, externalNetworkType: public}")
		s.ExpectAnswers(t, "web."+ns, harness.InternetAddress, "internet", addresses[ns])
		streams = append(streams, s.StartStream(t, "internet", addresses[ns]),
			s.StartStream(t, "client-ext-public", addresses[ns]))
	}
	harness.ExpectStreamsContinue(t, "before", streams...)
	var longest time.Duration
	for _, way := range []string{"Connection", "Source", "Connection"} {
		harness.ResetGaps(streams...)
		s.setReturnPath(t, way)
		longest = max(longest, harness.ExpectStreamsContinue(t, "now by "+way, streams...))
		for ns, address := range addresses {
			s.WaitProgrammedOnNodes(t, "FIp", ns, "web")
			s.ExpectAnswers(t, "internet", address, "web", harness.InternetAddress)
			leaves := address
			if way == "Connection" {
				leaves = s.ReadField(t, "Project", "live", strings.TrimPrefix(ns, "live-"), "status", "externalIP")
			}
			s.ExpectAnswers(t, "web."+ns, harness.InternetAddress, "internet", leaves)
		}
	}
	return fmt.Sprintf("%d streams survive three changes, with a silence of %v at most", len(streams),
		longest.Round(10*time.Millisecond))
}

// checkLiveNetworkAdd adds a third network to a project that uses its default network and a second one.
func (s *projectPair) checkLiveNetworkAdd(t *testing.T) string {
	s.RunPod(t, harness.Pod{Namespace: s.cloud, Name: "grows", Node: "node1"})
	s.RunPod(t, harness.Pod{Namespace: s.cloud, Name: "near", Node: "node2"})
	var streams []*harness.Stream
	add := func(kind string) {
		address := s.CreateFIP(t, s.cloud, "grows-"+kind,
			"{podTarget: {podName: grows}, externalNetworkType: "+kind+"}")
		streams = append(streams, s.StartStream(t, "internet", address),
			s.StartStream(t, s.Network(t, kind).Client, address))
		harness.ExpectStreamsContinue(t, "one more network, "+kind, streams...)
	}
	streams = append(streams, s.StartStream(t, "grows."+s.cloud, harness.InternetAddress),
		s.StartStream(t, "near."+s.cloud, s.ReadField(t, "Pod", s.cloud, "grows", "status", "podIP")))
	var longest time.Duration
	for _, kind := range []string{"cloud", "public", "third"} {
		harness.ResetGaps(streams...)
		add(kind)
		for _, x := range streams {
			longest = max(longest, x.LongestGap())
		}
	}
	return fmt.Sprintf("%d streams, from outside, to outside and between pods, go on, with a silence of %v at most",
		len(streams), longest.Round(10*time.Millisecond))
}

// checkHairpin sends requests from a pod to floating IPs of its own project. This works for a pod with a floating IP on
// the default network. Without one the packets would return with the address of the router itself as source, and OVN
// drops those. The target pod is on a node without a gateway: on the gateway node of the default network it is not
// reachable through that network.
func (s *projectPair) checkHairpin(t *testing.T) string {
	s.RunPod(t, harness.Pod{Namespace: s.cloud, Name: "asker", Node: "node2"})
	s.RunPod(t, harness.Pod{Namespace: s.cloud, Name: "asked", Node: "node1"})
	asked, ways := s.createFIPs(t, "asked"), 0
	var asking sync.WaitGroup // in parallel, because each request waits for its timeout
	for _, kind := range harness.NetworkTypes {
		asking.Go(func() { s.ExpectSilence(t, "asker."+s.cloud, "http://"+asked[kind]) })
	}
	asking.Wait()
	asker := s.createFIPs(t, "asker")
	for _, kind := range harness.NetworkTypes {
		ways += s.ExpectAnswers(t, "asker."+s.cloud, asked[kind], "asked", asker["cloud"])
		ways += s.ExpectAnswers(t, "asked."+s.cloud, asked[kind], "asked", asked["cloud"])
	}
	return fmt.Sprintf("%d ways to floating IPs of the own project work for pods with one on the default network, and not for others", ways)
}
