package tenancy

import (
	"fmt"
	"testing"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// stolenController is an attacker with the stolen token of the Sallyport controller.
const stolenController identity = "controller"

const (
	byPods       = "policy `sallyport-pods`"
	byNamespaces = "policy `sallyport-namespaces`"
	byNetworks   = "policy `sallyport-networks`"
	byLabels     = "policy `sallyport-labels`"
	byStatus     = "policy `sallyport-status`"
	byBounds     = "policy `sallyport-controller`"
	byAgents     = "policy `sallyport-agents`"

	msgChoosesNetwork  = "choose a network, an address or a route"
	msgNamesAttachment = "may name attachments of namespace"
	msgOwnedByKubeOVN  = "are Kube-OVN's once it exists"
)

const logicalSwitchKey = "ovn.kubernetes.io/logical_switch"

// tryPod attempts to create a pod with an annotation.
func tryPod(namespace, key, value string) harness.Attempt {
	return harness.TryCreate("pods/"+namespace+"/new",
		fmt.Sprintf(`{metadata: {annotations: {%q: %q}}, spec: {containers: [{name: main, image: lab/idle}]}}`, key,
			value))
}

// tryWorkload attempts to create a workload whose pods have an annotation.
func tryWorkload(resource, key, value string) harness.Attempt {
	pod := fmt.Sprintf(`{metadata: {labels: {app: new}, annotations: {%q: %q}}, spec: {containers: [{name: main, image: lab/idle}]}}`, key, value)
	return harness.TryCreate(resource+"/evil-x/new", `{spec: {selector: {matchLabels: {app: new}}, template: `+pod+`}}`)
}

// podAttack is an attack with an annotation of a new pod; the control is another annotation.
func podAttack(by identity, does string, bad annotation, words string, good annotation) attack {
	namespace := accounts[by][0]
	return attack{
		"C1", by, does, byPods,
		expectRefused(tryPod(namespace, bad.key, bad.value), words, tryPod(namespace, good.key, good.value)),
	}
}

type annotation struct{ key, value string }

// admissionAttacks are the attacks that admission policies stop.
var admissionAttacks = []attack{
	{
		"C1", tenantEditor, "a pod in another tenant's subnet; in its own it starts and reaches its own project only",
		byPods, attackForeignSubnet,
	},
	podAttack(tenantEditor, "a pod in Kube-OVN's default subnet",
		annotation{logicalSwitchKey, "ovn-default"}, msgChoosesNetwork,
		annotation{logicalSwitchKey, "evil-x-default"}),
	podAttack(tenantEditor, "a pod on an external segment",
		annotation{logicalSwitchKey, "ext-public"}, msgChoosesNetwork,
		annotation{logicalSwitchKey, "evil-x-default"}),
	podAttack(tenantEditor, "a pod in the subnet that joins nodes",
		annotation{logicalSwitchKey, "join"}, msgChoosesNetwork,
		annotation{logicalSwitchKey, "evil-x-default"}),
	podAttack(tenantEditor, "a second leg in another tenant's VPC",
		annotation{"default.acme-web.ovn.kubernetes.io/logical_switch", "acme-web-default"}, msgChoosesNetwork,
		annotation{"default.evil-x.ovn.kubernetes.io/logical_switch", "evil-x-default"}),
	podAttack(tenantEditor, "another tenant's subnet for the own attachment",
		annotation{"default.evil-x.ovn.kubernetes.io/logical_switch", "acme-web-default"}, msgChoosesNetwork,
		annotation{"default.evil-x.ovn.kubernetes.io/logical_switch", "evil-x-default"}),
	podAttack(tenantEditor, "another tenant's subnet for an interface",
		annotation{"default.evil-x.ovn.net1.kubernetes.io/logical_switch", "acme-web-default"}, msgChoosesNetwork,
		annotation{"default.evil-x.ovn.net1.kubernetes.io/logical_switch", "evil-x-default"}),
	podAttack(tenantEditor, "another tenant's attachment",
		annotation{"k8s.v1.cni.cncf.io/networks", "acme-web/default"}, msgNamesAttachment,
		annotation{"k8s.v1.cni.cncf.io/networks", "evil-x/default"}),
	podAttack(tenantEditor, "another tenant's attachment behind the own",
		annotation{"k8s.v1.cni.cncf.io/networks", "default,acme-web/default"}, msgNamesAttachment,
		annotation{"k8s.v1.cni.cncf.io/networks", "default"}),
	podAttack(tenantEditor, "another tenant's attachment as JSON",
		annotation{"k8s.v1.cni.cncf.io/networks", `[{"name":"default","namespace":"acme-web"}]`}, msgNamesAttachment,
		annotation{"k8s.v1.cni.cncf.io/networks", `[{"name":"default","namespace":"evil-x"}]`}),
	podAttack(tenantEditor, "another tenant's attachment as JSON with a key in capitals",
		annotation{"k8s.v1.cni.cncf.io/networks", `[{"name":"default","NAMESPACE":"acme-web"}]`}, msgNamesAttachment,
		annotation{"k8s.v1.cni.cncf.io/networks", `[{"name":"default"}]`}),
	podAttack(tenantEditor, "another tenant's attachment as JSON with an escaped key",
		annotation{"k8s.v1.cni.cncf.io/networks", `[{"name":"default","\u006eamespace":"acme-web"}]`},
		msgNamesAttachment,
		annotation{"k8s.v1.cni.cncf.io/networks", `[{"name":"default","interface":"net1"}]`}),
	podAttack(managementEditor, "an attachment that is null, which ends Kube-OVN's controller",
		annotation{"k8s.v1.cni.cncf.io/networks", `[null]`}, msgNamesAttachment,
		annotation{"k8s.v1.cni.cncf.io/networks", `[{"name":"own"}]`}),
	podAttack(tenantEditor, "another tenant's attachment as the default network",
		annotation{"v1.multus-cni.io/default-network", "acme-web/default"}, msgNamesAttachment,
		annotation{"v1.multus-cni.io/default-network", "evil-x/default"}),
	podAttack(tenantEditor, "an address out of another tenant's pool",
		annotation{"ovn.kubernetes.io/ip_pool", "acme"}, msgChoosesNetwork,
		annotation{"ovn.kubernetes.io/ip_pool", "10.66.0.50"}),
	podAttack(tenantEditor, "an address that was never given",
		annotation{"ovn.kubernetes.io/allocated", "true"}, msgChoosesNetwork,
		annotation{"ovn.kubernetes.io/ip_address", "10.66.0.50"}),
	podAttack(tenantEditor, "another tenant's VIP",
		annotation{"ovn.kubernetes.io/vip", "acme"}, msgChoosesNetwork,
		annotation{"ovn.kubernetes.io/port_security", "true"}),
	podAttack(tenantEditor, "an external address without an EIp",
		annotation{"ovn.kubernetes.io/eip", "91.224.11.9"}, msgChoosesNetwork,
		annotation{"ovn.kubernetes.io/ingress_rate", "10"}),
	podAttack(tenantEditor, "a pod that Kube-OVN takes for a NAT gateway",
		annotation{"ovn.kubernetes.io/vpc_nat_gw", "acme"}, msgChoosesNetwork,
		annotation{"ovn.kubernetes.io/egress_rate", "10"}),
	podAttack(tenantEditor, "another tenant's security group",
		annotation{"ovn.kubernetes.io/security_groups", "acme-web"}, msgChoosesNetwork,
		annotation{"ovn.kubernetes.io/security_groups", "evil-x-own"}),
	podAttack(managementEditor, "a pod of the management VPC in a tenant's subnet",
		annotation{logicalSwitchKey, "acme-web-default"}, msgChoosesNetwork,
		annotation{logicalSwitchKey, "ovn-default"}),
	podAttack(managementEditor, "a pod of the management VPC on an external segment",
		annotation{logicalSwitchKey, "ext-cloud"}, msgChoosesNetwork,
		annotation{logicalSwitchKey, "ovn-default"}),
	podAttack(managementEditor, "the address of the management VPC's gateway",
		annotation{"ovn.kubernetes.io/ip_address", "10.16.0.1"}, msgChoosesNetwork,
		annotation{"ovn.kubernetes.io/ip_address", "10.16.0.201"}),
	podAttack(managementEditor, "the MAC address of the management VPC's gateway",
		annotation{"ovn.kubernetes.io/mac_address", "00:00:00:00:00:01"}, msgChoosesNetwork,
		annotation{"ovn.kubernetes.io/port_security", "true"}),
	podAttack(managementEditor, "a tenant's attachment in the management VPC",
		annotation{"k8s.v1.cni.cncf.io/networks", "acme-web/default"}, msgNamesAttachment,
		annotation{"k8s.v1.cni.cncf.io/networks", "mgmt-b/own"}),
	podAttack(managementOwner, "a SNAT address in the management VPC",
		annotation{"ovn.kubernetes.io/snat", "91.224.11.9"}, msgChoosesNetwork,
		annotation{"ovn.kubernetes.io/egress_rate", "10"}),
	{
		"C1", tenantEditor, "a Deployment in another tenant's subnet", byPods,
		expectRefused(tryWorkload("deployments", logicalSwitchKey, "acme-web-default"), msgChoosesNetwork,
			tryWorkload("deployments", logicalSwitchKey, "evil-x-default")),
	},
	{
		"C1", tenantEditor, "a StatefulSet with another tenant's attachment", byPods,
		expectRefused(tryWorkload("statefulsets", "k8s.v1.cni.cncf.io/networks", "acme-web/default"),
			msgNamesAttachment,
			tryWorkload("statefulsets", "k8s.v1.cni.cncf.io/networks", "default")),
	},
	{
		"C1", tenantEditor, "a pod in the network of the node", byPods,
		expectRefused(harness.TryCreate("pods/evil-x/new",
			`{spec: {hostNetwork: true, containers: [{name: main, image: lab/idle}]}}`),
			"hostNetwork would take the pod out",
			harness.TryCreate("pods/evil-x/new",
				`{spec: {hostNetwork: false, containers: [{name: main, image: lab/idle}]}}`)),
	},
	{
		"C1", tenantEditor, "moving a running pod into another tenant's subnet", byPods,
		expectRefused(harness.TryPatch("pods/evil-x/mallory",
			`{"metadata":{"annotations":{"ovn.kubernetes.io/logical_switch":"acme-web-default","ovn.kubernetes.io/allocated":null}}}`),
			msgOwnedByKubeOVN, harness.TryPatch("pods/evil-x/mallory", `{"metadata":{"annotations":{"a":"b"}}}`)),
	},
	{
		"C1", tenantOwner, "another address for a running pod by its status", byPods,
		expectRefused(harness.TryPatch("pods/evil-x/mallory/status",
			`{"metadata":{"annotations":{"ovn.kubernetes.io/ip_address":"10.30.0.2"}}}`),
			msgOwnedByKubeOVN, harness.TryPatch("pods/evil-x/mallory/status",
				`{"metadata":{"annotations":{"a":"b"}}}`)),
	},
	{"C1", tenantOwner, "another tenant's subnet in the binding of a pod", byPods, attackPodBinding},
	{
		"C1", tenantOwner, "another subnet for the own namespace", byNamespaces,
		expectRefused(harness.TryPatch("namespaces//evil-x",
			`{"metadata":{"annotations":{"ovn.kubernetes.io/logical_switch":"ovn-default"}}}`),
			"choose the network of a namespace",
			harness.TryPatch("namespaces//evil-x", `{"metadata":{"annotations":{"a":"b"}}}`)),
	},
	{
		"C1", managementOwner, "a tenant's subnet for a namespace of the management VPC", byNamespaces,
		expectRefused(harness.TryPatch("namespaces//mgmt-b",
			`{"metadata":{"annotations":{"ovn.kubernetes.io/logical_switch":"acme-web-default"}}}`),
			"choose the network of a namespace",
			harness.TryPatch("namespaces//mgmt-b", `{"metadata":{"annotations":{"a":"b"}}}`)),
	},
	{
		"C1", tenantEditor, "a Service at an address of another tenant's VPC", byNetworks,
		expectRefused(harness.TryCreate("services/evil-x/new", `{metadata: {annotations: {ovn.kubernetes.io/logical_router: acme-web, ovn.kubernetes.io/logical_switch: acme-web-default,
  ovn.kubernetes.io/switch_lb_vip: 10.30.0.2}}, spec: {selector: {app: mallory}, ports: [{port: 80}]}}`),
			"choose the VPC and the address of a Service",
			harness.TryCreate("services/evil-x/new", `{spec: {selector: {app: mallory}, ports: [{port: 80}]}}`)),
	},
	{
		"C1", managementEditor, "a Service at the address of another pod of the management VPC", byNetworks,
		expectRefused(harness.TryCreate("services/mgmt-b/new",
			`{metadata: {annotations: {ovn.kubernetes.io/switch_lb_vip: 10.16.0.2}}, spec: {selector: {app: mallory}, ports: [{port: 80}]}}`),
			"choose the VPC and the address of a Service",
			harness.TryCreate("services/mgmt-b/new", `{spec: {selector: {app: mallory}, ports: [{port: 80}]}}`)),
	},
	{
		"C1", tenantOwner, "an attachment that takes a device of the node", byNetworks,
		expectRefused(harness.TryCreate("network-attachment-definitions/evil-x/new",
			`{spec: {config: '{"type": "host-device", "device": "eth0"}'}}`),
			"attachments in projects are for the platform's operators",
			tryPod("evil-x", "k8s.v1.cni.cncf.io/networks", "default")),
	},
	{
		"C1", tenantOwner, "a VpcEgressGateway in another tenant's VPC", byNetworks,
		expectRefused(harness.TryCreate("vpc-egress-gateways/evil-x/new",
			`{spec: {vpc: acme-web, externalSubnet: ext-cloud}}`), "a VpcEgressGateway is a router",
			harness.TryCreate("egressroutes/evil-x/new",
				`{spec: {destinations: [203.0.113.0/24], externalNetworkType: public}}`)),
	},
	{
		"M2", tenantEditor, "a Service that blocks the deletion of another tenant's project", byLabels,
		expectRefused(harness.TryCreate("services/evil-x/new",
			`{metadata: {labels: {app.kubernetes.io/managed-by: sallyport, kube-dc.com/vpc: acme-web}}, spec: {ports: [{port: 80}]}}`),
			"marks objects of the Sallyport controller",
			harness.TryCreate("services/evil-x/new", `{spec: {ports: [{port: 80}]}}`)),
	},
	{
		"M2", tenantOwner, "an EndpointSlice that blocks the deletion of another tenant's project", byLabels,
		expectRefused(harness.TryCreate("endpointslices/evil-x/new",
			`{addressType: IPv4, endpoints: [], metadata: {labels: {app.kubernetes.io/managed-by: sallyport, kube-dc.com/vpc: acme-web}}}`),
			"marks objects of the Sallyport controller",
			harness.TryCreate("endpointslices/evil-x/new", `{addressType: IPv4, endpoints: []}`)),
	},
	{
		"M2", tenantOwner, "Endpoints whose labels Kubernetes copies to an EndpointSlice", byLabels,
		expectRefused(harness.TryCreate("endpoints/evil-x/new",
			`{metadata: {labels: {app.kubernetes.io/managed-by: sallyport, kube-dc.com/vpc: acme-web}}}`),
			"marks objects of the Sallyport controller", harness.TryCreate("endpoints/evil-x/new", `{}`)),
	},
	{
		"M3", tenantOwner, "a label of the own namespace by which an EgressIP chooses", byNamespaces,
		expectRefused(harness.TryPatch("namespaces//evil-x", `{"metadata":{"labels":{"team":"pay"}}}`),
			"by their labels",
			harness.TryPatch("namespaces//evil-x", `{"metadata":{"annotations":{"team":"pay"}}}`)),
	},
	{
		"M3", tenantOwner, "lower Pod Security of the own namespace", byNamespaces,
		expectRefused(harness.TryPatch("namespaces//evil-x",
			`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`), "by their labels",
			harness.TryPatch("namespaces//evil-x", `{"metadata":{"annotations":{"a":"b"}}}`)),
	},
	{"M7", stolenController, "delete a namespace that is not the controller's", byBounds, asController(
		harness.TryDelete("namespaces//mgmt-a"), "deletes objects with its own labels only",
		harness.TryDelete("namespaces//evil-x"))},
	{"M7", stolenController, "delete a Service of a tenant", byBounds, asController(
		harness.TryDelete("services/acme-web/shop"), "deletes objects with its own labels only",
		harness.TryDelete("services/acme-web/shop-ext"))},
	{"M7", stolenController, "delete Kube-OVN's default subnet", byBounds, asController(
		harness.TryDelete("subnets//ovn-default"), "deletes objects with its own labels only",
		harness.TryDelete("subnets//evil-x-default"))},
	{"M7", stolenController, "an ExternalNetwork that is not its own", byBounds, asController(
		harness.TryCreate("externalnetworks//stolen", "{spec: {type: stolen, subnets: [ext-public]}}"),
		"makes objects with its own labels only",
		harness.TryCreate("externalnetworks//stolen", "{metadata: {labels: {app.kubernetes.io/managed-by: sallyport, "+
			"kube-dc.com/vpc: sallyport-networks}}, spec: {type: stolen, subnets: [ext-public]}}"))},
	{"M7", stolenController, "make a tenant's Service its own", byBounds, asController(
		harness.TryPatch("services/acme-web/shop",
			`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"sallyport","kube-dc.com/vpc":"acme-web"}}}`),
		"changes objects with its own labels only",
		harness.TryPatch("services/acme-web/shop-ext", `{"metadata":{"labels":{"a":"b"}}}`))},
	{"M7", stolenController, "another default subnet for the management VPC", byBounds, asController(
		harness.TryPatch("vpcs//ovn-cluster", `{"spec":{"defaultSubnet":"acme-web-default"}}`),
		"the lists in the spec of Vpc ovn-cluster",
		harness.TryPatch("vpcs//evil-x", `{"metadata":{"labels":{"a":"b"}}}`))},
	{"L7", nodeAgent, "an event in a tenant's namespace", "RBAC of the agent", expectRefused(
		harness.TryCreate("events/acme-web/new", eventManifest("Pod", "shop", "sallyport-agent")),
		"cannot create resource",
		harness.TryCreate("events/default/new", eventManifest("NodePath", "node1", "sallyport-agent")))},
	{"L7", nodeAgent, "an event about another node", byAgents, expectRefused(
		harness.TryCreate("events/default/new", eventManifest("NodePath", "node2", "sallyport-agent")),
		"an agent reports on the node that it runs on",
		harness.TryCreate("events/default/new", eventManifest("Node", "node1", "sallyport-agent")))},
	{"L7", nodeAgent, "an event about something else", byAgents, expectRefused(
		harness.TryCreate("events/default/new", eventManifest("Namespace", "node1", "sallyport-agent")),
		"an agent tells of its node",
		harness.TryCreate("events/default/new", eventManifest("Node", "node1", "sallyport-agent")))},
	{"L7", nodeAgent, "an event in the name of another program", byAgents, expectRefused(
		harness.TryCreate("events/default/new", eventManifest("Node", "node1", "kubelet")),
		"an agent tells of its node",
		harness.TryCreate("events/default/new", eventManifest("Node", "node1", "sallyport-agent")))},
	{"L14", tenantOwner, "the address of a load balancer of ours", byStatus, attackServiceStatus},
}

// asController is an attack with the controller's token.
func asController(try harness.Attempt, words string, lookalike harness.Attempt) func(*testing.T, *attackFixture,
	actor) {
	return func(t *testing.T, f *attackFixture, _ actor) {
		t.Helper()
		stolen := harness.NewUser(t, string(stolenController), harness.LoadConfig(t, f.ControllerKubeconfig(t)))
		expectRefused(try, words, lookalike)(t, f, actor{User: stolen})
	}
}

// eventManifest returns an event about an object of the cluster.
func eventManifest(kind, name, by string) string {
	return fmt.Sprintf(`{eventTime: "2026-01-01T00:00:00.000000Z", type: Normal, reason: Attack, action: Attack, note: x, reportingController: %s,
  reportingInstance: x, regarding: {kind: %s, name: %s}}`, by, kind, name)
}

// attackForeignSubnet shows that pods can only be created in their own subnet, and cannot reach other tenants from
// there.
func attackForeignSubnet(t *testing.T, f *attackFixture, who actor) {
	pod := func(name, subnet string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: evil-x, annotations: {%s: %s}},
  spec: {nodeName: node1, containers: [{name: main, image: lab/echo}]}}`, name, logicalSwitchKey, subnet)
	}
	who.Cannot(t, "a pod in the victim's subnet", tryPod("evil-x", logicalSwitchKey, "acme-web-default"),
		msgChoosesNetwork)
	who.MustApply(t, f, pod("spy", "evil-x-default"))
	f.WaitForObject(t, "Pod", "evil-x", "spy", manifest.True("Ready"))
	o, err := f.Objects.Get(t.Context(), harness.ObjectRef("Pod", "evil-x", "mallory"))
	if err != nil {
		t.Fatal(err)
	}
	f.ExpectAnswer(t, "spy.evil-x", "http://"+o.GetAnnotations()["ovn.kubernetes.io/ip_address"], "mallory", "")
	f.ExpectSilence(t, "spy.evil-x", "http://"+f.victims[0].pod)
}

// attackPodBinding adds annotations to a pod through its binding.
func attackPodBinding(t *testing.T, f *attackFixture, who actor) {
	who.MustApply(t, f, `{apiVersion: v1, kind: Pod, metadata: {name: unbound, namespace: evil-x},
  spec: {schedulerName: nobody, containers: [{name: main, image: lab/idle}]}}`)
	bind := func(annotation string) harness.Attempt {
		return harness.TryCreate("pods/evil-x/unbound/binding", fmt.Sprintf(
			`{metadata: {annotations: {%s: acme-web-default}}, target: {kind: Node, name: node1}}`, annotation))
	}
	expectRefused(bind(logicalSwitchKey), msgOwnedByKubeOVN, bind("example.com/a"))(t, f, who)
}

// attackServiceStatus writes the address in the status of a Service, which others trust. It is allowed only for
// Services of another controller.
func attackServiceStatus(t *testing.T, f *attackFixture, who actor) {
	who.MustApply(t, f, `
{apiVersion: v1, kind: Service, metadata: {name: pwn, namespace: evil-x}, spec: {type: LoadBalancer, selector: {app: mallory}, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: foreign, namespace: evil-x},
  spec: {type: LoadBalancer, loadBalancerClass: example.com/other, selector: {app: mallory}, ports: [{port: 80}]}}`)
	const status = `{"status":{"loadBalancer":{"ingress":[{"ip":"91.224.11.9"}]}}}`
	expectRefused(harness.TryPatch("services/evil-x/pwn/status", status), "is written by the Sallyport controller",
		harness.TryPatch("services/evil-x/foreign/status", status))(t, f, who)
}
