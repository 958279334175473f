package ipv6

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// TestIPv6 shows IPv6 on the default network in one lab. IPv6 is added first, while IPv4 streams run.
func TestIPv6(t *testing.T) {
	s := startLab(t)
	t.Run("added", s.checkAdded)
	if s.external6 == "" {
		t.Fatal("the router has no IPv6 address")
	}
	t.Run("packets", s.checkPackets)
	t.Run("services", s.checkServices)
	t.Run("addresses", s.checkAddresses)
	t.Run("fail closed", s.checkFailClosed)
	t.Run("trace", s.checkTrace)
	t.Run("recovery", s.checkRecovery)
	t.Run("removed", s.checkRemoved)
}

// checkAdded adds IPv6 to a network with streams.
func (s *lab) checkAdded(t *testing.T) {
	address := s.CreateFIP(t, s.namespace, "four", "{podTarget: {podName: a}}")
	streams := []*harness.Stream{
		s.StartStream(t, s.wire.Client, address+":80"), s.StartStream(t, "b."+s.namespace, harness.InternetAddress+":80"),
	}
	s.ExpectSilence(t, "b."+s.namespace, "http://"+internet6)
	harness.ResetGaps(streams...)
	s.ResetDrops(t)
	s.addIPv6(t)
	longest := harness.ExpectStreamsContinue(t, "IPv6 was added", streams...)
	s.ExpectAnswers(t, "b."+s.namespace, internet6, "internet", s.external6)
	s.ExpectNoDrops(t)
	t.Logf("longest gap of an IPv4 stream: %v", longest)
}

// checkPackets shows the traffic of the default network in both families.
func (s *lab) checkPackets(t *testing.T) {
	item := ipv6Items.Item(t, 11)
	other := s.CreateProject(t, "six", "other", "10.61.0.0/24,fd00:61::/64", "cloud")
	s.RunPod(t, harness.Pod{Namespace: other, Name: "o", Node: "node1", Address: "10.61.0.11,fd00:61::11"})
	four := s.CreateFIP(t, s.namespace, "packets-4", "{podTarget: {podName: c}}")
	six := s.CreateFIP(t, s.namespace, "packets-6", "{podTarget: {podName: c}, ipFamily: IPv6}")
	otherFIP := s.CreateFIP(t, other, "o6", "{podTarget: {podName: o}, ipFamily: IPv6}")
	s.ResetDrops(t)
	pod, ways := func(name string) string { return name + "." + s.namespace }, 0
	host := s.wire.Neighbour
	for _, w := range []struct{ from, to, who, saw string }{
		{pod("a"), harness.InternetAddress, "internet", s.external4},
		{pod("a"), internet6, "internet", s.external6},
		{pod("c"), internet6, "internet", six}, // leaves with its floating IP
		{s.wire.Client, four, "c", s.client4},
		{s.wire.Client, bracket(six), "c", s.client6},
		{host, four, "c", s.wire.Neighbours[0].Addr().String()},
		{host, bracket(six), "c", s.wire.Neighbours[1].Addr().String()},
		{pod("b"), s.wire.Neighbours[0].Addr().String(), host, s.external4},
		{pod("b"), bracket(s.wire.Neighbours[1].Addr().String()), host, s.external6},
		{pod("b"), bracket(otherFIP), "o", s.external6},
		{"o." + other, bracket(six), "c", otherFIP},
		{pod("a"), "[fd00:60::12]", "b", "fd00:60::11"},
	} {
		ways += s.ExpectAnswers(t, w.from, w.to, w.who, w.saw)
	}
	s.ExpectNoDrops(t)
	s.DeleteAndWait(t, "FIp", s.namespace, "packets-6")
	s.ExpectSilence(t, s.wire.Client, "http://"+bracket(six))
	item.AddFigure("%d requests by HTTP, TCP, UDP and SCTP, in both families; 0 packets dropped by the routers; "+
		"a deleted address is silent", ways)
}

