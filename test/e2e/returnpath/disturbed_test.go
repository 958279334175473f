package returnpath

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// TestReturn2Disturbed shows that connections through several networks survive moves of pods and failures of nodes, and
// that policies still filter.
func TestReturn2Disturbed(t *testing.T) {
	harness.RunQuietly(t)
	item := returnItems.Item(t, 2)
	s := &projectPair{Cluster: harness.StartSallyport(t, "return", harness.LoadTopology(t, "shared.yaml"))}
	s.CreateOrganization(t, "return")
	s.cloud = s.CreateProject(t, "return", "cloud", "10.41.0.0/24", "cloud")
	for _, part := range []struct {
		name string
		run  func(*projectPair, *testing.T) string
	}{
		{"a pod moves", (*projectPair).checkPodMove},
		{"a gateway dies", (*projectPair).checkGatewayFailure},
		{"a NetworkPolicy", (*projectPair).checkNetworkPolicy},
		{"a SecurityGroup", (*projectPair).checkSecurityGroup},
	} {
		t.Run(part.name, func(t *testing.T) {
			if figure := part.run(s, t); !t.Failed() {
				item.AddFigure("%s: %s", part.name, figure)
			}
		})
	}
}

// createFIPs creates a floating IP for a pod on each network.
func (s *projectPair) createFIPs(t *testing.T, name string) map[string]string {
	t.Helper()
	addresses := map[string]string{}
	for _, kind := range harness.NetworkTypes {
		addresses[kind] = s.CreateFIP(t, s.cloud, name+"-"+kind,
			fmt.Sprintf("{podTarget: {podName: %s}, externalNetworkType: %s}", name, kind))
	}
	return addresses
}

// checkPodMove moves the link of a pod to another node, as in a live migration of a virtual machine: the same program
// continues with the same address.
func (s *projectPair) checkPodMove(t *testing.T) string {
	s.RunPod(t, harness.Pod{Namespace: s.cloud, Name: "moving", Node: "node1"})
	address := s.CreateFIP(t, s.cloud, "moving", "{podTarget: {podName: moving}, externalNetworkType: third}")
	streams := []*harness.Stream{
		s.StartStream(t, "internet", address), s.StartStream(t, "client-ext-third", address),
		s.StartStream(t, "moving."+s.cloud, harness.InternetAddress), // initiated by the pod
	}
	harness.ExpectStreamsContinue(t, "before", streams...)
	harness.ResetGaps(streams...)
	var longest time.Duration
	for _, way := range [][2]string{{"node1", "node2"}, {"node2", "node3"}, {"node3", "node1"}} {
		s.movePort(t, "moving."+s.cloud, way[0], way[1])
		longest = max(longest, harness.ExpectStreamsContinue(t, fmt.Sprintf("moved from %s to %s", way[0], way[1]),
			streams...))
		s.ExpectAnswers(t, "internet", address, "moving", harness.InternetAddress)
	}
	return fmt.Sprintf("%d streams survive three moves, with a silence of %v at most", len(streams),
		longest.Round(10*time.Millisecond))
}

// movePort disconnects the link of a logical port from one node and connects it to another.
func (s *projectPair) movePort(t *testing.T, port, from, to string) {
	t.Helper()
	link := strings.Trim(s.RunVsctl(t, from, "--bare", "--columns=name", "find", "interface",
		fmt.Sprintf("external_ids:iface-id=%q", port)), `"`)
	s.RunVsctl(t, from, "del-port", "br-int", link)
	if err := moveLink(s.NS(from), s.NS(to), link); err != nil {
		t.Fatal(err)
	}
	s.RunVsctl(t, to, "add-port", "br-int", link, "--", "set", "interface", link,
		fmt.Sprintf("external_ids:iface-id=%q", port))
	s.RunVsctl(t, to, harness.ToolTimeout, "wait-until", "interface", link, "external_ids:ovn-installed=true")
}

// moveLink moves a link from one namespace to another.
func moveLink(from, to netns.NS, name string) error {
	target, err := os.Open(to.Path())
	if err != nil {
		return err
	}
	defer target.Close() //nolint:errcheck // it was only read
	err = from.Do(func() error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return netlink.LinkSetNsFd(link, int(target.Fd()))
	})
	if err != nil {
		return err
	}
	return to.LinkUp(name)
}

