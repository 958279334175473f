package view

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// randomCluster is a random cluster: projects on several networks with addresses of every kind, some of which cannot
// work, and pods of Kube-OVN's default VPC, some of which have egress addresses. Equal seeds give equal clusters.
type randomCluster struct {
	*harness.Cluster
	*harness.Controller
	seed     uint64
	rng      *rand.Rand
	networks []string // types
	projects []string // namespaces
	pods     []string // namespace/name
	hostNode string   // the node with a pod on its host network
}

// randomNetworks are the external networks to choose from.
var randomNetworks = []struct{ kind, prefix string }{
	{"public", "91.224.11.0/24"},
	{"cloud", "100.65.0.0/16"},
	{"third", "198.19.7.0/24"},
	{"fourth", "203.0.113.128/25"},
}

// newRandomCluster creates a random cluster in a separate lab, and waits until nothing changes any more.
func newRandomCluster(t *testing.T, seed uint64) *randomCluster {
	t.Helper()
	m := &randomCluster{seed: seed, rng: rand.New(rand.NewPCG(seed, 8))}
	b := blueprint.Default()
	b.Nodes, b.Networks = 3+m.rng.IntN(2), nil
	b.Uplinks = []blueprint.Uplink{{Name: "uplink-a", Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/25")}}}
	b.Gateways = 2 + m.rng.IntN(b.Nodes-1)
	for i, n := range randomNetworks[:3+m.rng.IntN(2)] {
		m.networks = append(m.networks, n.kind)
		b.Networks = append(b.Networks, blueprint.Network{
			Name:     "ext-" + n.kind,
			Prefixes: []netip.Prefix{netip.MustParsePrefix(n.prefix)},
			Default:  i == 1,
		})
	}
	c := harness.StartLab(t, fmt.Sprintf("maze-%d", seed), b)
	c.InstallSallyport(t)
	m.Cluster, m.Controller = c, c.NewController(t, os.TempDir(), "--egressip-reachability-total-timeout=0",
		"--cluster-prefixes=10.96.0.0/12")
	m.StartForTest(t)
	for _, n := range b.NodeList()[b.Nodes-b.Gateways:] {
		if err := c.Objects.Apply(harness.Within(t, harness.Patience),
			fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {%s: ''}}}", n.Name,
				ovnv1.AssignableLabel)); err != nil {
			t.Fatal(err)
		}
	}
	m.createObjects(t)
	m.createPlatform(t)
	m.waitQuiet(t)
	m.WaitGatewaysSettled(t)
	return m
}

// withProbability returns true with a probability in percent.
func (m *randomCluster) withProbability(percent int) bool { return m.rng.IntN(100) < percent }

func pickOne[T any](m *randomCluster, of []T) T { return of[m.rng.IntN(len(of))] }

// createObjects creates networks, projects, pods, and the objects that give pods addresses.
func (m *randomCluster) createObjects(t *testing.T) {
	t.Helper()
	texts := []string{"{apiVersion: v1, kind: Namespace, metadata: {name: maze}}"}
	for i, kind := range m.networks {
		method := "Connection"
		if i > 1 && m.withProbability(40) {
			method = "Source"
		}
		texts = append(texts, fmt.Sprintf(
			"{apiVersion: kube-dc.com/v1alpha1, kind: ExternalNetwork, metadata: {name: %s}, spec: {type: %s, default: %t, subnets: [ext-%s], returnPath: %s}}",
			kind, kind, i == 1, kind, method))
	}
	for i := range 3 + m.rng.IntN(2) {
		name := fmt.Sprintf("p%d", i)
		m.projects = append(m.projects, "maze-"+name)
		texts = append(texts, fmt.Sprintf(
			"{apiVersion: kube-dc.com/v1, kind: Project, metadata: {name: %s, namespace: maze}, spec: {cidrBlock: 10.%d.0.0/24, egressNetworkType: %s}}",
			name, 41+m.rng.IntN(2), pickOne(m, m.networks[:2])))
	}
	m.applyAll(t, texts)
	for _, ns := range m.projects {
		m.WaitProgrammed(t, "Project", "maze", strings.TrimPrefix(ns, "maze-"))
		m.WaitForObject(t, "ServiceAccount", ns, "default", manifest.Exists)
	}
	texts = nil
	for _, ns := range m.projects {
		texts = append(texts, m.randomPods(ns)...)
		texts = append(texts, m.randomAddresses(ns)...)
		texts = append(texts, m.randomServices(ns)...)
		texts = append(texts, m.randomNetworkPolicies(ns)...)
	}
	m.applyAll(t, append(texts, m.randomEgress()...))
}

