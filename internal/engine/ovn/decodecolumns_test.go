package ovn

import (
	"maps"
	"slices"
	"testing"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// A row of another version of OVN may lack a column, or have it with another type: the field is empty then.
func TestColumnsOfAnotherSchema(t *testing.T) {
	disabled := false
	for name, c := range map[string]struct {
		row  ovsdb.Row
		want switchPortRow
	}{
		"nothing":       {ovsdb.Row{}, switchPortRow{}},
		"another type":  {ovsdb.Row{"name": 7.0, "tag": "seven", "up": "yes", "options": "none"}, switchPortRow{}},
		"an empty set":  {ovsdb.Row{"enabled": ovsdb.OvsSet{}, "tag": ovsdb.OvsSet{}}, switchPortRow{}},
		"a plain value": {ovsdb.Row{"enabled": false, "tag": 7.0}, switchPortRow{Enabled: &disabled, Tag: 7}},
	} {
		got := *decodeColumns[switchPortRow](c.row)
		if got.Name != c.want.Name || got.Tag != c.want.Tag || got.Up != c.want.Up || len(got.Options) != 0 ||
			isDisabled(got.Enabled) != isDisabled(c.want.Enabled) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// A column has one field: that of the controller's model if there is one.
func TestColumnsAreDescribedOnce(t *testing.T) {
	for _, tables := range []map[string][]string{northboundColumns, southboundColumns} {
		for _, table := range slices.Sorted(maps.Keys(tables)) {
			columns := slices.Sorted(slices.Values(tables[table]))
			if len(columns) == 0 || len(slices.Compact(slices.Clone(columns))) != len(columns) {
				t.Errorf("%s has the columns %q", table, columns)
			}
		}
	}
}
