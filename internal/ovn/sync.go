package ovn

import (
	"context"
	"fmt"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/sallyport/sallyport/internal/ovn/nb"
)

// Columns of the one row about the whole database that count changes: those that somebody waits for, and those that all chassis have
// carried out.
const (
	askedColumn = "nb_cfg"
	doneColumn  = "hv_cfg"
)

// Sync asks northd and all chassis to say that they have carried out what is in the northbound database, and waits for that, as
// `ovn-nbctl --wait=hv sync` does. Whoever has not said it by the end of the context is seen in the tables then: that is no failure.
func Sync(ctx context.Context, config Config) error {
	c, _, err := reach(ctx, config, nb.Database)
	if err != nil {
		return err
	}
	defer c.Close()
	look := ovsdb.Operation{Op: ovsdb.OperationSelect, Table: nb.GlobalTable, Columns: []string{"_uuid", askedColumn, doneColumn}}
	results, err := transact(ctx, c, look)
	if err != nil {
		return fmt.Errorf("read %s: %w", nb.GlobalTable, err)
	}
	if len(results[0].Rows) == 0 {
		return fmt.Errorf("%s has no row; has northd ever run?", nb.GlobalTable)
	}
	one := []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, results[0].Rows[0]["_uuid"])}
	results, err = transact(ctx, c, ovsdb.Operation{
		Op: ovsdb.OperationMutate, Table: nb.GlobalTable, Where: one,
		Mutations: []ovsdb.Mutation{*ovsdb.NewMutation(askedColumn, ovsdb.MutateOperationAdd, 1)},
	}, look)
	if err != nil {
		return fmt.Errorf("ask for a sign of life: %w", err)
	}
	now := tuple(results[1].Rows[0])
	for asked := now.number(askedColumn); now.number(doneColumn) < asked; {
		results, err = transact(ctx, c, ovsdb.Operation{
			Op: ovsdb.OperationWait, Table: nb.GlobalTable, Where: one, Columns: []string{doneColumn},
			Until: string(ovsdb.WaitConditionNotEqual), Rows: []ovsdb.Row{{doneColumn: now.number(doneColumn)}},
		}, look)
		if err != nil {
			return nil //nolint:nilerr // the time is up
		}
		now = tuple(results[1].Rows[0])
	}
	return nil
}
