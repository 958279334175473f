package ovn

import (
	"context"
	"fmt"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
)

// Columns of the one row about the whole database that count changes: those that somebody waits for, and those that all
// chassis have carried out.
const (
	nbCfgColumn = "nb_cfg"
	hvCfgColumn = "hv_cfg"
)

// SyncHypervisors asks northd and all chassis to say that they have carried out what is in the northbound database, and
// waits for that, as `ovn-nbctl --wait=hv sync` does. Whoever has not said it by the end of the context is seen in the
// tables then: that is no failure.
func SyncHypervisors(ctx context.Context, config Config) error {
	c, _, err := connectToAny(ctx, config, nb.Database)
	if err != nil {
		return err
	}
	defer c.Close()
	look := ovsdb.Operation{
		Op:      ovsdb.OperationSelect,
		Table:   nb.GlobalTable,
		Columns: []string{"_uuid", nbCfgColumn, hvCfgColumn},
	}
	results, err := transactAll(ctx, c, look)
	if err != nil {
		return fmt.Errorf("read %s: %w", nb.GlobalTable, err)
	}
	if len(results[0].Rows) == 0 {
		return fmt.Errorf("%s has no row; has northd ever run?", nb.GlobalTable)
	}
	one := []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, results[0].Rows[0]["_uuid"])}
	results, err = transactAll(ctx, c, ovsdb.Operation{
		Op: ovsdb.OperationMutate, Table: nb.GlobalTable, Where: one,
		Mutations: []ovsdb.Mutation{*ovsdb.NewMutation(nbCfgColumn, ovsdb.MutateOperationAdd, 1)},
	}, look)
	if err != nil {
		return fmt.Errorf("ask for a sign of life: %w", err)
	}
	now := ovsdbRow(results[1].Rows[0])
	for asked := now.intColumn(nbCfgColumn); now.intColumn(hvCfgColumn) < asked; {
		results, err = transactAll(ctx, c, ovsdb.Operation{
			Op: ovsdb.OperationWait, Table: nb.GlobalTable, Where: one, Columns: []string{hvCfgColumn},
			Until: string(ovsdb.WaitConditionNotEqual), Rows: []ovsdb.Row{{hvCfgColumn: now.intColumn(hvCfgColumn)}},
		}, look)
		if err != nil {
			return nil //nolint:nilerr // the time is up
		}
		now = ovsdbRow(results[1].Rows[0])
	}
	return nil
}
