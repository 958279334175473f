package ipv6

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

const (
	// ipv4Network is the default network as it is before IPv6 is added to it.
	ipv4Network = "{apiVersion: kube-dc.com/v1alpha1, kind: ExternalNetwork, metadata: {name: cloud}, " +
		"spec: {type: cloud, default: true, subnets: [ext-cloud]%s}}"
	withIPv6  = `, ipv6: {cidr: "2001:db8:18::/64", gateway: "2001:db8:18::1"%s}`
	internet6 = "[2001:db8:113::10]"
)

// lab is the lab of this theme, and a project with both families in it.
type lab struct {
	*harness.Cluster
	controller           *harness.Controller
	namespace            string
	wire                 blueprint.Segment // of the default network
	client4, client6     string            // addresses of the client behind the router
	external4, external6 string            // of the project's router
}

// startLab starts the lab with Sallyport. Its default network has IPv4 only so far.
func startLab(t *testing.T) *lab {
	t.Helper()
	s := &lab{Cluster: harness.StartLab(t, "ipv6", harness.LoadTopology(t, "ipv6.yaml"))}
	s.InstallSallyport(t)
	s.controller = s.NewController(t, t.TempDir())
	s.controller.StartForTest(t)
	segments := s.Blueprint.Segments()
	s.wire = segments[slices.IndexFunc(segments, func(x blueprint.Segment) bool { return x.Name == "ext-cloud" })]
	s.client4, s.client6 = s.wire.ClientSide[0].Peer.Addr().String(), s.wire.ClientSide[1].Peer.Addr().String()
	s.setIPv6(t, "")
	s.CreateOrganization(t, "six")
	s.namespace = s.CreateProject(t, "six", "web", "10.60.0.0/24,fd00:60::/64", "cloud")
	for i, name := range []string{"a", "b", "c"} {
		s.RunPod(t, harness.Pod{
			Namespace: s.namespace, Name: name, Node: fmt.Sprintf("node%d", i+1), Labels: map[string]string{"role": "web"},
			Address: fmt.Sprintf("10.60.0.1%[1]d,fd00:60::1%[1]d", i+1),
		})
	}
	s.external4 = s.ReadField(t, "Project", "six", "web", "status", "externalIP")
	return s
}

// setIPv6 sets spec.ipv6 of the default network, or removes it.
func (s *lab) setIPv6(t *testing.T, ipv6 string) {
	t.Helper()
	s.ApplyWithoutCleanup(t, fmt.Sprintf(ipv4Network, ipv6))
}

// addIPv6 adds IPv6 to the default network, and waits until the project's router has an address.
func (s *lab) addIPv6(t *testing.T) {
	t.Helper()
	s.setIPv6(t, fmt.Sprintf(withIPv6, ""))
	s.external6 = strings.TrimSuffix(s.waitNetworks(t, 2)[1], "/64")
	s.SyncFlows(t)
}

// portName is the router's port on the default network.
func (s *lab) portName() string { return s.namespace + "-ext-cloud" }

// waitNetworks waits until the router's port has a number of networks, and returns them, IPv4 first.
func (s *lab) waitNetworks(t *testing.T, count int) (out []string) {
	t.Helper()
	harness.Eventually(t, fmt.Sprintf("%d networks of port %s", count, s.portName()), func() bool {
		out = strings.Fields(strings.NewReplacer("[", "", "]", "", `"`, "", ",", " ").Replace(
			s.RunNbctl(t, "get", "Logical_Router_Port", s.portName(), "networks")))
		slices.SortFunc(out, func(a, b string) int { return strings.Count(a, ":") - strings.Count(b, ":") })
		return len(out) == count
	})
	return out
}

// listRows returns what decides about the addresses of the project's router, and of those of the other projects.
func (s *lab) listRows(t *testing.T) string {
	t.Helper()
	var out []string
	for _, table := range [][]string{
		{"NAT", "type,external_ip,logical_ip"},
		{"Logical_Router_Policy", "priority,match,nexthops"},
		{"Logical_Router_Static_Route", "ip_prefix,nexthop"},
		{"Static_MAC_Binding", "logical_port,ip,mac"},
	} {
		rows := strings.Split(s.RunNbctl(t, "--format=csv", "--no-headings", "--columns="+table[1], "list", table[0]), "\n")
		slices.Sort(rows)
		out = append(out, rows...)
	}
	return strings.Join(out, "\n")
}

// ingressAddresses returns all addresses in the status of a Service.
func ingressAddresses(o *unstructured.Unstructured) (out []string) {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "loadBalancer", "ingress")
	for _, i := range list {
		ip, _ := i.(map[string]any)["ip"].(string)
		out = append(out, ip)
	}
	return out
}

// createService applies a Service for the project's pods, and waits until it is programmed with a number of addresses.
func (s *lab) createService(t *testing.T, name, spec string, addresses int) (out []string) {
	t.Helper()
	s.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: %s}, "+
		"spec: {type: LoadBalancer, selector: {role: web}, %s}}", name, s.namespace, spec))
	s.WaitForObject(t, "Service", s.namespace, name, func(o *unstructured.Unstructured) bool {
		out = ingressAddresses(o)
		return manifest.True("Programmed")(o) && len(out) == addresses
	})
	s.SyncFlows(t)
	return out
}

// bracket writes an address as in a URL.
func bracket(address string) string {
	if strings.Contains(address, ":") {
		return "[" + address + "]"
	}
	return address
}
