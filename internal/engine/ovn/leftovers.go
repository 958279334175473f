package ovn

import (
	"context"
	"fmt"

	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/state"
)

// LeakedRowTarget is the target for what Kube-OVN leaves behind of a VPC, and nobody else will ever remove:
//
//   - load balancers and address sets, which it makes with the router and does not remove with it. While the router is there,
//     they are Kube-OVN's and not seen here;
//   - a port of an external switch whose router port is gone, because the router port's OvnEip was deleted. While it is there,
//     Kube-OVN can't connect the switch again.
func (c *Client) LeakedRowTarget(shard string, externals []string) state.Target[intent.RowKey, intent.Row] {
	return &leakedRowTarget{client: c, shard: shard, externalSubnets: externals}
}

// LeftoverRows is the load balancers and address sets of a VPC, by name, whether the router is there or not.
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
}

// Scope says what is ours.
func (t *leakedRowTarget) Scope() string {
	return "OVN northbound: what Kube-OVN has left behind of router " + t.shard
}

// Observe reads our copy of the database and asks nobody.
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
	if s.routerByName(t.shard) == nil {
		return append(s.leftoverRecords(t.shard), s.danglingSwitchPorts(t.shard, t.externalSubnets)...)
	}
	return s.danglingSwitchPorts(t.shard, t.externalSubnets)
}

// Apply removes rows in one transaction. Our copy is without them then, as with Rows.
func (t *leakedRowTarget) Apply(ctx context.Context, changes []rowChange) map[intent.RowKey]error {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	s := t.client.current.Load()
	if s == nil {
		return failAll(changes, ErrNotConnected)
	}
	if err := t.removeRows(ctx, s, changes); err != nil {
		return failAll(changes, fmt.Errorf("remove what Kube-OVN left: %w", err))
	}
	return nil
}

func (t *leakedRowTarget) removeRows(ctx context.Context, s *session, changes []rowChange) error {
	chosen := map[intent.RowKey]bool{}
	for _, c := range changes {
		chosen[c.Key] = c.IsRemoval()
	}
	var ops []ovsdb.Operation
	for _, r := range t.leakedRecords(s) {
		if !chosen[r.key] {
			continue
		}
		more, err := s.deleteOps(r)
		if err != nil {
			return err
		}
		ops = append(ops, more...)
	}
	if len(ops) == 0 {
		return nil
	}
	results, err := s.nbClient.Transact(ctx, ops...)
	if err != nil {
		return err
	}
	if _, err := ovsdb.CheckOperationResults(results, ops); err != nil {
		return err
	}
	t.client.writes.Add(1)
	return nil
}

// deleteOps is the operations that remove a row. A switch port is in the set of its switch, and must still lead
// nowhere: our copy takes in a transaction that makes both ports one by one.
func (s *session) deleteOps(r record) ([]ovsdb.Operation, error) {
	port, isPort := r.row.(*nb.LogicalSwitchPort)
	if !isPort {
		return s.nbClient.Where(r.row).Delete()
	}
	take, err := parentSets[nb.LogicalSwitchPortTable].removeOp(port.UUID)
	return []ovsdb.Operation{requireNameOp(nb.LogicalRouterPortTable, port.Options[routerPortOption],
		ovsdb.WaitConditionNotEqual), take}, err
}

// leftoverRecords is the load balancers and address sets that Kube-OVN made for a VPC.
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

// Of a switch port's options.
const (
	routerPortOption   = "router-port"
	natAddressesOption = "nat-addresses"

	natAddressesRouter = "router" // what it announces: every address of the router
)

// danglingSwitchPorts is the ports of external switches that lead to a port of a VPC's router that is not there.
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
