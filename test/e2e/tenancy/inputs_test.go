package tenancy

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

const (
	byReserve   = "condition `AddressReserved`"
	byTypes     = "typed rows, and pods looked up"
	byLimit     = "condition `TooManyEndpoints`"
	byMalformed = "condition `Malformed`"
	byOverlap   = "condition `PrefixOverlaps`"
	bySchema    = "validation of the CRD"
)

// inputAttacks are the attacks that input validation stops: addresses, names and endpoints that users write.
var inputAttacks = []attack{
	{
		"C2", tenantEditor, "EIp with the address of a host on an external segment", byReserve,
		requestReservedEIP("evil-x", "public"),
	},
	{
		"C2", tenantOwner, "EIp with the address of a host on the default external segment", byReserve,
		requestReservedEIP("evil-x", "cloud"),
	},
	{
		"C2", managementEditor, "EIp of the management VPC with the address of a host on an external segment",
		byReserve,
		requestReservedEIP("mgmt-b", "public"),
	},
	{
		"C2", tenantEditor, "Service with the address of a host on an external segment", byReserve,
		requestReservedService("evil-x", "cloud"),
	},
	{
		"C2", managementEditor, "Service of the management VPC with the address of a host on an external segment",
		byReserve, requestReservedService("mgmt-b", "public"),
	},

	{
		"C3", tenantOwner, "targetRef with the gateway of another tenant's switch", byTypes,
		injectTargetRef("evil-x", "shop.acme-web:10.30.0.1 240.0.0.9=x", "acme-web"),
	},
	{
		"C3", tenantOwner, "targetRef with the gateway of the management VPC", byTypes,
		injectTargetRef("evil-x", "dns.mgmt-a:10.16.0.1 240.0.0.9=x", "mgmt-a"),
	},
	{
		"C3", tenantOwner, "targetRef with the port of another tenant's pod", byTypes,
		injectTargetRef("evil-x", "shop.acme-web", "acme-web"),
	},
	{
		"C3", tenantOwner, "targetRef with a new line", byTypes,
		injectTargetRef("evil-x", "x\n10.30.0.2=shop.acme-web:10.30.0.1", "acme-web"),
	},
	{
		"C3", managementOwner, "targetRef in the management VPC with the gateway of a tenant's switch", byTypes,
		injectTargetRef("mgmt-b", "shop.acme-web:10.30.0.1 240.0.0.9=x", "acme-web"),
	},

	{"H2", tenantOwner, "an EndpointSlice of 8 million endpoints", byNetworks, writeHugeSlice("evil-x", 800)},
	{"H2", tenantOwner, "an EndpointSlice with 10,000 endpoints", byNetworks, writeHugeSlice("evil-x", 1)},
	{
		"H2", managementOwner, "an EndpointSlice with 200,000 endpoints in the management VPC", byNetworks,
		writeHugeSlice("mgmt-b", 20),
	},
	{
		"H2", tenantOwner, "Endpoints with 10,000 endpoints, which Kubernetes mirrors as EndpointSlices", byNetworks,
		expectRefused(
			harness.TryCreate("endpoints/evil-x/new", mirroredEndpoints(500)), "at most 1,000 endpoints",
			harness.TryCreate("endpoints/evil-x/new", mirroredEndpoints(50))),
	},
	{"H2", tenantOwner, "6,000 endpoints in six EndpointSlices", byLimit, writeManySlices("evil-x")},
	{
		"H2", managementOwner, "6,000 endpoints in six EndpointSlices in the management VPC", byLimit,
		writeManySlices("mgmt-b"),
	},

	{
		"L8", tenantEditor, "a type of network with quotes", byMalformed,
		writeJunkAnnotation("network.kube-dc.com/external-network-type", `public" || ip4 || "`, "public"),
	},
	{
		"L8", tenantEditor, "a type of network of 300 letters", byMalformed,
		writeJunkAnnotation("network.kube-dc.com/external-network-type", strings.Repeat("a", 300), "public"),
	},
	{
		"L8", tenantEditor, "an EIp's name with escapes for the operator's terminal", byMalformed,
		writeJunkAnnotation("service.nlb.kube-dc.com/bind-on-eip", "x\x1b[2J\nAll is well", "default-gw"),
	},
	{
		"L8", tenantEditor, "a health check with OVN's match language", byMalformed,
		writeJunkAnnotation("service.nlb.kube-dc.com/health-check", `interval=1 || ip4.dst == 10.30.0.2`, "interval=5"),
	},
	{"L8", tenantEditor, "EIp with junk for a network", bySchema, expectRefused(
		harness.TryCreate("eips/evil-x/new", `{spec: {externalNetwork: 'ext-public" || "'}}`),
		"is the name of an object",
		harness.TryCreate("eips/evil-x/new", `{spec: {externalNetwork: ext-public}}`))},
	{"L8", tenantEditor, "EIp with junk for a childRef", bySchema, expectRefused(
		harness.TryCreate("eips/evil-x/new", `{spec: {childRef: "a b"}}`), "is the name of an object",
		harness.TryCreate("eips/evil-x/new", `{spec: {childRef: evil-x-ext-cloud}}`))},
	{"L8", tenantEditor, "FIp with junk for a pod", bySchema, expectRefused(
		harness.TryCreate("fips/evil-x/new", `{spec: {podTarget: {podName: "mallory=x"}}}`), "is the name of an object",
		harness.TryCreate("fips/evil-x/new", `{spec: {podTarget: {podName: mallory}}}`))},
	{"L8", tenantOwner, "EgressRoute with junk for a network", bySchema, expectRefused(
		harness.TryCreate("egressroutes/evil-x/new",
			`{spec: {destinations: [203.0.113.0/24], externalNetwork: "a,b"}}`), "is the name of an object",
		harness.TryCreate("egressroutes/evil-x/new",
			`{spec: {destinations: [203.0.113.0/24], externalNetwork: ext-public}}`))},

	{
		"L2", projectPlanner, "Project with the addresses of an external network", byOverlap,
		createOverlappingProject("91.224.11.0/25", "external network"),
	},
	{
		"L2", projectPlanner, "Project around an external network", byOverlap,
		createOverlappingProject("100.0.0.0/8", "overlaps with"),
	},
	{
		"L2", projectPlanner, "Project with the addresses that join nodes to OVN", byOverlap,
		createOverlappingProject("100.64.0.0/24", "Subnet join"),
	},
	{
		"L2", projectPlanner, "Project with the addresses of the management VPC", byOverlap,
		createOverlappingProject("10.16.0.0/24", "Subnet ovn-default"),
	},
	{
		"L2", projectPlanner, "Project with the addresses of nodes", byOverlap,
		createOverlappingProject("172.20.0.0/14", "node node"),
	},
	{
		"L2", projectPlanner, "Project with addresses of class E, which Sallyport uses inside OVN", byOverlap,
		createOverlappingProject("240.0.0.0/24", "class E"),
	},
	{"L2", projectPlanner, "Project with all addresses", bySchema, expectRefused(
		harness.TryCreate("projects/evil/new", `{spec: {cidrBlock: 1.0.0.0/0, egressNetworkType: cloud}}`), "too wide",
		harness.TryCreate("projects/evil/new", `{spec: {cidrBlock: 11.0.0.0/8, egressNetworkType: cloud}}`))},
	{"L2", projectPlanner, "Project with half of all addresses", bySchema, expectRefused(
		harness.TryCreate("projects/evil/new", `{spec: {cidrBlock: 128.0.0.0/1, egressNetworkType: cloud}}`),
		"too wide",
		harness.TryCreate("projects/evil/new", `{spec: {cidrBlock: 10.77.0.0/16, egressNetworkType: cloud}}`))},
}

