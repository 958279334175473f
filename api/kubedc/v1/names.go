package v1

// Labels and annotations of the API. Users write all of them except ProjectLabel.
const (
	// ExternalNetworkTypeLabel on a Kube-OVN Subnet makes it an external network; its value is the type. As an
	// annotation on a Service, the same name selects the network of the Service's address.
	ExternalNetworkTypeLabel = "network.kube-dc.com/external-network-type"

	// DefaultExternalLabel with the value "true" on a Kube-OVN Subnet makes it the default external network.
	DefaultExternalLabel = "network.kube-dc.com/default-external"

	// ProjectLabel is on the namespace of every project.
	ProjectLabel = "kube-dc.com/project"

	// EIpQuotaAnnotation on a namespace limits its number of EIps, unless its Project sets a quota. On the namespace of
	// an organization it limits the total of all its Projects.
	EIpQuotaAnnotation = "kube-dc.com/eip-quota"

	// ProjectQuotaAnnotation on the namespace of an organization limits its number of Projects.
	ProjectQuotaAnnotation = "kube-dc.com/project-quota"

	// IngressAllowlistAnnotation on a Project lists the outside addresses and prefixes, separated by commas, that may
	// open connections to the project's external addresses. EgressAllowlistAnnotation lists those to which its pods may
	// open connections. Without the annotation all are allowed; an empty list allows none. Only operators may write
	// them.
	IngressAllowlistAnnotation = "network.kube-dc.com/ingress-allowlist"
	EgressAllowlistAnnotation  = "network.kube-dc.com/egress-allowlist"

	// OperatorLabelPrefix is the prefix of namespace labels that only operators may write. An admission policy denies
	// them to tenants.
	OperatorLabelPrefix = "network.kube-dc.com/"

	// DefaultGatewaySubnetAnnotation on a Vpc names the external subnet of its default egress.
	DefaultGatewaySubnetAnnotation = "network.kube-dc.com/default-gw-subnet-name"
)

// Types of conditions that every kind reports, and names for EIps and Services.
const (
	// ConditionAccepted is true if the spec of the object is valid.
	ConditionAccepted = "Accepted"

	// ConditionResolvedRefs is true if every object that the spec refers to exists.
	ConditionResolvedRefs = "ResolvedRefs"

	// ConditionIsolated is false while a pod is on the network of another project or on a network that belongs to no
	// project. The condition is absent otherwise.
	ConditionIsolated = "Isolated"

	// ConditionProgrammed is true if everything that the object requires was observed in OVN.
	ConditionProgrammed = "Programmed"

	// DefaultGatewayEIp is the name of the EIp that represents the SNAT address of a project's default egress.
	DefaultGatewayEIp = "default-gw"

	// LoadBalancerClass is the load balancer class that Sallyport always serves, regardless of the setting for Services
	// without a class.
	LoadBalancerClass = "kube-dc.com/sallyport"

	// BindAnnotation on a Service of type LoadBalancer names the EIp that the Service uses. Several Services may share
	// an EIp on different ports. BindDefaultAnnotation with the value "true" selects the EIp of the project's default
	// egress.
	BindAnnotation        = "service.nlb.kube-dc.com/bind-on-eip"
	BindDefaultAnnotation = "service.nlb.kube-dc.com/bind-on-default-gw-eip"

	// HealthAnnotation on a Service of type LoadBalancer enables OVN's health checks of its backends. The value is
	// "true", or the settings that differ from "interval=5,timeout=2,successes=2,failures=3".
	HealthAnnotation = "service.nlb.kube-dc.com/health-check"

	// BackendAnnotation or BackendAnnotationToo with the value "true" on a Service of type LoadBalancer creates an
	// Envoy Gateway Backend for its external address.
	BackendAnnotation    = "gateway.kube-dc.com/create-backend"
	BackendAnnotationToo = "service.nlb.kube-dc.com/create-gateway-backend"

	// AutodeleteAnnotation with the value "true" on a Service of type LoadBalancer deletes the Service when it remains
	// without endpoints.
	AutodeleteAnnotation = "service.nlb.kube-dc.com/autodelete"

	// Labels of the companion objects that are created for the external address of a Service of type LoadBalancer.
	ServiceManagedByLabel = "kube-dc.com/managed-by"
	ServiceManagedBy      = "service-lb-controller"
	SourceServiceLabel    = "kube-dc.com/source-service"
	EndpointTypeLabel     = "kube-dc.com/endpoint-type"
	EndpointTypeExternal  = "external"
)
