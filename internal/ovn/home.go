package ovn

import (
	"maps"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/ovn/nb"
	"github.com/sallyport/sallyport/internal/ownership"
)

// home is the table and column of the sets that rows of a table are in. Our copy does not have those sets: a row that is in
// none does not exist.
type home struct{ table, column string }

var homes = map[string]home{
	nb.LogicalSwitchPortTable: {nb.LogicalSwitchTable, "ports"},
	nb.QoSTable:               {nb.LogicalSwitchTable, "qos_rules"},
	nb.ACLTable:               {nb.PortGroupTable, "acls"},
	nb.StaticRouteTable:       {nb.LogicalRouterTable, "static_routes"},
	nb.HealthCheckTable:       {nb.LoadBalancerTable, "health_check"},
	nb.GatewayChassisTable:    {nb.LogicalRouterPortTable, "gateway_chassis"},
}

// parent names what has the set that a row is in.
func parent(row intent.Row, shard string) string {
	switch r := row.(type) {
	case intent.SwitchPort:
		return r.Switch
	case intent.Marking:
		return r.Switch
	case intent.Rule:
		return r.Group
	case intent.HealthCheck:
		return r.Balancer
	case intent.Gateway:
		return r.Port
	default:
		return shard
	}
}

// in is external_ids that say where a row is.
func in(ids map[string]string, parent string) map[string]string {
	out := maps.Clone(ids)
	if out == nil {
		out = map[string]string{}
	}
	out[ownership.RowParentKey] = parent
	return out
}

// enter is the operations that put a new row into the set of a parent. The first fails unless the parent is there: otherwise the row
// would vanish without a word.
func (h home) enter(parent, row string, of ...ovsdb.Condition) ([]ovsdb.Operation, error) {
	put, err := h.mutate(ovsdb.MutateOperationInsert, row)
	put.Where = append(named(parent), of...)
	there := require(h.table, parent, ovsdb.WaitConditionEqual)
	there.Where = put.Where
	return []ovsdb.Operation{there, put}, err
}

// leave is the operation that takes a row out of the set that it is in, and by that removes it.
func (h home) leave(uuid string) (ovsdb.Operation, error) {
	take, err := h.mutate(ovsdb.MutateOperationDelete, uuid)
	if err == nil {
		take.Where = []ovsdb.Condition{ovsdb.NewCondition(h.column, ovsdb.ConditionIncludes, take.Mutations[0].Value)}
	}
	return take, err
}

// leaveNamed is the operation that takes a row out of the set of one parent. It may be in others.
func (h home) leaveNamed(parent, uuid string) (ovsdb.Operation, error) {
	take, err := h.mutate(ovsdb.MutateOperationDelete, uuid)
	take.Where = named(parent)
	return take, err
}

func (h home) mutate(how ovsdb.Mutator, row string) (ovsdb.Operation, error) {
	members, err := ovsdb.NewOvsSet([]ovsdb.UUID{{GoUUID: row}})
	return ovsdb.Operation{Op: ovsdb.OperationMutate, Table: h.table, Mutations: []ovsdb.Mutation{*ovsdb.NewMutation(h.column, how, members)}}, err
}

// require is an operation that fails unless there is (equal) or is not (not equal) a row of a name.
func require(table, name string, until ovsdb.WaitCondition) ovsdb.Operation {
	now := 0
	return ovsdb.Operation{
		Op: ovsdb.OperationWait, Table: table, Timeout: &now, Until: string(until), Where: named(name),
		Columns: []string{"name"}, Rows: []ovsdb.Row{{"name": name}},
	}
}

// named is the condition for the row of a name.
func named(name string) []ovsdb.Condition {
	return []ovsdb.Condition{ovsdb.NewCondition("name", ovsdb.ConditionEqual, name)}
}
