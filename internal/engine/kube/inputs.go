package kube

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// Inputs are the API objects that decide about one shard, before they are parsed.
type Inputs struct {
	Shard shard.Shard

	projects []*kubedcv1.Project
	// Projects of other shards: of the same organizations, or selected by EgressIPs
	otherProjects   []*kubedcv1.Project
	namespaces      map[string]*corev1.Namespace // namespaces of the shard
	knownNamespaces map[string]*corev1.Namespace // these and others, for their labels and quotas
	otherEIps       map[string][]*kubedcv1.EIp   // of other shards, by namespace
	isOrganization  bool                         // its namespace contains Projects; not part of the management VPC
	nodes           []*corev1.Node
	eips            []*kubedcv1.EIp
	ipv6EIps        []*kubedcv1.EIp // of all shards
	fips            []*kubedcv1.FIp
	networks        []*kubedcv1alpha1.ExternalNetwork
	subnets         map[string]*Subnet // external Subnets and the project's own
	vpc             *Vpc
	ovnEips         map[string]*OvnEip
	ovnFips         map[string]*OvnFip
	snatRule        *OvnSnatRule
	pods            map[string]*corev1.Pod // by namespace/name
	vms             map[string]*VirtualMachineInstance
	services        []*corev1.Service
	endpointSlices  map[string][]*discoveryv1.EndpointSlice // by the Service's namespace/name
	ownedObjects    map[intent.ObjectKey]bool
	offers          map[intent.ObjectKey]bool // what AdoptCountLabel counts
	// egressIPs are those that select something in the shard; for the shard of egress addresses, all.
	egressIPs []*ovnv1.EgressIP
	// selecting are the EgressIPs that select each namespace with pods in the management VPC; nil in other shards.
	selecting      map[string]map[*ovnv1.EgressIP]bool
	egressServices []*ovnv1.EgressService
	egressRoutes   []*kubedcv1alpha1.EgressRoute

	// nodePaths and externalServices (Services of all namespaces) are only set for the shard of NodePaths.
	nodePaths        []*kubedcv1alpha1.NodePath
	externalServices []*corev1.Service
	// ingressServices are Services with load balancer addresses, holdingEIps the EIps that hold these addresses.
	// Together they give the owner of an address.
	ingressServices []*corev1.Service
	holdingEIps     []*kubedcv1.EIp

	// outboundFIps are, for the shard of NodePaths, the FIps with which their targets leave, by target.
	outboundFIps map[netip.Addr]string
	// misplacedPorts are pod ports that OVN reports in the wrong switch.
	misplacedPorts []snapshot.PodPort

	lacksBackendKind bool // the API server does not serve Backends
	// isStuck reports whether Kube-OVN will never process an object.
	isStuck func(client.Object) bool
}

// NewInputs returns empty inputs.
func NewInputs(of shard.Shard) *Inputs {
	return &Inputs{
		Shard: of, subnets: map[string]*Subnet{}, ovnEips: map[string]*OvnEip{}, ovnFips: map[string]*OvnFip{},
		endpointSlices: map[string][]*discoveryv1.EndpointSlice{}, namespaces: map[string]*corev1.Namespace{},
		knownNamespaces: map[string]*corev1.Namespace{},
		otherEIps:       map[string][]*kubedcv1.EIp{},
		pods:            map[string]*corev1.Pod{}, vms: map[string]*VirtualMachineInstance{},
		ownedObjects: map[intent.ObjectKey]bool{}, offers: map[intent.ObjectKey]bool{}, outboundFIps: map[netip.Addr]string{},
		isStuck: func(client.Object) bool { return false },
	}
}

// AddAll adds objects. Subnets are added first, because they decide which namespaces belong to the management VPC. Then
// namespaces, because they decide which other objects belong to the shard.
func (in *Inputs) AddAll(objects []client.Object) {
	rank := func(o client.Object) int {
		switch o.(type) {
		case *Subnet:
			return 0
		case *corev1.Namespace:
			return 1
		default:
			return 2
		}
	}
	for _, o := range slices.SortedStableFunc(slices.Values(objects),
		func(a, b client.Object) int { return rank(a) - rank(b) }) {
		in.Add(o)
	}
}

