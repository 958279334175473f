package e2e

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ours is the class that a Service in the management VPC has to name.
const ours = ", loadBalancerClass: kube-dc.com/sallyport"

// managementHall is a hall in a lab of its own, whose controller lets pods of the management VPC reach the cloud network.
func managementHall(t *testing.T) *hall {
	t.Helper()
	c := own(t, "management", layout(t, "shared.yaml"))
	c.equip(t)
	ctl := c.controller(t, t.TempDir(), "--management-network-type", "cloud")
	ctl.start(t)
	t.Cleanup(ctl.end)
	return c.hall(t, "management", "10.54.0.0/24")
}

// in is the same hall seen from a namespace of the management VPC, which is made for it.
func (h *hall) in(t *testing.T, namespace string) *hall {
	t.Helper()
	h.namespace(t, namespace, "")
	return &hall{stage: h.stage, ns: namespace, pods: map[string]string{}}
}

// management: Services of two namespaces of the management VPC answer on three networks, to clients near and far and to a pod
// beside them; one without a class is not ours; and when all are gone nothing is left of them.
func (h *hall) management(t *testing.T) string {
	one, two := h.in(t, "manage-one"), h.in(t, "manage-two")
	one.run(t, pod{namespace: one.ns, name: "m1", node: "node1"})
	one.run(t, pod{namespace: one.ns, name: "m3", node: "node3"})
	two.run(t, pod{namespace: two.ns, name: "m2", node: "node2"})
	before := h.managementRows(t)
	asked := 0
	for _, kind := range kindsOfNetwork {
		x := h.network(t, kind)
		asks := wish{name: "on-" + kind, annotations: "network.kube-dc.com/external-network-type: " + kind, more: ours}
		asks.selector = "{app: m1}"
		first := one.serve(t, asks)
		asks.selector = "{app: m2}"
		second := two.serve(t, asks)
		for where, saw := range map[string]string{"internet": theInternet, x.client: x.clientAddress, x.neighbour: x.neighbourAddress} {
			asked += h.spread(t, where, "http://"+first, saw, "m1")
			asked += h.spread(t, where, "http://"+second, saw, "m2")
		}
		asked += h.spread(t, "m3."+one.ns, "http://"+second, "", "m2")
	}
	one.ask4(t, wish{name: "classless", selector: "{app: m1}"})
	one.serve(t, wish{name: "after", selector: "{app: m1}", more: ours})
	if status := h.field(t, "Service", one.ns, "classless", "status"); status != "map[loadBalancer:map[]]" {
		t.Errorf("a Service without a class has the status %s", status)
	}
	h.noDrops(t)
	for _, side := range []*hall{one, two} {
		for _, kind := range kindsOfNetwork {
			h.remove(t, "Service", side.ns, "on-"+kind)
		}
	}
	h.remove(t, "Service", one.ns, "after")
	eventually(t, "rows of the management VPC go", func() bool { return h.managementRows(t) == before })
	return fmt.Sprintf("%d requests to two namespaces by three networks, client's address seen, no router dropped anything; nothing is left", asked)
}

// managementRows are the rows of ours of the management VPC, without what its network is for.
func (h *hall) managementRows(t *testing.T) int {
	t.Helper()
	return (&hall{stage: h.stage, ns: "ovn-cluster"}).countRows(t)
}

