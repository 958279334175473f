package ovn

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// Rows of return ports, and rows of tables of which the cache holds only ours. They are found by the shard in their
// external_ids.

const qosMarkAction = "mark" // key of a QoS rule's action

// ReturnPortAddresses returns the addresses of the return ports of a router, by port.
func (c *Client) ReturnPortAddresses(router string) map[string]netip.Addr {
	s := c.current.Load()
	if s == nil {
		return nil
	}
	out := map[string]netip.Addr{}
	for _, p := range rowsByIndex(s, nb.LogicalSwitchPortTable,
		&nb.LogicalSwitchPort{ExternalIDs: map[string]string{ownership.RowShardKey: router}}) {
		if port := s.routerPortByName(p.Options[routerPortOption]); port != nil &&
			p.ExternalIDs[ownership.RowParentKey] == ownership.VPCSubnetName(router) {
			out[port.Name] = decodeRouterPort(port).Network.Addr()
		}
	}
	return out
}

// encodeMarkedRow encodes a row of the tables in this file.
func encodeMarkedRow(row intent.Row, uuid string, ids map[string]string) (rowDraft, error) {
	switch r := row.(type) {
	case intent.LogicalSwitchPort:
		p := &nb.LogicalSwitchPort{
			UUID: uuid, Name: r.Name, Type: nb.RouterPortType, Addresses: []string{"router"},
			Options:     map[string]string{routerPortOption: r.RouterPort},
			ExternalIDs: withParentID(ids, r.Switch),
		}
		if r.AnnounceNATAddresses {
			p.Options[natAddressesOption] = natAddressesRouter
		}
		return rowDraft{row: p, fields: []any{&p.Type, &p.Addresses, &p.Options}, externalIDs: &p.ExternalIDs}, nil
	case intent.QoS:
		q := &nb.QoS{
			UUID: uuid, Priority: r.Priority, Direction: string(intent.FromLport), Match: r.Match,
			Action:      map[string]int{qosMarkAction: r.Mark},
			ExternalIDs: withParentID(ids, r.Switch),
		}
		return rowDraft{row: q, fields: []any{&q.Direction, &q.Action}, externalIDs: &q.ExternalIDs}, nil
	case intent.PortGroup:
		g := &nb.PortGroup{UUID: uuid, Name: r.Name, ExternalIDs: ids}
		return rowDraft{row: g, fields: []any{&g.Ports}, externalIDs: &g.ExternalIDs}, nil
	case intent.AddressSet:
		a := &nb.AddressSet{UUID: uuid, Name: r.Name, Addresses: strings.Fields(r.Addresses), ExternalIDs: ids}
		return rowDraft{row: a, fields: []any{&a.Addresses}, externalIDs: &a.ExternalIDs}, nil
	case intent.ACL:
		a := &nb.ACL{
			UUID: uuid, Tier: r.Tier, Priority: r.Priority, Direction: string(r.Direction), Match: r.Match,
			Action: r.Action, Label: r.Label,
			ExternalIDs: withParentID(ids, r.PortGroup),
		}
		return rowDraft{row: a, fields: []any{&a.Direction, &a.Action, &a.Label}, externalIDs: &a.ExternalIDs}, nil
	case intent.LogicalRouterStaticRoute:
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
		return rowDraft{row: e, fields: []any{&e.Nexthop, &e.OutputPort}, externalIDs: &e.ExternalIDs}, nil
	default:
		return rowDraft{}, fmt.Errorf("unsupported type of northbound row: %T", row)
	}
}

func decodeSwitchPort(p *nb.LogicalSwitchPort) intent.LogicalSwitchPort {
	out := intent.LogicalSwitchPort{Switch: p.ExternalIDs[ownership.RowParentKey], Name: p.Name}
	if p.Type == nb.RouterPortType && slices.Equal(p.Addresses, []string{"router"}) {
		out.RouterPort = p.Options[routerPortOption]
	}
	out.AnnounceNATAddresses = p.Options[natAddressesOption] == natAddressesRouter
	return out
}

