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

// settleTimeout is how long the copy may take to hold all of a transaction.
const settleTimeout = 5 * time.Second

// routerState is what the copy holds of a router that is ours, or could be put back.
type routerState struct {
	row     *nb.LogicalRouter // nil: there is none of that name
	records map[intent.RowKey]record
}

// record is a row with where it is and whose it is.
type record struct {
	key    intent.RowKey
	value  intent.Row
	origin state.Ref // zero: not ours
	uuid   string
	row    model.Model
}

// loadRouter reads a router when the copy holds all of each transaction that it holds something of.
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

// readRouter reads a router as far as it is there. It is not whole when a set names a row that is missing: libovsdb
// takes in a transaction row by row.
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
	found = append(found, links...)
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

// routerPortRecords are the ports of a router that are ours, with their MAC bindings, and the routing tables that we
// gave to others.
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

// natAddressesRecords is what Kube-OVN's port of a switch says on the addresses of the router behind it. Kube-OVN
// itself says nothing; on its own VPC operators may.
func (s *session) natAddressesRecords(router string, p *nb.LogicalRouterPort) []record {
	network, isPort := kubeovn.SubnetOfRouterPort(router, p.Name)
	socket := s.switchPortByName(kubeovn.RouterSwitchPort(network, router))
	if !isPort || socket == nil || socket.Options[natAddressesOption] == "" || router == kubeovn.ManagementVpc {
		return nil
	}
	value := intent.NATAddressesOption(socket.Name)
	value.Value = socket.Options[natAddressesOption]
	return []record{{value: value, origin: unknownOrigin, uuid: socket.UUID, row: socket}}
}

// portOrigin is who asked for a port of a router; zero: it is not ours.
func portOrigin(router string, p *nb.LogicalRouterPort) state.Ref {
	by := rowOrigin(p.ExternalIDs, router)
	if by == (state.Ref{}) && (strings.HasPrefix(p.MAC, ownership.MACPrefix) ||
		ownership.IsOwnRouterPort(router, p.Name)) {
		return unknownOrigin // it has lost its marks
	}
	return by
}

// HasForeignPort says whether there is a port of a router that is not ours.
func (c *Client) HasForeignPort(router, port string) bool {
	s := c.current.Load()
	if s == nil {
		return false
	}
	p := s.routerPortByName(port)
	return p != nil && portOrigin(router, p) == (state.Ref{})
}

// indexByKey gives each row a key. Where there are several of one key, Kube-OVN's has it: it looks for the row when it
// deletes the object. Ours is then one too many (we put back what Kube-OVN was about to write), and gets a key that
// nobody wants.
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

// ownershipRank is 0 for a row of others and 1 for one of ours.
func (r record) ownershipRank() int {
	if r.origin == (state.Ref{}) {
		return 0
	}
	return 1
}

// rowByUUID is a row of the copy by its UUID.
func rowByUUID[T any](s *session, table, uuid string) (*T, bool) {
	r, ok := s.tableCache.Table(table).Row(uuid).(*T)
	return r, ok
}

// rowsByIndex are the rows of the copy that have the same index as a model.
func rowsByIndex[T any](s *session, table string, like *T) []*T {
	copied := s.tableCache.Table(table)
	if copied == nil {
		return nil // the engine is too old for it
	}
	found, err := copied.RowsByModels([]model.Model{like})
	if err != nil {
		return nil // like is of another table: a mistake in this package, which the tests would show
	}
	out := make([]*T, 0, len(found))
	for _, m := range found {
		out = append(out, m.(*T))
	}
	return out
}

// routerByName is a router's row. OVN allows several of one name, Kube-OVN refuses to work with them; then it is always
// the same.
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

// readSwitchPort is the switch port of a name.
func (s *session) switchPortByName(name string) *nb.LogicalSwitchPort {
	return rowByName(s, nb.LogicalSwitchPortTable, &nb.LogicalSwitchPort{Name: name})
}

// rowByName is the row that has the name of a model, or nil. The cache is asked by name alone: where it has an index of
// our own as well, it would go on to look for rows without a shard.
func rowByName[T any](s *session, table string, like *T) *T {
	_, m, err := s.tableCache.Table(table).RowByModel(like)
	if err != nil || m == nil {
		return nil
	}
	return m.(any).(*T)
}

// hasOwnMAC says whether a MAC binding has an address of ours.
func hasOwnMAC(b record) bool {
	return strings.HasPrefix(b.row.(*nb.StaticMACBinding).MAC, ownership.MACPrefix)
}

// macBindingRecords are the MAC bindings of a port. They are whose the port is, because their table has no
// external_ids.
func (s *session) macBindingRecords(port string, by state.Ref) (out []record) {
	for _, b := range rowsByIndex(s, nb.StaticMACBindingTable, &nb.StaticMACBinding{LogicalPort: port}) {
		if value, ok := decodeMACBinding(b); ok {
			out = append(out, record{value: value, origin: by, uuid: b.UUID, row: b})
		}
	}
	return out
}

// strayMACBindings are MAC bindings of a shard that have outlived their port: somebody deleted it, or the whole router.
// Only the port's name and the MAC address, which is one of ours, tell whose they were. It takes a look at all
// bindings, and so is done only where a router has no port of ours: while a project comes and goes.
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

// routerPortNames names the ports of a router.
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

// routerNames names all routers.
func (s *session) routerNames() (out []string) {
	for _, m := range s.tableCache.Table(nb.LogicalRouterTable).RowsShallow() {
		out = append(out, m.(*nb.LogicalRouter).Name)
	}
	return out
}

// HasForeignSNAT says whether somebody else translates the addresses of what leaves a prefix behind a router.
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

// GatewayChassisNames are the chassis that may hold the ports of ours of a router, the first first.
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
