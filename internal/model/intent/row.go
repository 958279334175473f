package intent

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// RowKey names a row of the OVN northbound database by what makes it unique there, not by its UUID.
type RowKey struct {
	Table  string
	Router string // of the VPC that it is made for
	ID     string // unique in the table and VPC
}

// tableOrder is the order in which rows are made: what is led to comes before what leads there.
var tableOrder = []string{
	"NB_Global", "Address_Set", "HA_Chassis_Group", "Logical_Router_Port", "Gateway_Chassis", "Static_MAC_Binding",
	"Logical_Switch_Port",
	"Port_Group", "ACL", "QoS",
	"Load_Balancer", "Load_Balancer_Health_Check", "Logical_Router_Static_Route", "NAT", "Logical_Router_Policy",
}

// Compare orders keys by the order of making, then by router and id.
func (k RowKey) Compare(o RowKey) int {
	return cmp.Or(
		cmp.Compare(slices.Index(tableOrder, k.Table), slices.Index(tableOrder, o.Table)),
		cmp.Compare(k.Router, o.Router),
		cmp.Compare(k.ID, o.ID))
}

// String is where the row is.
func (k RowKey) String() string { return fmt.Sprintf("%s %s [%s]", k.Table, k.Router, k.ID) }

// Row is one row of the OVN northbound database, in normal form: a type of this package.
type Row interface {
	// Key is where the row is, in the VPC of a router.
	Key(router string) RowKey
	Equal(Row) bool
	String() string
}

// LogicalRouterPort is a port of a router that is linked to another router port or, without a peer, to a switch port
// that names it.
type LogicalRouterPort struct {
	Name    string
	MAC     string
	Network netip.Prefix
	Peer    string
	// RouteTable is the routing table for what comes in by this port; empty: the main one.
	RouteTable string
	// HAChassisGroup is the name of the chassis that may hold the port; empty: it is on every chassis, or on those of
	// Gateway rows.
	HAChassisGroup string
}

// Key is the port's name.
func (p LogicalRouterPort) Key(router string) RowKey {
	return RowKey{"Logical_Router_Port", router, p.Name}
}

// Equal compares all.
func (p LogicalRouterPort) Equal(o Row) bool { return Row(p) == o }

func (p LogicalRouterPort) String() string {
	text := fmt.Sprintf("%s %s peer=%s table=%q", p.MAC, p.Network, p.Peer, p.RouteTable)
	if p.HAChassisGroup != "" {
		text += " held by " + p.HAChassisGroup
	}
	return text
}

// GatewayChassis is a chassis that may hold a router port: of those that are there, the one with the highest priority
// does.
type GatewayChassis struct {
	Port, Chassis string
	Priority      int
}

// Key is port and chassis.
func (g GatewayChassis) Key(router string) RowKey {
	return RowKey{"Gateway_Chassis", router, g.Port + " " + g.Chassis}
}

// Equal compares all.
func (g GatewayChassis) Equal(o Row) bool { return Row(g) == o }

func (g GatewayChassis) String() string { return fmt.Sprintf("priority=%d", g.Priority) }

// HAChassisGroup are chassis that may hold router ports: of those that are there, the first holds all ports that name
// them. To change the order is to move the ports.
type HAChassisGroup struct {
	Name    string
	Chassis string // with spaces between, the first first
}

// Key is the name.
func (h HAChassisGroup) Key(router string) RowKey { return RowKey{"HA_Chassis_Group", router, h.Name} }

// Equal compares all.
func (h HAChassisGroup) Equal(o Row) bool { return Row(h) == o }

func (h HAChassisGroup) String() string { return h.Chassis }

// StaticMACBinding is the MAC address of a next hop on a router port, so that nobody has to ask for it.
type StaticMACBinding struct {
	Port    string
	Address netip.Addr
	MAC     string
}

// Key is port and address.
func (b StaticMACBinding) Key(router string) RowKey {
	return RowKey{"Static_MAC_Binding", router, b.Port + " " + b.Address.String()}
}

// Equal compares all.
func (b StaticMACBinding) Equal(o Row) bool { return Row(b) == o }

func (b StaticMACBinding) String() string { return b.MAC }

