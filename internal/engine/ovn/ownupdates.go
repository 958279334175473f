package ovn

import (
	"reflect"
	"slices"
	"sync"

	"github.com/ovn-kubernetes/libovsdb/model"
)

// ownUpdates are the updates of rows that we have sent and not heard of yet. To hear of one is no news: who sent it has
// looked at the row since. Rows that come or go are news, because others may wait for them.
type ownUpdates struct {
	mu      sync.Mutex
	pending map[string]rowDraft // by the row's UUID
}

// expectUpdates is told of updates before they are sent. One that changes nothing is never heard of; the next of its
// row takes its place, and until then a row that comes to say the same is as it should be.
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

// confirmUpdate says whether a row has become what we wrote.
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

// forgetUpdates is told of updates that have failed.
func (e *ownUpdates) forgetUpdates(updates map[string]rowDraft) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for uuid := range updates {
		delete(e.pending, uuid)
	}
}

// matchesRow says whether a row says what was drafted.
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

// equalColumns says whether two columns are equal: an empty map or set is none.
func equalColumns(a, b reflect.Value) bool {
	if (a.Kind() == reflect.Map || a.Kind() == reflect.Slice) && a.Len() == 0 {
		return b.Len() == 0
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}
