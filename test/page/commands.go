package page

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

var manDir = flag.String("man", "", "directory to write man pages into")

// CheckCommandReference checks the reference page of a program with all its subcommands. With -man, it also writes man
// pages.
func CheckCommandReference(t *testing.T, file, about string, root *cobra.Command) {
	t.Helper()
	root.DisableAutoGenTag = true
	all := visibleCommands(root)
	var out strings.Builder
	fmt.Fprintf(&out, "# %s\n\n%s `make golden` writes this page from the program.\n", root.Name(), about)
	if len(all) > 1 {
		out.WriteString("\n| command | does |\n|---|---|\n")
		for _, c := range all[1:] {
			if c.Runnable() {
				fmt.Fprintf(&out, "| [`%s`](#%s) | %s |\n", c.CommandPath(),
					strings.ReplaceAll(c.CommandPath(), " ", "-"), c.Short)
			}
		}
	}
	for _, c := range all {
		writeCommand(&out, c)
	}
	Check(t, file, out.String())
	writeManPages(t, root, len(all))
}

// visibleCommands returns a command and all its subcommands that are not hidden.
func visibleCommands(c *cobra.Command) []*cobra.Command {
	out := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			out = append(out, visibleCommands(sub)...)
		}
	}
	return out
}

func writeCommand(out *strings.Builder, c *cobra.Command) {
	fmt.Fprintf(out, "\n## %s\n\n%s\n", c.CommandPath(), formatHelp(cmp.Or(c.Long, c.Short+".")))
	if c.Runnable() {
		fmt.Fprintf(out, "\n```\n%s\n```\n", c.UseLine())
	}
	if c.Example != "" {
		fmt.Fprintf(out, "\nExamples:\n\n```\n%s\n```\n", removeCommonIndent(c.Example))
	}
	writeFlagTable(out, c.NonInheritedFlags())
}

// formatHelp converts help text to paragraphs of a page. Indented examples are kept as they are.
func formatHelp(help string) string {
	var out []string
	for paragraph := range strings.SplitSeq(strings.TrimSpace(help), "\n\n") {
		lines := strings.Split(paragraph, "\n")
		if slices.ContainsFunc(lines, func(l string) bool {
			return strings.HasPrefix(l, " ") || strings.HasPrefix(l, "\t")
		}) {
			paragraph = "```\n" + removeCommonIndent(paragraph) + "\n```"
		}
		out = append(out, paragraph)
	}
	return strings.Join(out, "\n\n")
}

// removeCommonIndent removes the leading spaces that all lines share.
func removeCommonIndent(block string) string {
	lines := strings.Split(strings.Trim(block, "\n"), "\n")
	least := len(block)
	for _, l := range lines {
		if strings.TrimSpace(l) != "" {
			least = min(least, len(l)-len(strings.TrimLeft(l, " \t")))
		}
	}
	for i, l := range lines {
		lines[i] = l[min(least, len(l)):]
	}
	return strings.Join(lines, "\n")
}

// writeFlagTable writes the flags of a command. Inherited flags are listed only at the command that defines them.
func writeFlagTable(out *strings.Builder, flags *pflag.FlagSet) {
	rows := 0
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || f.Name == "version" {
			return
		}
		if rows++; rows == 1 {
			out.WriteString("\n| flag | default | |\n|---|---|---|\n")
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		kind, usage := pflag.UnquoteUsage(f)
		if kind != "" {
			kind = " " + kind
		}
		value := f.DefValue
		if value != "" && value != "[]" && value != "false" {
			value = "`" + value + "`"
		} else {
			value = ""
		}
		fmt.Fprintf(out, "| %s%s | %s | %s |\n", name, kind, value, strings.ReplaceAll(usage, "|", "\\|"))
	})
}

// writeManPages writes a man page for each command if -man is set.
func writeManPages(t *testing.T, root *cobra.Command, want int) {
	t.Helper()
	dir := *manDir
	if dir == "" {
		dir = t.TempDir()
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	header := &doc.GenManHeader{
		Section: "1",
		Source:  strings.TrimSpace("Sallyport " + root.Version),
		Manual:  "Sallyport",
	}
	if err := doc.GenManTree(root, header, dir); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if *manDir == "" && len(after)-len(before) != want {
		t.Errorf("%d man pages for %d commands", len(after)-len(before), want)
	}
}
