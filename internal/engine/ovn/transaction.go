package ovn

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// errRouterChanged means that a router has changed since a transaction was prepared.
var errRouterChanged = errors.New("the router was changed concurrently")

// transaction collects the operations for the changes of one router, based on the state before.
type transaction struct {
	session *session
	shard   string
	before  routerState

	namePrefix string // of new rows, because several transactions may be sent as one
	// recomputes: ovn-northd computes everything again after it.
	recomputes bool

	ops           []ovsdb.Operation
	updates       map[string]rowDraft // updated rows by UUID
	inserted      nb.LogicalRouter    // rows to add to the router's sets
	removed       nb.LogicalRouter    // rows to remove from them, which deletes the rows
	guardedTables map[string]bool     // tables whose set in the router must be unchanged
	newPorts      map[string]string   // our new ports, and their names in the transaction
	// newRouterPorts and newChassisGroups map the names of new rows to their names in the transaction.
	newRouterPorts, newChassisGroups map[string]string
	newLoadBalancers                 map[string]string   // by ID
	deletedLoadBalancers             map[string]bool     // by UUID
	vipEdits                         map[string]*vipEdit // by UUID of the load balancer, or its name in the transaction
	foreignPorts                     map[string]bool     // ports of others that have one of our names
	missingMessages                  map[int]string      // by operation: the error if it fails
	failedPortGroups                 map[string]error    // groups that can't be created, by name; their ACLs fail too
}

func newTransaction(s *session, shard string, before routerState) *transaction {
	return &transaction{
		session: s, shard: shard, before: before, namePrefix: s.nextNamePrefix(), updates: map[string]rowDraft{},
		guardedTables: map[string]bool{}, newPorts: map[string]string{}, newRouterPorts: map[string]string{},
		newChassisGroups: map[string]string{}, newLoadBalancers: map[string]string{},
		deletedLoadBalancers: map[string]bool{}, vipEdits: map[string]*vipEdit{},
		foreignPorts: map[string]bool{}, missingMessages: map[int]string{}, failedPortGroups: map[string]error{},
	}
}

// addChange adds the operations for one change. The change may already have been made.
func (t *transaction) addChange(c rowChange) error {
	have, there := t.before.records[c.Key]
	if setting, is := changedNBGlobalOption(c, have); is {
		return t.setNBGlobalOption(setting)
	}
	switch {
	case c.IsRemoval() && (!there || have.ownershipRank() == 0):
		return nil // the key is ours, but the row is not
	case c.IsRemoval():
		return t.removeRow(have)
	case t.before.row == nil:
		return fmt.Errorf("router %s does not exist in the northbound database", t.shard)
	case isRowKind[intent.RowOption](*c.After):
		return t.setRowOption((*c.After).(intent.RowOption))
	case isRowKind[intent.RouterPortNetworks](*c.After):
		return t.setPortNetworks((*c.After).(intent.RouterPortNetworks))
	case isRowKind[intent.VIP](*c.After):
		return t.putVIP(have, (*c.After).(intent.VIP))
	case !there:
		return t.createRow(c)
	case have.value.Equal(*c.After):
		return nil
	default:
		return t.updateRow(have, c)
	}
}

func (t *transaction) createRow(c rowChange) error {
	table := c.Key.Table
	if err := t.checkPortNames(*c.After); err != nil {
		return err
	}
	if stray := t.findStrayBinding(c); stray != nil {
		return t.updateRow(*stray, c)
	}
	name := fmt.Sprintf("%srow%d", t.namePrefix, len(t.ops))
	d, err := t.draftRow(c, name, nil)
	if group, is := (*c.After).(intent.PortGroup); is {
		t.failedPortGroups[group.Name] = err
	}
	if rule, is := (*c.After).(intent.ACL); is && err == nil {
		err = t.failedPortGroups[rule.PortGroup]
	}
	if err != nil {
		return err
	}
	t.replaceUnmarked(d.row)
	if err := t.appendOps(t.session.nbClient.Create(d.row)); err != nil {
		return err
	}
	if set := routerSet(&t.inserted, table); set != nil {
		*set = append(*set, name)
		t.guardTable(table)
	}
	switch r := (*c.After).(type) {
	case intent.HAChassisGroup:
		t.newChassisGroups[r.Name] = name
	case intent.LogicalRouterPort:
		t.newRouterPorts[r.Name] = name
	case intent.LogicalSwitchPort:
		t.newPorts[r.Name] = name
	case intent.LoadBalancer:
		t.newLoadBalancers[r.ID()] = name
		return t.updateLoadBalancerSets(name, intent.LoadBalancer{}, r)
	}
	if d, described := describedTable(table); described && d.set != (parentSet{}) {
		where := d.parent(*c.After, t.shard)
		t.missingMessages[len(t.ops)] = fmt.Sprintf("%s %s does not exist", d.set.table, where)
		return t.appendOps(d.set.insertOps(where, name, t.sameServiceCondition(c)...))
	}
	return nil
}

