package ovn

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Entries of address sets are written one by one when only pods have changed: a set may have many thousands, and ovsdb-server
// tells everybody about the changed entries only.

// errNoAddressSet means that an address set does not exist, or is not ours. The whole shard has to run.
var errNoAddressSet = errors.New("the address set does not exist")

// AddressSetTarget returns the target for some entries of a VPC's address sets: a part of RowTarget, whose cost does not
// depend on the rest. Observe returns all of them, whether they are in their set or not.
func (c *Client) AddressSetTarget(shard string, entries intent.Rows) state.Target[intent.RowKey, intent.Row] {
	return &addressSetTarget{client: c, shard: shard, entries: entries}
}

type addressSetTarget struct {
	client  *Client
	shard   string
	entries intent.Rows // AddressSetMembers
}

// Scope describes which entries are ours.
func (t *addressSetTarget) Scope() string {
	return "OVN northbound: entries of address sets of router " + t.shard + " with Sallyport's external_ids"
}

// find returns an address set of the shard.
func (t *addressSetTarget) find(s *session, name string) (*nb.AddressSet, error) {
	set := rowByName(s, nb.AddressSetTable, &nb.AddressSet{Name: name})
	if set == nil || set.ExternalIDs[ownership.RowShardKey] != t.shard {
		return nil, errNoAddressSet
	}
	return set, nil
}

// Observe reads the cache. It sends no query to the server.
func (t *addressSetTarget) Observe(context.Context) (intent.Rows, error) {
	s := t.client.current.Load()
	if s == nil {
		return nil, ErrNotConnected
	}
	sets, out := map[string]*nb.AddressSet{}, make(intent.Rows, len(t.entries))
	for key, entry := range t.entries {
		member := entry.Value.(intent.AddressSetMember)
		set := sets[member.Set]
		if set == nil {
			var err error
			if set, err = t.find(s, member.Set); err != nil {
				return nil, err
			}
			sets[member.Set] = set
		}
		member.IsIn = slices.Contains(set.Addresses, member.Address.String())
		out[key] = state.Entry[intent.Row]{Value: member, Origin: entry.Origin}
	}
	return out, nil
}

// Apply commits the changes in one transaction. When it returns, the cache contains them, as with RowTarget.
func (t *addressSetTarget) Apply(ctx context.Context, changes []rowChange) map[intent.RowKey]error {
	s := t.client.current.Load()
	if s == nil {
		return failAll(changes, ErrNotConnected)
	}
	edits := map[string]*addressSetEdit{}
	for _, c := range changes {
		if c.IsRemoval() {
			continue // every entry is wanted, in its set or not
		}
		member := (*c.After).(intent.AddressSetMember)
		if edits[member.Set] == nil {
			edits[member.Set] = &addressSetEdit{}
		}
		edits[member.Set].add(member)
	}
	write := &pendingWrite{session: s, updates: map[string]rowDraft{}}
	for _, name := range slices.Sorted(maps.Keys(edits)) {
		set, err := t.find(s, name)
		if err != nil {
			return failAll(changes, err)
		}
		op, err := edits[name].mutateOp(set.UUID)
		if err != nil {
			return failAll(changes, err)
		}
		set.Addresses = edits[name].apply(set.Addresses)
		write.ops = append(write.ops, op)
		write.updates[set.UUID] = rowDraft{row: set, fields: []any{&set.Addresses}}
	}
	if err := t.client.commitOne(ctx, write); err != nil {
		return failAll(changes, err)
	}
	return nil
}

// addressSetEdit is the change of an address set.
type addressSetEdit struct{ added, removed []string }

func (e *addressSetEdit) add(m intent.AddressSetMember) {
	if m.IsIn {
		e.added = append(e.added, m.Address.String())
	} else {
		e.removed = append(e.removed, m.Address.String())
	}
}

// apply returns the addresses after the edit.
func (e *addressSetEdit) apply(to []string) []string {
	out := slices.DeleteFunc(slices.Clone(to), func(a string) bool {
		return slices.Contains(e.removed, a) || slices.Contains(e.added, a)
	})
	return append(out, e.added...)
}

// mutateOp returns the operation.
func (e *addressSetEdit) mutateOp(uuid string) (ovsdb.Operation, error) {
	op := ovsdb.Operation{
		Op: ovsdb.OperationMutate, Table: nb.AddressSetTable,
		Where: []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, ovsdb.UUID{GoUUID: uuid})},
	}
	for _, part := range []struct {
		how       ovsdb.Mutator
		addresses []string
	}{{ovsdb.MutateOperationDelete, e.removed}, {ovsdb.MutateOperationInsert, e.added}} {
		if len(part.addresses) == 0 {
			continue
		}
		set, err := ovsdb.NewOvsSet(part.addresses)
		if err != nil {
			return op, err
		}
		op.Mutations = append(op.Mutations, *ovsdb.NewMutation(addressesColumn, part.how, set))
	}
	return op, nil
}
