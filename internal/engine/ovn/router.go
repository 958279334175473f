package ovn

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// settleTimeout limits how long the cache may take to contain all of a transaction.
const settleTimeout = 5 * time.Second

// routerState is what the cache holds of a router: rows that are ours, and rows of Kube-OVN that we may restore.
type routerState struct {
	row     *nb.LogicalRouter // nil: no such router
	records map[intent.RowKey]record
}

// record is a row with its key and origin.
type record struct {
	key    intent.RowKey
	value  intent.Row
	origin state.Ref // zero: not ours
	uuid   string
	row    model.Model
	entry  string // key in a map column, if the record is an entry of one
}

// loadRouter reads a router. It waits until the cache has all rows that the router refers to.
func (s *session) loadRouter(ctx context.Context, name string) (out routerState, err error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	err = s.waitUntil(ctx, func() (whole bool) {
		out, whole = s.readRouter(name)
		return whole
	})
	if err != nil {
		return out, fmt.Errorf("read router %s: %w", name, err)
	}
	return out, nil
}

// readRouter reads what the cache has of a router. The result is not whole if a set refers to a row that is missing:
// libovsdb applies a transaction row by row.
func (s *session) readRouter(name string) (out routerState, whole bool) {
	out.row = s.routerByName(name)
	found, whole := s.markedRecords(name)
	if !whole {
		return out, false
	}
	found = append(append(found, s.loadBalancerRecords(name)...), s.nbGlobalOptionRecords(name)...)
	if out.row == nil {
		out.records = indexByKey(name, append(found, s.strayMACBindings(name)...))
		return out, true
	}
	links, whole := s.routerPortRecords(out.row)
	if !whole {
		return out, false
	}
	found = append(append(found, links...), routerOptionRecords(out.row)...)
	for _, uuid := range out.row.NAT {
		n, there := rowByUUID[nb.NAT](s, nb.NATTable, uuid)
		if !there {
			return out, false
		}
		if value, ok := decodeNAT(n, s.routerPortName(n.GatewayPort)); ok {
			found = append(found, record{value: value, origin: rowOrigin(n.ExternalIDs, name), uuid: uuid, row: n})
		}
	}
	for _, uuid := range out.row.Policies {
		p, there := rowByUUID[nb.LogicalRouterPolicy](s, nb.LogicalRouterPolicyTable, uuid)
		if !there {
			return out, false
		}
		if value, ok := decodeRouterPolicy(name, p); ok {
			found = append(found, record{value: value, origin: rowOrigin(p.ExternalIDs, name), uuid: uuid, row: p})
		}
	}
	out.records = indexByKey(name, found)
	return out, true
}

// routerPortRecords returns our ports of a router with their MAC bindings, and the routing tables that we set on other
// ports.
func (s *session) routerPortRecords(r *nb.LogicalRouter) (out []record, whole bool) {
	ours := false
	for _, uuid := range r.Ports {
		p, there := rowByUUID[nb.LogicalRouterPort](s, nb.LogicalRouterPortTable, uuid)
		if !there {
			return nil, false
		}
		table, by := p.Options[routeTableOption], portOrigin(r.Name, p)
		switch {
		case by != (state.Ref{}):
			ours = true
			value := decodeRouterPort(p)
			value.HAChassisGroup = s.haChassisGroupName(p.Group)
			out = append(out, record{value: value, origin: by, uuid: uuid, row: p})
			out = append(out, s.macBindingRecords(p.Name, by)...)
		case strings.HasPrefix(table, ownership.ReturnTablePrefix):
			out = append(out, record{
				value:  intent.RouteTableOption(p.Name, table),
				origin: unknownOrigin,
				uuid:   uuid,
				row:    p,
			})
		}
		if by == (state.Ref{}) {
			out = append(out, s.natAddressesRecords(r.Name, p)...)
		}
	}
	if !ours {
		out = append(out, s.strayMACBindings(r.Name)...)
	}
	return out, true
}

// routerOptionRecords returns the option of a router that we set. It has no origin, so that it is never removed: it goes
// with the router, and each change of a router makes northd compute everything again.
func routerOptionRecords(r *nb.LogicalRouter) []record {
	value := intent.LearnNeighboursOption(r.Name)
	if r.Options[value.Name] == "" {
		return nil
	}
	value.Value = r.Options[value.Name]
	return []record{{value: value, uuid: r.UUID, row: r}}
}

