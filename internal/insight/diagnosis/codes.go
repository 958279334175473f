package diagnosis

import "github.com/sallyport/sallyport/internal/model/ownership"

// Codes of findings. Failing conditions of objects are reported under their reason (see intent.Reasons).
const (
	KubernetesUnreachable = "KubernetesUnreachable"
	NorthboundUnreachable = "NorthboundUnreachable"
	SouthboundUnreachable = "SouthboundUnreachable"
	NotRead               = "NotRead"
	NotWorkedOut          = "NotWorkedOut"
	KindMissing           = "KindMissing"
	KubernetesTooOld      = "KubernetesTooOld"
	CertificateExpires    = "CertificateExpires"

	ControllerDead       = "ControllerDead"
	KubeOVNDead          = "KubeOVNDead"
	LogicalSwitchMissing = "LogicalSwitchMissing"
	NorthdBehind         = "NorthdBehind"
	Unattended           = "Unattended"
	ChassisMissing       = "ChassisMissing"
	ChassisMismatch      = "ChassisMismatch"
	ChassisBehind        = "ChassisBehind"

	NodeNotReady       = "NodeNotReady"
	NodeSilent         = "NodeSilent"
	GatewayNotMoved    = "GatewayNotMoved"
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

	PoolLow         = "PoolLow"
	SeveralDefaults = "SeveralDefaultNetworks"
	AddressClash    = "AddressClash"
	Overlap         = "OverlappingCIDR"

	SelectorMatchesNothing = "SelectorMatchesNothing"
	PodsNotReady           = "PodsNotReady"
	NamedPortMissing       = "NamedPortMissing"
	TargetPortNotDeclared  = "TargetPortNotDeclared"
	HealthCheckOffline     = "HealthCheckOffline"
	NothingListens         = "NothingListens"
	PortBlocked            = "PortBlocked"
	ServiceNotOurs         = "ServiceNotOurs"

	TargetNotReady       = "TargetNotReady"
	TargetMoved          = "TargetMoved"
	TargetAbsent         = "TargetAbsent"
	EgressSelectsNothing = "EgressSelectsNothing"
	EgressHolderDown     = "EgressHolderDown"
	EgressOutsideProject = "EgressOutsideProject"
)

// Cause ranks: a finding with a higher rank explains those with a lower one.
const (
	rankSymptom      = iota // a failing condition of an object
	rankSingleObject        // one object and its parts
	rankShared              // a node, or a network
	rankControlPlane        // controllers, northd
	rankExactRow            // the row, object or entry whose absence breaks the path
	rankUnreadable          // the state is unknown
)

// Code describes a kind of finding.
type Code struct {
	Name        string
	Area        string
	Severity    Severity // default; a finding may have another one, depending on its effect
	Meaning     string
	Remediation string

	causeRank int
}

