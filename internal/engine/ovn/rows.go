package ovn

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/state"
)

// applyTimeout limits one transaction, and the time until the cache has a concurrent change.
const applyTimeout = 15 * time.Second

// maxAttempts limits how often a transaction is repeated because another client changes the router.
const maxAttempts = 20

type rowChange = state.Change[intent.RowKey, intent.Row]

// RowTarget returns the target for the rows of one VPC, on the router of the same name.
func (c *Client) RowTarget(shard string) state.Target[intent.RowKey, intent.Row] {
	return &rowTarget{client: c, shard: shard}
}

// VIPTarget returns the target for some VIPs of a VPC: a part of RowTarget, whose cost does not depend on the rest.
// loadBalancers are the IDs of the load balancers that have these VIPs, or should.
func (c *Client) VIPTarget(shard string, keys map[intent.RowKey]bool,
	loadBalancers []string,
) state.Target[intent.RowKey, intent.Row] {
	return &rowTarget{client: c, shard: shard, keys: keys, loadBalancers: loadBalancers}
}

type rowTarget struct {
	client *Client
	shard  string

	keys          map[intent.RowKey]bool // only these rows; nil: all
	loadBalancers []string               // that have these rows
}

// load reads the router, or the part of it that the target is about.
func (t *rowTarget) load(ctx context.Context, s *session) (routerState, error) {
	if t.keys == nil {
		return s.loadRouter(ctx, t.shard)
	}
	return s.readLoadBalancers(t.shard, t.loadBalancers), nil
}

// Scope describes which rows are ours. Observe also returns rows of Kube-OVN, because they may have to be restored or
// corrected. Those have no origin and are never removed.
func (t *rowTarget) Scope() string {
	return "OVN northbound: rows of router " + t.shard + " with Sallyport's external_ids"
}

// Observe reads the cache. It sends no query to the server.
func (t *rowTarget) Observe(ctx context.Context) (intent.Rows, error) {
	s := t.client.current.Load()
	if s == nil {
		return nil, ErrNotConnected
	}
	r, err := t.load(ctx, s)
	if err != nil {
		return nil, err
	}
	out := make(intent.Rows, len(r.records))
	for key, rec := range r.records {
		if t.keys != nil && !t.keys[key] {
			continue
		}
		out[key] = state.Entry[intent.Row]{Value: rec.value, Origin: rec.origin}
	}
	return out, nil
}

// Apply commits the changes in one transaction. When it returns, the cache contains them: the server sends the updates
// of a transaction before its reply, and libovsdb handles messages in order. If ovn-northd computes everything again
// after the transaction, Apply may wait, and sends it together with those of other shards.
func (t *rowTarget) Apply(ctx context.Context, changes []rowChange) map[intent.RowKey]error {
	for attempts := 0; ; attempts++ {
		before, failed, err := t.applyOnce(ctx, changes)
		if !errors.Is(err, errRouterChanged) {
			if err != nil {
				return failAll(changes, err)
			}
			return failed
		}
		// Another client changed the router after we read the cache. Retry once the cache has that change.
		if err = t.waitForChange(ctx, before); err != nil || attempts == maxAttempts {
			return failAll(changes, fmt.Errorf("giving up after concurrent changes to router %s: %w", t.shard, err))
		}
	}
}

// waitForChange waits until the cache has another version of the router.
func (t *rowTarget) waitForChange(ctx context.Context, before *nb.LogicalRouter) error {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	s := t.client.current.Load()
	if s == nil {
		return ErrNotConnected
	}
	return s.waitUntil(ctx, func() bool { return !reflect.DeepEqual(s.routerByName(t.shard), before) })
}

// applyOnce commits the changes if the router has not changed, and returns the router that they were based on. It
// returns changes that can't be applied by key, and a failure of the whole transaction as an error.
func (t *rowTarget) applyOnce(ctx context.Context, changes []rowChange) (before *nb.LogicalRouter,
	failed map[intent.RowKey]error, err error,
) {
	prepare := func(ctx context.Context) (*pendingWrite, bool, error) {
		tx, err := t.buildTransaction(ctx, changes, &failed)
		if err != nil {
			return nil, false, err
		}
		before = tx.before.row
		write, err := tx.finish()
		return write, tx.recomputes, err
	}
	write, recomputes, err := prepare(ctx)
	switch {
	case err != nil || write == nil:
		return before, failed, err
	case !recomputes:
		return before, failed, t.client.commitOne(ctx, write)
	case t.client.recomputes.interval <= 0 || isUrgent(t.shard, changes) || isRepair(ctx):
		t.client.recomputes.recordUnlimited()
		return before, failed, t.client.commitOne(ctx, write)
	}
	err = t.client.submitRecompute(ctx, func(ctx context.Context) (*pendingWrite, error) {
		write, _, err := prepare(ctx) // again: the cache may have changed
		return write, err
	})
	return before, failed, err
}

// buildTransaction returns the transaction for the changes. It replaces failed by the changes that can't be applied.
func (t *rowTarget) buildTransaction(ctx context.Context, changes []rowChange,
	failed *map[intent.RowKey]error,
) (*transaction, error) {
	s := t.client.current.Load()
	if s == nil {
		return nil, ErrNotConnected
	}
	before, err := t.load(ctx, s)
	if err != nil {
		return nil, err
	}
	tx := newTransaction(s, t.shard, before)
	*failed = map[intent.RowKey]error{}
	for _, c := range orderChanges(changes) {
		if err := tx.addChange(c); err != nil {
			(*failed)[c.Key] = err
		} else if handlingOf(c, before) == RecomputesAll {
			tx.recomputes = true
		}
	}
	return tx, nil
}

// orderChanges sorts additions in the order of creation, followed by removals in reverse order.
func orderChanges(changes []rowChange) []rowChange {
	additions := slices.DeleteFunc(slices.Clone(changes), rowChange.IsRemoval)
	removals := slices.DeleteFunc(slices.Clone(changes), func(c rowChange) bool { return !c.IsRemoval() })
	slices.Reverse(removals)
	return append(additions, removals...)
}

func failAll(changes []rowChange, err error) map[intent.RowKey]error {
	failed := make(map[intent.RowKey]error, len(changes))
	for _, c := range changes {
		failed[c.Key] = err
	}
	return failed
}
