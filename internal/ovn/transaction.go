package ovn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/ovn/nb"
	"github.com/sallyport/sallyport/internal/ownership"
)

// errOvertaken means that a router is not what it was when a transaction was worked out.
var errOvertaken = errors.New("the router has changed meanwhile")

// transaction is what brings the changes of one router about, worked out from what it was before.
type transaction struct {
	s      *session
	shard  string
	before router

	ops     []ovsdb.Operation
	updates map[string]draft  // of rows, by UUID
	come    nb.LogicalRouter  // rows that come into the router's sets
	leave   nb.LogicalRouter  // rows that leave them, and by that cease to exist
	relied  map[string]bool   // tables whose set must still be what it was
	ports   map[string]string // of ours, those that come too: their names in the transaction
	// routerPorts are those of them that are a router's, and groups the chassis groups that come.
	routerPorts, groups map[string]string
	foreign             map[string]bool  // ports that have the name of one of ours
	needs               map[int]string   // operations that fail when something is not there: what
	failed              map[string]error // groups that can't come, by name: nor can what is in them
}

func newTransaction(s *session, shard string, before router) *transaction {
	return &transaction{
		s: s, shard: shard, before: before, updates: map[string]draft{},
		relied: map[string]bool{}, ports: map[string]string{}, routerPorts: map[string]string{}, groups: map[string]string{},
		foreign: map[string]bool{}, needs: map[int]string{}, failed: map[string]error{},
	}
}

// add works out one change. It may have been carried out already.
func (t *transaction) add(c change) error {
	have, there := t.before.records[c.Key]
	if setting, is := settingOf(c, have); is {
		return t.put(setting)
	}
	switch {
	case c.Removes() && (!there || have.rank() == 0):
		return nil // a row of others with our key is not ours to remove
	case c.Removes():
		return t.remove(have)
	case t.before.row == nil:
		return fmt.Errorf("router %s does not exist in the northbound database", t.shard)
	case is[intent.Option](*c.After):
		return t.give((*c.After).(intent.Option))
	case is[intent.PortNetwork](*c.After):
		return t.move((*c.After).(intent.PortNetwork))
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
	d, err := t.draft(c, name, nil)
	if group, is := (*c.After).(intent.PortGroup); is {
		t.failed[group.Name] = err
	}
	if rule, is := (*c.After).(intent.Rule); is && err == nil {
		err = t.failed[rule.Group]
	}
	if err != nil {
		return err
	}
	t.replace(d.row)
	if err := t.do(t.s.nb.Create(d.row)); err != nil {
		return err
	}
	if set := set(&t.come, table); set != nil {
		*set = append(*set, name)
		t.rely(table)
	}
	switch r := (*c.After).(type) {
	case intent.Holders:
		t.groups[r.Name] = name
	case intent.RouterPort:
		t.routerPorts[r.Name] = name
	case intent.SwitchPort:
		t.ports[r.Name] = name
	case intent.LoadBalancer:
		return t.balance(name, intent.LoadBalancer{}, r)
	}
	if home, in := homes[table]; in {
		where := parent(*c.After, t.shard)
		t.needs[len(t.ops)] = fmt.Sprintf("there is no %s %s", home.table, where)
		return t.do(home.enter(where, name, t.same(c)...))
	}
	return nil
}

// same is the condition that the parent of a row is of the same Service: names of load balancers are not unique.
func (t *transaction) same(c change) []ovsdb.Condition {
	if _, checks := (*c.After).(intent.HealthCheck); !checks {
		return nil
	}
	ids := externalIDs(c.Key.Table, t.shard, c.Origin)
	marks := map[any]any{ownership.RowOwnerKey: ids[ownership.RowOwnerKey], ownership.RowShardKey: t.shard}
	return []ovsdb.Condition{ovsdb.NewCondition("external_ids", ovsdb.ConditionIncludes, ovsdb.OvsMap{GoMap: marks})}
}

// replace removes the row that has the name of a new one. Names of these tables are unique, and such names are ours: it has lost
// its marks. With it all of the transaction would fail.
func (t *transaction) replace(row model.Model) {
	remove := func(table string, where ...ovsdb.Condition) {
		t.ops = append(t.ops, ovsdb.Operation{Op: ovsdb.OperationDelete, Table: table, Where: where})
	}
	switch r := row.(type) {
	case *nb.PortGroup:
		remove(nb.PortGroupTable, named(r.Name)...)
	case *nb.AddressSet:
		remove(nb.AddressSetTable, named(r.Name)...)
	case *nb.ChassisGroup:
		remove(nb.ChassisGroupTable, named(r.Name)...)
	case *nb.LoadBalancer: // here several may have one name; one that says whose it is is that of another Service
		for _, b := range t.s.balancersNamed(r.Name) {
			shard := b.ExternalIDs[ownership.RowShardKey]
			if (shard == "" || origin(b.ExternalIDs, shard) == lost) && b.ExternalIDs[ownership.RowVendorKey] != kubeOVN {
				remove(nb.LoadBalancerTable, ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, ovsdb.UUID{GoUUID: b.UUID}))
			}
		}
	}
}

