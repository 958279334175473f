package platform

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// The Subnets of the default VPC besides ovn-default. Each is the Subnet of a namespace of its name, and both are Subnets
// of namespace shared.
var podSubnets = map[string]string{"gates": "10.50.0.0/24", "builds": "10.60.0.0/24"}

// podSubnetGateways are the gateways of these Subnets: each pod's node, and one node for all.
var podSubnetGateways = map[string]string{
	"gates": "gatewayType: distributed", "builds": "gatewayType: centralized, gatewayNode: node2",
}

// externalNetworkTypes are the default external network and a secondary one.
var externalNetworkTypes = []string{"cloud", "public"}

// balancedService is a Service and the pods behind it.
type balancedService struct {
	namespace, name string
	selector        string
	pods            []string
}

// balancedServices are Services with backends on three Subnets, and one with backends on two of them.
var balancedServices = []balancedService{
	{"mail", "first", "{app: s1}", []string{"s1"}},
	{"gates", "second", "{app: g1}", []string{"g1"}},
	{"builds", "third", "{app: b3}", []string{"b3"}},
	{"shared", "several", "{team: shared}", []string{"x1", "x3"}},
}

// hostService is a Service with backends on the network of two nodes, one of which may hold gateways.
var hostService = balancedService{"plain", "host", "{team: host}", []string{"h1", "h2"}}

// TestPlatform3Services shows load balancers, EgressIPs and floating IPs for pods on all Subnets of the default VPC.
func TestPlatform3Services(t *testing.T) {
	p := newPlatformFixture(t, "services")
	p.createSubnets(t)
	p.runHostPods(t)
	addresses := p.createServices(t)
	for _, f := range []struct {
		item int
		what string
		run  func(*platformFixture, *testing.T, map[string]string) string
	}{
		{3, "pods on three Subnets", (*platformFixture).checkServices},
		{1, "pods on other Subnets", (*platformFixture).checkSubnetEgress},
		{1, "fail closed on other Subnets", (*platformFixture).checkSubnetFailClosed},
		{2, "a pod on another Subnet", (*platformFixture).checkSubnetFIPs},
		{3, "pods on the host network", (*platformFixture).checkHostBackends},
		{3, "EndpointSlices that name others", (*platformFixture).checkForeignEndpoints},
		{3, "Kube-OVN restarts", (*platformFixture).checkServicesAfterRestart},
		{3, "commands", (*platformFixture).checkServiceCommands},
		{3, "deleted", (*platformFixture).checkServiceDeletion},
	} {
		t.Run(f.what, func(t *testing.T) {
			item := platformItems.Item(t, f.item)
			if figure := f.run(p, t, addresses); !t.Failed() {
				item.AddFigure("%s: %s", f.what, figure)
			}
		})
	}
}

// createSubnets creates the Subnets, their namespaces and pods. The nodes get the routes and the translation that
// Kube-OVN's agent would add.
func (p *platformFixture) createSubnets(t *testing.T) {
	t.Helper()
	for name, prefix := range podSubnets {
		for _, n := range p.Blueprint.NodeList() {
			p.RunInNetns(t, n.Name, "ip", "route", "add", prefix, "via", "100.64.0.1", "dev", "ovn0")
			p.RunInNetns(t, n.Name, "nft", "add rule ip platform post ip saddr "+prefix+" oifname uplink-a masquerade")
		}
		p.Apply(t, fmt.Sprintf("{apiVersion: kubeovn.io/v1, kind: Subnet, metadata: {name: %s}, spec: {vpc: ovn-cluster, "+
			"protocol: IPv4, cidrBlock: %s, natOutgoing: true, %s, namespaces: [%[1]s, shared]}}", name, prefix,
			podSubnetGateways[name]))
	}
	for name := range podSubnets {
		p.WaitForObject(t, "Subnet", "", name, harness.IsReady)
		p.CreateNamespace(t, name, name)
	}
	if err := p.Objects.Apply(harness.Within(t, harness.Patience),
		"{apiVersion: v1, kind: Namespace, metadata: {name: shared}}"); err != nil {
		t.Fatal(err)
	}
	p.WaitForObject(t, "Namespace", "", "shared", func(o *unstructured.Unstructured) bool {
		return o != nil && strings.Contains(o.GetAnnotations()["ovn.kubernetes.io/logical_switch"], ",")
	})
	p.WaitForObject(t, "ServiceAccount", "shared", "default", manifest.Exists)
	p.runPod(t, harness.Pod{Namespace: "gates", Name: "g1", Node: "node1"})
	p.runPod(t, harness.Pod{Namespace: "builds", Name: "b3", Node: "node3"})
	for pod, subnet := range map[string]string{"x1": "gates", "x3": "builds"} {
		p.runPod(t, harness.Pod{
			Namespace: "shared", Name: pod, Node: "node" + pod[1:], Labels: map[string]string{"team": "shared"},
			Annotations: map[string]string{"ovn.kubernetes.io/logical_switch": subnet},
		})
	}
}