// checkServices shows Services of each family and of both.
func (s *lab) checkServices(t *testing.T) {
	item := ipv6Items.Item(t, 2)
	const ports = "ports: [{name: t, port: 80}, {name: u, port: 80, protocol: UDP}, {name: s, port: 80, protocol: SCTP}]"
	s.ResetDrops(t)
	only6 := s.createService(t, "only6", "ipFamilies: [IPv6], "+ports, 1)
	both := s.createService(t, "both", "ipFamilyPolicy: RequireDualStack, "+ports, 2)
	for _, address := range slices.Concat(only6, both) {
		saw := map[bool]string{true: s.client6, false: s.client4}[strings.Contains(address, ":")]
		for _, protocol := range []string{"http", "udp", "sctp"} {
			s.expectService(t, protocol+"://"+bracket(address)+":80", saw)
		}
	}
	s.changePolicy(t, both, ports)
	sticky := s.createService(t, "sticky", "ipFamilies: [IPv6], sessionAffinity: ClientIP, ports: [{port: 80}]", 1)
	name := s.answerOf(t, "http://"+bracket(sticky[0]))
	for range 10 {
		s.ExpectAnswer(t, s.wire.Client, "http://"+bracket(sticky[0]), name, s.client6)
	}
	open := s.createService(t, "ranged", fmt.Sprintf("ipFamilies: [IPv6], loadBalancerSourceRanges: ['%s/128'], ports: [{port: 80}]",
		s.client6), 1)
	s.expectService(t, "http://"+bracket(open[0]), s.client6)
	s.ExpectSilence(t, s.wire.Neighbour, "http://"+bracket(open[0]))
	only4 := s.createService(t, "ranged4", "ipFamilies: [IPv6], loadBalancerSourceRanges: [0.0.0.0/0], ports: [{port: 80}]", 1)
	s.ExpectSilence(t, s.wire.Client, "http://"+bracket(only4[0])) // IPv4 ranges allow no IPv6 client
	s.ExpectNoDrops(t)
	s.expectRefusedService(t, "checked", "ipFamilies: [IPv6]", "service.nlb.kube-dc.com/health-check", "NetworkNotSupported")
	item.AddFigure("IPv6 alone and both families by TCP, UDP and SCTP; both → IPv4 alone → both with open connections; affinity; " +
		"ranges of each family; health checks refused with a reason; Kubernetes' dual-stack tests NOT RUN")
}

// changePolicy makes a Service with both families one with IPv4 alone, and back. Connections in IPv4 stay open.
func (s *lab) changePolicy(t *testing.T, both []string, ports string) {
	t.Helper()
	four := both[slices.IndexFunc(both, func(a string) bool { return !strings.Contains(a, ":") })]
	six := both[slices.IndexFunc(both, func(a string) bool { return strings.Contains(a, ":") })]
	stream := s.StartStream(t, s.wire.Client, four+":80")
	single := s.createService(t, "both", "ipFamilyPolicy: SingleStack, ipFamilies: [IPv4], "+ports, 1)
	if single[0] != four {
		t.Errorf("IPv4 changed from %s to %s", four, single[0])
	}
	s.ExpectSilence(t, s.wire.Client, "http://"+bracket(six))
	again := s.createService(t, "both", "ipFamilyPolicy: PreferDualStack, ipFamilies: [IPv4, IPv6], "+ports, 2)
	s.expectService(t, "http://"+bracket(again[1]), s.client6)
	harness.ExpectStreamsContinue(t, "the policy changed", stream)
}

// answerOf returns the name of the pod that answers.
func (s *lab) answerOf(t *testing.T, target string) (name string) {
	t.Helper()
	harness.Eventually(t, target+" answers", func() bool {
		a, err := s.SendRequest(s.wire.Client, target)
		name = a.Name
		return err == nil
	})
	return name
}

// expectService expects that all three pods answer, and see the client.
func (s *lab) expectService(t *testing.T, target, saw string) {
	t.Helper()
	answered := map[string]bool{}
	harness.Eventually(t, "all pods to answer "+target, func() bool {
		a, err := s.SendRequest(s.wire.Client, target)
		if err != nil {
			return false
		}
		if got := a.Saw.Addr().String(); got != saw {
			t.Errorf("%s: %s saw %s, not %s", target, a.Name, got, saw)
		}
		answered[a.Name] = true
		return len(answered) == 3
	})
}

