// Package snapshot is the input of compile as a value: everything that determines one shard, parsed, and nothing else.
package snapshot

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"go4.org/netipx"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// VpcInput is the input of compile.Shard: everything that determines one VPC. Lists are in no particular order; compile
// sorts where order matters.
type VpcInput struct {
	// Shard is the name of the VPC, of its router and of its namespace.
	Shard  string
	Config Config
	Now    time.Time

	// Projects are the Projects whose names give this shard. More than one is a name clash.
	Projects []Project
	// Organizations are those of the Projects, by namespace.
	Organizations map[string]Organization
	// Management is set if the shard is the management VPC, which has no Project.
	Management *Management

	Namespace Namespace
	EIps      []EIp
	FIps      []FIp
	// Services are the Services of type LoadBalancer, and those that were.
	Services []Service

	// BackendCRDMissing: the CRD of Envoy Gateway's Backend is not installed.
	BackendCRDMissing bool
	// ExternalSubnets are the subnets of all external networks.
	ExternalSubnets []ExternalSubnet
	// PlatformPrefixes are the prefixes of the management VPC and the nodes' addresses, present only while the Project
	// is new.
	PlatformPrefixes []PrefixClaim
	// Pods and VMs are the targets that the shard's FIps name, and all pods where endpoints are checked against them.
	// An absent one does not exist. The key of both is PodKey.
	Pods map[string][]netip.Addr
	VMs  map[string][]intent.VMInterface

	// Selections are the EgressIPs that select pods of the shard, and PodAddresses the addresses of all pods of which it
	// is known whether they are selected, present only if there are Selections. In the management VPC, EgressPods are the
	// pods that both follow from.
	Selections   []Selection
	PodAddresses []netip.Addr
	EgressPods   *EgressPods

	// EgressServices and EgressRoutes redirect pods of the shard to other networks or source addresses.
	EgressServices []EgressService
	EgressRoutes   []EgressRoute

	// Engine is the state of the shard's Kube-OVN objects.
	Engine Engine
	// AddressOwners are the OvnEips that have the addresses requested by the shard's EIps.
	AddressOwners map[netip.Addr]AddressOwner
	// IPv6Owners are the EIps of all shards by the IPv6 address in their status, present only if the shard has EIps of
	// that family. Of several with one address, the oldest.
	IPv6Owners map[netip.Addr]Meta
}

// Config is the operator's configuration for all projects.
type Config struct {
	// DefaultEIpType and DefaultFIpType are the network types of EIps and FIps that name none; empty: the type of the
	// default external network.
	DefaultEIpType, DefaultFIpType string
	// DefaultServiceType is the network type of load balancers that name none; empty: as for EIps.
	DefaultServiceType string
	// Quotas are the default limits.
	Quotas Quotas
	// AutodeleteAfter is how long a Service with autodelete may be without endpoints before it is deleted.
	AutodeleteAfter time.Duration
	// ClasslessServices determines which Services without a loadBalancerClass Sallyport serves.
	ClasslessServices ClasslessPolicy
	// ManagementNetworkType is the type of the network whose hosts pods of the management VPC can reach; empty: none.
	ManagementNetworkType string
	// DefaultReturnPath is the return path mode of networks that do not set one.
	DefaultReturnPath ReturnPath
	// BFDInterval is the interval of BFD packets between nodes that hold addresses; 0: OVN's default.
	BFDInterval time.Duration
	// RebalanceInterval is the minimum time between moves of egress addresses to nodes that hold fewer, without a
	// request; 0: no such moves.
	RebalanceInterval time.Duration
	// ClusterPrefixes are the prefixes of the cluster's pods and Services.
	ClusterPrefixes PrefixList
	// Isolation is the handling of misplaced pods.
	Isolation Isolation
	// TrustedNamespaces are namespaces whose pods may be on the switch of any project.
	TrustedNamespaces NamespaceList
	// AttachmentNamespaces are namespaces whose NetworkAttachmentDefinitions pods of all namespaces may use.
	AttachmentNamespaces NamespaceList
}

