package intent

import "slices"

// Reasons of conditions and events. The reference page is generated from Reasons below.
const (
	// Accepted
	Accepted                  = "Accepted"
	Malformed                 = "Malformed"
	NameTaken                 = "NameTaken"
	NameReserved              = "NameReserved"
	NamespaceTaken            = "NamespaceTaken"
	PrefixOverlaps            = "PrefixOverlaps"
	NoProject                 = "NoProject"
	ProjectRefused            = "ProjectRefused"
	QuotaExceeded             = "QuotaExceeded"
	AddressTaken              = "AddressTaken"
	AddressOutsideNetwork     = "AddressOutsideNetwork"
	AddressReserved           = "AddressReserved"
	EIpTaken                  = "EIpTaken"
	TargetTaken               = "TargetTaken"
	TargetOutsideProject      = "TargetOutsideProject"
	OutboundOverridden        = "OutboundOverridden"
	OutboundUnavailable       = "OutboundUnavailable"
	PortTaken                 = "PortTaken"
	NoPortsLeft               = "NoPortsLeft"
	NeedsConnectionReturnPath = "NeedsConnectionReturnPath"
	SubnetTaken               = "SubnetTaken"
	ProjectDeleting           = "ProjectDeleting"

	// Accepted, of EgressIPs: the reasons are those of OVN-Kubernetes.
	InvalidEgressIP    = "InvalidEgressIP"
	EgressIPConflict   = "EgressIPConflict"
	UnsupportedRequest = "UnsupportedRequest"

	// Accepted, of EgressServices and EgressRoutes
	AddressOfAnotherNetwork = "AddressOfAnotherNetwork"
	TooManyRoutes           = "TooManyRoutes"

	// Accepted, of Services
	TooManyRanges = "TooManyRanges"

	// Accepted, of ExternalNetworks that nodes are on
	NeedsClusterPrefixes = "NeedsClusterPrefixes"
	NeedsAnotherMethod   = "NeedsAnotherMethod"

	// ResolvedRefs
	ResolvedRefs             = "ResolvedRefs"
	NetworkNotFound          = "NetworkNotFound"
	NetworkNotAllowed        = "NetworkNotAllowed"
	SubnetNotFound           = "SubnetNotFound"
	SharedAddressNotReserved = "SharedAddressNotReserved"
	NetworkNotSupported      = "NetworkNotSupported"
	EIpNotFound              = "EIpNotFound"
	RefNotPermitted          = "RefNotPermitted" // as in Gateway API
	OvnEipNotFound           = "OvnEipNotFound"
	PodNotFound              = "PodNotFound"
	VMNotFound               = "VMNotFound"
	ServiceNotFound          = "ServiceNotFound"
	TargetHasNoAddress       = "TargetHasNoAddress"
	FamilyNotServed          = "FamilyNotServed"

	// Programmed
	Programmed         = "Programmed"
	NotAccepted        = "NotAccepted"
	NotResolved        = "NotResolved"
	Programming        = "Programming"
	WriteFailed        = "WriteFailed"
	PoolExhausted      = "PoolExhausted"
	WaitingForEngine   = "WaitingForEngine"
	WaitingForEIp      = "WaitingForEIp"
	NoWayBack          = "NoWayBack"
	SomePortTaken      = "SomePortTaken"
	FamilyMissing      = "FamilyMissing"
	TooManyPorts       = "TooManyPorts"
	NoAddressForChecks = "NoAddressForChecks"
	NoGatewayNode      = "NoGatewayNode"
	NoEgress           = "NoEgress"
	WaitingForAgent    = "WaitingForAgent"
	NodeNotOnNetwork   = "NodeNotOnNetwork"

	// Programmed, of Projects
	AllowListMalformed = "AllowListMalformed"

	// Of NodePaths
	InterfaceNotFound = "InterfaceNotFound"
	Disturbed         = "Disturbed"

	// Programmed, of EgressIPs: the reasons are those of OVN-Kubernetes.
	NoMatchingNodeFound = "NoMatchingNodeFound"
	UnassignedRequest   = "UnassignedRequest"
	PodsNotServed       = "PodsNotServed"

	NoEnvoyGateway         = "NoEnvoyGateway"
	EndpointOutsideProject = "EndpointOutsideProject"
	EndpointNotInNamespace = "EndpointNotInNamespace"
	EndpointIsNode         = "EndpointIsNode"
	SubnetTooClose         = "SubnetTooClose"
	OverriddenByFIp        = "OverriddenByFIp"
	BeingDeleted           = "BeingDeleted"
	Deleting               = "Deleting"

	// Programmed, of Services
	TooManyEndpoints = "TooManyEndpoints"

	// HasEndpoints
	HasEndpoints = "HasEndpoints"
	NoEndpoints  = "NoEndpoints"

	// Only in events; the reason is that of OVN-Kubernetes.
	UndefinedRequest = "UndefinedRequest"
	Moved            = "Moved"

	// ReturnPath
	ReturnPathConnection = "Connection"
	ReturnPathSource     = "Source"
	EngineTooOld         = "EngineTooOld"

	// NetworkAllowed
	NetworkNoLongerAllowed = "NetworkNoLongerAllowed"

	// Isolated
	ForeignPod = "ForeignPod"
	StrayPod   = "StrayPod"

	// Deletable
	InUse                     = "InUse"
	CleaningUp                = "CleaningUp"
	NamespaceContentRemaining = "NamespaceContentRemaining" // as in Kubernetes
)

