package ovn

import (
	"reflect"
	"slices"
	"sync"

	"github.com/ovn-kubernetes/libovsdb/model"
)

// echoes are the updates of rows that we have sent and not heard of yet. To hear of one is no news: who sent it has looked at the row
// since. Rows that come or go are news, because others may wait for them.
type echoes struct {
	mu   sync.Mutex
	sent map[string]draft // by the row's UUID
}

// expect is told of updates before they are sent. One that changes nothing is never heard of; the next of its row takes its place, and
// until then a row that comes to say the same is as it should be.
func (e *echoes) expect(updates map[string]draft) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sent == nil {
		e.sent = map[string]draft{}
	}
	for uuid, d := range updates {
		e.sent[uuid] = d
	}
}

// is says whether a row has become what we wrote.
func (e *echoes) is(uuid string, row model.Model) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	d, sent := e.sent[uuid]
	if !sent || !d.in(row) {
		return false
	}
	delete(e.sent, uuid)
	return true
}

// forget is told of updates that have failed.
func (e *echoes) forget(updates map[string]draft) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for uuid := range updates {
		delete(e.sent, uuid)
	}
}

// in says whether a row says what was drafted.
func (d draft) in(row model.Model) bool {
	wrote, says := reflect.ValueOf(d.row).Elem(), reflect.ValueOf(row).Elem()
	if wrote.Type() != says.Type() {
		return false
	}
	for i := range wrote.NumField() {
		if slices.Contains(d.fields, wrote.Field(i).Addr().Interface()) && !alike(wrote.Field(i), says.Field(i)) {
			return false
		}
	}
	return true
}

// alike says whether two columns are equal: an empty map or set is none.
func alike(a, b reflect.Value) bool {
	if (a.Kind() == reflect.Map || a.Kind() == reflect.Slice) && a.Len() == 0 {
		return b.Len() == 0
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}