// NamespaceList is a list of namespaces as a flag value.
type NamespaceList []string

// namespacePattern matches valid names of namespaces.
var namespacePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Set parses a comma-separated list.
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

// String formats the list as Set parses it.
func (l *NamespaceList) String() string { return strings.Join(*l, ",") }

// Type implements pflag.Value.
func (*NamespaceList) Type() string { return "namespaces" }

// Isolation is the handling of packets of misplaced pods. Both choices report such pods.
type Isolation string

// The choices. The empty value means the first.
const (
	IsolationEnforce Isolation = "Enforce" // drop packets
	IsolationReport  Isolation = "Report"  // do not drop packets
)

// Set implements pflag.Value.
func (i *Isolation) Set(text string) error {
	if *i = Isolation(text); *i != IsolationEnforce && *i != IsolationReport {
		return fmt.Errorf("%q: use %s or %s", text, IsolationEnforce, IsolationReport)
	}
	return nil
}

// String implements pflag.Value.
func (i *Isolation) String() string { return string(cmp.Or(*i, IsolationEnforce)) }

// Type implements pflag.Value.
func (i *Isolation) Type() string { return "isolation" }

// PrefixList is a list of prefixes as a flag value.
type PrefixList []netip.Prefix

// Set parses a comma-separated list.
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

// String formats the list as Set parses it.
func (l *PrefixList) String() string {
	var out []string
	for _, p := range *l {
		out = append(out, p.String())
	}
	return strings.Join(out, ",")
}

// Type implements pflag.Value.
func (*PrefixList) Type() string { return "prefixes" }

// ReturnPath is how replies are routed back to the network that a connection arrived on.
type ReturnPath string

// The modes. The empty value means the first.
const (
	ReturnByConnection ReturnPath = "Connection"
	ReturnBySource     ReturnPath = "Source"
)

// Set implements pflag.Value.
func (r *ReturnPath) Set(text string) error {
	if *r = ReturnPath(text); *r != ReturnByConnection && *r != ReturnBySource {
		return fmt.Errorf("%q: use %s or %s", text, ReturnByConnection, ReturnBySource)
	}
	return nil
}

// String implements pflag.Value.
func (r *ReturnPath) String() string { return string(cmp.Or(*r, ReturnByConnection)) }

// Type implements pflag.Value.
func (r *ReturnPath) Type() string { return "way" }

// ClasslessPolicy determines which Services without a loadBalancerClass Sallyport serves.
type ClasslessPolicy string

// The choices. The empty value means the first: in the management VPC another controller may serve them, as in clusters
// that existed before Sallyport was installed.
const (
	ClasslessInProjects ClasslessPolicy = "projects"
	ClasslessEverywhere ClasslessPolicy = "everywhere"
	ClasslessNowhere    ClasslessPolicy = "nowhere"
)

// Set implements pflag.Value.
func (c *ClasslessPolicy) Set(text string) error {
	if *c = ClasslessPolicy(text); *c != ClasslessInProjects && *c != ClasslessEverywhere && *c != ClasslessNowhere {
		return fmt.Errorf("%q: use %s, %s or %s", text, ClasslessInProjects, ClasslessEverywhere, ClasslessNowhere)
	}
	return nil
}

// OwnsService reports whether Sallyport serves a Service of type LoadBalancer, by its loadBalancerClass and its VPC:
// known means a project's or the management VPC. In a namespace of an unknown VPC, only Services with Sallyport's class
// are served.
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

// String implements pflag.Value.
func (c *ClasslessPolicy) String() string { return string(cmp.Or(*c, ClasslessInProjects)) }

// Type implements pflag.Value.
func (c *ClasslessPolicy) Type() string { return "where" }

