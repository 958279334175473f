package ovn

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// Rows of return ports, and rows of tables of which the cache holds only ours. They are found by the shard in their
// external_ids.

// ReturnPortAddresses returns the addresses of the return ports of a router, by port. In the management VPC, where any
// switch may have return ports, it returns those of the router's other ports that are ours as well.
func (c *Client) ReturnPortAddresses(router string) map[string]netip.Addr {
	s := c.current.Load()
	if s == nil {
		return nil
	}
	out := map[string]netip.Addr{}
	for _, p := range rowsByIndex(s, nb.LogicalSwitchPortTable,
		&nb.LogicalSwitchPort{ExternalIDs: map[string]string{ownership.RowShardKey: router}}) {
		if port := s.routerPortByName(p.Options[routerPortOption]); port != nil &&
			(p.ExternalIDs[ownership.RowParentKey] == ownership.VPCSubnetName(router) || router == kubeovn.ManagementVpc) {
			out[port.Name] = decodeRouterPort(port).Network.Addr()
		}
	}
	return out
}

// markedRecords returns the rows that name a shard in their external_ids. The result is not whole if a group refers to
// a row that is not in the cache yet.
func (s *session) markedRecords(shard string) (out []record, whole bool) {
	for _, t := range rowTables {
		out = append(out, t.find(s, shard)...)
	}
	marked := map[string]string{ownership.RowShardKey: shard}
	groups, holders, whole := s.haChassisGroups(marked)
	if !whole {
		return nil, false
	}
	for i, g := range groups {
		out = append(out, record{value: holders[i], origin: rowOrigin(g.ExternalIDs, shard), uuid: g.UUID, row: g})
	}
	for _, g := range rowsByIndex(s, nb.PortGroupTable, &nb.PortGroup{ExternalIDs: marked}) {
		value, known := s.decodePortGroup(g)
		origin := rowOrigin(g.ExternalIDs, shard)
		if !known && !slices.ContainsFunc(out, func(r record) bool {
			_, isPort := r.row.(*nb.LogicalSwitchPort)
			return isPort && r.origin == origin
		}) {
			return nil, false
		}
		out = append(out, record{value: value, origin: origin, uuid: g.UUID, row: g})
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

func encodePortGroup(r intent.PortGroup, uuid string, ids map[string]string) rowDraft {
	g := &nb.PortGroup{UUID: uuid, Name: r.Name, ExternalIDs: ids}
	return rowDraft{row: g, fields: []any{&g.Ports}, externalIDs: &g.ExternalIDs}
}
