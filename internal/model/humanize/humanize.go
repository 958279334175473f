// Package humanize is lists, numbers and users' texts as people read them.
package humanize

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// JoinLimited is the first of several words, and how many more there are.
func JoinLimited(list []string, most int) string {
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

// Strings are things as words.
func Strings[T fmt.Stringer](list []T) []string {
	out := make([]string, 0, len(list))
	for _, v := range list {
		out = append(out, v.String())
	}
	return out
}

// Pluralize is a number of things.
func Pluralize(n int, one, more string) string {
	if n == 1 {
		return fmt.Sprintf("1 %s", one)
	}
	return fmt.Sprintf("%d %s", n, more)
}

// maxQuotedRunes is how much of a user's text a message shows, in runes.
const maxQuotedRunes = 80

// Quote is a text that a user wrote, for a message: in quotation marks, on one line, and no longer than a line. Control
// characters and those that turn the direction of text are spelled out.
func Quote(text string) string {
	n := 0
	for i := range text {
		if n++; n > maxQuotedRunes {
			return fmt.Sprintf("%s… (%d more)", strconv.Quote(text[:i]), utf8.RuneCountInString(text[i:]))
		}
	}
	return strconv.Quote(text)
}

// QuoteName is a name that a user wrote, for a message: one that an object can have as it is, anything else in
// quotation marks. Who writes a name into an annotation or a field is not held to what a name may be.
func QuoteName(text string) string {
	plain := text != "" && len(text) <= 253 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-./") == ""
	if plain {
		return text
	}
	return Quote(text)
}

// EscapeTerminal is a text without characters that a terminal would obey: control characters, invalid bytes, and those
// that turn the direction of text are spelled out as JSON spells them, so that a line stays one, and what is JSON stays
// JSON.
func EscapeTerminal(text string) string { return escapeHidden(text, func(rune) bool { return false }) }

// EscapeTerminalLines is the same for text of several lines with columns: it keeps newlines and tabs.
func EscapeTerminalLines(text string) string {
	return escapeHidden(text, func(r rune) bool { return r == '\n' || r == '\t' })
}

func escapeHidden(text string, kept func(rune) bool) string {
	begin := strings.IndexFunc(text, func(r rune) bool { return isHiddenRune(r) && !kept(r) })
	if begin < 0 {
		return text
	}
	var out strings.Builder
	out.WriteString(text[:begin])
	for i, r := range text[begin:] {
		switch {
		case !isHiddenRune(r) || kept(r):
			out.WriteRune(r)
		case r == utf8.RuneError && !strings.HasPrefix(text[begin+i:], string(utf8.RuneError)):
			fmt.Fprintf(&out, `\u%04x`, text[begin+i])
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\r':
			out.WriteString(`\r`)
		case r == '\t':
			out.WriteString(`\t`)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// isHiddenRune reports whether a terminal or a browser obeys a character in place of showing it: C0, DEL, C1, line
// separators, and the marks, embeddings, overrides and isolates of text direction. The replacement character is what an
// invalid byte is read as.
func isHiddenRune(r rune) bool {
	switch {
	case r < 0x20, r >= 0x7f && r <= 0x9f, r == utf8.RuneError:
		return true
	case r == 0x061c, r >= 0x200e && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	default:
		return false
	}
}
