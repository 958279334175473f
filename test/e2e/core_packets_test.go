package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/manifest"
)

var (
	protocols   = []string{"http", "tcp", "udp", "sctp"}
	theInternet = blueprint.InternetAddresses()[0].String()
)

// By packets, and by nothing but Projects, EIps, FIps and pods.
func TestCore1ByPackets(t *testing.T) {
	item := core.Item(t, 1)
	c := sallyport(t)
	c.organization(t, "packets")
	s := &stage{
		cluster: c,
		// The same addresses inside: projects do not see each other there.
		cloud:  c.project(t, "packets", "cloud", "10.31.0.0/24", "cloud"),
		public: c.project(t, "packets", "public", "10.31.0.0/24", "public"),
	}
	for _, node := range []string{"node1", "node2", "node3"} { // only node2 and node3 may hold gateways
		c.run(t, pod{namespace: s.cloud, name: "plain-" + node, node: node})
		c.run(t, pod{namespace: s.public, name: "plain-" + node, node: node})
	}
	for _, part := range []struct {
		name string
		run  func(*stage, *testing.T) string
	}{
		{"way out", (*stage).wayOut},
		{"floating IPs on three networks", (*stage).threeNetworks},
		{"neighbours and other projects", (*stage).neighbours},
		{"only while there is a FIp", (*stage).onlyWithFIp},
		{"targets", (*stage).targets},
		{"another target and another EIp", (*stage).repoint},
		{"an EIp of its own", (*stage).ownEIp},
		{"an address that another project had", (*stage).handedOn},
		{"dual stack", (*stage).dualStack},
		{"IPv6 outside", (*stage).noIPv6Outside},
	} {
		t.Run(part.name, func(t *testing.T) {
			if figure := part.run(s, t); !t.Failed() {
				item.Figure("%s: %s", part.name, figure)
			}
		})
	}
}

// stage is two projects on different networks, each with a pod on every node.
type stage struct {
	*cluster
	cloud, public string // namespaces
}

// outside is a wire, with who is there.
type outside struct{ kind, client, clientAddress, neighbour, neighbourAddress string }

// network is the external network of a type.
func (s *stage) network(t *testing.T, kind string) outside {
	t.Helper()
	segments := s.blueprint.Segments()
	i := slices.IndexFunc(segments, func(s blueprint.Segment) bool { return s.Name == "ext-"+kind })
	if i < 0 {
		t.Fatalf("the lab has no network ext-%s", kind)
	}
	x := segments[i]
	return outside{kind, x.Client, x.ClientSide[0].Peer.Addr().String(), x.Neighbour, x.Neighbours[0].Addr().String()}
}

// field is a field of an object as text; empty when it is not there.
func (c *cluster) field(t *testing.T, kind, namespace, name string, path ...string) string {
	t.Helper()
	o, err := c.objects.Get(within(t, time.Minute), ref(kind, namespace, name))
	if err != nil {
		t.Fatal(err)
	}
	if o == nil {
		return ""
	}
	value, found, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
	if !found {
		return ""
	}
	return fmt.Sprint(value)
}

// upToDate holds when an object is in force as it is written now, not as it was before.
func upToDate(o *unstructured.Unstructured) bool {
	if !manifest.True("Programmed")(o) {
		return false
	}
	seen, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	return seen == o.GetGeneration()
}

// takesEffect waits until an object is in force and every node has what OVN made of it.
func (c *cluster) takesEffect(t *testing.T, kind, namespace, name string) {
	t.Helper()
	c.wait(t, kind, namespace, name, upToDate)
	c.sync(t)
}

// write applies an object of ours without waiting for anything.
func (c *cluster) write(t *testing.T, kind, namespace, name, spec string) {
	t.Helper()
	c.apply(t, fmt.Sprintf("{apiVersion: kube-dc.com/v1, kind: %s, metadata: {name: %s, namespace: %s}, spec: %s}", kind, name, namespace, spec))
}

// eip makes an EIp and returns its address.
func (c *cluster) eip(t *testing.T, namespace, name, spec string) string {
	t.Helper()
	c.write(t, "EIp", namespace, name, spec)
	c.takesEffect(t, "EIp", namespace, name)
	return c.field(t, "EIp", namespace, name, "status", "ipAddress")
}

// fip makes a FIp, or changes it, and returns its external address when it is in force.
func (c *cluster) fip(t *testing.T, namespace, name, spec string) string {
	t.Helper()
	c.write(t, "FIp", namespace, name, spec)
	c.takesEffect(t, "FIp", namespace, name)
	return c.field(t, "FIp", namespace, name, "status", "externalIP")
}

// remove deletes an object of ours and waits until it is gone and every node knows.
func (c *cluster) remove(t *testing.T, kind, namespace, name string) {
	t.Helper()
	text := fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: %s, namespace: %s}}", ref(kind, namespace, name).GVK.GroupVersion(), kind, name, namespace)
	if err := c.objects.Delete(within(t, time.Minute), text); err != nil {
		t.Fatal(err)
	}
	c.sync(t)
}

// everyWay asks by each protocol, and returns how many ways that were.
func (c *cluster) everyWay(t *testing.T, where, address, name, saw string) int {
	t.Helper()
	for _, proto := range protocols {
		c.answers(t, where, proto+"://"+address+":80", name, saw)
	}
	return len(protocols)
}

// wayOut: what pods without a floating IP send leaves with the address of the project's default gateway, by its network.
func (s *stage) wayOut(t *testing.T) string {
	ways := 0
	s.sync(t)
	s.resetDrops(t)
	for namespace, x := range map[string]outside{s.cloud: s.network(t, "cloud"), s.public: s.network(t, "public")} {
		name := namespace[len("packets-"):]
		external := s.field(t, "Project", "packets", name, "status", "externalIP")
		if gw := s.field(t, "EIp", namespace, "default-gw", "status", "ipAddress"); gw != external || external == "" {
			t.Errorf("Project %s has the external address %q and its EIp default-gw has %q", name, external, gw)
		}
		for _, from := range []string{"plain-node1", "plain-node2", "plain-node3"} {
			ways += s.everyWay(t, from+"."+namespace, theInternet, "internet", external)
			ways += s.everyWay(t, from+"."+namespace, x.clientAddress, x.client, external)
		}
	}
	s.noDrops(t)
	return fmt.Sprintf("%d ways from pods on three nodes, by either network, came from the project's default-gw address; no router dropped anything", ways)
}
