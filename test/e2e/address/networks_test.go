package address

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// checkThreeNetworks shows three pods of one project with floating IPs on three networks at the same time.
func (s *projectPair) checkThreeNetworks(t *testing.T) string {
	addresses := map[string]string{}
	for i, kind := range harness.NetworkTypes {
		s.RunPod(t, harness.Pod{Namespace: s.cloud, Name: "on-" + kind, Node: fmt.Sprintf("node%d", i+1)})
		addresses[kind] = s.CreateFIP(t, s.cloud, "on-"+kind,
			fmt.Sprintf("{podTarget: {podName: on-%s}, externalNetworkType: %s}", kind, kind))
	}
	ways := 0
	s.ResetDrops(t)
	for _, kind := range harness.NetworkTypes {
		x := s.Network(t, kind)
		s.expectOnNetwork(t, kind, addresses[kind])
		ways += s.ExpectAnswers(t, x.Client, addresses[kind], "on-"+kind, x.ClientAddress)
		ways += s.ExpectAnswers(t, "internet", addresses[kind], "on-"+kind, harness.InternetAddress)
		own := s.egressAddress(t, s.cloud, kind, addresses[kind])
		ways += s.ExpectAnswers(t, "on-"+kind+"."+s.cloud, harness.InternetAddress, "internet", own)
		ways += s.ExpectAnswers(t, "on-"+kind+"."+s.cloud, x.ClientAddress, x.Client, own)
	}
	external := s.ReadField(t, "Project", "packets", "cloud", "status", "externalIP")
	// the default egress of other pods is unaffected
	ways += s.ExpectAnswers(t, "plain-node1."+s.cloud, harness.InternetAddress, "internet", external)
	s.ExpectNoDrops(t)
	return fmt.Sprintf("%d ways in one project, from the client of each network and from the internet host; the pod saw the client's own address; no drops", ways)
}

// expectOnNetwork checks that an address belongs to a network.
func (s *projectPair) expectOnNetwork(t *testing.T, kind, address string) {
	t.Helper()
	a, err := netip.ParseAddr(address)
	if err != nil {
		t.Fatalf("the address on %s: %v", kind, err)
	}
	for _, n := range s.Blueprint.Networks {
		if n.Name == "ext-"+kind && !n.Prefixes[0].Contains(a) {
			t.Errorf("%s is not in %s, the prefix of the network %s", address, n.Prefixes[0], kind)
		}
	}
}

// egressAddress returns the source address of connections that a pod with a floating IP initiates: the floating IP if
// it is on the project's default network, and the project's own address otherwise.
func (s *projectPair) egressAddress(t *testing.T, namespace, kind, floating string) string {
	t.Helper()
	name := namespace[len("packets-"):]
	if kind == name {
		return floating
	}
	return s.ReadField(t, "Project", "packets", name, "status", "externalIP")
}

