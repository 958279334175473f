package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/internal/model/humanize"
)

// outputFlags is how a command prints what it found out.
type outputFlags struct{ format string }

// The formats.
const (
	formatText = "text"
	formatYAML = "yaml"
	formatJSON = "json"
)

// addFlag adds the flag to a command.
func (o *outputFlags) addFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.format, "output", "o", formatText, "text, yaml or json")
}

// printResult prints a value as it was asked for: as data, or by its text.
func (o *outputFlags) printResult(cmd *cobra.Command, value any, text func(io.Writer, colorizer) error) error {
	w := cmd.OutOrStdout()
	switch o.format {
	case formatJSON:
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(value)
	case formatYAML:
		raw, err := yaml.Marshal(value)
		if err != nil {
			return err
		}
		_, err = w.Write(raw)
		return err
	case formatText:
		return text(w, newColorizer(w))
	default:
		return fmt.Errorf("-o %s: use %s, %s or %s", o.format, formatText, formatYAML, formatJSON)
	}
}

// safeWriter is where commands print. Nothing passes it that a terminal obeys, but the colours of ink on a terminal:
// what commands print is full of what users wrote. Newlines and tabs pass; those of users' texts are spelled out where
// they are read (survey.EscapeControlChars).
type safeWriter struct {
	out         io.Writer
	terminal    bool
	partialRune []byte // the beginning of a character whose end has not been written yet
}

func newSafeWriter(to io.Writer) *safeWriter {
	if s, is := to.(*safeWriter); is {
		return s
	}
	file, isFile := to.(*os.File)
	return &safeWriter{out: to, terminal: isFile && term.IsTerminal(int(file.Fd()))}
}

// Write prints text.
func (s *safeWriter) Write(text []byte) (int, error) {
	all := append(s.partialRune, text...)
	end := len(all) - partialRuneLen(all)
	s.partialRune = slices.Clone(all[end:])
	if _, err := io.WriteString(s.out, s.sanitize(string(all[:end]))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// partialRuneLen is how many bytes at the end of a text are the beginning of a character.
func partialRuneLen(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return n
			}
			return 0
		}
	}
	return 0
}

// sanitize is text without anything that a terminal obeys, but colours on one.
func (s *safeWriter) sanitize(text string) string {
	if !s.terminal {
		return humanize.EscapeTerminalLines(text)
	}
	var out strings.Builder
	for text != "" {
		at := colourSequence.FindStringIndex(text)
		if at == nil {
			at = []int{len(text), len(text)}
		}
		out.WriteString(humanize.EscapeTerminalLines(text[:at[0]]))
		out.WriteString(text[at[0]:at[1]])
		text = text[at[1]:]
	}
	return out.String()
}

// clearTerminal empties a terminal.
func (s *safeWriter) clearTerminal() { s.writeControl("\x1b[H\x1b[2J") }

// eraseLine empties the line that the cursor is in.
func (s *safeWriter) eraseLine() { s.writeControl("\r\x1b[K") }

func (s *safeWriter) writeControl(sequence string) {
	if s.terminal {
		_, _ = io.WriteString(s.out, sequence) // what follows says what is wrong
	}
}

// PrintError prints why a command failed.
func PrintError(to io.Writer, err error) {
	if text := err.Error(); text != "" {
		fmt.Fprintln(to, "error:", humanize.EscapeTerminalLines(text))
	}
}

// colorizer is colours, or none.
type colorizer bool

// newColorizer has colours on a terminal, unless somebody does not want any (https://no-color.org).
func newColorizer(w io.Writer) colorizer {
	return colorizer(isTerminal(w) && os.Getenv("NO_COLOR") == "")
}

func isTerminal(w io.Writer) bool { return newSafeWriter(w).terminal }

// colourSequence is what ink prints, and all that a screen lets through.
var colourSequence = regexp.MustCompile("\x1b\\[(0|1|2|31|32|33)m")

func (i colorizer) red(text string) string    { return i.applySGR("31", text) }
func (i colorizer) green(text string) string  { return i.applySGR("32", text) }
func (i colorizer) yellow(text string) string { return i.applySGR("33", text) }
func (i colorizer) bold(text string) string   { return i.applySGR("1", text) }
func (i colorizer) faint(text string) string  { return i.applySGR("2", text) }

func (i colorizer) applySGR(code, text string) string {
	if !i || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// showProgress says on a terminal what takes long, until the returned function is called.
func showProgress(cmd *cobra.Command, doing string) (done func()) {
	s := newSafeWriter(cmd.ErrOrStderr())
	if !s.terminal {
		return func() {}
	}
	fmt.Fprintf(s, "%s …", doing)
	return s.eraseLine
}

// newTable is text in columns. Colours may be in the last column only: they would count as width.
func newTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 4, 2, ' ', 0) }
