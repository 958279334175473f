// Package logical is OVN's logical network as a value: routers, switches and their contents, as in the databases.
package logical

import (
	"net/netip"
	"strings"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Network is everything in the northbound database that affects packets, and its state in the southbound database.
// Lists are sorted by name, so that the same databases give the same value.
type Network struct {
	Routers  []Router
	Switches []Switch
	Groups   []PortGroup
	// Sets are the address sets by name, with their addresses as written there.
	Sets map[string][]string

	Chassis  []Chassis
	Learned  []MACBinding // learned by routers with ARP or ND
	Static   []MACBinding // Static_MAC_Binding
	Monitors []ServiceMonitor
	Progress ConfigProgress
	// Options are the options of NB_Global. Schemas are the versions of both schemas.
	Options map[string]string
	Schemas SchemaVersions
}

// NorthdVersionOption is the option of NB_Global in which ovn-northd writes its version, such as 24.09.2-20.37.0-77.4.
const NorthdVersionOption = "northd_internal_version"

// NorthdVersion returns the version of ovn-northd; empty if the database could not be read.
func (n *Network) NorthdVersion() string { return n.Options[NorthdVersionOption] }

// SchemaVersions are the versions of the database schemas. Empty: the database could not be read.
type SchemaVersions struct{ Northbound, Southbound string }

// ExternalIDs are the external_ids of a row.
type ExternalIDs map[string]string

// Owner returns the API object that one of our rows exists for. It is zero for rows of others.
func (ids ExternalIDs) Owner() state.Ref {
	parts := strings.SplitN(ids[ownership.RowOwnerKey], "/", 3)
	if len(parts) != 3 {
		return state.Ref{}
	}
	return state.Ref{Kind: parts[0], Namespace: parts[1], Name: parts[2]}
}

// Router is a logical router.
type Router struct {
	Name      string
	Disabled  bool
	Ports     []RouterPort
	Routes    []StaticRoute
	Policies  []RouterPolicy // highest priority first
	NATs      []NAT
	Balancers []LoadBalancer
	Options   map[string]string
	IDs       ExternalIDs
}

// RouterPort is a port of a router.
type RouterPort struct {
	Name     string
	MAC      string
	Networks []netip.Prefix // with the port's own addresses
	Peer     string         // the router port it is linked to; empty: a switch port names it
	Disabled bool
	Options  map[string]string
	// Chassis are those the port may be bound to, highest priority first; none: the port is distributed. Holder is the
	// one it is bound to.
	Chassis []string
	Holder  string
	IDs     ExternalIDs
}

// StaticRoute is a static route.
type StaticRoute struct {
	Table    string // empty: the main table
	Prefix   netip.Prefix
	BySource bool       // the prefix matches the source
	NextHop  netip.Addr // invalid: discard
	Output   string     // output port; empty: determined by the next hop
	Options  map[string]string
	IDs      ExternalIDs
}

// RouterPolicy is a router policy. OVN evaluates policies after the routing table, and they override it.
type RouterPolicy struct {
	Priority int
	Match    string
	Action   string // allow, drop or reroute
	NextHops []netip.Addr
	Options  map[string]string
	IDs      ExternalIDs
}

// NAT is a NAT rule.
type NAT struct {
	Type         string // dnat, snat or dnat_and_snat
	External     netip.Addr
	Logical      netip.Prefix
	Port         string // the gateway port; empty: OVN finds it by the external address
	LogicalPort  string // for distributed NAT: the port on whose chassis it is done
	ExternalMAC  string
	PortRange    string
	Match        string
	Priority     int
	Allowed      string // name of the address set of destinations that are translated
	Exempted     string // name of the address set of destinations that are not
	Options, IDs ExternalIDs
}

// LoadBalancer is a load balancer.
type LoadBalancer struct {
	Name     string
	Protocol string // tcp, udp or sctp; empty: tcp
	VIPs     []VIP
	Options  map[string]string
	Fields   []string          // packet fields that select the backend; none: the 5-tuple
	Mappings map[string]string // address of the backend → port, for health checks
	Checked  []string          // VIPs with a health check
	IDs      ExternalIDs
}

// VIPOwner returns the Service that a VIP of one of our load balancers exists for. It is zero for VIPs of others.
func (b LoadBalancer) VIPOwner(vip netip.AddrPort) state.Ref {
	if by, ok := intent.ParseServiceKey(b.IDs[ownership.RowVIPOwnerPrefix+vip.String()]); ok {
		return by
	}
	return b.IDs.Owner()
}

// VIP is an address of a load balancer with its backends. Port 0 means all ports.
type VIP struct {
	Address  netip.AddrPort
	Backends []netip.AddrPort
}

// Switch is a logical switch.
type Switch struct {
	Name      string
	Ports     []SwitchPort
	ACLs      []ACL
	QoS       []QoS
	Balancers []LoadBalancer
	Options   map[string]string // other_config
	IDs       ExternalIDs
}

// SwitchPort is a port of a switch.
type SwitchPort struct {
	Name      string
	Type      string // empty, router, localnet, …
	MAC       string
	Addresses []netip.Addr
	Unknown   bool     // it may have any address
	Security  []string // allowed source addresses; none: any
	Router    string   // for type router: the router port
	Localnet  string   // for type localnet: the physical network
	Tag       int      // VLAN; 0: none
	Disabled  bool
	Up        bool
	Options   map[string]string
	// Chassis is where the port is bound.
	Chassis string
	IDs     ExternalIDs
}

// PortGroup is a port group.
type PortGroup struct {
	Name  string
	Ports []string
	ACLs  []ACL
	IDs   ExternalIDs
}

// ACL is an ACL of a switch or a port group.
type ACL struct {
	Tier      int
	Priority  int
	Direction string // from-lport or to-lport
	Match     string
	Action    string
	Label     int
	Sampled   bool // allowed connections are sampled
	Name      string
	Options   map[string]string
	IDs       ExternalIDs
}

// QoS is a rule that sets the packet mark.
type QoS struct {
	Priority  int
	Direction string
	Match     string
	Action    map[string]int
	IDs       ExternalIDs
}

// Chassis is a node in OVN.
type Chassis struct {
	Name, Host string
	Encaps     []string // type and address
	Options    map[string]string
	// Seen is the nb_cfg that the chassis has applied; see Progress.
	Seen int
}

// MACBinding is a neighbour entry of a router port.
type MACBinding struct {
	Port    string
	Address netip.Addr
	MAC     string
}

// ServiceMonitor is the result of a health check: online, offline or error; empty: none yet.
type ServiceMonitor struct {
	Address  netip.AddrPort
	Protocol string
	Port     string
	Status   string
}

// ConfigProgress has the counters nb_cfg (requested), sb_cfg (translated by northd) and hv_cfg (applied by all
// chassis).
type ConfigProgress struct{ Asked, Translated, Done int }

// Router returns the router with a name, or nil.
func (n *Network) Router(name string) *Router {
	for i := range n.Routers {
		if n.Routers[i].Name == name {
			return &n.Routers[i]
		}
	}
	return nil
}

// Switch returns the switch with a name, or nil.
func (n *Network) Switch(name string) *Switch {
	for i := range n.Switches {
		if n.Switches[i].Name == name {
			return &n.Switches[i]
		}
	}
	return nil
}
