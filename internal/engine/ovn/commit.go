package ovn

import (
	"context"
	"fmt"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// pendingWrite has the operations of one shard that must be committed together.
type pendingWrite struct {
	session *session
	ops     []ovsdb.Operation
	updates map[string]rowDraft // updated rows by UUID
	explain func(op int) error  // the error if an operation fails; nil: none in particular. May be nil.
}

// nextNamePrefix returns a prefix for the names of new rows that no other transaction of the session has.
func (s *session) nextNamePrefix() string { return fmt.Sprintf("t%d_", s.transactions.Add(1)) }

// commitOne sends one write.
func (c *Client) commitOne(ctx context.Context, w *pendingWrite) error {
	return c.commitTogether(ctx, []*pendingWrite{w})[0]
}

// commitTogether sends writes as one transaction and returns the result of each. A write whose operation fails is left
// out, and the others are sent again: a shard can't make those of others fail.
func (c *Client) commitTogether(ctx context.Context, writes []*pendingWrite) []error {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	results := make([]error, len(writes))
	rest := slices.Clone(writes)
	setResult := func(w *pendingWrite, err error) {
		results[slices.Index(writes, w)] = err
		rest = slices.Delete(rest, slices.Index(rest, w), slices.Index(rest, w)+1)
	}
	for len(rest) > 0 {
		// after a reconnect, the writes may be of different sessions
		group := slices.DeleteFunc(slices.Clone(rest), func(w *pendingWrite) bool { return w.session != rest[0].session })
		failed, err := transactTogether(ctx, group)
		switch {
		case err == nil:
			c.writes.Add(1)
			for _, w := range group {
				setResult(w, nil)
			}
		case failed >= 0:
			setResult(group[failed], err)
		case len(group) == 1 || ctx.Err() != nil:
			for _, w := range group {
				setResult(w, err)
			}
		default: // it is not known which one caused it
			for _, w := range group {
				setResult(w, c.commitOne(ctx, w))
			}
		}
	}
	return results
}

// transactTogether sends writes of one session as one transaction. If it fails because of one of the writes, it also
// returns which one, otherwise -1.
func transactTogether(ctx context.Context, writes []*pendingWrite) (failed int, err error) {
	s := writes[0].session
	var ops []ovsdb.Operation
	for _, w := range writes {
		ops = append(ops, w.ops...)
		s.ownUpdates.expectUpdates(w.updates)
	}
	defer func() {
		for _, w := range writes {
			if err != nil {
				s.ownUpdates.forgetUpdates(w.updates)
			}
		}
	}()
	results, err := s.nbClient.Transact(ctx, ops...)
	if err != nil {
		return -1, fmt.Errorf("northbound transaction: %w", err)
	}
	if _, err = ovsdb.CheckOperationResults(results, ops); err == nil {
		return -1, nil
	}
	i := slices.IndexFunc(results, func(r ovsdb.OperationResult) bool { return r.Error != "" })
	if i < 0 {
		return -1, fmt.Errorf("northbound transaction: %w", err)
	}
	err = fmt.Errorf("northbound transaction: %w: %s: %s", err, results[i].Error, results[i].Details)
	for n, w := range writes {
		if i >= len(w.ops) {
			i -= len(w.ops)
			continue
		}
		if w.explain != nil {
			if known := w.explain(i); known != nil {
				err = known
			}
		}
		return n, err
	}
	return -1, err // an integrity check of the whole transaction
}