// DNATAndSNAT is the 1:1 translation of a floating IP. Kube-OVN makes it from an OvnFip and never looks at it again.
type DNATAndSNAT struct {
	External, Logical netip.Addr
}

// Key is the external address.
func (n DNATAndSNAT) Key(router string) RowKey {
	return RowKey{"NAT", router, "dnat_and_snat " + n.External.String()}
}

// Equal compares all.
func (n DNATAndSNAT) Equal(o Row) bool { return Row(n) == o }

func (n DNATAndSNAT) String() string { return n.Logical.String() }

// SNAT is the translation of what leaves a subnet. Kube-OVN makes it from an OvnSnatRule and never looks at it again.
type SNAT struct {
	External netip.Addr
	Logical  netip.Prefix
}

// Key is the translated prefix: OVN looks for the longest one.
func (n SNAT) Key(router string) RowKey {
	return RowKey{"NAT", router, "snat " + n.Logical.String()}
}

// Equal compares all.
func (n SNAT) Equal(o Row) bool { return Row(n) == o }

func (n SNAT) String() string { return n.External.String() }

// GatewayPortSNAT is the translation of what leaves a prefix by one port, where the port is held.
type GatewayPortSNAT struct {
	GatewayPort string
	External    netip.Addr
	Logical     netip.Prefix
	Match       string // which of it; empty: all
	Priority    int    // among those with a match
}

// Key is port, prefix and match.
func (n GatewayPortSNAT) Key(router string) RowKey {
	return RowKey{"NAT", router, strings.TrimSpace("snat " + n.Logical.String() + " by " + n.GatewayPort + " " +
		n.Match)}
}

// Equal compares all.
func (n GatewayPortSNAT) Equal(o Row) bool { return Row(n) == o }

func (n GatewayPortSNAT) String() string { return n.External.String() }

// LogicalRouterPolicy is a router policy. Kube-OVN makes it from an element of a Vpc's policyRoutes.
type LogicalRouterPolicy struct {
	Priority int
	Match    string
	Action   string // reroute, allow or drop
	NextHops string // with spaces between, in order: a connection goes to one of them
}

// Key is priority and match.
func (p LogicalRouterPolicy) Key(router string) RowKey {
	return RowKey{"Logical_Router_Policy", router, fmt.Sprintf("%d %s", p.Priority, p.Match)}
}

// Equal compares all.
func (p LogicalRouterPolicy) Equal(o Row) bool { return Row(p) == o }

func (p LogicalRouterPolicy) String() string { return strings.TrimSpace(p.Action + " " + p.NextHops) }

// NBGlobalOption is one of the settings of the whole engine.
type NBGlobalOption struct{ Name, Value string }

// Key is the name.
func (s NBGlobalOption) Key(router string) RowKey { return RowKey{"NB_Global", router, s.Name} }

// Equal compares all.
func (s NBGlobalOption) Equal(o Row) bool { return Row(s) == o }

func (s NBGlobalOption) String() string { return s.Value }

// LeakedRow is a row that Kube-OVN has left behind of a VPC that is gone. It is never wanted.
type LeakedRow struct{ Table, Name string }

// Key is the row's name.
func (r LeakedRow) Key(router string) RowKey { return RowKey{r.Table, router, r.Name} }

// Equal compares all.
func (r LeakedRow) Equal(o Row) bool { return Row(r) == o }

func (r LeakedRow) String() string { return "left behind" }

// KeepForeignRows is a guard: a row that does not say it is ours is put back when it is missing, and never taken away.
// Those are the rows that Kube-OVN makes for an object or an element of ours.
func KeepForeignRows(changes []state.Change[RowKey, Row], _ state.Set[RowKey, Row]) []state.Change[RowKey, Row] {
	return slices.DeleteFunc(slices.Clone(changes), func(c state.Change[RowKey, Row]) bool {
		return c.IsRemoval() && c.Origin == (state.Ref{})
	})
}

// DeriveMAC is an address of ours that is derived from words: the same words give the same address.
func DeriveMAC(words ...string) string {
	sum := hashText(strings.Join(words, "\x00"))
	return fmt.Sprintf("%s%02x:%02x:%02x:%02x", ownership.MACPrefix, sum[0], sum[1], sum[2], sum[3])
}
