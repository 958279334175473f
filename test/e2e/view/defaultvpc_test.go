package view

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/insight/collector"
	"github.com/sallyport/sallyport/internal/insight/trace"
	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// platformNamespaces are the namespaces of random clusters in Kube-OVN's default VPC. Some pods of the first ones have
// egress addresses.
var platformNamespaces = []string{"platform", "tools"}

// hostPod is the name of the pod on the host network of one node.
const hostPod = "host"

// TestPlatform5TraceAgreesWithPackets compares traces with packets for random questions about Kube-OVN's default VPC.
// At CI size TestView2TraceAgreesWithPackets asks them, in its own lab.
func TestPlatform5TraceAgreesWithPackets(t *testing.T) {
	if !show.IsFullSize() {
		t.Skip("TestView2TraceAgreesWithPackets asks these questions at CI size")
	}
	item := platformItems.Item(t, 5)
	agreed, asked := 0, 0
	for i := range 5 {
		seed := randomSeed(t, i)
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			right, all := newRandomCluster(t, seed).checkDefaultVPC(t, item, 100)
			agreed, asked = agreed+right, asked+all
		})
	}
	item.AddFigure("%d of %d questions: verdict, backend, source address and network are as packets have them", agreed, asked)
}

// checkDefaultVPC asks questions about the default VPC, and returns how many traces agree with packets.
func (m *randomCluster) checkDefaultVPC(t *testing.T, item *show.Item, n int) (right, all int) {
	t.Helper()
	questions := m.platformQuestions(t, n)
	right, verdicts := m.compareWithPackets(t, questions)
	item.AddFigure("seed %d (SALLYPORT_SEED): %d of %d; %s; %s", m.seed, right, len(questions), verdicts,
		m.summarizeKinds(t, questions))
	return right, len(questions)
}

// summarizeKinds formats the number of questions by kind. The test fails if there is none of a kind.
func (m *randomCluster) summarizeKinds(t *testing.T, all []traceQuestion) string {
	t.Helper()
	s := takeSurvey(t, m.Cluster, collector.Scope{})
	egress, kinds := m.egressAddresses(s), map[string]int{}
	for _, q := range all {
		path, answered := q.paths[0], q.paths[0].Verdict == trace.Delivered
		switch {
		case (q.Node != "" || strings.HasSuffix(q.Pod, "/"+hostPod)) && answered:
			kinds["from a node to a pod"]++
		case q.Pod == "":
			kinds["from outside"]++
		case path.Code == trace.LeavesByNode:
			kinds["out through a node"]++
		case answered && slices.Contains(egress, path.SeenSource):
			kinds["out with an egress address"]++
		case answered && m.isNodeAddress(s, q.Server.Addr()):
			kinds["to a node"]++
		case answered && slices.Contains(m.clusterIPs(t), q.Server.Addr()):
			kinds["to a cluster IP"]++
		}
	}
	var out []string
	for _, kind := range []string{
		"from a node to a pod", "from outside", "out through a node", "out with an egress address", "to a node",
		"to a cluster IP",
	} {
		if kinds[kind] == 0 {
			t.Errorf("no question %s", kind)
		}
		out = append(out, fmt.Sprintf("%d %s", kinds[kind], kind))
	}
	return strings.Join(out, ", ")
}

// createPlatform creates pods, floating IPs, Services, NetworkPolicies and EgressIPs in the default VPC. Nodes translate
// what leaves through them, as Kube-OVN's agent lets them.
func (m *randomCluster) createPlatform(t *testing.T) {
	t.Helper()
	for _, n := range m.Blueprint.NodeList() {
		for _, command := range [][]string{
			{"sysctl", "-qw", "net.ipv4.ip_forward=1"},
			{"nft", "add table ip platform; add chain ip platform post { type nat hook postrouting priority 100; }; " +
				"add rule ip platform post ip saddr 10.16.0.0/16 oifname uplink-a masquerade"},
		} {
			if err := harness.RunInNetns(m.NS(n.Name), command...); err != nil {
				t.Fatal(err)
			}
		}
	}
	m.hostNode = pickOne(m, m.Blueprint.NodeList()).Name
	var texts []string
	for _, ns := range platformNamespaces {
		m.CreateNamespace(t, ns, "")
		m.WaitForObject(t, "ServiceAccount", ns, "default", manifest.Exists)
		texts = append(texts, m.randomPods(ns)...)
		texts = append(texts, m.randomClusterServices(ns)...)
		texts = append(texts, m.randomAddresses(ns)...)
		texts = append(texts, m.randomServices(ns)...)
		texts = append(texts, m.randomNetworkPolicies(ns)...)
	}
	texts = append(texts, fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: %s}, "+
		"spec: {nodeName: %s, hostNetwork: true, containers: [{name: main, image: lab/echo}]}}", hostPod,
		platformNamespaces[0], m.hostNode))
	m.applyAll(t, append(texts, m.randomPlatformEgress()...))
	m.WaitForObject(t, "Pod", platformNamespaces[0], hostPod, manifest.True("Ready"))
}

