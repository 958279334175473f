package platform

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/page"
)

// egressScenario is something that OVN-Kubernetes' documentation promises or its end-to-end tests check. It is shown by
// our tests, or there is a reason why not.
type egressScenario struct {
	upstream string // the name of the test, or the section of the documentation
	what     string
	shownBy  string // functions, as "directory/function"
	why      string
}

// Reasons that apply to several scenarios.
const (
	whyHostInterface = "An egress address is always on a router of OVN, on an external network that OVN is connected to. " +
		"Networks that only the kernel of nodes is connected to are used with EgressRoute and EgressService."
	whyIPv6 = "Not built: external networks have IPv4 addresses only (ADR 8). An IPv6 address is refused with a condition."
)

// egressScenarios are the scenarios, by the file that contains them.
var egressScenarios = []struct {
	file string
	list []egressScenario
}{
	{"docs/features/cluster-egress-controls/egress-ip.md", []egressScenario{
		{
			"Introduction",
			"pods of several namespaces have one source address outside",
			"platform/checkLabelChanges, platform/checkDeletedNamespace",
			"",
		},
		{
			"Introduction",
			"traffic inside the cluster, also from pods to nodes, does not use it",
			"platform/checkInsideTraffic",
			"",
		},
		{
			"Example",
			"the manifests of the documentation work, with label selectors and with NotIn",
			"egress/checkDocumentedManifests",
			"",
		},
		{
			"Example",
			"several addresses: each is used",
			"platform/checkSeveralAddresses, egress/checkSeveralAddresses",
			"",
		},
		{"Supported networks", "the cluster's default network", "platform/checkSelectedPods", ""},
		{
			"Supported networks",
			"networks of tenants (here: projects)",
			"egress/checkSelectedPods, platform/checkNamespaceMove",
			"",
		},
		{
			"EgressIP IP is assigned to a secondary host interface",
			"addresses on an interface that OVN does not control",
			"",
			whyHostInterface,
		},
		{
			"Pod to node IP traffic",
			"pods reach other nodes and their own as before",
			"platform/checkInsideTraffic, platform/checkUnavailableNodes",
			"",
		},
		{
			"Dealing with non SNATed traffic",
			"packets that were not translated do not leave",
			"platform/checkDamagedLink, platform/checkUnclassifiedPod",
			"",
		},
		{
			"Egress Nodes",
			"only nodes with the label k8s.ovn.org/egress-assignable hold addresses",
			"platform/checkNoNode, egress/checkNodeSelection",
			"",
		},
		{
			"Egress IP reachability",
			"addresses move away from a node that does not answer health checks",
			"egress/runSteps",
			"",
		},
		{
			"egressIPTotalTimeout",
			"the time until a node is considered unreachable is set by flag or configuration file; 0 " +
				"disables the health checks",
			"nodehealth/TestConfigFile, nodehealth/TestNobodyIsAsked, platform/checkDeadNode",
			"",
		},
		{
			"gRPC vs. DISCARD port",
			"nodes are checked at TCP port 9, or with gRPC at a port that is set by flag or configuration file",
			"egress/runSteps, nodehealth/TestConfigFile",
			"",
		},
		{
			"Additional details on gRPC probing",
			"TLS if there are certificates, otherwise none; grpc.health.v1",
			"egress/runSteps, nodehealth/TestConversation",
			"",
		},
		{
			"Additional details on gRPC probing",
			"a session that is closed and opened again does not make a node unreachable",
			"nodehealth/TestConversation",
			"",
		},
		{
			"Layer 2 network, Localnet",
			"not supported",
			"",
			"Not supported there either. Kube-OVN's Subnets have a router.",
		},
	}},
	{"test/e2e/egressip.go", []egressScenario{
		{
			"Should validate the egress IP functionality against remote hosts: disabling egress nodes with " +
				"egress-assignable label",
			"two addresses on two nodes, both used; one pod deselected; the nodes lose their label one after " +
				"the other, and one gets it back",
			"platform/checkUnavailableNodes",
			"",
		},
		{"… impeding GRCP health check", "the same, with nodes that do not answer by gRPC", "egress/runSteps", ""},
		{
			"… impeding Legacy health check",
			"the same, with nodes that do not answer at port 9",
			"egress/runSteps",
			"",
		},
		{"… in each: no node is left", "the pods leave with the address of their node", "platform/checkNoNode", ""},
		{
			"Should validate the egress IP SNAT functionality against host-networked pods",
			"pods on the host network of a node see no egress address, before and after the address moves, " +
				"also if the pod runs on the node that holds it",
			"platform/checkUnavailableNodes, platform/checkInsideTraffic",
			"",
		},
		{
			"… secondary IP of a node",
			"the same with an address of the node that is not its InternalIP",
			"",
			"Not built: Kube-OVN's policies know the addresses that Node objects report. Other addresses of " +
				"nodes are outside the cluster, and see the egress address, unless they are in " +
				"`--cluster-prefixes`.",
		},
		{
			"Should validate the egress IP SNAT functionality for stateful-sets",
			"a pod is deleted and created with the same name, on another node, four times",
			"platform/checkSameName",
			"",
		},
		{
			"Should validate egress IP logic when one pod is managed by more than one egressIP object",
			"the older EgressIP decides; the other one takes over when it is deleted; then the node's address again",
			"platform/checkSeveralEgressIPs",
			"",
		},
		{
			"… the assigned address is removed from the object in force",
			"the other EgressIP takes over",
			"",
			"Different: while the older EgressIP fails closed, its pods cannot leave. They must not appear " +
				"with an address of another EgressIP just because a node is missing.",
		},
		{
			"Should re-assign egress IPs when node readiness / reachability goes down/up",
			"27 steps with nodes that are unreachable, not Ready and without label, each way",
			"egress/runSteps",
			"",
		},
		{
			"Should validate the egress IP functionality against remote hosts with egress firewall applied",
			"one host is allowed, the others are not; pods and Services inside are reached",
			"platform/checkNetworkPolicy",
			"",
		},
		{
			"of replies to egress IP packets that require fragmentation [LGW][IPv4]",
			"large replies are fragmented by the node's kernel",
			"",
			"Not shown: the lab's switches run in user space and do not reassemble fragments. Replies to an " +
				"egress address do not pass the kernel of a node.",
		},
		{
			"[secondary-host-eip] Using different methods to disable a node or pod availability for egress: IPv4",
			"two addresses on an interface that OVN does not control; nodes and pods become unavailable",
			"",
			whyHostInterface,
		},
		{"[secondary-host-eip] … IPv6 compressed, IPv6 uncompressed", "the same with IPv6", "", whyIPv6},
		{
			"[secondary-host-eip] … (one address of each kind)",
			"one EgressIP has addresses on two networks",
			"platform/checkSeveralAddresses, egress/checkSeveralAddresses",
			"",
		},
		{
			"[secondary-host-eip] Multiple EgressIP objects and their Egress IP hosted on the same interface",
			"two EgressIPs with a pod each on one network and one node; one is deleted, the other pod keeps " +
				"its address",
			"platform/checkSeveralEgressIPs",
			"",
		},
		{
			"[secondary-host-eip] uses VRF routing table if EIP assigned interface is VRF slave",
			"the interface with the address is in a VRF",
			"",
			whyHostInterface +
				" EgressRoutes use VRFs of nodes (`TestAgent2VRF`).",
		},
		{
			"[OVN network] multiple namespaces sharing a role primary network",
			"a pod and then its namespace are deleted; a pod of another namespace on the same network keeps " +
				"its address",
			"platform/checkDeletedNamespace",
			"",
		},
		{
			"[OVN network] multiple namespaces with different primary networks: IPv4 L3",
			"one EgressIP selects pods of the default network and of a tenant's network",
			"platform/checkNamespaceMove",
			"",
		},
		{"… IPv4 L2", "the same with a network without a router", "", "Kube-OVN's Subnets for pods have a router."},
		{"… IPv6 L3, IPv6 L2", "the same with IPv6", "", whyIPv6},
		{
			"Network Segmentation: IPv4 L3 role primary",
			"all of the above for pods of a tenant's network",
			"egress/checkSelectedPods, egress/checkSeveralAddresses, egress/checkLabelChanges, " +
				"egress/checkPodTurnover, egress/checkNoNode, egress/runSteps",
			"",
		},
	}},
	{"test/e2e/service.go", []egressScenario{
		{
			"should work on secondary node interfaces for ETP=local and ETP=cluster when backend pods are " +
				"also served by EgressIP",
			"clients of a node, and of a load balancer, reach a selected pod, and see the address that they asked",
			"platform/checkInbound",
			"",
		},
	}},
	{"test/e2e/egress_services.go", []egressScenario{
		{
			"Should validate egress service has higher priority than EgressIP when not assigned to the same node",
			"an EgressService takes precedence over an EgressIP",
			"",
			"Different: in the default VPC an EgressService applies on the pod's node, and packets of " +
				"selected pods do not reach the node. The EgressIP takes precedence. In projects the " +
				"EgressService does.",
		},
	}},
	{"test/e2e/node_ip_mac_migration.go", []egressScenario{
		{
			"makes sure that the EgressIP is still operational",
			"an egress address works after the address or MAC of a node has changed",
			"",
			"Not shown: no test changes the address of a node.",
		},
	}},
}

