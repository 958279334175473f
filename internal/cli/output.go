package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"sigs.k8s.io/yaml"
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

// ink is colours, or none.
type ink bool

// inkFor has colours on a terminal, unless somebody does not want any (https://no-color.org).
func inkFor(w io.Writer) ink { return ink(onTerminal(w) && os.Getenv("NO_COLOR") == "") }

func onTerminal(w io.Writer) bool {
	file, isFile := w.(*os.File)
	return isFile && term.IsTerminal(int(file.Fd()))
}

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
	w := cmd.ErrOrStderr()
	if !onTerminal(w) {
		return func() {}
	}
	fmt.Fprintf(w, "%s …", doing)
	return func() { fmt.Fprint(w, "\r\x1b[K") }
}

// table is text in columns. Colours may be in the last column only: they would count as width.
func table(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 4, 2, ' ', 0) }