// AddMisplacedPorts adds pod ports that are in the wrong switch.
func (in *Inputs) AddMisplacedPorts(misplaced []snapshot.PodPort) {
	in.misplacedPorts = append(in.misplacedPorts, misplaced...)
}

// Add adds an object unless it is irrelevant for this shard. It does not modify the object.
func (in *Inputs) Add(object client.Object) {
	if ownerShard(object) == in.Shard.Name && (object.GetNamespace() == "" || in.ownsNamespace(object.GetNamespace())) {
		if key, err := KeyOf(object); err == nil {
			in.ownedObjects[key] = true
		}
	}
	in.noteOffer(object)
	switch o := object.(type) {
	case *kubedcv1.Project:
		if snapshot.ProjectShard(o.Namespace, o.Name) == in.Shard.Name {
			in.projects = append(in.projects, o)
		} else {
			in.otherProjects = append(in.otherProjects, o)
		}
	case *kubedcv1alpha1.ExternalNetwork:
		if isGeneratedNetwork(o) {
			return // the label of its Subnet counts
		}
		in.networks = append(in.networks, o)
	case *corev1.Namespace:
		in.addNamespace(o)
	case *corev1.Node:
		in.nodes = append(in.nodes, o)
	default:
		if eip, isEIp := object.(*kubedcv1.EIp); isEIp && isIPv6EIp(eip) && !slices.Contains(in.ipv6EIps, eip) {
			in.ipv6EIps = append(in.ipv6EIps, eip)
		}
		in.addKubeOVNObject(object)
		in.addForNodesShard(object)
		if in.ownsNamespace(object.GetNamespace()) {
			in.addNamespacedObject(object)
		} else if eip, isEIp := object.(*kubedcv1.EIp); isEIp {
			in.otherEIps[eip.Namespace] = append(in.otherEIps[eip.Namespace], eip)
		}
	}
}

// addNamespacedObject adds an object in a namespace of the shard.
func (in *Inputs) addNamespacedObject(object client.Object) {
	switch o := object.(type) {
	case *kubedcv1.EIp:
		if in.Shard.Kind != shard.OfNodePaths {
			in.eips = append(in.eips, o)
		}
	case *kubedcv1.FIp:
		in.fips = append(in.fips, o)
	case *ovnv1.EgressService:
		if in.ownsEgressPolicies() {
			in.egressServices = append(in.egressServices, o)
		}
	case *kubedcv1alpha1.EgressRoute:
		if in.ownsEgressPolicies() {
			in.egressRoutes = append(in.egressRoutes, o)
		}
	case *corev1.Pod:
		in.pods[o.Namespace+"/"+o.Name] = o
	case *VirtualMachineInstance:
		in.vms[snapshot.PodKey(o.Namespace, o.Name)] = o
	case *corev1.Service:
		if isLoadBalancer(o) {
			in.services = append(in.services, o)
		}
	case *discoveryv1.EndpointSlice:
		of := o.Namespace + "/" + serviceNameOf(o)
		in.endpointSlices[of] = append(in.endpointSlices[of], o)
	}
}

// addKubeOVNObject adds an object of a Kube-OVN kind.
func (in *Inputs) addKubeOVNObject(object client.Object) {
	switch o := object.(type) {
	case *Subnet:
		in.subnets[o.Name] = o
	case *Vpc:
		if o.Name == in.Shard.Name {
			in.vpc = o
		}
	case *OvnEip:
		in.ovnEips[o.Name] = o
	case *OvnFip:
		in.ovnFips[o.Name] = o
	case *OvnSnatRule:
		if o.Name == in.Shard.Name || in.snatRule == nil && cmp.Or(ownerShard(o), offeredShard(o)) == in.Shard.Name {
			in.snatRule = o // one that was adopted may have another name
		}
	}
}

// StatusObjects returns the objects that get a status and a finalizer from this shard.
func (in *Inputs) StatusObjects() []client.Object {
	var out []client.Object
	for _, p := range in.projects {
		out = append(out, p)
	}
	for _, e := range in.eips {
		out = append(out, e)
	}
	for _, f := range in.fips {
		out = append(out, f)
	}
	for _, s := range in.services {
		out = append(out, s)
	}
	for _, s := range in.egressServices {
		out = append(out, s)
	}
	for _, r := range in.egressRoutes {
		out = append(out, r)
	}
	return out
}