// randomClusterServices returns Services with cluster IPs.
func (m *randomCluster) randomClusterServices(ns string) (out []string) {
	for i, protocol := range []string{"TCP", "UDP", "SCTP"} {
		out = append(out, fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: c%d, namespace: %s}, spec: {selector: %s, "+
			"ports: [{name: a, port: 80, targetPort: %s, protocol: %s}]}}", i, ns,
			pickOne(m, []string{"{all: 'yes'}", "{pair: p0}", "{app: w3}"}), pickOne(m, []string{"80", "8080"}), protocol))
	}
	return out
}

// randomPlatformEgress returns an EgressIP for each namespace of the default VPC, for all of its pods or for some.
func (m *randomCluster) randomPlatformEgress() (out []string) {
	for i, ns := range platformNamespaces {
		selector := pickOne(m, []string{"", ", podSelector: {matchLabels: {pair: p1}}", ", podSelector: {matchLabels: {app: w0}}"})
		if i > 0 && selector == "" {
			continue // some pods leave through their nodes
		}
		out = append(out, fmt.Sprintf("{apiVersion: k8s.ovn.org/v1, kind: EgressIP, metadata: {name: %[1]s}, spec: {egressIPs: [%[2]s], "+
			"namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}%[3]s}}", ns,
			m.unusedAddress(pickOne(m, m.networks), 210+i), selector))
	}
	return out
}

// platformQuestions returns random questions from pods of the default VPC and from nodes, and to them.
func (m *randomCluster) platformQuestions(t *testing.T, n int) (out []traceQuestion) {
	t.Helper()
	s := takeSurvey(t, m.Cluster, collector.Scope{})
	tracer := trace.New(s)
	outside, inside := m.findRequesters(s)
	ofPlatform := func(r requester) bool {
		ns, _, _ := strings.Cut(r.pod, "/")
		return slices.Contains(platformNamespaces, ns)
	}
	pods := slices.DeleteFunc(slices.Clone(inside), func(r requester) bool { return !ofPlatform(r) })
	others := slices.DeleteFunc(slices.Clone(inside), ofPlatform)
	places, inbound := m.platformTargets(t, s, pods), m.platformVIPs(s)
	seen := map[string]bool{}
	for len(out) < n {
		var from requester
		to := traceTarget{places[m.rng.IntN(len(places))], pickOne(m, []string{"tcp", "tcp", "udp", "sctp"})}
		switch m.rng.IntN(10) {
		case 0, 1: // nodes reach pods of the default VPC
			node := pickOne(m, m.Blueprint.NodeList()).Name
			from = requester{host: node, node: node}
			if node == m.hostNode && m.withProbability(50) {
				from = requester{host: node, pod: platformNamespaces[0] + "/" + hostPod}
			}
			to.AddrPort = netip.AddrPortFrom(pickOne(m, pods).address, pickOne(m, []uint16{80, 8080, 81}))
		case 2: // others are isolated from it
			from = pickOne(m, others)
		case 3:
			from, to = pickOne(m, outside), pickOne(m, inbound)
		default:
			from = pickOne(m, pods)
			if m.withProbability(40) {
				to.AddrPort = netip.AddrPortFrom(pickOne(m, outside).address, 80)
			}
		}
		if m.isNodeAddress(s, to.Addr()) && to.protocol == "sctp" {
			to.protocol = "tcp" // on nodes, SCTP is the kernel's
		}
		q := newTraceQuestion(from, to)
		if key := q.asker + q.targetURL(); !seen[key] && from.address != to.Addr() {
			seen[key] = true
			m.traceQuestion(tracer, &q)
			out = append(out, q)
		}
	}
	return out
}

