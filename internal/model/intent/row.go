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

// RowKey identifies a row of the OVN northbound database by its unique values, not by its UUID.
type RowKey struct {
	Table  string // for an entry of a map column, also the column
	Router string // of the VPC that it is created for
	ID     string // unique in the table and VPC
}

// tableOrder is the order in which rows are created: rows come after those they refer to.
var tableOrder = []string{
	"NB_Global", "Logical_Router", "Address_Set", "Address_Set addresses", "HA_Chassis_Group", "Logical_Router_Port", "Gateway_Chassis",
	"Static_MAC_Binding",
	"Logical_Switch_Port",
	"Port_Group", "ACL", "QoS",
	"Load_Balancer", "Load_Balancer vips", "Load_Balancer_Health_Check", "Logical_Router_Static_Route", "NAT", "Logical_Router_Policy",
}

// Compare orders keys by order of creation, then by router and id.
func (k RowKey) Compare(o RowKey) int {
	return cmp.Or(
		cmp.Compare(slices.Index(tableOrder, k.Table), slices.Index(tableOrder, o.Table)),
		cmp.Compare(k.Router, o.Router),
		cmp.Compare(k.ID, o.ID))
}

// String returns the location of the row.
func (k RowKey) String() string { return fmt.Sprintf("%s %s [%s]", k.Table, k.Router, k.ID) }

// Row is a row of the OVN northbound database in normal form. It is one of the types in this package.
type Row interface {
	// Key returns the key of the row, in the VPC of a router.
	Key(router string) RowKey
	Equal(Row) bool
	String() string
}

// LogicalRouterPort is a port of a router. It is linked to another router port or, without a peer, to the switch port
// that names it.
type LogicalRouterPort struct {
	Name    string
	MAC     string
	Network netip.Prefix
	// SecondNetwork is the network of the other family. Invalid: none.
	SecondNetwork netip.Prefix
	Peer          string
	// RouteTable is the routing table for packets that enter through this port. Empty: the main table.
	RouteTable string
	// HAChassisGroup is the name of the chassis group that the port is bound to. Empty: the port is distributed, or
	// bound by GatewayChassis rows.
	HAChassisGroup string
}

// Key returns the port's name.
func (p LogicalRouterPort) Key(router string) RowKey {
	return RowKey{"Logical_Router_Port", router, p.Name}
}

// Equal compares all fields.
func (p LogicalRouterPort) Equal(o Row) bool { return Row(p) == o }

func (p LogicalRouterPort) String() string {
	text := fmt.Sprintf("%s %s peer=%s table=%q", p.MAC, FormatNetworks(p.Network, p.SecondNetwork), p.Peer, p.RouteTable)
	if p.HAChassisGroup != "" {
		text += " held by " + p.HAChassisGroup
	}
	return text
}

