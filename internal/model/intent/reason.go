package intent

import "slices"

// Reasons of conditions and events. The reference page is made from Reasons below.
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
	PortTaken                 = "PortTaken"
	NoPortsLeft               = "NoPortsLeft"
	NeedsConnectionReturnPath = "NeedsConnectionReturnPath"
	SubnetTaken               = "SubnetTaken"
	ProjectDeleting           = "ProjectDeleting"

	// Accepted, of EgressIPs: the words are OVN-Kubernetes'.
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
	RefNotPermitted          = "RefNotPermitted" // the word is Gateway API's
	OvnEipNotFound           = "OvnEipNotFound"
	PodNotFound              = "PodNotFound"
	VMNotFound               = "VMNotFound"
	ServiceNotFound          = "ServiceNotFound"
	TargetHasNoAddress       = "TargetHasNoAddress"
	FamilyNotServed          = "FamilyNotServed"

	// Programmed
	Programmed         = "Programmed"
	NotAccepted        = "NotAccepted"
	Programming        = "Programming"
	WriteFailed        = "WriteFailed"
	PoolExhausted      = "PoolExhausted"
	WaitingForEngine   = "WaitingForEngine"
	WaitingForEIp      = "WaitingForEIp"
	NoWayBack          = "NoWayBack"
	SomePortTaken      = "SomePortTaken"
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

	// Programmed, of EgressIPs: the words are OVN-Kubernetes'.
	NoMatchingNodeFound = "NoMatchingNodeFound"
	UnassignedRequest   = "UnassignedRequest"
	PodsNotServed       = "PodsNotServed"

	NoEnvoyGateway         = "NoEnvoyGateway"
	EndpointOutsideProject = "EndpointOutsideProject"
	EndpointNotInNamespace = "EndpointNotInNamespace"
	BeingDeleted           = "BeingDeleted"
	Deleting               = "Deleting"

	// Programmed, of Services
	TooManyEndpoints = "TooManyEndpoints"

	// HasEndpoints
	HasEndpoints = "HasEndpoints"
	NoEndpoints  = "NoEndpoints"

	// Only events: the word is OVN-Kubernetes'.
	UndefinedRequest = "UndefinedRequest"

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
	NamespaceContentRemaining = "NamespaceContentRemaining" // the word is Kubernetes'
)

// IsTransientReason says whether a reason is a stage that every object goes through: worth a condition, not an event.
func IsTransientReason(reason string) bool {
	return slices.Contains([]string{
		Programming, WaitingForEngine, WaitingForEIp, WaitingForAgent, NotAccepted, Deleting, ProjectDeleting,
		CleaningUp,
		Accepted, ResolvedRefs, HasEndpoints, ReturnPathConnection, ReturnPathSource,
	}, reason)
}

// ReasonDoc is what a reason means and what to do about it.
type ReasonDoc struct{ Condition, Reason, Meaning, Remedy string }

