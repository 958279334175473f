package kube

import (
	"reflect"
	"slices"
	"strings"
)

// fieldsAt returns the sorted names of the fields below a path in an object, such as spec.ports[0].
func fieldsAt(object any, path string) []string {
	at := reflect.TypeOf(object)
	for part := range strings.SplitSeq(path, ".") {
		name, _, _ := strings.Cut(part, "[")
		if name != "" {
			at = fieldType(at, name)
		}
		if at == nil {
			return nil
		}
	}
	var out []string
	for name := range jsonFields(at) {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// fieldType returns the type of a field, nil if there is none.
func fieldType(of reflect.Type, name string) reflect.Type { return jsonFields(of)[name] }

// jsonFields returns the types of the fields of a struct, or of the elements of a list of structs, by name in JSON.
func jsonFields(of reflect.Type) map[string]reflect.Type {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return nil
	}
	out := map[string]reflect.Type{}
	for i := range of.NumField() {
		field := of.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported():
		case name == "" && (field.Anonymous || strings.Contains(options, "inline")):
			for inner, t := range jsonFields(field.Type) {
				out[inner] = t
			}
		case name != "":
			out[name] = field.Type
		}
	}
	return out
}
