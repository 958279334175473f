package v1

// Labels and annotations that belong to the API.
const (
	// AssignableLabel on a node lets it hold egress addresses. Its value does not matter.
	AssignableLabel = "k8s.ovn.org/egress-assignable"

	// DrainLabel on a node that is cordoned lets it hand over the egress addresses that it holds before it goes.
	DrainLabel = "kube-dc.com/egress-drain"
)
