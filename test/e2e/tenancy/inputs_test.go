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

// inputAttacks are those that what is read, and how, stops: addresses, names and endpoints that users write.
var inputAttacks = []attack{
	{"C2", edit, "EIp with the address of a host on an external segment", byReserve, reservedEIP("evil-x", "public")},
	{"C2", owner, "EIp with the address of a host on the default external segment", byReserve, reservedEIP("evil-x", "cloud")},
	{"C2", medit, "EIp of the management VPC with the address of a host on an external segment", byReserve, reservedEIP("mgmt-b", "public")},
	{"C2", edit, "Service with the address of a host on an external segment", byReserve, reservedService("evil-x", "cloud")},
	{"C2", medit, "Service of the management VPC with the address of a host on an external segment", byReserve, reservedService("mgmt-b", "public")},

	{"C3", owner, "targetRef with the gateway of another tenant's switch", byTypes, injectedTarget("evil-x", "shop.acme-web:10.30.0.1 240.0.0.9=x", "acme-web")},
	{"C3", owner, "targetRef with the gateway of the management VPC", byTypes, injectedTarget("evil-x", "dns.mgmt-a:10.16.0.1 240.0.0.9=x", "mgmt-a")},
	{"C3", owner, "targetRef with the port of another tenant's pod", byTypes, injectedTarget("evil-x", "shop.acme-web", "acme-web")},
	{"C3", owner, "targetRef with a new line", byTypes, injectedTarget("evil-x", "x\n10.30.0.2=shop.acme-web:10.30.0.1", "acme-web")},
	{
		"C3", mowner, "targetRef in the management VPC with the gateway of a tenant's switch", byTypes,
		injectedTarget("mgmt-b", "shop.acme-web:10.30.0.1 240.0.0.9=x", "acme-web"),
	},

	{"H2", owner, "an EndpointSlice of 8 million endpoints", byNetworks, hugeSlice("evil-x", 800)},
	{"H2", owner, "an EndpointSlice with 10,000 endpoints", byNetworks, hugeSlice("evil-x", 1)},
	{"H2", mowner, "an EndpointSlice with 200,000 endpoints in the management VPC", byNetworks, hugeSlice("mgmt-b", 20)},
	{"H2", owner, "Endpoints with 10,000 endpoints, which Kubernetes mirrors as EndpointSlices", byNetworks, refused(
		harness.TryCreate("endpoints/evil-x/new", mirroredEndpoints(500)), "at most 1,000 endpoints",
		harness.TryCreate("endpoints/evil-x/new", mirroredEndpoints(50)))},
	{"H2", owner, "6,000 endpoints in six EndpointSlices", byLimit, manySlices("evil-x")},
	{"H2", mowner, "6,000 endpoints in six EndpointSlices in the management VPC", byLimit, manySlices("mgmt-b")},

	{"L8", edit, "a type of network with quotes", byMalformed, junkAnnotation("network.kube-dc.com/external-network-type", `public" || ip4 || "`, "public")},
	{
		"L8", edit, "a type of network of 300 letters", byMalformed,
		junkAnnotation("network.kube-dc.com/external-network-type", strings.Repeat("a", 300), "public"),
	},
	{
		"L8", edit, "an EIp's name with escapes for the operator's terminal", byMalformed,
		junkAnnotation("service.nlb.kube-dc.com/bind-on-eip", "x\x1b[2J\nAll is well", "default-gw"),
	},
	{
		"L8", edit, "a health check with OVN's match language", byMalformed,
		junkAnnotation("service.nlb.kube-dc.com/health-check", `interval=1 || ip4.dst == 10.30.0.2`, "interval=5"),
	},
	{"L8", edit, "EIp with junk for a network", bySchema, refused(
		harness.TryCreate("eips/evil-x/new", `{spec: {externalNetwork: 'ext-public" || "'}}`), "is the name of an object",
		harness.TryCreate("eips/evil-x/new", `{spec: {externalNetwork: ext-public}}`))},
	{"L8", edit, "EIp with junk for a childRef", bySchema, refused(
		harness.TryCreate("eips/evil-x/new", `{spec: {childRef: "a b"}}`), "is the name of an object",
		harness.TryCreate("eips/evil-x/new", `{spec: {childRef: evil-x-ext-cloud}}`))},
	{"L8", edit, "FIp with junk for a pod", bySchema, refused(
		harness.TryCreate("fips/evil-x/new", `{spec: {podTarget: {podName: "mallory=x"}}}`), "is the name of an object",
		harness.TryCreate("fips/evil-x/new", `{spec: {podTarget: {podName: mallory}}}`))},
	{"L8", owner, "EgressRoute with junk for a network", bySchema, refused(
		harness.TryCreate("egressroutes/evil-x/new", `{spec: {destinations: [203.0.113.0/24], externalNetwork: "a,b"}}`), "is the name of an object",
		harness.TryCreate("egressroutes/evil-x/new", `{spec: {destinations: [203.0.113.0/24], externalNetwork: ext-public}}`))},

	{"L2", planner, "Project with the addresses of an external network", byOverlap, overlappingProject("91.224.11.0/25", "external network")},
	{"L2", planner, "Project around an external network", byOverlap, overlappingProject("100.0.0.0/8", "overlaps with")},
	{"L2", planner, "Project with the addresses that join nodes to OVN", byOverlap, overlappingProject("100.64.0.0/24", "Subnet join")},
	{"L2", planner, "Project with the addresses of the management VPC", byOverlap, overlappingProject("10.16.0.0/24", "Subnet ovn-default")},
	{"L2", planner, "Project with the addresses of nodes", byOverlap, overlappingProject("172.20.0.0/14", "node node")},
	{"L2", planner, "Project with addresses of class E, which Sallyport uses inside OVN", byOverlap, overlappingProject("240.0.0.0/24", "class E")},
	{"L2", planner, "Project with all addresses", bySchema, refused(
		harness.TryCreate("projects/evil/new", `{spec: {cidrBlock: 1.0.0.0/0, egressNetworkType: cloud}}`), "too wide",
		harness.TryCreate("projects/evil/new", `{spec: {cidrBlock: 11.0.0.0/8, egressNetworkType: cloud}}`))},
	{"L2", planner, "Project with half of all addresses", bySchema, refused(
		harness.TryCreate("projects/evil/new", `{spec: {cidrBlock: 128.0.0.0/1, egressNetworkType: cloud}}`), "too wide",
		harness.TryCreate("projects/evil/new", `{spec: {cidrBlock: 10.77.0.0/16, egressNetworkType: cloud}}`))},
}

