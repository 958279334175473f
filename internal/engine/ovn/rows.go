package ovn

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/state"
)

// applyTimeout is how long a set of changes may take, with what has to be tried again.
const applyTimeout = 15 * time.Second

type rowChange = state.Change[intent.RowKey, intent.Row]

// RowTarget is the target for the rows of one VPC, on the router of that name.
func (c *Client) RowTarget(shard string) state.Target[intent.RowKey, intent.Row] {
	return &rowTarget{client: c, shard: shard}
}

type rowTarget struct {
	client *Client
	shard  string
}

// Scope says what is ours. Rows of Kube-OVN are observed too, because they may have to be put back or right; they have
// no origin, and are not removed.
func (t *rowTarget) Scope() string {
	return "OVN northbound: rows of router " + t.shard + " that are marked as ours"
}

// Observe reads our copy of the database and asks nobody.
func (t *rowTarget) Observe(ctx context.Context) (intent.Rows, error) {
	s := t.client.current.Load()
	if s == nil {
		return nil, ErrNotConnected
	}
	r, err := s.loadRouter(ctx, t.shard)
	if err != nil {
		return nil, err
	}
	out := make(intent.Rows, len(r.records))
	for key, rec := range r.records {
		out[key] = state.Entry[intent.Row]{Value: rec.value, Origin: rec.origin}
	}
	return out, nil
}

// Apply carries the changes out in one transaction. Our copy has it then: the server tells of a transaction's changes
// before it answers it, and libovsdb takes in one message after the other.
func (t *rowTarget) Apply(ctx context.Context, changes []rowChange) map[intent.RowKey]error {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	s := t.client.current.Load()
	if s == nil {
		return failAll(changes, ErrNotConnected)
	}
	for {
		before, err := s.loadRouter(ctx, t.shard)
		if err != nil {
			return failAll(changes, err)
		}
		failed, err := t.applyOnce(ctx, s, before, changes)
		if !errors.Is(err, errRouterChanged) {
			if err != nil {
				return failAll(changes, err)
			}
			return failed
		}
		// Somebody has changed the router since our copy was made. We try again when the copy has changed too.
		err = s.waitUntil(ctx, func() bool { return !reflect.DeepEqual(s.routerByName(t.shard), before.row) })
		if err != nil {
			return failAll(changes, fmt.Errorf("router %s is changed by somebody else all the time: %w", t.shard, err))
		}
	}
}

// applyOnce carries the changes out if the router is still what it was. It returns what can't be carried out at all by
// key, and what concerns all changes as an error.
func (t *rowTarget) applyOnce(ctx context.Context, s *session, before routerState,
	changes []rowChange,
) (map[intent.RowKey]error, error) {
	tx := newTransaction(s, t.shard, before)
	failed := map[intent.RowKey]error{}
	for _, c := range orderChanges(changes) {
		if err := tx.addChange(c); err != nil {
			failed[c.Key] = err
		}
	}
	sent, err := tx.commit(ctx)
	if sent {
		t.client.writes.Add(1)
	}
	return failed, err
}

// orderChanges is changes in the order of making, and those that remove in the opposite one: what is made first goes
// last.
func orderChanges(changes []rowChange) []rowChange {
	comes := slices.DeleteFunc(slices.Clone(changes), rowChange.IsRemoval)
	goes := slices.DeleteFunc(slices.Clone(changes), func(c rowChange) bool { return !c.IsRemoval() })
	slices.Reverse(goes)
	return append(comes, goes...)
}

func failAll(changes []rowChange, err error) map[intent.RowKey]error {
	failed := make(map[intent.RowKey]error, len(changes))
	for _, c := range changes {
		failed[c.Key] = err
	}
	return failed
}
