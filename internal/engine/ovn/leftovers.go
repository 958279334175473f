package ovn

import (
	"context"
	"fmt"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// LeakedRowTarget returns the target for rows of a VPC that Kube-OVN leaks and nobody else deletes:
//
//   - the router, if Kube-OVN has forgotten it: it removes the router after the Vpc;
//   - load balancers and address sets, which Kube-OVN creates with the router and does not delete with it. As long as
//     the router exists, they belong to Kube-OVN and are ignored here;
//   - switch ports of external switches whose router port is gone because its OvnEip was deleted. As long as such a
//     port exists, Kube-OVN can't connect the switch again.
func (c *Client) LeakedRowTarget(shard string, externals []string, forgotten bool,
) state.Target[intent.RowKey, intent.Row] {
	return &leakedRowTarget{client: c, shard: shard, externalSubnets: externals, isForgotten: forgotten}
}

// LeftoverRows returns the names of the load balancers and address sets of a VPC, whether the router exists or not.
func (c *Client) LeftoverRows(shard string) []string {
	s := c.current.Load()
	if s == nil {
		return nil
	}
	var out []string
	for _, r := range s.leftoverRecords(shard) {
		out = append(out, r.key.ID)
	}
	return out
}

type leakedRowTarget struct {
	client          *Client
	shard           string
	externalSubnets []string
	isForgotten     bool // the router
}

// Scope describes which rows are ours.
func (t *leakedRowTarget) Scope() string {
	return "OVN northbound: rows that Kube-OVN has leaked for router " + t.shard
}

// Observe reads the cache. It sends no query to the server.
func (t *leakedRowTarget) Observe(context.Context) (intent.Rows, error) {
	s := t.client.current.Load()
	if s == nil {
		return nil, ErrNotConnected
	}
	out := intent.Rows{}
	for _, r := range t.leakedRecords(s) {
		out[r.key] = state.Entry[intent.Row]{Value: r.value, Origin: r.origin}
	}
	return out, nil
}

func (t *leakedRowTarget) leakedRecords(s *session) []record {
	ports := s.danglingSwitchPorts(t.shard, t.externalSubnets)
	router := s.routerByName(t.shard)
	switch {
	case router == nil:
		return append(s.leftoverRecords(t.shard), ports...)
	case t.isForgotten:
		return append(ports, newLeakedRecord(t.shard, nb.LogicalRouterTable, router.Name, router))
	default:
		return ports
	}
}

// Apply deletes rows in one transaction. When it returns, the cache no longer contains them, as with RowTarget. It may
// wait like RowTarget.
func (t *leakedRowTarget) Apply(ctx context.Context, changes []rowChange) map[intent.RowKey]error {
	prepare := func(context.Context) (*pendingWrite, error) { return t.removeRows(changes) }
	write, err := prepare(ctx)
	if err == nil && write != nil {
		if t.client.recomputes.interval > 0 && slices.ContainsFunc(write.ops, isSwitchPortRemoval) {
			err = t.client.submitRecompute(ctx, prepare)
		} else {
			err = t.client.commitOne(ctx, write)
		}
	}
	if err != nil {
		return failAll(changes, fmt.Errorf("delete rows leaked by Kube-OVN: %w", err))
	}
	return nil
}

// isSwitchPortRemoval reports whether an operation removes a port from a switch. Load balancers and address sets that
// no router uses are removed incrementally.
func isSwitchPortRemoval(op ovsdb.Operation) bool { return op.Table == nb.LogicalSwitchTable }

// removeRows returns the operations, or nil if there is nothing to delete.
func (t *leakedRowTarget) removeRows(changes []rowChange) (*pendingWrite, error) {
	s := t.client.current.Load()
	if s == nil {
		return nil, ErrNotConnected
	}
	chosen := map[intent.RowKey]bool{}
	for _, c := range changes {
		chosen[c.Key] = c.IsRemoval()
	}
	write := &pendingWrite{session: s}
	for _, r := range t.leakedRecords(s) {
		if !chosen[r.key] {
			continue
		}
		more, err := s.deleteOps(r)
		if err != nil {
			return nil, err
		}
		write.ops = append(write.ops, more...)
	}
	if len(write.ops) == 0 {
		return nil, nil
	}
	return write, nil
}

// deleteOps returns the operations that delete a row. A switch port is removed from the set of its switch, on condition
// that its router port still does not exist: if a transaction creates both ports, the cache receives them one by one. A
// router is deleted only if it is Kube-OVN's.
func (s *session) deleteOps(r record) ([]ovsdb.Operation, error) {
	if router, is := r.row.(*nb.LogicalRouter); is {
		vendor := ovsdb.OvsMap{GoMap: map[any]any{ownership.RowVendorKey: kubeOVNVendor}}
		return []ovsdb.Operation{{Op: ovsdb.OperationDelete, Table: nb.LogicalRouterTable, Where: []ovsdb.Condition{
			ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, ovsdb.UUID{GoUUID: router.UUID}),
			ovsdb.NewCondition(externalIDsColumn, ovsdb.ConditionIncludes, vendor),
		}}}, nil
	}
	port, isPort := r.row.(*nb.LogicalSwitchPort)
	if !isPort {
		return s.nbClient.Where(r.row).Delete()
	}
	take, err := switchPortSet.removeOp(port.UUID)
	return []ovsdb.Operation{requireNameOp(nb.LogicalRouterPortTable, port.Options[routerPortOption],
		ovsdb.WaitConditionNotEqual), take}, err
}

// leftoverRecords returns the load balancers and address sets that Kube-OVN created for a VPC.
func (s *session) leftoverRecords(vpc string) (out []record) {
	for _, name := range kubeovn.LoadBalancerNames(vpc) {
		for _, b := range s.loadBalancersByName(name) {
			out = append(out, newLeakedRecord(vpc, nb.LoadBalancerTable, name, b))
		}
	}
	for _, name := range kubeovn.AddressSetNames(vpc) {
		if a := rowByName(s, nb.AddressSetTable, &nb.AddressSet{Name: name}); a != nil &&
			a.ExternalIDs[kubeovn.AddressSetVpcKey] == vpc {
			out = append(out, newLeakedRecord(vpc, nb.AddressSetTable, name, a))
		}
	}
	return out
}

// Options of switch ports.
const (
	routerPortOption   = "router-port"
	natAddressesOption = "nat-addresses"

	natAddressesRouter = "router" // announce all addresses of the router
)

// danglingSwitchPorts returns the ports of external switches that lead to a missing port of a VPC's router.
func (s *session) danglingSwitchPorts(vpc string, externals []string) (out []record) {
	for _, subnet := range externals {
		p := s.switchPortByName(kubeovn.RouterSwitchPort(subnet, vpc))
		peer := kubeovn.RouterPort(vpc, subnet)
		if p != nil && p.Type == nb.RouterPortType && p.Options[routerPortOption] == peer && s.routerPortByName(peer) == nil {
			out = append(out, newLeakedRecord(vpc, nb.LogicalSwitchPortTable, p.Name, p))
		}
	}
	return out
}

func newLeakedRecord(vpc, table, name string, row model.Model) record {
	value := intent.LeakedRow{Table: table, Name: name}
	return record{key: value.Key(vpc), value: value, origin: state.Ref{Kind: "Vpc", Name: vpc}, row: row}
}
