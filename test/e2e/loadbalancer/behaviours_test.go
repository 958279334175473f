package loadbalancer

// behaviour is something that Kubernetes' tests require of Services. It is shown by our tests, or there is a reason why
// not.
type behaviour struct {
	what    string
	shownBy string // names of functions: tests, or functions of features
	why     string
}

// Reasons that apply to several behaviours.
const (
	whyNodes     = "Nodes have no part in it: packets go from the gateway to the backend, and node ports and `healthCheckNodePort` are not used."
	whyClusterIP = "About the cluster address, which Kube-OVN serves."
	whyAPI       = "The API server's own: nothing of it is ours."
	whySlices    = "Which pods are endpoints is Kubernetes' decision; we use its EndpointSlices."
	whyOther     = "Not about Services of type LoadBalancer."
)

// behaviours is what Kubernetes' tests require, by the file that contains them.
var behaviours = []struct {
	file string
	list []behaviour
}{
	{"test/e2e/network/loadbalancer.go", []behaviour{
		{"a TCP Service becomes NodePort, then a load balancer, and answers", "showChanges", ""},
		{"the same with UDP", "showChanges", ""},
		{"another node port leaves the address as it is", "showChanges", ""},
		{"with another port the address stays, and the port answers", "showChanges", ""},
		{"without pods nobody answers by TCP; with one again it does", "showWithoutEndpoints", ""},
		{"the same by UDP", "showOneSocket", ""},
		{
			"a Service that is no load balancer any more is closed outside and has no address",
			"showChanges, showLeavesNothing", "",
		},
		{"its node ports are given back", "", whyAPI},
		{
			"source ranges are set to one pod, to everybody, to nobody, and taken away",
			"showRangesChange, showSourceRanges", "",
		},
		{"session affinity with policy Local", "showAffinitySwitched", ""},
		{"session affinity switched on and off with policy Local", "showAffinitySwitched", ""},
		{"session affinity with policy Cluster", "showAffinity, showAffinitySwitched", ""},
		{"session affinity switched on and off with policy Cluster", "showAffinitySwitched", ""},
		{
			"what a Service had outside goes when it is deleted, whoever is away at that time",
			"showLeavesNothing, showWhileAway", "",
		},
		{
			"a finalizer keeps the Service until then", "",
			"Not needed: everything that is written for a Service names it, so what is left over is found without the Service.",
		},
		{"it works without node ports, and getting some does not change the address", "showNodesUnused", ""},
		{"a UDP client with one port reaches the pod that follows on another node", "showStale", ""},
		{"a UDP client with one port reaches the pod that follows on the same node", "showOneSocket", ""},
		{"a rolling update with policy Cluster is not noticed", "TestBalancer3Rolling", ""},
		{"a rolling update with policy Local is not noticed", "TestBalancer3Rolling, showNodesUnused", ""},
		{"policy Local: the server sees the client's address", "showTrafficPolicy", ""},
		{"policy Local: nodes answer health checks on a port that is given for it, and closed later", "", whyNodes},
		{"policy Local: a single endpoint is reached on whichever node it is", "showLocalMoves", ""},
		{"policy Local: health checks pass on the nodes that have endpoints, and on no others", "", whyNodes},
		{"policy Local: endpoints on several nodes are all reached", "showTrafficPolicy", ""},
		{"policy Local: the server sees the address of a pod that asks", "showLocalMoves", ""},
	}},
	{"test/e2e/network/service.go", []behaviour{
		{"pods that come become endpoints, and pods that go are none", "showWithoutEndpoints, showLocalMoves", ""},
		{"several ports, each with pods of its own", "showNamedPorts", ""},
		{"ports are added and taken away", "showChanges", ""},
		{"the server sees the address of a pod that asks", "showSourceRanges, showLocalMoves", ""},
		{"a pod reaches itself through its Service", "showFromInside, showLocalMoves", ""},
		{"one of several Services goes; the others stay, and a new one has an address of its own", "showAgain", ""},
		{"a Service that was deleted is made again and works", "showAgain", ""},
		{"it works after a restart of what serves Services on nodes", "TestBalancer4Restarts", ""},
		{"it works after a restart of the API server, and a new one gets another address", "showWithoutAPI", ""},
		{"a Service of type NodePort works", "", whyNodes},
		{
			"a Service is reached at one of its `externalIPs`", "",
			"Another field, for addresses that nobody gives out: whoever names one takes it. Use `loadBalancerIP` or an EIp.",
		},
		{"a node port serves two protocols with one number", "", whyNodes},
		{"a Service that becomes ExternalName is served no longer", "showChanges", ""},
		{"an ExternalName becomes ClusterIP or NodePort, and back", "", whyOther},
		{"node ports are not given twice, only in their range, and again after deletion", "", whyAPI},
		{"pods that are not ready, or are ending, are reached when the Service publishes them", "showUnready", ""},
		{"pods that are not ready and are ending are not reached otherwise", "showUnready", ""},
		{"session affinity ends after its timeout", "showAffinity", ""},
		{"session affinity of cluster addresses and node ports", "", whyClusterIP},
		{
			"a Service with the label `service.kubernetes.io/service-proxy-name` is left to another proxy", "",
			"The label is about the cluster address. Who serves the load balancer is said by `loadBalancerClass`, which is respected (classes).",
		},
		{
			"an EndpointSlice with the label `service.kubernetes.io/headless` is not used", "",
			"Not built: the label is not looked at. Kubernetes sets it for headless Services only, which can't be load balancers; " +
				"a user who sets it by hand is not heeded.",
		},
		{"without endpoints connections are refused", "showWithoutEndpoints", ""},
		{"pods that were evicted are no endpoints", "", whySlices},
		{"`internalTrafficPolicy: Local` between pods, and with pods on the node's network", "", whyClusterIP},
		{"policy Local with node ports", "", whyNodes},
		{"health checks of nodes fail when all endpoints are ending", "", whyNodes},
		{"endpoints that are ending serve when no other is ready, with policy Cluster", "showTerminating", ""},
		{"the same with policy Local", "showTerminating, showNodesUnused", ""},
		{"the same at the cluster address, with either `internalTrafficPolicy`", "", whyClusterIP},
		{"Services are listed, patched, deleted in one call; their status is read and written", "", whyAPI},
		{
			"one port number serves two protocols, and goes on with one when the other is taken away",
			"showOwnAddress, showChanges", "",
		},
		{"a load balancer's port number serves two protocols to pods", "showLocalMoves", ""},
		{"a Service with SCTP", "showOwnAddress, showLocalMoves", ""},
		{"a load balancer goes on when `externalTrafficPolicy` changes to and fro", "showNodesUnused", ""},
		{"node ports and health checks follow that change", "", whyNodes},
		{"ports of init containers that go on running are endpoints", "", whySlices},
		{"a named target port stands for another number in each pod", "showNamedPorts", ""},
	}},
	{"test/e2e/network/conntrack.go", []behaviour{
		{"UDP clients of node ports and cluster addresses reach the pod that follows", "", whyClusterIP},
		{"a UDP client that sends before a pod is ready reaches it then", "showOneSocket", ""},
		{"a UDP client with one port is heard after a change of the target port", "showOneSocket", ""},
		{"packets outside a connection's window do not make the client reset it", "showStrays", ""},
	}},
	{"test/e2e/network/networking.go", []behaviour{
		{"pods reach it by HTTP, UDP and SCTP", "showLocalMoves", ""},
		{"its own endpoints reach it by HTTP, UDP and SCTP", "showFromInside, showLocalMoves", ""},
		{
			"nodes reach it by HTTP, UDP and SCTP", "",
			"Nodes are not in a project's VPC: they are clients like any other outside (ownAddress).",
		},
		{"of two Services for the same pods one goes, and the other stays", "showAgain", ""},
		{"endpoints that are replaced are followed, by HTTP and UDP", "TestBalancer3Rolling, showStale", ""},
		{"node ports that change", "", whyNodes},
		{"session affinity by HTTP and UDP", "showAffinitySwitched", ""},
		{"large requests by HTTP", "showLarge", ""},
		{
			"large requests by UDP", "",
			"Not shown: a fragment has no port, and the switches of our lab, which run in user space, do not put fragments together before they look for one. " +
				"There, floating IPs and the way out lose them, too. Switches in the kernel should not; no test of ours shows it.",
		},
		{
			"endpoints on the network of nodes", "",
			"They are not in the project's VPC. Such an endpoint gets nothing, and the Service says so (writtenByHand).",
		},
		{"rules that somebody deletes are put back", "TestBalancer4Restarts", ""},
	}},
	{"test/e2e/network/pod_lifecycle.go", []behaviour{
		{"a pod that is ending is still reached", "showTerminating", ""},
		{"a pod that is ending still reaches others", "", whyOther},
		{"readiness gates take new connections from one pod to another", "showGates", ""},
	}},
	{"test/e2e/network/endpointslice.go", []behaviour{
		{"EndpointSlices come and go with pods and Services", "", whySlices},
		{"EndpointSlices are read, written and listed", "", whyAPI},
		{"the ports of a Service are in several EndpointSlices", "showWrittenByHand, showNamedPorts", ""},
		{"the addresses of a Service are in several EndpointSlices", "showWrittenByHand", ""},
	}},
	{"test/e2e/network/endpointslicemirroring.go", []behaviour{
		{
			"Endpoints that a user writes count", "",
			"Kubernetes makes EndpointSlices of them, and those are used like any (writtenByHand).",
		},
	}},
	{"test/e2e/network/dual_stack.go", []behaviour{
		{
			"a Service of two families, or of IPv6, is reached by each", "",
			"This cluster has Services in IPv4 only: see make show-ipv6. Who prefers both gets IPv4 (families).",
		},
		{"pods, nodes and cluster addresses have both families", "", whyOther},
	}},
	{"test/e2e/network/traffic_distribution.go", []behaviour{
		{
			"endpoints in the zone or on the node of the client are preferred", "",
			"Not built: all ready endpoints are used. Clients come in by a gateway, whose place says nothing about theirs.",
		},
	}},
	{"test/e2e/network/topology_hints.go", []behaviour{
		{"endpoints with a hint for the client's zone are preferred", "", "Not built, for the same reason."},
	}},
	{"test/e2e/network/no_snat.go", []behaviour{
		{"pods see each other's own addresses", "", whyOther},
	}},
	{"test/e2e/network/service_latency.go", []behaviour{
		{"a new endpoint takes effect soon", "TestBalancer5Speed", ""},
	}},
	{"test/e2e/network/kube_proxy.go, hostport.go, localhost_nodeports.go, service_cidrs.go", []behaviour{
		{"settings of kube-proxy, ports of nodes, ranges of cluster addresses", "", whyNodes},
	}},
	{"test/e2e/apps/deployment.go", []behaviour{
		{"the rollout of a Deployment behind a load balancer is not noticed", "TestBalancer3Rolling", ""},
	}},
	{"test/e2e/upgrades/network/services.go", []behaviour{
		{
			"a load balancer serves while what controls it is replaced",
			"showWhileAway, showWithoutAPI, TestBalancer4Restarts", "",
		},
	}},
	{"test/e2e/apimachinery/resource_quota.go", []behaviour{
		{"a quota counts load balancers", "", whyAPI},
	}},
	{"test/integration/service/loadbalancer_test.go", []behaviour{
		{"node ports are given, or not, or taken away", "showNodesUnused", ""},
		{"a Service with the class of another is left alone", "showClasses", ""},
		{"the class of a load balancer can't be changed", "", whyAPI},
		{"TCP and UDP in one load balancer", "showOwnAddress", ""},
		{"the status says how packets arrive (`ipMode`)", "showAgain", ""},
	}},
}