// AttachedSubnets returns the external subnets that we connected to the router, or are about to: those where the router
// port has an OvnEip of this shard.
func (in *Inputs) AttachedSubnets() map[string]bool {
	out := map[string]bool{}
	if in.Shard.Name == kubeovn.ManagementVpc {
		return out // in the management VPC we own the ports, not the list
	}
	for name, eip := range in.ovnEips {
		subnet := eip.Spec.ExternalSubnet
		if name == kubeovn.RouterPort(in.Shard.Name, subnet) && in.belongs(eip) {
			out[subnet] = true
		}
	}
	return out
}

// BuildSnapshot parses the inputs. ports are the router's ports, nil if there is no router.
func (in *Inputs) BuildSnapshot(config snapshot.Config, ports []string, now time.Time) *snapshot.VpcInput {
	w := &snapshot.VpcInput{
		Shard: in.Shard.Name, Config: config, Now: now, BackendCRDMissing: in.lacksBackendKind,
		Management: in.readManagementVPC(), Namespace: in.readNamespace(), ExternalSubnets: in.readExternalSubnets(),
		PlatformPrefixes: in.readClusterPrefixes(),
		Services:         in.readServices(), Pods: in.readPods(), VMs: in.readVMs(), Engine: in.readKubeOVNState(ports),
		AddressOwners: in.readAddressHolders(), IPv6Owners: in.readIPv6Owners(),
	}
	for _, p := range in.projects {
		w.Projects = append(w.Projects, readProject(p))
	}
	w.Organizations = in.readOrganizations()
	w.Selections, w.PodAddresses, w.EgressPods = in.readSelections()
	w.EgressServices, w.EgressRoutes = in.readEgressServices(), in.readEgressRoutes()
	for _, e := range in.eips {
		w.EIps = append(w.EIps, readEIp(e))
	}
	for _, f := range in.fips {
		w.FIps = append(w.FIps, readFIp(f))
	}
	return w
}

// referencedKeys returns what has to be looked up by name: objects that others create, and our objects, which may have
// lost their labels.
func (in *Inputs) referencedKeys() []intent.ObjectKey {
	keys := []intent.ObjectKey{
		{Kind: intent.Vpc, Name: in.Shard.Name},
		{Kind: intent.Subnet, Name: ownership.VPCSubnetName(in.Shard.Name)},
		{Kind: intent.OvnSnatRule, Name: in.Shard.Name},
	}
	for _, n := range in.networks {
		for _, s := range n.Spec.Subnets {
			keys = append(keys, intent.ObjectKey{Kind: intent.Subnet, Name: s})
		}
	}
	for _, p := range in.misplacedPorts {
		keys = append(keys, intent.ObjectKey{Kind: intent.Subnet, Name: p.Subnet})
	}
	for name := range in.subnets { // OvnEips of the router's ports on external subnets
		keys = append(keys, intent.ObjectKey{Kind: intent.OvnEip, Name: kubeovn.RouterPort(in.Shard.Name, name)})
	}
	for _, e := range in.eips {
		names := ownership.OvnEipNames(e.Namespace, e.Name)
		if e.Spec.ChildRef != "" {
			names = []string{e.Spec.ChildRef}
		}
		for _, name := range names {
			keys = append(keys, intent.ObjectKey{Kind: intent.OvnEip, Name: name})
		}
	}
	for _, f := range in.fips {
		for _, name := range ownership.OvnFipNames(f.Namespace, f.Name) {
			keys = append(keys, intent.ObjectKey{Kind: intent.OvnFip, Name: name})
		}
		if f.Spec.PodTarget != nil {
			keys = append(keys, intent.ObjectKey{Kind: Pod, Namespace: f.Namespace, Name: f.Spec.PodTarget.PodName})
		}
		if f.Spec.VMTarget != nil {
			keys = append(keys, intent.ObjectKey{Kind: VMI, Namespace: f.Namespace, Name: f.Spec.VMTarget.VMName})
		}
	}
	slices.SortFunc(keys, func(a, b intent.ObjectKey) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), a.Compare(b)) })
	return slices.Compact(keys)
}