func (m *randomCluster) applyAll(t *testing.T, texts []string) {
	t.Helper()
	if err := m.Objects.Apply(harness.Within(t, harness.Patience), strings.Join(texts, "\n---\n")); err != nil {
		t.Fatal(err)
	}
}

// randomPods returns four pods on random nodes, of which one may never become ready.
func (m *randomCluster) randomPods(ns string) (out []string) {
	for i := range 4 {
		gate := ""
		if i == 3 && m.withProbability(50) {
			gate = "readinessGates: [{conditionType: never}], "
		} else {
			m.pods = append(m.pods, fmt.Sprintf("%s/w%d", ns, i))
		}
		out = append(out, fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: w%d, namespace: %s, labels: {app: w%d, pair: p%d, all: 'yes'}}, "+
			"spec: {nodeName: %s, %scontainers: [{name: main, image: lab/echo}]}}", i, ns, i, i/2,
			pickOne(m, m.Blueprint.NodeList()).Name, gate))
	}
	return out
}

// randomAddresses returns reserved addresses and floating IPs: some on those addresses, several for one pod, or on a
// network where the pod cannot have another one. With some, the pod's own connections leave with the address.
func (m *randomCluster) randomAddresses(ns string) (out []string) {
	for i := range 2 {
		out = append(out, fmt.Sprintf("{apiVersion: kube-dc.com/v1, kind: EIp, metadata: {name: e%d, namespace: %s}, spec: {externalNetworkType: %s}}", i, ns, pickOne(m, m.networks)))
	}
	for i := range 1 + m.rng.IntN(4) {
		from := "externalNetworkType: " + pickOne(m, m.networks)
		if i == 0 && m.withProbability(50) {
			from = "eip: e0"
		}
		out = append(out, fmt.Sprintf("{apiVersion: kube-dc.com/v1, kind: FIp, metadata: {name: f%d, namespace: %s}, "+
			"spec: {%s, outbound: %t, podTarget: {podName: w%d}}}", i, ns, from, m.withProbability(40), m.rng.IntN(4)))
	}
	return out
}

// randomServices returns load balancers of every kind.
func (m *randomCluster) randomServices(ns string) (out []string) {
	for i := range 2 + m.rng.IntN(3) {
		ports := []string{fmt.Sprintf("{name: a, port: 80, protocol: %s}", pickOne(m, []string{"TCP", "UDP"}))}
		if m.withProbability(50) {
			ports = append(ports, "{name: b, port: 443, targetPort: 8080}")
		}
		if m.withProbability(30) {
			// closed ports
			ports = append(ports, "{name: c, port: 80, targetPort: 81, protocol: SCTP}, {name: d, port: 7000, targetPort: 9}")
		}
		where := "network.kube-dc.com/external-network-type: " + pickOne(m, m.networks)
		switch m.rng.IntN(5) {
		case 0:
			where = "service.nlb.kube-dc.com/bind-on-eip: e1"
		case 1:
			where = "service.nlb.kube-dc.com/bind-on-default-gw-eip: 'true'"
		}
		more := ""
		if m.withProbability(30) {
			more += ", sessionAffinity: ClientIP"
		}
		if m.withProbability(30) {
			more += fmt.Sprintf(", loadBalancerSourceRanges: [%s]",
				pickOne(m, []string{"91.224.11.0/24", "100.64.0.0/10", "172.16.0.0/12", "10.41.0.0/16"}))
		}
		selector := pickOne(m, []string{"{all: 'yes'}", "{pair: p0}", "{pair: p1}", "{app: w3}", "{app: nobody}"})
		out = append(out, fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: s%d, namespace: %s, annotations: {%s}}, spec: {type: LoadBalancer, selector: %s, ports: [%s]%s}}",
			i, ns, where, selector, strings.Join(ports, ", "), more))
	}
	return out
}

