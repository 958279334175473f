// Package snapshot is the world of one shard as a value: everything that decides about one VPC, parsed, and nothing
// else.
package snapshot

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// VpcInput is everything that decides about one VPC. Lists are in no particular order; compile sorts what it depends
// on.
type VpcInput struct {
	// Shard is the name of the VPC, of its router and of its namespace.
	Shard  string
	Config Config
	Now    time.Time

	// Projects are those whose names give this shard. More than one is a clash of names.
	Projects []Project
	// Organizations are those of the Projects, by the namespace that they are in.
	Organizations map[string]Organization
	// Management: the shard is Kube-OVN's own VPC, which has no Project. Nil: it is not.
	Management *Management

	Namespace Namespace
	EIps      []EIp
	FIps      []FIp
	// Services are those of type LoadBalancer.
	Services []Service

	// BackendCRDMissing: Kubernetes has no Backends of Envoy Gateway.
	BackendCRDMissing bool
	// ExternalSubnets are the subnets of all external networks.
	ExternalSubnets []ExternalSubnet
	// PlatformPrefixes are the prefixes of the cluster itself, as long as the Project is new: those of Kube-OVN's own
	// VPC, and the nodes' addresses.
	PlatformPrefixes []PrefixClaim
	// Pods and VMs are the targets that the shard's FIps name, and all pods where endpoints count by them. An absent
	// one does not exist. The key of a pod is PodKey.
	Pods map[string][]netip.Addr
	VMs  map[string][]intent.VMInterface

	// Selections are the EgressIPs that select pods of the shard, and Inside the addresses of all its pods, where there
	// are any.
	Selections   []Selection
	PodAddresses []netip.Addr

	// EgressServices and EgressRoutes lead pods of the shard out by other networks, or with other addresses.
	EgressServices []EgressService
	EgressRoutes   []EgressRoute

	// Engine is what Kube-OVN made of our objects.
	Engine Engine
	// AddressOwners says who has an address that one of the shard's EIps asks for: the name of an OvnEip.
	AddressOwners map[netip.Addr]AddressOwner
}

// Config is what the operator chose for all projects.
type Config struct {
	// DefaultEIpType and DefaultFIpType are the network types of EIps and FIps that name none; empty: the type of the
	// default external network.
	DefaultEIpType, DefaultFIpType string
	// DefaultServiceType is the network type of load balancers that name none; empty: as with EIps.
	DefaultServiceType string
	// Quotas are those of whom nobody has given others.
	Quotas Quotas
	// AutodeleteAfter is how long a Service that asks for it may be without endpoints before it is deleted.
	AutodeleteAfter time.Duration
	// ClasslessServices says which Services without a loadBalancerClass are ours.
	ClasslessServices ClasslessPolicy
	// ManagementNetworkType is the type of the network whose hosts pods of the management VPC reach; empty: none.
	ManagementNetworkType string
	// DefaultReturnPath is how replies find back on networks that do not say.
	DefaultReturnPath ReturnPath
	// BFDInterval is how often nodes that hold addresses are asked for a sign of life; 0: as OVN does.
	BFDInterval time.Duration
	// RebalanceInterval is after what time another egress address may go to a node that holds fewer, without a request;
	// 0: none does.
	RebalanceInterval time.Duration
	// ClusterPrefixes are the prefixes of the cluster's pods and Services.
	ClusterPrefixes PrefixList
	// Isolation is what happens to pods on networks where they do not belong.
	Isolation Isolation
	// TrustedNamespaces are namespaces whose pods may be on the network of any project.
	TrustedNamespaces NamespaceList
	// AttachmentNamespaces are namespaces whose NetworkAttachmentDefinitions pods of all namespaces may use.
	AttachmentNamespaces NamespaceList
}

// NamespaceList is a list of namespaces, as a flag's value.
type NamespaceList []string

// namespacePattern is what Kubernetes calls a namespace.
var namespacePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Set reads the list, with commas between.
func (l *NamespaceList) Set(text string) error {
	*l = nil
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		if !namespacePattern.MatchString(part) {
			return fmt.Errorf("%q is not the name of a namespace", part)
		}
		*l = append(*l, part)
	}
	return nil
}