// draft writes a row of this transaction.
func (t *transaction) draft(c change, uuid string, have model.Model) (draft, error) {
	d, err := encode(*c.After, uuid, externalIDs(c.Key.Table, t.shard, c.Origin), have)
	if err != nil {
		return d, err
	}
	switch after := (*c.After).(type) {
	case intent.PortGroup:
		d.row.(*nb.PortGroup).Ports, err = t.members(after)
	case intent.Holders:
		group := d.row.(*nb.ChassisGroup)
		group.Chassis, err = t.chassis(after, group.ExternalIDs, have)
	case intent.RouterPort:
		d.row.(*nb.LogicalRouterPort).Group, err = t.group(after.Holders)
	case intent.PortNAT:
		d.row.(*nb.NAT).GatewayPort, err = t.gateway(after.Port)
	}
	return d, err
}

// gateway is the port that a translation is for.
func (t *transaction) gateway(port string) (*string, error) {
	if name, comes := t.routerPorts[port]; comes {
		return &name, nil
	}
	if p := t.s.port(port); p != nil {
		return &p.UUID, nil
	}
	return nil, fmt.Errorf("there is no router port %s", port)
}

// members are the ports of a group. A pod's port may have vanished since the group was worked out: the others must not wait for the next
// run. The database itself drops a member whose row is gone.
func (t *transaction) members(g intent.PortGroup) (out []string, err error) {
	for _, port := range strings.Fields(g.Ports) {
		if name, comes := t.ports[port]; comes {
			out = append(out, name)
		} else if p := t.s.switchPort(port); p != nil {
			out = append(out, p.UUID)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("there is no switch port %s", g.Ports)
	}
	return out, nil
}

// is says whether a row is of a kind.
func is[T intent.Row](row intent.Row) bool {
	_, is := row.(T)
	return is
}

// give gives a port of Kube-OVN's an option, or takes it away. Its other options are Kube-OVN's and stay.
func (t *transaction) give(o intent.Option) error {
	port, options := t.s.options(o)
	if port == nil {
		return fmt.Errorf("there is no port %s", o.Port)
	}
	mutations := []model.Mutation{{Field: options, Mutator: ovsdb.MutateOperationDelete, Value: []string{o.Name}}}
	if o.Value != "" {
		mutations = append(mutations, model.Mutation{Field: options, Mutator: ovsdb.MutateOperationInsert, Value: map[string]string{o.Name: o.Value}})
	}
	return t.do(t.s.nb.Where(port).Mutate(port, mutations...))
}

// move gives a port of Kube-OVN's another address.
func (t *transaction) move(n intent.PortNetwork) error {
	p := t.s.port(n.Port)
	if p == nil {
		return fmt.Errorf("there is no port %s", n.Port)
	}
	moved := &nb.LogicalRouterPort{UUID: p.UUID, Networks: []string{n.Network.String()}}
	return t.do(t.s.nb.Where(moved).Update(moved, &moved.Networks))
}

// options are those of the port that an option is of, with the port; nil when there is none.
func (s *session) options(o intent.Option) (model.Model, *map[string]string) {
	if o.Table == nb.LogicalSwitchPortTable {
		if p := s.switchPort(o.Port); p != nil {
			return p, &p.Options
		}
		return nil, nil
	}
	if p := s.port(o.Port); p != nil {
		return p, &p.Options
	}
	return nil, nil
}

// claim checks the names of ports: they are unique in the whole database.
func (t *transaction) claim(row intent.Row) error {
	switch r := row.(type) {
	case intent.RouterPort:
		if t.s.port(r.Name) != nil {
			t.foreign[r.Name] = true
			return fmt.Errorf("there is a router port %s already, and it is not ours", r.Name)
		}
		t.ports[r.Name] = r.Name
	case intent.SwitchPort:
		if t.s.switchPort(r.Name) != nil {
			return fmt.Errorf("there is a switch port %s already, and it is not ours", r.Name)
		}
	case intent.MACBinding:
		port := t.s.port(r.Port)
		if t.foreign[r.Port] {
			return fmt.Errorf("router port %s is not ours", r.Port)
		}
		if _, comes := t.ports[r.Port]; !comes && (port == nil || !slices.Contains(t.before.row.Ports, port.UUID)) {
			return fmt.Errorf("router %s has no port %s", t.shard, r.Port)
		}
	}
	return nil
}

// stray is a MAC binding that is not seen as ours, because it has outlived its port or has another's address, and is in the way of
// a new one.
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
	d, err := t.draft(c, have.uuid, have.row)
	if err != nil {
		return err
	}
	if d.ids != nil && have.rank() != 0 {
		d.fields = append(d.fields, d.ids)
	}
	t.rely(c.Key.Table)
	t.updates[have.uuid] = d
	if err := t.do(t.s.nb.Where(d.row).Update(d.row, d.fields...)); err != nil {
		return err
	}
	if b, is := (*c.After).(intent.LoadBalancer); is {
		return t.balance(have.uuid, have.value.(intent.LoadBalancer), b)
	}
	return nil
}