// checkNeighbours shows access to hosts on the external prefix itself, and to floating IPs of another project there, in
// both directions.
func (s *projectPair) checkNeighbours(t *testing.T) string {
	mine, theirs := map[string]string{}, map[string]string{}
	for i, kind := range harness.NetworkTypes {
		s.RunPod(t, harness.Pod{Namespace: s.cloud, Name: "near-" + kind, Node: fmt.Sprintf("node%d", i+1)})
		s.RunPod(t, harness.Pod{Namespace: s.public, Name: "near-" + kind, Node: fmt.Sprintf("node%d", 3-i)})
		spec := fmt.Sprintf("{podTarget: {podName: near-%s}, externalNetworkType: %s}", kind, kind)
		mine[kind] = s.CreateFIP(t, s.cloud, "near-"+kind, spec)
		theirs[kind] = s.CreateFIP(t, s.public, "near-"+kind, spec)
	}
	hosts, projects := 0, 0
	s.ResetDrops(t)
	for _, kind := range harness.NetworkTypes {
		x, pod := s.Network(t, kind), "near-"+kind
		hosts += s.ExpectAnswers(t, x.Neighbour, mine[kind], pod, x.NeighbourAddress)
		hosts += s.ExpectAnswers(t, pod+"."+s.cloud, x.NeighbourAddress, x.Neighbour,
			s.egressAddress(t, s.cloud, kind, mine[kind]))
		hosts += s.ExpectAnswers(t, x.Neighbour, theirs[kind], pod, x.NeighbourAddress)
		hosts += s.ExpectAnswers(t, pod+"."+s.public, x.NeighbourAddress, x.Neighbour,
			s.egressAddress(t, s.public, kind, theirs[kind]))
		projects += s.ExpectAnswers(t, pod+"."+s.cloud, theirs[kind], pod,
			s.egressAddress(t, s.cloud, kind, mine[kind]))
		projects += s.ExpectAnswers(t, pod+"."+s.public, mine[kind], pod,
			s.egressAddress(t, s.public, kind, theirs[kind]))
	}
	// Pods without a floating IP reach hosts on their default network.
	for namespace, kind := range map[string]string{s.cloud: "cloud", s.public: "public"} {
		other := map[string]string{s.cloud: theirs[kind], s.public: mine[kind]}[namespace]
		x, external := s.Network(t, kind), s.ReadField(t, "Project", "packets", kind, "status", "externalIP")
		hosts += s.ExpectAnswers(t, "plain-node1."+namespace, x.NeighbourAddress, x.Neighbour, external)
		projects += s.ExpectAnswers(t, "plain-node1."+namespace, other, "near-"+kind, external)
	}
	s.ExpectNoDrops(t)
	return fmt.Sprintf("%d ways to and from hosts on the three prefixes, %d between two projects' addresses there; no drops", hosts, projects)
}

// checkAnswersOnlyWithFIP shows that an address that is only reserved does not answer, nor does one whose FIp was
// deleted; the control is one that does.
func (s *projectPair) checkAnswersOnlyWithFIP(t *testing.T) string {
	inside := s.RunPod(t, harness.Pod{Namespace: s.cloud, Name: "bare", Node: "node2"})
	s.RunPod(t, harness.Pod{Namespace: s.cloud, Name: "control", Node: "node2"})
	checked := 0
	for _, kind := range []string{"cloud", "public"} {
		x := s.Network(t, kind)
		address := s.CreateEIP(t, s.cloud, "bare-"+kind, "{externalNetworkType: "+kind+"}")
		beside := s.CreateFIP(t, s.cloud, "control",
			fmt.Sprintf("{podTarget: {podName: control}, eip: %s}", s.reserveEIP(t, kind)))
		for _, from := range []string{x.Client, x.Neighbour, "internet"} {
			s.ExpectSilence(t, from, "http://"+address)
			s.ExpectSilence(t, from, "http://"+inside)
			s.ExpectAnswer(t, from, "http://"+beside, "control", "")
		}
		s.ExpectAnswer(t, "control."+s.cloud, "http://"+inside, "bare", "") // control: the pod answers inside
		s.CreateFIP(t, s.cloud, "bare", "{podTarget: {podName: bare}, eip: bare-"+kind+"}")
		for _, from := range []string{x.Client, x.Neighbour, "internet"} {
			s.ExpectAnswer(t, from, "http://"+address, "bare", "")
		}
		s.DeleteAndWait(t, "FIp", s.cloud, "bare")
		for _, from := range []string{x.Client, x.Neighbour, "internet"} {
			s.ExpectSilence(t, from, "http://"+address)
			s.ExpectAnswer(t, from, "http://"+beside, "control", "")
			checked++
		}
	}
	return fmt.Sprintf("silent before and after from %d places, answering in between", checked)
}

// reserveEIP creates an EIp for a control and returns its name.
func (s *projectPair) reserveEIP(t *testing.T, kind string) string {
	t.Helper()
	s.CreateEIP(t, s.cloud, "control-"+kind, "{externalNetworkType: "+kind+"}")
	return "control-" + kind
}