// Management is Kube-OVN's default VPC. Pods of any namespace without a Subnet of its own are in it.
type Management struct {
	Prefixes []netip.Prefix // of its pods
	Gateways []netip.Addr   // of the prefixes
	// GatewayChassis are the chassis of nodes that may hold gateways, in order, and CurrentChassis those configured at
	// present.
	GatewayChassis, CurrentChassis []string
	// ConnectedByKubeOVN are the external subnets to which Kube-OVN itself has connected it.
	ConnectedByKubeOVN map[string]bool
	// TerminatingNamespaces are its namespaces that are being deleted, and NamespaceQuotas their limits of EIps.
	TerminatingNamespaces map[string]bool
	NamespaceQuotas       map[string]Limit
	// HasForeignSNAT: an SNAT that the controller did not create already translates packets that leave it.
	HasForeignSNAT bool
	// Subnets are its other Subnets with pods, and JoinPrefixes those of the Subnet between nodes and pods.
	Subnets      []PodSubnet
	JoinPrefixes []netip.Prefix
	// NodeAddresses are the names of nodes by their addresses, and HostPods the addresses and declared ports of the pods
	// on the network of their node, by namespace.
	NodeAddresses map[netip.Addr]string
	HostPods      map[string]map[netip.AddrPort]bool
	// InsidePrefixes are the prefixes of its Subnets, including the one that joins the nodes, and the addresses of
	// nodes. They are read if EgressIPs select its pods, or FIps their outbound connections.
	InsidePrefixes []netip.Prefix
	// PortAddresses are the addresses of the pods' switch ports in namespaces with FIps, by namespace. Users can't write
	// ports.
	PortAddresses map[string]map[netip.Addr]bool
}

// PodSubnet is a Subnet of the management VPC besides the default one.
type PodSubnet struct {
	Name     string
	Prefixes []netip.Prefix
	Gateways []netip.Addr
	// UsedIPRanges are the addresses that pods have.
	UsedIPRanges []AddressRange
}

// UsedAtEnd returns the addresses that pods have among the last ones of the Subnet.
func (s PodSubnet) UsedAtEnd(count int) (out []netip.Addr) {
	for _, within := range s.Prefixes {
		a := netipx.PrefixLastIP(within)
		for range count {
			if slices.ContainsFunc(s.UsedIPRanges, func(r AddressRange) bool { return r.Contains(a) }) {
				out = append(out, a)
			}
			a = a.Prev()
		}
	}
	return out
}

// Meta is the common metadata of API objects.
type Meta struct {
	Namespace, Name, UID string
	Generation           int64
	Created              time.Time
	Deleting             bool
	// DeletedAt is when it was deleted.
	DeletedAt time.Time
}

// IsEarlier reports whether an object is older than another; of the same age, the first by name.
func (m Meta) IsEarlier(than Meta) bool {
	return cmp.Or(m.Created.Compare(than.Created), strings.Compare(m.Namespace, than.Namespace),
		strings.Compare(m.Name, than.Name)) < 0
}

// Project is a tenant's request for a VPC.
type Project struct {
	Meta
	Prefixes    []netip.Prefix // prefixes of the pods: one, or one of each family
	Gateways    []netip.Addr   // gateways in the prefixes; default: the first address
	NetworkType string         // type of the default network
	EIpQuota    Limit
	Accepted    bool // according to its status
	// IngressAllowList restricts who outside may connect to the project's external addresses, EgressAllowList whom its
	// pods may connect to.
	IngressAllowList, EgressAllowList AllowList
	Malformed
}

// EIp is a request for an external address.
type EIp struct {
	Meta
	Type           string          // network type
	Network        string          // network name
	ExistingOvnEip string          // spec.childRef: an existing OvnEip
	Family         ipfamily.Family // of its address; zero: IPv4
	Address        netip.Addr      // requested address; invalid: any
	// SharedWith are the other namespaces whose Services may bind to it.
	SharedWith []string
	// StatusAddress is the address in its status: the one it had before its OvnEip was deleted. Accepted is the
	// condition in its status.
	StatusAddress netip.Addr
	Accepted      bool
	Malformed
}

// FIp is a request for a floating IP.
type FIp struct {
	Meta
	EIp  string // name of the EIp
	Type string // or the network type of an EIp of its own
	// Exactly one of these is set.
	Address       netip.Addr
	Pod           string
	VM, Interface string
	Family        ipfamily.Family // of an EIp of its own; zero: IPv4
	Outbound      bool            // connections of the target use the address as well
	Malformed
}

