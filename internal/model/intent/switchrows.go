package intent

import (
	"fmt"
	"net/netip"

	"github.com/sallyport/sallyport/internal/model/state"
)

// Rows of return ports: the second connection between a router and a switch, for connections that arrived through a
// secondary network.

// LogicalSwitchPort is a switch port that leads to a router port.
type LogicalSwitchPort struct {
	Switch, Name string
	RouterPort   string
	// AnnounceNATAddresses: the router announces its addresses to the neighbours on the switch.
	AnnounceNATAddresses bool
}

// Key returns the port's name.
func (p LogicalSwitchPort) Key(router string) RowKey {
	return RowKey{"Logical_Switch_Port", router, p.Name}
}

// Equal compares all fields.
func (p LogicalSwitchPort) Equal(o Row) bool { return Row(p) == o }

func (p LogicalSwitchPort) String() string {
	if p.AnnounceNATAddresses {
		return p.Switch + " to " + p.RouterPort + ", announced"
	}
	return p.Switch + " to " + p.RouterPort
}

// RowOption is an option of a row that Kube-OVN created: a router, a port of a router or a port of a switch.
type RowOption struct {
	Table string
	Row   string // its name
	Name  string
	Value string
}

// LearnNeighboursOption makes a router learn a neighbour from an ARP request only if the request is for the router
// itself, or if the router knows the neighbour already. By default it learns from every request, and so each router on
// an external network would learn each address that any other announces.
func LearnNeighboursOption(router string) RowOption {
	return RowOption{"Logical_Router", router, "always_learn_from_arp_request", "false"}
}

// RouteTableOption selects the routing table for packets that enter a router through a port.
func RouteTableOption(port, table string) RowOption {
	return RowOption{"Logical_Router_Port", port, "route_table", table}
}

// NATAddressesOption makes the router behind a switch port announce its addresses to its neighbours when they are
// assigned.
func NATAddressesOption(port string) RowOption {
	return RowOption{"Logical_Switch_Port", port, "nat-addresses", "router"}
}

// Key returns the row's name and the option's.
func (o RowOption) Key(router string) RowKey {
	return RowKey{o.Table, router, o.Row + " options:" + o.Name}
}

// Equal compares all fields.
func (o RowOption) Equal(other Row) bool { return Row(o) == other }

func (o RowOption) String() string { return o.Value }

// RouterPortNetworks are the addresses and prefix lengths of a router port that Kube-OVN created. Kube-OVN sets them once,
// and does not update them when the OvnEip of the port gets another address; it knows nothing of IPv6. The intent contains
// them only while the port has others: the port belongs to Kube-OVN, and no part of it is ours.
type RouterPortNetworks struct {
	Port     string
	Networks string // as FormatNetworks returns them
}

// Key returns the port's name.
func (p RouterPortNetworks) Key(router string) RowKey {
	return RowKey{"Logical_Router_Port", router, p.Port + " networks"}
}

// Equal compares all fields.
func (p RouterPortNetworks) Equal(o Row) bool { return Row(p) == o }

func (p RouterPortNetworks) String() string { return p.Networks }

// LogicalRouterStaticRoute is a static route.
type LogicalRouterStaticRoute struct {
	RouteTable string // empty: the main table
	Prefix     netip.Prefix
	// NextHop is the next hop. Invalid: the destination is on-link.
	NextHop    netip.Addr
	OutputPort string
}

// Key returns table and prefix.
func (r LogicalRouterStaticRoute) Key(router string) RowKey {
	return RowKey{"Logical_Router_Static_Route", router, fmt.Sprintf("%q %s", r.RouteTable, r.Prefix)}
}

// Equal compares all fields.
func (r LogicalRouterStaticRoute) Equal(o Row) bool { return Row(r) == o }

func (r LogicalRouterStaticRoute) String() string {
	if !r.NextHop.IsValid() {
		return "out by " + r.OutputPort
	}
	return fmt.Sprintf("via %s out by %s", r.NextHop, r.OutputPort)
}

// QoS is a rule of a switch that sets the mark of packets that enter it.
type QoS struct {
	Switch   string
	Priority int
	Match    string
	Mark     int
}

// Key returns switch, priority and match.
func (m QoS) Key(router string) RowKey {
	return RowKey{"QoS", router, fmt.Sprintf("%s %d %s", m.Switch, m.Priority, m.Match)}
}

// Equal compares all fields.
func (m QoS) Equal(o Row) bool { return Row(m) == o }

func (m QoS) String() string { return fmt.Sprintf("mark=%d", m.Mark) }

// PortGroup applies ACLs to the switches of its ports. Kube-OVN removes ACLs that are written to a switch directly.
type PortGroup struct {
	Name  string
	Ports string // separated by spaces, sorted
}

// Key returns the group's name.
func (g PortGroup) Key(router string) RowKey { return RowKey{"Port_Group", router, g.Name} }

// Equal compares all fields.
func (g PortGroup) Equal(o Row) bool { return Row(g) == o }

func (g PortGroup) String() string { return g.Ports }

// AddressSet is a named set of addresses for use in matches.
type AddressSet struct {
	Name      string
	Addresses string // separated by spaces, sorted
}

// Key returns the set's name.
func (a AddressSet) Key(router string) RowKey { return RowKey{"Address_Set", router, a.Name} }

// Equal compares all fields.
func (a AddressSet) Equal(o Row) bool { return Row(a) == o }

func (a AddressSet) String() string { return "{" + a.Addresses + "}" }

// AddressSetMember is whether an address is in an address set. It changes one entry of a set that may have many
// thousands. Like this, all entries of a change are written at once, those that come and those that go.
type AddressSetMember struct {
	Set     string
	Address netip.Addr
	IsIn    bool
}

// Key returns the set and the address.
func (m AddressSetMember) Key(router string) RowKey {
	return RowKey{"Address_Set addresses", router, m.Set + " " + m.Address.String()}
}

// Equal compares all fields.
func (m AddressSetMember) Equal(o Row) bool { return Row(m) == o }

func (m AddressSetMember) String() string {
	if m.IsIn {
		return "in"
	}
	return "out"
}

// ACL is an ACL of a port group.
type ACL struct {
	PortGroup      string
	Direction      Direction
	Tier, Priority int
	Match          string
	Action         string
	Label          int // of the connection; 0: none
}

// Direction is the direction of the packets an ACL applies to.
type Direction string

// The directions in OVN's notation.
const (
	FromLport Direction = "from-lport"
	ToLport   Direction = "to-lport"
)

// Key returns group, tier, priority and match.
func (r ACL) Key(router string) RowKey {
	return RowKey{"ACL", router, fmt.Sprintf("%s %d %d %s", r.PortGroup, r.Tier, r.Priority, r.Match)}
}

// Equal compares all fields.
func (r ACL) Equal(o Row) bool { return Row(r) == o }

func (r ACL) String() string {
	if r.Label == 0 {
		return r.Action
	}
	return fmt.Sprintf("%s label=%d", r.Action, r.Label)
}

// IsolationRef returns the origin of the rows that drop packets of misplaced pods.
func IsolationRef(shard string) state.Ref {
	return state.Ref{Kind: "Isolation", Namespace: shard, Name: "pods"}
}
