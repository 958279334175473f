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

// outputFlags holds the output format of a command.
type outputFlags struct{ format string }

// Output formats.
const (
	formatText = "text"
	formatYAML = "yaml"
	formatJSON = "json"
)

// addFlag adds the flag to a command.
func (o *outputFlags) addFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.format, "output", "o", formatText, "output format: text, yaml or json")
}

// printResult prints a value in the selected format. The function text prints it as text.
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
		wrapper := &lineWrapper{out: w, width: terminalWidth(w)}
		if err := text(wrapper, newColorizer(w)); err != nil {
			return err
		}
		return wrapper.Flush()
	default:
		return fmt.Errorf("-o %s: use %s, %s or %s", o.format, formatText, formatYAML, formatJSON)
	}
}

// safeWriter is the writer that all commands print to. It escapes everything that controls a terminal, because output
// contains text that users wrote. Exceptions are newlines, tabs and, on a terminal, the sequences of colorizer.
// Newlines and tabs in users' texts are escaped when the survey is read (clusterstate.EscapeControlChars).
type safeWriter struct {
	out         io.Writer
	terminal    bool
	partialRune []byte // the first bytes of a character that is not complete yet
}

func newSafeWriter(to io.Writer) *safeWriter {
	if s, is := to.(*safeWriter); is {
		return s
	}
	file, isFile := to.(*os.File)
	return &safeWriter{out: to, terminal: isFile && term.IsTerminal(int(file.Fd()))}
}

// Write writes text, escaped.
func (s *safeWriter) Write(text []byte) (int, error) {
	all := append(s.partialRune, text...)
	end := len(all) - partialRuneLen(all)
	s.partialRune = slices.Clone(all[end:])
	if _, err := io.WriteString(s.out, s.sanitize(string(all[:end]))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// partialRuneLen returns the number of bytes at the end of text that belong to an incomplete character.
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

// sanitize escapes everything in text that controls a terminal, except colours if the output is a terminal.
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

func (s *safeWriter) clearTerminal() { s.writeControl("\x1b[H\x1b[2J") }

// eraseLine erases the line of the cursor.
func (s *safeWriter) eraseLine() { s.writeControl("\r\x1b[K") }

func (s *safeWriter) writeControl(sequence string) {
	if s.terminal {
		_, _ = io.WriteString(s.out, sequence) // the next write reports the error
	}
}

// PrintError prints the error of a command.
func PrintError(to io.Writer, err error) {
	if text := err.Error(); text != "" {
		fmt.Fprintln(to, "error:", humanize.EscapeTerminalLines(text))
	}
}

// colorizer adds colours to text if it is true.
type colorizer bool

// newColorizer enables colours on a terminal, unless NO_COLOR is set (https://no-color.org).
func newColorizer(w io.Writer) colorizer {
	return colorizer(isTerminal(w) && os.Getenv("NO_COLOR") == "")
}

func isTerminal(w io.Writer) bool { return newSafeWriter(w).terminal }

// colourSequence matches the sequences that colorizer writes, the only ones that safeWriter does not escape.
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

// showProgress prints what the command is doing, on a terminal only. The returned function erases it.
func showProgress(cmd *cobra.Command, doing string) (done func()) {
	s := newSafeWriter(cmd.ErrOrStderr())
	if !s.terminal {
		return func() {}
	}
	fmt.Fprintf(s, "%s …", doing)
	return s.eraseLine
}

// newTable returns a writer for columns. Only the last column may have colours, because they count as width.
func newTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 4, 2, ' ', 0) }