// Malformed is the reason why a field could not be parsed; empty: none.
type Malformed string

// PrefixClaim is a prefix and its owner.
type PrefixClaim struct {
	Prefix netip.Prefix
	Owner  string
}

// Namespace is the state of the project's namespace.
type Namespace struct {
	Exists, Owned, Deleting bool
	Quota                   Limit // of EIps, if the Project sets none
	// PodSubnet is the Subnet from which Kube-OVN assigns addresses to pods; empty: not set yet.
	PodSubnet string
	// RemainingContent is what blocks its deletion, according to Kubernetes.
	RemainingContent string
}

// ExternalSubnet is one subnet of an external network.
type ExternalSubnet struct {
	Subnet  string
	Network string // name of the ExternalNetwork, or of the subnet itself
	Type    string
	Default bool
	Ready   bool
	Prefix  netip.Prefix
	Gateway netip.Addr // of the prefix's family
	// Unsupported: it has a prefix of a family that Kube-OVN can't connect a VPC to, and perhaps no other.
	Unsupported bool
	// Second is the same wire in IPv6, whose addresses Sallyport assigns; nil: it has none. It has the same names and the
	// same port of the router. Pool is the part of it from which EIps get addresses.
	Second *ExternalSubnet
	Pool   netip.Prefix
	Free   int
	Used   int
	// ReservedRanges are the addresses reserved for other hosts on the wire: spec.excludeIps of the Subnet, which
	// includes the gateway's.
	ReservedRanges []AddressRange
	// Isolated: projects can't reach each other's addresses on it.
	Isolated bool
	// SharedAddresses are exceptions that all projects can reach, with the namespace that may have each.
	SharedAddresses map[netip.Addr]string
	// ReturnPath is the return path mode; empty: the operator's default.
	ReturnPath ReturnPath
	// Admitted are the namespaces and Projects that may use it, as far as the shard needs to know; nil: everybody.
	Admitted Admitted
}

// Family returns the family of the subnet's addresses.
func (x *ExternalSubnet) Family() ipfamily.Family { return ipfamily.Of(x.Prefix.Addr()) }

// IsReserved reports whether an address is in a reserved range.
func (x *ExternalSubnet) IsReserved(a netip.Addr) bool {
	return slices.ContainsFunc(x.ReservedRanges, func(r AddressRange) bool { return r.Contains(a) })
}

// GrantsAddress reports whether a namespace may have a shared, reserved address.
func (x *ExternalSubnet) GrantsAddress(a netip.Addr, namespace string) bool {
	return namespace != "" && x.SharedAddresses[a] == namespace
}

// VIP is what OVN has of a VIP: its Service as namespace/name, and the ID of its load balancer.
type VIP struct{ Service, LoadBalancer string }

// Engine is the state of the shard's Kube-OVN objects and OVN rows.
type Engine struct {
	Vpc    Vpc
	Subnet ObjectState
	// ForeignVpc, ForeignSubnet: there is one of this name that belongs to others.
	ForeignVpc, ForeignSubnet bool

	OvnEips map[string]OvnEip // of the shard, and those in childRef of its EIps
	OvnFips map[string]OvnFip
	// ForeignOvnFips are OvnFips of others with a name that the shard would use.
	ForeignOvnFips map[string]bool
	SnatRule       OvnSnatRule
	// RouterPorts are the names of the router's ports in the OVN northbound database; nil: there is no router.
	RouterPorts map[string]bool
	// OrphanedSince is when the router was first seen without its Vpc; zero: it has one, or does not exist.
	OrphanedSince time.Time
	// PortNetworks are the networks of the ports that Kube-OVN created, by name, and as OVN has them.
	PortNetworks map[string]string
	// Leftovers are the names of rows that Kube-OVN creates for a VPC besides the router and does not remove with it.
	Leftovers []string
	// UsedIPs is the number of addresses of the project's subnet in use by pods, and UsedIPRanges the addresses.
	UsedIPs      int
	UsedIPRanges []AddressRange
	// ReturnPorts are the addresses of the return ports, by name.
	ReturnPorts map[string]netip.Addr
	// VIPs are the VIPs of the current load balancers, by protocol, address and port (intent.FormatVIP).
	VIPs map[string]VIP
	// MissingCapabilities is what OVN lacks for returnPath Connection; empty: nothing.
	MissingCapabilities string
	// OwnedObjects are all objects in this shard that the controller created. They have to be gone before a finalizer
	// is removed.
	OwnedObjects map[intent.ObjectKey]bool
	// MisplacedPorts are the ports of other namespaces' pods on the shard's switch, and those of its own pods on other
	// switches.
	MisplacedPorts []PodPort
}