// reservedEIP asks for the address of a host on a segment, which the operator has excluded; the control asks for one that is free.
func reservedEIP(namespace, network string) func(*testing.T, *fixture, actor) {
	return func(t *testing.T, f *fixture, who actor) {
		side := f.Network(t, network)
		who.MustApply(t, f, eip(namespace, "reserved", fmt.Sprintf("{externalNetworkType: %s, ipAddress: %s}", network, side.NeighbourAddress)))
		f.expectReason(t, harness.Ref("EIp", namespace, "reserved"), "Accepted", "AddressReserved")
		f.ExpectAnswer(t, side.Client, "http://"+side.NeighbourAddress, side.Neighbour, "")
		who.MustApply(t, f, eip(namespace, "free", fmt.Sprintf("{externalNetworkType: %s, ipAddress: %s}", network, freeAddress[network])))
		f.WaitInForce(t, "EIp", namespace, "free")
	}
}

// freeAddress is an address of a network that nobody else asks for.
var freeAddress = map[string]string{"public": "91.224.11.78", "cloud": "100.65.9.78"}

// balancerService is a Service of type LoadBalancer that sends connections to mallory.
func balancerService(namespace, name, annotations, spec string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: %s, annotations: {%s}},
  spec: {type: LoadBalancer, loadBalancerClass: kube-dc.com/sallyport, selector: {app: mallory}, ports: [{name: http, port: 80}]%s}}`, name, namespace, annotations, spec)
}

func reservedService(namespace, network string) func(*testing.T, *fixture, actor) {
	return func(t *testing.T, f *fixture, who actor) {
		side := f.Network(t, network)
		who.MustApply(t, f, balancerService(namespace, "pwn", "", ", loadBalancerIP: "+side.NeighbourAddress))
		f.expectReason(t, harness.Ref("Service", namespace, "pwn"), "Programmed", "WaitingForEIp")
		f.ExpectAnswer(t, side.Client, "http://"+side.NeighbourAddress, side.Neighbour, "")
		who.MustApply(t, f, balancerService(namespace, "own", "", ", loadBalancerIP: "+freeAddress[network]))
		f.Wait(t, "Service", namespace, "own", manifest.True("Programmed"))
		f.ExpectAnswer(t, side.Client, "http://"+freeAddress[network], "mallory", side.ClientAddress)
	}
}

// endpointSlice is a slice of a Service that somebody writes by hand.
func endpointSlice(namespace, service, ports, endpoints string) string {
	return fmt.Sprintf(`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: %s-by-hand, namespace: %s, labels: {kubernetes.io/service-name: %[1]s}},
  addressType: IPv4, ports: [%[3]s], endpoints: [%[4]s]}`, service, namespace, ports, endpoints)
}

// injectedTarget writes an endpoint that says it is something else than a pod of the namespace. The control is mallory, whose port OVN is told.
func injectedTarget(namespace, target, victim string) func(*testing.T, *fixture, actor) {
	return func(t *testing.T, f *fixture, who actor) {
		address := f.ReadStatus(t, "Pod", namespace, "mallory", "podIP")
		service := balancerService(namespace, "probed", `service.nlb.kube-dc.com/health-check: "true"`, "")
		who.MustApply(t, f, strings.Replace(service, "selector: {app: mallory}, ", "", 1))
		who.MustApply(t, f, endpointSlice(namespace, "probed", "{name: http, port: 80, protocol: TCP}", fmt.Sprintf(
			"{addresses: [%s], targetRef: {kind: Pod, name: mallory}}, {addresses: [%s], targetRef: {kind: Pod, name: %q}}", address, beside(address), target)))
		if namespace == "mgmt-b" { // there an endpoint has to be a pod of the namespace
			f.expectReason(t, harness.Ref("Service", namespace, "probed"), "Programmed", "EndpointNotInNamespace")
			f.SyncFlows(t)
		} else {
			f.Wait(t, "Service", namespace, "probed", manifest.True("Programmed"))
		}
		var probed string
		for _, row := range f.Table(t, "Load_Balancer", "") {
			if row["name"] == namespace+"-probed-tcp" {
				probed = fmt.Sprint(row["ip_port_mappings"])
			}
		}
		if !strings.Contains(probed, "mallory."+namespace+":") {
			t.Errorf("the control is not checked: ip_port_mappings are %s", probed)
		}
		if strings.Contains(probed, victim) || strings.Contains(probed, "240.0.0.9") || strings.Contains(probed, beside(address)) {
			t.Errorf("somebody else's port is in ip_port_mappings: %s", probed)
		}
		f.SyncFlows(t)
		f.ExpectAnswer(t, f.public.Client, "http://"+f.victims[0].fip, "shop", f.public.ClientAddress)
		f.ExpectAnswer(t, f.public.Client, "http://"+f.victims[0].lb, "shop", f.public.ClientAddress)
	}
}

// beside is an address of the same subnet that no pod has.
func beside(address string) string { return address[:strings.LastIndex(address, ".")+1] + "199" }

// hugeSlice writes 10,000 addresses with some ports in one EndpointSlice. The control is a slice with one address.
func hugeSlice(namespace string, ports int) func(*testing.T, *fixture, actor) {
	return func(t *testing.T, f *fixture, who actor) {
		who.MustApply(t, f, balancerService(namespace, "huge", "", ""))
		served := slicePorts(ports)
		err := who.Apply(t, f, endpointSlice(namespace, "huge", served, manyAddresses(0, 10000)))
		if err == nil || !strings.Contains(err.Error(), "at most 1,000 endpoints") {
			t.Errorf("writing it: %v", err)
		}
		who.MustApply(t, f, endpointSlice(namespace, "huge", served, manyAddresses(0, 1)))
	}
}

// manySlices writes more endpoints than are balanced, in slices that are each allowed. The control is one pod.
func manySlices(namespace string) func(*testing.T, *fixture, actor) {
	return func(t *testing.T, f *fixture, who actor) {
		const slices, ports, addresses = 6, 20, 50
		write := func(i int, endpoints string) {
			text := endpointSlice(namespace, "many", slicePorts(ports), endpoints)
			who.MustApply(t, f, strings.Replace(text, "many-by-hand", fmt.Sprintf("many-%d", i), 1))
		}
		who.MustApply(t, f, strings.Replace(balancerService(namespace, "many", "", ""), "{name: http, port: 80}", slicePorts(ports), 1))
		write(0, fmt.Sprintf("{addresses: [%s]}", f.ReadStatus(t, "Pod", namespace, "mallory", "podIP")))
		f.Wait(t, "Service", namespace, "many", manifest.True("Programmed"))
		before, _ := f.controller.Memory(t)
		for i := range slices {
			write(i, manyAddresses(i*addresses, addresses))
		}
		f.expectReason(t, harness.Ref("Service", namespace, "many"), "Programmed", "TooManyEndpoints")
		who.MustApply(t, f, eip(namespace, "after", "{externalNetworkType: public}")) // the controller has read the slices when this is in force
		f.WaitInForce(t, "EIp", namespace, "after")
		if after, most := f.controller.Memory(t); after > before+300 {
			t.Errorf("the controller had %d MiB, has %d and had %d at most", before, after, most)
		}
	}
}

// slicePorts are ports of an EndpointSlice or a Service.
func slicePorts(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("{name: p%d, port: %d, protocol: TCP}", i, 1000+i))
	}
	return strings.Join(out, ", ")
}

// mirroredEndpoints are Endpoints with addresses on 20 ports.
func mirroredEndpoints(addresses int) string {
	var out []string
	for i := range addresses {
		out = append(out, fmt.Sprintf("{ip: 10.200.%d.%d}", i/250, i%250+1))
	}
	return fmt.Sprintf("{subsets: [{addresses: [%s], ports: [%s]}]}", strings.Join(out, ", "), slicePorts(20))
}

// manyAddresses are endpoints with ten addresses each, none of which is a pod's.
func manyAddresses(from, n int) string {
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

// junkAnnotation writes an annotation that can't be read; the control is a good value.
func junkAnnotation(key, junk, good string) func(*testing.T, *fixture, actor) {
	return func(t *testing.T, f *fixture, who actor) {
		who.MustApply(t, f, balancerService("evil-x", "junk", fmt.Sprintf("%q: %q", key, junk), ""))
		f.expectReason(t, harness.Ref("Service", "evil-x", "junk"), "Accepted", "Malformed")
		who.MustApply(t, f, balancerService("evil-x", "good", fmt.Sprintf("%q: %q", key, good), ""))
		f.Wait(t, "Service", "evil-x", "good", manifest.True("Accepted"))
	}
}

// overlappingProject makes a Project whose prefix is somebody else's; the control has a prefix of its own.
func overlappingProject(cidr, words string) func(*testing.T, *fixture, actor) {
	project := func(name, cidr string) string {
		return fmt.Sprintf("{apiVersion: kube-dc.com/v1, kind: Project, metadata: {name: %s, namespace: evil}, spec: {cidrBlock: %s, egressNetworkType: cloud}}", name, cidr)
	}
	return func(t *testing.T, f *fixture, who actor) {
		who.MustApply(t, f, project("overlap", cidr))
		f.Wait(t, "Project", "evil", "overlap", func(o *unstructured.Unstructured) bool {
			return harness.ReasonOf(o, "Accepted") == "PrefixOverlaps" && strings.Contains(fmt.Sprint(o.Object["status"]), words)
		})
		who.MustApply(t, f, project("apart", "10.77.0.0/24"))
		f.Wait(t, "Project", "evil", "apart", manifest.True("Accepted"))
	}
}
