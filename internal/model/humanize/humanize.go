// Package humanize is the formatting of lists, numbers and users' text for people.
package humanize

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// JoinLimited returns the first entries of a list, and the number of further ones.
func JoinLimited(list []string, most int) string {
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

// Strings converts values to strings.
func Strings[T fmt.Stringer](list []T) []string {
	out := make([]string, 0, len(list))
	for _, v := range list {
		out = append(out, v.String())
	}
	return out
}

// Pluralize returns a number with the singular or plural noun.
func Pluralize(n int, one, more string) string {
	if n == 1 {
		return fmt.Sprintf("1 %s", one)
	}
	return fmt.Sprintf("%d %s", n, more)
}

// maxQuotedRunes limits how much of a user's text a message shows, in runes.
const maxQuotedRunes = 80

// Quote returns a user's text for a message: quoted, on one line, and no longer than a line. Control characters and
// those that change the direction of text are escaped.
func Quote(text string) string {
	n := 0
	for i := range text {
		if n++; n > maxQuotedRunes {
			return fmt.Sprintf("%s… (%d more)", strconv.Quote(text[:i]), utf8.RuneCountInString(text[i:]))
		}
	}
	return strconv.Quote(text)
}

// QuoteName returns a user's name for a message. It quotes names that no object can have: the names in annotations and
// fields are not validated.
func QuoteName(text string) string {
	plain := text != "" && len(text) <= 253 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-./") == ""
	if plain {
		return text
	}
	return Quote(text)
}

// EscapeTerminal escapes characters that would control a terminal: control characters, invalid bytes, and those that
// change the direction of text. It uses JSON's escapes, so that a line remains one line and JSON remains JSON.
func EscapeTerminal(text string) string { return escapeHidden(text, func(rune) bool { return false }) }

// EscapeTerminalLines does the same for text of several lines with columns: it keeps newlines and tabs.
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

// isHiddenRune reports whether a terminal or browser interprets a character instead of showing it: C0, DEL, C1, line
// separators, and the marks, embeddings, overrides and isolates of text direction. Invalid bytes are decoded as the
// replacement character.
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
