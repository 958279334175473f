package loadbalancer

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

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// ourClass is the load balancer class that a Service in the management VPC needs.
const ourClass = ", loadBalancerClass: kube-dc.com/sallyport"

// newManagementProject creates a project in a separate lab whose controller gives pods of the management VPC access to
// the cloud network.
func newManagementProject(t *testing.T) *harness.BackendProject {
	t.Helper()
	c := harness.StartLab(t, "management", harness.LoadTopology(t, "shared.yaml"))
	c.InstallSallyport(t)
	ctl := c.NewController(t, t.TempDir(), "--management-network-type", "cloud")
	ctl.Start(t)
	t.Cleanup(ctl.StopIfStarted)
	return c.NewBackendProject(t, "management", "10.54.0.0/24")
}

// inManagementNamespace creates a namespace in the management VPC and returns the fixture for it.
func inManagementNamespace(t *testing.T, h *harness.BackendProject, namespace string) *harness.BackendProject {
	t.Helper()
	h.CreateNamespace(t, namespace, "")
	return &harness.BackendProject{Cluster: h.Cluster, Namespace: namespace, Pods: map[string]string{}}
}

// showManagement shows that Services of two namespaces of the management VPC answer on three networks, to clients near
// and far and to a pod in the same VPC; that one without a class is ignored; and that nothing remains when all are
// deleted.
func showManagement(t *testing.T, h *harness.BackendProject) string {
	one, two := inManagementNamespace(t, h, "manage-one"), inManagementNamespace(t, h, "manage-two")
	one.RunPod(t, harness.Pod{Namespace: one.Namespace, Name: "m1", Node: "node1"})
	one.RunPod(t, harness.Pod{Namespace: one.Namespace, Name: "m3", Node: "node3"})
	two.RunPod(t, harness.Pod{Namespace: two.Namespace, Name: "m2", Node: "node2"})
	before := managementRows(t, h)
	asked := 0
	for _, kind := range harness.NetworkTypes {
		x := h.Network(t, kind)
		asks := harness.ServiceSpec{
			Name:        "on-" + kind,
			Annotations: "network.kube-dc.com/external-network-type: " + kind,
			ExtraFields: ourClass,
		}
		asks.Selector = "{app: m1}"
		first := one.CreateService(t, asks)
		asks.Selector = "{app: m2}"
		second := two.CreateService(t, asks)
		for where, saw := range map[string]string{
			"internet":  harness.InternetAddress,
			x.Client:    x.ClientAddress,
			x.Neighbour: x.NeighbourAddress,
		} {
			asked += h.ExpectBackends(t, where, "http://"+first, saw, "m1")
			asked += h.ExpectBackends(t, where, "http://"+second, saw, "m2")
		}
		asked += h.ExpectBackends(t, "m3."+one.Namespace, "http://"+second, "", "m2")
	}
	one.ApplyService(t, harness.ServiceSpec{Name: "classless", Selector: "{app: m1}"})
	one.CreateService(t, harness.ServiceSpec{Name: "after", Selector: "{app: m1}", ExtraFields: ourClass})
	if status := h.ReadField(t, "Service", one.Namespace, "classless", "status"); status != "map[loadBalancer:map[]]" {
		t.Errorf("a Service without a class has the status %s", status)
	}
	h.ExpectNoDrops(t)
	for _, side := range []*harness.BackendProject{one, two} {
		for _, kind := range harness.NetworkTypes {
			h.DeleteAndWait(t, "Service", side.Namespace, "on-"+kind)
		}
	}
	h.DeleteAndWait(t, "Service", one.Namespace, "after")
	harness.Eventually(t, "rows of the management VPC go", func() bool { return managementRows(t, h) == before })
	return fmt.Sprintf("%d requests to two namespaces by three networks, client's address seen, no router dropped anything; nothing is left", asked)
}

// managementRows counts our rows in the management VPC.
func managementRows(t *testing.T, h *harness.BackendProject) int {
	t.Helper()
	return countRows(t, (&harness.BackendProject{Cluster: h.Cluster, Namespace: "ovn-cluster"}))
}

// runProxy starts HAProxy in a pod: on port 80 it forwards to a server, and at /who it returns the client address that
// it saw.
func runProxy(t *testing.T, h *harness.BackendProject, name, node, server string) {
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
	h.RunPod(t, harness.Pod{
		Namespace: h.Namespace,
		Name:      name,
		Node:      node,
		Image:     "haproxy",
		Command:   []string{h.Parts.Program("haproxy"), "-db", "-f", file},
	})
	harness.Eventually(t, "HAProxy listens", func() bool { // a pod of the lab is Ready when its program runs
		_, err := h.SendRequest(name+"."+h.Namespace, "http://127.0.0.1/who")
		return err == nil
	})
}

