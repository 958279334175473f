package trace

// Codes of ways that end badly, beside those that diagnosis has.
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

// Code is a way to end badly.
type Code struct {
	Name, Meaning, Remediation string
	// Root is how much it explains, as with findings: a rule that drops is the cause itself, a reply that is lost
	// follows from something.
	Root int
}

// How much a code explains, on the scale of findings.
const (
	rootConsequence = 0 // from something that is missing or wrong elsewhere, which a check may have found
	rootCause       = 4 // nothing else has to be looked for
)

// Codes are all codes, in the order of a packet's way.
var Codes = []Code{
	{
		AddressUnknown, "The address is of no external network, or nobody in the cluster answers for it there.",
		"Compare it with kubectl get eip,fip,svc -A; who should have it says in its conditions why it has not.",
		rootCause,
	},
	{
		AddressUnused, "The address is reserved by an EIp, and nothing uses it.",
		"Let a FIp or a Service use it: spec.eip, or the annotation service.nlb.kube-dc.com/bind-on-eip.", rootCause,
	},
	{
		NotInForce, "An object asks for what would answer, and OVN does not have it.",
		"Look at the object's conditions, at sallyport plan, and at the controller's log.", rootConsequence,
	},
	{
		NoGatewayNode, "No node holds the router's port on the network.",
		"Label nodes that are Ready with ovn.kubernetes.io/external-gw=true, and look at ovn-controller there.",
		rootConsequence,
	},
	{
		NotWired, "The node that holds the gateway has no bridge for the network's wire.",
		"Let the ProviderNetwork have the node, or take the label ovn.kubernetes.io/external-gw off it.", rootCause,
	},
	{
		Disabled, "A router, or a port on the way, is disabled in OVN's northbound database.",
		"Enable it: ovn-nbctl lsp-set-enabled PORT enabled.", rootCause,
	},
	{
		SourceRangesDrop, "The client is in none of the Service's loadBalancerSourceRanges.",
		"Add the client's prefix to spec.loadBalancerSourceRanges, or ask from another address.", rootCause,
	},
	{
		NetworkIsolates, "The network has isolation Tenants, and the packet comes from another project's address.",
		"Ask from outside, or ask the operator to share the address: sharedAddresses of the ExternalNetwork.",
		rootCause,
	},
	{
		AllowListDrops, "An allow-list of the Project does not have the other side.",
		"Ask the operator to add it: network.kube-dc.com/ingress-allowlist or egress-allowlist of the Project.",
		rootCause,
	},
	{
		NetworkPolicyDrops, "A NetworkPolicy selects the pod, and none of its rules allows the packet.",
		"Allow it in the NetworkPolicy (the client's own address is what the pod sees), or change the pod's labels.",
		rootCause,
	},
	{
		SecurityGroupDrops, "A SecurityGroup of Kube-OVN's drops the packet.",
		"Allow it in the SecurityGroup, or take the pod out of it.", rootCause,
	},
	{
		RuleDrops, "A rule (ACL) in OVN drops the packet.",
		"Find out who wrote it: ovn-nbctl list ACL; if nobody needs it, delete it.", rootCause,
	},
	{
		PortSecurityDrops, "The pod's port may only use its own addresses.",
		"Send with the pod's own address, or allow the other one by annotation.", rootCause,
	},
	{
		NoSuchPort, "The address is there, and nobody is behind this port of it.",
		"Ask a port that the Service has, or add it to the Service; for all ports use a FIp.", rootCause,
	},
	{
		BalancerIgnoresPing, "The address is a load balancer's: OVN passes on the ports of its Services, and answers no ping.",
		"Ask a port of the Service: sallyport trace CLIENT ADDRESS:PORT, or curl. For an address that answers pings use a FIp.", rootCause,
	},
	{
		NoEndpoints, "The Service has no endpoint that gets connections.",
		"Look at its pods: do labels match the selector, are they ready, do health checks find them?", rootConsequence,
	},
	{
		PolicyDrops, "A router policy of ours drops the packet.",
		"The reason says which; for egress look at the EgressIP, at its conditions and at the nodes that may hold it.",
		rootConsequence,
	},
	{
		ForeignPolicyDrops, "A router policy that is nobody's known here drops the packet.",
		"Find out who wrote it: ovn-nbctl lr-policy-list ROUTER, and the Vpc's policyRoutes; if nobody needs it, delete it.", rootCause,
	},
	{
		NoRoute, "A router has no route for the packet.",
		"Look at the router's tables: ovn-nbctl lr-route-list ROUTER; sallyport plan tells what is missing.",
		rootConsequence,
	},
	{
		TargetGone, "What the address leads to is on no node: the pod is gone, or its port is not plugged in.",
		"Look at the pod (kubectl get pod -o wide), and at Open vSwitch and ovn-controller on its node.",
		rootConsequence,
	},
	{
		NobodyAnswers, "Nobody answers for the next hop.",
		"Look for the missing port or binding: sallyport plan tells what should be there.", rootConsequence,
	},
	{
		WrongGateway, "It leaves to an address that is not the network's gateway.",
		"Correct the next hop: sallyport plan tells what should be there, or who else has written it.", rootConsequence,
	},
	{
		LeavesUntranslated, "It leaves with an address that is not one of the network, and the router there drops it.",
		"A translation is missing, or a policy leads it by a network where it has none: sallyport plan tells.",
		rootConsequence,
	},
	{
		ReplyLeavesElsewhere, "The reply does not leave by the network that the request came in on, or not with the address that was asked.",
		"Something of the return path is missing or overruled: sallyport plan tells what, ovn-nbctl lr-policy-list ROUTER what leads it.", rootConsequence,
	},
	{
		Spoofed, "A router drops a packet that comes from outside with the router's own address.",
		"Inside a project use the pod's address or a Service.", rootCause,
	},
	{
		TooDeep, "One node would have to translate a packet more often than Open vSwitch's userspace datapath does.",
		"Inside a project use the pod's address or a Service; or let the pod run on a node that does not hold the gateway.", rootCause,
	},
	{Loop, "The packet goes in circles.", "Look at the routes and policies on its way.", rootConsequence},
	{
		LeavesByNode, "A pod of Kube-OVN's default VPC sends to the outside. Its node forwards the packet; what happens then is not in OVN's rows.",
		"Look on the node: ip route get ADDRESS from POD-ADDRESS iif ovn0 tells where it sends the packet, tcpdump whether an answer comes.", rootConsequence,
	},
	{CantTell, "The way can't be told from what is known.", "The reason says what is not known.", rootConsequence},
}