func decodeQoS(q *nb.QoS) intent.QoS {
	out := intent.QoS{Switch: q.ExternalIDs[ownership.RowParentKey], Priority: q.Priority, Match: q.Match, Mark: -1}
	if mark, marked := q.Action[qosMarkAction]; marked && len(q.Action) == 1 &&
		q.Direction == string(intent.FromLport) {
		out.Mark = mark
	}
	return out
}

func decodeACL(a *nb.ACL) intent.ACL {
	return intent.ACL{
		PortGroup: a.ExternalIDs[ownership.RowParentKey], Direction: intent.Direction(a.Direction), Tier: a.Tier,
		Priority: a.Priority, Match: a.Match,
		Action: a.Action, Label: a.Label,
	}
}

func decodeAddressSet(a *nb.AddressSet) intent.AddressSet {
	return intent.AddressSet{Name: a.Name, Addresses: strings.Join(slices.Sorted(slices.Values(a.Addresses)), " ")}
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

// markedRecords returns the rows that name a shard in their external_ids. The result is not whole if a group refers to
// a port that is not in the cache yet.
func (s *session) markedRecords(shard string) (out []record, whole bool) {
	marked := map[string]string{ownership.RowShardKey: shard}
	add := func(value intent.Row, ids map[string]string, uuid string, row model.Model) {
		out = append(out, record{value: value, origin: rowOrigin(ids, shard), uuid: uuid, row: row})
	}
	ports := map[string]bool{} // by owner
	for _, p := range rowsByIndex(s, nb.LogicalSwitchPortTable, &nb.LogicalSwitchPort{ExternalIDs: marked}) {
		add(decodeSwitchPort(p), p.ExternalIDs, p.UUID, p)
		ports[p.ExternalIDs[ownership.RowOwnerKey]] = true
	}
	for _, g := range rowsByIndex(s, nb.GatewayChassisTable, &nb.GatewayChassis{ExternalIDs: marked}) {
		add(intent.GatewayChassis{
			Port:     g.ExternalIDs[ownership.RowParentKey],
			Chassis:  g.ChassisName,
			Priority: g.Priority,
		}, g.ExternalIDs, g.UUID, g)
	}
	groups, holders, whole := s.haChassisGroups(marked)
	if !whole {
		return nil, false
	}
	for i, g := range groups {
		add(holders[i], g.ExternalIDs, g.UUID, g)
	}
	for _, q := range rowsByIndex(s, nb.QoSTable, &nb.QoS{ExternalIDs: marked}) {
		add(decodeQoS(q), q.ExternalIDs, q.UUID, q)
	}
	for _, a := range rowsByIndex(s, nb.ACLTable, &nb.ACL{ExternalIDs: marked}) {
		add(decodeACL(a), a.ExternalIDs, a.UUID, a)
	}
	for _, a := range rowsByIndex(s, nb.AddressSetTable, &nb.AddressSet{ExternalIDs: marked}) {
		add(decodeAddressSet(a), a.ExternalIDs, a.UUID, a)
	}
	for _, r := range rowsByIndex(s, nb.StaticRouteTable, &nb.StaticRoute{ExternalIDs: marked}) {
		if value, ok := decodeStaticRoute(r); ok {
			add(value, r.ExternalIDs, r.UUID, r)
		}
	}
	for _, g := range rowsByIndex(s, nb.PortGroupTable, &nb.PortGroup{ExternalIDs: marked}) {
		value, known := s.decodePortGroup(g)
		if !known && !ports[g.ExternalIDs[ownership.RowOwnerKey]] {
			return nil, false
		}
		add(value, g.ExternalIDs, g.UUID, g)
	}
	return out, true
}

// decodePortGroup decodes a port group. If a port is not in the cache, its creation or deletion is about to arrive.
func (s *session) decodePortGroup(g *nb.PortGroup) (value intent.PortGroup, known bool) {
	names := make([]string, 0, len(g.Ports))
	known = true
	for _, uuid := range g.Ports {
		p, there := rowByUUID[nb.LogicalSwitchPort](s, nb.LogicalSwitchPortTable, uuid)
		if !there {
			p, known = &nb.LogicalSwitchPort{Name: uuid}, false
		}
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return intent.PortGroup{Name: g.Name, Ports: strings.Join(names, " ")}, known
}