// natAddressesRecords returns the nat-addresses option of Kube-OVN's switch port that leads to a router port. Kube-OVN
// does not set the option. On Kube-OVN's own VPC operators may set it, so it is not ours there.
func (s *session) natAddressesRecords(router string, p *nb.LogicalRouterPort) []record {
	network, isPort := kubeovn.SubnetOfRouterPort(router, p.Name)
	lsp := s.switchPortByName(kubeovn.RouterSwitchPort(network, router))
	if !isPort || lsp == nil || lsp.Options[natAddressesOption] == "" || router == kubeovn.ManagementVpc {
		return nil
	}
	value := intent.NATAddressesOption(lsp.Name)
	value.Value = lsp.Options[natAddressesOption]
	return []record{{value: value, origin: unknownOrigin, uuid: lsp.UUID, row: lsp}}
}

// portOrigin returns the origin of a router port, or zero if it is not ours.
func portOrigin(router string, p *nb.LogicalRouterPort) state.Ref {
	by := rowOrigin(p.ExternalIDs, router)
	if by == (state.Ref{}) && (strings.HasPrefix(p.MAC, ownership.MACPrefix) ||
		ownership.IsOwnRouterPort(router, p.Name)) {
		return unknownOrigin // its external_ids are lost
	}
	return by
}

// HasForeignPort reports whether a router port exists that is not ours.
func (c *Client) HasForeignPort(router, port string) bool {
	s := c.current.Load()
	if s == nil {
		return false
	}
	p := s.routerPortByName(port)
	return p != nil && portOrigin(router, p) == (state.Ref{})
}

// indexByKey assigns a key to each row. If several rows have the same key, Kube-OVN's gets it, because Kube-OVN looks
// for the row when it deletes the object. Ours is a duplicate then (we restored a row that Kube-OVN was about to
// write). It gets a key that no intent has, so it is removed.
func indexByKey(router string, found []record) map[intent.RowKey]record {
	for i := range found {
		found[i].key = found[i].value.Key(router)
	}
	slices.SortFunc(found, func(a, b record) int {
		return cmp.Or(a.key.Compare(b.key), cmp.Compare(a.ownershipRank(), b.ownershipRank()),
			strings.Compare(a.uuid, b.uuid))
	})
	out := make(map[intent.RowKey]record, len(found))
	for _, r := range found {
		if _, taken := out[r.key]; taken {
			if r.ownershipRank() == 0 {
				continue // not ours to remove
			}
			r.key.ID += " again " + r.uuid
		}
		out[r.key] = r
	}
	return out
}

// ownershipRank returns 0 for rows of others and 1 for ours.
func (r record) ownershipRank() int {
	if r.origin == (state.Ref{}) {
		return 0
	}
	return 1
}

// rowByUUID returns a row of the cache.
func rowByUUID[T any](s *session, table, uuid string) (*T, bool) {
	r, ok := s.tableCache.Table(table).Row(uuid).(*T)
	return r, ok
}

// rowsByIndex returns the rows of the cache that match a model in one of its indexes.
func rowsByIndex[T any](s *session, table string, like *T) []*T {
	copied := s.tableCache.Table(table)
	if copied == nil {
		return nil // this OVN is too old to have the table
	}
	found, err := copied.RowsByModels([]model.Model{like})
	if err != nil {
		return nil // like belongs to another table: a bug in this package, which tests would find
	}
	out := make([]*T, 0, len(found))
	for _, m := range found {
		out = append(out, m.(*T))
	}
	return out
}

// routerByName returns the row of a router. OVN allows several routers with one name, which Kube-OVN does not support;
// then the result is always the same one.
func (s *session) routerByName(name string) *nb.LogicalRouter {
	found := rowsByIndex(s, nb.LogicalRouterTable, &nb.LogicalRouter{Name: name})
	if len(found) == 0 {
		return nil
	}
	return slices.MinFunc(found, func(a, b *nb.LogicalRouter) int { return strings.Compare(a.UUID, b.UUID) })
}

func (s *session) routerPortByName(name string) *nb.LogicalRouterPort {
	for _, p := range rowsByIndex(s, nb.LogicalRouterPortTable, &nb.LogicalRouterPort{Name: name}) {
		return p
	}
	return nil
}