// PodPort is the switch port of a pod or virtual machine.
type PodPort struct {
	Name           string
	Namespace, Pod string
	Subnet         string // the switch of the port
	// Addresses are those that Kube-OVN has assigned.
	Addresses []netip.Addr
	// Project is the shard that the Subnet belongs to; empty: none.
	Project string
	// Allowed: the operator allows pods of the namespace on the Subnet.
	Allowed bool
	// AttachmentNamespace is the namespace of the NetworkAttachmentDefinition of the Subnet; empty: none.
	AttachmentNamespace string
}

// AddressRange is a range of addresses, both ends included.
type AddressRange struct{ First, Last netip.Addr }

// Contains reports whether an address is in the range.
func (r AddressRange) Contains(a netip.Addr) bool {
	return r.First.Compare(a) <= 0 && a.Compare(r.Last) <= 0
}

// ObjectState is the state of a Kube-OVN object.
type ObjectState struct {
	Exists, Ready, Deleting bool
	// DeletedAt is when it was deleted.
	DeletedAt time.Time
}

// Vpc is the state of a Vpc.
type Vpc struct {
	ObjectState
	// LastEditedAt is when the controller last changed a list of it.
	LastEditedAt time.Time
	// RequestedSubnets are the external subnets in its spec, AttachedSubnets those that its status lists as connected,
	// and StatusWrittenAt is when Kube-OVN last wrote the status.
	RequestedSubnets, AttachedSubnets map[string]bool
	StatusWrittenAt                   time.Time
}

// OvnEip is the state of an OvnEip.
type OvnEip struct {
	ObjectState
	Owned            bool      // belongs to this shard
	Adopted          bool      // and was created by Kube-OVN itself, with an arbitrary address
	Origin           state.Ref // the object that requested it; zero: unknown
	Subnet           string
	Type             string
	Address          netip.Addr
	RequestedAddress netip.Addr // address in its spec; invalid: any
	// FailedWithoutAddress: it will never get an address. Kube-OVN reports it as ready with an empty address, or was
	// about to assign an address that another one has by now, or has missed it.
	FailedWithoutAddress bool
}

// OvnFip is the state of an OvnFip.
type OvnFip struct {
	ObjectState
	OvnEip     string
	ExternalIP netip.Addr
	TargetIP   netip.Addr
	// Stuck: Kube-OVN will never apply it. It has to be deleted and recreated.
	Stuck  bool
	Origin state.Ref // the FIp that requested it; zero: unknown
}

// OvnSnatRule is the state of the project's SNAT rule.
type OvnSnatRule struct {
	ObjectState
	Name           string
	OvnEip         string
	ExternalIP     netip.Addr
	InternalPrefix netip.Prefix // source prefix that is translated
	// Stuck: Kube-OVN will never apply it. It has to be deleted and recreated.
	Stuck bool
}

// AddressOwner is the OvnEip that has an address.
type AddressOwner struct {
	OvnEip string
	Shard  string // empty: not created by the controller
}