// showProxySeesClient shows that a proxy behind load balancers on the default network and on a secondary network sees
// the client's address.
func showProxySeesClient(t *testing.T, h *harness.BackendProject) string {
	g := inManagementNamespace(t, h, "manage-proxy")
	runProxy(t, g, "edge", "node2", "")
	asked := 0
	for _, kind := range []string{"cloud", "public"} {
		x := h.Network(t, kind)
		address := g.CreateService(t, harness.ServiceSpec{
			Name:        "edge-" + kind,
			Selector:    "{app: edge}",
			Annotations: "network.kube-dc.com/external-network-type: " + kind,
			ExtraFields: ourClass,
		})
		for where, saw := range map[string]string{"internet": harness.InternetAddress, x.Client: x.ClientAddress} {
			asked += h.ExpectBackends(t, where, "http://"+address+"/who", saw, "edge")
		}
	}
	h.ExpectNoDrops(t)
	return fmt.Sprintf("%d requests: HAProxy saw the client's own address", asked)
}

// showAcrossVPCs shows a request from a client to the proxy's public address, from the proxy to the tenant's load
// balancer on the cloud network, and to the tenant's pod. The pod sees the address of the management VPC's router on
// that network.
func showAcrossVPCs(t *testing.T, h *harness.BackendProject) string {
	tenant := h.CreateService(t, harness.ServiceSpec{
		Name:        "behind",
		Annotations: "network.kube-dc.com/external-network-type: cloud",
	})
	g := inManagementNamespace(t, h, "manage-across")
	runProxy(t, g, "front", "node3", tenant+":80")
	address := g.CreateService(t, harness.ServiceSpec{
		Name:        "front",
		Selector:    "{app: front}",
		Annotations: "network.kube-dc.com/external-network-type: public",
		ExtraFields: ourClass,
	})
	router := h.ReadField(t, "OvnEip", "", "ovn-cluster-ext-cloud", "status", "v4Ip")
	// HAProxy's first SYN is lost while the router resolves its neighbour. The next is sent after a second, when the
	// client may have given up, and then the upstream router drops the late answer.
	harness.Eventually(t, "the routers know each other", func() bool {
		_, err := h.SendRequest("internet", "http://"+address)
		return err == nil
	})
	<-time.After(time.Second)
	h.ResetDrops(t)
	asked := h.ExpectBackends(t, "internet", "http://"+address, router, "b1", "b2", "b3")
	h.ExpectBackends(t, "internet", "http://"+address+"/who", harness.InternetAddress, "front")
	h.ExpectNoDrops(t)
	return fmt.Sprintf("%d requests: client → HAProxy in the management VPC (%s) → tenant's load balancer (%s) → pod; the pod saw %s", asked, address, tenant, router)
}

// showTwoGateways shows two proxies in two namespaces on one address that its owner shares, at ports 80 and 443; a
// third one that requests a port in use reports it.
func showTwoGateways(t *testing.T, h *harness.BackendProject) string {
	a, b := inManagementNamespace(t, h, "manage-a"), inManagementNamespace(t, h, "manage-b")
	runProxy(t, a, "gate-a", "node1", "")
	runProxy(t, b, "gate-b", "node3", "")
	address := h.CreateEIP(t, a.Namespace, "front", "{externalNetworkType: public, sharedWith: ["+b.Namespace+"]}")
	t.Cleanup(func() { h.DeleteAndWait(t, "EIp", a.Namespace, "front") })
	bind := "service.nlb.kube-dc.com/bind-on-eip: " + a.Namespace + "/front"
	first := a.CreateService(t, harness.ServiceSpec{
		Name:        "gate",
		Selector:    "{app: gate-a}",
		Annotations: bind,
		ExtraFields: ourClass,
	})
	second := b.CreateService(t, harness.ServiceSpec{
		Name:        "gate",
		Selector:    "{app: gate-b}",
		Ports:       "[{port: 443, targetPort: 80}]",
		Annotations: bind,
		ExtraFields: ourClass,
	})
	if first != address || second != address {
		t.Errorf("the EIp has %s, the Services have %s and %s", address, first, second)
	}
	h.ExpectAnswer(t, "internet", "http://"+address+":80/who", "gate-a", harness.InternetAddress)
	h.ExpectAnswer(t, "internet", "http://"+address+":443/who", "gate-b", harness.InternetAddress)
	b.ApplyService(t, harness.ServiceSpec{
		Name:        "late",
		Selector:    "{app: gate-b}",
		Annotations: bind,
		ExtraFields: ourClass,
	})
	b.WaitServiceCondition(t, "late", "Accepted=False PortTaken", "held by a Service of another namespace")
	if owners := h.ReadField(t, "EIp", a.Namespace, "front", "status", "owners"); !strings.Contains(owners, "gate") {
		t.Errorf("EIp front is held by %s", owners)
	}
	h.ExpectNoDrops(t)
	return fmt.Sprintf("HAProxy twice on %s, at 80 and 443; the third is told that its port is taken", address)
}

