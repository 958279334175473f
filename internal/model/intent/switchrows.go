package intent

import (
	"fmt"
	"net/netip"

	"github.com/sallyport/sallyport/internal/model/state"
)

// The rows of a leg: the second way between a router and a switch, for what came in by a network that is not the
// default.

// LogicalSwitchPort is the port by which a switch leads to a port of a router.
type LogicalSwitchPort struct {
	Switch, Name string
	RouterPort   string
	// AnnounceNATAddresses: the router tells its neighbours on the switch where its addresses are.
	AnnounceNATAddresses bool
}

// Key is the port's name.
func (p LogicalSwitchPort) Key(router string) RowKey {
	return RowKey{"Logical_Switch_Port", router, p.Name}
}

// Equal compares all.
func (p LogicalSwitchPort) Equal(o Row) bool { return Row(p) == o }

func (p LogicalSwitchPort) String() string {
	if p.AnnounceNATAddresses {
		return p.Switch + " to " + p.RouterPort + ", announced"
	}
	return p.Switch + " to " + p.RouterPort
}

// PortOption is one of the options of a port that Kube-OVN made.
type PortOption struct {
	Table string // of the port: a router's, or a switch's
	Port  string
	Name  string
	Value string
}

// RouteTableOption is the routing table for what comes in by a router port.
func RouteTableOption(port, table string) PortOption {
	return PortOption{"Logical_Router_Port", port, "route_table", table}
}

// NATAddressesOption is that the router behind a switch port tells its neighbours where its addresses are, as soon as
// it has them.
func NATAddressesOption(port string) PortOption {
	return PortOption{"Logical_Switch_Port", port, "nat-addresses", "router"}
}

// Key is the port's name and the option's.
func (o PortOption) Key(router string) RowKey {
	return RowKey{o.Table, router, o.Port + " options:" + o.Name}
}

// Equal compares all.
func (o PortOption) Equal(other Row) bool { return Row(o) == other }

func (o PortOption) String() string { return o.Value }

// RouterPortNetwork is the address of a port that Kube-OVN made, with its network's length. Kube-OVN gives it once, and
// leaves it when the OvnEip of the port gets another. It is wanted only while it is wrong: the port is Kube-OVN's, and
// nothing of it is ours.
type RouterPortNetwork struct {
	Port    string
	Network netip.Prefix
}

// Key is the port's name.
func (p RouterPortNetwork) Key(router string) RowKey {
	return RowKey{"Logical_Router_Port", router, p.Port + " networks"}
}

// Equal compares all.
func (p RouterPortNetwork) Equal(o Row) bool { return Row(p) == o }

func (p RouterPortNetwork) String() string { return p.Network.String() }

// LogicalRouterStaticRoute is a route of a routing table.
type LogicalRouterStaticRoute struct {
	RouteTable string // empty: the main one
	Prefix     netip.Prefix
	// NextHop is where to; invalid: to the destination itself, which is on the port's network.
	NextHop    netip.Addr
	OutputPort string
}

// Key is table and prefix.
func (r LogicalRouterStaticRoute) Key(router string) RowKey {
	return RowKey{"Logical_Router_Static_Route", router, fmt.Sprintf("%q %s", r.RouteTable, r.Prefix)}
}

// Equal compares all.
func (r LogicalRouterStaticRoute) Equal(o Row) bool { return Row(r) == o }

func (r LogicalRouterStaticRoute) String() string {
	if !r.NextHop.IsValid() {
		return "out by " + r.OutputPort
	}
	return fmt.Sprintf("via %s out by %s", r.NextHop, r.OutputPort)
}

// QoS is a rule of a switch that sets the mark of packets that come in.
type QoS struct {
	Switch   string
	Priority int
	Match    string
	Mark     int
}

// Key is switch, priority and match.
func (m QoS) Key(router string) RowKey {
	return RowKey{"QoS", router, fmt.Sprintf("%s %d %s", m.Switch, m.Priority, m.Match)}
}

// Equal compares all.
func (m QoS) Equal(o Row) bool { return Row(m) == o }

func (m QoS) String() string { return fmt.Sprintf("mark=%d", m.Mark) }

// PortGroup carries rules to the switches that its ports are on. Kube-OVN removes what is written to the switch itself.
type PortGroup struct {
	Name  string
	Ports string // with spaces between, in order
}

// Key is the group's name.
func (g PortGroup) Key(router string) RowKey { return RowKey{"Port_Group", router, g.Name} }

// Equal compares all.
func (g PortGroup) Equal(o Row) bool { return Row(g) == o }

func (g PortGroup) String() string { return g.Ports }

// AddressSet is addresses under a name that matches can use.
type AddressSet struct {
	Name      string
	Addresses string // with spaces between, in order
}

// Key is the set's name.
func (a AddressSet) Key(router string) RowKey { return RowKey{"Address_Set", router, a.Name} }

// Equal compares all.
func (a AddressSet) Equal(o Row) bool { return Row(a) == o }

func (a AddressSet) String() string { return "{" + a.Addresses + "}" }

// ACL is an ACL of a port group.
type ACL struct {
	PortGroup      string
	Direction      Direction
	Tier, Priority int
	Match          string
	Action         string
	Label          int // of the connection; 0: none
}

// Direction is which packets of a switch a rule is for.
type Direction string

// The directions, as OVN calls them.
const (
	FromLport Direction = "from-lport"
	ToLport   Direction = "to-lport"
)

// Key is group, tier, priority and match.
func (r ACL) Key(router string) RowKey {
	return RowKey{"ACL", router, fmt.Sprintf("%s %d %d %s", r.PortGroup, r.Tier, r.Priority, r.Match)}
}

// Equal compares all.
func (r ACL) Equal(o Row) bool { return Row(r) == o }

func (r ACL) String() string {
	if r.Label == 0 {
		return r.Action
	}
	return fmt.Sprintf("%s label=%d", r.Action, r.Label)
}

// IsolationRef is who asks for the rows that drop packets of misplaced pods.
func IsolationRef(shard string) state.Ref {
	return state.Ref{Kind: "Isolation", Namespace: shard, Name: "pods"}
}
