package survey

import (
	"fmt"
	"io"
)

// TooLarge says that something is larger than it may be.
type TooLarge struct {
	What  string // bytes, entries or fields
	Limit int64
}

func (t TooLarge) Error() string {
	return fmt.Sprintf("it has more than %d %s; if you trust whoever it is from, raise --survey-limit", t.Limit, t.What)
}

// Bound reads at most so many bytes; more are an error.
func Bound(from io.Reader, limit int64) io.Reader { return &bounded{from: from, bytes: limit} }

// How many bytes of JSON there are for each entry of a list and for each field. In surveys that Write wrote it is a third more; a file of
// empty entries, of three bytes each, would need a hundred times its size in memory.
const (
	bytesPerEntry = 48
	bytesPerField = 16
)

// boundJSON reads JSON of at most so many bytes, and of no more entries and fields than a survey of that size can have.
func boundJSON(from io.Reader, limit int64) io.Reader {
	return &bounded{from: from, bytes: limit, shape: &shape{entries: limit / bytesPerEntry, fields: limit / bytesPerField}}
}

type bounded struct {
	from  io.Reader
	bytes int64
	read  int64
	shape *shape // nil: it is not JSON
}

func (b *bounded) Read(into []byte) (int, error) {
	n, err := b.from.Read(into)
	if b.read += int64(n); b.read > b.bytes {
		return 0, TooLarge{"bytes", b.bytes}
	}
	if b.shape == nil {
		return n, err
	}
	if wrong := b.shape.follow(into[:n]); wrong != nil {
		return 0, wrong
	}
	return n, err
}

// shape follows JSON and counts what it consists of.
type shape struct {
	entries, fields           int64 // most of them
	foundEntries, foundFields int64
	text, escaped             bool   // inside a string, and behind a backslash
	lists                     []bool // of what is open: whether it is a list
}

func (s *shape) follow(text []byte) error {
	for _, c := range text {
		s.count(c)
	}
	switch {
	case s.foundEntries > s.entries:
		return TooLarge{"entries", s.entries}
	case s.foundFields > s.fields:
		return TooLarge{"fields", s.fields}
	default:
		return nil
	}
}

// deepest is how deep JSON may be that encoding/json reads. What is deeper is refused there.
const deepest = 10_000

// count counts what a byte begins: an object, a list, the next entry of a list, or the value of a field.
func (s *shape) count(c byte) {
	switch {
	case s.escaped:
		s.escaped = false
	case s.text && c == '\\':
		s.escaped = true
	case c == '"':
		s.text = !s.text
	case s.text:
	case c == '{' || c == '[':
		s.foundEntries++
		if len(s.lists) < deepest {
			s.lists = append(s.lists, c == '[')
		}
	case c == '}' || c == ']':
		s.lists = s.lists[:max(len(s.lists)-1, 0)]
	case c == ',' && len(s.lists) > 0 && s.lists[len(s.lists)-1]:
		s.foundEntries++
	case c == ':':
		s.foundFields++
	}
}
