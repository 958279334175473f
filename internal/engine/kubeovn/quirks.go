package kubeovn

// Quirk is a behaviour of Kube-OVN that Sallyport has to work around.
type Quirk struct {
	// ID names the quirk in code, in `sallyport status -o yaml` and in docs/reference/engine.md.
	ID string
	// Behaviour is what Kube-OVN does, Handling what Sallyport does about it.
	Behaviour, Handling string
	// Upstream is where Kube-OVN does it: a file of its repository and a function in it.
	Upstream string
	// Seen is a release in which we saw it, Fixed the first release without it; zero: none that we know of.
	Seen, Fixed Version
	// Code is where we handle it: a file of this repository and a function in it, or a template of the chart.
	Code string
	// Test is an end-to-end test that covers it.
	Test string
}

// AppliesTo reports whether a release has to be taken to have the quirk: every one before the release that fixed it.
func (q Quirk) AppliesTo(v Version) bool {
	return !v.IsKnown() || !q.Fixed.IsKnown() || v.Compare(q.Fixed) < 0
}

// QuirksOf lists the quirks of a release, in the order of Quirks.
func QuirksOf(v Version) (out []Quirk) {
	for _, q := range Quirks {
		if q.AppliesTo(v) {
			out = append(out, q)
		}
	}
	return out
}

// seen1162 marks quirks that were observed in release 1.16.2. Other releases were not tried.
var seen1162 = Version{1, 16, 2}

