package ovn

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
)

// buildSchema returns a schema that fits the models. End-to-end tests check them against a real server.
func buildSchema(t *testing.T, described model.ClientDBModel) (out ovsdb.DatabaseSchema) {
	t.Helper()
	kinds := map[reflect.Type]any{
		reflect.TypeFor[string]():   "string",
		reflect.TypeFor[int]():      "integer",
		reflect.TypeFor[bool]():     "boolean",
		reflect.TypeFor[*string]():  map[string]any{"key": "string", "min": 0, "max": 1},
		reflect.TypeFor[[]string](): map[string]any{"key": "string", "min": 0, "max": "unlimited"},
		reflect.TypeFor[map[string]string](): map[string]any{
			"key":   "string",
			"value": "string",
			"min":   0,
			"max":   "unlimited",
		},
		reflect.TypeFor[map[string]int](): map[string]any{
			"key":   "string",
			"value": "integer",
			"min":   0,
			"max":   "unlimited",
		},
	}
	indexes := map[string]any{
		nb.LogicalRouterPortTable: [][]string{{"name"}},
		nb.StaticMACBindingTable:  [][]string{{"logical_port", "ip"}},
		nb.AddressSetTable:        [][]string{{"name"}},
		nb.LogicalSwitchPortTable: [][]string{{"name"}},
		nb.PortGroupTable:         [][]string{{"name"}},
	}
	tables := map[string]any{}
	for name, kind := range described.Types() {
		columns := map[string]any{}
		for i := range kind.Elem().NumField() {
			f := kind.Elem().Field(i)
			columns[f.Tag.Get("ovsdb")] = map[string]any{"type": kinds[f.Type]}
		}
		delete(columns, "_uuid")
		tables[name] = map[string]any{"columns": columns, "indexes": indexes[name]}
	}
	raw, err := json.Marshal(map[string]any{"name": nb.Database, "version": "0.0.0", "tables": tables})
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// checkDeepCopy fails the test if a copy differs from its original, or shares memory with it.
func checkDeepCopy(t *testing.T, from, to model.Model) {
	t.Helper()
	if !reflect.DeepEqual(from, to) {
		t.Errorf("%+v was copied as %+v", from, to)
	}
	a, b := reflect.ValueOf(from).Elem(), reflect.ValueOf(to).Elem()
	for i := range a.NumField() {
		switch a.Field(i).Kind() {
		case reflect.Map, reflect.Slice, reflect.Pointer:
			if a.Field(i).IsNil() || a.Field(i).Pointer() == b.Field(i).Pointer() {
				t.Errorf("%T.%s is empty or shared", from, a.Type().Field(i).Name)
			}
		}
	}
}
