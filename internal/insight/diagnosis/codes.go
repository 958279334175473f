package diagnosis

import "github.com/sallyport/sallyport/internal/model/ownership"

// Codes of findings. What is false in the conditions of an object is found under its reason (see intent.Reasons).
const (
	KubernetesUnreachable = "KubernetesUnreachable"
	NorthboundUnreachable = "NorthboundUnreachable"
	SouthboundUnreachable = "SouthboundUnreachable"
	NotRead               = "NotRead"
	NotWorkedOut          = "NotWorkedOut"
	KindMissing           = "KindMissing"
	KubernetesTooOld      = "KubernetesTooOld"
	CertificateExpires    = "CertificateExpires"

	ControllerDead  = "ControllerDead"
	KubeOVNDead     = "KubeOVNDead"
	NorthdBehind    = "NorthdBehind"
	Unattended      = "Unattended"
	ChassisMissing  = "ChassisMissing"
	ChassisMismatch = "ChassisMismatch"
	ChassisBehind   = "ChassisBehind"

	NodeNotReady       = "NodeNotReady"
	NodeSilent         = "NodeSilent"
	AgentMissing       = "AgentMissing"
	AgentsAbsent       = "AgentsAbsent"
	ClockSkew          = "ClockSkew"
	SwitchSilent       = "SwitchSilent"
	SwitchNotConnected = "SwitchNotConnected"
	LinkDown           = "LinkDown"
	MTUTooSmall        = "MTUTooSmall"
	RPFilterStrict     = "RPFilterStrict"
	AsymmetricRoute    = "AsymmetricRoute"
	ConntrackFull      = "ConntrackFull"
	ConntrackLow       = "ConntrackLow"
	SNATExhausted      = "SNATExhausted"
	SNATLow            = "SNATLow"
	StaleConnection    = "StaleConnection"

	GatewaySilent    = "GatewaySilent"
	GatewayDuplicate = "GatewayDuplicate"
	AddressSilent    = "AddressSilent"
	AddressDuplicate = "AddressDuplicate"

	RowMissing       = "RowMissing"
	RowChanged       = "RowChanged"
	RowLeft          = "RowLeft"
	RowForeign       = "RowForeign"
	LabelOverwritten = "LabelOverwritten"
	ObjectMissing    = "ObjectMissing"
	ObjectChanged    = "ObjectChanged"
	ObjectLeft       = "ObjectLeft"
	ElementMissing   = "ElementMissing"
	ElementChanged   = "ElementChanged"
	LeakedRow        = "LeakedRow"
	LeakedQuestion   = "LeakedInspection"

	PoolLow      = "PoolLow"
	AddressClash = "AddressClash"
	Overlap      = "OverlappingCIDR"

	SelectorMatchesNothing = "SelectorMatchesNothing"
	PodsNotReady           = "PodsNotReady"
	NamedPortMissing       = "NamedPortMissing"
	TargetPortNotDeclared  = "TargetPortNotDeclared"
	HealthCheckOffline     = "HealthCheckOffline"
	ServiceNotOurs         = "ServiceNotOurs"

	TargetNotReady       = "TargetNotReady"
	TargetMoved          = "TargetMoved"
	TargetAbsent         = "TargetAbsent"
	EgressSelectsNothing = "EgressSelectsNothing"
	EgressHolderDown     = "EgressHolderDown"
	EgressOutsideProject = "EgressOutsideProject"
)

// How deep a cause is: what is deeper explains what is not.
const (
	rankSymptom      = iota // an object says that it does not work
	rankSingleObject        // one object, and what belongs to it
	rankShared              // a node, or a network
	rankControlPlane        // who does the work
	rankExactRow            // the very row that a packet misses
	rankUnreadable          // nothing can be known
)

// Code is a kind of finding.
type Code struct {
	Name        string
	Area        string
	Severity    Severity // as a rule: where less or more depends on it, that is found instead
	Meaning     string
	Remediation string

	causeRank int
}

