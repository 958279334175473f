package install

import (
	"fmt"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

const (
	subnetKey   = "ovn.kubernetes.io/logical_switch"
	addressKey  = "ovn.kubernetes.io/ip_address"
	networksKey = "k8s.v1.cni.cncf.io/networks"
)

// tryPod attempts to create a pod of the project with an annotation.
func tryPod(key, value string) harness.Attempt {
	return harness.TryCreate("pods/guard-web/new", fmt.Sprintf(
		`{metadata: {annotations: {%q: %q}}, spec: {containers: [{name: main, image: lab/idle}]}}`, key, value))
}

// tryTemplate attempts to create a workload of the project whose pods have an annotation.
func tryTemplate(resource, key, value string) harness.Attempt {
	pod := fmt.Sprintf(`{metadata: {labels: {app: new}, annotations: {%q: %q}}, spec: {restartPolicy: %s, containers: [{name: main, image: lab/idle}]}}`,
		key, value, map[string]string{"jobs": "Never", "cronjobs": "Never"}[resource])
	spec := `{selector: {matchLabels: {app: new}}, template: ` + pod + `}`
	switch resource {
	case "jobs":
		spec = `{template: ` + pod + `}`
	case "cronjobs":
		spec = `{schedule: "0 0 1 1 *", jobTemplate: {spec: {template: ` + pod + `}}}`
	}
	return harness.TryCreate(resource+"/guard-web/new", `{spec: `+spec+`}`)
}

// podProtections are what pods must not choose, regardless of their creator: Kube-OVN would trust their annotations.
var podProtections = []protection{
	{
		"another project's subnet", tryPod(subnetKey, "acme-web-default"), "choose a network, an address or a route",
		tryPod(subnetKey, "guard-web-default"),
	},
	{
		"Kube-OVN's default subnet", tryPod(subnetKey, "ovn-default"), "logical_switch guard-web-default",
		tryPod(addressKey, "10.0.0.9"),
	},
	{
		"another subnet for an attachment",
		tryPod("default.guard-web.ovn.kubernetes.io/logical_switch", "acme-web-default"), "choose a network",
		tryPod("default.guard-web.ovn.kubernetes.io/logical_switch", "guard-web-default"),
	},
	{
		"another subnet for an interface",
		tryPod("default.guard-web.ovn.net1.kubernetes.io/logical_switch", "acme-web-default"), "choose a network",
		tryPod("default.guard-web.ovn.net1.kubernetes.io/logical_switch", "guard-web-default"),
	},
	{
		"an address on another namespace's attachment",
		tryPod("storage.acme-web.kubernetes.io/ip_address.net1", "10.0.0.9"), "choose a network",
		tryPod("storage.guard-web.kubernetes.io/ip_address.net1", "10.0.0.9"),
	},
	{"an address that is none", tryPod(addressKey, "10.0.0.9/24"), addressKey, tryPod(addressKey, "10.0.0.9")},
	{
		"a pool of others", tryPod("ovn.kubernetes.io/ip_pool", "acme"), "ip_pool with addresses",
		tryPod("ovn.kubernetes.io/ip_pool", "10.0.0.8,10.0.0.9"),
	},
	{
		"an address that was never given", tryPod("ovn.kubernetes.io/allocated", "true"), "ovn.kubernetes.io/allocated",
		tryPod("example.com/allocated", "true"),
	},
	{
		"a VIP", tryPod("ovn.kubernetes.io/vip", "acme"), "ovn.kubernetes.io/vip",
		tryPod("ovn.kubernetes.io/port_security", "true"),
	},
	{
		"allowed address pairs", tryPod("ovn.kubernetes.io/aaps", "acme"), "ovn.kubernetes.io/aaps",
		tryPod("ovn.kubernetes.io/mac_address", "02:00:00:00:00:01"),
	},
	{
		"an external address", tryPod("ovn.kubernetes.io/eip", "198.51.100.9"), "ovn.kubernetes.io/eip",
		tryPod("ovn.kubernetes.io/ingress_rate", "10"),
	},
	{
		"a SNAT address", tryPod("ovn.kubernetes.io/snat", "198.51.100.9"), "ovn.kubernetes.io/snat",
		tryPod("ovn.kubernetes.io/egress_rate", "10"),
	},
	{
		"routes", tryPod("ovn.kubernetes.io/routes", "[]"), "ovn.kubernetes.io/routes",
		tryPod("kubectl.kubernetes.io/restartedAt", "now"),
	},
	{
		"announcing by BGP", tryPod("ovn.kubernetes.io/bgp", "true"), "ovn.kubernetes.io/bgp",
		tryPod("example.com/bgp", "true"),
	},
	{
		"to be a NAT gateway", tryPod("ovn.kubernetes.io/vpc_nat_gw", "acme"), "vpc_nat_gw",
		tryPod("example.com/vpc_nat_gw", "acme"),
	},
	{
		"another project's security group",
		tryPod("ovn.kubernetes.io/security_groups", "guard-web-a,acme-web"),
		"security_groups whose names begin with guard-web-",
		tryPod("ovn.kubernetes.io/security_groups", "guard-web-a,guard-web"),
	},
	{
		"an annotation that Kube-OVN gets some day", tryPod("ovn.kubernetes.io/any", "x"), "ovn.kubernetes.io/any",
		tryPod("ovn.example.com/any", "x"),
	},
	{
		"another project's attachment", tryPod(networksKey, "acme-web/default"),
		"may name attachments of namespace guard-web only", tryPod(networksKey, "guard-web/default@net1"),
	},
	{
		"another project's attachment among others", tryPod(networksKey, "default, acme-web/default"),
		"may name attachments", tryPod(networksKey, "default, mine"),
	},
	{
		"another project's attachment as JSON",
		tryPod(networksKey, `[{"name":"default","namespace":"acme-web"}]`), "may name attachments",
		tryPod(networksKey, `[{"name":"default","namespace":"guard-web","interface":"net1","ips":["10.0.0.9"]}]`),
	},
	{
		"another project's attachment as JSON in other letters",
		tryPod(networksKey, `[{"name":"default","Namespace":"acme-web"}]`), "may name attachments",
		tryPod(networksKey, `[{"name":"default"}]`),
	},
	{
		"another project's attachment as JSON with escapes",
		tryPod(networksKey, `[{"name":"default","\u006eamespace":"acme-web"}]`), "may name attachments",
		tryPod(networksKey, `[{"name":"default","mac":"02:00:00:00:00:01"}]`),
	},
	{
		"an attachment that is null", tryPod(networksKey, `[null]`), "may name attachments",
		tryPod(networksKey, `[{"name":"mine"}]`),
	},
	{
		"another project's attachment as the default network",
		tryPod("v1.multus-cni.io/default-network", "acme-web/default"), "may name attachments",
		tryPod("v1.multus-cni.io/default-network", "guard-web/default"),
	},
	{
		"the node's network",
		harness.TryCreate("pods/guard-web/new",
			`{spec: {hostNetwork: true, containers: [{name: main, image: lab/idle}]}}`),
		"hostNetwork would take the pod out of its project",
		harness.TryCreate("pods/guard/new", `{spec: {hostNetwork: true, containers: [{name: main, image: lab/idle}]}}`),
	},
	{
		"a static pod",
		harness.TryCreate("pods/guard-web/new",
			`{metadata: {annotations: {kubernetes.io/config.mirror: x}}, spec: {nodeName: node1, containers: [{name: main, image: lab/idle}]}}`),
		"a project has no static pods",
		harness.TryCreate("pods/guard-web/new",
			`{spec: {nodeName: node1, containers: [{name: main, image: lab/idle}]}}`),
	},
	{
		"a Deployment in another project", tryTemplate("deployments", subnetKey, "acme-web-default"),
		"choose a network",
		tryTemplate("deployments", subnetKey, "guard-web-default"),
	},
	{
		"a StatefulSet in another project", tryTemplate("statefulsets", subnetKey, "acme-web-default"),
		"choose a network",
		tryTemplate("statefulsets", addressKey, "10.0.0.9"),
	},
	{
		"a DaemonSet with another's attachment", tryTemplate("daemonsets", networksKey, "acme-web/default"),
		"may name attachments", tryTemplate("daemonsets", networksKey, "default"),
	},
	{
		"a ReplicaSet in another project", tryTemplate("replicasets", subnetKey, "ext-public"), "choose a network",
		tryTemplate("replicasets", "a", "b"),
	},
	{
		"a Job in another project", tryTemplate("jobs", subnetKey, "acme-web-default"), "choose a network",
		tryTemplate("jobs", subnetKey, "guard-web-default"),
	},
	{
		"a CronJob in another project", tryTemplate("cronjobs", subnetKey, "acme-web-default"), "choose a network",
		tryTemplate("cronjobs", subnetKey, "guard-web-default"),
	},
	{
		"binding a pod with another subnet",
		harness.TryCreate("pods/guard-web/mine/binding",
			`{metadata: {annotations: {ovn.kubernetes.io/logical_switch: acme-web-default}}, target: {kind: Node, name: node1}}`),
		"are Kube-OVN's once it exists",
		harness.TryCreate("pods/guard-web/mine/binding",
			`{metadata: {annotations: {a: b}}, target: {kind: Node, name: node1}}`),
	},
	{
		"binding a pod with another attachment",
		harness.TryCreate("bindings/guard-web/mine",
			`{metadata: {annotations: {k8s.v1.cni.cncf.io/networks: default}}, target: {kind: Node, name: node1}}`),
		"are Kube-OVN's once it exists",
		harness.TryCreate("bindings/guard-web/mine", `{target: {kind: Node, name: node1}}`),
	},
}

// networkProtections are other fields that affect networks, and other objects of the controller.
var networkProtections = []protection{
	{
		"moving a pod",
		harness.TryPatch("pods/guard-web/mine",
			`{"metadata":{"annotations":{"ovn.kubernetes.io/logical_switch":"ovn-default"}}}`),
		"are Kube-OVN's once it exists",
		harness.TryPatch("pods/guard-web/mine", `{"metadata":{"annotations":{"a":"b"}}}`),
	},
	{
		"giving a pod another address by its status",
		harness.TryPatch("pods/guard-web/mine/status",
			`{"metadata":{"annotations":{"ovn.kubernetes.io/ip_address":"10.16.0.2"}}}`),
		"are Kube-OVN's once it exists",
		harness.TryPatch("pods/guard-web/mine/status", `{"metadata":{"annotations":{"a":"b"}}}`),
	},
	{
		"attaching a pod to another project",
		harness.TryPatch("pods/guard-web/mine",
			`{"metadata":{"annotations":{"k8s.v1.cni.cncf.io/networks":"acme-web/default"}}}`),
		"may name attachments",
		harness.TryPatch("pods/guard-web/mine",
			`{"metadata":{"annotations":{"k8s.v1.cni.cncf.io/networks":"default"}}}`),
	},
	{
		"a namespace's subnet",
		harness.TryPatch("namespaces//guard-web",
			`{"metadata":{"annotations":{"ovn.kubernetes.io/logical_switch":"ovn-default"}}}`),
		"choose the network of a namespace",
		harness.TryPatch("namespaces//guard-web", `{"metadata":{"annotations":{"a":"b"}}}`),
	},
	{
		"a namespace's subnet by its status",
		harness.TryPatch("namespaces//guard/status",
			`{"metadata":{"annotations":{"ovn.kubernetes.io/logical_switch":"acme-web-default"}}}`),
		"choose the network of a namespace",
		harness.TryPatch("namespaces//guard/status", `{"metadata":{"annotations":{"a":"b"}}}`),
	},
	{
		"a new namespace with another's subnet",
		harness.TryCreate("namespaces//guard-new",
			`{metadata: {annotations: {ovn.kubernetes.io/logical_switch: acme-web-default}}}`),
		"choose the network of a namespace", harness.TryCreate("namespaces//guard-new", `{}`),
	},
	{
		"a label of a project's namespace",
		harness.TryPatch("namespaces//guard-web", `{"metadata":{"labels":{"team":"pay"}}}`),
		"networks choose namespaces of projects by their labels",
		harness.TryPatch("namespaces//guard", `{"metadata":{"labels":{"team":"pay"}}}`),
	},
	{
		"a Service in another VPC",
		harness.TryPatch("services/guard-web/waiting",
			`{"metadata":{"annotations":{"ovn.kubernetes.io/logical_router":"acme-web"}}}`),
		"choose the VPC and the address of a Service",
		harness.TryPatch("services/guard-web/waiting", `{"metadata":{"annotations":{"a":"b"}}}`),
	},
	{
		"a new Service at another's address",
		harness.TryCreate("services/guard-web/new",
			`{metadata: {annotations: {ovn.kubernetes.io/switch_lb_vip: 10.30.0.2}}, spec: {ports: [{port: 80}]}}`),
		"choose the VPC and the address of a Service",
		harness.TryCreate("services/guard-web/new", `{spec: {ports: [{port: 80}]}}`),
	},
	{
		"an attachment of one's own",
		harness.TryCreate("network-attachment-definitions/guard-web/new",
			`{spec: {config: '{"type": "host-device", "device": "eth0"}'}}`),
		"attachments in projects are for the platform's operators",
		harness.TryCreate("network-attachment-definitions/guard/new",
			`{spec: {config: '{"type": "host-device", "device": "eth0"}'}}`),
	},
	{
		"another plugin for an attachment",
		harness.TryPatch("network-attachment-definitions/guard-web/mine",
			`{"spec":{"config":"{\"type\":\"macvlan\"}"}}`),
		"attachments in projects are for",
		harness.TryPatch("network-attachment-definitions/guard-web/mine", `{"metadata":{"labels":{"team":"a"}}}`),
	},
	{
		"a gateway of Kube-OVN's",
		harness.TryCreate("vpc-egress-gateways/guard-web/new", `{spec: {vpc: acme-web, externalSubnet: ext-cloud}}`),
		"a VpcEgressGateway is a router in the VPC that it names",
		harness.TryCreate("vpc-egress-gateways/guard/new", `{spec: {vpc: acme-web, externalSubnet: ext-cloud}}`),
	},
	{
		"a Service that looks like ours",
		harness.TryPatch("services/guard-web/waiting",
			`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"sallyport","kube-dc.com/vpc":"acme-web"}}}`),
		"app.kubernetes.io/managed-by=sallyport marks",
		harness.TryPatch("services/guard-web/waiting",
			`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"Helm"}}}`),
	},
	{
		"a Service that looks like ours by its status",
		harness.TryPatch("services/guard-web/waiting/status", `{"metadata":{"labels":{"kube-dc.com/vpc":"acme-web"}}}`),
		"the label kube-dc.com/vpc is written by", nil,
	},
	{
		"an EndpointSlice that looks like ours",
		harness.TryCreate("endpointslices/guard-web/new",
			`{addressType: IPv4, endpoints: [], metadata: {labels: {app.kubernetes.io/managed-by: sallyport, kube-dc.com/vpc: acme-web}}}`),
		"app.kubernetes.io/managed-by=sallyport marks",
		harness.TryCreate("endpointslices/guard-web/new", `{addressType: IPv4, endpoints: []}`),
	},
	{
		"Endpoints whose labels Kubernetes copies",
		harness.TryCreate("endpoints/guard-web/new",
			`{metadata: {labels: {app.kubernetes.io/managed-by: sallyport, kube-dc.com/vpc: acme-web}}}`),
		"app.kubernetes.io/managed-by=sallyport marks",
		harness.TryCreate("endpoints/guard-web/new", `{}`),
	},
	{
		"an EgressRoute that looks like ours",
		harness.TryPatch("egressroutes/guard-web/mine", `{"metadata":{"labels":{"kube-dc.com/vpc":"acme-web"}}}`),
		"the label kube-dc.com/vpc is written by",
		harness.TryPatch("egressroutes/guard-web/mine", `{"metadata":{"labels":{"team":"a"}}}`),
	},
	{
		"an EgressService that looks like ours",
		harness.TryPatch("egressservices/guard-web/balanced",
			`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"sallyport"}}}`),
		"app.kubernetes.io/managed-by=sallyport marks",
		harness.TryPatch("egressservices/guard-web/balanced", `{"metadata":{"labels":{"team":"a"}}}`),
	},
	{
		"deleting what was made for a Service",
		harness.TryDelete("services/guard-web/balanced-ext"), "change or delete the Service that it was made for",
		harness.TryDelete("services/guard-web/balanced"),
	},
	{
		"changing what was made for a Service",
		harness.TryPatch("endpointslices/guard-web/balanced-ext", `{"endpoints":[{"addresses":["10.16.0.2"]}]}`),
		"EndpointSlice balanced-ext belongs to the Sallyport controller", nil,
	},
	{
		"the address of a load balancer of ours",
		harness.TryPatch("services/guard-web/waiting/status",
			`{"status":{"loadBalancer":{"ingress":[{"ip":"198.51.100.9"}]}}}`),
		"the status of Service waiting is written by",
		harness.TryPatch("services/guard-web/foreign/status",
			`{"status":{"loadBalancer":{"ingress":[{"ip":"198.51.100.9"}]}}}`),
	},
	{
		"status of an EgressRoute",
		harness.TryPatch("egressroutes/guard-web/mine/status", `{"status":{"externalIP":"198.51.100.9"}}`),
		"the status of EgressRoute mine is written by", nil,
	},
	{
		"status of an EgressService",
		harness.TryPatch("egressservices/guard-web/balanced/status", `{"status":{"host":"node1"}}`),
		"the status of EgressService balanced is written by", nil,
	},
}

// controllerBounds are what the controller's account must not do although its role allows it, each with a similar
// action that is allowed.
var controllerBounds = []protection{
	{
		"deleting a namespace of others", harness.TryDelete("namespaces//guard"),
		"the controller deletes objects with its own labels only",
		harness.TryDelete("namespaces//guard-web"),
	},
	{
		"deleting a Service of others", harness.TryDelete("services/guard-web/waiting"),
		"the controller deletes objects with its own labels only",
		harness.TryDelete("services/guard-web/expires"),
	},
	{
		"deleting a subnet of others", harness.TryDelete("subnets//ovn-default"),
		"the controller deletes objects with its own labels only",
		harness.TryDelete("subnets//guard-web-default"),
	},
	{
		"a namespace without its labels", harness.TryCreate("namespaces//guard-new", `{}`),
		"the controller makes objects with its own labels only",
		harness.TryCreate("namespaces//guard-new",
			`{metadata: {labels: {app.kubernetes.io/managed-by: sallyport, kube-dc.com/vpc: guard-new}}}`),
	},
	{
		"making a Service its own",
		harness.TryPatch("services/guard-web/waiting",
			`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"sallyport","kube-dc.com/vpc":"guard-web"}}}`),
		"the controller changes objects with its own labels only",
		harness.TryPatch("services/guard-web/balanced-ext", `{"metadata":{"labels":{"a":"b"}}}`),
	},
	{
		"adopting a router port for another VPC",
		harness.TryPatch("ovn-eips//guard-web-ext-lost",
			`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"sallyport","kube-dc.com/vpc":"guard"}}}`),
		"the controller changes objects with its own labels only",
		harness.TryPatch("ovn-eips//guard-web-ext-lost",
			`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"sallyport","kube-dc.com/vpc":"guard-web"}}}`),
	},
	{
		"taking over an address that is offered to another VPC",
		harness.TryPatch("ovn-eips//guard-offered",
			`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"sallyport","kube-dc.com/vpc":"guard"}}}`),
		"the controller changes objects with its own labels only",
		harness.TryPatch("ovn-eips//guard-offered",
			`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"sallyport","kube-dc.com/vpc":"guard-web"}}}`),
	},
	{
		"deleting an external address of others", harness.TryDelete("ovn-eips//guard-web-ext-nat"),
		"the controller deletes objects with its own labels only",
		harness.TryDelete("ovn-eips//guard-web-ext-lost"),
	},
	{
		"the spec of a FIp", harness.TryPatch("fips/guard-web/mine", `{"spec":{"ipAddress":"10.0.0.8"}}`),
		"the controller changes objects with its own labels only",
		harness.TryPatch("fips/guard-web/mine", `{"metadata":{"finalizers":["kube-dc.com/sallyport"]}}`),
	},
	{
		"the default subnet of Kube-OVN's Vpc",
		harness.TryPatch("vpcs//ovn-cluster", `{"spec":{"defaultSubnet":"guard-web-default"}}`),
		"the lists in the spec of Vpc ovn-cluster",
		harness.TryPatch("vpcs//ovn-cluster", `{"spec":{"enableExternal":true,"extraExternalSubnets":["ext-cloud"]}}`),
	},
}