// createServices creates each Service on each network, and returns the addresses by name and network type.
func (p *platformFixture) createServices(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	all := append(slices.Clone(balancedServices), hostService)
	for _, s := range all {
		for _, network := range externalNetworkTypes {
			p.Apply(t, newService(s.namespace, s.name+"-"+network, network, "selector: "+s.selector))
		}
	}
	for _, s := range all {
		for _, network := range externalNetworkTypes {
			out[s.name+"-"+network] = p.waitForAddress(t, s.namespace, s.name+"-"+network)
		}
	}
	p.WaitGatewaysSettled(t) // they are the first of this lab
	return out
}

// newService returns the manifest of a load balancer with port 80 of each protocol.
func newService(namespace, name, network, selector string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: %s, annotations: {network.kube-dc.com/external-network-type: %s}}, `+
		`spec: {type: LoadBalancer, loadBalancerClass: kube-dc.com/sallyport, %s, ports: [{name: tcp, port: 80}, `+
		`{name: udp, port: 80, protocol: UDP}, {name: sctp, port: 80, protocol: SCTP}]}}`, name, namespace, network, selector)
}

// waitForAddress waits until a Service is Programmed, and returns its address.
func (p *platformFixture) waitForAddress(t *testing.T, namespace, name string) (address string) {
	t.Helper()
	p.WaitForObject(t, "Service", namespace, name, func(o *unstructured.Unstructured) bool {
		address = harness.IngressIP(o)
		return address != "" && manifest.True("Programmed")(o)
	})
	return address
}

// expectBalanced checks that clients outside reach the pods of a Service by each protocol and see their own addresses
// preserved, through the network of the Service. It returns the number of requests.
func (p *platformFixture) expectBalanced(t *testing.T, s balancedService, network, address string) (asked int) {
	t.Helper()
	x := p.Network(t, network)
	for from, saw := range map[string]string{
		"internet": harness.InternetAddress, x.Client: x.ClientAddress, x.Neighbour: x.NeighbourAddress,
	} {
		if len(s.pods) == 1 {
			asked += p.ExpectAnswers(t, from, address, s.pods[0], saw)
			continue
		}
		answered := map[string]bool{}
		for range 20 {
			a, err := p.SendRequest(from, "udp://"+address+":80")
			if asked++; err != nil || a.Saw.Addr().String() != saw || !slices.Contains(s.pods, a.Name) {
				t.Errorf("%s → %s: %q, %v; wanted one of %v to see %s", from, address, a.Text, err, s.pods, saw)
			}
			answered[a.Name] = true
		}
		if len(answered) != len(s.pods) {
			t.Errorf("%s → %s: only %v answered, want %v", from, address, answered, s.pods)
		}
	}
	return asked
}

// checkServices shows that clients on both networks, and pods of all Subnets, reach pods of all Subnets.
func (p *platformFixture) checkServices(t *testing.T, addresses map[string]string) string {
	p.ResetDrops(t)
	asked := 0
	for _, s := range balancedServices {
		for _, network := range externalNetworkTypes {
			address := addresses[s.name+"-"+network]
			asked += p.expectBalanced(t, s, network, address)
			for _, from := range []string{"u1.mail", "g1.gates", "x3.shared"} {
				pod, _, _ := strings.Cut(from, ".")
				if len(s.pods) == 1 && pod != s.pods[0] {
					p.ExpectAnswer(t, from, "http://"+address, s.pods[0], p.podAddresses[pod])
					asked++
				}
			}
		}
	}
	// Connections that the pods open themselves leave through their nodes as before.
	p.ExpectAnswer(t, "u1.mail", "http://"+harness.InternetAddress, "internet", p.nodeAddresses["node1"])
	p.ExpectNoDrops(t)
	return fmt.Sprintf("%d requests on 2 networks, from outside and from pods of 3 Subnets; servers saw the client's own "+
		"address; routers dropped nothing", asked)
}

// runHostPods runs pods on the network of two nodes.
func (p *platformFixture) runHostPods(t *testing.T) {
	t.Helper()
	for _, pod := range hostService.pods {
		p.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: plain, labels: {team: host}}, "+
			"spec: {nodeName: node%s, hostNetwork: true, containers: [{name: main, image: lab/echo, ports: [{containerPort: 80}]}]}}", pod, pod[1:]))
	}
	for _, pod := range hostService.pods {
		p.WaitForObject(t, "Pod", "plain", pod, manifest.True("Ready"))
	}
}

// checkHostBackends shows that clients reach pods on the network of nodes, which see an address of the pods' subnet that
// belongs to the external network, and that pods inside reach them with their own address.
func (p *platformFixture) checkHostBackends(t *testing.T, addresses map[string]string) string {
	p.ResetDrops(t)
	asked, sources := 0, map[string]string{}
	for _, network := range externalNetworkTypes {
		x, address := p.Network(t, network), addresses[hostService.name+"-"+network]
		for _, from := range []string{"internet", x.Client, x.Neighbour} {
			answered := map[string]bool{}
			for i := range 24 {
				proto := harness.Protocols[i%len(harness.Protocols)]
				a, err := p.SendRequest(from, proto+"://"+address+":80")
				if asked++; err != nil {
					t.Errorf("%s → %s://%s: %v", from, proto, address, err)
					continue
				}
				answered[a.Name], sources[a.Saw.Addr().String()] = true, network
			}
			if len(answered) != len(hostService.pods) {
				t.Errorf("%s → %s: %v answered, want %v", from, address, answered, hostService.pods)
			}
		}
		p.expectHostAnswer(t, "g1", address)
	}
	if len(sources) != len(externalNetworkTypes) {
		t.Errorf("backends saw %v, want one address for each network", sources)
	}
	p.ExpectNoDrops(t)
	p.expectNodeSourceNeeded(t, addresses[hostService.name+"-cloud"])
	return fmt.Sprintf("%d requests on 2 networks by 4 protocols, answered by 2 nodes, which saw %s; routers dropped nothing; "+
		"without the translation there is no answer", asked, strings.Join(slices.Sorted(maps.Keys(sources)), " and "))
}

// expectNodeSourceNeeded is the control of checkHostBackends: without the policy that leads packets to the translation,
// nodes answer through their own default route, and the client gets no answer.
func (p *platformFixture) expectNodeSourceNeeded(t *testing.T, address string) {
	t.Helper()
	resume := p.Pause(t)
	p.RunNbctl(t, "lr-policy-del", "ovn-cluster", strconv.Itoa(ownership.NodeBackend))
	p.SyncFlows(t)
	// Not TCP: the node would retransmit its answer through its own default route for a minute.
	answers := func() bool {
		_, err := p.SendRequest("client-ext-cloud", "udp://"+address+":80")
		return err == nil
	}
	// Open vSwitch may still have the flow in its cache.
	harness.Eventually(t, "no answer without the translation", func() bool { return !answers() })
	resume()
	harness.Eventually(t, "the policy is restored", answers)
}

// checkServiceCommands shows that trace and explain say what packets do. Each command waits for agents, which the lab
// does not have.
func (p *platformFixture) checkServiceCommands(t *testing.T, addresses map[string]string) string {
	commands := []struct {
		command string
		want    []string
	}{
		{"trace " + harness.InternetAddress + " " + addresses["second-public"] + ":80", []string{"Delivered", "gates/g1"}},
		{"trace " + harness.InternetAddress + " " + addresses["host-public"] + ":80", []string{"Delivered"}},
		{"trace " + harness.InternetAddress + " " + addresses["third-cloud"] + ":80", []string{"Delivered", "builds/b3"}},
		{"trace --from pod/g1 -n gates " + addresses["third-public"] + ":80", []string{"Delivered", "builds/b3"}},
		{"explain service/second-public -n gates", []string{p.podAddresses["g1"]}},
		{"explain service/host-cloud -n plain", []string{p.nodeInternalAddress(t, "node1")}},
	}
	commands = commands[:show.ChooseSize(len(commands), 2)]
	for _, c := range commands {
		out := p.runCommand(t, strings.Fields(c.command)...)
		for _, text := range c.want {
			if !strings.Contains(out, text) {
				t.Errorf("no %q in sallyport %s:\n%s", text, c.command, out)
			}
		}
	}
	return fmt.Sprintf("%d commands of trace and explain, about pods of other Subnets and on nodes", len(commands))
}

// checkForeignEndpoints shows that an EndpointSlice does not publish pods of other namespaces, of other Subnets, or nodes.
func (p *platformFixture) checkForeignEndpoints(t *testing.T, _ map[string]string) string {
	p.Apply(t, strings.Replace(newService("shared", "manual", "cloud", ""), "kube-dc.com/sallyport, ,", "kube-dc.com/sallyport,", 1))
	for _, attack := range []struct{ address, reason string }{
		{p.podAddresses["x1"], ""}, // the control: a pod of the namespace
		{p.podAddresses["g1"], "EndpointNotInNamespace"},
		{p.podAddresses["s1"], "EndpointNotInNamespace"},
		{p.nodeInternalAddress(t, "node2"), "EndpointIsNode"}, // a pod of another namespace runs there
		{p.nodeInternalAddress(t, "node3"), "EndpointIsNode"},
		{"100.64.0.2", "EndpointOutsideProject"},
		{"10.96.0.1", "EndpointOutsideProject"},
	} {
		p.Apply(t, fmt.Sprintf(`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: manual, namespace: shared, `+
			`labels: {kubernetes.io/service-name: manual}}, addressType: IPv4, ports: [{name: tcp, port: 80}], endpoints: [{addresses: [%s]}]}`,
			attack.address))
		p.WaitForObject(t, "Service", "shared", "manual", func(o *unstructured.Unstructured) bool {
			return harness.IngressIP(o) != "" && (attack.reason != "" && harness.FalseReason(o, "Programmed") == attack.reason ||
				attack.reason == "" && manifest.True("Programmed")(o))
		})
		p.SyncFlows(t)
		o, err := p.Objects.Get(harness.Within(t, harness.Patience), harness.ObjectRef("Service", "shared", "manual"))
		if err != nil {
			t.Fatal(err)
		}
		target := "http://" + harness.IngressIP(o)
		if attack.reason == "" {
			p.ExpectAnswer(t, "internet", target, "x1", harness.InternetAddress)
		} else {
			p.ExpectSilence(t, "internet", target)
		}
	}
	return "a pod of the namespace answers; pods of 2 other namespaces, a node, its address on the join Subnet and a ClusterIP do not"
}

// nodeInternalAddress returns the address of a node.
func (p *platformFixture) nodeInternalAddress(t *testing.T, node string) string {
	t.Helper()
	o, err := p.Objects.Get(harness.Within(t, harness.Patience), harness.ObjectRef("Node", "", node))
	if err != nil {
		t.Fatal(err)
	}
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "addresses")
	for _, entry := range list {
		if a, is := entry.(map[string]any); is && a["type"] == "InternalIP" {
			return a["address"].(string)
		}
	}
	t.Fatalf("node %s has no address", node)
	return ""
}

// checkServicesAfterRestart shows that Services work after a restart of Kube-OVN's controller, which removes all load
// balancers that it does not know.
func (p *platformFixture) checkServicesAfterRestart(t *testing.T, addresses map[string]string) string {
	p.ControlLab(t, "kill", "kube-ovn-controller")
	p.ControlLab(t, "start", "kube-ovn-controller")
	p.runPod(t, harness.Pod{Namespace: "gates", Name: "after", Node: "node2"}) // Kube-OVN gave it an address
	for _, s := range balancedServices {
		for _, network := range externalNetworkTypes {
			harness.Eventually(t, s.name+" answers", func() bool {
				_, err := p.SendRequest("internet", "http://"+addresses[s.name+"-"+network])
				return err == nil
			})
		}
	}
	p.SyncFlows(t)
	p.ResetDrops(t)
	asked := 0
	for _, s := range balancedServices {
		for _, network := range externalNetworkTypes {
			asked += p.expectBalanced(t, s, network, addresses[s.name+"-"+network])
		}
	}
	p.ExpectNoDrops(t)
	return fmt.Sprintf("%d requests answered as before", asked)
}

// checkServiceDeletion shows that a Subnet has no rows of Sallyport left when its last Service is deleted.
func (p *platformFixture) checkServiceDeletion(t *testing.T, _ map[string]string) string {
	rows := func() int { return strings.Count(p.RunNbctl(t, "lsp-list", "gates"), "-return") }
	before := rows()
	for _, s := range append(slices.Clone(balancedServices), hostService) {
		for _, network := range externalNetworkTypes {
			p.DeleteAndWait(t, "Service", s.namespace, s.name+"-"+network)
		}
	}
	harness.Eventually(t, "no return port is left", func() bool { return rows() == 0 })
	if before == 0 {
		t.Error("there were no return ports")
	}
	return fmt.Sprintf("%d ports of a Subnet, then none", before)
}

// expectHostAnswer checks that a backend on a node sees the own address of a pod in namespace gates.
func (p *platformFixture) expectHostAnswer(t *testing.T, pod, address string) {
	t.Helper()
	a, err := p.SendRequest(pod+".gates", "http://"+address)
	if err != nil || a.Saw.Addr().String() != p.podAddresses[pod] {
		t.Errorf("%s → %s: %q, %v; wanted a node to see %s", pod, address, a.Text, err, p.podAddresses[pod])
	}
}
