package trace

// Codes of paths that fail, in addition to those of diagnosis.
const (
	AddressUnknown       = "AddressUnknown"
	AddressUnused        = "AddressUnused"
	NotInForce           = "NotInForce"
	NoSuchPort           = "NoSuchPort"
	BalancerIgnoresPing  = "BalancerIgnoresPing"
	NoEndpoints          = "NoEndpoints"
	NetworkPolicyDrops   = "NetworkPolicyDrops"
	SecurityGroupDrops   = "SecurityGroupDrops"
	SourceRangesDrop     = "SourceRangesDrop"
	NetworkIsolates      = "NetworkIsolates"
	AllowListDrops       = "AllowListDrops"
	RuleDrops            = "RuleDrops"
	PolicyDrops          = "PolicyDrops"
	ForeignPolicyDrops   = "ForeignPolicyDrops"
	PortSecurityDrops    = "PortSecurityDrops"
	NoGatewayNode        = "NoGatewayNode"
	GatewayUnclaimed     = "GatewayUnclaimed"
	NotWired             = "NotWired"
	TooDeep              = "TooDeep"
	TargetGone           = "TargetGone"
	Disabled             = "Disabled"
	NoRoute              = "NoRoute"
	NobodyAnswers        = "NobodyAnswers"
	WrongGateway         = "WrongGateway"
	ReplyLeavesElsewhere = "ReplyLeavesElsewhere"
	LeavesUntranslated   = "LeavesUntranslated"
	Spoofed              = "Spoofed"
	Loop                 = "Loop"
	LeavesByNode         = "LeavesByNode"
	CantTell             = "CantTell"
)

// Code is a way for a path to fail.
type Code struct {
	Name, Meaning, Remediation string
	// Root is its cause rank, as with findings: an ACL that drops is the cause itself, a lost reply is a consequence.
	Root int
}

// Cause ranks, on the scale of findings.
const (
	rootConsequence = 0 // of something missing or wrong elsewhere, which a check may have found
	rootCause       = 4 // no other cause to look for
)

