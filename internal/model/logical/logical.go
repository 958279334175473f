// Package logical is OVN's logical network as a value: routers, switches and what is on them, as the databases have it.
package logical

import (
	"net/netip"
	"strings"

	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Network is everything of the northbound database that decides about a packet, and what the southbound database says
// of it. Lists are sorted by name, so that the same databases give the same value.
type Network struct {
	Routers  []Router
	Switches []Switch
	Groups   []PortGroup
	// Sets are the address sets, by name, with their addresses as they are written there.
	Sets map[string][]string

	Chassis  []Chassis
	Learned  []MACBinding // what routers have learned by asking
	Static   []MACBinding // and what they were told
	Monitors []ServiceMonitor
	Progress ConfigProgress
	// Options are those of the whole database, and Schemas the versions of both.
	Options map[string]string
	Schemas SchemaVersions
}

// SchemaVersions are the versions of the databases' schemas; empty: the database could not be read.
type SchemaVersions struct{ Northbound, Southbound string }

// ExternalIDs are the external_ids of a row.
type ExternalIDs map[string]string

// Owner is the API object that a row of ours exists for; nobody when it is somebody else's.
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
	Policies  []RouterPolicy // the highest priority first
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
	Peer     string         // the router port that it is linked with; empty: a switch port names it
	Disabled bool
	Options  map[string]string
	// Chassis may hold the port, the first first; none: it is everywhere. Holder is the one that does.
	Chassis []string
	Holder  string
	IDs     ExternalIDs
}

// StaticRoute is a static route.
type StaticRoute struct {
	Table    string // empty: the main one
	Prefix   netip.Prefix
	BySource bool       // the prefix is of the packet's source
	NextHop  netip.Addr // invalid: discard
	Output   string     // port; empty: by the next hop
	Options  map[string]string
	IDs      ExternalIDs
}

// RouterPolicy is a router policy. It is looked at after the routing table and overrules it.
type RouterPolicy struct {
	Priority int
	Match    string
	Action   string // allow, drop or reroute
	NextHops []netip.Addr
	Options  map[string]string
	IDs      ExternalIDs
}

// NAT is an address translation.
type NAT struct {
	Type         string // dnat, snat or dnat_and_snat
	External     netip.Addr
	Logical      netip.Prefix
	Port         string // the gateway port that it is on; empty: OVN finds it by the external address
	LogicalPort  string // of a translation that is done where this port is
	ExternalMAC  string
	PortRange    string
	Match        string
	Priority     int
	Allowed      string // name of the address set of destinations that are translated
	Exempted     string // name of the address set of those that are not
	Options, IDs ExternalIDs
}

// LoadBalancer is a load balancer.
type LoadBalancer struct {
	Name     string
	Protocol string // tcp, udp or sctp; empty: tcp
	VIPs     []VIP
	Options  map[string]string
	Fields   []string          // of a packet that choose the backend; none: its five
	Mappings map[string]string // backend's address → port, for health checks
	Checked  []string          // addresses that have a health check
	IDs      ExternalIDs
}

// VIP is an address of a load balancer, and where its connections go. Port 0 is every port.
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
	Security  []string // what may be sent from it; none: anything
	Router    string   // of type router: the router's port
	Localnet  string   // of type localnet: the physical network
	Tag       int      // VLAN; 0: none
	Disabled  bool
	Up        bool
	Options   map[string]string
	// Chassis is where the port is.
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

// ACL is a rule of a switch or a port group.
type ACL struct {
	Tier      int
	Priority  int
	Direction string // from-lport or to-lport
	Match     string
	Action    string
	Label     int
	Sampled   bool // connections that it allows are sampled
	Name      string
	Options   map[string]string
	IDs       ExternalIDs
}

// QoS is a rule that marks packets.
type QoS struct {
	Priority  int
	Direction string
	Match     string
	Action    map[string]int
	IDs       ExternalIDs
}

// Chassis is a node as OVN sees it.
type Chassis struct {
	Name, Host string
	Encaps     []string // type and address
	Options    map[string]string
	// Seen is the last change of the logical network that it has carried out; see Progress.
	Seen int
}

// MACBinding is the MAC address of an address behind a router port.
type MACBinding struct {
	Port    string
	Address netip.Addr
	MAC     string
}

// ServiceMonitor is what a health check says of a backend: online, offline or error; empty: nothing yet.
type ServiceMonitor struct {
	Address  netip.AddrPort
	Protocol string
	Port     string
	Status   string
}

// ConfigProgress counts changes of the logical network that somebody waits for: how many were asked for, northd has
// translated, and all chassis have carried out.
type ConfigProgress struct{ Asked, Translated, Done int }

// Router is the router of a name.
func (n *Network) Router(name string) *Router {
	for i := range n.Routers {
		if n.Routers[i].Name == name {
			return &n.Routers[i]
		}
	}
	return nil
}

// Switch is the switch of a name.
func (n *Network) Switch(name string) *Switch {
	for i := range n.Switches {
		if n.Switches[i].Name == name {
			return &n.Switches[i]
		}
	}
	return nil
}
