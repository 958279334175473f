package e2e

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/lab/program"
)

// hall is a project with pods behind load balancers: b1, b2 and b3, one on each node, and cli, which is behind none.
type hall struct {
	*stage
	ns    string
	pods  map[string]string // their addresses
	marks int               // see seen
	flows sync.Map          // see asks
}

// asks asks, and says whether the same backend has answered the same port of the client before.
func (h *hall) asks(where, target string) (a program.Answer, again bool, err error) {
	if a, err = h.stage.ask(where, target); err != nil {
		return a, false, err
	}
	_, again = h.flows.LoadOrStore(fmt.Sprintf("%s from %s by %s", target, a.Saw, a.Name), true)
	return a, again, nil
}

// ask asks, as asks does.
func (h *hall) ask(where, target string) (program.Answer, error) {
	a, _, err := h.asks(where, target)
	return a, err
}

// feature is something that a load balancer does, how a user asks for it, and the test that shows it.
type feature struct {
	what, how string
	run       func(*hall, *testing.T) string
}

// features is what the reference page lists, in its order.
var features = []feature{
	{"an address of its own, for TCP, UDP and SCTP; the server sees the client's own address", "`type: LoadBalancer`", (*hall).ownAddress},
	{"a network by its type; replies leave by it, with no row for a backend", "annotation `network.kube-dc.com/external-network-type`", (*hall).byType},
	{"an address that was reserved, shared by several Services on different ports and protocols", "annotation `service.nlb.kube-dc.com/bind-on-eip`", (*hall).sharedEIp},
	{"a port that another Service has is refused, with the holder's name, and given when it is free", "(the same)", (*hall).clash},
	{"the address of the project's way out", "annotation `service.nlb.kube-dc.com/bind-on-default-gw-eip: \"true\"`", (*hall).onTheWayOut},
	{"a given address", "`loadBalancerIP`", (*hall).givenAddress},
	{"Services of another class are left alone", "`loadBalancerClass`", (*hall).classes},
	{"without endpoints connections are refused, not lost", "(always)", (*hall).withoutEndpoints},
	{"a client keeps its backend", "`sessionAffinity: ClientIP`, `timeoutSeconds`", (*hall).affinity},
	{"the client's address is kept and no node is passed through", "`externalTrafficPolicy: Local` (and `Cluster`)", (*hall).trafficPolicy},
	{"only some clients, from outside and from inside", "`loadBalancerSourceRanges`", (*hall).sourceRanges},
	{"a backend that does not answer gets no connections, though Kubernetes calls it ready", "annotation `service.nlb.kube-dc.com/health-check`", (*hall).healthChecks},
	{"endpoints that end and still serve are used when no other is ready", "(always)", (*hall).terminating},
	{"UDP flows to a backend that goes are forgotten, TCP connections may end by themselves", "(always)", (*hall).stale},
	{"the external address works from inside, for a backend itself too", "(always)", (*hall).fromInside},
	{"the external address as a headless Service", "(always: `NAME-ext`)", (*hall).external},
	{"a Backend of Envoy Gateway at the external address", "annotation `gateway.kube-dc.com/create-backend: \"true\"` (or `service.nlb.kube-dc.com/create-gateway-backend`)", (*hall).backend},
	{"a Service that stays without endpoints goes by itself", "annotation `service.nlb.kube-dc.com/autodelete: \"true\"` (after `--autodelete-after`, five minutes)", (*hall).autodelete},
	{"what somebody does to it in OVN is put right", "(always)", (*hall).putRight},
	{"what is asked for and can't be: IPv6 outside", "`ipFamilyPolicy`", (*hall).families},
	{"a Service that becomes another type, or goes, leaves nothing", "(always)", (*hall).leavesNothing},
	{"type and ports change while the address stays; what is no longer asked for is closed", "`type`, `ports`", (*hall).changes},
	{"who may reach it changes at any time", "`loadBalancerSourceRanges`", (*hall).rangesChange},
	{"affinity comes and goes, with either traffic policy", "`sessionAffinity`, `externalTrafficPolicy`", (*hall).affinitySwitched},
	{"nodes have no part in it: without node ports, and with any", "`allocateLoadBalancerNodePorts`, `externalTrafficPolicy`, `internalTrafficPolicy`", (*hall).nodesUnused},
	{"with policy Local too, an endpoint on any node is reached, and sees which pod asks", "`externalTrafficPolicy: Local`", (*hall).localMoves},
	{"endpoints that are not ready get nothing unless they are published", "`publishNotReadyAddresses`", (*hall).unready},
	{"readiness gates choose the backend", "`readinessGates` of pods", (*hall).gates},
	{"open connections to an endpoint that leaves go on, and new ones go to others", "(always)", (*hall).drains},
	{"a named target port has another number in each pod", "`targetPort: NAME`", (*hall).namedPorts},
	{"EndpointSlices that a user writes, several for a port; addresses outside the project are left out", "no `selector`", (*hall).writtenByHand},
	{"a UDP socket that was there before every backend hears each one, at any target port", "(always)", (*hall).oneSocket},
	{"large requests and answers", "(always)", (*hall).large},
	{"made again under the same name it works; others notice nothing; a wrong status is put right", "(always)", (*hall).again},
	{"deleted while the controller is away, it leaves nothing", "(always)", (*hall).whileAway},
	{"it goes on while the API server is away", "(always)", (*hall).withoutAPI},
	{"packets outside a connection's window do not end it", "(always)", (*hall).strays},
}

