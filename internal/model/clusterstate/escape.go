package clusterstate

import (
	"reflect"
	"strings"
	"sync"

	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/logical"
)

// EscapeControlChars returns a copy of a value in which all strings are escaped for terminals
// (humanize.EscapeTerminal), so that code that prints them need not: names, labels, annotations, messages and events
// are written by users. The original is not changed.
func EscapeControlChars[T any](value T) T {
	out, _ := escapeValue(reflect.ValueOf(&value).Elem(), humanize.EscapeTerminal)
	return out.Interface().(T)
}

// textTypes caches whether values of a type can contain strings. Most parts of a survey are numbers, times and
// addresses.
var textTypes sync.Map // reflect.Type → bool

func containsText(t reflect.Type) bool {
	if known, ok := textTypes.Load(t); ok {
		return known.(bool)
	}
	has := false
	switch t.Kind() {
	case reflect.String, reflect.Interface:
		has = true
	case reflect.Pointer, reflect.Slice, reflect.Array:
		has = containsText(t.Elem())
	case reflect.Map:
		has = containsText(t.Key()) || containsText(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			has = has || t.Field(i).IsExported() && containsText(t.Field(i).Type)
		}
	}
	textTypes.Store(t, has)
	return has
}

// escapeValue returns a value with every string changed, and whether any was. Unchanged parts are shared with the
// original.
func escapeValue(v reflect.Value, change func(string) string) (reflect.Value, bool) {
	if !containsText(v.Type()) {
		return v, false
	}
	switch v.Kind() {
	case reflect.String:
		text := change(v.String())
		if text == v.String() {
			return v, false
		}
		return reflect.ValueOf(text).Convert(v.Type()), true
	case reflect.Pointer, reflect.Interface:
		return escapePointee(v, change)
	case reflect.Struct:
		return escapeFields(v, change)
	case reflect.Slice, reflect.Array:
		return escapeItems(v, change)
	case reflect.Map:
		return escapeMapEntries(v, change)
	default:
		return v, false
	}
}

func escapePointee(v reflect.Value, change func(string) string) (reflect.Value, bool) {
	if v.IsNil() {
		return v, false
	}
	what, changed := escapeValue(v.Elem(), change)
	switch {
	case !changed:
		return v, false
	case v.Kind() == reflect.Interface:
		return what.Convert(v.Type()), true
	default:
		out := reflect.New(v.Type().Elem())
		out.Elem().Set(what)
		return out, true
	}
}

// escapeOneLine is for OVN's expression language, in which a line break is equivalent to a space.
func escapeOneLine(text string) string {
	return humanize.EscapeTerminal(strings.NewReplacer("\n", " ", "\r", " ", "\t", " ").Replace(text))
}

func escapeFields(v reflect.Value, change func(string) string) (reflect.Value, bool) {
	if v.Type() == reflect.TypeFor[logical.Network]() {
		change = escapeOneLine
	}
	out, copied := v, false
	for i := range v.NumField() {
		if !v.Field(i).CanInterface() {
			continue // unexported
		}
		field, changed := escapeValue(v.Field(i), change)
		if !changed {
			continue
		}
		if !copied {
			out, copied = reflect.New(v.Type()).Elem(), true
			out.Set(v)
		}
		out.Field(i).Set(field)
	}
	return out, copied
}

func escapeItems(v reflect.Value, change func(string) string) (reflect.Value, bool) {
	out, copied := v, false
	for i := range v.Len() {
		item, changed := escapeValue(v.Index(i), change)
		if !changed {
			continue
		}
		if !copied {
			out, copied = reflect.New(v.Type()).Elem(), true
			if v.Kind() == reflect.Slice {
				out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			}
			reflect.Copy(out, v)
		}
		out.Index(i).Set(item)
	}
	return out, copied
}

func escapeMapEntries(v reflect.Value, change func(string) string) (reflect.Value, bool) {
	type entry struct{ key, newKey, value reflect.Value }
	var differ []entry
	for each := v.MapRange(); each.Next(); {
		key, changedKey := escapeValue(each.Key(), change)
		value, changed := escapeValue(each.Value(), change)
		if changedKey || changed {
			differ = append(differ, entry{each.Key(), key, value})
		}
	}
	if len(differ) == 0 {
		return v, false
	}
	out := reflect.MakeMapWithSize(v.Type(), v.Len())
	for each := v.MapRange(); each.Next(); {
		out.SetMapIndex(each.Key(), each.Value())
	}
	for _, e := range differ {
		out.SetMapIndex(e.key, reflect.Value{})
		out.SetMapIndex(e.newKey, e.value)
	}
	return out, true
}