// platformTargets returns pods, cluster IPs, nodes and external addresses.
func (m *randomCluster) platformTargets(t *testing.T, s *clusterstate.State, pods []requester) (out []netip.AddrPort) {
	t.Helper()
	for _, p := range pods {
		out = append(out, netip.AddrPortFrom(p.address, pickOne(m, []uint16{80, 80, 8080, 81})))
	}
	for _, a := range m.clusterIPs(t) {
		out = append(out, netip.AddrPortFrom(a, 80))
	}
	for _, node := range s.Cluster.Nodes {
		for _, a := range node.Addresses {
			out = append(out, netip.AddrPortFrom(a, pickOne(m, []uint16{80, 81})))
		}
	}
	for _, t := range m.findTargets(s) {
		if m.withProbability(30) {
			out = append(out, t.AddrPort)
		}
	}
	return out
}

// clusterIPs returns the cluster IPs of Services in the default VPC.
func (m *randomCluster) clusterIPs(t *testing.T) (out []netip.Addr) {
	t.Helper()
	for _, ns := range platformNamespaces {
		list, err := m.Client.CoreV1().Services(ns).List(harness.Within(t, harness.Patience), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list.Items {
			out = append(out, netip.MustParseAddr(s.Spec.ClusterIP))
		}
	}
	return out
}

// platformVIPs returns what clients outside may ask: load balancers and floating IPs of the default VPC, and egress
// addresses, on which nothing listens.
func (m *randomCluster) platformVIPs(s *clusterstate.State) (out []traceTarget) {
	out = m.findTargetsOf(*s.Logical.Router(kubeovn.ManagementVpc))
	for _, a := range m.egressAddresses(s) {
		out = append(out, traceTarget{netip.AddrPortFrom(a, 80), "tcp"})
	}
	return out
}

// isNodeAddress reports whether a node has an address.
func (m *randomCluster) isNodeAddress(s *clusterstate.State, a netip.Addr) bool {
	return slices.ContainsFunc(s.Cluster.Nodes, func(n clusterstate.Node) bool { return slices.Contains(n.Addresses, a) })
}

// egressAddresses returns the addresses of EgressIPs.
func (m *randomCluster) egressAddresses(s *clusterstate.State) (out []netip.Addr) {
	for _, e := range s.Cluster.EgressIPs {
		for _, a := range e.Addresses {
			out = append(out, netip.MustParseAddr(a))
		}
	}
	return out
}

// traceQuestion traces a question. What leaves through a node is traced once more, from the node's address: a VIP of the
// cluster may be behind its uplink.
func (m *randomCluster) traceQuestion(tracer *trace.Tracer, q *traceQuestion) {
	q.paths, q.beyond = tracer.Trace(q.Query).Paths, map[string][]trace.Path{}
	for _, p := range q.paths {
		if p.Code == trace.LeavesByNode {
			again := trace.Query{
				Client: netip.AddrPortFrom(m.uplinkAddress(p.About[0].Name), 0), Server: q.Server, Protocol: q.Protocol,
			}
			q.beyond[p.About[0].Name] = tracer.Trace(again).Paths
		}
	}
}

// uplinkAddress returns the address of a node on its uplink, which it translates packets of pods to.
func (m *randomCluster) uplinkAddress(node string) (out netip.Addr) {
	for _, n := range m.Blueprint.NodeList() {
		for _, x := range m.Blueprint.Segments() {
			if n.Name == node && x.Kind == blueprint.Plain {
				out = x.NodeAddresses(n)[0].Addr()
			}
		}
	}
	return out
}

// outcomesThroughNode returns the outcomes that are expected of a packet that leaves through the node that a path names:
// hosts outside answer and see that node's address, and so do backends of VIPs.
func (m *randomCluster) outcomesThroughNode(p trace.Path, q traceQuestion) (out []string) {
	node := p.About[0].Name
	if name := m.nameOfHost(q.Server.Addr()); name != "" && q.Server.Port() == 80 {
		return []string{fmt.Sprintf("%s answers and saw %s", name, m.uplinkAddress(node))}
	}
	for _, next := range q.beyond[node] {
		if len(next.RequestHops) == 0 { // of no external network
			return []string{outcomeSilence, outcomeRefused}
		}
		out = append(out, m.expectedOutcome(next, q))
	}
	return out
}