// NetworkInput is the input of compile.Networks: everything that determines the verdicts on ExternalNetworks.
type NetworkInput struct {
	ExternalNetworks []ExternalNetwork
	ExternalSubnets  map[string]ExternalSubnet
	// LabelledSubnets are the Subnets whose label makes them an external network.
	LabelledSubnets []LabelledSubnet
	// DefaultReturnPath is the return path mode of networks that do not set one, and MissingCapabilities what OVN lacks
	// for returnPath Connection.
	DefaultReturnPath   ReturnPath
	MissingCapabilities string
	// NodePaths are the existing NodePaths, by node, and ClusterPrefixes the prefixes of pods and Services.
	NodePaths       map[string]NodePathStatus
	ClusterPrefixes []netip.Prefix
}

// LabelledSubnet is a Subnet whose label makes it an external network.
type LabelledSubnet struct {
	Name, Type string
	Default    bool
}

// ExternalNetwork is an operator's request for an external network.
type ExternalNetwork struct {
	Meta
	// Generated: the controller created it from a labelled Subnet, and nobody has changed its spec.
	Generated bool
	Subnets   []string
	// SharedAddresses are the addresses that all projects can reach, with the namespace that may have each.
	SharedAddresses map[netip.Addr]string
	// Malformed is the reason why its selectors are invalid; then it admits nobody.
	Malformed  Malformed
	ReturnPath ReturnPath    // empty: the operator's default
	Second     *SecondPrefix // of the wire, in IPv6; nil: none
	Uplink     *Uplink       // how nodes are attached to it; nil: they are not
}

// Service is a request for a load balancer.
type Service struct {
	Meta
	// IsLoadBalancer: it is of type LoadBalancer now. Other Services in the snapshot were.
	IsLoadBalancer bool
	Class          string // loadBalancerClass
	// The source of its address: an EIp by name and namespace, or an EIp of its own with this address, or on a network
	// of this type.
	EIp, EIpNamespace string
	Address           netip.Addr
	Type              string

	// Families are those of the addresses it asks for, the preferred one first; empty: IPv4. NeedsAll: it must have all.
	Families []ipfamily.Family
	NeedsAll bool

	Ports           []Port
	SourceRanges    []netip.Prefix // allowed client prefixes; none: any
	AffinitySeconds int            // session affinity timeout; 0: no affinity
	HealthCheck     *HealthCheck   // nil: none
	WantsBackend    bool           // requests a Backend of Envoy Gateway
	Autodelete      bool           // delete it when it has been without endpoints for some time
	EgressByLBIP    bool           // its address is the source address of its pods
	// Endpoints are in no particular order, at most MaxEndpoints. OmittedEndpoints is the number of further ones.
	Endpoints        []Endpoint
	OmittedEndpoints int
	// IdleSince is when it lost its last endpoint; zero: it has some, or this was not checked yet.
	IdleSince time.Time
	// StatusAddresses are the addresses in its status, and HasManagedStatus whether the controller wrote the status.
	StatusAddresses  []netip.Addr
	HasManagedStatus bool
	Malformed
}

// Port is a port of a Service.
type Port struct {
	Name     string
	Protocol intent.Protocol
	Number   int
}

// MaxEndpoints is the maximum number of endpoints of a Service that are read. An EndpointSlice of 200 kB may have a
// billion, as addresses × ports, and could exhaust the memory of the controller that all tenants share. OVN itself is
// slow long before that.
const MaxEndpoints = 5000

// Endpoint is an address behind one port of a Service.
type Endpoint struct {
	PortName  string
	Address   netip.Addr
	Number    int
	TargetPod string // pod name according to the EndpointSlice, unverified; empty: none
	// Ready: it may get connections. Serving: it can, but is terminating.
	Ready, Serving bool
}

// HealthCheck is the health check of backends, in seconds and numbers of checks.
type HealthCheck struct{ Interval, Timeout, Successes, Failures int }

// PodKey returns the key of a pod: namespace/name.
func PodKey(namespace, name string) string { return namespace + "/" + name }

// ProjectShard returns the shard of a Project: the name of its namespace, VPC, router and SNAT rule. A Project whose
// VPC would have a reserved name gets a shard name that no VPC can have, and is refused there.
func ProjectShard(organization, project string) string {
	if vpc := organization + "-" + project; !ownership.IsReservedVPC(vpc) {
		return vpc
	}
	return organization + "." + project
}
