package clusterstate

import (
	"fmt"
	"io"
)

// TooLargeError means that the input exceeds a limit.
type TooLargeError struct {
	Unit  string // bytes, entries or fields
	Limit int64
}

func (t TooLargeError) Error() string {
	return fmt.Sprintf("it has more than %d %s; if you trust its source, raise --survey-limit", t.Limit, t.Unit)
}

// LimitBytes reads at most limit bytes, and fails if there are more.
func LimitBytes(from io.Reader, limit int64) io.Reader {
	return &limitedReader{source: from, maxBytes: limit}
}

// Minimum bytes of JSON for each entry of a list and for each field. In surveys written by Write it is a third more.
// Without this limit, a file of empty entries, of three bytes each, would need a hundred times its size in memory.
const (
	bytesPerEntry = 48
	bytesPerField = 16
)

// limitJSON reads JSON of at most limit bytes, and with no more entries and fields than a survey of that size can have.
func limitJSON(from io.Reader, limit int64) io.Reader {
	return &limitedReader{
		source:   from,
		maxBytes: limit,
		counter:  &jsonCounter{maxEntries: limit / bytesPerEntry, maxFields: limit / bytesPerField},
	}
}

type limitedReader struct {
	source    io.Reader
	maxBytes  int64
	readBytes int64
	counter   *jsonCounter // nil: not JSON
}

func (b *limitedReader) Read(into []byte) (int, error) {
	n, err := b.source.Read(into)
	if b.readBytes += int64(n); b.readBytes > b.maxBytes {
		return 0, TooLargeError{"bytes", b.maxBytes}
	}
	if b.counter == nil {
		return n, err
	}
	if wrong := b.counter.checkLimits(into[:n]); wrong != nil {
		return 0, wrong
	}
	return n, err
}

// jsonCounter parses JSON and counts its entries and fields.
type jsonCounter struct {
	maxEntries, maxFields     int64 // limits
	foundEntries, foundFields int64
	inString, escaped         bool   // inside a string, and after a backslash
	openLists                 []bool // for each open bracket: whether it is a list
}

func (s *jsonCounter) checkLimits(text []byte) error {
	for _, c := range text {
		s.countByte(c)
	}
	switch {
	case s.foundEntries > s.maxEntries:
		return TooLargeError{"entries", s.maxEntries}
	case s.foundFields > s.maxFields:
		return TooLargeError{"fields", s.maxFields}
	default:
		return nil
	}
}

// maxJSONDepth is the maximum depth of encoding/json, which refuses deeper input.
const maxJSONDepth = 10_000

// countByte counts what a byte begins: an object, a list, the next entry of a list, or the value of a field.
func (s *jsonCounter) countByte(c byte) {
	switch {
	case s.escaped:
		s.escaped = false
	case s.inString && c == '\\':
		s.escaped = true
	case c == '"':
		s.inString = !s.inString
	case s.inString:
	case c == '{' || c == '[':
		s.foundEntries++
		if len(s.openLists) < maxJSONDepth {
			s.openLists = append(s.openLists, c == '[')
		}
	case c == '}' || c == ']':
		s.openLists = s.openLists[:max(len(s.openLists)-1, 0)]
	case c == ',' && len(s.openLists) > 0 && s.openLists[len(s.openLists)-1]:
		s.foundEntries++
	case c == ':':
		s.foundFields++
	}
}
