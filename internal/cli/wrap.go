package cli

import (
	"bytes"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// narrowestTerminal is the least width that text is wrapped to.
const narrowestTerminal = 40

// terminalWidth returns the width of the terminal that w writes to, and 0 if it is no terminal or a very narrow one.
func terminalWidth(w io.Writer) int {
	s := newSafeWriter(w)
	file, isFile := s.out.(*os.File)
	if !isFile || !s.terminal {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil || width < narrowestTerminal {
		return 0
	}
	return width
}

// lineWrapper wraps lines at spaces. What does not fit continues below the last column that begins in the left half of
// the line, so that a table with a column of text remains a table.
type lineWrapper struct {
	out   io.Writer
	width int // 0: lines are not wrapped
	rest  []byte
}

// Write writes the lines of text that are complete.
func (l *lineWrapper) Write(text []byte) (int, error) {
	if l.width == 0 {
		return l.out.Write(text)
	}
	l.rest = append(l.rest, text...)
	end := bytes.LastIndexByte(l.rest, '\n') + 1
	lines := string(l.rest[:end])
	l.rest = l.rest[end:]
	if err := l.writeLines(lines); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Flush writes the last line if it did not end.
func (l *lineWrapper) Flush() error {
	text := string(l.rest)
	l.rest = nil
	return l.writeLines(text)
}

func (l *lineWrapper) writeLines(text string) error {
	for line := range strings.Lines(text) {
		body, end := strings.TrimSuffix(line, "\n"), ""
		if body != line {
			end = "\n"
		}
		if _, err := io.WriteString(l.out, wrapLine(body, l.width)+end); err != nil {
			return err
		}
	}
	return nil
}

// wrapLine wraps one line. Words that are longer than the width are not divided.
func wrapLine(line string, width int) string {
	if countColumns(line) <= width {
		return line
	}
	indent := strings.Repeat(" ", findHangingIndent(line, width))
	var out strings.Builder
	for at := ""; ; at = indent {
		head, tail := splitAtWidth(line, width-len(at), out.Len() == 0)
		out.WriteString(at + head)
		if tail == "" {
			return out.String()
		}
		out.WriteByte('\n')
		line = tail
	}
}

// findHangingIndent returns the column where the continuation of a line begins.
func findHangingIndent(line string, width int) int {
	plain := colourSequence.ReplaceAllString(line, "")
	text := strings.TrimLeft(plain, " ")
	column, spaces := len(plain)-len(text), 0
	indent := column + 2
	for _, r := range text {
		if r == ' ' {
			spaces++
		} else {
			if spaces > 1 && column <= width/2 {
				indent = column
			}
			spaces = 0
		}
		column++
	}
	return min(indent, width/2)
}

// splitAtWidth divides a line at the last space that leaves at most width columns before it, or at the first one after
// them. In the first part of a line, the spaces that it begins with are no such place.
func splitAtWidth(line string, width int, first bool) (head, tail string) {
	at, column, inText := -1, 0, !first
	for i := 0; i < len(line); {
		if sequence := colourSequence.FindStringIndex(line[i:]); sequence != nil && sequence[0] == 0 {
			i += sequence[1]
			continue
		}
		r, size := utf8.DecodeRuneInString(line[i:])
		if r == ' ' && inText && (column <= width || at < 0) {
			at = i
		}
		inText = inText || r != ' '
		column, i = column+1, i+size
	}
	if column <= width || at < 0 {
		return line, ""
	}
	return strings.TrimRight(line[:at], " "), strings.TrimLeft(line[at:], " ")
}

// countColumns returns the number of columns that a line takes on a terminal, if all characters are one column wide.
func countColumns(line string) int {
	return utf8.RuneCountInString(colourSequence.ReplaceAllString(line, ""))
}