// requestReservedEIP requests the address of a host on a network that the operator has excluded; the control requests a
// free address.
func requestReservedEIP(namespace, network string) func(*testing.T, *attackFixture, actor) {
	return func(t *testing.T, f *attackFixture, who actor) {
		side := f.Network(t, network)
		who.MustApply(t, f, eipManifest(namespace, "reserved",
			fmt.Sprintf("{externalNetworkType: %s, ipAddress: %s}", network, side.NeighbourAddress)))
		f.expectReason(t, harness.ObjectRef("EIp", namespace, "reserved"), "Accepted", "AddressReserved")
		f.ExpectAnswer(t, side.Client, "http://"+side.NeighbourAddress, side.Neighbour, "")
		who.MustApply(t, f, eipManifest(namespace, "free",
			fmt.Sprintf("{externalNetworkType: %s, ipAddress: %s}", network, freeAddresses[network])))
		f.WaitProgrammedOnNodes(t, "EIp", namespace, "free")
	}
}

// freeAddresses are addresses that no other test requests, by network.
var freeAddresses = map[string]string{"public": "91.224.11.78", "cloud": "100.65.9.78"}

// loadBalancerManifest returns a Service of type LoadBalancer with mallory as backend.
func loadBalancerManifest(namespace, name, annotations, spec string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: %s, annotations: {%s}},
  spec: {type: LoadBalancer, loadBalancerClass: kube-dc.com/sallyport, selector: {app: mallory}, ports: [{name: http, port: 80}]%s}}`, name, namespace, annotations, spec)
}

func requestReservedService(namespace, network string) func(*testing.T, *attackFixture, actor) {
	return func(t *testing.T, f *attackFixture, who actor) {
		side := f.Network(t, network)
		who.MustApply(t, f, loadBalancerManifest(namespace, "pwn", "", ", loadBalancerIP: "+side.NeighbourAddress))
		f.expectReason(t, harness.ObjectRef("Service", namespace, "pwn"), "Programmed", "WaitingForEIp")
		f.ExpectAnswer(t, side.Client, "http://"+side.NeighbourAddress, side.Neighbour, "")
		who.MustApply(t, f, loadBalancerManifest(namespace, "own", "", ", loadBalancerIP: "+freeAddresses[network]))
		f.WaitForObject(t, "Service", namespace, "own", manifest.True("Programmed"))
		f.ExpectAnswer(t, side.Client, "http://"+freeAddresses[network], "mallory", side.ClientAddress)
	}
}

// endpointSliceManifest returns a manually written slice of a Service.
func endpointSliceManifest(namespace, service, ports, endpoints string) string {
	return fmt.Sprintf(`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: %s-by-hand, namespace: %s, labels: {kubernetes.io/service-name: %[1]s}},
  addressType: IPv4, ports: [%[3]s], endpoints: [%[4]s]}`, service, namespace, ports, endpoints)
}

// injectTargetRef writes an endpoint that refers to something other than a pod of the namespace. The control is
// mallory, whose port is written to OVN.
func injectTargetRef(namespace, target, victim string) func(*testing.T, *attackFixture, actor) {
	return func(t *testing.T, f *attackFixture, who actor) {
		address := f.ReadStatusField(t, "Pod", namespace, "mallory", "podIP")
		service := loadBalancerManifest(namespace, "probed", `service.nlb.kube-dc.com/health-check: "true"`, "")
		who.MustApply(t, f, strings.Replace(service, "selector: {app: mallory}, ", "", 1))
		who.MustApply(t, f, endpointSliceManifest(namespace, "probed", "{name: http, port: 80, protocol: TCP}",
			fmt.Sprintf(
				"{addresses: [%s], targetRef: {kind: Pod, name: mallory}}, {addresses: [%s], targetRef: {kind: Pod, name: %q}}", address, unusedAddress(address), target)))
		if namespace == "mgmt-b" { // there an endpoint must be a pod of the namespace
			f.expectReason(t, harness.ObjectRef("Service", namespace, "probed"), "Programmed", "EndpointNotInNamespace")
			f.SyncFlows(t)
		} else {
			f.WaitForObject(t, "Service", namespace, "probed", manifest.True("Programmed"))
		}
		var probed string
		for _, row := range f.ReadNBTable(t, "Load_Balancer", "") {
			if row["name"] == namespace+"-probed-tcp" {
				probed = fmt.Sprint(row["ip_port_mappings"])
			}
		}
		if !strings.Contains(probed, "mallory."+namespace+":") {
			t.Errorf("the control is not checked: ip_port_mappings are %s", probed)
		}
		if strings.Contains(probed, victim) || strings.Contains(probed, "240.0.0.9") ||
			strings.Contains(probed, unusedAddress(address)) {
			t.Errorf("somebody else's port is in ip_port_mappings: %s", probed)
		}
		f.SyncFlows(t)
		f.ExpectAnswer(t, f.public.Client, "http://"+f.victims[0].fip, "shop", f.public.ClientAddress)
		f.ExpectAnswer(t, f.public.Client, "http://"+f.victims[0].lb, "shop", f.public.ClientAddress)
	}
}

// unusedAddress returns an address of the same subnet that no pod has.
func unusedAddress(address string) string { return address[:strings.LastIndex(address, ".")+1] + "199" }

// writeHugeSlice writes 10,000 addresses with some ports in one EndpointSlice. The control is a slice with one address.
func writeHugeSlice(namespace string, ports int) func(*testing.T, *attackFixture, actor) {
	return func(t *testing.T, f *attackFixture, who actor) {
		who.MustApply(t, f, loadBalancerManifest(namespace, "huge", "", ""))
		served := slicePorts(ports)
		err := who.Apply(t, f, endpointSliceManifest(namespace, "huge", served, endpointAddresses(0, 10000)))
		if err == nil || !strings.Contains(err.Error(), "at most 1,000 endpoints") {
			t.Errorf("writing it: %v", err)
		}
		who.MustApply(t, f, endpointSliceManifest(namespace, "huge", served, endpointAddresses(0, 1)))
	}
}

// writeManySlices writes more endpoints than the limit, in slices that are each allowed. The control is one pod.
func writeManySlices(namespace string) func(*testing.T, *attackFixture, actor) {
	return func(t *testing.T, f *attackFixture, who actor) {
		const slices, ports, addresses = 6, 20, 50
		write := func(i int, endpoints string) {
			text := endpointSliceManifest(namespace, "many", slicePorts(ports), endpoints)
			who.MustApply(t, f, strings.Replace(text, "many-by-hand", fmt.Sprintf("many-%d", i), 1))
		}
		who.MustApply(t, f, strings.Replace(loadBalancerManifest(namespace, "many", "", ""), "{name: http, port: 80}",
			slicePorts(ports), 1))
		write(0, fmt.Sprintf("{addresses: [%s]}", f.ReadStatusField(t, "Pod", namespace, "mallory", "podIP")))
		f.WaitForObject(t, "Service", namespace, "many", manifest.True("Programmed"))
		before, _ := f.controller.MemoryUsage(t)
		for i := range slices {
			write(i, endpointAddresses(i*addresses, addresses))
		}
		f.expectReason(t, harness.ObjectRef("Service", namespace, "many"), "Programmed", "TooManyEndpoints")
		// when this EIp is Programmed the controller has read the slices
		who.MustApply(t, f, eipManifest(namespace, "after", "{externalNetworkType: public}"))
		f.WaitProgrammedOnNodes(t, "EIp", namespace, "after")
		if after, most := f.controller.MemoryUsage(t); after > before+300 {
			t.Errorf("the controller had %d MiB, has %d and had %d at most", before, after, most)
		}
	}
}

// slicePorts returns ports of an EndpointSlice or a Service.
func slicePorts(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("{name: p%d, port: %d, protocol: TCP}", i, 1000+i))
	}
	return strings.Join(out, ", ")
}

// mirroredEndpoints returns Endpoints with addresses on 20 ports.
func mirroredEndpoints(addresses int) string {
	var out []string
	for i := range addresses {
		out = append(out, fmt.Sprintf("{ip: 10.200.%d.%d}", i/250, i%250+1))
	}
	return fmt.Sprintf("{subsets: [{addresses: [%s], ports: [%s]}]}", strings.Join(out, ", "), slicePorts(20))
}

// endpointAddresses returns endpoints with ten addresses each, none of which belongs to a pod.
func endpointAddresses(from, n int) string {
	var out []string
	for i := from; i < from+n; i += 10 {
		var addresses []string
		for j := i; j < min(i+10, from+n); j++ {
			addresses = append(addresses, fmt.Sprintf("10.%d.%d.%d", 200+j/62500, j/250%250, j%250+1))
		}
		out = append(out, "{addresses: ["+strings.Join(addresses, ", ")+"]}")
	}
	return strings.Join(out, ", ")
}

// writeJunkAnnotation writes a malformed annotation; the control is a valid value.
func writeJunkAnnotation(key, junk, good string) func(*testing.T, *attackFixture, actor) {
	return func(t *testing.T, f *attackFixture, who actor) {
		who.MustApply(t, f, loadBalancerManifest("evil-x", "junk", fmt.Sprintf("%q: %q", key, junk), ""))
		f.expectReason(t, harness.ObjectRef("Service", "evil-x", "junk"), "Accepted", "Malformed")
		who.MustApply(t, f, loadBalancerManifest("evil-x", "good", fmt.Sprintf("%q: %q", key, good), ""))
		f.WaitForObject(t, "Service", "evil-x", "good", manifest.True("Accepted"))
	}
}

// createOverlappingProject creates a Project whose prefix overlaps; the control has a prefix of its own.
func createOverlappingProject(cidr, words string) func(*testing.T, *attackFixture, actor) {
	project := func(name, cidr string) string {
		return fmt.Sprintf("{apiVersion: kube-dc.com/v1, kind: Project, metadata: {name: %s, namespace: evil}, spec: {cidrBlock: %s, egressNetworkType: cloud}}", name, cidr)
	}
	return func(t *testing.T, f *attackFixture, who actor) {
		who.MustApply(t, f, project("overlap", cidr))
		f.WaitForObject(t, "Project", "evil", "overlap", func(o *unstructured.Unstructured) bool {
			return harness.FalseReason(o, "Accepted") == "PrefixOverlaps" &&
				strings.Contains(fmt.Sprint(o.Object["status"]), words)
		})
		who.MustApply(t, f, project("apart", "10.77.0.0/24"))
		f.WaitForObject(t, "Project", "evil", "apart", manifest.True("Accepted"))
	}
}