// Codes lists all kinds of findings except failing conditions, by area.
var Codes = []Code{
	{
		KubernetesUnreachable, "Reading", Error, "The Kubernetes API can't be read.",
		"Check the API server and the kubeconfig in use (--kubeconfig, $KUBECONFIG).", rankUnreadable,
	},
	{
		NorthboundUnreachable, "Reading", Error,
		"OVN's northbound database can't be read. Existing addresses keep working, but nothing can be changed.",
		"Check ovn-central (kubectl -n kube-system get pods -l app=ovn-central), and --nb-address with its " +
			"certificates.", rankUnreadable,
	},
	{
		SouthboundUnreachable, "Reading", Error,
		"OVN's southbound database can't be read. Nodes that can't read it either keep their current flows.",
		"Check ovn-central (kubectl -n kube-system get pods -l app=ovn-central), and --sb-address with its " +
			"certificates.", rankUnreadable,
	},
	{
		NotRead, "Reading", Warning, "Something could not be read, so nothing is known about it.",
		"The message gives the reason; often a permission is missing.", rankUnreadable,
	},
	{
		NotWorkedOut, "Reading", Error, "The intent of a project could not be computed or compared.",
		"The message gives the reason; try sallyport plan NAMESPACE.", rankUnreadable,
	},
	{
		KindMissing, "Reading", Error, "A kind that Sallyport needs is not installed in Kubernetes.",
		"Install the CRDs: helm upgrade of the chart, or kubectl apply --server-side -f config/crd.", rankUnreadable,
	},
	{
		KubernetesTooOld, "Reading", Warning, "The version of Kubernetes is older than Sallyport supports.",
		"Upgrade Kubernetes to 1.30 or later.", rankShared,
	},
	{
		CertificateExpires, "Reading", Warning, "A certificate is about to expire, or has expired.",
		"Renew it. Programs read the new certificate at their next start.", rankControlPlane,
	},

	{
		ControllerDead, "Control plane", Error,
		"Nobody renews the lease of sallyport-controller: it does not run, or can't reach Kubernetes. " +
			"Existing configuration stays, but changes are not processed and drift is not repaired.",
		"Check its pods and their log: kubectl -n NAMESPACE logs deployment/sallyport-controller.", rankControlPlane,
	},
	{
		KubeOVNDead, "Control plane", Error,
		"Nobody renews the lease of kube-ovn-controller. New pods, subnets and addresses are not configured; " +
			"existing ones keep working.",
		"Check its pods and their log: kubectl -n kube-system logs deployment/kube-ovn-controller.", rankControlPlane,
	},
	{
		LogicalSwitchMissing, "Control plane", Error,
		"OVN's northbound database does not have the logical switch of a Subnet that is ready. If all are missing, the " +
			"database was lost or replaced. Kube-OVN writes what is missing when it starts, and only then.",
		"Restart Kube-OVN: kubectl -n kube-system rollout restart deployment/kube-ovn-controller. Sallyport writes its " +
			"rows as soon as the switches exist.", rankControlPlane,
	},
	{
		NorthdBehind, "Control plane", Error,
		"ovn-northd does not process changes: what is written to the northbound database does not reach nodes.",
		"Check ovn-northd where ovn-central runs: it must be running, and one instance must be active.",
		rankControlPlane,
	},
	{
		Unattended, "Control plane", Error,
		"An object was created or changed, but the controller has not written its conditions.",
		"Check sallyport-controller and its log.", rankSymptom,
	},
	{
		ChassisMissing, "Control plane", Error,
		"A node has no chassis in OVN, or a gateway port is assigned to a chassis that does not exist.",
		"Start ovn-controller there (kubectl -n kube-system get pods -l app=ovs -o wide). If the node is gone " +
			"for good, delete its Node.", rankShared,
	},
	{
		ChassisMismatch, "Control plane", Error,
		"The node, Kube-OVN and OVN do not agree on the name of the node's chassis.",
		"Compare `ovs-vsctl get open . external_ids:system-id` on the node with its annotation " +
			"ovn.kubernetes.io/chassis; delete the annotation and restart kube-ovn-controller.", rankShared,
	},
	{
		ChassisBehind, "Control plane", Error,
		"A node does not apply changes: ovn-controller there is dead, hangs or does not reach the southbound database.",
		"Check ovn-controller on the node: kubectl -n kube-system get pods -l app=ovs -o wide, ovn-appctl -t " +
			"ovn-controller connection-status.", rankShared,
	},

	{
		NodeNotReady, "Nodes", Error, "A node is not Ready according to Kubernetes.",
		"Check the node: power, network, kubelet (kubectl describe node).", rankShared + 1,
	},
	{
		NodeSilent, "Nodes", Warning,
		"A node has not renewed its lease for a while: the node or its kubelet may just have failed.",
		"Check the node: power, network, kubelet.", rankShared,
	},
	{
		GatewayNotMoved, "Nodes", Warning,
		"A node holds gateway ports of routers, although it is no longer labelled as a gateway: removing the " +
			"label does not move them.",
		"Lower the priority of its chassis for the ports before you stop the node, so that another one takes them over: " +
			"docs/howto/install.md has the commands.", rankShared,
	},
	{
		AgentMissing, "Nodes", Warning, "The agent of a node does not answer, while those of others do.",
		"Check its pod: kubectl get pods --all-namespaces -o wide -l " + ownership.AgentLabel + "=" +
			ownership.AgentName + ".", rankSingleObject,
	},
	{
		AgentsAbsent, "Nodes", Info,
		"No node answers Inspections, so networks, links and connections could not be checked.",
		"Install the agent: helm upgrade … --set agent.enabled=true.", rankSingleObject,
	},
	{
		ClockSkew, "Nodes", Warning, "The clock of a node, or of the machine you work on, is wrong.",
		"Synchronize it with a time server (chronyc tracking, timedatectl).", rankSingleObject,
	},
	{
		SwitchSilent, "Nodes", Error, "Open vSwitch on a node does not answer.",
		"Check ovs-vswitchd and ovsdb-server on the node: kubectl -n kube-system get pods -l app=ovs -o wide.",
		rankShared,
	},
	{
		SwitchNotConnected, "Nodes", Error, "ovn-controller of a node is not connected to the southbound database.",
		"Check the connection from the node to the database (port 6642), and the certificates.", rankShared,
	},
	{
		LinkDown, "Nodes", Error,
		"The interface that connects a node to an external network or to other nodes is down or does not exist.",
		"Connect it or bring it up (ip link set INTERFACE up), or correct the ProviderNetwork.", rankShared,
	},
	{
		MTUTooSmall, "Nodes", Error,
		"The MTU of an interface is too small for the largest packets of pods: small packets pass, downloads hang.",
		"Raise the MTU of the interface and of the network behind it, or lower that of pods (Subnet spec.mtu).",
		rankShared,
	},
	{
		RPFilterStrict, "Nodes", Error,
		"A node drops packets that arrive on an uplink because its route back to the sender uses another one " +
			"(rp_filter is strict).",
		"Set it to 2: sysctl -w net.ipv4.conf.INTERFACE.rp_filter=2, and find out what sets it to 1.", rankShared,
	},
	{
		AsymmetricRoute, "Nodes", Error,
		"Replies to requests that arrive on one uplink of a node would leave through another, where routers drop them.",
		"Create an ExternalNetwork with nodes.interface for that uplink. If there is one, look for a foreign " +
			"rule: ip rule.", rankShared,
	},
	{
		ConntrackFull, "Nodes", Error, "The connection tracking table of a node is full; new connections are dropped.",
		"Raise net.netfilter.nf_conntrack_max, in Open vSwitch dpctl/ct-set-maxconns, and find out who opens " +
			"so many: sallyport top.", rankShared,
	},
	{
		ConntrackLow, "Nodes", Warning, "The connection tracking table of a node is nearly full.",
		"Raise net.netfilter.nf_conntrack_max, in Open vSwitch dpctl/ct-set-maxconns.", rankShared,
	},
	{
		SNATExhausted, "Nodes", Error,
		"All ports of an address are in use to one destination; new connections there fail.",
		"Use more addresses (an EgressIP with several, or one for these pods), or find out who opens so many " +
			"connections: sallyport top.", rankSingleObject,
	},
	{
		SNATLow, "Nodes", Warning, "Most ports of an address are in use to one destination.",
		"Use more addresses: an EgressIP with several, or one for these pods.", rankSingleObject,
	},
	{
		StaleConnection, "Nodes", Error,
		"A tracked connection still points to a former backend, so its packets are lost.",
		"Let the client use another source port, or delete the connection on the node: ovs-appctl " +
			"dpctl/flush-conntrack.", rankExactRow,
	},

	{
		GatewaySilent, "Wires", Error, "Nobody answers for the gateway of an external network.",
		"Check the router, the VLAN and the cable; or correct the Subnet's gateway.", rankShared,
	},
	{
		GatewayDuplicate, "Wires", Error, "Two hosts answer for the gateway of an external network.",
		"Find the wrong host by its MAC address.", rankShared,
	},
	{
		AddressSilent, "Wires", Error, "OVN should answer for an address on an external network, but nobody does.",
		"Check the node that holds the gateway: ovn-controller, its interface and the VLAN of the physical " +
			"switch port.", rankSingleObject,
	},
	{
		AddressDuplicate, "Wires", Error, "Another host on the network answers for an address of the cluster.",
		"Find the host with that MAC address and remove the address from it. Exclude the address from other " +
			"pools (Subnet excludeIps).", rankSingleObject,
	},

	{
		RowMissing, "Drift", Error, "A row that should be in OVN's northbound database is missing.",
		"The controller restores it; if it does not, check its log. The database's log shows who deleted it.",
		rankExactRow,
	},
	{
		RowChanged, "Drift", Error, "A row of OVN's northbound database was changed.",
		"The controller corrects it; if it does not, check its log.", rankExactRow,
	},
	{
		RowLeft, "Drift", Warning, "A row of Sallyport should have been deleted.",
		"The controller deletes it; if it does not, check its log.", rankSingleObject,
	},
	{
		RowForeign, "Drift", Warning, "A router of a project has a row of unknown origin that can reroute packets.",
		"Find out who wrote it. If it is not needed, delete it with ovn-nbctl.", rankShared,
	},
	{
		LabelOverwritten, "Drift", Error,
		"A foreign ACL has a sample or a label, which overwrites the label that ties replies to the network " +
			"their connection arrived on. Connections to pods that it matches get no replies through secondary " +
			"networks.",
		"Find the ACL with ovn-nbctl acl-list and remove both (ovn-nbctl clear ACL UUID sample_new " +
			"sample_est; ovn-nbctl set ACL UUID label=0), or let it match only pods without addresses on " +
			"secondary networks.", rankShared,
	},
	{
		ObjectMissing, "Drift", Error, "An object that should exist is missing.",
		"The controller creates it again; if it does not, check its log.", rankExactRow,
	},
	{
		ObjectChanged, "Drift", Error, "An object was changed.",
		"The controller corrects it; if it does not, check its log.", rankExactRow,
	},
	{
		ObjectLeft, "Drift", Warning, "An object of Sallyport should have been deleted.",
		"The controller deletes it; if it does not, check what blocks the deletion.", rankSingleObject,
	},
	{
		ElementMissing, "Drift", Error, "An entry of a list in a Vpc is missing.",
		"The controller restores it; if it does not, check its log.", rankExactRow,
	},
	{
		ElementChanged, "Drift", Error, "An entry of a list in a Vpc was changed.",
		"The controller corrects it; if it does not, check its log.", rankExactRow,
	},
	{
		LeakedRow, "Drift", Warning, "A row of Sallyport belongs to an object that does not exist any more.",
		"Restart sallyport-controller; if the row remains, delete it with ovn-nbctl.", rankSingleObject,
	},
	{
		LeakedQuestion, "Drift", Info, "There are Inspections that no command waits for.",
		"Delete them: kubectl delete inspections --all.", rankSymptom,
	},

	{
		PoolLow, "Addresses", Warning, "An external network has few free addresses left.",
		"Delete unused EIps (sallyport top), or add a Subnet to the network.", rankShared,
	},
	{
		SeveralDefaults, "Addresses", Warning,
		"Several external networks are labelled as the default. Which one gives Projects their default egress is not " +
			"what the labels say.",
		"Remove the label network.kube-dc.com/default-external from all but one of them.", rankShared,
	},
	{
		AddressClash, "Addresses", Error, "An external address is assigned twice in OVN, or also to a node or gateway.",
		"Remove it from the one that should not have it; the message names both.", rankExactRow,
	},
	{
		Overlap, "Addresses", Error, "Two networks that have to be distinct have overlapping prefixes.",
		"Change the prefix of one of them. Pods cannot reach external hosts whose addresses are in their own prefix.",
		rankShared,
	},

	{
		SelectorMatchesNothing, "Load balancers", Error, "The selector of a Service matches no pod.",
		"Compare kubectl get pods --show-labels with spec.selector of the Service.", rankSingleObject,
	},
	{
		PodsNotReady, "Load balancers", Error, "A Service has pods, but none is ready.",
		"Check the pods: kubectl describe pod, kubectl logs.", rankSingleObject,
	},
	{
		NamedPortMissing, "Load balancers", Error, "A Service has a named target port that no pod has.",
		"Name the port in the pods' containers, or use its number as targetPort.", rankSingleObject,
	},
	{
		TargetPortNotDeclared, "Load balancers", Warning,
		"A Service has a target port that no container of its pods declares.",
		"Correct targetPort of the Service, or containerPort of the pods.", rankSingleObject,
	},
	{
		NothingListens, "Load balancers", Error,
		"A pod gets connections to a port on which nothing listens. The agent of its node asked the pod, which refused.",
		"Compare the port (targetPort of a Service) with that of the program (kubectl exec POD -- ss -lntu). The program must " +
			"listen on all addresses of the pod, not only on 127.0.0.1.", rankSingleObject,
	},
	{
		PortBlocked, "Load balancers", Error,
		"A pod does not answer on a port, although the agent of its node sent the packet directly to it; or it rejects " +
			"the packet as firewalls do.",
		"Check the firewall in the pod (nft list ruleset, iptables -S), and whether the program hangs or its backlog is " +
			"full (ss -lnt).", rankSingleObject,
	},
	{
		HealthCheckOffline, "Load balancers", Error, "Health checks report that a backend does not answer on its port.",
		"Check that the program in the pod listens on that port, and that no NetworkPolicy blocks the checks.",
		rankSingleObject,
	},
	{
		ServiceNotOurs, "Load balancers", Warning,
		"A Service of type LoadBalancer has a load balancer class that Sallyport does not serve, and no address.",
		"Correct loadBalancerClass (kube-dc.com/sallyport), which requires a new Service; or install a " +
			"controller for that load balancer class.", rankSingleObject,
	},

	{
		TargetNotReady, "Floating and egress addresses", Error, "The pod of a floating IP is not ready.",
		"Check the pod: kubectl describe pod, kubectl logs.", rankSingleObject,
	},
	{
		TargetMoved, "Floating and egress addresses", Error,
		"The pod of a floating IP has another address than the target of the floating IP.",
		"The controller updates it; if it does not, check its log.", rankSingleObject,
	},
	{
		TargetAbsent, "Floating and egress addresses", Warning, "No pod has the target address of a floating IP.",
		"Start the target, or correct the target of the FIp.", rankSingleObject,
	},
	{
		EgressSelectsNothing, "Floating and egress addresses", Warning, "An EgressIP selects no pod.",
		"Compare its namespaceSelector and podSelector with the labels of namespaces and pods.", rankSingleObject,
	},
	{
		EgressHolderDown, "Floating and egress addresses", Error, "The node that holds an egress address is not Ready.",
		"Another node labelled k8s.ovn.org/egress-assignable takes it over within seconds; if there is none, " +
			"label one.", rankShared,
	},
	{
		EgressOutsideProject, "Floating and egress addresses", Error,
		"An EgressIP selects pods that are neither of a project nor on an overlay Subnet of Kube-OVN's default VPC. " +
			"They leave with another address, also with failurePolicy Closed.",
		"Let its selectors match namespaces of projects and of overlay Subnets of Kube-OVN's default VPC only.",
		rankSingleObject,
	},
}

var codesByName = func() map[string]Code {
	out := make(map[string]Code, len(Codes))
	for _, c := range Codes {
		out[c.Name] = c
	}
	return out
}()
