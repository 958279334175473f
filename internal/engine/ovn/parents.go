package ovn

import (
	"maps"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/sallyport/sallyport/internal/model/ownership"
)

// parentSet is the table and column of the set that rows of a table are members of. The cache does not hold these
// columns. ovsdb-server deletes a row that is in no such set.
type parentSet struct{ table, column string }

// withParentID returns external_ids that include the name of the parent.
func withParentID(ids map[string]string, parent string) map[string]string {
	out := maps.Clone(ids)
	if out == nil {
		out = map[string]string{}
	}
	out[ownership.RowParentKey] = parent
	return out
}

// insertOps returns the operations that add a new row to the set of its parent. The first fails if the parent does not
// exist; without it, ovsdb-server would silently discard the row.
func (h parentSet) insertOps(parent, row string, of ...ovsdb.Condition) ([]ovsdb.Operation, error) {
	put, err := h.mutateOp(ovsdb.MutateOperationInsert, row)
	put.Where = append(whereName(parent), of...)
	there := requireNameOp(h.table, parent, ovsdb.WaitConditionEqual)
	there.Where = put.Where
	return []ovsdb.Operation{there, put}, err
}

// removeOp returns the operation that removes a row from its set. ovsdb-server then deletes the row.
func (h parentSet) removeOp(uuid string) (ovsdb.Operation, error) {
	take, err := h.mutateOp(ovsdb.MutateOperationDelete, uuid)
	if err == nil {
		take.Where = []ovsdb.Condition{ovsdb.NewCondition(h.column, ovsdb.ConditionIncludes, take.Mutations[0].Value)}
	}
	return take, err
}

// removeFromParentOp returns the operation that removes a row from the set of one parent. Other sets may still hold it.
func (h parentSet) removeFromParentOp(parent, uuid string) (ovsdb.Operation, error) {
	take, err := h.mutateOp(ovsdb.MutateOperationDelete, uuid)
	take.Where = whereName(parent)
	return take, err
}

func (h parentSet) mutateOp(how ovsdb.Mutator, row string) (ovsdb.Operation, error) {
	members, err := ovsdb.NewOvsSet([]ovsdb.UUID{{GoUUID: row}})
	return ovsdb.Operation{
		Op:        ovsdb.OperationMutate,
		Table:     h.table,
		Mutations: []ovsdb.Mutation{*ovsdb.NewMutation(h.column, how, members)},
	}, err
}

// requireNameOp returns an operation that fails unless a row with that name exists (equal) or does not exist (not
// equal).
func requireNameOp(table, name string, until ovsdb.WaitCondition) ovsdb.Operation {
	now := 0
	return ovsdb.Operation{
		Op: ovsdb.OperationWait, Table: table, Timeout: &now, Until: string(until), Where: whereName(name),
		Columns: []string{"name"}, Rows: []ovsdb.Row{{"name": name}},
	}
}

func whereName(name string) []ovsdb.Condition {
	return []ovsdb.Condition{ovsdb.NewCondition("name", ovsdb.ConditionEqual, name)}
}
