package e2e

import (
	"fmt"
	"net/netip"
	"testing"
)

var kindsOfNetwork = []string{"cloud", "public", "third"} // of a project on cloud: the default, a secondary and a third one

// threeNetworks: in one project, at the same time, three pods have floating IPs on three networks.
func (s *stage) threeNetworks(t *testing.T) string {
	addresses := map[string]string{}
	for i, kind := range kindsOfNetwork {
		s.run(t, pod{namespace: s.cloud, name: "on-" + kind, node: fmt.Sprintf("node%d", i+1)})
		addresses[kind] = s.fip(t, s.cloud, "on-"+kind, fmt.Sprintf("{podTarget: {podName: on-%s}, externalNetworkType: %s}", kind, kind))
	}
	ways := 0
	s.resetDrops(t)
	for _, kind := range kindsOfNetwork {
		x := s.network(t, kind)
		s.on(t, kind, addresses[kind])
		ways += s.everyWay(t, x.client, addresses[kind], "on-"+kind, x.clientAddress)
		ways += s.everyWay(t, "internet", addresses[kind], "on-"+kind, theInternet)
		own := s.leavesAs(t, s.cloud, kind, addresses[kind])
		ways += s.everyWay(t, "on-"+kind+"."+s.cloud, theInternet, "internet", own)
		ways += s.everyWay(t, "on-"+kind+"."+s.cloud, x.clientAddress, x.client, own)
	}
	external := s.field(t, "Project", "packets", "cloud", "status", "externalIP")
	ways += s.everyWay(t, "plain-node1."+s.cloud, theInternet, "internet", external) // the others' way out is as before
	s.noDrops(t)
	return fmt.Sprintf("%d ways in one project, from the client of each network and from the internet host; the pod saw the client's own address; no drops", ways)
}

// on checks that an address is one of a network.
func (s *stage) on(t *testing.T, kind, address string) {
	t.Helper()
	a, err := netip.ParseAddr(address)
	if err != nil {
		t.Fatalf("the address on %s: %v", kind, err)
	}
	for _, n := range s.blueprint.Networks {
		if n.Name == "ext-"+kind && !n.Prefixes[0].Contains(a) {
			t.Errorf("%s is not in %s, the prefix of the network %s", address, n.Prefixes[0], kind)
		}
	}
}

// leavesAs is the address with which a pod's own traffic leaves that has a floating IP on a network: that address on the project's
// default network, and on any other the project's own.
func (s *stage) leavesAs(t *testing.T, namespace, kind, floating string) string {
	t.Helper()
	name := namespace[len("packets-"):]
	if kind == name {
		return floating
	}
	return s.field(t, "Project", "packets", name, "status", "externalIP")
}

// neighbours: hosts on the external prefix itself, and floating IPs of another project there, both ways.
func (s *stage) neighbours(t *testing.T) string {
	mine, theirs := map[string]string{}, map[string]string{}
	for i, kind := range kindsOfNetwork {
		s.run(t, pod{namespace: s.cloud, name: "near-" + kind, node: fmt.Sprintf("node%d", i+1)})
		s.run(t, pod{namespace: s.public, name: "near-" + kind, node: fmt.Sprintf("node%d", 3-i)})
		spec := fmt.Sprintf("{podTarget: {podName: near-%s}, externalNetworkType: %s}", kind, kind)
		mine[kind] = s.fip(t, s.cloud, "near-"+kind, spec)
		theirs[kind] = s.fip(t, s.public, "near-"+kind, spec)
	}
	hosts, projects := 0, 0
	s.resetDrops(t)
	for _, kind := range kindsOfNetwork {
		x, pod := s.network(t, kind), "near-"+kind
		hosts += s.everyWay(t, x.neighbour, mine[kind], pod, x.neighbourAddress)
		hosts += s.everyWay(t, pod+"."+s.cloud, x.neighbourAddress, x.neighbour, s.leavesAs(t, s.cloud, kind, mine[kind]))
		hosts += s.everyWay(t, x.neighbour, theirs[kind], pod, x.neighbourAddress)
		hosts += s.everyWay(t, pod+"."+s.public, x.neighbourAddress, x.neighbour, s.leavesAs(t, s.public, kind, theirs[kind]))
		projects += s.everyWay(t, pod+"."+s.cloud, theirs[kind], pod, s.leavesAs(t, s.cloud, kind, mine[kind]))
		projects += s.everyWay(t, pod+"."+s.public, mine[kind], pod, s.leavesAs(t, s.public, kind, theirs[kind]))
	}
	// Pods without a floating IP reach who is on their default network.
	for namespace, kind := range map[string]string{s.cloud: "cloud", s.public: "public"} {
		other := map[string]string{s.cloud: theirs[kind], s.public: mine[kind]}[namespace]
		x, external := s.network(t, kind), s.field(t, "Project", "packets", kind, "status", "externalIP")
		hosts += s.everyWay(t, "plain-node1."+namespace, x.neighbourAddress, x.neighbour, external)
		projects += s.everyWay(t, "plain-node1."+namespace, other, "near-"+kind, external)
	}
	s.noDrops(t)
	return fmt.Sprintf("%d ways to and from hosts on the three prefixes, %d between two projects' addresses there; no drops", hosts, projects)
}

// onlyWithFIp: an address that is only reserved does not answer, nor does one whose FIp is gone; beside it one that does.
func (s *stage) onlyWithFIp(t *testing.T) string {
	inside := s.run(t, pod{namespace: s.cloud, name: "bare", node: "node2"})
	s.run(t, pod{namespace: s.cloud, name: "control", node: "node2"})
	checked := 0
	for _, kind := range []string{"cloud", "public"} {
		x := s.network(t, kind)
		address := s.eip(t, s.cloud, "bare-"+kind, "{externalNetworkType: "+kind+"}")
		beside := s.fip(t, s.cloud, "control", fmt.Sprintf("{podTarget: {podName: control}, eip: %s}", s.reserve(t, kind)))
		for _, from := range []string{x.client, x.neighbour, "internet"} {
			s.silent(t, from, "http://"+address)
			s.silent(t, from, "http://"+inside)
			s.answers(t, from, "http://"+beside, "control", "")
		}
		s.answers(t, "control."+s.cloud, "http://"+inside, "bare", "") // control: inside, the pod is there
		s.fip(t, s.cloud, "bare", "{podTarget: {podName: bare}, eip: bare-"+kind+"}")
		for _, from := range []string{x.client, x.neighbour, "internet"} {
			s.answers(t, from, "http://"+address, "bare", "")
		}
		s.remove(t, "FIp", s.cloud, "bare")
		for _, from := range []string{x.client, x.neighbour, "internet"} {
			s.silent(t, from, "http://"+address)
			s.answers(t, from, "http://"+beside, "control", "")
			checked++
		}
	}
	return fmt.Sprintf("silent before and after from %d places, answering in between", checked)
}

// reserve makes an EIp for a control and returns its name.
func (s *stage) reserve(t *testing.T, kind string) string {
	t.Helper()
	s.eip(t, s.cloud, "control-"+kind, "{externalNetworkType: "+kind+"}")
	return "control-" + kind
}