// Quirks are all of them. docs/reference/engine.md is generated from this list.
var Quirks = []Quirk{
	{
		ID:        "IPv4ExternalAddressesOnly",
		Behaviour: "Connecting a VPC to an external subnet with an IPv6 prefix fails; OvnEips and OvnFips get IPv4 addresses only.",
		Handling:  "Networks with IPv6 subnets are refused with reason NetworkNotSupported; IPv6 addresses in requests are refused.",
		Upstream:  "pkg/controller/vpc.go handleAddVpcExternalSubnet", Seen: seen1162,
		Code: "internal/compile/network.go networkNotSupported", Test: "TestDualStackNetwork",
	},
	{
		ID:        "RemovesLoadBalancersOnStart",
		Behaviour: "Every start deletes all Load_Balancer rows that it did not write.",
		Handling:  "The northbound database is watched, and the rows are written again at once.",
		Upstream:  "pkg/controller/gc.go gcLoadBalancer", Seen: seen1162,
		Code: "internal/engine/ovn/index.go handleRouter", Test: "TestBalancer4Restarts",
	},
	{
		ID:        "NATRowsWrittenOnce",
		Behaviour: "The NAT row of an OvnFip or OvnSnatRule is written once. It is not restored when it is lost, not even on a restart.",
		Handling:  "The row is part of the intent and is written again.",
		Upstream:  "pkg/controller/ovn_fip.go handleAddOvnFip", Seen: seen1162,
		Code: "internal/compile/fip.go emitFloatingNAT", Test: "TestCore3Drift",
	},
	{
		ID: "DeletesNATRowsOfPods",
		Behaviour: "In its default VPC, it deletes the snat and dnat_and_snat rows of a pod's address whenever it processes a pod " +
			"without its own annotation.",
		Handling: "Floating IPs there are rows of type dnat, and snat rows for all addresses with a match.",
		Upstream: "pkg/controller/pod.go handleAddOrUpdatePod", Seen: seen1162,
		Code: "internal/compile/managementfip.go emitManagementFIP", Test: "TestPlatform2FloatingIPs",
	},
	{
		ID:        "DuplicateNATRows",
		Behaviour: "It writes a NAT row although the same row exists, and then fails on routers with two of them.",
		Handling:  "Of two equal rows, the unmarked one stays, and ours is removed.",
		Upstream:  "pkg/controller/ovn_fip.go handleAddOvnFip", Seen: seen1162,
		Code: "internal/engine/ovn/router.go indexByKey", Test: "TestRowPutBackIsTakenByKubeOVN",
	},
	{
		ID:        "DeletionNeedsNATRow",
		Behaviour: "The deletion of an OvnFip or OvnSnatRule never ends when its NAT row is missing.",
		Handling:  "The row is written again until the object is deleted.",
		Upstream:  "pkg/controller/ovn_fip.go handleDelOvnFip", Seen: seen1162,
		Code: "internal/compile/finalizers.go unblockDeletions", Test: "TestCore2DeletionLeavesNothing",
	},
	{
		ID:        "DeletionOrder",
		Behaviour: "A translation whose router or address is deleted first is never deleted.",
		Handling:  "Objects are deleted in the reverse order of their use.",
		Upstream:  "pkg/controller/ovn_snat.go handleDelOvnSnatRule", Seen: seen1162,
		Code: "internal/engine/kube/objects.go dependenciesOf", Test: "TestCore2DeletionLeavesNothing",
	},
	{
		ID:        "ForgetsDeletionsWhileDown",
		Behaviour: "An object that was deleted while the controller was down is new to it after the start, and its finalizer stays.",
		Handling:  "An annotation of the object is changed until the controller notices the deletion.",
		Upstream:  "pkg/controller/ovn_eip.go enqueueUpdateOvnEip", Seen: seen1162,
		Code: "internal/engine/kube/objects_apply.go remindKubeOVN", Test: "TestCore5FaultsUnderTheStormEndInTheSame",
	},
	{
		ID:        "MissesRecreatedObjects",
		Behaviour: "An object that is deleted and created again while the watch is interrupted looks like an update, and is never processed.",
		Handling:  "An object that later ones overtake is deleted and created again.",
		Upstream:  "pkg/controller/ovn_fip.go enqueueUpdateOvnFip", Seen: seen1162,
		Code: "internal/engine/kube/progress.go isStuck", Test: "TestCore5FaultsUnderTheStormEndInTheSame",
	},
	{
		ID:        "OvnEipWithoutAddress",
		Behaviour: "An OvnEip whose address is written to the spec and not to the status, because of a restart in between, never gets one.",
		Handling:  "The OvnEip is deleted and created again with the same address.",
		Upstream:  "pkg/controller/ovn_eip.go handleAddOvnEip", Seen: seen1162,
		Code: "internal/compile/network.go failedWithoutAddress", Test: "TestCore5FaultsUnderTheStormEndInTheSame",
	},
	{
		ID: "SkipsExternalSubnets",
		Behaviour: "The status of a Vpc lists an external subnet as connected that was added to the spec while the Vpc was processed, " +
			"or, written from an older copy, does not list one that was. Either way the subnet is not connected.",
		Handling: "The subnet is removed from the list and added again.",
		Upstream: "pkg/controller/vpc.go updateVpcExternalStatus", Seen: seen1162,
		Code: "internal/compile/network.go isAttachSkipped", Test: "TestCore5FaultsUnderTheStormEndInTheSame",
	},
	{
		ID:        "SleepsForPortAddresses",
		Behaviour: "A worker sleeps for a second for each router port whose OvnEip does not exist.",
		Handling:  "The OvnEip of the port is created first, with the address that the port gets.",
		Upstream:  "pkg/controller/ovn_eip.go createOrUpdateOvnEipCR", Seen: seen1162,
		Code: "internal/compile/network.go attachNetworks", Test: "TestCore7ChangeCostsTheSameAtAnySize",
	},
	{
		ID:        "RemovesForeignPolicies",
		Behaviour: "Router policies that are not in Vpc.spec.policyRoutes are deleted, unless their external_ids have the key vpc-egress-gateway or subnet.",
		Handling:  "Policies of projects are entries of that list; those that no list can state have the key.",
		Upstream:  "pkg/controller/vpc.go diffPolicyRouteWithLogical", Seen: seen1162,
		Code: "internal/compile/defaultegress.go emitRouterPolicy", Test: "TestCore3Drift",
	},
	{
		ID: "SourceRouteOfSubnets",
		Behaviour: "Each VPC has a route for the sources of its subnet. Kube-OVN's own OVN build ranks it low; stock OVN prefers it " +
			"to connected routes.",
		Handling: "Router policies state the default egress, and the on-link loopback port the hosts on the default network.",
		Upstream: "pkg/controller/vpc.go handleAddOrUpdateVpc", Seen: seen1162,
		Code: "internal/compile/defaultegress.go emitOnLinkPort", Test: "TestCore1ByPackets",
	},
	{
		ID:        "GivesReservedAddresses",
		Behaviour: "The IPAM gives addresses of excludeIps to whoever asks for one by name.",
		Handling:  "EIps that ask for such an address are refused.",
		Upstream:  "pkg/ipam/subnet.go GetStaticAddress", Seen: seen1162,
		Code: "internal/compile/allocate.go mayHoldAddress", Test: "TestTenancy",
	},
	{
		ID:        "RefusesEarlySubnets",
		Behaviour: "A Subnet whose Vpc does not exist yet is refused, with a status and an event for each attempt.",
		Handling:  "The Subnet is created after its Vpc has a router.",
		Upstream:  "pkg/controller/subnet.go handleAddOrUpdateSubnet", Seen: seen1162,
		Code: "internal/compile/project.go emitProject", Test: "TestCore1ByPackets",
	},
	{
		ID:        "PodsBeforeSubnet",
		Behaviour: "Pods of a namespace that Kube-OVN saw before its Subnet get addresses of the default VPC.",
		Handling:  "The Project is not Programmed before the namespace has the annotation of its Subnet.",
		Upstream:  "pkg/controller/namespace.go handleAddNamespace", Seen: seen1162,
		Code: "internal/compile/defaultegress.go checkProjectReady", Test: "TestCore1ByPackets",
	},
	{
		ID:        "LeavesRowsOfVpcs",
		Behaviour: "Load balancers of a deleted Vpc stay until the next start, its address sets for ever.",
		Handling:  "The rows are removed when the Vpc is gone.",
		Upstream:  "pkg/controller/vpc.go handleDelVpc", Seen: seen1162,
		Code: "internal/engine/ovn/leftovers.go leftoverRecords", Test: "TestCore2DeletionLeavesNothing",
	},
	{
		ID:        "LeavesSwitchPorts",
		Behaviour: "The port of an external switch stays when the router behind it is deleted, and the VPC cannot be connected again.",
		Handling:  "Switch ports that lead to a missing router port are removed.",
		Upstream:  "pkg/controller/vpc.go handleDelVpcExternalSubnet", Seen: seen1162,
		Code: "internal/engine/ovn/leftovers.go danglingSwitchPorts", Test: "TestCore2DeletionLeavesNothing",
	},
	{
		ID:        "RemovesRoutersLate",
		Behaviour: "The router of a Vpc is removed after the Vpc, and the switch of a Subnet after the Subnet.",
		Handling:  "A Vpc is deleted after the switch of its Subnet; neither is created again before the old one is gone.",
		Upstream:  "pkg/controller/vpc.go handleDelVpc", Seen: seen1162,
		Code: "internal/controller/guards.go guardVpcRemoval", Test: "TestCore2DeletionLeavesNothing",
	},
	{
		ID:        "ForgetsRouters",
		Behaviour: "If the router of a Vpc that is gone could not be removed at once, it stays until unused rows are collected, every 6 minutes.",
		Handling:  "A router whose Vpc has been gone for 20 s is removed.",
		Upstream:  "pkg/controller/vpc.go handleDelVpc", Seen: seen1162,
		Code: "internal/controller/orphans.go isRouterForgotten", Test: "TestCore5FaultsUnderTheStormEndInTheSame",
	},
	{
		ID:        "DropsGatewayLabel",
		Behaviour: "Without the ConfigMap ovn-external-gw-config, every start takes the gateway label off all nodes.",
		Handling:  "Gateways of the default VPC keep their chassis while no node has the label.",
		Upstream:  "pkg/controller/external_gw.go removeExternalGateway", Seen: seen1162,
		Code: "internal/compile/management.go gatewayChassis", Test: "TestBalancer4Restarts",
	},
	{
		ID:        "TrustsPodAnnotations",
		Behaviour: "Annotations of a pod choose its subnet, address, gateway and port security; no permission is checked.",
		Handling:  "Admission policies allow only values of the pod's own project; ports in foreign switches are reported and dropped.",
		Upstream:  "pkg/controller/pod.go getPodKubeovnNets", Seen: seen1162,
		Code: "charts/sallyport/templates/admission-networks.yaml", Test: "TestTenancyWall",
	},
	{
		ID:        "NegatesExceptions",
		Behaviour: "ipBlock.except of a NetworkPolicy becomes a negated address set, which ovn-controller expands to a product of flows.",
		Handling:  "An admission policy allows at most three exceptions for each rule.",
		Upstream:  "pkg/ovs/ovn-nb-acl.go newNetworkPolicyACLMatch", Seen: seen1162,
		Code: "charts/sallyport/templates/admission-networks.yaml", Test: "TestTenancy",
	},
	{
		ID:        "LoadBalancesAnyEndpoint",
		Behaviour: "All endpoints of a hand-written EndpointSlice become backends of a cluster address, any number of them.",
		Handling:  "An admission policy allows 1,000 endpoints in a slice that no controller wrote.",
		Upstream:  "pkg/controller/endpoint_slice.go handleUpdateEndpointSlice", Seen: seen1162,
		Code: "charts/sallyport/templates/admission-networks.yaml", Test: "TestTenancy",
	},
}