// Codes are all kinds of findings but those of conditions, by area.
var Codes = []Code{
	{
		KubernetesUnreachable, "Reading", Error, "The Kubernetes API can't be read.",
		"Check the API server, and the kubeconfig that is used here (--kubeconfig, $KUBECONFIG).", rankUnreadable,
	},
	{
		NorthboundUnreachable, "Reading", Error,
		"OVN's northbound database can't be read. Addresses go on as they are; nothing can be changed.",
		"Check ovn-central (kubectl -n kube-system get pods -l app=ovn-central), and --nb-address with its certificates.", rankUnreadable,
	},
	{
		SouthboundUnreachable, "Reading", Error,
		"OVN's southbound database can't be read. Nodes that can't either keep the flows that they have.",
		"Check ovn-central (kubectl -n kube-system get pods -l app=ovn-central), and --sb-address with its certificates.", rankUnreadable,
	},
	{
		NotRead, "Reading", Warning, "Something could not be read, so that nothing is known of it.",
		"The message says why; often a right is missing.", rankUnreadable,
	},
	{
		NotWorkedOut, "Reading", Error, "What a project should have could not be worked out or compared.",
		"The message says why; try sallyport plan NAMESPACE.", rankUnreadable,
	},
	{
		KindMissing, "Reading", Error, "Kubernetes does not know a kind that Sallyport needs.",
		"Install the resource definitions: helm upgrade of the chart, or kubectl apply --server-side -f config/crd.",
		rankUnreadable,
	},
	{
		KubernetesTooOld, "Reading", Warning, "This version of Kubernetes is older than what Sallyport is made for.",
		"Upgrade Kubernetes to 1.30 or later.", rankShared,
	},
	{
		CertificateExpires, "Reading", Warning, "A certificate is about to expire, or has expired.",
		"Renew it; what uses it reads the new one at its next start.", rankControlPlane,
	},

	{
		ControllerDead, "Control plane", Error,
		"Nobody renews the lease of sallyport-controller: it does not run, or can't reach Kubernetes. " +
			"What is in force stays so; nothing is changed or put right.",
		"Look at its pods and their log: kubectl -n NAMESPACE logs deployment/sallyport-controller.", rankControlPlane,
	},
	{
		KubeOVNDead, "Control plane", Error,
		"Nobody renews the lease of kube-ovn-controller. New pods, subnets and addresses get nothing; what is there goes on.",
		"Look at its pods and their log: kubectl -n kube-system logs deployment/kube-ovn-controller.", rankControlPlane,
	},
	{
		NorthdBehind, "Control plane", Error,
		"ovn-northd does not translate changes: what is written to the northbound database does not reach nodes.",
		"Look at ovn-northd where ovn-central runs: is it there, and does one of them lead?", rankControlPlane,
	},
	{
		Unattended, "Control plane", Error,
		"An object was made or changed, and the controller has said nothing about it.",
		"Look at sallyport-controller and its log.", rankSymptom,
	},
	{
		ChassisMissing, "Control plane", Error,
		"OVN does not know a node, or a gateway is to be held by a node that it does not know.",
		"Start ovn-controller there (kubectl -n kube-system get pods -l app=ovs -o wide); a node that is gone for good: delete its Node.", rankShared,
	},
	{
		ChassisMismatch, "Control plane", Error,
		"A node, Kube-OVN and OVN do not agree on the name of the node's chassis.",
		"Compare `ovs-vsctl get open . external_ids:system-id` on the node with its annotation ovn.kubernetes.io/chassis; " +
			"delete the annotation and restart kube-ovn-controller.", rankShared,
	},
	{
		ChassisBehind, "Control plane", Error,
		"A node does not carry out changes: ovn-controller there is dead, hangs or does not reach the southbound database.",
		"Look at ovn-controller on the node: kubectl -n kube-system get pods -l app=ovs -o wide, ovn-appctl -t ovn-controller connection-status.", rankShared,
	},

	{
		NodeNotReady, "Nodes", Error, "Kubernetes says that a node is not Ready.",
		"Look at the node: power, network, kubelet (kubectl describe node).", rankShared + 1,
	},
	{
		NodeSilent, "Nodes", Warning, "A node has not renewed its lease for a while: it, or its kubelet, may just have died.",
		"Look at the node: power, network, kubelet.", rankShared,
	},
	{
		AgentMissing, "Nodes", Warning, "The agent of a node does not answer while those of others do.",
		"Look at its pod: kubectl -n kube-system get pods -o wide -l " + ownership.AgentLabel + "=" +
			ownership.AgentName + ".", rankSingleObject,
	},
	{
		AgentsAbsent, "Nodes", Info, "No node answers questions about itself, so that wires, links and connections could not be looked at.",
		"Install the agent: helm upgrade … --set agent.enabled=true.", rankSingleObject,
	},
	{
		ClockSkew, "Nodes", Warning, "The clock of a node, or of the machine that you work on, is wrong.",
		"Let it follow a time server (chronyc tracking, timedatectl).", rankSingleObject,
	},
	{
		SwitchSilent, "Nodes", Error, "Open vSwitch on a node does not answer.",
		"Look at ovs-vswitchd and ovsdb-server on the node: kubectl -n kube-system get pods -l app=ovs -o wide.",
		rankShared,
	},
	{
		SwitchNotConnected, "Nodes", Error, "ovn-controller of a node is not connected to the southbound database.",
		"Check the way from the node to the database (port 6642), and the certificates.", rankShared,
	},
	{
		LinkDown, "Nodes", Error, "The interface by which a node is on an external network, or by which nodes reach each other, is down or not there.",
		"Plug it in or set it up (ip link set INTERFACE up); or correct the ProviderNetwork.", rankShared,
	},
	{
		MTUTooSmall, "Nodes", Error, "An interface does not let the largest packets of pods through: small ones pass, downloads hang.",
		"Raise the MTU of the interface and of the wire behind it, or lower that of pods (Subnet spec.mtu).",
		rankShared,
	},
	{
		RPFilterStrict, "Nodes", Error, "A node drops what comes in by an uplink because its way back to the sender is another one (rp_filter is strict).",
		"Set it to 2: sysctl -w net.ipv4.conf.INTERFACE.rp_filter=2, and find out who sets it to 1.", rankShared,
	},
	{
		AsymmetricRoute, "Nodes", Error,
		"What came in by one uplink of a node would be answered by another, where routers drop it.",
		"Write an ExternalNetwork with nodes.interface for that uplink; if there is one, look for a foreign rule: ip rule.", rankShared,
	},
	{
		ConntrackFull, "Nodes", Error, "A node tracks as many connections as it may; new ones are dropped.",
		"Raise net.netfilter.nf_conntrack_max, in Open vSwitch dpctl/ct-set-maxconns, and find out who opens so many: sallyport top.", rankShared,
	},
	{
		ConntrackLow, "Nodes", Warning, "A node tracks nearly as many connections as it may.",
		"Raise net.netfilter.nf_conntrack_max, in Open vSwitch dpctl/ct-set-maxconns.", rankShared,
	},
	{
		SNATExhausted, "Nodes", Error, "All ports of an address are in use to one destination; new connections there fail.",
		"Use more addresses (an EgressIP with several, or one for these pods), or find out who opens so many: sallyport top.", rankSingleObject,
	},
	{
		SNATLow, "Nodes", Warning, "Most ports of an address are in use to one destination.",
		"Use more addresses: an EgressIP with several, or one for these pods.", rankSingleObject,
	},
	{
		StaleConnection, "Nodes", Error,
		"A tracked connection still leads to a backend that is none any more, so that its packets go nowhere.",
		"Let the client use another source port, or end it on the node: ovs-appctl dpctl/flush-conntrack.",
		rankExactRow,
	},

	{
		GatewaySilent, "Wires", Error, "Nobody answers for the gateway of an external network.",
		"Check the router, the VLAN and the cable; or correct the Subnet's gateway.", rankShared,
	},
	{
		GatewayDuplicate, "Wires", Error, "Two hosts answer for the gateway of an external network.",
		"Find the one that should not, by its MAC address.", rankShared,
	},
	{
		AddressSilent, "Wires", Error, "OVN should answer for an address on the wire, and nobody does.",
		"Look at the node that holds the gateway: ovn-controller, its interface and the VLAN of the switch port.",
		rankSingleObject,
	},
	{
		AddressDuplicate, "Wires", Error, "Somebody else on the wire answers for an address of ours.",
		"Find the host with that MAC address and take the address off it; and keep the address out of others' pools (Subnet excludeIps).", rankSingleObject,
	},

	{
		RowMissing, "Drift", Error, "A row that should be in OVN's northbound database is not there.",
		"The controller puts it back by itself; if it stays, look at its log. Who deleted it is in the database's log.",
		rankExactRow,
	},
	{
		RowChanged, "Drift", Error, "A row of OVN's northbound database is not as it should be.",
		"The controller puts it right by itself; if it stays, look at its log.", rankExactRow,
	},
	{
		RowLeft, "Drift", Warning, "A row of ours should not be there any more.",
		"The controller removes it by itself; if it stays, look at its log.", rankSingleObject,
	},
	{
		RowForeign, "Drift", Warning, "Somebody else has written a row to a router of ours that can lead packets elsewhere.",
		"Find out who; if nobody needs it, delete it with ovn-nbctl.", rankShared,
	},
	{
		LabelOverwritten, "Drift", Error,
		"An ACL of somebody else has a sample or a label, which takes the place of the label by which replies find " +
			"the network that their connection came in on. Connections to pods that it matches get no replies through secondary networks.",
		"Find the ACL with ovn-nbctl acl-list and take both away (ovn-nbctl clear ACL UUID sample_new sample_est; ovn-nbctl set ACL UUID label=0), " +
			"or let it match only pods without addresses on secondary networks.", rankShared,
	},
	{
		ObjectMissing, "Drift", Error, "An object that should be there is not.",
		"The controller makes it again by itself; if it stays, look at its log.", rankExactRow,
	},
	{
		ObjectChanged, "Drift", Error, "An object is not as it should be.",
		"The controller puts it right by itself; if it stays, look at its log.", rankExactRow,
	},
	{
		ObjectLeft, "Drift", Warning, "An object of ours should not be there any more.",
		"The controller removes it by itself; if it stays, look at what holds it.", rankSingleObject,
	},
	{
		ElementMissing, "Drift", Error, "An element is missing in a list of a Vpc.",
		"The controller puts it back by itself; if it stays, look at its log.", rankExactRow,
	},
	{
		ElementChanged, "Drift", Error, "An element of a list of a Vpc is not as it should be.",
		"The controller puts it right by itself; if it stays, look at its log.", rankExactRow,
	},
	{
		LeakedRow, "Drift", Warning, "A row of ours is for an object that does not exist any more.",
		"Restart sallyport-controller; if it stays, delete the row with ovn-nbctl.", rankSingleObject,
	},
	{
		LeakedQuestion, "Drift", Info, "Inspections are left that nobody waits for.",
		"Delete them: kubectl delete inspections --all.", rankSymptom,
	},

	{
		PoolLow, "Addresses", Warning, "An external network has few free addresses left.",
		"Delete EIps that nobody uses (sallyport top), or add a Subnet to the network.", rankShared,
	},
	{
		AddressClash, "Addresses", Error, "Two things inside OVN have the same external address.",
		"Take it away from the one that should not have it; the message names both.", rankExactRow,
	},
	{
		Overlap, "Addresses", Error, "Two networks that have to tell each other's packets apart have overlapping prefixes.",
		"Give one of them another prefix. Hosts in both are not reached from the one inside.", rankShared,
	},

	{
		SelectorMatchesNothing, "Load balancers", Error, "The selector of a Service matches no pod.",
		"Compare: kubectl get pods --show-labels, and spec.selector of the Service.", rankSingleObject,
	},
	{
		PodsNotReady, "Load balancers", Error, "A Service has pods, and none is ready.",
		"Look at the pods: kubectl describe pod, kubectl logs.", rankSingleObject,
	},
	{
		NamedPortMissing, "Load balancers", Error, "A port of a Service names a container's port that no pod has.",
		"Name the port in the pods' containers, or use its number as targetPort.", rankSingleObject,
	},
	{
		TargetPortNotDeclared, "Load balancers", Warning,
		"A Service sends connections to a port that no container of its pods declares.",
		"Correct targetPort of the Service, or containerPort of the pods.", rankSingleObject,
	},
	{
		HealthCheckOffline, "Load balancers", Error, "Health checks say that a backend does not answer on its port.",
		"Check that the program in the pod listens on that port, and that no NetworkPolicy keeps checks away.",
		rankSingleObject,
	},
	{
		ServiceNotOurs, "Load balancers", Warning,
		"A Service of type LoadBalancer is of another class, and has no address.",
		"Correct loadBalancerClass (kube-dc.com/sallyport), which needs a new Service; or install who serves that class.", rankSingleObject,
	},

	{
		TargetNotReady, "Floating and egress addresses", Error, "The pod of a floating IP is not ready.",
		"Look at the pod: kubectl describe pod, kubectl logs.", rankSingleObject,
	},
	{
		TargetMoved, "Floating and egress addresses", Error,
		"The pod of a floating IP has another address than the floating IP leads to.",
		"The controller follows by itself; if it stays, look at its log.", rankSingleObject,
	},
	{
		TargetAbsent, "Floating and egress addresses", Warning, "A floating IP leads to an address that no pod has.",
		"Start what should have the address, or correct the FIp's target.", rankSingleObject,
	},
	{
		EgressSelectsNothing, "Floating and egress addresses", Warning, "An EgressIP selects no pod.",
		"Compare its namespaceSelector and podSelector with the labels of namespaces and pods.", rankSingleObject,
	},
	{
		EgressHolderDown, "Floating and egress addresses", Error, "The node that holds an egress address is not Ready.",
		"Another node takes it within seconds if one is labelled k8s.ovn.org/egress-assignable; if not, label one.",
		rankShared,
	},
	{
		EgressOutsideProject, "Floating and egress addresses", Error,
		"An EgressIP selects pods that are of no project, such as those in Kube-OVN's " +
			"default VPC. They leave with another address, also with failurePolicy Closed.",
		"Let its selectors match namespaces of projects only. For pods in Kube-OVN's default VPC use an EgressService or an EgressRoute.", rankSingleObject,
	},
}

// codesByName are the Codes by name.
var codesByName = func() map[string]Code {
	out := make(map[string]Code, len(Codes))
	for _, c := range Codes {
		out[c.Name] = c
	}
	return out
}()
