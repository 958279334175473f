package e2e

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/sallyport/sallyport/internal/lab/netns"
)

// TestReturn2Disturbed: connections by several networks survive what happens to nodes and pods, and policies still filter.
func TestReturn2Disturbed(t *testing.T) {
	item := returns.Item(t, 2)
	s := &stage{cluster: installed(t, "return", layout(t, "shared.yaml"))}
	s.organization(t, "return")
	s.cloud = s.project(t, "return", "cloud", "10.41.0.0/24", "cloud")
	for _, part := range []struct {
		name string
		run  func(*stage, *testing.T) string
	}{
		{"a pod moves", (*stage).moves},
		{"a gateway dies", (*stage).gatewayDies},
		{"a NetworkPolicy", (*stage).policyFilters},
		{"a SecurityGroup", (*stage).groupFilters},
	} {
		t.Run(part.name, func(t *testing.T) {
			if figure := part.run(s, t); !t.Failed() {
				item.Figure("%s: %s", part.name, figure)
			}
		})
	}
}

// everywhere gives a pod a floating IP on each network.
func (s *stage) everywhere(t *testing.T, name string) map[string]string {
	t.Helper()
	addresses := map[string]string{}
	for _, kind := range kindsOfNetwork {
		addresses[kind] = s.fip(t, s.cloud, name+"-"+kind, fmt.Sprintf("{podTarget: {podName: %s}, externalNetworkType: %s}", name, kind))
	}
	return addresses
}

// moves: a pod's cable is put into another node, as when a virtual machine is migrated: the same program goes on at the same address.
func (s *stage) moves(t *testing.T) string {
	s.run(t, pod{namespace: s.cloud, name: "moving", node: "node1"})
	address := s.fip(t, s.cloud, "moving", "{podTarget: {podName: moving}, externalNetworkType: third}")
	streams := []*stream{
		s.stream(t, "internet", address), s.stream(t, "client-ext-third", address),
		s.stream(t, "moving."+s.cloud, theInternet), // its own, by the default network
	}
	survive(t, "before", 5*time.Second, streams...)
	forgive(streams...)
	var longest time.Duration
	for _, way := range [][2]string{{"node1", "node2"}, {"node2", "node3"}, {"node3", "node1"}} {
		s.replug(t, "moving."+s.cloud, way[0], way[1])
		longest = max(longest, survive(t, fmt.Sprintf("moved from %s to %s", way[0], way[1]), 20*time.Second, streams...))
		s.everyWay(t, "internet", address, "moving", theInternet)
	}
	return fmt.Sprintf("%d streams survive three moves, with a silence of %v at most", len(streams), longest.Round(10*time.Millisecond))
}

// replug takes the cable of a logical port out of one node and puts it into another.
func (s *stage) replug(t *testing.T, port, from, to string) {
	t.Helper()
	link := strings.Trim(s.vsctl(t, from, "--bare", "--columns=name", "find", "interface", fmt.Sprintf("external_ids:iface-id=%q", port)), `"`)
	s.vsctl(t, from, "del-port", "br-int", link)
	if err := carry(s.NS(from), s.NS(to), link); err != nil {
		t.Fatal(err)
	}
	s.vsctl(t, to, "add-port", "br-int", link, "--", "set", "interface", link, fmt.Sprintf("external_ids:iface-id=%q", port))
	s.vsctl(t, to, "--timeout=60", "wait-until", "interface", link, "external_ids:ovn-installed=true")
}

// carry puts a link from one namespace into another.
func carry(from, to netns.NS, name string) error {
	target, err := os.Open(to.Path())
	if err != nil {
		return err
	}
	defer target.Close() //nolint:errcheck // it was only looked at
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

// gatewayDies: the node that holds a network's gateway is switched off and on again.
func (s *stage) gatewayDies(t *testing.T) string {
	s.run(t, pod{namespace: s.cloud, name: "far", node: "node1"})
	addresses := s.everywhere(t, "far")
	var streams []*stream
	for _, kind := range kindsOfNetwork {
		streams = append(streams, s.stream(t, "internet", addresses[kind]), s.stream(t, s.network(t, kind).client, addresses[kind]))
	}
	survive(t, "before", 5*time.Second, streams...)
	var figures []string
	for _, node := range []string{"node2", "node3"} {
		forgive(streams...)
		s.order(t, "kill", node)
		down := survive(t, node+" killed", 40*time.Second, streams...)
		forgive(streams...)
		s.order(t, "start", node)
		s.waitNode(t, node, true)
		s.sync(t)
		back := survive(t, node+" is back", 40*time.Second, streams...)
		figures = append(figures, fmt.Sprintf("%s killed: silent for %v at most; back: %v", node, down.Round(10*time.Millisecond), back.Round(10*time.Millisecond)))
	}
	return fmt.Sprintf("%d streams survive; %s", len(streams), strings.Join(figures, "; "))
}

// policyFilters: a NetworkPolicy lets one client in and no other, by whichever network they come.
func (s *stage) policyFilters(t *testing.T) string {
	s.run(t, pod{namespace: s.cloud, name: "guarded", node: "node1"})
	addresses := s.everywhere(t, "guarded")
	allowed := s.network(t, "third")
	s.apply(t, fmt.Sprintf(`
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: guarded, namespace: %s}
spec:
  podSelector: {matchLabels: {app: guarded}}
  policyTypes: [Ingress]
  ingress: [{from: [{ipBlock: {cidr: %s/32}}]}]`, s.cloud, allowed.clientAddress))
	return s.filters(t, "guarded", addresses, allowed)
}

// groupFilters: the same with a SecurityGroup of Kube-OVN.
func (s *stage) groupFilters(t *testing.T) string {
	allowed := s.network(t, "third")
	s.apply(t, fmt.Sprintf(`
apiVersion: kubeovn.io/v1
kind: SecurityGroup
metadata: {name: grouped}
spec:
  ingressRules: [{ipVersion: ipv4, policy: allow, priority: 1, protocol: all, remoteType: address, remoteAddress: %s}]
  egressRules: [{ipVersion: ipv4, policy: allow, priority: 1, protocol: all, remoteType: address, remoteAddress: 0.0.0.0/0}]`, allowed.clientAddress))
	s.run(t, pod{namespace: s.cloud, name: "grouped", node: "node1", annotations: map[string]string{
		"ovn.kubernetes.io/port_security": "true", "ovn.kubernetes.io/security_groups": "grouped",
	}})
	return s.filters(t, "grouped", s.everywhere(t, "grouped"), allowed)
}

// filters checks that one client reaches a pod by every network and another by none.
func (s *stage) filters(t *testing.T, name string, addresses map[string]string, allowed outside) string {
	t.Helper()
	s.until(t, "the filter is in force", func() bool {
		_, err := s.ask("internet", "http://"+addresses["cloud"])
		return err != nil
	})
	ways, refused := 0, 0
	var asking sync.WaitGroup // each waits for an answer that does not come
	for _, kind := range kindsOfNetwork {
		ways += s.everyWay(t, allowed.client, addresses[kind], name, allowed.clientAddress)
		for _, proto := range protocols {
			asking.Go(func() { s.silent(t, "internet", proto+"://"+addresses[kind]+":80") })
			refused++
		}
	}
	asking.Wait()
	ways += s.everyWay(t, name+"."+s.cloud, theInternet, "internet", addresses["cloud"])
	return fmt.Sprintf("by three networks %d ways of whom it lets in answer, and %d of another do not", ways, refused)
}
