package intent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// CanonicalJSON returns a value as JSON in normal form: sorted keys, no empty maps and lists. The API server and typed
// clients disagree on whether an empty list is present.
func CanonicalJSON(v any) string {
	text, _ := appendValue(make([]byte, 0, 512), v)
	return string(text)
}

// appendValue appends a value and reports whether it is empty. The common types avoid encoding/json: thousands of
// objects are computed for each change of one.
func appendValue(text []byte, v any) (_ []byte, empty bool) {
	switch v := v.(type) {
	case nil:
		return append(text, "null"...), true
	case string:
		return appendString(text, v), false
	case bool:
		return strconv.AppendBool(text, v), false
	case int:
		return strconv.AppendInt(text, int64(v), 10), false
	case int64:
		return strconv.AppendInt(text, v, 10), false
	case map[string]any:
		return appendMap(text, v, appendValue)
	case map[string]string:
		return appendMap(text, v, appendText)
	case []any:
		return appendList(text, v, appendValue)
	case []string:
		return appendList(text, v, appendText)
	case []map[string]any:
		return appendList(text, v, func(text []byte, m map[string]any) ([]byte, bool) {
			return appendMap(text, m, appendValue)
		})
	case float64, json.Number:
		return append(text, marshalJSON(v)...), false
	default:
		return appendValue(text, roundTripJSON(v))
	}
}

// roundTripJSON returns a value as decoded from its JSON.
func roundTripJSON(v any) (out any) {
	if err := json.Unmarshal(marshalJSON(v), &out); err != nil {
		panic(fmt.Sprintf("JSON that was just written can't be read: %v", err))
	}
	return out
}

// appendMap omits empty values.
func appendMap[V any](text []byte, m map[string]V, value func([]byte, V) ([]byte, bool)) (_ []byte, empty bool) {
	if m == nil {
		return append(text, "null"...), true
	}
	text, empty = append(text, '{'), true
	keys := slices.AppendSeq(make([]string, 0, len(m)), maps.Keys(m))
	slices.Sort(keys)
	for _, key := range keys {
		before := len(text)
		if !empty {
			text = append(text, ',')
		}
		var without bool
		if text, without = value(append(appendString(text, key), ':'), m[key]); without {
			text = text[:before]
			continue
		}
		empty = false
	}
	return append(text, '}'), empty
}

// appendList keeps empty values, because positions matter.
func appendList[V any](text []byte, list []V, value func([]byte, V) ([]byte, bool)) (_ []byte, empty bool) {
	if list == nil {
		return append(text, "null"...), true
	}
	text = append(text, '[')
	for i, v := range list {
		if i > 0 {
			text = append(text, ',')
		}
		text, _ = value(text, v)
	}
	return append(text, ']'), len(list) == 0
}

func appendText(text []byte, s string) ([]byte, bool) { return appendString(text, s), false }

// appendString does not escape <, > and &, because users read the text.
func appendString(text []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return append(text, marshalJSON(strings.ToValidUTF8(s, "\uFFFD"))...)
		}
	}
	return append(append(append(text, '"'), s...), '"')
}

func marshalJSON(v any) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(fmt.Sprintf("a value of our own can't be written as JSON: %v", err))
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}