// checkGatewayFailure stops and restarts the node that holds the gateway of a network.
func (s *projectPair) checkGatewayFailure(t *testing.T) string {
	s.RunPod(t, harness.Pod{Namespace: s.cloud, Name: "far", Node: "node1"})
	addresses := s.createFIPs(t, "far")
	var streams []*harness.Stream
	for _, kind := range harness.NetworkTypes {
		streams = append(streams, s.StartStream(t, "internet", addresses[kind]),
			s.StartStream(t, s.Network(t, kind).Client, addresses[kind]))
	}
	harness.ExpectStreamsContinue(t, "before", streams...)
	var figures []string
	for _, node := range []string{"node2", "node3"} {
		harness.ResetGaps(streams...)
		s.ControlLab(t, "kill", node)
		down := harness.ExpectStreamsContinue(t, node+" killed", streams...)
		harness.ResetGaps(streams...)
		s.ControlLab(t, "start", node)
		s.WaitNodeReady(t, node, true)
		s.SyncFlows(t)
		back := harness.ExpectStreamsContinue(t, node+" is back", streams...)
		figures = append(figures, fmt.Sprintf("%s killed: silent for %v at most; back: %v", node,
			down.Round(10*time.Millisecond), back.Round(10*time.Millisecond)))
	}
	return fmt.Sprintf("%d streams survive; %s", len(streams), strings.Join(figures, "; "))
}

// checkNetworkPolicy shows that a NetworkPolicy admits one client and no other, on every network.
func (s *projectPair) checkNetworkPolicy(t *testing.T) string {
	s.RunPod(t, harness.Pod{Namespace: s.cloud, Name: "guarded", Node: "node1"})
	addresses := s.createFIPs(t, "guarded")
	allowed := s.Network(t, "third")
	s.Apply(t, fmt.Sprintf(`
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: guarded, namespace: %s}
spec:
  podSelector: {matchLabels: {app: guarded}}
  policyTypes: [Ingress]
  ingress: [{from: [{ipBlock: {cidr: %s/32}}]}]`, s.cloud, allowed.ClientAddress))
	return s.expectFiltered(t, "guarded", addresses, allowed)
}

// checkSecurityGroup shows the same with a SecurityGroup of Kube-OVN.
func (s *projectPair) checkSecurityGroup(t *testing.T) string {
	allowed := s.Network(t, "third")
	s.Apply(t, fmt.Sprintf(`
apiVersion: kubeovn.io/v1
kind: SecurityGroup
metadata: {name: %s-grouped}
spec:
  ingressRules: [{ipVersion: ipv4, policy: allow, priority: 1, protocol: all, remoteType: address, remoteAddress: %s}]
  egressRules: [{ipVersion: ipv4, policy: allow, priority: 1, protocol: all, remoteType: address, remoteAddress: 0.0.0.0/0}]`, s.cloud, allowed.ClientAddress))
	s.RunPod(t, harness.Pod{Namespace: s.cloud, Name: "grouped", Node: "node1", Annotations: map[string]string{
		"ovn.kubernetes.io/port_security": "true", "ovn.kubernetes.io/security_groups": s.cloud + "-grouped",
	}})
	return s.expectFiltered(t, "grouped", s.createFIPs(t, "grouped"), allowed)
}

// expectFiltered checks that one client reaches a pod through every network and another client through none.
func (s *projectPair) expectFiltered(t *testing.T, name string, addresses map[string]string,
	allowed harness.ExternalNetwork,
) string {
	t.Helper()
	s.PollUntil(t, "the filter is in force", func() bool {
		_, err := s.SendRequest("internet", "http://"+addresses["cloud"])
		return err != nil
	})
	ways, refused := 0, 0
	var asking sync.WaitGroup // in parallel, because each request waits for its timeout
	for _, kind := range harness.NetworkTypes {
		ways += s.ExpectAnswers(t, allowed.Client, addresses[kind], name, allowed.ClientAddress)
		for _, proto := range harness.Protocols {
			asking.Go(func() { s.ExpectSilence(t, "internet", proto+"://"+addresses[kind]+":80") })
			refused++
		}
	}
	asking.Wait()
	ways += s.ExpectAnswers(t, name+"."+s.cloud, harness.InternetAddress, "internet", addresses["cloud"])
	return fmt.Sprintf("by three networks %d ways of whom it lets in answer, and %d of another do not", ways, refused)
}
