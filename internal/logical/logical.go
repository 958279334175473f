// Package logical is OVN's logical network as a value: routers, switches and what is on them, as the databases have it.
package logical

import (
	"net/netip"
	"strings"

	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/state"
)

// Network is everything of the northbound database that decides about a packet, and what the southbound database says of it. Lists are sorted
// by name, so that the same databases give the same value.
type Network struct {
	Routers  []Router
	Switches []Switch
	Groups   []Group
	// Sets are the address sets, by name, with their addresses as they are written there.
	Sets map[string][]string

	Chassis  []Chassis
	Learned  []Neighbour // what routers have learned by asking
	Static   []Neighbour // and what they were told
	Monitors []Monitor
	Progress Progress
	// Options are those of the whole database, and Schemas the versions of both.
	Options map[string]string
	Schemas Schemas
}

// Schemas are the versions of the databases' schemas; empty: the database could not be read.
type Schemas struct{ Northbound, Southbound string }

// IDs are the external_ids of a row.
type IDs map[string]string

// Owner is the API object that a row of ours exists for; nobody when it is somebody else's.
func (ids IDs) Owner() state.Ref {
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
	Routes    []Route
	Policies  []Policy // the highest priority first
	NATs      []NAT
	Balancers []Balancer
	Options   map[string]string
	IDs       IDs
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
	IDs     IDs
}

// Route is a static route.
type Route struct {
	Table    string // empty: the main one
	Prefix   netip.Prefix
	BySource bool       // the prefix is of the packet's source
	NextHop  netip.Addr // invalid: discard
	Output   string     // port; empty: by the next hop
	Options  map[string]string
	IDs      IDs
}

// Policy is a router policy. It is looked at after the routing table and overrules it.
type Policy struct {
	Priority int
	Match    string
	Action   string // allow, drop or reroute
	NextHops []netip.Addr
	Options  map[string]string
	IDs      IDs
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
	Options, IDs IDs
}

// Balancer is a load balancer.
type Balancer struct {
	Name     string
	Protocol string // tcp, udp or sctp; empty: tcp
	VIPs     []VIP
	Options  map[string]string
	Fields   []string          // of a packet that choose the backend; none: its five
	Mappings map[string]string // backend's address → port, for health checks
	Checked  []string          // addresses that have a health check
	IDs      IDs
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
	Balancers []Balancer
	Options   map[string]string // other_config
	IDs       IDs
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
	IDs     IDs
}

// Group is a port group.
type Group struct {
	Name  string
	Ports []string
	ACLs  []ACL
	IDs   IDs
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
	IDs       IDs
}

// QoS is a rule that marks packets.
type QoS struct {
	Priority  int
	Direction string
	Match     string
	Action    map[string]int
	IDs       IDs
}

// Chassis is a node as OVN sees it.
type Chassis struct {
	Name, Host string
	Encaps     []string // type and address
	Options    map[string]string
	// Seen is the last change of the logical network that it has carried out; see Progress.
	Seen int
}

// Neighbour is the MAC address of an address behind a router port.
type Neighbour struct {
	Port    string
	Address netip.Addr
	MAC     string
}

// Monitor is what a health check says of a backend: online, offline or error; empty: nothing yet.
type Monitor struct {
	Address  netip.AddrPort
	Protocol string
	Port     string
	Status   string
}

// Progress counts changes of the logical network that somebody waits for: how many were asked for, northd has translated, and all chassis
// have carried out.
type Progress struct{ Asked, Translated, Done int }

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