// switchPortByName returns the switch port with that name, or nil.
func (s *session) switchPortByName(name string) *nb.LogicalSwitchPort {
	return rowByName(s, nb.LogicalSwitchPortTable, &nb.LogicalSwitchPort{Name: name})
}

// rowByName returns the row with the name of a model, or nil. It looks up a single row by name only: if the table also
// has our index, a lookup in all indexes would go on and match rows without a shard.
func rowByName[T any](s *session, table string, like *T) *T {
	_, m, err := s.tableCache.Table(table).RowByModel(like)
	if err != nil || m == nil {
		return nil
	}
	return m.(any).(*T)
}

// hasOwnMAC reports whether a MAC binding has one of our MAC addresses.
func hasOwnMAC(b record) bool {
	return strings.HasPrefix(b.row.(*nb.StaticMACBinding).MAC, ownership.MACPrefix)
}

// macBindingRecords returns the MAC bindings of a port. They have the origin of the port, because their table has no
// external_ids.
func (s *session) macBindingRecords(port string, by state.Ref) (out []record) {
	for _, b := range rowsByIndex(s, nb.StaticMACBindingTable, &nb.StaticMACBinding{LogicalPort: port}) {
		if value, ok := decodeMACBinding(b); ok {
			out = append(out, record{value: value, origin: by, uuid: b.UUID, row: b})
		}
	}
	return out
}

// strayMACBindings returns the MAC bindings of a shard whose port or router was deleted by someone else. Only the name
// of the port and our MAC prefix identify them. The function scans all bindings, so it is called only for routers
// without one of our ports: while a project is created or deleted.
func (s *session) strayMACBindings(shard string) (out []record) {
	for _, m := range s.tableCache.Table(nb.StaticMACBindingTable).RowsShallow() {
		b := m.(*nb.StaticMACBinding)
		value, ok := decodeMACBinding(b)
		stray := record{value: value, origin: unknownOrigin, uuid: b.UUID, row: b}
		if ok && hasOwnMAC(stray) && strings.HasPrefix(b.LogicalPort, shard+"-") &&
			s.routerPortByName(b.LogicalPort) == nil {
			out = append(out, stray)
		}
	}
	return out
}

// routerPortNames returns the names of the ports of a router.
func (s *session) routerPortNames(name string) []string {
	r := s.routerByName(name)
	if r == nil {
		return nil
	}
	out := make([]string, 0, len(r.Ports))
	for _, uuid := range r.Ports {
		if p, there := rowByUUID[nb.LogicalRouterPort](s, nb.LogicalRouterPortTable, uuid); there {
			out = append(out, p.Name)
		}
	}
	slices.Sort(out)
	return out
}

// routerNames returns the names of all routers.
func (s *session) routerNames() (out []string) {
	for _, m := range s.tableCache.Table(nb.LogicalRouterTable).RowsShallow() {
		out = append(out, m.(*nb.LogicalRouter).Name)
	}
	return out
}

// HasForeignSNAT reports whether a router has an SNAT of someone else for addresses of a prefix.
func (c *Client) HasForeignSNAT(router string, within netip.Prefix) bool {
	s := c.current.Load()
	if s == nil {
		return false
	}
	r := s.routerByName(router)
	if r == nil {
		return false
	}
	return slices.ContainsFunc(r.NAT, func(uuid string) bool {
		n, there := rowByUUID[nb.NAT](s, nb.NATTable, uuid)
		return there && n.Type == natTypeSNAT && parsePrefix(n.LogicalIP) == within &&
			rowOrigin(n.ExternalIDs, router) == (state.Ref{})
	})
}

// GatewayChassisNames returns the chassis of our gateway ports on a router, highest priority first.
func (c *Client) GatewayChassisNames(router string) (out []string) {
	s := c.current.Load()
	if s == nil {
		return nil
	}
	found := rowsByIndex(s, nb.GatewayChassisTable,
		&nb.GatewayChassis{ExternalIDs: map[string]string{ownership.RowShardKey: router}})
	slices.SortFunc(found, func(a, b *nb.GatewayChassis) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), strings.Compare(a.Name, b.Name))
	})
	for _, g := range found {
		if !slices.Contains(out, g.ChassisName) {
			out = append(out, g.ChassisName)
		}
	}
	return out
}