// managed is what it does in the management VPC. That has a lab of its own: no other test has something there.
var managed = []feature{
	{"in the management VPC: from any of its namespaces, on any network, with its way back", "`loadBalancerClass: kube-dc.com/sallyport`", (*hall).management},
	{"its gateway there follows the nodes that may hold it, and what somebody does to it is put right", "label `ovn.kubernetes.io/external-gw` of nodes", (*hall).managementGateway},
	{"a proxy in the management VPC sees the client's own address", "(the same)", (*hall).proxySeesClient},
	{"a proxy in the management VPC reaches a tenant's load balancer by its external address", "the controller's `--management-network-type`", (*hall).acrossVPCs},
	{"two gateways of different namespaces of the management VPC share an address", "annotation `service.nlb.kube-dc.com/bind-on-eip: NAMESPACE/EIP`", (*hall).twoGateways},
}

// TestBalancer1Features is every feature, by packets.
func TestBalancer1Features(t *testing.T) {
	item := balancers.Item(t, 1)
	show := func(h *hall, list []feature) {
		for _, f := range list {
			t.Run(f.what, func(t *testing.T) {
				h.resetDrops(t)
				if figure := f.run(h, t); !t.Failed() {
					item.Figure("%s: %s", f.what, figure)
				}
			})
		}
	}
	show(newHall(t, "features", "10.51.0.0/24"), features)
	show(managementHall(t), managed)
}

func newHall(t *testing.T, name, cidr string) *hall {
	t.Helper()
	return sallyport(t).hall(t, name, cidr)
}

// hall makes the project.
func (c *cluster) hall(t *testing.T, name, cidr string) *hall {
	t.Helper()
	c.organization(t, "hall")
	h := &hall{stage: &stage{cluster: c}, pods: map[string]string{}}
	h.ns = c.project(t, "hall", name, cidr, "cloud")
	for i, node := range []string{"node1", "node2", "node3"} {
		name := fmt.Sprintf("b%d", i+1)
		h.pods[name] = c.run(t, pod{namespace: h.ns, name: name, node: node, labels: map[string]string{"role": "backend"}})
	}
	h.pods["cli"] = c.run(t, pod{namespace: h.ns, name: "cli", node: "node2"})
	return h
}

// backends is the selector of all three.
const backends = "{role: backend}"

// web is one port of TCP.
const web = "[{port: 80}]"

// wish is a Service of type LoadBalancer. What is empty is left out.
type wish struct {
	name, selector, ports string
	annotations           string // "key: value, …"
	more                  string // ", field: value…"
}