// String is the list as it is given.
func (l *NamespaceList) String() string { return strings.Join(*l, ",") }

// Type is what help calls such a value.
func (*NamespaceList) Type() string { return "namespaces" }

// Isolation is what happens to the packets of pods on networks where they do not belong.
type Isolation string

// The choices. None given means the first. Both are reported.
const (
	IsolationEnforce Isolation = "Enforce" // they are dropped
	IsolationReport  Isolation = "Report"  // they are not
)

// Set reads it, as a flag's value.
func (i *Isolation) Set(text string) error {
	if *i = Isolation(text); *i != IsolationEnforce && *i != IsolationReport {
		return fmt.Errorf("%q: use %s or %s", text, IsolationEnforce, IsolationReport)
	}
	return nil
}

// String is the word for it.
func (i *Isolation) String() string { return string(cmp.Or(*i, IsolationEnforce)) }

// Type is what a flag's value is called.
func (i *Isolation) Type() string { return "isolation" }

// PrefixList is a list of prefixes, as a flag's value.
type PrefixList []netip.Prefix

// Set reads the list, with commas between.
func (l *PrefixList) Set(text string) error {
	*l = nil
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		p, err := netip.ParsePrefix(part)
		if err != nil {
			return err
		}
		*l = append(*l, p.Masked())
	}
	return nil
}

// String is the list as it is given.
func (l *PrefixList) String() string {
	var out []string
	for _, p := range *l {
		out = append(out, p.String())
	}
	return strings.Join(out, ",")
}

// Type is what help calls such a value.
func (*PrefixList) Type() string { return "prefixes" }

// ReturnPath is how replies find back to the network that a connection came in on.
type ReturnPath string

// The ways back. None given means the first.
const (
	ReturnByConnection ReturnPath = "Connection"
	ReturnBySource     ReturnPath = "Source"
)

// Set reads it, as a flag's value.
func (r *ReturnPath) Set(text string) error {
	if *r = ReturnPath(text); *r != ReturnByConnection && *r != ReturnBySource {
		return fmt.Errorf("%q: use %s or %s", text, ReturnByConnection, ReturnBySource)
	}
	return nil
}

// String is the word for it.
func (r *ReturnPath) String() string { return string(cmp.Or(*r, ReturnByConnection)) }

// Type is what a flag's value is called.
func (r *ReturnPath) Type() string { return "way" }

// ClasslessPolicy is which Services without a loadBalancerClass are ours.
type ClasslessPolicy string

// The choices. None given means the first. In the management VPC others may serve them, as in every cluster that is
// older than we.
const (
	ClasslessInProjects ClasslessPolicy = "projects"
	ClasslessEverywhere ClasslessPolicy = "everywhere"
	ClasslessNowhere    ClasslessPolicy = "nowhere"
)

// Set reads it, as a flag's value.
func (c *ClasslessPolicy) Set(text string) error {
	if *c = ClasslessPolicy(text); *c != ClasslessInProjects && *c != ClasslessEverywhere && *c != ClasslessNowhere {
		return fmt.Errorf("%q: use %s, %s or %s", text, ClasslessInProjects, ClasslessEverywhere, ClasslessNowhere)
	}
	return nil
}

// OwnsService says whether a Service of type LoadBalancer is ours, by its loadBalancerClass and by where it is: in a
// VPC that we know, of a project or the management one. In a namespace of no VPC that we know, only who names us means
// us.
func (c ClasslessPolicy) OwnsService(class string, known, management bool) bool {
	switch {
	case class != "":
		return class == kubedcv1.LoadBalancerClass
	case c == ClasslessNowhere:
		return false
	default:
		return known && (c == ClasslessEverywhere || !management)
	}
}

// String is the word for it.
func (c *ClasslessPolicy) String() string { return string(cmp.Or(*c, ClasslessInProjects)) }

// Type is what a flag's value is called.
func (c *ClasslessPolicy) Type() string { return "where" }