const egressConformanceIntro = `# EgressIPs as OVN-Kubernetes documents and tests them

What OVN-Kubernetes' documentation of EgressIP promises, and what its end-to-end tests check (its repository as of
6c366bb49d6f, December 2024). For each scenario there is a test of ours, which shows it by packets, or the reason why
there is none. The names are directories and functions: ` + "`platform/…`" + ` is in ` + "`test/e2e/platform`" + ` (pods of Kube-OVN's default VPC),
` + "`egress/…`" + ` in ` + "`test/e2e/egress`" + ` (pods of projects; which node holds an address does not depend on the VPC), and
` + "`nodehealth/…`" + ` in ` + "`internal/controller/nodehealth`" + `. "Not built", "Not shown" and "Different" mean what they say; any other
reason means that the scenario does not apply.

One difference concerns many scenarios: without a node that can hold an address, selected pods of OVN-Kubernetes leave
with the address of their node. Ours stay inside, unless the EgressIP has ` + "`failurePolicy: Open`" + ` (` + "`platform/checkNoNode`" + `).

` + "`make golden`" + ` writes this page from the list in ` + "`test/e2e/platform/scenariolist_test.go`" + `, and a test checks that every test that
is named exists.
`

// TestPlatform1Scenarios checks that each scenario is shown by a test that exists, or has a reason why not.
func TestPlatform1Scenarios(t *testing.T) {
	item := platformItems.Item(t, 1)
	known := harness.TestFunctionNames(t, "../platform", "../egress", "../../../internal/controller/nodehealth")
	var found harness.Conformance
	for _, group := range egressScenarios {
		for _, s := range group.list {
			found.Check(t, s.requirement(), known)
		}
	}
	page.Check(t, harness.ReferenceDir+"egressip-conformance.md", egressConformancePage())
	item.AddFigure("%d scenarios of OVN-Kubernetes: %d shown by tests, %d do not apply, %d are different, not built or not shown, with the reason",
		found.All, found.Shown, found.All-found.Shown-found.Missing, found.Missing)
}

func (s egressScenario) requirement() harness.Requirement {
	return harness.Requirement{What: s.what, ShownBy: s.shownBy, Why: s.why}
}

// egressConformancePage returns the page of scenarios.
func egressConformancePage() string {
	var out strings.Builder
	out.WriteString(egressConformanceIntro)
	for _, group := range egressScenarios {
		fmt.Fprintf(&out, "\n## %s\n\n| test or section | scenario | shown by | or why not |\n|---|---|---|---|\n", group.file)
		for _, s := range group.list {
			var names []string
			for _, name := range s.requirement().Names() {
				names = append(names, "`"+name+"`")
			}
			fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", s.upstream, s.what, strings.Join(names, ", "), s.why)
		}
	}
	return out.String()
}