// proxy starts HAProxy in a pod: on port 80 it asks a server, and at /who it answers itself whom it saw.
func (h *hall) proxy(t *testing.T, name, node, server string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), name+".cfg")
	text := fmt.Sprintf(`
global
  maxconn 200
defaults
  mode http
  timeout connect 3s
  timeout client 10s
  timeout server 10s
frontend door
  bind :80
  http-request return status 200 content-type text/plain lf-string "%s saw %%ci:%%cp" if { path /who }
  default_backend tenant
backend tenant
  server tenant %s
`, name, cmp.Or(server, "127.0.0.1:9"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h.run(t, pod{namespace: h.ns, name: name, node: node, image: "haproxy", command: []string{h.parts.Program("haproxy"), "-db", "-f", file}})
}

// proxySeesClient: the proxy is behind a load balancer on the default network and on a secondary one, and sees who asks.
func (h *hall) proxySeesClient(t *testing.T) string {
	g := h.in(t, "manage-proxy")
	g.proxy(t, "edge", "node2", "")
	asked := 0
	for _, kind := range []string{"cloud", "public"} {
		x := h.network(t, kind)
		address := g.serve(t, wish{name: "edge-" + kind, selector: "{app: edge}", annotations: "network.kube-dc.com/external-network-type: " + kind, more: ours})
		for where, saw := range map[string]string{"internet": theInternet, x.client: x.clientAddress} {
			asked += h.spread(t, where, "http://"+address+"/who", saw, "edge")
		}
	}
	h.noDrops(t)
	return fmt.Sprintf("%d requests: HAProxy saw the client's own address", asked)
}

// acrossVPCs: a client asks the proxy at its public address, the proxy asks the tenant's load balancer at its address on the cloud
// network, and the tenant's pod answers. It sees the address of the management VPC's router there.
func (h *hall) acrossVPCs(t *testing.T) string {
	tenant := h.serve(t, wish{name: "behind", annotations: "network.kube-dc.com/external-network-type: cloud"})
	g := h.in(t, "manage-across")
	g.proxy(t, "front", "node3", tenant+":80")
	address := g.serve(t, wish{name: "front", selector: "{app: front}", annotations: "network.kube-dc.com/external-network-type: public", more: ours})
	router := h.field(t, "OvnEip", "", "ovn-cluster-ext-cloud", "status", "v4Ip")
	// While the router asks for its neighbour, HAProxy's first SYN is lost; it sends the next after a second, when the client may have
	// given up, and then the upstream router drops the late answer.
	eventually(t, "the routers know each other", func() bool { _, err := h.ask("internet", "http://"+address); return err == nil })
	<-time.After(time.Second)
	h.resetDrops(t)
	asked := h.spread(t, "internet", "http://"+address, router, "b1", "b2", "b3")
	h.spread(t, "internet", "http://"+address+"/who", theInternet, "front")
	h.noDrops(t)
	return fmt.Sprintf("%d requests: client → HAProxy in the management VPC (%s) → tenant's load balancer (%s) → pod; the pod saw %s", asked, address, tenant, router)
}

// twoGateways: two proxies in two namespaces, on one address at ports 80 and 443; a third who wants a port that is taken is told.
func (h *hall) twoGateways(t *testing.T) string {
	a, b := h.in(t, "manage-a"), h.in(t, "manage-b")
	a.proxy(t, "gate-a", "node1", "")
	b.proxy(t, "gate-b", "node3", "")
	address := h.eip(t, a.ns, "front", "{externalNetworkType: public}")
	t.Cleanup(func() { h.remove(t, "EIp", a.ns, "front") })
	bind := "service.nlb.kube-dc.com/bind-on-eip: " + a.ns + "/front"
	first := a.serve(t, wish{name: "gate", selector: "{app: gate-a}", annotations: bind, more: ours})
	second := b.serve(t, wish{name: "gate", selector: "{app: gate-b}", ports: "[{port: 443, targetPort: 80}]", annotations: bind, more: ours})
	if first != address || second != address {
		t.Errorf("the EIp has %s, the Services have %s and %s", address, first, second)
	}
	h.answers(t, "internet", "http://"+address+":80/who", "gate-a", theInternet)
	h.answers(t, "internet", "http://"+address+":443/who", "gate-b", theInternet)
	b.ask4(t, wish{name: "late", selector: "{app: gate-b}", annotations: bind, more: ours})
	b.says(t, "late", "Accepted=False PortTaken", "held by Service "+a.ns+"/gate")
	if owners := h.field(t, "EIp", a.ns, "front", "status", "owners"); !strings.Contains(owners, "gate") {
		t.Errorf("EIp front is held by %s", owners)
	}
	h.noDrops(t)
	return fmt.Sprintf("HAProxy twice on %s, at 80 and 443; the third is told who has its port", address)
}

// managementGateway: somebody removes parts of the gateway, Kube-OVN is restarted, and another node has to hold it. It answers after
// each, with everything as it was.
func (h *hall) managementGateway(t *testing.T) string {
	const port, other = "ovn-cluster-ext-public", "ext-public-ovn-cluster"
	g := h.in(t, "manage-gate")
	g.run(t, pod{namespace: g.ns, name: "held", node: "node1"})
	address := g.serve(t, wish{name: "held", selector: "{app: held}", annotations: "network.kube-dc.com/external-network-type: public", more: ours})
	answers := func() { h.sync(t); h.answers(t, "internet", "http://"+address, "held", theInternet) }
	answers()
	before := h.gatewayState(t, port, other)
	first := strings.Fields(h.nbctl(t, "lrp-get-gateway-chassis", port))[0]
	node := strings.TrimPrefix(first, port+"-")
	var took []string
	for what, hand := range map[string][]string{
		"router port":      {"lrp-del", port},
		"switch port":      {"lsp-del", other},
		"gateway chassis":  {"lrp-del-gateway-chassis", port, node},
		"another table":    {"set", "logical_router_port", port, "options:route_table=other"},
		"another priority": {"lrp-set-gateway-chassis", port, node, "1"},
	} {
		h.nbctl(t, hand...)
		after := eventually(t, what+": it is as it was", func() bool { return h.gatewayState(t, port, other) == before })
		took = append(took, fmt.Sprintf("%s %s", what, after.Round(10*time.Millisecond)))
		answers()
	}
	m := &hall{stage: h.stage, ns: "ovn-cluster"}
	m.restartKubeOVN(t, m.balancerUUIDs(t))
	if now := h.gatewayState(t, port, other); now != before {
		t.Errorf("after a restart of Kube-OVN the gateway is\n%s, and was\n%s", now, before)
	}
	answers()
	h.label(t, node, "false")
	t.Cleanup(func() { h.label(t, node, "true") })
	moved := eventually(t, "another node has it", func() bool { return !strings.Contains(h.nbctl(t, "lrp-get-gateway-chassis", port), node) })
	answers()
	slices.Sort(took)
	return fmt.Sprintf("back after: %s; Kube-OVN's restart leaves it; without its label %s loses it after %s", strings.Join(took, ", "), node, moved.Round(10*time.Millisecond))
}

// gatewayState is a port of the management VPC's router on a network, as the database has it.
func (h *hall) gatewayState(t *testing.T, port, other string) string {
	t.Helper()
	lines := []string{
		h.nbctl(t, "--bare", "--columns=mac,networks,options,external_ids", "find", "Logical_Router_Port", "name="+port),
		h.nbctl(t, "--bare", "--columns=type,options,external_ids", "find", "Logical_Switch_Port", "name="+other),
		h.nbctl(t, "lrp-get-gateway-chassis", port),
	}
	return strings.Join(lines, "\n")
}

// label says of a node whether it may hold gateways.
func (h *hall) label(t *testing.T, node, may string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata": {"labels": {"ovn.kubernetes.io/external-gw": %q}}}`, may)
	if _, err := h.client.CoreV1().Nodes().Patch(within(t, time.Minute), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
}