func (t *transaction) remove(have record) error {
	if o, is := have.value.(intent.Option); is {
		o.Value = ""
		return t.give(o)
	}
	if home, in := homes[have.key.Table]; in {
		op, err := home.leave(have.uuid)
		return t.do([]ovsdb.Operation{op}, err)
	}
	if have.key.Table == nb.ChassisGroupTable {
		if port := t.held(have.uuid); port != "" {
			return fmt.Errorf("router port %s is still held by it", port)
		}
	}
	if b, is := have.value.(intent.LoadBalancer); is { // ovsdb-server forgets to, when the switch changes as well
		if err := t.balance(have.uuid, b, intent.LoadBalancer{}); err != nil {
			return err
		}
	}
	if set := set(&t.leave, have.key.Table); set != nil {
		*set = append(*set, have.uuid)
	} else if err := t.do(t.s.nb.Where(have.row).Delete()); err != nil {
		return err
	}
	port, ok := have.row.(*nb.LogicalRouterPort)
	if !ok {
		return nil
	}
	if port.Group != nil { // the group may go as well, and ovsdb-server looks who refers to it before it collects what is in no set
		if err := t.do(t.s.nb.Where(port).Delete()); err != nil {
			return err
		}
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
	guard, err := t.guard()
	if err != nil {
		return false, err
	}
	ops := append(guard, t.ops...)
	t.s.echoes.expect(t.updates)
	defer func() {
		if err != nil {
			t.s.echoes.forget(t.updates)
		}
	}()
	results, err := t.s.nb.Transact(ctx, ops...)
	if err != nil {
		return false, fmt.Errorf("northbound transaction: %w", err)
	}
	if _, err = ovsdb.CheckOperationResults(results, ops); err == nil {
		return true, nil
	}
	for i, r := range results {
		switch missing, needed := t.needs[i-len(guard)]; {
		case r.Error == "":
			continue
		case needed:
			return false, errors.New(missing)
		case i < len(guard):
			return false, errOvertaken
		default:
			err = fmt.Errorf("%w: %s: %s", err, r.Error, r.Details)
		}
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
func (t *transaction) guard() ([]ovsdb.Operation, error) {
	if len(t.relied) == 0 {
		return nil, nil
	}
	var columns []any
	for table := range t.relied {
		columns = append(columns, set(t.before.row, table))
	}
	now := 0
	return t.s.nb.Where(t.before.row).Wait(ovsdb.WaitConditionEqual, &now, t.before.row, columns...)
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