// randomNetworkPolicies returns NetworkPolicies for ingress and egress of pods.
func (m *randomCluster) randomNetworkPolicies(ns string) (out []string) {
	if m.withProbability(60) {
		out = append(out, fmt.Sprintf("{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: in, namespace: %s}, spec: {podSelector: {matchLabels: {app: w%d}}, policyTypes: [Ingress], "+
			"ingress: [{from: [{ipBlock: {cidr: %s}}], ports: [{port: 80}, {port: 80, protocol: UDP}]}]}}",
			ns, m.rng.IntN(4), pickOne(m, []string{"91.224.11.0/24", "172.16.0.0/12", "0.0.0.0/0"})))
	}
	if m.withProbability(40) {
		out = append(out, fmt.Sprintf("{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: out, namespace: %s}, spec: {podSelector: {matchLabels: {app: w%d}}, policyTypes: [Egress], "+
			"egress: [{to: [{ipBlock: {cidr: %s}}]}]}}", ns, m.rng.IntN(4),
			pickOne(m, []string{"91.224.11.0/24", "172.16.0.0/12"})))
	}
	return out
}

// randomEgress returns an EgressIP and EgressRoutes.
func (m *randomCluster) randomEgress() (out []string) {
	if m.withProbability(80) {
		out = append(out, fmt.Sprintf("{apiVersion: k8s.ovn.org/v1, kind: EgressIP, metadata: {name: fixed}, spec: {egressIPs: [%s], "+
			"namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}, podSelector: {matchLabels: {pair: p1}}}}", m.unusedAddress(pickOne(m, m.networks), 200), pickOne(m, m.projects)))
	}
	for i, ns := range m.projects {
		if m.withProbability(40) {
			out = append(out, fmt.Sprintf(
				"{apiVersion: kube-dc.com/v1alpha1, kind: EgressRoute, metadata: {name: r%d, namespace: %s}, spec: {podSelector: {matchLabels: {pair: p0}}, "+
					"externalNetworkType: %s, destinations: [%s]}}", i, ns, pickOne(m, m.networks),
				pickOne(m, []string{harness.InternetAddress + "/32", "172.16.0.0/12", "91.224.11.0/24"})))
		}
	}
	return out
}

// unusedAddress returns the nth unused address of a network, of which Kube-OVN allocates only the first ones.
func (m *randomCluster) unusedAddress(kind string, nth int) string {
	i := slices.IndexFunc(randomNetworks, func(n struct{ kind, prefix string }) bool { return n.kind == kind })
	p := netip.MustParsePrefix(randomNetworks[i].prefix)
	bytes := p.Addr().As4()
	bytes[3] += byte(nth % (1<<min(8, 32-p.Bits()) - 8))
	return netip.AddrFrom4(bytes).String()
}

// waitQuiet waits until pods run, the controller has written nothing for a while, and every node has the flows.
func (m *randomCluster) waitQuiet(t *testing.T) {
	t.Helper()
	for _, name := range m.pods {
		ns, pod, _ := strings.Cut(name, "/")
		m.WaitForObject(t, "Pod", ns, pod, manifest.True("Ready"))
	}
	writes, since := -1.0, time.Now()
	for ctx := harness.Within(t, harness.Patience); time.Since(since) < 3*time.Second; {
		if now := m.CountWrites(t); now != writes {
			writes, since = now, time.Now()
		}
		select {
		case <-ctx.Done():
			t.Fatal("the controller does not stop writing")
		case <-time.After(200 * time.Millisecond):
		}
	}
	m.SyncFlows(t)
}
