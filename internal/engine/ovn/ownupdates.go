package ovn

import (
	"reflect"
	"slices"
	"sync"

	"github.com/ovn-kubernetes/libovsdb/model"
)

// ownUpdates holds row updates that we have sent and not yet received back. Receiving one triggers no run, because the
// sender has already read the row. Created and deleted rows do trigger one, because others may wait for them.
type ownUpdates struct {
	mu      sync.Mutex
	pending map[string]rowDraft // by UUID of the row
}

// expectUpdates records updates before they are sent. An update that changes nothing never comes back. Its entry lasts
// until the next update of the row; until then, a row that gets the same content is as it should be.
func (e *ownUpdates) expectUpdates(updates map[string]rowDraft) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pending == nil {
		e.pending = map[string]rowDraft{}
	}
	for uuid, d := range updates {
		e.pending[uuid] = d
	}
}

// confirmUpdate reports whether a row now has the content that we wrote.
func (e *ownUpdates) confirmUpdate(uuid string, row model.Model) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	d, sent := e.pending[uuid]
	if !sent || !d.matchesRow(row) {
		return false
	}
	delete(e.pending, uuid)
	return true
}

// forgetUpdates discards updates that have failed.
func (e *ownUpdates) forgetUpdates(updates map[string]rowDraft) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for uuid := range updates {
		delete(e.pending, uuid)
	}
}

// matchesRow reports whether a row has the drafted content.
func (d rowDraft) matchesRow(row model.Model) bool {
	wrote, says := reflect.ValueOf(d.row).Elem(), reflect.ValueOf(row).Elem()
	if wrote.Type() != says.Type() {
		return false
	}
	for i := range wrote.NumField() {
		if slices.Contains(d.fields, wrote.Field(i).Addr().Interface()) &&
			!equalColumns(wrote.Field(i), says.Field(i)) {
			return false
		}
	}
	return true
}

// equalColumns reports whether two columns are equal. Empty maps and sets equal nil. Sets have no order: libovsdb keeps
// that of the changes.
func equalColumns(a, b reflect.Value) bool {
	if x, isSet := a.Interface().([]string); isSet {
		return equalSets(x, b.Interface().([]string))
	}
	if (a.Kind() == reflect.Map || a.Kind() == reflect.Slice) && a.Len() == 0 {
		return b.Len() == 0
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

func equalSets(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	if slices.Equal(a, b) {
		return true
	}
	in := make(map[string]bool, len(a))
	for _, x := range a {
		in[x] = true
	}
	return !slices.ContainsFunc(b, func(x string) bool { return !in[x] })
}
