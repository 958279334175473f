package v1

// Labels and annotations that belong to the API.
const (
	// AssignableLabel on a node lets it hold egress addresses. Its value does not matter.
	AssignableLabel = "k8s.ovn.org/egress-assignable"

	// EgressServiceAnnotation on a Service of type LoadBalancer is an EgressService with sourceIPBy LoadBalancerIP: whatever its value.
	EgressServiceAnnotation = "k8s.ovn.org/egress-service"

	// RebalanceAnnotation on an EgressIP lets its addresses go to nodes that hold fewer, once for each new value.
	RebalanceAnnotation = "kube-dc.com/egress-rebalance"

	// DrainLabel on a node that is cordoned lets it hand over the egress addresses that it holds before it goes.
	DrainLabel = "kube-dc.com/egress-drain"
)

// AllHosts is the host of an EgressService whose traffic leaves by whichever node holds the network's gateway.
const AllHosts = "ALL"