// Management is the VPC that Kube-OVN makes for itself. Pods of any namespace without a Subnet of its own are in it.
type Management struct {
	Prefixes []netip.Prefix // of its pods
	Gateways []netip.Addr   // of the prefixes
	// GatewayChassis are those of the nodes that may hold gateways, in order, and Holding those that may at present.
	GatewayChassis, CurrentChassis []string
	// ConnectedByKubeOVN are the external subnets to which Kube-OVN itself has connected it.
	ConnectedByKubeOVN map[string]bool
	// TerminatingNamespaces are its namespaces that are being deleted, and Quotas how many EIps they may have.
	TerminatingNamespaces map[string]bool
	NamespaceQuotas       map[string]Limit
	// HasForeignSNAT: somebody else translates the addresses of what leaves it.
	HasForeignSNAT bool
}

// Meta is what all API objects have.
type Meta struct {
	Namespace, Name, UID string
	Generation           int64
	Created              time.Time
	Deleting             bool
	// DeletedAt is when it was deleted.
	DeletedAt time.Time
}

// Project is a tenant's request for a VPC.
type Project struct {
	Meta
	Prefixes    []netip.Prefix // of the pods: one, or one of each family
	Gateways    []netip.Addr   // one of a prefix; none: its first address
	NetworkType string         // type of the default network
	EIpQuota    Limit          // of EIps
	Accepted    bool           // its status says so
	// IngressAllowList are those outside who may begin connections with the project's external addresses, Egress those
	// with whom its pods may.
	IngressAllowList, EgressAllowList AllowList
	Malformed
}

// EIp is a request for an external address.
type EIp struct {
	Meta
	Type           string     // network by type
	Network        string     // network by name
	ExistingOvnEip string     // an OvnEip that exists already
	Address        netip.Addr // a specific one; invalid: any
	// SharedWith are the namespaces whose Services may bind to it, besides its own.
	SharedWith []string
	// StatusAddress is the address in its status: what it had before somebody deleted the OvnEip. Accepted: its status
	// says so.
	StatusAddress netip.Addr
	Accepted      bool
	Malformed
}

// FIp is a request for a floating IP.
type FIp struct {
	Meta
	EIp  string // by name
	Type string // or an EIp of its own on a network of this type
	// Exactly one of these is set.
	Address       netip.Addr
	Pod           string
	VM, Interface string
	Malformed
}

// Malformed is why a field could not be read; empty when all could.
type Malformed string

// PrefixClaim is a prefix and whose it is.
type PrefixClaim struct {
	Prefix netip.Prefix
	Owner  string
}

// Namespace is the project's namespace as it is.
type Namespace struct {
	Exists, Owned, Deleting bool
	Quota                   Limit // of EIps, when the Project sets none
	// PodSubnet is the Subnet in which Kube-OVN gives pods their addresses; empty: it gives none yet.
	PodSubnet string
	// RemainingContent is what keeps it from going, as Kubernetes says.
	RemainingContent string
}

// ExternalSubnet is one subnet of an external network.
type ExternalSubnet struct {
	Subnet  string
	Network string // name of the ExternalNetwork, or of the subnet itself
	Type    string
	Default bool
	Ready   bool
	Prefix  netip.Prefix // IPv4
	Gateway netip.Addr   // IPv4
	HasIPv6 bool         // it has an IPv6 prefix, too, or only that
	Free    int
	Used    int
	// ReservedRanges are the addresses that the operator keeps for others on the wire: spec.excludeIps of the Subnet,
	// which has the gateway's, too.
	ReservedRanges []AddressRange
	// Isolated: projects do not reach each other's addresses on it.
	Isolated bool
	// SharedAddresses are the addresses that they reach all the same, with the namespace that may have each.
	SharedAddresses map[netip.Addr]string
	// ReturnPath is how replies find back; empty: as the operator chose for all networks.
	ReturnPath ReturnPath
	// Admitted are those who may use it, as far as the shard has to know; nil: everybody may.
	Admitted Admitted
}

// IsReserved says whether the operator keeps an address for others.
func (x *ExternalSubnet) IsReserved(a netip.Addr) bool {
	return slices.ContainsFunc(x.ReservedRanges, func(r AddressRange) bool { return r.Contains(a) })
}