// Codes lists all codes, in the order of a packet's path.
var Codes = []Code{
	{
		AddressUnknown, "The address is not in an external network, or nothing in the cluster answers for it there.",
		"Compare it with kubectl get eip,fip,svc -A, and check the conditions of the object that should have it.",
		rootCause,
	},
	{
		AddressUnused, "An EIp reserves the address, but nothing uses it.",
		"Assign it to a FIp (spec.eip) or a Service (annotation service.nlb.kube-dc.com/bind-on-eip).", rootCause,
	},
	{
		NotInForce, "An object requests the address or port, but its rows are missing in OVN.",
		"Check the object's conditions, sallyport plan and the controller's log.", rootConsequence,
	},
	{
		NoGatewayNode, "No node holds the router's gateway port on the network.",
		"Label Ready nodes with ovn.kubernetes.io/external-gw=true, and check ovn-controller there.",
		rootConsequence,
	},
	{
		GatewayUnclaimed,
		"Nodes may hold the router's gateway port on the network and are Ready, but none holds it at this moment.",
		"Run the command again: another node takes the port over within seconds. If it remains, check ovn-controller of " +
			"these nodes, and the tunnels between them.", rootConsequence,
	},
	{
		NotWired, "The node that holds the gateway port has no bridge mapping for the network.",
		"Add the node to the ProviderNetwork, or remove the label ovn.kubernetes.io/external-gw from it.", rootCause,
	},
	{
		Disabled, "A router or port on the path is disabled in OVN's northbound database.",
		"Enable it: ovn-nbctl lsp-set-enabled PORT enabled.", rootCause,
	},
	{
		SourceRangesDrop, "The client is not in the Service's loadBalancerSourceRanges.",
		"Add the client's prefix to spec.loadBalancerSourceRanges, or use another client.", rootCause,
	},
	{
		NetworkIsolates, "The network has isolation Tenants, and the source address belongs to another project.",
		"Use a client outside, or ask the operator to share the address (sharedAddresses of the ExternalNetwork).",
		rootCause,
	},
	{
		AllowListDrops, "The peer is not on an allow-list of the Project.",
		"Ask the operator to add it to network.kube-dc.com/ingress-allowlist or egress-allowlist of the Project.",
		rootCause,
	},
	{
		NetworkPolicyDrops, "A NetworkPolicy selects the pod, and none of its rules allows the packet.",
		"Allow it in the NetworkPolicy (the pod sees the client's original address), or change the pod's labels.",
		rootCause,
	},
	{
		SecurityGroupDrops, "A Kube-OVN SecurityGroup drops the packet.",
		"Allow it in the SecurityGroup, or remove the pod from the group.", rootCause,
	},
	{
		RuleDrops, "An OVN ACL drops the packet.",
		"Find out who wrote it: ovn-nbctl list ACL. If it is not needed, delete it.", rootCause,
	},
	{
		PortSecurityDrops, "Port security allows the pod only its own addresses.",
		"Send with the pod's own address, or allow the other address by annotation.", rootCause,
	},
	{
		NoSuchPort, "The address exists, but no load balancer or NAT entry serves this port.",
		"Use a port of the Service, or add the port to the Service. For all ports use a FIp.", rootCause,
	},
	{
		BalancerIgnoresPing,
		"The address belongs to a load balancer: OVN forwards the ports of its Services and does not answer pings.",
		"Use a port of the Service: sallyport trace CLIENT ADDRESS:PORT, or curl. " +
			"For an address that answers pings use a FIp.", rootCause,
	},
	{
		NoEndpoints, "The Service has no endpoint that can get connections.",
		"Check its pods: their labels must match the selector, they must be ready, and health checks must pass.",
		rootConsequence,
	},
	{
		PolicyDrops, "A router policy of Sallyport drops the packet.",
		"The reason names it. For egress, check the EgressIP, its conditions and the nodes that may hold it.",
		rootConsequence,
	},
	{
		ForeignPolicyDrops, "A router policy of unknown origin drops the packet.",
		"Find out who wrote it: ovn-nbctl lr-policy-list ROUTER, and the Vpc's policyRoutes. " +
			"If it is not needed, delete it.", rootCause,
	},
	{
		NoRoute, "A router has no route for the packet.",
		"Check the router's tables: ovn-nbctl lr-route-list ROUTER. sallyport plan shows what is missing.",
		rootConsequence,
	},
	{
		TargetGone, "The target of the address is on no node: the pod does not exist, or its port is not bound.",
		"Check the pod (kubectl get pod -o wide), and Open vSwitch and ovn-controller on its node.",
		rootConsequence,
	},
	{
		NobodyAnswers, "Nothing answers for the next hop.",
		"Look for the missing port or MAC binding: sallyport plan shows what should exist.", rootConsequence,
	},
	{
		WrongGateway, "The packet leaves to an address that is not the network's gateway.",
		"Correct the next hop: sallyport plan shows what should exist, and rows that others wrote.", rootConsequence,
	},
	{
		LeavesUntranslated,
		"The packet leaves with a source address that is not in the network, and the router there drops it.",
		"A NAT entry is missing, or a policy sends the packet through a network where it has none: " +
			"sallyport plan shows which.", rootConsequence,
	},
	{
		ReplyLeavesElsewhere,
		"The reply does not leave through the network the request arrived on, or does not have the address that " +
			"the client used as its source.",
		"A part of the return path is missing or overridden: sallyport plan shows which, " +
			"ovn-nbctl lr-policy-list ROUTER shows the policy.", rootConsequence,
	},
	{
		Spoofed, "A router drops a packet that arrives from outside with the router's own address as its source.",
		"Within a project use the pod's address or a Service.", rootCause,
	},
	{
		TooDeep, "One node would recirculate a packet more often than Open vSwitch's userspace datapath allows.",
		"Within a project use the pod's address or a Service, or move the pod to a node that does not hold " +
			"the gateway.",
		rootCause,
	},
	{Loop, "The packet loops.", "Check the routes and policies on its path.", rootConsequence},
	{
		LeavesByNode,
		"A pod of Kube-OVN's default VPC sends to the outside. Its node forwards the packet; what happens next is " +
			"not in OVN's rows.",
		"Check on the node: ip route get ADDRESS from POD-ADDRESS iif ovn0 shows where it sends the packet, tcpdump " +
			"whether a reply arrives.", rootConsequence,
	},
	{
		CantTell, "The survey is not enough to determine the path.", "The reason says what is not known.",
		rootConsequence,
	},
}
