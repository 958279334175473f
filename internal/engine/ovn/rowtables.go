package ovn

import (
	"slices"
	"strings"

	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// rowTable describes a table whose rows are found by the shard in their external_ids: how a row is written and read, and
// which row refers to it. Everything that this package knows about the table is here.
type rowTable struct {
	name   string
	set    parentSet                                 // zero: no other row refers to its rows
	parent func(row intent.Row, shard string) string // the name of the row that refers to a row
	encode func(row intent.Row, uuid string, ids map[string]string) (draft rowDraft, is bool)
	find   func(s *session, shard string) []record
}

// tableOf is the same for rows R, which libovsdb reads as models M.
type tableOf[R intent.Row, M any] struct {
	set    parentSet
	parent func(R) string // nil: the router of the shard
	like   func(ids map[string]string) *M
	head   func(*M) (uuid string, ids map[string]string)
	encode func(row R, uuid string, ids map[string]string) rowDraft
	decode func(*M) (row R, valid bool)
}

// describe returns the description of a table for rows of any type.
func (t tableOf[R, M]) describe(name string) rowTable {
	return rowTable{
		name: name, set: t.set,
		parent: func(row intent.Row, shard string) string {
			if r, is := row.(R); is && t.parent != nil {
				return t.parent(r)
			}
			return shard
		},
		encode: func(row intent.Row, uuid string, ids map[string]string) (rowDraft, bool) {
			r, is := row.(R)
			if !is {
				return rowDraft{}, false
			}
			if t.parent != nil {
				ids = withParentID(ids, t.parent(r))
			}
			return t.encode(r, uuid, ids), true
		},
		find: func(s *session, shard string) (out []record) {
			for _, m := range rowsByIndex(s, name, t.like(map[string]string{ownership.RowShardKey: shard})) {
				if value, valid := t.decode(m); valid {
					uuid, ids := t.head(m)
					out = append(out, record{value: value, origin: rowOrigin(ids, shard), uuid: uuid, row: any(m).(model.Model)})
				}
			}
			return out
		},
	}
}

// switchPortSet is the set of a switch's ports.
var switchPortSet = parentSet{nb.LogicalSwitchTable, "ports"}

// rowTables are the tables that are described so. Rows of the others need more than their columns: a router's sets, or
// other rows.
var rowTables = []rowTable{
	tableOf[intent.LogicalSwitchPort, nb.LogicalSwitchPort]{
		set:    switchPortSet,
		parent: func(r intent.LogicalSwitchPort) string { return r.Switch },
		like:   func(ids map[string]string) *nb.LogicalSwitchPort { return &nb.LogicalSwitchPort{ExternalIDs: ids} },
		head:   func(p *nb.LogicalSwitchPort) (string, map[string]string) { return p.UUID, p.ExternalIDs },
		encode: encodeSwitchPort, decode: decodeSwitchPort,
	}.describe(nb.LogicalSwitchPortTable),
	tableOf[intent.GatewayChassis, nb.GatewayChassis]{
		set:    parentSet{nb.LogicalRouterPortTable, "gateway_chassis"},
		parent: func(r intent.GatewayChassis) string { return r.Port },
		like:   func(ids map[string]string) *nb.GatewayChassis { return &nb.GatewayChassis{ExternalIDs: ids} },
		head:   func(g *nb.GatewayChassis) (string, map[string]string) { return g.UUID, g.ExternalIDs },
		encode: encodeGatewayChassis, decode: decodeGatewayChassis,
	}.describe(nb.GatewayChassisTable),
	tableOf[intent.QoS, nb.QoS]{
		set:    parentSet{nb.LogicalSwitchTable, "qos_rules"},
		parent: func(r intent.QoS) string { return r.Switch },
		like:   func(ids map[string]string) *nb.QoS { return &nb.QoS{ExternalIDs: ids} },
		head:   func(q *nb.QoS) (string, map[string]string) { return q.UUID, q.ExternalIDs },
		encode: encodeQoS, decode: decodeQoS,
	}.describe(nb.QoSTable),
	tableOf[intent.ACL, nb.ACL]{
		set:    parentSet{nb.PortGroupTable, "acls"},
		parent: func(r intent.ACL) string { return r.PortGroup },
		like:   func(ids map[string]string) *nb.ACL { return &nb.ACL{ExternalIDs: ids} },
		head:   func(a *nb.ACL) (string, map[string]string) { return a.UUID, a.ExternalIDs },
		encode: encodeACL, decode: decodeACL,
	}.describe(nb.ACLTable),
	tableOf[intent.AddressSet, nb.AddressSet]{
		like:   func(ids map[string]string) *nb.AddressSet { return &nb.AddressSet{ExternalIDs: ids} },
		head:   func(a *nb.AddressSet) (string, map[string]string) { return a.UUID, a.ExternalIDs },
		encode: encodeAddressSet, decode: decodeAddressSet,
	}.describe(nb.AddressSetTable),
	tableOf[intent.LogicalRouterStaticRoute, nb.StaticRoute]{
		set:    parentSet{nb.LogicalRouterTable, "static_routes"},
		like:   func(ids map[string]string) *nb.StaticRoute { return &nb.StaticRoute{ExternalIDs: ids} },
		head:   func(r *nb.StaticRoute) (string, map[string]string) { return r.UUID, r.ExternalIDs },
		encode: encodeStaticRoute, decode: decodeStaticRoute,
	}.describe(nb.StaticRouteTable),
	tableOf[intent.LoadBalancerHealthCheck, nb.HealthCheck]{
		set:    parentSet{nb.LoadBalancerTable, "health_check"},
		parent: func(r intent.LoadBalancerHealthCheck) string { return r.LoadBalancer },
		like:   func(ids map[string]string) *nb.HealthCheck { return &nb.HealthCheck{ExternalIDs: ids} },
		head:   func(h *nb.HealthCheck) (string, map[string]string) { return h.UUID, h.ExternalIDs },
		encode: encodeHealthCheck, decode: decodeHealthCheck,
	}.describe(nb.HealthCheckTable),
}

// describedTable returns the description of a table. It reports false for a table that is not described.
func describedTable(name string) (rowTable, bool) {
	i := slices.IndexFunc(rowTables, func(t rowTable) bool { return t.name == name })
	if i < 0 {
		return rowTable{}, false
	}
	return rowTables[i], true
}

const qosMarkAction = "mark" // key of a QoS rule's action

func encodeSwitchPort(r intent.LogicalSwitchPort, uuid string, ids map[string]string) rowDraft {
	p := &nb.LogicalSwitchPort{
		UUID: uuid, Name: r.Name, Type: nb.RouterPortType, Addresses: []string{"router"},
		Options:     map[string]string{routerPortOption: r.RouterPort},
		ExternalIDs: ids,
	}
	if r.AnnounceNATAddresses {
		p.Options[natAddressesOption] = natAddressesRouter
	}
	return rowDraft{row: p, fields: []any{&p.Type, &p.Addresses, &p.Options}, externalIDs: &p.ExternalIDs}
}

func encodeGatewayChassis(r intent.GatewayChassis, uuid string, ids map[string]string) rowDraft {
	g := &nb.GatewayChassis{
		UUID:        uuid,
		Name:        r.Port + "-" + r.Chassis,
		ChassisName: r.Chassis,
		Priority:    r.Priority,
		ExternalIDs: ids,
	}
	return rowDraft{row: g, fields: []any{&g.Priority}, externalIDs: &g.ExternalIDs}
}

func decodeGatewayChassis(g *nb.GatewayChassis) (intent.GatewayChassis, bool) {
	return intent.GatewayChassis{
		Port:     g.ExternalIDs[ownership.RowParentKey],
		Chassis:  g.ChassisName,
		Priority: g.Priority,
	}, true
}

func encodeQoS(r intent.QoS, uuid string, ids map[string]string) rowDraft {
	q := &nb.QoS{
		UUID: uuid, Priority: r.Priority, Direction: string(intent.FromLport), Match: r.Match,
		Action:      map[string]int{qosMarkAction: r.Mark},
		ExternalIDs: ids,
	}
	return rowDraft{row: q, fields: []any{&q.Direction, &q.Action}, externalIDs: &q.ExternalIDs}
}

func encodeAddressSet(r intent.AddressSet, uuid string, ids map[string]string) rowDraft {
	a := &nb.AddressSet{UUID: uuid, Name: r.Name, Addresses: strings.Fields(r.Addresses), ExternalIDs: ids}
	return rowDraft{row: a, fields: []any{&a.Addresses}, externalIDs: &a.ExternalIDs}
}

func encodeACL(r intent.ACL, uuid string, ids map[string]string) rowDraft {
	a := &nb.ACL{
		UUID: uuid, Tier: r.Tier, Priority: r.Priority, Direction: string(r.Direction), Match: r.Match,
		Action: r.Action, Label: r.Label,
		ExternalIDs: ids,
	}
	return rowDraft{row: a, fields: []any{&a.Direction, &a.Action, &a.Label}, externalIDs: &a.ExternalIDs}
}

func encodeStaticRoute(r intent.LogicalRouterStaticRoute, uuid string, ids map[string]string) rowDraft {
	e := &nb.StaticRoute{
		UUID:        uuid,
		RouteTable:  r.RouteTable,
		IPPrefix:    formatPrefix(r.Prefix),
		OutputPort:  &r.OutputPort,
		ExternalIDs: ids,
	}
	if r.NextHop.IsValid() {
		e.Nexthop = r.NextHop.String()
	}
	return rowDraft{row: e, fields: []any{&e.Nexthop, &e.OutputPort}, externalIDs: &e.ExternalIDs}
}

func decodeSwitchPort(p *nb.LogicalSwitchPort) (intent.LogicalSwitchPort, bool) {
	out := intent.LogicalSwitchPort{Switch: p.ExternalIDs[ownership.RowParentKey], Name: p.Name}
	if p.Type == nb.RouterPortType && slices.Equal(p.Addresses, []string{"router"}) {
		out.RouterPort = p.Options[routerPortOption]
	}
	out.AnnounceNATAddresses = p.Options[natAddressesOption] == natAddressesRouter
	return out, true
}

func decodeQoS(q *nb.QoS) (intent.QoS, bool) {
	out := intent.QoS{Switch: q.ExternalIDs[ownership.RowParentKey], Priority: q.Priority, Match: q.Match, Mark: -1}
	if mark, marked := q.Action[qosMarkAction]; marked && len(q.Action) == 1 &&
		q.Direction == string(intent.FromLport) {
		out.Mark = mark
	}
	return out, true
}

func decodeACL(a *nb.ACL) (intent.ACL, bool) {
	return intent.ACL{
		PortGroup: a.ExternalIDs[ownership.RowParentKey], Direction: intent.Direction(a.Direction), Tier: a.Tier,
		Priority: a.Priority, Match: a.Match,
		Action: a.Action, Label: a.Label,
	}, true
}

func decodeAddressSet(a *nb.AddressSet) (intent.AddressSet, bool) {
	return intent.AddressSet{Name: a.Name, Addresses: strings.Join(slices.Sorted(slices.Values(a.Addresses)), " ")}, true
}

func decodeStaticRoute(r *nb.StaticRoute) (intent.LogicalRouterStaticRoute, bool) {
	out := intent.LogicalRouterStaticRoute{
		RouteTable: r.RouteTable,
		Prefix:     parsePrefix(r.IPPrefix),
		NextHop:    parseAddr(r.Nexthop),
	}
	if r.OutputPort != nil && (r.Nexthop == "" || out.NextHop.IsValid()) {
		out.OutputPort = *r.OutputPort
	}
	return out, out.Prefix.IsValid()
}
