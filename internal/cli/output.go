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

	"github.com/sallyport/sallyport/internal/words"
)

// output is how a command prints what it found out.
type output struct{ format string }

// The formats.
const (
	asText = "text"
	asYAML = "yaml"
	asJSON = "json"
)

// add adds the flag to a command.
func (o *output) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.format, "output", "o", asText, "text, yaml or json")
}

// print prints a value as it was asked for: as data, or by its text.
func (o *output) print(cmd *cobra.Command, value any, text func(io.Writer, ink) error) error {
	w := cmd.OutOrStdout()
	switch o.format {
	case asJSON:
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(value)
	case asYAML:
		raw, err := yaml.Marshal(value)
		if err != nil {
			return err
		}
		_, err = w.Write(raw)
		return err
	case asText:
		return text(w, inkFor(w))
	default:
		return fmt.Errorf("-o %s: use %s, %s or %s", o.format, asText, asYAML, asJSON)
	}
}

// screen is where commands print. Nothing passes it that a terminal obeys, but the colours of ink on a terminal: what commands print is
// full of what users wrote. Newlines and tabs pass; those of users' texts are spelled out where they are read (survey.Visible).
type screen struct {
	to       io.Writer
	terminal bool
	rest     []byte // the beginning of a character whose end has not been written yet
}

func newScreen(to io.Writer) *screen {
	if s, is := to.(*screen); is {
		return s
	}
	file, isFile := to.(*os.File)
	return &screen{to: to, terminal: isFile && term.IsTerminal(int(file.Fd()))}
}

// Write prints text.
func (s *screen) Write(text []byte) (int, error) {
	all := append(s.rest, text...)
	end := len(all) - unfinished(all)
	s.rest = slices.Clone(all[end:])
	if _, err := io.WriteString(s.to, s.clean(string(all[:end]))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// unfinished is how many bytes at the end of a text are the beginning of a character.
func unfinished(text []byte) int {
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

// clean is text without anything that a terminal obeys, but colours on one.
func (s *screen) clean(text string) string {
	if !s.terminal {
		return words.VisibleLines(text)
	}
	var out strings.Builder
	for text != "" {
		at := colour.FindStringIndex(text)
		if at == nil {
			at = []int{len(text), len(text)}
		}
		out.WriteString(words.VisibleLines(text[:at[0]]))
		out.WriteString(text[at[0]:at[1]])
		text = text[at[1]:]
	}
	return out.String()
}

// clear empties a terminal.
func (s *screen) clear() { s.command("\x1b[H\x1b[2J") }

// erase empties the line that the cursor is in.
func (s *screen) erase() { s.command("\r\x1b[K") }

func (s *screen) command(sequence string) {
	if s.terminal {
		_, _ = io.WriteString(s.to, sequence) // what follows says what is wrong
	}
}

// PrintError prints why a command failed.
func PrintError(to io.Writer, err error) {
	if text := err.Error(); text != "" {
		fmt.Fprintln(to, "error:", words.VisibleLines(text))
	}
}

// ink is colours, or none.
type ink bool

// inkFor has colours on a terminal, unless somebody does not want any (https://no-color.org).
func inkFor(w io.Writer) ink { return ink(onTerminal(w) && os.Getenv("NO_COLOR") == "") }

func onTerminal(w io.Writer) bool { return newScreen(w).terminal }

// colour is what ink prints, and all that a screen lets through.
var colour = regexp.MustCompile("\x1b\\[(0|1|2|31|32|33)m")

func (i ink) red(text string) string    { return i.dye("31", text) }
func (i ink) green(text string) string  { return i.dye("32", text) }
func (i ink) yellow(text string) string { return i.dye("33", text) }
func (i ink) bold(text string) string   { return i.dye("1", text) }
func (i ink) faint(text string) string  { return i.dye("2", text) }

func (i ink) dye(code, text string) string {
	if !i || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// busy says on a terminal what takes long, until the returned function is called.
func busy(cmd *cobra.Command, doing string) (done func()) {
	s := newScreen(cmd.ErrOrStderr())
	if !s.terminal {
		return func() {}
	}
	fmt.Fprintf(s, "%s …", doing)
	return s.erase
}

// table is text in columns. Colours may be in the last column only: they would count as width.
func table(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 4, 2, ' ', 0) }