// sameServiceCondition returns the condition that the parent of a health check belongs to the same Service: names of
// load balancers are not unique.
func (t *transaction) sameServiceCondition(c rowChange) []ovsdb.Condition {
	if _, checks := (*c.After).(intent.LoadBalancerHealthCheck); !checks {
		return nil
	}
	ids := ownerExternalIDs(c.Key.Table, t.shard, c.Origin)
	marks := map[any]any{ownership.RowOwnerKey: ids[ownership.RowOwnerKey], ownership.RowShardKey: t.shard}
	return []ovsdb.Condition{ovsdb.NewCondition(externalIDsColumn, ovsdb.ConditionIncludes, ovsdb.OvsMap{GoMap: marks})}
}

// replaceUnmarked deletes an existing row with the name of a new one. Names are unique in these tables, and such names
// are ours: the row has lost its external_ids. If it stayed, the whole transaction would fail.
func (t *transaction) replaceUnmarked(row model.Model) {
	remove := func(table string, where ...ovsdb.Condition) {
		t.ops = append(t.ops, ovsdb.Operation{Op: ovsdb.OperationDelete, Table: table, Where: where})
	}
	switch r := row.(type) {
	case *nb.PortGroup:
		remove(nb.PortGroupTable, whereName(r.Name)...)
	case *nb.AddressSet:
		remove(nb.AddressSetTable, whereName(r.Name)...)
	case *nb.ChassisGroup:
		remove(nb.ChassisGroupTable, whereName(r.Name)...)
	case *nb.LoadBalancer: // names are not unique here; a row with an owner belongs to another Service
		for _, b := range t.session.loadBalancersByName(r.Name) {
			shard := b.ExternalIDs[ownership.RowShardKey]
			if (shard == "" || rowOrigin(b.ExternalIDs, shard) == unknownOrigin) &&
				b.ExternalIDs[ownership.RowVendorKey] != kubeOVNVendor {
				remove(nb.LoadBalancerTable,
					ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, ovsdb.UUID{GoUUID: b.UUID}))
			}
		}
	}
}

// draftRow encodes a row and fills in its references to other rows.
func (t *transaction) draftRow(c rowChange, uuid string, have model.Model) (rowDraft, error) {
	d, err := encodeRow(*c.After, uuid, ownerExternalIDs(c.Key.Table, t.shard, c.Origin), have)
	if err != nil {
		return d, err
	}
	switch after := (*c.After).(type) {
	case intent.PortGroup:
		d.row.(*nb.PortGroup).Ports, err = t.portGroupMembers(after)
	case intent.HAChassisGroup:
		group := d.row.(*nb.ChassisGroup)
		group.Chassis, err = t.ensureHAChassis(after, group.ExternalIDs, have)
	case intent.LogicalRouterPort:
		d.row.(*nb.LogicalRouterPort).Group, err = t.haChassisGroupUUID(after.HAChassisGroup)
	case intent.GatewayPortSNAT:
		d.row.(*nb.NAT).GatewayPort, err = t.gatewayPortUUID(after.GatewayPort)
	case intent.DNAT:
		d.row.(*nb.NAT).GatewayPort, err = t.gatewayPortUUID(after.GatewayPort)
	}
	return d, err
}

// gatewayPortUUID returns the router port that a NAT applies to.
func (t *transaction) gatewayPortUUID(port string) (*string, error) {
	if name, comes := t.newRouterPorts[port]; comes {
		return &name, nil
	}
	if p := t.session.routerPortByName(port); p != nil {
		return &p.UUID, nil
	}
	return nil, fmt.Errorf("router port %s does not exist", port)
}

