package v1

// Labels and annotations that belong to the API. All but ProjectLabel are written by people.
const (
	// ExternalNetworkTypeLabel on a Kube-OVN Subnet makes it an external network of the type that is its value. The same
	// name is an annotation on a Service, where it chooses the network of the Service's address.
	ExternalNetworkTypeLabel = "network.kube-dc.com/external-network-type"

	// DefaultExternalLabel, "true" on a Kube-OVN Subnet, makes it the default external network.
	DefaultExternalLabel = "network.kube-dc.com/default-external"

	// ProjectLabel is on the namespace of every project.
	ProjectLabel = "kube-dc.com/project"

	// EIpQuotaAnnotation on a project's namespace is how many EIps it may have, when its Project does not say.
	EIpQuotaAnnotation = "kube-dc.com/eip-quota"

	// DefaultGatewaySubnetAnnotation on a Vpc names the external subnet of its default way out.
	DefaultGatewaySubnetAnnotation = "network.kube-dc.com/default-gw-subnet-name"
)

// Types of conditions that every kind reports.
const (
	// ConditionAccepted is true when the object makes sense as it is written.
	ConditionAccepted = "Accepted"

	// ConditionResolvedRefs is true when everything that the object names exists.
	ConditionResolvedRefs = "ResolvedRefs"

	// ConditionProgrammed is true when everything that the object asks for was seen in OVN.
	ConditionProgrammed = "Programmed"
)
