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

// Remains is the target for what Kube-OVN leaves behind of a VPC: load balancers and address sets that it makes with the
// router and does not remove with it. While the router is there, they are Kube-OVN's and not seen here.
func (c *Client) Remains(shard string) state.Target[intent.RowKey, intent.Row] {
	return &remains{client: c, shard: shard}
}

// Left is what there is of a VPC besides its router, by name, whether the router is there or not.
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
	client *Client
	shard  string
}

// Scope says what is ours: nobody else will ever remove it.
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
	if s.router(t.shard) != nil {
		return out, nil
	}
	for _, r := range s.left(t.shard) {
		out[r.key] = state.Entry[intent.Row]{Value: r.value, Origin: r.origin}
	}
	return out, nil
}

// Apply removes rows in one transaction, and returns when our copy is without them.
func (t *remains) Apply(ctx context.Context, changes []change) map[intent.RowKey]error {
	ctx, cancel := context.WithTimeout(ctx, applyLimit)
	defer cancel()
	s := t.client.current.Load()
	if s == nil {
		return all(changes, ErrNotConnected)
	}
	var ops []ovsdb.Operation
	for _, r := range s.left(t.shard) {
		more, err := s.nb.Where(r.row).Delete()
		if err != nil {
			return all(changes, err)
		}
		ops = append(ops, more...)
	}
	if len(ops) == 0 {
		return nil
	}
	results, err := s.nb.Transact(ctx, ops...)
	if err == nil {
		_, err = ovsdb.CheckOperationResults(results, ops)
	}
	if err == nil {
		t.client.writes.Add(1)
		err = s.until(ctx, func() bool { return len(s.left(t.shard)) == 0 })
	}
	if err != nil {
		return all(changes, fmt.Errorf("remove what Kube-OVN left: %w", err))
	}
	return nil
}

// left is the rows that Kube-OVN made for a VPC besides the router.
func (s *session) left(vpc string) (out []record) {
	add := func(table, name, uuid string, row model.Model) {
		value := intent.Remainder{Table: table, Name: name}
		out = append(out, record{key: value.Key(vpc), value: value, origin: state.Ref{Kind: "Vpc", Name: vpc}, uuid: uuid, row: row})
	}
	for _, name := range kubeovn.LoadBalancers(vpc) {
		for _, b := range rows(s, nb.LoadBalancerTable, &nb.LoadBalancer{Name: name}) {
			add(nb.LoadBalancerTable, name, b.UUID, b)
		}
	}
	for _, name := range kubeovn.AddressSets(vpc) {
		for _, a := range rows(s, nb.AddressSetTable, &nb.AddressSet{Name: name}) {
			if a.ExternalIDs[kubeovn.AddressSetVpc] == vpc {
				add(nb.AddressSetTable, name, a.UUID, a)
			}
		}
	}
	return out
}