// GrantsAddress says whether a namespace may have an address that the operator keeps for others.
func (x *ExternalSubnet) GrantsAddress(a netip.Addr, namespace string) bool {
	return namespace != "" && x.SharedAddresses[a] == namespace
}

// Engine is the shard's Kube-OVN objects and router ports as they are.
type Engine struct {
	Vpc     Vpc
	Subnet  ObjectState
	OvnEips map[string]OvnEip // ours, and those that the shard's EIps name as children
	OvnFips map[string]OvnFip
	// ForeignOvnFips are the OvnFips of others that have the name of one of the shard's.
	ForeignOvnFips map[string]bool
	SnatRule       OvnSnatRule
	// RouterPorts are the names of the router's ports in the OVN northbound database.
	RouterPorts map[string]bool
	// PortNetworks are the addresses of those that Kube-OVN made, by name.
	PortNetworks map[string]netip.Prefix
	// Leftovers are the names of what Kube-OVN makes for a VPC in that database besides the router, and does not remove
	// with it.
	Leftovers []string
	// UsedIPs is how many addresses of the project's subnet pods have, and Taken which.
	UsedIPs      int
	UsedIPRanges []AddressRange
	// ReturnPorts are the addresses of the router's ports that are legs, by port.
	ReturnPorts map[string]netip.Addr
	// VIPOwners says whose load balancer has what is balanced now: "protocol address:port" → the Service's
	// namespace/name.
	VIPOwners map[string]string
	// MissingCapabilities is what the engine lacks for replies to find back by their connection; empty: nothing.
	MissingCapabilities string
	// OwnedObjects are all objects of ours in this shard, by key: what has to go before a finalizer can.
	OwnedObjects map[intent.ObjectKey]bool
	// MisplacedPorts are the ports of pods of other namespaces on the shard's switch, and those of its own pods on
	// other switches.
	MisplacedPorts []PodPort
}

// PodPort is the switch port of a pod or virtual machine.
type PodPort struct {
	Name           string
	Namespace, Pod string
	Subnet         string // the switch that it is on
	// Project is the shard that the Subnet belongs to; empty: none.
	Project string
	// Allowed: an operator lets pods of the namespace be on the Subnet.
	Allowed bool
	// AttachmentNamespace is the namespace of the NetworkAttachmentDefinition that the Subnet is for; empty: none.
	AttachmentNamespace string
}

// AddressRange is addresses from the first to the last.
type AddressRange struct{ First, Last netip.Addr }

// Contains says whether an address is in it.
func (r AddressRange) Contains(a netip.Addr) bool {
	return r.First.Compare(a) <= 0 && a.Compare(r.Last) <= 0
}

// ObjectState is how an object is doing.
type ObjectState struct {
	Exists, Ready, Deleting bool
	// DeletedAt is when it was deleted.
	DeletedAt time.Time
}

// Vpc is how a VPC is doing.
type Vpc struct {
	ObjectState
	// LastEditedAt is when we last changed a list of it.
	LastEditedAt time.Time
	// RequestedSubnets are the external subnets that it is to be connected to, Attached those that Kube-OVN says it has
	// connected, and Said is when Kube-OVN last said something.
	RequestedSubnets, AttachedSubnets map[string]bool
	StatusWrittenAt                   time.Time
}

// OvnEip is how an address is doing.
type OvnEip struct {
	ObjectState
	Owned            bool      // of this shard
	Adopted          bool      // and made by Kube-OVN itself, which took any address
	Origin           state.Ref // that asked for it; zero: it does not say
	Subnet           string
	Type             string
	Address          netip.Addr
	RequestedAddress netip.Addr // the address that it is to have; invalid: any
	// FailedWithoutAddress: it will never have an address. Kube-OVN says that it is ready and has overwritten the
	// address with nothing, or was about to give it one that another has by now, or has overlooked it.
	FailedWithoutAddress bool
}

// OvnFip is how a translation is doing.
type OvnFip struct {
	ObjectState
	OvnEip     string
	ExternalIP netip.Addr
	TargetIP   netip.Addr
	// Stuck: Kube-OVN will never carry it out. It has to go, so that it can come again.
	Stuck bool
}

