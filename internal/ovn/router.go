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

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/kubeovn"
	"github.com/sallyport/sallyport/internal/ovn/nb"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/state"
)

// settleLimit is how long the copy may take to hold all of a transaction.
const settleLimit = 5 * time.Second

// router is what the copy holds of a router that is ours, or could be put back.
type router struct {
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

// load reads a router when the copy holds all of each transaction that it holds something of.
func (s *session) load(ctx context.Context, name string) (out router, err error) {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	err = s.until(ctx, func() (whole bool) {
		out, whole = s.read(name)
		return whole
	})
	if err != nil {
		return out, fmt.Errorf("read router %s: %w", name, err)
	}
	return out, nil
}

// read reads a router as far as it is there. It is not whole when a set names a row that is missing: libovsdb takes in a
// transaction row by row.
func (s *session) read(name string) (out router, whole bool) {
	out.row = s.router(name)
	found, whole := s.legs(name)
	if !whole {
		return out, false
	}
	found = append(append(found, s.balancers(name)...), s.settings(name)...)
	if out.row == nil {
		out.records = distinct(name, append(found, s.strays(name)...))
		return out, true
	}
	links, whole := s.links(out.row)
	if !whole {
		return out, false
	}
	found = append(found, links...)
	for _, uuid := range out.row.NAT {
		n, there := row[nb.NAT](s, nb.NATTable, uuid)
		if !there {
			return out, false
		}
		if value, ok := decodeNAT(n, s.portName(n.GatewayPort)); ok {
			found = append(found, record{value: value, origin: origin(n.ExternalIDs, name), uuid: uuid, row: n})
		}
	}
	for _, uuid := range out.row.Policies {
		p, there := row[nb.LogicalRouterPolicy](s, nb.LogicalRouterPolicyTable, uuid)
		if !there {
			return out, false
		}
		if value, ok := decodePolicy(name, p); ok {
			found = append(found, record{value: value, origin: origin(p.ExternalIDs, name), uuid: uuid, row: p})
		}
	}
	out.records = distinct(name, found)
	return out, true
}

// links are the ports of a router that are ours, with their MAC bindings, and the routing tables that we gave to others.
func (s *session) links(r *nb.LogicalRouter) (out []record, whole bool) {
	ours := false
	for _, uuid := range r.Ports {
		p, there := row[nb.LogicalRouterPort](s, nb.LogicalRouterPortTable, uuid)
		if !there {
			return nil, false
		}
		table, by := p.Options[routeTable], asker(r.Name, p)
		switch {
		case by != (state.Ref{}):
			ours = true
			value := decodePort(p)
			value.Holders = s.groupName(p.Group)
			out = append(out, record{value: value, origin: by, uuid: uuid, row: p})
			out = append(out, s.bindings(p.Name, by)...)
		case strings.HasPrefix(table, ownership.ReturnTables):
			out = append(out, record{value: intent.RoutingTable(p.Name, table), origin: lost, uuid: uuid, row: p})
		}
		if by == (state.Ref{}) {
			out = append(out, s.announcement(r.Name, p)...)
		}
	}
	if !ours {
		out = append(out, s.strays(r.Name)...)
	}
	return out, true
}

// announcement is what Kube-OVN's port of a switch says on the addresses of the router behind it. Kube-OVN itself says nothing; on its own
// VPC operators may.
func (s *session) announcement(router string, p *nb.LogicalRouterPort) []record {
	network, isPort := strings.CutPrefix(p.Name, router+"-")
	socket := s.switchPort(network + "-" + router)
	if !isPort || socket == nil || socket.Options[announces] == "" || router == kubeovn.ManagementVpc {
		return nil
	}
	value := intent.Announcement(socket.Name)
	value.Value = socket.Options[announces]
	return []record{{value: value, origin: lost, uuid: socket.UUID, row: socket}}
}

// asker is who asked for a port of a router; zero: it is not ours.
func asker(router string, p *nb.LogicalRouterPort) state.Ref {
	by := origin(p.ExternalIDs, router)
	if by == (state.Ref{}) && (strings.HasPrefix(p.MAC, ownership.MACs) || ownership.Port(router, p.Name)) {
		return lost // it has lost its marks
	}
	return by
}

// Foreign says whether there is a port of a router that is not ours.
func (c *Client) Foreign(router, port string) bool {
	s := c.current.Load()
	if s == nil {
		return false
	}
	p := s.port(port)
	return p != nil && asker(router, p) == (state.Ref{})
}

// distinct gives each row a key. Where there are several of one key, Kube-OVN's has it: it looks for the row when it deletes
// the object. Ours is then one too many (we put back what Kube-OVN was about to write), and gets a key that nobody wants.
func distinct(router string, found []record) map[intent.RowKey]record {
	for i := range found {
		found[i].key = found[i].value.Key(router)
	}
	slices.SortFunc(found, func(a, b record) int {
		return cmp.Or(a.key.Compare(b.key), cmp.Compare(a.rank(), b.rank()), strings.Compare(a.uuid, b.uuid))
	})
	out := make(map[intent.RowKey]record, len(found))
	for _, r := range found {
		if _, taken := out[r.key]; taken {
			if r.rank() == 0 {
				continue // not ours to remove
			}
			r.key.ID += " again " + r.uuid
		}
		out[r.key] = r
	}
	return out
}

// rank is 0 for a row of others and 1 for one of ours.
func (r record) rank() int {
	if r.origin == (state.Ref{}) {
		return 0
	}
	return 1
}

// row is a row of the copy by its UUID.
func row[T any](s *session, table, uuid string) (*T, bool) {
	r, ok := s.rows.Table(table).Row(uuid).(*T)
	return r, ok
}

// rows are the rows of the copy that have the same index as a model.
func rows[T any](s *session, table string, like *T) []*T {
	copied := s.rows.Table(table)
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

// router is a router's row. OVN allows several of one name, Kube-OVN refuses to work with them; then it is always the same.
func (s *session) router(name string) *nb.LogicalRouter {
	found := rows(s, nb.LogicalRouterTable, &nb.LogicalRouter{Name: name})
	if len(found) == 0 {
		return nil
	}
	return slices.MinFunc(found, func(a, b *nb.LogicalRouter) int { return strings.Compare(a.UUID, b.UUID) })
}

func (s *session) port(name string) *nb.LogicalRouterPort {
	for _, p := range rows(s, nb.LogicalRouterPortTable, &nb.LogicalRouterPort{Name: name}) {
		return p
	}
	return nil
}

// switchPort is the switch port of a name.
func (s *session) switchPort(name string) *nb.LogicalSwitchPort {
	return only(s, nb.LogicalSwitchPortTable, &nb.LogicalSwitchPort{Name: name})
}

// only is the row that has the name of a model, or nil. The cache is asked by name alone: where it has an index of our own as well,
// it would go on to look for rows without a shard.
func only[T any](s *session, table string, like *T) *T {
	_, m, err := s.rows.Table(table).RowByModel(like)
	if err != nil || m == nil {
		return nil
	}
	return m.(any).(*T)
}

// ourMAC says whether a MAC binding has an address of ours.
func ourMAC(b record) bool {
	return strings.HasPrefix(b.row.(*nb.StaticMACBinding).MAC, ownership.MACs)
}

// bindings are the MAC bindings of a port. They are whose the port is, because their table has no external_ids.
func (s *session) bindings(port string, by state.Ref) (out []record) {
	for _, b := range rows(s, nb.StaticMACBindingTable, &nb.StaticMACBinding{LogicalPort: port}) {
		if value, ok := decodeBinding(b); ok {
			out = append(out, record{value: value, origin: by, uuid: b.UUID, row: b})
		}
	}
	return out
}

// strays are MAC bindings of a shard that have outlived their port: somebody deleted it, or the whole router. Only the port's
// name and the MAC address, which is one of ours, tell whose they were. It takes a look at all bindings, and so is done only
// where a router has no port of ours: while a project comes and goes.
func (s *session) strays(shard string) (out []record) {
	for _, m := range s.rows.Table(nb.StaticMACBindingTable).RowsShallow() {
		b := m.(*nb.StaticMACBinding)
		value, ok := decodeBinding(b)
		stray := record{value: value, origin: lost, uuid: b.UUID, row: b}
		if ok && ourMAC(stray) && strings.HasPrefix(b.LogicalPort, shard+"-") && s.port(b.LogicalPort) == nil {
			out = append(out, stray)
		}
	}
	return out
}

// ports names the ports of a router.
func (s *session) ports(name string) []string {
	r := s.router(name)
	if r == nil {
		return nil
	}
	out := make([]string, 0, len(r.Ports))
	for _, uuid := range r.Ports {
		if p, there := row[nb.LogicalRouterPort](s, nb.LogicalRouterPortTable, uuid); there {
			out = append(out, p.Name)
		}
	}
	slices.Sort(out)
	return out
}

// routers names all routers.
func (s *session) routers() (out []string) {
	for _, m := range s.rows.Table(nb.LogicalRouterTable).RowsShallow() {
		out = append(out, m.(*nb.LogicalRouter).Name)
	}
	return out
}

// Translated says whether somebody else translates the addresses of what leaves a prefix behind a router.
func (c *Client) Translated(router string, within netip.Prefix) bool {
	s := c.current.Load()
	if s == nil {
		return false
	}
	r := s.router(router)
	if r == nil {
		return false
	}
	return slices.ContainsFunc(r.NAT, func(uuid string) bool {
		n, there := row[nb.NAT](s, nb.NATTable, uuid)
		return there && n.Type == source && prefix(n.LogicalIP) == within && origin(n.ExternalIDs, router) == (state.Ref{})
	})
}

// Gateways are the chassis that may hold the ports of ours of a router, the first first.
func (c *Client) Gateways(router string) (out []string) {
	s := c.current.Load()
	if s == nil {
		return nil
	}
	found := rows(s, nb.GatewayChassisTable, &nb.GatewayChassis{ExternalIDs: map[string]string{ownership.RowShardKey: router}})
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