// expectRefusedService expects that a Service is refused with a reason.
func (s *lab) expectRefusedService(t *testing.T, name, spec, annotation, reason string) {
	t.Helper()
	s.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: %s, annotations: {%s: 'true'}}, "+
		"spec: {type: LoadBalancer, selector: {role: web}, ports: [{port: 80}], %s}}", name, s.namespace, annotation, spec))
	s.WaitForObject(t, "Service", s.namespace, name, func(o *unstructured.Unstructured) bool {
		return harness.FalseReason(o, "ResolvedRefs") == reason && len(ingressAddresses(o)) == 0
	})
}

// checkRecovery changes and breaks what IPv6 needs, with streams of both families.
func (s *lab) checkRecovery(t *testing.T) {
	item := ipv6Items.Item(t, 5)
	four := s.CreateFIP(t, s.namespace, "streams-4", "{podTarget: {podName: b}}")
	six := s.CreateFIP(t, s.namespace, "streams-6", "{podTarget: {podName: b}, ipFamily: IPv6}")
	streams := []*harness.Stream{
		s.StartStream(t, s.wire.Client, four+":80"), s.StartStream(t, s.wire.Client, bracket(six)+":80"),
		s.StartStream(t, "a."+s.namespace, internet6+":80"),
	}
	before := s.listRows(t)
	harness.ResetGaps(streams...)
	s.RunNbctl(t, "set", "Logical_Router_Port", s.portName(), "networks="+s.waitNetworks(t, 2)[0])
	s.waitNetworks(t, 2)
	reset := harness.ExpectStreamsContinue(t, "the networks of the port were reset", streams...)
	s.RunNbctl(t, "lr-nat-del", s.namespace, "dnat_and_snat", six)
	harness.Eventually(t, "the NAT row is back", func() bool { return strings.Contains(s.listRows(t), six) })
	harness.ResetGaps(streams...)
	s.ControlLab(t, "kill", "kube-ovn-controller")
	s.ControlLab(t, "start", "kube-ovn-controller")
	restarted := harness.ExpectStreamsContinue(t, "Kube-OVN was restarted", streams...)
	for range 3 {
		s.controller.Stop(syscall.SIGKILL)
		s.controller.Start(t)
	}
	killed := harness.ExpectStreamsContinue(t, "the controller was killed", streams...)
	s.CreateEIP(t, s.namespace, "mark", "{ipFamily: IPv6}") // the new controller has run the project
	if after := s.listRows(t); before != after {
		t.Errorf("rows differ:\n%s\nafterwards:\n%s", before, after)
	}
	item.AddFigure("networks of the port reset and a NAT row deleted: back, longest gap %v; Kube-OVN restarted: %v; controller "+
		"killed 3 times: %v; same rows; gateway killed and pod moved NOT RUN", reset, restarted, killed)
}

// checkRemoved removes IPv6 from the network.
func (s *lab) checkRemoved(t *testing.T) {
	item := ipv6Items.Item(t, 10)
	stream := s.StartStream(t, "b."+s.namespace, harness.InternetAddress+":80")
	s.CreateEIP(t, s.namespace, "left", "{ipFamily: IPv6}")
	s.setIPv6(t, "")
	s.waitNetworks(t, 1)
	s.WaitForObject(t, "EIp", s.namespace, "left", func(o *unstructured.Unstructured) bool {
		return harness.FalseReason(o, "ResolvedRefs") == "NetworkNotSupported"
	})
	harness.Eventually(t, "the rows are gone", func() bool {
		return !strings.Contains(s.listRows(t), "2001:db8")
	})
	harness.ExpectStreamsContinue(t, "IPv6 was removed", stream)
	s.SyncFlows(t)
	s.ExpectSilence(t, "b."+s.namespace, "http://"+internet6)
	s.WaitForObject(t, "Project", "six", "web", manifest.True("Programmed"))
	item.AddFigure("IPv4 streams went on while IPv6 was added and removed; EIps say why they stopped; no row is left; " +
		"the previous version's binary NOT RUN")
}
