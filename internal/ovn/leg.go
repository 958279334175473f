package ovn

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/ovn/nb"
	"github.com/sallyport/sallyport/internal/ownership"
)

// Rows of legs, and of the tables that only our own rows of are copied. Each is found by the shard that its external_ids name.

const marks = "mark" // of a QoS rule's action

// Legs are the addresses of the legs of a router, by port.
func (c *Client) Legs(router string) map[string]netip.Addr {
	s := c.current.Load()
	if s == nil {
		return nil
	}
	out := map[string]netip.Addr{}
	for _, p := range rows(s, nb.LogicalSwitchPortTable, &nb.LogicalSwitchPort{ExternalIDs: map[string]string{ownership.RowShardKey: router}}) {
		if port := s.port(p.Options[routerPort]); port != nil && p.ExternalIDs[ownership.RowParentKey] == ownership.Subnet(router) {
			out[port.Name] = decodePort(port).Network.Addr()
		}
	}
	return out
}

// encodeLeg writes a row of a leg.
func encodeLeg(row intent.Row, uuid string, ids map[string]string) (draft, error) {
	switch r := row.(type) {
	case intent.SwitchPort:
		p := &nb.LogicalSwitchPort{
			UUID: uuid, Name: r.Name, Type: nb.RouterPort, Addresses: []string{"router"}, Options: map[string]string{routerPort: r.RouterPort},
			ExternalIDs: in(ids, r.Switch),
		}
		if r.Announces {
			p.Options[announces] = allOfRouter
		}
		return draft{row: p, fields: []any{&p.Type, &p.Addresses, &p.Options}, ids: &p.ExternalIDs}, nil
	case intent.Marking:
		q := &nb.QoS{
			UUID: uuid, Priority: r.Priority, Direction: string(intent.IntoSwitch), Match: r.Match, Action: map[string]int{marks: r.Mark},
			ExternalIDs: in(ids, r.Switch),
		}
		return draft{row: q, fields: []any{&q.Direction, &q.Action}, ids: &q.ExternalIDs}, nil
	case intent.PortGroup:
		g := &nb.PortGroup{UUID: uuid, Name: r.Name, ExternalIDs: ids}
		return draft{row: g, fields: []any{&g.Ports}, ids: &g.ExternalIDs}, nil
	case intent.AddressSet:
		a := &nb.AddressSet{UUID: uuid, Name: r.Name, Addresses: strings.Fields(r.Addresses), ExternalIDs: ids}
		return draft{row: a, fields: []any{&a.Addresses}, ids: &a.ExternalIDs}, nil
	case intent.Rule:
		a := &nb.ACL{
			UUID: uuid, Tier: r.Tier, Priority: r.Priority, Direction: string(r.Direction), Match: r.Match, Action: r.Action, Label: r.Label,
			ExternalIDs: in(ids, r.Group),
		}
		return draft{row: a, fields: []any{&a.Direction, &a.Action, &a.Label}, ids: &a.ExternalIDs}, nil
	case intent.Route:
		e := &nb.StaticRoute{UUID: uuid, RouteTable: r.Table, IPPrefix: short(r.Prefix), OutputPort: &r.Port, ExternalIDs: ids}
		if r.NextHop.IsValid() {
			e.Nexthop = r.NextHop.String()
		}
		return draft{row: e, fields: []any{&e.Nexthop, &e.OutputPort}, ids: &e.ExternalIDs}, nil
	default:
		return draft{}, fmt.Errorf("no northbound table is known for %T", row)
	}
}

func decodeSwitchPort(p *nb.LogicalSwitchPort) intent.SwitchPort {
	out := intent.SwitchPort{Switch: p.ExternalIDs[ownership.RowParentKey], Name: p.Name}
	if p.Type == nb.RouterPort && slices.Equal(p.Addresses, []string{"router"}) {
		out.RouterPort = p.Options[routerPort]
	}
	out.Announces = p.Options[announces] == allOfRouter
	return out
}

func decodeMarking(q *nb.QoS) intent.Marking {
	out := intent.Marking{Switch: q.ExternalIDs[ownership.RowParentKey], Priority: q.Priority, Match: q.Match, Mark: -1}
	if mark, marked := q.Action[marks]; marked && len(q.Action) == 1 && q.Direction == string(intent.IntoSwitch) {
		out.Mark = mark
	}
	return out
}