func (h *hall) text(w wish) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: %s, annotations: {%s}}, spec: {type: LoadBalancer, selector: %s, ports: %s%s}}",
		w.name, h.ns, w.annotations, cmp.Or(w.selector, backends), cmp.Or(w.ports, web), w.more)
}

// ask4 writes a Service.
func (h *hall) ask4(t *testing.T, w wish) {
	t.Helper()
	h.apply(t, h.text(w))
}

// serve makes a Service, waits until it is in force, and returns its address.
func (h *hall) serve(t *testing.T, w wish) string {
	t.Helper()
	h.ask4(t, w)
	t.Cleanup(func() { h.remove(t, "Service", h.ns, w.name) })
	h.inForce(t, w.name)
	return h.addressOf(t, w.name)
}

// inForce waits until a Service says that it is in force and every node knows it.
func (h *hall) inForce(t *testing.T, name string) {
	t.Helper()
	h.wait(t, "Service", h.ns, name, manifest.True("Programmed"))
	h.sync(t)
}

// addressOf is the address that a Service shows; empty: none.
func (h *hall) addressOf(t *testing.T, name string) string {
	t.Helper()
	o, err := h.objects.Get(within(t, time.Minute), ref("Service", h.ns, name))
	if err != nil || o == nil {
		t.Fatalf("Service %s: %v", name, err)
	}
	return ingress(o)
}

func ingress(o *unstructured.Unstructured) string {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "loadBalancer", "ingress")
	for _, i := range list {
		ip, _ := i.(map[string]any)["ip"].(string)
		return ip
	}
	return ""
}

// says waits until a condition of a Service, such as "Accepted=False PortTaken", has a text.
func (h *hall) says(t *testing.T, name, condition, text string) {
	t.Helper()
	h.wait(t, "Service", h.ns, name, func(o *unstructured.Unstructured) bool {
		list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, item := range list {
			c, _ := item.(map[string]any)
			message, _ := c["message"].(string)
			if fmt.Sprintf("%s=%s %s", c["type"], c["status"], c["reason"]) == condition && strings.Contains(message, text) {
				return true
			}
		}
		return false
	})
}

// spread asks until each of the wanted backends has answered, and no other, and returns how often it asked.
func (h *hall) spread(t *testing.T, where, target, saw string, wanted ...string) int {
	t.Helper()
	left := map[string]bool{}
	for _, name := range wanted {
		left[name] = true
	}
	for n := 1; n <= 60; n++ {
		a, err := h.ask(where, target)
		for i := 0; err != nil && i < 2; i++ { // a packet can be lost while a neighbour is being asked for
			a, err = h.ask(where, target)
		}
		if err != nil {
			t.Errorf("%s → %s: %v", where, target, err)
			return n
		}
		if saw != "" && a.Saw.Addr().String() != saw {
			t.Errorf("%s → %s: %s saw %s, wanted %s", where, target, a.Name, a.Saw.Addr(), saw)
		}
		if _, known := left[a.Name]; !known {
			t.Errorf("%s → %s: %s answered, wanted one of %v", where, target, a.Name, wanted)
		}
		left[a.Name] = false
		if !anyTrue(left) {
			return n
		}
	}
	t.Errorf("%s → %s: 60 answers, and not one from some of %v", where, target, left)
	return 60
}

func anyTrue(m map[string]bool) bool {
	for _, v := range m {
		if v {
			return true
		}
	}
	return false
}

// eventually fails the test unless something holds within 15 s, and returns how long it took.
func eventually(t *testing.T, what string, holds func() bool) time.Duration {
	t.Helper()
	begun := time.Now()
	for time.Since(begun) < 15*time.Second {
		if holds() {
			return time.Since(begun)
		}
		<-time.After(20 * time.Millisecond)
	}
	t.Errorf("not within 15 s: %s", what)
	return time.Since(begun)
}

// sbctl asks the southbound database.
func (h *hall) sbctl(t *testing.T, args ...string) string {
	t.Helper()
	return h.tool(t, "ovn-sbctl", append([]string{"--db=unix:" + filepath.Join(h.Dir, "data/ovn/sb1.sock"), "--timeout=10", "--bare"}, args...)...)
}
