package survey

import (
	"reflect"
	"strings"
	"sync"

	"github.com/sallyport/sallyport/internal/logical"
	"github.com/sallyport/sallyport/internal/words"
)

// Visible is a value of a survey in which no text has characters that a terminal obeys (words.Visible), so that nobody who prints one has to
// think of them: names, labels, annotations, messages and events are what users wrote. The value that is given does not change.
func Visible[T any](value T) T {
	out, _ := visible(reflect.ValueOf(&value).Elem(), words.Visible)
	return out.Interface().(T)
}

// texts caches whether values of a type can have texts; most parts of a survey are numbers, times and addresses.
var texts sync.Map // reflect.Type → bool

func hasTexts(t reflect.Type) bool {
	if known, ok := texts.Load(t); ok {
		return known.(bool)
	}
	has := false
	switch t.Kind() {
	case reflect.String, reflect.Interface:
		has = true
	case reflect.Pointer, reflect.Slice, reflect.Array:
		has = hasTexts(t.Elem())
	case reflect.Map:
		has = hasTexts(t.Key()) || hasTexts(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			has = has || t.Field(i).IsExported() && hasTexts(t.Field(i).Type)
		}
	}
	texts.Store(t, has)
	return has
}

// visible is a value with every text in it changed, and whether any was. What did not change is shared with the value that was given.
func visible(v reflect.Value, change func(string) string) (reflect.Value, bool) {
	if !hasTexts(v.Type()) {
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
		return visibleBehind(v, change)
	case reflect.Struct:
		return visibleFields(v, change)
	case reflect.Slice, reflect.Array:
		return visibleItems(v, change)
	case reflect.Map:
		return visibleEntries(v, change)
	default:
		return v, false
	}
}

func visibleBehind(v reflect.Value, change func(string) string) (reflect.Value, bool) {
	if v.IsNil() {
		return v, false
	}
	what, changed := visible(v.Elem(), change)
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

// oneLine is for OVN's own language, in which a line break means what a space does.
func oneLine(text string) string {
	return words.Visible(strings.NewReplacer("\n", " ", "\r", " ", "\t", " ").Replace(text))
}

func visibleFields(v reflect.Value, change func(string) string) (reflect.Value, bool) {
	if v.Type() == reflect.TypeFor[logical.Network]() {
		change = oneLine
	}
	out, copied := v, false
	for i := range v.NumField() {
		if !v.Field(i).CanInterface() {
			continue // it is not exported
		}
		field, changed := visible(v.Field(i), change)
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

func visibleItems(v reflect.Value, change func(string) string) (reflect.Value, bool) {
	out, copied := v, false
	for i := range v.Len() {
		item, changed := visible(v.Index(i), change)
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

func visibleEntries(v reflect.Value, change func(string) string) (reflect.Value, bool) {
	type entry struct{ key, newKey, value reflect.Value }
	var differ []entry
	for each := v.MapRange(); each.Next(); {
		key, changedKey := visible(each.Key(), change)
		value, changed := visible(each.Value(), change)
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