// portGroupMembers returns the ports of a group. It skips ports of pods that were deleted in the meantime, so that the
// others need not wait for the next run. ovsdb-server itself removes members whose row is deleted.
func (t *transaction) portGroupMembers(g intent.PortGroup) (out []string, err error) {
	for _, port := range strings.Fields(g.Ports) {
		if name, comes := t.newPorts[port]; comes {
			out = append(out, name)
		} else if p := t.session.switchPortByName(port); p != nil {
			out = append(out, p.UUID)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("none of the switch ports of the group exist: %s", g.Ports)
	}
	return out, nil
}

// isRowKind reports whether a row has the type T.
func isRowKind[T intent.Row](row intent.Row) bool {
	_, is := row.(T)
	return is
}

// setRowOption sets or removes an option of a row of Kube-OVN. It does not change the other options, which belong to
// Kube-OVN.
func (t *transaction) setRowOption(o intent.RowOption) error {
	row, options := t.session.rowOptions(o)
	if row == nil {
		return fmt.Errorf("%s %s does not exist", o.Table, o.Row)
	}
	mutations := []model.Mutation{{Field: options, Mutator: ovsdb.MutateOperationDelete, Value: []string{o.Name}}}
	if o.Value != "" {
		mutations = append(mutations, model.Mutation{
			Field:   options,
			Mutator: ovsdb.MutateOperationInsert,
			Value:   map[string]string{o.Name: o.Value},
		})
	}
	return t.appendOps(t.session.nbClient.Where(row).Mutate(row, mutations...))
}

// setPortNetworks changes the addresses of a port of Kube-OVN.
func (t *transaction) setPortNetworks(n intent.RouterPortNetworks) error {
	p := t.session.routerPortByName(n.Port)
	if p == nil {
		return fmt.Errorf("port %s does not exist", n.Port)
	}
	moved := &nb.LogicalRouterPort{UUID: p.UUID, Networks: strings.Fields(n.Networks)}
	return t.appendOps(t.session.nbClient.Where(moved).Update(moved, &moved.Networks))
}

// rowOptions returns the row that an option belongs to and its options, or nil if there is no such row.
func (s *session) rowOptions(o intent.RowOption) (model.Model, *map[string]string) {
	switch o.Table {
	case nb.LogicalSwitchPortTable:
		if p := s.switchPortByName(o.Row); p != nil {
			return p, &p.Options
		}
	case nb.LogicalRouterPortTable:
		if p := s.routerPortByName(o.Row); p != nil {
			return p, &p.Options
		}
	case nb.LogicalRouterTable:
		if r := s.routerByName(o.Row); r != nil {
			return r, &r.Options
		}
	}
	return nil, nil
}

// checkPortNames checks that the names of new ports are free. They are unique in the whole database.
func (t *transaction) checkPortNames(row intent.Row) error {
	switch r := row.(type) {
	case intent.LogicalRouterPort:
		if t.session.routerPortByName(r.Name) != nil {
			t.foreignPorts[r.Name] = true
			return fmt.Errorf("router port %s already exists and is not managed by Sallyport", r.Name)
		}
		t.newPorts[r.Name] = r.Name
	case intent.LogicalSwitchPort:
		if t.session.switchPortByName(r.Name) != nil {
			return fmt.Errorf("switch port %s already exists and is not managed by Sallyport", r.Name)
		}
	case intent.StaticMACBinding:
		port := t.session.routerPortByName(r.Port)
		if t.foreignPorts[r.Port] {
			return fmt.Errorf("router port %s is not managed by Sallyport", r.Port)
		}
		if _, comes := t.newPorts[r.Port]; !comes && (port == nil || !slices.Contains(t.before.row.Ports, port.UUID)) {
			return fmt.Errorf("router %s has no port %s", t.shard, r.Port)
		}
	}
	return nil
}

// findStrayBinding returns an existing MAC binding with the key of a new one. It is not recognized as ours because its
// port was deleted or its MAC address is not ours.
func (t *transaction) findStrayBinding(c rowChange) *record {
	binding, ok := (*c.After).(intent.StaticMACBinding)
	if !ok {
		return nil
	}
	for _, b := range t.session.macBindingRecords(binding.Port, c.Origin) {
		if b.value.Key(t.shard) == c.Key {
			return &b
		}
	}
	return nil
}

// updateRow updates the columns of a row. It writes external_ids only to rows that are ours: a row of Kube-OVN still
// belongs to Kube-OVN.
func (t *transaction) updateRow(have record, c rowChange) error {
	d, err := t.draftRow(c, have.uuid, have.row)
	if err != nil {
		return err
	}
	if d.externalIDs != nil && have.ownershipRank() != 0 {
		d.fields = append(d.fields, d.externalIDs)
	}
	t.guardTable(c.Key.Table)
	t.updates[have.uuid] = d
	if err := t.appendOps(t.session.nbClient.Where(d.row).Update(d.row, d.fields...)); err != nil {
		return err
	}
	if b, is := (*c.After).(intent.LoadBalancer); is {
		return t.updateLoadBalancerSets(have.uuid, have.value.(intent.LoadBalancer), b)
	}
	return nil
}

func (t *transaction) removeRow(have record) error {
	if o, is := have.value.(intent.RowOption); is {
		o.Value = ""
		return t.setRowOption(o)
	}
	if isRowKind[intent.VIP](have.value) {
		t.removeVIP(have)
		return nil
	}
	if d, described := describedTable(have.key.Table); described && d.set != (parentSet{}) {
		op, err := d.set.removeOp(have.uuid)
		return t.appendOps([]ovsdb.Operation{op}, err)
	}
	if have.key.Table == nb.ChassisGroupTable {
		if port := t.findRemainingPort(have.uuid); port != "" {
			return fmt.Errorf("the chassis group is still in use by router port %s", port)
		}
	}
	if b, is := have.value.(intent.LoadBalancer); is { // ovsdb-server fails to do this if the switch changes too
		t.deletedLoadBalancers[have.uuid] = true
		if err := t.updateLoadBalancerSets(have.uuid, b, intent.LoadBalancer{}); err != nil {
			return err
		}
	}
	if set := routerSet(&t.removed, have.key.Table); set != nil {
		*set = append(*set, have.uuid)
	} else if err := t.appendOps(t.session.nbClient.Where(have.row).Delete()); err != nil {
		return err
	}
	port, ok := have.row.(*nb.LogicalRouterPort)
	if !ok {
		return nil
	}
	// The group may be deleted too, and ovsdb-server checks references to it before it deletes rows that are in no set.
	if port.Group != nil {
		if err := t.appendOps(t.session.nbClient.Where(port).Delete()); err != nil {
			return err
		}
	}
	for _, b := range t.session.macBindingRecords(port.Name, have.origin) { // nothing else would ever find them
		if err := t.appendOps(t.session.nbClient.Where(b.row).Delete()); err != nil {
			return err
		}
	}
	return nil
}

func (t *transaction) appendOps(ops []ovsdb.Operation, err error) error {
	t.ops = append(t.ops, ops...)
	return err
}

// finish completes the operations and returns what is to be sent, or nil if there is nothing.
func (t *transaction) finish() (*pendingWrite, error) {
	if err := errors.Join(t.mutateRouterSets(), t.mutateVIPs()); err != nil {
		return nil, err
	}
	if len(t.ops) == 0 {
		return nil, nil
	}
	guard, err := t.guardOps()
	if err != nil {
		return nil, err
	}
	return &pendingWrite{
		session: t.session, ops: append(guard, t.ops...), updates: t.updates,
		explain: func(i int) error {
			if i < len(guard) {
				return errRouterChanged
			}
			if missing, needed := t.missingMessages[i-len(guard)]; needed {
				return errors.New(missing)
			}
			return nil
		},
	}, nil
}

// mutateRouterSets adds new rows to the router's sets and removes deleted ones.
func (t *transaction) mutateRouterSets() error {
	var mutations []model.Mutation
	r := t.before.row
	for _, table := range []string{nb.LogicalRouterPortTable, nb.NATTable, nb.LogicalRouterPolicyTable} {
		if come := *routerSet(&t.inserted, table); len(come) > 0 {
			mutations = append(mutations,
				model.Mutation{Field: routerSet(r, table), Mutator: ovsdb.MutateOperationInsert, Value: come})
		}
		if leave := *routerSet(&t.removed, table); len(leave) > 0 {
			mutations = append(mutations,
				model.Mutation{Field: routerSet(r, table), Mutator: ovsdb.MutateOperationDelete, Value: leave})
		}
	}
	if len(mutations) == 0 {
		return nil
	}
	return t.appendOps(t.session.nbClient.Where(r).Mutate(r, mutations...))
}

// guardOps returns an operation that fails the transaction if a set that it relies on has changed. Otherwise Kube-OVN
// and we could both write the same row: the database does not forbid it, and Kube-OVN does not work with duplicates.
func (t *transaction) guardOps() ([]ovsdb.Operation, error) {
	if len(t.guardedTables) == 0 {
		return nil, nil
	}
	var columns []any
	for table := range t.guardedTables {
		columns = append(columns, routerSet(t.before.row, table))
	}
	now := 0
	return t.session.nbClient.Where(t.before.row).Wait(ovsdb.WaitConditionEqual, &now, t.before.row, columns...)
}

func (t *transaction) guardTable(table string) {
	if routerSet(&t.inserted, table) != nil {
		t.guardedTables[table] = true
	}
}

// routerSet returns the router's set for a table, or nil if routers have none.
func routerSet(r *nb.LogicalRouter, table string) *[]string {
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