// showManagementGateway shows that the gateway works after others delete parts of it, after a restart of Kube-OVN, and
// after a move to another node, and that all rows are as before.
func showManagementGateway(t *testing.T, h *harness.BackendProject) string {
	const port, other = "ovn-cluster-ext-public", "ext-public-ovn-cluster"
	g := inManagementNamespace(t, h, "manage-gate")
	g.RunPod(t, harness.Pod{Namespace: g.Namespace, Name: "held", Node: "node1"})
	address := g.CreateService(t, harness.ServiceSpec{
		Name:        "held",
		Selector:    "{app: held}",
		Annotations: "network.kube-dc.com/external-network-type: public",
		ExtraFields: ourClass,
	})
	answers := func() {
		h.SyncFlows(t)
		h.ExpectAnswer(t, "internet", "http://"+address, "held", harness.InternetAddress)
	}
	answers()
	before := gatewayState(t, h, port, other)
	first := strings.Fields(h.RunNbctl(t, "lrp-get-gateway-chassis", port))[0]
	node := strings.TrimPrefix(first, port+"-")
	var took []string
	for what, hand := range map[string][]string{
		"router port":      {"lrp-del", port},
		"switch port":      {"lsp-del", other},
		"gateway chassis":  {"lrp-del-gateway-chassis", port, node},
		"another table":    {"set", "logical_router_port", port, "options:route_table=other"},
		"another priority": {"lrp-set-gateway-chassis", port, node, "1"},
	} {
		h.RunNbctl(t, hand...)
		after := harness.Eventually(t, what+": it is as it was", func() bool {
			return gatewayState(t, h, port, other) == before
		})
		took = append(took, fmt.Sprintf("%s %s", what, after.Round(10*time.Millisecond)))
		answers()
	}
	m := &harness.BackendProject{Cluster: h.Cluster, Namespace: "ovn-cluster"}
	restartKubeOVN(t, m, balancerUUIDs(t, m))
	if now := gatewayState(t, h, port, other); now != before {
		t.Errorf("after a restart of Kube-OVN the gateway is\n%s, and was\n%s", now, before)
	}
	answers()
	labelGateway(t, h, node, "false")
	t.Cleanup(func() { labelGateway(t, h, node, "true") })
	moved := harness.Eventually(t, "another node has it", func() bool {
		return !strings.Contains(h.RunNbctl(t, "lrp-get-gateway-chassis", port), node)
	})
	answers()
	slices.Sort(took)
	return fmt.Sprintf("back after: %s; Kube-OVN's restart leaves it; without its label %s loses it after %s",
		strings.Join(took, ", "), node, moved.Round(10*time.Millisecond))
}

// gatewayState returns a port of the management VPC's router on a network, as the database has it.
func gatewayState(t *testing.T, h *harness.BackendProject, port, other string) string {
	t.Helper()
	lines := []string{
		h.RunNbctl(t, "--bare", "--columns=mac,networks,options,external_ids", "find", "Logical_Router_Port",
			"name="+port),
		h.RunNbctl(t, "--bare", "--columns=type,options,external_ids", "find", "Logical_Switch_Port", "name="+other),
		h.RunNbctl(t, "lrp-get-gateway-chassis", port),
	}
	return strings.Join(lines, "\n")
}

// labelGateway sets whether a node may hold gateways.
func labelGateway(t *testing.T, h *harness.BackendProject, node, may string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata": {"labels": {"ovn.kubernetes.io/external-gw": %q}}}`, may)
	if _, err := h.Client.CoreV1().Nodes().Patch(harness.Within(t, harness.Patience), node, types.MergePatchType,
		[]byte(patch), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
}