// Reasons is every reason, by condition.
var Reasons = []ReasonDoc{
	{"Accepted", Accepted, "The object is well-formed and allowed.", "Nothing."},
	{"Accepted", Malformed, "A field can't be read.", "Correct the field that the message names."},
	{"Accepted", NameTaken, "Another Project gives the same name.", "Choose another name."},
	{
		"Accepted", NameReserved, "The VPC of the Project would have a name that Sallyport or Kube-OVN use themselves, or that of an external subnet.",
		"Choose another name.",
	},
	{
		"Accepted", NamespaceTaken, "A namespace with the project's name exists and is not the project's.",
		"Choose another name, or delete the namespace.",
	},
	{
		"Accepted", PrefixOverlaps, "The prefix of a new Project overlaps with an external network, with the cluster's own addresses, or with addresses " +
			"that nobody can have. A Project that exists already is not refused; `sallyport doctor` finds its overlap.",
		"Make the Project with another prefix; the message names what it overlaps with.",
	},
	{
		"Accepted", NoProject, "The namespace belongs to no Project (load balancers: nor to the management VPC).",
		"Create the object in a project's namespace.",
	},
	{"Accepted", ProjectRefused, "The Project of this namespace is not accepted.", "Look at the Project's conditions."},
	{
		"Accepted", ProjectDeleting, "The Project of this namespace is being deleted.",
		"Nothing; the object goes with it.",
	},
	{
		"Accepted", PortTaken, "Another Service has the same ports on the same EIp.",
		"Use other ports or another EIp; the message names who has them.",
	},
	{
		"Accepted", NoPortsLeft, "The Services of the namespace that are older have 5,000 ports together, so none is left for this one.",
		"Use fewer ports, or another namespace.",
	},
	{
		"Accepted", NeedsConnectionReturnPath,
		"Load balancers on a secondary network, EgressRoutes and EgressServices need replies that follow the connection; this network has returnPath Source.",
		"Use the project's default network, or let the operator set returnPath Connection.",
	},
	{
		"Accepted", QuotaExceeded, "The project, or its organization, has as many EIps or Projects as it may have.",
		"Delete one, or ask the operator for a higher quota; the message says whose.",
	},
	{
		"Accepted", AddressTaken, "The address is held by somebody else.",
		"Ask for another address, or for any. An EgressService needs a Service with an address of its own namespace.",
	},
	{
		"Accepted", AddressOutsideNetwork,
		"The address lies in no subnet of the network, or is reached by no network that nodes are on.",
		"Ask for an address of the prefixes that the message names, or let the operator add it.",
	},
	{
		"Accepted", AddressReserved, "The operator keeps the address for others on that network: it is in excludeIps of the Subnet. " +
			"An EIp that held it before keeps it.",
		"Ask for another address, or for any; or ask the operator to take it out of excludeIps.",
	},
	{"Accepted", EIpTaken, "The EIp is held by somebody else.", "Use another EIp, or release this one."},
	{"Accepted", TargetTaken, "Another FIp leads to the same target.", "Delete one of the two."},
	{
		"Accepted", TargetOutsideProject, "The target address is not in the project's subnet.",
		"Use an address of the project.",
	},
	{"Accepted", SubnetTaken, "Another ExternalNetwork has the Subnet.", "Take it out of one of the two."},
	{
		"Accepted", InvalidEgressIP, "An address or a selector of an EgressIP can't be read.",
		"Correct the field that the message names.",
	},
	{
		"Accepted", EgressIPConflict, "An egress address is a node's, a gateway's or somebody else's.",
		"Choose another address; the message names who has it.",
	},
	{
		"Accepted", AddressOfAnotherNetwork,
		"The Service's address is of another network than the one that its pods are to leave by, where it would be dropped.",
		"Leave out spec.network, or use sourceIPBy Network.",
	},
	{
		"Accepted", TooManyRoutes, "Too many EgressRoutes of the project have the same destination, or they have too many together.",
		"Put their pods together in one EgressRoute, or shorten the prefixes.",
	},
	{
		"Accepted", TooManyRanges, "A Service has more than 250 loadBalancerSourceRanges.",
		"Combine them into shorter prefixes.",
	},
	{
		"Accepted", NeedsAnotherMethod, "The network's nodes lead by destination only (method Static), and the pods are to leave for everywhere.",
		"Use an EgressRoute with destinations, or let the operator choose another method.",
	},
	{
		"Accepted", NeedsClusterPrefixes, "Method VRF has to know which prefixes are inside the cluster.",
		"Give the controller --cluster-prefixes, or choose another method.",
	},
	{
		"Accepted", UnsupportedRequest, "Another EgressIP has the address.",
		"Choose another address, or delete the EgressIP that the message names.",
	},
	{"ResolvedRefs", ResolvedRefs, "Everything that the object names exists.", "Nothing."},
	{
		"Programmed", AllowListMalformed,
		"An allow-list of the Project can't be read. Nothing passes in its direction but replies.",
		"Let the operator correct the annotation that the message names.",
	},
	{
		"ResolvedRefs", NetworkNotFound, "There is no external network of that type or name.",
		"Use one that the message names, or ask the operator.",
	},
	{
		"ResolvedRefs", NetworkNotAllowed,
		"The network is not for this project or namespace, or not for one that an EgressIP selects.",
		"Use a type that the message names, or ask the operator to add the project to allowedProjects or allowedNamespaces of the ExternalNetwork.",
	},
	{
		"NetworkAllowed", NetworkNoLongerAllowed,
		"The network is not for this project any more. What the object has there stays.",
		"Delete the object, or ask the operator to admit the project again.",
	},
	{
		"ResolvedRefs", NetworkNotSupported,
		"The network's subnet has IPv6, which Kube-OVN can't connect to a VPC.",
		"Use an IPv4 subnet for the network.",
	},
	{
		"ResolvedRefs", SubnetNotFound, "A Subnet that the ExternalNetwork names does not exist.",
		"Create it, or name another.",
	},
	{
		"ResolvedRefs", SharedAddressNotReserved,
		"An address in sharedAddresses is not in excludeIps of a Subnet of the network. It is not shared.",
		"Add it to excludeIps of its Subnet, or take it out of sharedAddresses.",
	},
	{"ResolvedRefs", EIpNotFound, "The EIp does not exist.", "Create it, or name another."},
	{
		"ResolvedRefs", RefNotPermitted,
		"A Service names an EIp of another namespace that does not exist, or is not shared with the Service's namespace. Which of the two is not told.",
		"Ask the EIp's owner to add the Service's namespace to spec.sharedWith, or use an EIp of the Service's own namespace.",
	},
	{
		"ResolvedRefs", OvnEipNotFound, "The OvnEip that childRef names does not exist in this project or namespace.",
		"Correct childRef.",
	},
	{"ResolvedRefs", PodNotFound, "The pod does not exist.", "Create it; the floating IP follows."},
	{
		"ResolvedRefs", VMNotFound, "The virtual machine is not running, or has no such interface.",
		"Start it; the floating IP follows.",
	},
	{
		"ResolvedRefs", ServiceNotFound, "There is no load balancer of the EgressService's name.",
		"Create the Service of type LoadBalancer, or name the EgressService after one.",
	},
	{
		"ResolvedRefs", TargetHasNoAddress, "The target, or the Service, has no address yet.",
		"Wait; what names it follows.",
	},
	{
		"ResolvedRefs", FamilyNotServed, "The network has no gateway of a destination's IP family.",
		"Leave the destination out, or ask the operator for such a gateway.",
	},
	{"Programmed", Programmed, "Everything is observed in Kubernetes and in the OVN northbound database.", "Nothing."},
	{
		"Programmed", NotAccepted, "Nothing is written for an object that is not accepted or not resolved.",
		"Look at the other conditions.",
	},
	{
		"Programmed", Programming, "What was written is not observed yet.",
		"Wait a second; if it stays, look at Kube-OVN's controller.",
	},
	{"Programmed", WriteFailed, "A write was refused.", "The message has the refusal; it is tried again."},
	{
		"Programmed", PoolExhausted, "No subnet of the network has a free address.",
		"Delete an EIp, or ask the operator for another subnet.",
	},
	{
		"Programmed", NoWayBack, "No address of the project's subnet is left for the way back to another network.",
		"Use a network that the project uses already, or a project with a larger subnet.",
	},
	{
		"Programmed", WaitingForEngine, "Kube-OVN has not done its part yet.",
		"Wait; if it stays, look at the object that the message names.",
	},
	{
		"Programmed", NoAddressForChecks,
		"Health checks need an address of the project's subnet, and those that are kept for us are in use. Nothing is checked.",
		"Use fewer networks, or a project with a larger subnet.",
	},
	{
		"Programmed", NoGatewayNode, "No node may hold the gateway of the management VPC.",
		"Label nodes with ovn.kubernetes.io/external-gw=true.",
	},
	{
		"Programmed", NoEgress, "The Service's annotation k8s.ovn.org/egress-service can't be followed. The load balancer itself works.",
		"The message says what is in the way.",
	},
	{
		"Programmed", WaitingForAgent, "A node has not carried out yet what its NodePath asks for.",
		"Wait a second; if it stays, look at the NodePath that the message names, and at sallyport-agent there.",
	},
	{
		"Programmed", NodeNotOnNetwork, "Some pods run on nodes that are not on the network. They leave as others do; the rest leaves as asked for.",
		"Let the pods run on nodes that the ExternalNetwork's nodeSelector chooses, or let it choose more.",
	},
	{
		"Programmed", NoMatchingNodeFound,
		"No node can hold an address of the EgressIP. Its pods do not reach the outside, unless it fails open.",
		"Label nodes that are Ready with k8s.ovn.org/egress-assignable.",
	},
	{
		"Programmed", UnassignedRequest,
		"No node can hold some of the addresses: no node holds two of one EgressIP. Its pods leave with the others.",
		"Label more nodes with k8s.ovn.org/egress-assignable.",
	},
	{
		"Programmed", PodsNotServed, "An EgressIP selects pods that are of no project, such as those in Kube-OVN's default VPC. They leave as if " +
			"nobody had selected them, whatever failurePolicy says. Selected pods of projects leave with its addresses.",
		"Let its selectors match namespaces of projects only. For pods in Kube-OVN's default VPC use an EgressService or an EgressRoute.",
	},
	{
		"Programmed", NoEnvoyGateway, "A Backend is asked for, and Kubernetes does not know that kind. The load balancer works.",
		"Install Envoy Gateway's resource definitions and restart the controller, or take the annotation off the Service.",
	},
	{
		"Programmed", SomePortTaken, "Another Service has one of the ports on the same EIp. The others work.",
		"Use another port or another EIp; the message names who has it.",
	},
	{
		"Programmed", TooManyPorts, "A Service has more than 1,000 ports, or the Services of its namespace more than 5,000 together. The ports that are " +
			"left out do not answer; the others work.",
		"Use fewer ports, or several Services in several namespaces; the message says how many are left out.",
	},
	{
		"Programmed", EndpointOutsideProject,
		"A Service has an endpoint that is not in the project's subnet. It gets no connections; the others do.",
		"Use pods or virtual machines of the project.",
	},
	{
		"Programmed", TooManyEndpoints, "A Service has more endpoints, one for each address and port, than are balanced. The rest gets no connections.",
		"Use fewer pods or ports, or spread them over several Services; the message has the numbers.",
	},
	{
		"Programmed", EndpointNotInNamespace,
		"A Service of the management VPC has an endpoint that is not a pod of its namespace. It gets no connections; the others do.",
		"Let the Service select pods of its own namespace.",
	},
	{"Programmed", WaitingForEIp, "The EIp has no address yet.", "Look at the EIp's conditions."},
	{
		"Programmed", BeingDeleted, "Somebody deletes an object that is needed. It is made again when it is gone.",
		"Wait, or remove what keeps the object.",
	},
	{
		"Programmed", Deleting, "The object is being deleted, and with it what was made for it.",
		"Nothing; while it waits, Deletable says for what.",
	},
	{
		"ResolvedRefs", InterfaceNotFound, "A node has no such interface, or it is not up.",
		"Plug it in or set it up; or correct the ExternalNetwork's interface or nodeSelector.",
	},
	{
		"Undisturbed", Disturbed, "Something else on the node takes away what is ours there. It is put back each time.",
		"Find out what it is; the message has the usual suspects.",
	},
	{"HasEndpoints", HasEndpoints, "Connections have somewhere to go.", "Nothing."},
	{
		"HasEndpoints", NoEndpoints, "No endpoint is ready, and connections are refused.",
		"Look at the pods that the Service selects.",
	},
	{"ReturnPath", ReturnPathConnection, "Replies leave by the network that their connection came in on.", "Nothing."},
	{"ReturnPath", ReturnPathSource, "Everything that the target of a floating IP sends leaves by this network. It was chosen.", "Nothing."},
	{
		"ReturnPath", EngineTooOld, "OVN can't lead replies back by their connection. They follow the pod's address, as with Source.",
		"Upgrade OVN to 24.09 or later, or choose Source.",
	},
	{
		"Event", UndefinedRequest, "Several EgressIPs select a pod. It leaves with the addresses of the oldest.",
		"Let only one of them select it.",
	},
	{
		"Isolated", ForeignPod, "A pod of another namespace is on the project's network. With --isolation=Enforce its packets are dropped, in both " +
			"directions; with Report it reaches the project's pods.",
		"Delete the pod that the message names, and find out who could create it. If it belongs there, let the operator add its namespace " +
			"to --trusted-namespaces.",
	},
	{
		"Isolated", StrayPod, "A pod of the project is on a network that is not the project's, such as an external network or that of the platform. " +
			"With --isolation=Enforce its packets there are dropped, in both directions.",
		"Delete the pod, or take the Kube-OVN annotation off that puts it there. If it belongs there, let the operator add its namespace to " +
			"spec.namespaces of that Subnet.",
	},
	{
		"Deletable", InUse, "The object is being deleted and is still used.",
		"Delete what uses it, or let it use something else.",
	},
	{
		"Deletable", NamespaceContentRemaining,
		"The namespace of the Project is being deleted, and something in it stays: most often an object with somebody's finalizer.",
		"Remove what the message names, or its finalizers.",
	},
	{
		"Deletable", CleaningUp, "What was made for the object is being removed.",
		"Wait; if it stays, look at the object that the message names.",
	},
}

// ReasonMeaning is what a reason means, in a sentence.
func ReasonMeaning(reason string) string { return findReasonDoc(reason).Meaning }

// ReasonRemedy is what to do about a reason.
func ReasonRemedy(reason string) string { return findReasonDoc(reason).Remedy }

func findReasonDoc(reason string) ReasonDoc {
	for _, r := range Reasons {
		if r.Reason == reason {
			return r
		}
	}
	return ReasonDoc{}
}