// OvnSnatRule is how the translation of what leaves is doing.
type OvnSnatRule struct {
	ObjectState
	OvnEip         string
	ExternalIP     netip.Addr
	InternalPrefix netip.Prefix // whose packets are translated
	// Stuck: Kube-OVN will never carry it out. It has to go, so that it can come again.
	Stuck bool
}

// AddressOwner is who has an address.
type AddressOwner struct {
	OvnEip string
	Shard  string // empty: it is not ours
}

// NetworkInput is everything that decides about the external networks themselves.
type NetworkInput struct {
	ExternalNetworks []ExternalNetwork
	ExternalSubnets  map[string]ExternalSubnet
	// DefaultReturnPath is how replies find back on networks that do not say, and Lacks what the engine lacks for more
	// than by source.
	DefaultReturnPath   ReturnPath
	MissingCapabilities string
	// NodePaths are the NodePaths that there are, by node, and Inside the prefixes of pods and Services.
	NodePaths       map[string]NodePathStatus
	ClusterPrefixes []netip.Prefix
}

// ExternalNetwork is an operator's request for an external network.
type ExternalNetwork struct {
	Meta
	Subnets []string
	// SharedAddresses are the addresses that all projects reach, with the namespace that may have each.
	SharedAddresses map[netip.Addr]string
	// Malformed is why its selectors can't be used, which admits nobody.
	Malformed  Malformed
	ReturnPath ReturnPath // empty: as the operator chose for all networks
	Uplink     *Uplink    // how nodes are on it themselves; nil: they are not
}

// Service is a request for a load balancer.
type Service struct {
	Meta
	// IsLoadBalancer: it is of type LoadBalancer. It may have been.
	IsLoadBalancer bool
	Class          string // loadBalancerClass
	// Where its address comes from: an EIp by name and namespace, or one of its own with this address, or on a network
	// of this type.
	EIp, EIpNamespace string
	Address           netip.Addr
	Type              string

	Ports           []Port
	SourceRanges    []netip.Prefix // from which clients may come; none: from anywhere
	AffinitySeconds int            // seconds for which a client keeps its backend; 0: it doesn't
	HealthCheck     *HealthCheck   // of backends; nil: none
	WantsBackend    bool           // it wants a Backend of Envoy Gateway
	Autodelete      bool           // it is to go when it stays without endpoints
	EgressByLBIP    bool           // its pods are to leave with its address
	// Endpoints are those that it has, in no particular order: at most MaxEndpoints. Left is how many more there are.
	Endpoints        []Endpoint
	OmittedEndpoints int
	// IdleSince is since when it has been without endpoints; zero: it has some, or nobody has looked yet.
	IdleSince time.Time
	// StatusAddress is the address in its status, and Marked says whether there is a status of ours.
	StatusAddress    netip.Addr
	HasManagedStatus bool
	Malformed
}

// Port is a port of a Service.
type Port struct {
	Name     string
	Protocol intent.Protocol
	Number   int
}

// MaxEndpoints is how many endpoints of a Service are read. A slice of 200 kB may have a billion, as addresses × ports,
// and whoever writes it would have the memory of everybody's controller. OVN itself is slow long before that.
const MaxEndpoints = 5000

// Endpoint is an address behind one port of a Service.
type Endpoint struct {
	PortName  string // by name
	Address   netip.Addr
	Number    int
	TargetPod string // the pod that it is, as whoever wrote the slice says; empty: none
	// Ready: it may get connections. Serving: it could, but is about to end.
	Ready, Serving bool
}

// HealthCheck is how backends are checked, in seconds and times.
type HealthCheck struct{ Interval, Timeout, Successes, Failures int }

// PodKey is the key of a pod: namespace/name.
func PodKey(namespace, name string) string { return namespace + "/" + name }

// ProjectShard is the shard of a Project: the name of its namespace, VPC, router and SNAT rule. One whose VPC would
// have a reserved name has a shard of its own, which no VPC can have, and is refused there.
func ProjectShard(organization, project string) string {
	if vpc := organization + "-" + project; !ownership.IsReservedVPC(vpc) {
		return vpc
	}
	return organization + "." + project
}