// FormatNetworks formats the valid ones of a port's networks, sorted as text and separated by spaces.
func FormatNetworks(networks ...netip.Prefix) string {
	var out []string
	for _, n := range networks {
		if n.IsValid() {
			out = append(out, n.String())
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// GatewayChassis is a chassis that a router port may be bound to. OVN selects the one with the highest priority of
// those that are up.
type GatewayChassis struct {
	Port, Chassis string
	Priority      int
}

// Key returns port and chassis.
func (g GatewayChassis) Key(router string) RowKey {
	return RowKey{"Gateway_Chassis", router, g.Port + " " + g.Chassis}
}

// Equal compares all fields.
func (g GatewayChassis) Equal(o Row) bool { return Row(g) == o }

func (g GatewayChassis) String() string { return fmt.Sprintf("priority=%d", g.Priority) }

// HAChassisGroup is a group of chassis that router ports may be bound to. All ports of a group are bound to the first
// chassis that is up. A change of the order moves the ports.
type HAChassisGroup struct {
	Name    string
	Chassis string // separated by spaces, highest priority first
}

// Key returns the name.
func (h HAChassisGroup) Key(router string) RowKey { return RowKey{"HA_Chassis_Group", router, h.Name} }

// Equal compares all fields.
func (h HAChassisGroup) Equal(o Row) bool { return Row(h) == o }

func (h HAChassisGroup) String() string { return h.Chassis }

// StaticMACBinding is a static neighbour entry for a next hop on a router port. The router sends no ARP or ND requests
// for it.
type StaticMACBinding struct {
	Port    string
	Address netip.Addr
	MAC     string
}

// Key returns port and address.
func (b StaticMACBinding) Key(router string) RowKey {
	return RowKey{"Static_MAC_Binding", router, b.Port + " " + b.Address.String()}
}

// Equal compares all fields.
func (b StaticMACBinding) Equal(o Row) bool { return Row(b) == o }

func (b StaticMACBinding) String() string { return b.MAC }

// DNATAndSNAT is the 1:1 NAT of a floating IP. Kube-OVN creates it from an OvnFip and never checks it again.
type DNATAndSNAT struct {
	External, Logical netip.Addr
}

// Key returns the external address.
func (n DNATAndSNAT) Key(router string) RowKey {
	return RowKey{"NAT", router, "dnat_and_snat " + n.External.String()}
}

// Equal compares all fields.
func (n DNATAndSNAT) Equal(o Row) bool { return Row(n) == o }

func (n DNATAndSNAT) String() string { return n.Logical.String() }

// DNAT is the NAT of a floating IP in the management VPC, for connections to the external address. Kube-OVN removes
// other types of NAT of its pods.
type DNAT struct {
	GatewayPort       string
	External, Logical netip.Addr
}

// Key returns the external address.
func (n DNAT) Key(router string) RowKey { return RowKey{"NAT", router, "dnat " + n.External.String()} }

// Equal compares all fields.
func (n DNAT) Equal(o Row) bool { return Row(n) == o }

func (n DNAT) String() string { return n.Logical.String() + " by " + n.GatewayPort }

// SNAT is the SNAT of a subnet. Kube-OVN creates it from an OvnSnatRule and never checks it again.
type SNAT struct {
	External netip.Addr
	Logical  netip.Prefix
}

// Key returns the translated prefix: OVN selects the longest match.
func (n SNAT) Key(router string) RowKey {
	return RowKey{"NAT", router, "snat " + n.Logical.String()}
}

// Equal compares all fields.
func (n SNAT) Equal(o Row) bool { return Row(n) == o }

func (n SNAT) String() string { return n.External.String() }

// GatewayPortSNAT is an SNAT of packets that leave through one gateway port. It is performed on the chassis of the
// port.
type GatewayPortSNAT struct {
	GatewayPort string
	External    netip.Addr
	Logical     netip.Prefix
	Match       string // limits the packets; empty: all
	Priority    int    // only with a match
}

// Key returns port, prefix and match.
func (n GatewayPortSNAT) Key(router string) RowKey {
	return RowKey{"NAT", router, strings.TrimSpace("snat " + n.Logical.String() + " by " + n.GatewayPort + " " +
		n.Match)}
}

// Equal compares all fields.
func (n GatewayPortSNAT) Equal(o Row) bool { return Row(n) == o }

func (n GatewayPortSNAT) String() string { return n.External.String() }

// LogicalRouterPolicy is a router policy. Kube-OVN creates it from an entry of policyRoutes in a Vpc.
type LogicalRouterPolicy struct {
	Priority int
	Match    string
	Action   string // reroute, allow or drop
	NextHops string // separated by spaces, sorted; OVN selects one for each connection
}

// Key returns priority and match.
func (p LogicalRouterPolicy) Key(router string) RowKey {
	return RowKey{"Logical_Router_Policy", router, fmt.Sprintf("%d %s", p.Priority, p.Match)}
}

// Equal compares all fields.
func (p LogicalRouterPolicy) Equal(o Row) bool { return Row(p) == o }

func (p LogicalRouterPolicy) String() string { return strings.TrimSpace(p.Action + " " + p.NextHops) }

// NBGlobalOption is an option of NB_Global.
type NBGlobalOption struct{ Name, Value string }

// Key returns the name.
func (s NBGlobalOption) Key(router string) RowKey { return RowKey{"NB_Global", router, s.Name} }

// Equal compares all fields.
func (s NBGlobalOption) Equal(o Row) bool { return Row(s) == o }

func (s NBGlobalOption) String() string { return s.Value }

// LeakedRow is a row that Kube-OVN leaked when it deleted something of a VPC. No intent contains one.
type LeakedRow struct{ Table, Name string }

// Key returns the row's name.
func (r LeakedRow) Key(router string) RowKey { return RowKey{r.Table, router, r.Name} }

// Equal compares all fields.
func (r LeakedRow) Equal(o Row) bool { return Row(r) == o }

func (r LeakedRow) String() string { return "left behind" }

// KeepForeignRows is a guard: rows without our external_ids are restored if they are missing, but never deleted.
// Kube-OVN creates such rows for our objects and Vpc list entries.
func KeepForeignRows(changes []state.Change[RowKey, Row], _ state.Set[RowKey, Row]) []state.Change[RowKey, Row] {
	return slices.DeleteFunc(slices.Clone(changes), func(c state.Change[RowKey, Row]) bool {
		return c.IsRemoval() && c.Origin == (state.Ref{})
	})
}

// DeriveMAC returns a MAC address with our prefix that is derived from words. The same words give the same address.
func DeriveMAC(words ...string) string {
	sum := hashText(strings.Join(words, "\x00"))
	return fmt.Sprintf("%s%02x:%02x:%02x:%02x", ownership.MACPrefix, sum[0], sum[1], sum[2], sum[3])
}