// IsTransientReason reports whether every object passes through a reason. Such a reason gets a condition, but no event.
func IsTransientReason(reason string) bool {
	return slices.Contains([]string{
		Programming, WaitingForEngine, WaitingForEIp, WaitingForAgent, NotAccepted, NotResolved, Deleting, ProjectDeleting,
		CleaningUp,
		Accepted, ResolvedRefs, HasEndpoints, ReturnPathConnection, ReturnPathSource,
	}, reason)
}

// IsConsequence reports whether a reason says only that another condition has the reason.
func IsConsequence(reason string) bool { return reason == NotAccepted || reason == NotResolved }

// ReasonDoc documents a reason: its meaning and the remedy.
type ReasonDoc struct{ Condition, Reason, Meaning, Remedy string }

// Reasons lists every reason with its condition.
var Reasons = []ReasonDoc{
	{"Accepted", Accepted, "The object is valid and allowed.", "Nothing."},
	{"Accepted", Malformed, "A field is invalid.", "Correct the field that the message names."},
	{"Accepted", NameTaken, "Another Project already has this name.", "Choose another name."},
	{
		"Accepted", NameReserved,
		"The Project's VPC would get a name that Sallyport or Kube-OVN reserves, or the name of an external subnet.",
		"Choose another name.",
	},
	{
		"Accepted", NamespaceTaken, "A namespace with the project's name exists and does not belong to the project.",
		"Choose another name, or delete the namespace.",
	},
	{
		"Accepted", PrefixOverlaps,
		"The prefix of a new Project overlaps with an external network, the cluster's own addresses, or " +
			"addresses that can't be used. Existing Projects are not refused; `sallyport doctor` reports their " +
			"overlaps.",
		"Create the Project with another prefix. The message names what it overlaps with.",
	},
	{
		"Accepted", NoProject,
		"The namespace belongs to no Project. Load balancers and floating IPs may also be in a namespace of the management " +
			"VPC.",
		"Create the object in the namespace of a project.",
	},
	{
		"Accepted", ProjectRefused, "The Project of this namespace is not accepted.",
		"Check the conditions of the Project.",
	},
	{
		"Accepted", ProjectDeleting, "The Project of this namespace is being deleted.",
		"Nothing. The object is deleted with the Project.",
	},
	{
		"Accepted", PortTaken, "Another Service uses the same ports on the same EIp.",
		"Use other ports or another EIp. The message names the Service that has them.",
	},
	{
		"Accepted", NoPortsLeft, "Older Services of the namespace use all 5,000 ports that a namespace may have.",
		"Use fewer ports, or another namespace.",
	},
	{
		"Accepted", NeedsConnectionReturnPath,
		"The network has returnPath Source. Load balancers on secondary networks, EgressRoutes and " +
			"EgressServices need returnPath Connection.",
		"Use the project's default network, or ask the operator to set returnPath Connection.",
	},
	{
		"Accepted", QuotaExceeded, "The quota of EIps or Projects of the project or its organization is used up.",
		"Delete one, or ask the operator for a higher quota. The message names the quota.",
	},
	{
		"Accepted", AddressTaken, "The address is already in use.",
		"Request another address, or none in particular. For an EgressService, give the Service an address " +
			"that belongs to its own namespace.",
	},
	{
		"Accepted", AddressOutsideNetwork,
		"The address is in no subnet of the network, or in `nodes.addresses` of no ExternalNetwork.",
		"Request an address of the prefixes that the message names, or ask the operator to add the address.",
	},
	{
		"Accepted", AddressReserved,
		"The operator has reserved the address: it is in excludeIps of the Subnet. An EIp that already had the " +
			"address keeps it.",
		"Request another address, or none in particular; or ask the operator to remove it from excludeIps.",
	},
	{"Accepted", EIpTaken, "The EIp is already in use.", "Use another EIp, or release this one."},
	{"Accepted", TargetTaken, "Another FIp has the same target.", "Delete one of the two."},
	{
		"Accepted", TargetOutsideProject,
		"The target address is not in the project's subnet or, in the management VPC, does not belong to the namespace.",
		"Use the address of a pod or virtual machine of the project, or of the namespace.",
	},
	{"Accepted", SubnetTaken, "The Subnet belongs to another ExternalNetwork.", "Remove it from one of the two."},
	{
		"Accepted", InvalidEgressIP, "An address or a selector of the EgressIP is invalid.",
		"Correct the field that the message names.",
	},
	{
		"Accepted", EgressIPConflict, "The egress address belongs to a node or a gateway, or is already in use.",
		"Choose another address. The message names the conflict.",
	},
	{
		"Accepted", AddressOfAnotherNetwork,
		"The Service's address does not belong to the network through which its pods should leave. That " +
			"network would drop it as a source address.",
		"Remove spec.network, or use sourceIPBy Network.",
	},
	{
		"Accepted", TooManyRoutes,
		"Too many EgressRoutes of the project have the same destination, or its EgressRoutes have too many " +
			"destinations in total.",
		"Combine their pods in one EgressRoute, or use shorter prefixes.",
	},
	{
		"Accepted", TooManyRanges, "The Service has more than 250 loadBalancerSourceRanges.",
		"Combine them into shorter prefixes.",
	},
	{
		"Accepted", NeedsAnotherMethod,
		"The network has method Static, which routes by destination only, but the object selects traffic to " +
			"all destinations.",
		"Use an EgressRoute with destinations, or ask the operator to choose another method.",
	},
	{
		"Accepted", NeedsClusterPrefixes, "Method VRF needs to know which prefixes are inside the cluster.",
		"Set --cluster-prefixes of the controller, or choose another method.",
	},
	{
		"Accepted", UnsupportedRequest, "Another EgressIP has the address.",
		"Choose another address, or delete the EgressIP that the message names.",
	},
	{"ResolvedRefs", ResolvedRefs, "Everything that the object refers to exists.", "Nothing."},
	{
		"Programmed", AllowListMalformed,
		"An allow-list of the Project is invalid. In its direction, only replies are allowed.",
		"Ask the operator to correct the annotation that the message names.",
	},
	{
		"ResolvedRefs", NetworkNotFound, "No external network has that type or name.",
		"Use one that the message names, or ask the operator.",
	},
	{
		"ResolvedRefs", NetworkNotAllowed,
		"This project or namespace may not use the network, or the EgressIP selects a namespace that may not use it.",
		"Use a type that the message names, or ask the operator to add the project to allowedProjects or " +
			"allowedNamespaces of the ExternalNetwork.",
	},
	{
		"NetworkAllowed", NetworkNoLongerAllowed,
		"The project may no longer use the network. The object keeps what it has there.",
		"Delete the object, or ask the operator to allow the project again.",
	},
	{
		"ResolvedRefs", NetworkNotSupported,
		"The network can't be used with this family: its Subnet has IPv6, which Kube-OVN can't connect to a VPC; or IPv6 " +
			"is asked for where it is not served.",
		"Use IPv4. The operator can set spec.ipv6 of the ExternalNetwork, whose Subnet must have IPv4 only.",
	},
	{
		"ResolvedRefs", SubnetNotFound, "A Subnet that the ExternalNetwork names does not exist.",
		"Create the Subnet, or name another.",
	},
	{
		"ResolvedRefs", SharedAddressNotReserved,
		"An address in sharedAddresses is not in excludeIps of a Subnet of the network. It is not shared.",
		"Add it to excludeIps of its Subnet, or remove it from sharedAddresses.",
	},
	{"ResolvedRefs", EIpNotFound, "The EIp does not exist.", "Create it, or name another."},
	{
		"ResolvedRefs", RefNotPermitted,
		"The Service names an EIp of another namespace that does not exist or is not shared with the Service's " +
			"namespace. The message does not tell which.",
		"Ask the EIp's owner to add the Service's namespace to spec.sharedWith, or use an EIp of the Service's " +
			"own namespace.",
	},
	{
		"ResolvedRefs", OvnEipNotFound, "The OvnEip that childRef names does not exist in this project or namespace.",
		"Correct childRef.",
	},
	{"ResolvedRefs", PodNotFound, "The pod does not exist.", "Create it. The floating IP is then set up."},
	{
		"ResolvedRefs", VMNotFound, "The virtual machine is not running, or has no such interface.",
		"Start the virtual machine, or correct the interface. The floating IP is then set up.",
	},
	{
		"ResolvedRefs", ServiceNotFound, "No load balancer has the name of the EgressService.",
		"Create a Service of type LoadBalancer with that name, or rename the EgressService.",
	},
	{
		"ResolvedRefs", TargetHasNoAddress, "The target or the Service has no address yet.",
		"Wait. The object is set up once there is an address.",
	},
	{
		"ResolvedRefs", FamilyNotServed, "The network has no gateway of the IP family of a destination, or the named EIp has " +
			"not the family that the Service asks for.",
		"Remove the destination, or ask the operator to add such a gateway; or name another EIp.",
	},
	{"Programmed", Programmed, "Everything was observed in Kubernetes and in the OVN northbound database.", "Nothing."},
	{
		"Programmed", NotAccepted, "The object is not accepted, so nothing is written for it.",
		"Check the condition Accepted. The message repeats its reason.",
	},
	{
		"Programmed", NotResolved, "An object that this one refers to does not exist or can't be used, so nothing is written for it.",
		"Check the condition ResolvedRefs. The message repeats its reason.",
	},
	{
		"Programmed", Programming, "The writes are not observed yet.",
		"Wait a second. If it persists, check Kube-OVN's controller.",
	},
	{"Programmed", WriteFailed, "A write failed.", "Check the error in the message. The write is retried."},
	{
		"Programmed", PoolExhausted, "No subnet of the network has a free address.",
		"Delete an EIp, or ask the operator for another subnet.",
	},
	{
		"Programmed", NoWayBack,
		"The project's subnet has no reserved address left for the return path of another network.",
		"Use a network that the project already uses, or a project with a larger subnet.",
	},
	{
		"Programmed", FamilyMissing,
		"The Service asks for addresses of both families and has one. The message says why it has not the other.",
		"Follow the message, or set ipFamilyPolicy to PreferDualStack or SingleStack.",
	},
	{
		"Programmed", WaitingForEngine, "Kube-OVN has not processed an object yet.",
		"Wait. If it persists, check the object that the message names.",
	},
	{
		"Programmed", OutboundOverridden,
		"A FIp has outbound, but another object decides about the connections of its target. Connections to its address work.",
		"Remove outbound, or change the other object so that it does not select the target.",
	},
	{
		"Programmed", OutboundUnavailable,
		"A FIp has outbound, but the connections of its target can't use its address. Connections to its address work.",
		"See the message; remove outbound otherwise.",
	},
	{
		"Programmed", NoAddressForChecks,
		"Health checks need a reserved address of the project's subnet, and all of them are in use. The " +
			"backends are not checked.",
		"Use fewer networks, or a project with a larger subnet.",
	},
	{
		"Programmed", NoGatewayNode, "No node is eligible as gateway of the management VPC.",
		"Label nodes with ovn.kubernetes.io/external-gw=true.",
	},
	{
		"Programmed", NoEgress,
		"The annotation k8s.ovn.org/egress-service of the Service can't be applied. The load balancer itself works.",
		"Resolve the cause that the message names.",
	},
	{
		"Programmed", WaitingForAgent, "A node has not applied its NodePath yet.",
		"Wait a second. If it persists, check the NodePath that the message names and sallyport-agent on that node.",
	},
	{
		"Programmed", NodeNotOnNetwork,
		"Some pods run on nodes that are not on the network. They leave like pods that are not selected; the " +
			"others leave as requested.",
		"Run the pods on nodes that the ExternalNetwork's nodeSelector selects, or extend the selector.",
	},
	{
		"Programmed", OverriddenByFIp,
		"Some pods of the EgressRoute or EgressService in the management VPC leave with the address of a FIp that has " +
			"outbound, and never reach their node. The other pods leave as requested.",
		"Remove spec.outbound of the FIp, or exclude its target. The message names the first FIps.",
	},
	{
		"Programmed", NoMatchingNodeFound,
		"No node can hold an address of the EgressIP. Its pods can't reach the outside, unless it fails open.",
		"Label nodes that are Ready with k8s.ovn.org/egress-assignable.",
	},
	{
		"Programmed", UnassignedRequest,
		"Some addresses have no node, because a node holds at most one address of an EgressIP. The pods leave " +
			"with the other addresses.",
		"Label more nodes with k8s.ovn.org/egress-assignable.",
	},
	{
		"Programmed", PodsNotServed,
		"The EgressIP selects pods that are neither of a project nor on an overlay Subnet of Kube-OVN's default VPC: " +
			"pods on Subnets with a VLAN, and of other VPCs. They leave as if they were not selected, whatever failurePolicy says. " +
			"The other selected pods leave with its addresses.",
		"Let its selectors match namespaces of projects and of overlay Subnets of Kube-OVN's default VPC only.",
	},
	{
		"Programmed", NoEnvoyGateway,
		"A Backend was requested, but Envoy Gateway's CRDs are not installed. The load balancer works.",
		"Install Envoy Gateway's CRDs and restart the controller, or remove the annotation from the Service.",
	},
	{
		"Programmed", SomePortTaken, "Another Service uses one of the ports on the same EIp. The other ports work.",
		"Use another port or another EIp. The message names the Service that has it.",
	},
	{
		"Programmed", TooManyPorts,
		"The Service has more than 1,000 ports, or the Services of its namespace have more than 5,000 in " +
			"total. Excess ports do not answer; the others work.",
		"Use fewer ports, or several Services in several namespaces. The message has the number of excess ports.",
	},
	{
		"Programmed", EndpointOutsideProject,
		"The Service has an endpoint that is not in the project's subnet. It gets no connections; the others do.",
		"Use pods or virtual machines of the project.",
	},
	{
		"Programmed", TooManyEndpoints,
		"The Service has too many endpoints, counted by address and port. Excess endpoints get no connections.",
		"Use fewer pods or ports, or spread them over several Services. The message has the numbers.",
	},
	{
		"Programmed", EndpointIsNode,
		"The Service has an endpoint that is the address of a node, and no pod of its namespace with hostNetwork runs there " +
			"and declares the port. It gets no connections; the others do.",
		"Let the Service select pods of its own namespace, and declare the port in their containers.",
	},
	{
		"Programmed", SubnetTooClose,
		"The Service has an endpoint, or the FIp its target, in a Subnet of Kube-OVN's default VPC whose return ports would " +
			"have a network that overlaps with an external network or with the Subnet of the nodes. It gets no " +
			"connections; other endpoints do.",
		"Use a Subnet with another prefix.",
	},
	{
		"Programmed", EndpointNotInNamespace,
		"The Service is in the management VPC and has an endpoint that is not a pod of its namespace. It gets " +
			"no connections; the others do.",
		"Let the Service select pods of its own namespace.",
	},
	{"Programmed", WaitingForEIp, "The EIp has no address yet.", "Check the conditions of the EIp."},
	{
		"Programmed", BeingDeleted,
		"Someone has deleted an object that is needed. It is created again once the deletion has finished.",
		"Wait, or remove what blocks the deletion of the object.",
	},
	{
		"Programmed", Deleting, "The object is being deleted, together with everything that was created for it.",
		"Nothing. If the deletion is blocked, condition Deletable has the cause.",
	},
	{
		"ResolvedRefs", InterfaceNotFound, "The node has no such interface, or the interface is down.",
		"Connect it or set it up; or correct the ExternalNetwork's interface or nodeSelector.",
	},
	{
		"Undisturbed", Disturbed,
		"Another program on the node removes Sallyport's configuration. The agent restores it each time.",
		"Find that program. The message lists the usual causes.",
	},
	{"HasEndpoints", HasEndpoints, "At least one endpoint serves connections.", "Nothing."},
	{
		"HasEndpoints", NoEndpoints, "No endpoint is ready. Connections are refused.",
		"Check the pods that the Service selects.",
	},
	{"ReturnPath", ReturnPathConnection, "Replies leave through the network the connection arrived on.", "Nothing."},
	{
		"ReturnPath", ReturnPathSource,
		"All packets of the target of a floating IP leave through this network, as configured.",
		"Nothing.",
	},
	{
		"ReturnPath", EngineTooOld,
		"OVN is too old for returnPath Connection. The source address of the pod selects the network, as with Source.",
		"Upgrade OVN to 24.09 or later, or set returnPath Source.",
	},
	{
		"Event", Moved, "An egress address moved to another node, or the target of a FIp to another address.",
		"Nothing. The message names both.",
	},
	{
		"Event", UndefinedRequest, "Several EgressIPs select the same pod. The pod uses the addresses of the oldest.",
		"Let only one of them select the pod.",
	},
	{
		"Isolated", ForeignPod,
		"A pod of another namespace is on the project's network. With --isolation=Enforce its packets are " +
			"dropped in both directions; with Report it can reach the project's pods.",
		"Delete the pod that the message names, and find out who could create it. If it belongs there, ask the " +
			"operator to add its namespace to --trusted-namespaces.",
	},
	{
		"Isolated", StrayPod,
		"A pod of the project is on a network that does not belong to the project, such as an external network " +
			"or the platform's. With --isolation=Enforce its packets there are dropped in both directions.",
		"Delete the pod, or remove the Kube-OVN annotation that selects the network. If it belongs there, ask " +
			"the operator to add its namespace to spec.namespaces of that Subnet.",
	},
	{
		"Deletable", InUse, "The object is being deleted and still in use.",
		"Delete the objects that use it, or let them use something else.",
	},
	{
		"Deletable", NamespaceContentRemaining,
		"The Project's namespace is being deleted, but some of its content remains, most often an object with " +
			"a finalizer.",
		"Delete what the message names, or remove its finalizers.",
	},
	{
		"Deletable", CleaningUp, "What was created for the object is being deleted.",
		"Wait. If it persists, check the object that the message names.",
	},
}

// ReasonMeaning returns the meaning of a reason.
func ReasonMeaning(reason string) string { return findReasonDoc(reason).Meaning }

// ReasonRemedy returns what to do about a reason.
func ReasonRemedy(reason string) string { return findReasonDoc(reason).Remedy }

func findReasonDoc(reason string) ReasonDoc {
	for _, r := range Reasons {
		if r.Reason == reason {
			return r
		}
	}
	return ReasonDoc{}
}
