package ovn

import (
	"context"
	"fmt"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
)

// Counters in NB_Global: the requested configuration, and the one that all chassis have applied.
const (
	nbCfgColumn = "nb_cfg"
	hvCfgColumn = "hv_cfg"
)

// SyncHypervisors waits until northd and all chassis have applied the contents of the northbound database, like
// `ovn-nbctl --wait=hv sync`. It is no error if the context ends before that: the tables then show which chassis are
// late.
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
		return fmt.Errorf("%s has no row; check that ovn-northd is running", nb.GlobalTable)
	}
	one := []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, results[0].Rows[0]["_uuid"])}
	results, err = transactAll(ctx, c, ovsdb.Operation{
		Op: ovsdb.OperationMutate, Table: nb.GlobalTable, Where: one,
		Mutations: []ovsdb.Mutation{*ovsdb.NewMutation(nbCfgColumn, ovsdb.MutateOperationAdd, 1)},
	}, look)
	if err != nil {
		return fmt.Errorf("increment nb_cfg: %w", err)
	}
	now := decodeColumns[globalRow](results[1].Rows[0])
	for asked := now.Asked; now.Done < asked; {
		results, err = transactAll(ctx, c, ovsdb.Operation{
			Op: ovsdb.OperationWait, Table: nb.GlobalTable, Where: one, Columns: []string{hvCfgColumn},
			Until: string(ovsdb.WaitConditionNotEqual), Rows: []ovsdb.Row{{hvCfgColumn: now.Done}},
		}, look)
		if err != nil {
			return nil //nolint:nilerr // the context has ended
		}
		now = decodeColumns[globalRow](results[1].Rows[0])
	}
	return nil
}
