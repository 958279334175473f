package tenancy

import (
	"fmt"
	"testing"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// controller is somebody who stole the token of the Sallyport controller.
const controller identity = "controller"

const (
	byPods       = "policy `sallyport-pods`"
	byNamespaces = "policy `sallyport-namespaces`"
	byNetworks   = "policy `sallyport-networks`"
	byLabels     = "policy `sallyport-labels`"
	byStatus     = "policy `sallyport-status`"
	byBounds     = "policy `sallyport-controller`"
	byAgents     = "policy `sallyport-agents`"

	chooses  = "choose a network, an address or a route"
	attaches = "may name attachments of namespace"
	exists   = "are Kube-OVN's once it exists"
)

const switchKey = "ovn.kubernetes.io/logical_switch"

// newPod tries to create a pod with an annotation.
func newPod(namespace, key, value string) harness.Attempt {
	return harness.TryCreate("pods/"+namespace+"/new",
		fmt.Sprintf(`{metadata: {annotations: {%q: %q}}, spec: {containers: [{name: main, image: lab/idle}]}}`, key, value))
}

// newWorkload tries to create a workload whose pods have an annotation.
func newWorkload(resource, key, value string) harness.Attempt {
	pod := fmt.Sprintf(`{metadata: {labels: {app: new}, annotations: {%q: %q}}, spec: {containers: [{name: main, image: lab/idle}]}}`, key, value)
	return harness.TryCreate(resource+"/evil-x/new", `{spec: {selector: {matchLabels: {app: new}}, template: `+pod+`}}`)
}

// podAttack is an attack with an annotation of a new pod; the control is another annotation.
func podAttack(by identity, does string, bad annotation, words string, good annotation) attack {
	namespace := accounts[by][0]
	return attack{"C1", by, does, byPods, refused(newPod(namespace, bad.key, bad.value), words, newPod(namespace, good.key, good.value))}
}

type annotation struct{ key, value string }

// admissionAttacks are those that admission policies stop.
var admissionAttacks = []attack{
	{"C1", edit, "a pod in another tenant's subnet; in its own it starts and reaches its own project only", byPods, ownSubnetOnly},
	podAttack(edit, "a pod in Kube-OVN's default subnet",
		annotation{switchKey, "ovn-default"}, chooses,
		annotation{switchKey, "evil-x-default"}),
	podAttack(edit, "a pod on an external segment",
		annotation{switchKey, "ext-public"}, chooses,
		annotation{switchKey, "evil-x-default"}),
	podAttack(edit, "a pod in the subnet that joins nodes",
		annotation{switchKey, "join"}, chooses,
		annotation{switchKey, "evil-x-default"}),
	podAttack(edit, "a second leg in another tenant's VPC",
		annotation{"default.acme-web.ovn.kubernetes.io/logical_switch", "acme-web-default"}, chooses,
		annotation{"default.evil-x.ovn.kubernetes.io/logical_switch", "evil-x-default"}),
	podAttack(edit, "another tenant's subnet for the own attachment",
		annotation{"default.evil-x.ovn.kubernetes.io/logical_switch", "acme-web-default"}, chooses,
		annotation{"default.evil-x.ovn.kubernetes.io/logical_switch", "evil-x-default"}),
	podAttack(edit, "another tenant's subnet for an interface",
		annotation{"default.evil-x.ovn.net1.kubernetes.io/logical_switch", "acme-web-default"}, chooses,
		annotation{"default.evil-x.ovn.net1.kubernetes.io/logical_switch", "evil-x-default"}),
	podAttack(edit, "another tenant's attachment",
		annotation{"k8s.v1.cni.cncf.io/networks", "acme-web/default"}, attaches,
		annotation{"k8s.v1.cni.cncf.io/networks", "evil-x/default"}),
	podAttack(edit, "another tenant's attachment behind the own",
		annotation{"k8s.v1.cni.cncf.io/networks", "default,acme-web/default"}, attaches,
		annotation{"k8s.v1.cni.cncf.io/networks", "default"}),
	podAttack(edit, "another tenant's attachment as JSON",
		annotation{"k8s.v1.cni.cncf.io/networks", `[{"name":"default","namespace":"acme-web"}]`}, attaches,
		annotation{"k8s.v1.cni.cncf.io/networks", `[{"name":"default","namespace":"evil-x"}]`}),
	podAttack(edit, "another tenant's attachment as JSON with a key in capitals",
		annotation{"k8s.v1.cni.cncf.io/networks", `[{"name":"default","NAMESPACE":"acme-web"}]`}, attaches,
		annotation{"k8s.v1.cni.cncf.io/networks", `[{"name":"default"}]`}),
	podAttack(edit, "another tenant's attachment as JSON with an escaped key",
		annotation{"k8s.v1.cni.cncf.io/networks", `[{"name":"default","\u006eamespace":"acme-web"}]`}, attaches,
		annotation{"k8s.v1.cni.cncf.io/networks", `[{"name":"default","interface":"net1"}]`}),
	podAttack(medit, "an attachment that is null, which ends Kube-OVN's controller",
		annotation{"k8s.v1.cni.cncf.io/networks", `[null]`}, attaches,
		annotation{"k8s.v1.cni.cncf.io/networks", `[{"name":"own"}]`}),
	podAttack(edit, "another tenant's attachment as the default network",
		annotation{"v1.multus-cni.io/default-network", "acme-web/default"}, attaches,
		annotation{"v1.multus-cni.io/default-network", "evil-x/default"}),
	podAttack(edit, "an address out of another tenant's pool",
		annotation{"ovn.kubernetes.io/ip_pool", "acme"}, chooses,
		annotation{"ovn.kubernetes.io/ip_pool", "10.66.0.50"}),
	podAttack(edit, "an address that was never given",
		annotation{"ovn.kubernetes.io/allocated", "true"}, chooses,
		annotation{"ovn.kubernetes.io/ip_address", "10.66.0.50"}),
	podAttack(edit, "another tenant's VIP",
		annotation{"ovn.kubernetes.io/vip", "acme"}, chooses,
		annotation{"ovn.kubernetes.io/port_security", "true"}),
	podAttack(edit, "an external address without an EIp",
		annotation{"ovn.kubernetes.io/eip", "91.224.11.9"}, chooses,
		annotation{"ovn.kubernetes.io/ingress_rate", "10"}),
	podAttack(edit, "a pod that Kube-OVN takes for a NAT gateway",
		annotation{"ovn.kubernetes.io/vpc_nat_gw", "acme"}, chooses,
		annotation{"ovn.kubernetes.io/egress_rate", "10"}),
	podAttack(edit, "another tenant's security group",
		annotation{"ovn.kubernetes.io/security_groups", "acme-web"}, chooses,
		annotation{"ovn.kubernetes.io/security_groups", "evil-x-own"}),
	podAttack(medit, "a pod of the management VPC in a tenant's subnet",
		annotation{switchKey, "acme-web-default"}, chooses,
		annotation{switchKey, "ovn-default"}),
	podAttack(medit, "a pod of the management VPC on an external segment",
		annotation{switchKey, "ext-cloud"}, chooses,
		annotation{switchKey, "ovn-default"}),
	podAttack(medit, "the address of the management VPC's gateway",
		annotation{"ovn.kubernetes.io/ip_address", "10.16.0.1"}, chooses,
		annotation{"ovn.kubernetes.io/ip_address", "10.16.0.201"}),
	podAttack(medit, "the MAC address of the management VPC's gateway",
		annotation{"ovn.kubernetes.io/mac_address", "00:00:00:00:00:01"}, chooses,
		annotation{"ovn.kubernetes.io/port_security", "true"}),
	podAttack(medit, "a tenant's attachment in the management VPC",
		annotation{"k8s.v1.cni.cncf.io/networks", "acme-web/default"}, attaches,
		annotation{"k8s.v1.cni.cncf.io/networks", "mgmt-b/own"}),
	podAttack(mowner, "a SNAT address in the management VPC",
		annotation{"ovn.kubernetes.io/snat", "91.224.11.9"}, chooses,
		annotation{"ovn.kubernetes.io/egress_rate", "10"}),
	{
		"C1", edit, "a Deployment in another tenant's subnet", byPods,
		refused(newWorkload("deployments", switchKey, "acme-web-default"), chooses, newWorkload("deployments", switchKey, "evil-x-default")),
	},
	{
		"C1", edit, "a StatefulSet with another tenant's attachment", byPods,
		refused(newWorkload("statefulsets", "k8s.v1.cni.cncf.io/networks", "acme-web/default"), attaches,
			newWorkload("statefulsets", "k8s.v1.cni.cncf.io/networks", "default")),
	},
	{
		"C1", edit, "a pod in the network of the node", byPods,
		refused(harness.TryCreate("pods/evil-x/new", `{spec: {hostNetwork: true, containers: [{name: main, image: lab/idle}]}}`), "hostNetwork would take the pod out",
			harness.TryCreate("pods/evil-x/new", `{spec: {hostNetwork: false, containers: [{name: main, image: lab/idle}]}}`)),
	},
	{
		"C1", edit, "moving a running pod into another tenant's subnet", byPods,
		refused(harness.TryPatch("pods/evil-x/mallory", `{"metadata":{"annotations":{"ovn.kubernetes.io/logical_switch":"acme-web-default","ovn.kubernetes.io/allocated":null}}}`),
			exists, harness.TryPatch("pods/evil-x/mallory", `{"metadata":{"annotations":{"a":"b"}}}`)),
	},
	{
		"C1", owner, "another address for a running pod by its status", byPods,
		refused(harness.TryPatch("pods/evil-x/mallory/status", `{"metadata":{"annotations":{"ovn.kubernetes.io/ip_address":"10.30.0.2"}}}`),
			exists, harness.TryPatch("pods/evil-x/mallory/status", `{"metadata":{"annotations":{"a":"b"}}}`)),
	},
	{"C1", owner, "another tenant's subnet in the binding of a pod", byPods, bindings},
	{
		"C1", owner, "another subnet for the own namespace", byNamespaces,
		refused(harness.TryPatch("namespaces//evil-x", `{"metadata":{"annotations":{"ovn.kubernetes.io/logical_switch":"ovn-default"}}}`),
			"choose the network of a namespace", harness.TryPatch("namespaces//evil-x", `{"metadata":{"annotations":{"a":"b"}}}`)),
	},
	{
		"C1", mowner, "a tenant's subnet for a namespace of the management VPC", byNamespaces,
		refused(harness.TryPatch("namespaces//mgmt-b", `{"metadata":{"annotations":{"ovn.kubernetes.io/logical_switch":"acme-web-default"}}}`),
			"choose the network of a namespace", harness.TryPatch("namespaces//mgmt-b", `{"metadata":{"annotations":{"a":"b"}}}`)),
	},
	{
		"C1", edit, "a Service at an address of another tenant's VPC", byNetworks,
		refused(harness.TryCreate("services/evil-x/new", `{metadata: {annotations: {ovn.kubernetes.io/logical_router: acme-web, ovn.kubernetes.io/logical_switch: acme-web-default,
  ovn.kubernetes.io/switch_lb_vip: 10.30.0.2}}, spec: {selector: {app: mallory}, ports: [{port: 80}]}}`),
			"choose the VPC and the address of a Service", harness.TryCreate("services/evil-x/new", `{spec: {selector: {app: mallory}, ports: [{port: 80}]}}`)),
	},
	{
		"C1", medit, "a Service at the address of another pod of the management VPC", byNetworks,
		refused(harness.TryCreate("services/mgmt-b/new", `{metadata: {annotations: {ovn.kubernetes.io/switch_lb_vip: 10.16.0.2}}, spec: {selector: {app: mallory}, ports: [{port: 80}]}}`),
			"choose the VPC and the address of a Service", harness.TryCreate("services/mgmt-b/new", `{spec: {selector: {app: mallory}, ports: [{port: 80}]}}`)),
	},
	{
		"C1", owner, "an attachment that takes a device of the node", byNetworks,
		refused(harness.TryCreate("network-attachment-definitions/evil-x/new", `{spec: {config: '{"type": "host-device", "device": "eth0"}'}}`),
			"attachments in projects are for the platform's operators", newPod("evil-x", "k8s.v1.cni.cncf.io/networks", "default")),
	},
	{
		"C1", owner, "a VpcEgressGateway in another tenant's VPC", byNetworks,
		refused(harness.TryCreate("vpc-egress-gateways/evil-x/new", `{spec: {vpc: acme-web, externalSubnet: ext-cloud}}`), "a VpcEgressGateway is a router",
			harness.TryCreate("egressroutes/evil-x/new", `{spec: {destinations: [203.0.113.0/24], externalNetworkType: public}}`)),
	},
	{
		"M2", edit, "a Service that blocks the deletion of another tenant's project", byLabels,
		refused(harness.TryCreate("services/evil-x/new", `{metadata: {labels: {app.kubernetes.io/managed-by: sallyport, kube-dc.com/vpc: acme-web}}, spec: {ports: [{port: 80}]}}`),
			"marks objects of the Sallyport controller", harness.TryCreate("services/evil-x/new", `{spec: {ports: [{port: 80}]}}`)),
	},
	{
		"M2", owner, "an EndpointSlice that blocks the deletion of another tenant's project", byLabels,
		refused(harness.TryCreate("endpointslices/evil-x/new", `{addressType: IPv4, endpoints: [], metadata: {labels: {app.kubernetes.io/managed-by: sallyport, kube-dc.com/vpc: acme-web}}}`),
			"marks objects of the Sallyport controller", harness.TryCreate("endpointslices/evil-x/new", `{addressType: IPv4, endpoints: []}`)),
	},
	{
		"M2", owner, "Endpoints whose labels Kubernetes copies to an EndpointSlice", byLabels,
		refused(harness.TryCreate("endpoints/evil-x/new", `{metadata: {labels: {app.kubernetes.io/managed-by: sallyport, kube-dc.com/vpc: acme-web}}}`),
			"marks objects of the Sallyport controller", harness.TryCreate("endpoints/evil-x/new", `{}`)),
	},
	{
		"M3", owner, "a label of the own namespace by which an EgressIP chooses", byNamespaces,
		refused(harness.TryPatch("namespaces//evil-x", `{"metadata":{"labels":{"team":"pay"}}}`), "by their labels",
			harness.TryPatch("namespaces//evil-x", `{"metadata":{"annotations":{"team":"pay"}}}`)),
	},
	{
		"M3", owner, "lower Pod Security of the own namespace", byNamespaces,
		refused(harness.TryPatch("namespaces//evil-x", `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`), "by their labels",
			harness.TryPatch("namespaces//evil-x", `{"metadata":{"annotations":{"a":"b"}}}`)),
	},
	{"M7", controller, "delete a namespace that is not the controller's", byBounds, byController(
		harness.TryDelete("namespaces//mgmt-a"), "deletes objects with its own labels only", harness.TryDelete("namespaces//evil-x"))},
	{"M7", controller, "delete a Service of a tenant", byBounds, byController(
		harness.TryDelete("services/acme-web/shop"), "deletes objects with its own labels only", harness.TryDelete("services/acme-web/shop-ext"))},
	{"M7", controller, "delete Kube-OVN's default subnet", byBounds, byController(
		harness.TryDelete("subnets//ovn-default"), "deletes objects with its own labels only", harness.TryDelete("subnets//evil-x-default"))},
	{"M7", controller, "make a tenant's Service its own", byBounds, byController(
		harness.TryPatch("services/acme-web/shop", `{"metadata":{"labels":{"app.kubernetes.io/managed-by":"sallyport","kube-dc.com/vpc":"acme-web"}}}`),
		"changes objects with its own labels only", harness.TryPatch("services/acme-web/shop-ext", `{"metadata":{"labels":{"a":"b"}}}`))},
	{"M7", controller, "another default subnet for the management VPC", byBounds, byController(
		harness.TryPatch("vpcs//ovn-cluster", `{"spec":{"defaultSubnet":"acme-web-default"}}`), "the lists in the spec of Vpc ovn-cluster",
		harness.TryPatch("vpcs//evil-x", `{"metadata":{"labels":{"a":"b"}}}`))},
	{"L7", node, "an event in a tenant's namespace", "RBAC of the agent", refused(
		harness.TryCreate("events/acme-web/new", event("Pod", "shop", "sallyport-agent")), "cannot create resource",
		harness.TryCreate("events/default/new", event("NodePath", "node1", "sallyport-agent")))},
	{"L7", node, "an event about another node", byAgents, refused(
		harness.TryCreate("events/default/new", event("NodePath", "node2", "sallyport-agent")), "an agent reports on the node that it runs on",
		harness.TryCreate("events/default/new", event("Node", "node1", "sallyport-agent")))},
	{"L7", node, "an event about something else", byAgents, refused(
		harness.TryCreate("events/default/new", event("Namespace", "node1", "sallyport-agent")), "an agent tells of its node",
		harness.TryCreate("events/default/new", event("Node", "node1", "sallyport-agent")))},
	{"L7", node, "an event in the name of another program", byAgents, refused(
		harness.TryCreate("events/default/new", event("Node", "node1", "kubelet")), "an agent tells of its node",
		harness.TryCreate("events/default/new", event("Node", "node1", "sallyport-agent")))},
	{"L14", owner, "the address of a load balancer of ours", byStatus, serviceStatus},
}

// byController is an attack with the controller's token.
func byController(try harness.Attempt, words string, lookalike harness.Attempt) func(*testing.T, *fixture, actor) {
	return func(t *testing.T, f *fixture, _ actor) {
		t.Helper()
		stolen := harness.NewUser(t, string(controller), harness.LoadConfig(t, f.ControllerKubeconfig(t)))
		refused(try, words, lookalike)(t, f, actor{User: stolen})
	}
}

// event is an event about an object of the cluster.
func event(kind, name, by string) string {
	return fmt.Sprintf(`{eventTime: "2026-01-01T00:00:00.000000Z", type: Normal, reason: Attack, action: Attack, note: x, reportingController: %s,
  reportingInstance: x, regarding: {kind: %s, name: %s}}`, by, kind, name)
}

// ownSubnetOnly: pods that name a subnet are made in their own only, and from there no other tenant is reached.
func ownSubnetOnly(t *testing.T, f *fixture, who actor) {
	pod := func(name, subnet string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: evil-x, annotations: {%s: %s}},
  spec: {nodeName: node1, containers: [{name: main, image: lab/echo}]}}`, name, switchKey, subnet)
	}
	who.Cannot(t, "a pod in the victim's subnet", newPod("evil-x", switchKey, "acme-web-default"), chooses)
	who.MustApply(t, f, pod("spy", "evil-x-default"))
	f.Wait(t, "Pod", "evil-x", "spy", manifest.True("Ready"))
	o, err := f.Objects.Get(t.Context(), harness.Ref("Pod", "evil-x", "mallory"))
	if err != nil {
		t.Fatal(err)
	}
	f.ExpectAnswer(t, "spy.evil-x", "http://"+o.GetAnnotations()["ovn.kubernetes.io/ip_address"], "mallory", "")
	f.ExpectSilence(t, "spy.evil-x", "http://"+f.victims[0].pod)
}

// bindings: who binds a pod adds annotations to it.
func bindings(t *testing.T, f *fixture, who actor) {
	who.MustApply(t, f, `{apiVersion: v1, kind: Pod, metadata: {name: unbound, namespace: evil-x},
  spec: {schedulerName: nobody, containers: [{name: main, image: lab/idle}]}}`)
	bind := func(annotation string) harness.Attempt {
		return harness.TryCreate("pods/evil-x/unbound/binding", fmt.Sprintf(`{metadata: {annotations: {%s: acme-web-default}}, target: {kind: Node, name: node1}}`, annotation))
	}
	refused(bind(switchKey), exists, bind("example.com/a"))(t, f, who)
}

// serviceStatus: the address in the status of a Service is what others believe, unless the Service is another controller's.
func serviceStatus(t *testing.T, f *fixture, who actor) {
	who.MustApply(t, f, `
{apiVersion: v1, kind: Service, metadata: {name: pwn, namespace: evil-x}, spec: {type: LoadBalancer, selector: {app: mallory}, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: foreign, namespace: evil-x},
  spec: {type: LoadBalancer, loadBalancerClass: example.com/other, selector: {app: mallory}, ports: [{port: 80}]}}`)
	const status = `{"status":{"loadBalancer":{"ingress":[{"ip":"91.224.11.9"}]}}}`
	refused(harness.TryPatch("services/evil-x/pwn/status", status), "is written by the Sallyport controller",
		harness.TryPatch("services/evil-x/foreign/status", status))(t, f, who)
}
