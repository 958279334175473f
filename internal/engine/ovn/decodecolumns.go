package ovn

import (
	"reflect"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

const (
	columnTag  = "ovsdb" // names the column of a field, as libovsdb has it
	uuidColumn = "_uuid"
)

// columnsOf returns the columns that a row of type M has fields for, without the UUID.
func columnsOf[M any]() (out []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[M]()) {
		if column := f.Tag.Get(columnTag); column != "" && column != uuidColumn {
			out = append(out, column)
		}
	}
	return out
}

// decodeColumns decodes a row as a server of any version sends it. Fields of columns that the row does not have are empty.
func decodeColumns[M any](row ovsdb.Row) *M {
	out := new(M)
	decodeFields(reflect.ValueOf(out).Elem(), row)
	return out
}

func decodeFields(to reflect.Value, row ovsdb.Row) {
	for i := range to.NumField() {
		field := to.Type().Field(i)
		if field.Anonymous {
			decodeFields(to.Field(i), row)
		} else if column, there := row[field.Tag.Get(columnTag)]; there {
			decodeColumn(to.Field(i), column)
		}
	}
}

// decodeColumn decodes a column. OVSDB encodes a set of one as a plain value.
func decodeColumn(to reflect.Value, column any) {
	if all, is := column.(ovsdb.OvsMap); is {
		decodeMap(to, all)
		return
	}
	values := []any{column}
	if set, is := column.(ovsdb.OvsSet); is {
		values = set.GoSet
	}
	switch to.Kind() {
	case reflect.Slice:
		var all []string
		for _, v := range values {
			var text string
			decodeValue(reflect.ValueOf(&text).Elem(), v)
			all = append(all, text)
		}
		slices.Sort(all)
		to.Set(reflect.ValueOf(all))
	case reflect.Pointer:
		if len(values) > 0 {
			to.Set(reflect.New(to.Type().Elem()))
			decodeValue(to.Elem(), values[0])
		}
	default:
		if len(values) > 0 {
			decodeValue(to, values[0])
		}
	}
}

// decodeValue decodes a value, unless it is of another type than the field.
func decodeValue(to reflect.Value, value any) {
	switch v := value.(type) {
	case ovsdb.UUID:
		decodeValue(to, v.GoUUID)
	case float64:
		if to.CanInt() {
			to.SetInt(int64(v))
		}
	default:
		if from := reflect.ValueOf(value); from.IsValid() && from.Type() == to.Type() {
			to.Set(from)
		}
	}
}

func decodeMap(to reflect.Value, all ovsdb.OvsMap) {
	if to.Kind() != reflect.Map || len(all.GoMap) == 0 {
		return
	}
	to.Set(reflect.MakeMapWithSize(to.Type(), len(all.GoMap)))
	for k, v := range all.GoMap {
		key, value := reflect.New(to.Type().Key()).Elem(), reflect.New(to.Type().Elem()).Elem()
		decodeValue(key, k)
		decodeValue(value, v)
		to.SetMapIndex(key, value)
	}
}

func rowUUID(row ovsdb.Row) string {
	id, _ := row[uuidColumn].(ovsdb.UUID)
	return id.GoUUID
}
