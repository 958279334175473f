package ovn

import (
	"context"
	"errors"
	"fmt"

	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/ovn/nb"
)

// errOvertaken means that a router is not what it was when a transaction was worked out.
var errOvertaken = errors.New("the router has changed meanwhile")

// transaction is what brings the changes of one router about, worked out from what it was before.
type transaction struct {
	s      *session
	shard  string
	before router

	ops    []ovsdb.Operation
	come   nb.LogicalRouter // rows that come into the router's sets
	leave  nb.LogicalRouter // rows that leave them, and by that cease to exist
	relied map[string]bool  // tables whose set must still be what it was
	ports  map[string]bool  // of ours, those that come too
}

func newTransaction(s *session, shard string, before router) *transaction {
	return &transaction{s: s, shard: shard, before: before, relied: map[string]bool{}, ports: map[string]bool{}}
}

// add works out one change. It may have been carried out already.
func (t *transaction) add(c change) error {
	have, there := t.before.records[c.Key]
	switch {
	case c.Removes() && (!there || have.rank() == 0):
		return nil // a row of others with our key is not ours to remove
	case c.Removes():
		return t.remove(have)
	case t.before.row == nil:
		return fmt.Errorf("router %s does not exist in the northbound database", t.shard)
	case !there:
		return t.create(c)
	case have.value.Equal(*c.After):
		return nil
	default:
		return t.update(have, c)
	}
}

func (t *transaction) create(c change) error {
	table := c.Key.Table
	if err := t.claim(*c.After); err != nil {
		return err
	}
	if stray := t.stray(c); stray != nil {
		return t.update(*stray, c)
	}
	name := fmt.Sprintf("row%d", len(t.ops))
	d, err := encode(*c.After, name, externalIDs(table, t.shard, c.Origin), nil)
	if err != nil {
		return err
	}
	if err := t.do(t.s.nb.Create(d.row)); err != nil {
		return err
	}
	if set := set(&t.come, table); set != nil {
		*set = append(*set, name)
		t.rely(table)
	}
	return nil
}

// claim checks the names of ports: they are unique in the whole database, and what is on a port of others is not ours.
func (t *transaction) claim(row intent.Row) error {
	switch r := row.(type) {
	case intent.RouterPort:
		if t.s.port(r.Name) != nil {
			return fmt.Errorf("there is a router port %s already, and it is not ours", r.Name)
		}
		t.ports[r.Name] = true
	case intent.MACBinding:
		if _, ours := t.before.records[intent.RouterPort{Name: r.Port}.Key(t.shard)]; !ours && !t.ports[r.Port] {
			return fmt.Errorf("router port %s is not ours", r.Port)
		}
	}
	return nil
}

// stray is a MAC binding that has outlived its port: it is not seen, and in the way of a new one.
func (t *transaction) stray(c change) *record {
	binding, ok := (*c.After).(intent.MACBinding)
	if !ok {
		return nil
	}
	for _, b := range t.s.bindings(binding.Port, c.Origin) {
		if b.value.Key(t.shard) == c.Key {
			return &b
		}
	}
	return nil
}

// update changes what a row states. Whose it is is written to rows of ours only: one of Kube-OVN's stays Kube-OVN's.
func (t *transaction) update(have record, c change) error {
	d, err := encode(*c.After, have.uuid, externalIDs(c.Key.Table, t.shard, c.Origin), have.row)
	if err != nil {
		return err
	}
	if d.ids != nil && have.rank() != 0 {
		d.fields = append(d.fields, d.ids)
	}
	t.rely(c.Key.Table)
	return t.do(t.s.nb.Where(d.row).Update(d.row, d.fields...))
}

func (t *transaction) remove(have record) error {
	if set := set(&t.leave, have.key.Table); set != nil {
		*set = append(*set, have.uuid)
	} else if err := t.do(t.s.nb.Where(have.row).Delete()); err != nil {
		return err
	}
	port, ok := have.row.(*nb.LogicalRouterPort)
	if !ok {
		return nil
	}
	for _, b := range t.s.bindings(port.Name, have.origin) { // nothing else would ever find them again
		if err := t.do(t.s.nb.Where(b.row).Delete()); err != nil {
			return err
		}
	}
	return nil
}

func (t *transaction) do(ops []ovsdb.Operation, err error) error {
	t.ops = append(t.ops, ops...)
	return err
}

// commit sends the transaction, and says whether there was anything to send.
func (t *transaction) commit(ctx context.Context) (sent bool, err error) {
	if err := t.sets(); err != nil {
		return false, err
	}
	if len(t.ops) == 0 {
		return false, nil
	}
	if err := t.guard(); err != nil {
		return false, err
	}
	results, err := t.s.nb.Transact(ctx, t.ops...)
	if err != nil {
		return false, fmt.Errorf("northbound transaction: %w", err)
	}
	failed, err := ovsdb.CheckOperationResults(results, t.ops)
	if err == nil {
		return true, nil
	}
	var overtaken *ovsdb.TimedOut
	for _, f := range failed {
		if errors.As(f, &overtaken) {
			return false, errOvertaken
		}
		err = fmt.Errorf("%w: %w", err, f)
	}
	return false, fmt.Errorf("northbound transaction: %w", err)
}

// sets puts new rows into the router's sets and takes others out.
func (t *transaction) sets() error {
	var mutations []model.Mutation
	r := t.before.row
	for _, table := range []string{nb.LogicalRouterPortTable, nb.NATTable, nb.LogicalRouterPolicyTable} {
		if come := *set(&t.come, table); len(come) > 0 {
			mutations = append(mutations, model.Mutation{Field: set(r, table), Mutator: ovsdb.MutateOperationInsert, Value: come})
		}
		if leave := *set(&t.leave, table); len(leave) > 0 {
			mutations = append(mutations, model.Mutation{Field: set(r, table), Mutator: ovsdb.MutateOperationDelete, Value: leave})
		}
	}
	if len(mutations) == 0 {
		return nil
	}
	return t.do(t.s.nb.Where(r).Mutate(r, mutations...))
}

// guard lets the transaction fail when somebody else has changed a set that it relies on. Otherwise two of us would write the
// same row, Kube-OVN and we: nothing in the database forbids it, and Kube-OVN does not work with two.
func (t *transaction) guard() error {
	if len(t.relied) == 0 {
		return nil
	}
	var columns []any
	for table := range t.relied {
		columns = append(columns, set(t.before.row, table))
	}
	now := 0
	ops, err := t.s.nb.Where(t.before.row).Wait(ovsdb.WaitConditionEqual, &now, t.before.row, columns...)
	t.ops = append(ops, t.ops...)
	return err
}

func (t *transaction) rely(table string) {
	if set(&t.come, table) != nil {
		t.relied[table] = true
	}
}

// set is a router's set of rows of a table; nil for a table that routers have none of.
func set(r *nb.LogicalRouter, table string) *[]string {
	switch table {
	case nb.LogicalRouterPortTable:
		return &r.Ports
	case nb.NATTable:
		return &r.NAT
	case nb.LogicalRouterPolicyTable:
		return &r.Policies
	default:
		return nil
	}
}
