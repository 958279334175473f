package v1

// Labels and annotations of the API.
const (
	// AssignableLabel on a node allows it to hold egress addresses. The value is ignored.
	AssignableLabel = "k8s.ovn.org/egress-assignable"

	// EgressServiceAnnotation on a Service of type LoadBalancer is equivalent to an EgressService with sourceIPBy
	// LoadBalancerIP. The value is ignored.
	EgressServiceAnnotation = "k8s.ovn.org/egress-service"

	// RebalanceAnnotation on an EgressIP moves its addresses to nodes that hold fewer, once for each new value.
	RebalanceAnnotation = "kube-dc.com/egress-rebalance"

	// DrainLabel on a cordoned node makes it hand over its egress addresses before it is shut down.
	DrainLabel = "kube-dc.com/egress-drain"
)

// AllHosts is the host of an EgressService whose traffic leaves through whichever node holds the gateway of the
// network.
const AllHosts = "ALL"
