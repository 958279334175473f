package loadbalancer

import (
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// feature is a feature of load balancers: how to request it, and the test that shows it.
type feature struct {
	what, how string
	run       func(*testing.T, *harness.BackendProject) string
}

// features is the list on the reference page, in its order.
var features = []feature{
	{
		"an address of its own, for TCP, UDP and SCTP; the server sees the client's own address",
		"`type: LoadBalancer`",
		showOwnAddress,
	},
	{
		"a network by its type; replies leave by it, with no row for a backend",
		"annotation `network.kube-dc.com/external-network-type`", showByType,
	},
	{
		"an address that was reserved, shared by several Services on different ports and protocols",
		"annotation `service.nlb.kube-dc.com/bind-on-eip`", showSharedEIp,
	},
	{
		"a port that another Service has is refused, with the holder's name, and given when it is free", "(the same)",
		showClash,
	},
	{
		"the address of the project's way out", "annotation `service.nlb.kube-dc.com/bind-on-default-gw-eip: \"true\"`",
		showOnTheWayOut,
	},
	{"a given address", "`loadBalancerIP`", showGivenAddress},
	{"Services of another class are left alone", "`loadBalancerClass`", showClasses},
	{"without endpoints connections are refused, not lost", "(always)", showWithoutEndpoints},
	{"a client keeps its backend", "`sessionAffinity: ClientIP`, `timeoutSeconds`", showAffinity},
	{
		"the client's address is kept and no node is passed through", "`externalTrafficPolicy: Local` (and `Cluster`)",
		showTrafficPolicy,
	},
	{"only some clients, from outside and from inside", "`loadBalancerSourceRanges`", showSourceRanges},
	{
		"a backend that does not answer gets no connections, though Kubernetes calls it ready",
		"annotation `service.nlb.kube-dc.com/health-check`", showHealthChecks,
	},
	{"endpoints that end and still serve are used when no other is ready", "(always)", showTerminating},
	{"UDP flows to a backend that goes are forgotten, TCP connections may end by themselves", "(always)", showStale},
	{"the external address works from inside, for a backend itself too", "(always)", showFromInside},
	{"the external address as a headless Service", "(always: `NAME-ext`)", showExternal},
	{
		"a Backend of Envoy Gateway at the external address",
		"annotation `gateway.kube-dc.com/create-backend: \"true\"` (or `service.nlb.kube-dc.com/create-gateway-backend`)", showBackend,
	},
	{
		"a Service that stays without endpoints goes by itself",
		"annotation `service.nlb.kube-dc.com/autodelete: \"true\"` (after `--autodelete-after`, five minutes)",
		showAutodelete,
	},
	{"what somebody does to it in OVN is put right", "(always)", showPutRight},
	{"what is asked for and can't be: IPv6 outside", "`ipFamilyPolicy`", showFamilies},
	{"a Service that becomes another type, or goes, leaves nothing", "(always)", showLeavesNothing},
	{
		"type and ports change while the address stays; what is no longer asked for is closed", "`type`, `ports`",
		showChanges,
	},
	{"who may reach it changes at any time", "`loadBalancerSourceRanges`", showRangesChange},
	{
		"affinity comes and goes, with either traffic policy", "`sessionAffinity`, `externalTrafficPolicy`",
		showAffinitySwitched,
	},
	{
		"nodes have no part in it: without node ports, and with any",
		"`allocateLoadBalancerNodePorts`, `externalTrafficPolicy`, `internalTrafficPolicy`", showNodesUnused,
	},
	{
		"with policy Local too, an endpoint on any node is reached, and sees which pod asks",
		"`externalTrafficPolicy: Local`", showLocalMoves,
	},
	{"endpoints that are not ready get nothing unless they are published", "`publishNotReadyAddresses`", showUnready},
	{"readiness gates choose the backend", "`readinessGates` of pods", showGates},
	{"open connections to an endpoint that leaves go on, and new ones go to others", "(always)", showDrains},
	{"a named target port has another number in each pod", "`targetPort: NAME`", showNamedPorts},
	{
		"EndpointSlices that a user writes, several for a port; addresses outside the project are left out",
		"no `selector`", showWrittenByHand,
	},
	{"a UDP socket that was there before every backend hears each one, at any target port", "(always)", showOneSocket},
	{"large requests and answers", "(always)", showLarge},
	{
		"made again under the same name it works; others notice nothing; a wrong status is put right", "(always)",
		showAgain,
	},
	{"deleted while the controller is away, it leaves nothing", "(always)", showWhileAway},
	{"it goes on while the API server is away", "(always)", showWithoutAPI},
	{"packets outside a connection's window do not end it", "(always)", showStrays},
	{
		"an address is still announced when one of its protocols, or its affinity, goes", "`ports`, `sessionAffinity`",
		showProtocolGoes,
	},
	{
		"rows of earlier versions, one for each Service, become VIPs of shared load balancers without a gap",
		"(always)", showEarlierRows,
	},
}

// managementFeatures is the list for the management VPC. It has a separate lab, because no other test may have objects
// there.
var managementFeatures = []feature{
	{
		"in the management VPC: from any of its namespaces, on any network, with its way back",
		"`loadBalancerClass: kube-dc.com/sallyport`", showManagement,
	},
	{
		"its gateway there follows the nodes that may hold it, and what somebody does to it is put right",
		"label `ovn.kubernetes.io/external-gw` of nodes", showManagementGateway,
	},
	{"a proxy in the management VPC sees the client's own address", "(the same)", showProxySeesClient},
	{
		"a proxy in the management VPC reaches a tenant's load balancer by its external address",
		"the controller's `--management-network-type`", showAcrossVPCs,
	},
	{
		"two gateways of different namespaces of the management VPC share an address",
		"annotation `service.nlb.kube-dc.com/bind-on-eip: NAMESPACE/EIP`", showTwoGateways,
	},
}

// TestBalancer1Features shows every feature with packets.
func TestBalancer1Features(t *testing.T) {
	item := balancerItems.Item(t, 1)
	show := func(h *harness.BackendProject, list []feature) {
		for _, f := range list {
			t.Run(f.what, func(t *testing.T) {
				h.ResetDrops(t)
				if figure := f.run(t, h); !t.Failed() {
					item.AddFigure("%s: %s", f.what, figure)
				}
			})
		}
	}
	show(newBackendProject(t, "features", "10.51.0.0/24"), features)
	show(newManagementProject(t), managementFeatures)
}

func newBackendProject(t *testing.T, name, cidr string) *harness.BackendProject {
	t.Helper()
	return harness.SharedSallyport(t).NewBackendProject(t, name, cidr)
}