func decodeRule(a *nb.ACL) intent.Rule {
	return intent.Rule{
		Group: a.ExternalIDs[ownership.RowParentKey], Direction: intent.Direction(a.Direction), Tier: a.Tier, Priority: a.Priority, Match: a.Match,
		Action: a.Action, Label: a.Label,
	}
}

func decodeAddressSet(a *nb.AddressSet) intent.AddressSet {
	return intent.AddressSet{Name: a.Name, Addresses: strings.Join(slices.Sorted(slices.Values(a.Addresses)), " ")}
}

func decodeRoute(r *nb.StaticRoute) (intent.Route, bool) {
	out := intent.Route{Table: r.RouteTable, Prefix: prefix(r.IPPrefix), NextHop: address(r.Nexthop)}
	if r.OutputPort != nil && (r.Nexthop == "" || out.NextHop.IsValid()) {
		out.Port = *r.OutputPort
	}
	return out, out.Prefix.IsValid()
}

// legs are the rows of a shard that only its own marks tell of. They are not whole when a group names a port that is not in
// the copy yet.
func (s *session) legs(shard string) (out []record, whole bool) {
	marked := map[string]string{ownership.RowShardKey: shard}
	add := func(value intent.Row, ids map[string]string, uuid string, row model.Model) {
		out = append(out, record{value: value, origin: origin(ids, shard), uuid: uuid, row: row})
	}
	ports := map[string]bool{} // by who asked
	for _, p := range rows(s, nb.LogicalSwitchPortTable, &nb.LogicalSwitchPort{ExternalIDs: marked}) {
		add(decodeSwitchPort(p), p.ExternalIDs, p.UUID, p)
		ports[p.ExternalIDs[ownership.RowOwnerKey]] = true
	}
	for _, g := range rows(s, nb.GatewayChassisTable, &nb.GatewayChassis{ExternalIDs: marked}) {
		add(intent.Gateway{Port: g.ExternalIDs[ownership.RowParentKey], Chassis: g.ChassisName, Priority: g.Priority}, g.ExternalIDs, g.UUID, g)
	}
	groups, holders, whole := s.holders(marked)
	if !whole {
		return nil, false
	}
	for i, g := range groups {
		add(holders[i], g.ExternalIDs, g.UUID, g)
	}
	for _, q := range rows(s, nb.QoSTable, &nb.QoS{ExternalIDs: marked}) {
		add(decodeMarking(q), q.ExternalIDs, q.UUID, q)
	}
	for _, a := range rows(s, nb.ACLTable, &nb.ACL{ExternalIDs: marked}) {
		add(decodeRule(a), a.ExternalIDs, a.UUID, a)
	}
	for _, a := range rows(s, nb.AddressSetTable, &nb.AddressSet{ExternalIDs: marked}) {
		add(decodeAddressSet(a), a.ExternalIDs, a.UUID, a)
	}
	for _, r := range rows(s, nb.StaticRouteTable, &nb.StaticRoute{ExternalIDs: marked}) {
		if value, ok := decodeRoute(r); ok {
			add(value, r.ExternalIDs, r.UUID, r)
		}
	}
	for _, g := range rows(s, nb.PortGroupTable, &nb.PortGroup{ExternalIDs: marked}) {
		value, known := s.group(g)
		if !known && !ports[g.ExternalIDs[ownership.RowOwnerKey]] {
			return nil, false
		}
		add(value, g.ExternalIDs, g.UUID, g)
	}
	return out, true
}

// group reads a port group. Ports that are not in the copy come or go in a moment.
func (s *session) group(g *nb.PortGroup) (value intent.PortGroup, known bool) {
	names := make([]string, 0, len(g.Ports))
	known = true
	for _, uuid := range g.Ports {
		p, there := row[nb.LogicalSwitchPort](s, nb.LogicalSwitchPortTable, uuid)
		if !there {
			p, known = &nb.LogicalSwitchPort{Name: uuid}, false
		}
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return intent.PortGroup{Name: g.Name, Ports: strings.Join(names, " ")}, known
}
