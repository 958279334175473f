package ovn

import (
	"context"
	"fmt"

	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/kubeovn"
	"github.com/sallyport/sallyport/internal/ovn/nb"
	"github.com/sallyport/sallyport/internal/state"
)

// Remains is the target for what Kube-OVN leaves behind of a VPC, and nobody else will ever remove:
//
//   - load balancers and address sets, which it makes with the router and does not remove with it. While the router is there,
//     they are Kube-OVN's and not seen here;
//   - a port of an external switch whose router port is gone, because the router port's OvnEip was deleted. While it is there,
//     Kube-OVN can't connect the switch again.
func (c *Client) Remains(shard string, externals []string) state.Target[intent.RowKey, intent.Row] {
	return &remains{client: c, shard: shard, externals: externals}
}

// Left is the load balancers and address sets of a VPC, by name, whether the router is there or not.
func (c *Client) Left(shard string) []string {
	s := c.current.Load()
	if s == nil {
		return nil
	}
	var out []string
	for _, r := range s.left(shard) {
		out = append(out, r.key.ID)
	}
	return out
}

type remains struct {
	client    *Client
	shard     string
	externals []string
}

// Scope says what is ours.
func (t *remains) Scope() string {
	return "OVN northbound: what Kube-OVN has left behind of router " + t.shard
}

// Observe reads our copy of the database and asks nobody.
func (t *remains) Observe(context.Context) (intent.Rows, error) {
	s := t.client.current.Load()
	if s == nil {
		return nil, ErrNotConnected
	}
	out := intent.Rows{}
	for _, r := range t.rows(s) {
		out[r.key] = state.Entry[intent.Row]{Value: r.value, Origin: r.origin}
	}
	return out, nil
}

func (t *remains) rows(s *session) []record {
	if s.router(t.shard) == nil {
		return append(s.left(t.shard), s.loose(t.shard, t.externals)...)
	}
	return s.loose(t.shard, t.externals)
}

// Apply removes rows in one transaction. Our copy is without them then, as with Rows.
func (t *remains) Apply(ctx context.Context, changes []change) map[intent.RowKey]error {
	ctx, cancel := context.WithTimeout(ctx, applyLimit)
	defer cancel()
	s := t.client.current.Load()
	if s == nil {
		return all(changes, ErrNotConnected)
	}
	if err := t.remove(ctx, s, changes); err != nil {
		return all(changes, fmt.Errorf("remove what Kube-OVN left: %w", err))
	}
	return nil
}

func (t *remains) remove(ctx context.Context, s *session, changes []change) error {
	chosen := map[intent.RowKey]bool{}
	for _, c := range changes {
		chosen[c.Key] = c.Removes()
	}
	var ops []ovsdb.Operation
	for _, r := range t.rows(s) {
		if !chosen[r.key] {
			continue
		}
		more, err := s.removal(r)
		if err != nil {
			return err
		}
		ops = append(ops, more...)
	}
	if len(ops) == 0 {
		return nil
	}
	results, err := s.nb.Transact(ctx, ops...)
	if err != nil {
		return err
	}
	if _, err := ovsdb.CheckOperationResults(results, ops); err != nil {
		return err
	}
	t.client.writes.Add(1)
	return nil
}

// removal is the operations that remove a row. A switch port is in the set of its switch, and must still lead nowhere: our copy
// takes in a transaction that makes both ports one by one.
func (s *session) removal(r record) ([]ovsdb.Operation, error) {
	port, isPort := r.row.(*nb.LogicalSwitchPort)
	if !isPort {
		return s.nb.Where(r.row).Delete()
	}
	take, err := homes[nb.LogicalSwitchPortTable].leave(port.UUID)
	return []ovsdb.Operation{require(nb.LogicalRouterPortTable, port.Options[routerPort], ovsdb.WaitConditionNotEqual), take}, err
}

// left is the load balancers and address sets that Kube-OVN made for a VPC.
func (s *session) left(vpc string) (out []record) {
	for _, name := range kubeovn.LoadBalancers(vpc) {
		for _, b := range s.balancersNamed(name) {
			out = append(out, remainder(vpc, nb.LoadBalancerTable, name, b))
		}
	}
	for _, name := range kubeovn.AddressSets(vpc) {
		if a := only(s, nb.AddressSetTable, &nb.AddressSet{Name: name}); a != nil && a.ExternalIDs[kubeovn.AddressSetVpc] == vpc {
			out = append(out, remainder(vpc, nb.AddressSetTable, name, a))
		}
	}
	return out
}

// Of a switch port's options.
const (
	routerPort = "router-port"
	announces  = "nat-addresses"

	allOfRouter = "router" // what it announces: every address of the router
)

// loose is the ports of external switches that lead to a port of a VPC's router that is not there.
func (s *session) loose(vpc string, externals []string) (out []record) {
	for _, subnet := range externals {
		p := s.switchPort(subnet + "-" + vpc)
		if p != nil && p.Type == nb.RouterPort && p.Options[routerPort] == vpc+"-"+subnet && s.port(vpc+"-"+subnet) == nil {
			out = append(out, remainder(vpc, nb.LogicalSwitchPortTable, p.Name, p))
		}
	}
	return out
}

func remainder(vpc, table, name string, row model.Model) record {
	value := intent.Remainder{Table: table, Name: name}
	return record{key: value.Key(vpc), value: value, origin: state.Ref{Kind: "Vpc", Name: vpc}, row: row}
}
