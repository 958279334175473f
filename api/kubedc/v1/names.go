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

	// EIpQuotaAnnotation on a namespace is how many EIps it may have, when its Project does not say. On that of an organization it is how
	// many all its Projects may have together.
	EIpQuotaAnnotation = "kube-dc.com/eip-quota"

	// ProjectQuotaAnnotation on the namespace of an organization is how many Projects it may have.
	ProjectQuotaAnnotation = "kube-dc.com/project-quota"

	// IngressAllowlistAnnotation on a Project are the addresses and prefixes outside, with commas between, from which connections with the
	// project's external addresses may begin. EgressAllowlistAnnotation are those with which its pods may begin connections. Without
	// one all may; an empty one allows nobody. Only operators write them.
	IngressAllowlistAnnotation = "network.kube-dc.com/ingress-allowlist"
	EgressAllowlistAnnotation  = "network.kube-dc.com/egress-allowlist"

	// OperatorLabelPrefix begins the labels of namespaces that only operators write: an admission policy keeps them from tenants.
	OperatorLabelPrefix = "network.kube-dc.com/"

	// DefaultGatewaySubnetAnnotation on a Vpc names the external subnet of its default way out.
	DefaultGatewaySubnetAnnotation = "network.kube-dc.com/default-gw-subnet-name"
)

// Types of conditions that every kind reports.
const (
	// ConditionAccepted is true when the object makes sense as it is written.
	ConditionAccepted = "Accepted"

	// ConditionResolvedRefs is true when everything that the object names exists.
	ConditionResolvedRefs = "ResolvedRefs"

	// ConditionIsolated is false while a pod is on the network of a project that is not its own, or on a network that is no
	// project's. It is left out otherwise.
	ConditionIsolated = "Isolated"

	// ConditionProgrammed is true when everything that the object asks for was seen in OVN.
	ConditionProgrammed = "Programmed"

	// DefaultGatewayEIp is the EIp that stands for a project's way out.
	DefaultGatewayEIp = "default-gw"

	// LoadBalancerClass is the class of Services that are ours whatever is configured for those without a class.
	LoadBalancerClass = "kube-dc.com/sallyport"

	// BindAnnotation on a Service of type LoadBalancer names the EIp whose address it has. Several may share one on different
	// ports. BindDefaultAnnotation, "true", is the same for the EIp of the project's way out.
	BindAnnotation        = "service.nlb.kube-dc.com/bind-on-eip"
	BindDefaultAnnotation = "service.nlb.kube-dc.com/bind-on-default-gw-eip"

	// HealthAnnotation on a Service of type LoadBalancer lets OVN check its backends: "true", or what differs from
	// "interval=5,timeout=2,successes=2,failures=3".
	HealthAnnotation = "service.nlb.kube-dc.com/health-check"

	// BackendAnnotation, or BackendAnnotationToo, "true" on a Service of type LoadBalancer, makes a Backend of Envoy Gateway at
	// its external address.
	BackendAnnotation    = "gateway.kube-dc.com/create-backend"
	BackendAnnotationToo = "service.nlb.kube-dc.com/create-gateway-backend"

	// AutodeleteAnnotation, "true" on a Service of type LoadBalancer, deletes it when it stays without endpoints.
	AutodeleteAnnotation = "service.nlb.kube-dc.com/autodelete"

	// Labels of what is made beside a Service of type LoadBalancer for its external address.
	ServiceManagedByLabel = "kube-dc.com/managed-by"
	ServiceManagedBy      = "service-lb-controller"
	SourceServiceLabel    = "kube-dc.com/source-service"
	EndpointTypeLabel     = "kube-dc.com/endpoint-type"
	EndpointTypeExternal  = "external"
)
