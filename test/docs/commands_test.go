package docs

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/sallyport/sallyport/internal/cli"
)

var (
	codeBlock     = regexp.MustCompile("(?ms)^```\\w*\n(.*?)^```")
	commandLine   = regexp.MustCompile(`(?m)^(?:\$ )?(?:sudo )?(?:bin/|kubectl )?sallyport ([a-z].*)$`)
	inlineCommand = regexp.MustCompile("`(?:bin/|kubectl )?sallyport ([a-z][^`]*)`")
	// commandEnd is where a command ends and a shell, a comment or a program in a lab begins.
	commandEnd = regexp.MustCompile(`\s(?:#|\||>|&&|-- ).*|\)".*|;.*`)
)

// findCommands are the command lines of sallyport on a page, without its name: in blocks, and in sentences.
func findCommands(text string) (out []string) {
	for _, b := range codeBlock.FindAllStringSubmatch(text, -1) {
		for _, m := range commandLine.FindAllStringSubmatch(b[1], -1) {
			out = append(out, commandEnd.ReplaceAllString(m[1], ""))
		}
	}
	for _, m := range inlineCommand.FindAllStringSubmatch(fencedBlock.ReplaceAllString(text, ""), -1) {
		out = append(out, commandEnd.ReplaceAllString(m[1], ""))
	}
	return out
}

// checkCommand says what is wrong with a command line.
func checkCommand(command string) string {
	program := cli.New("test")
	program.InitDefaultCompletionCmd()
	program.InitDefaultHelpCmd()
	cmd, rest, err := program.Find(strings.Fields(command))
	switch {
	case err != nil:
		return err.Error()
	case cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-"):
		return "there is no such command"
	}
	cmd.InitDefaultHelpFlag()
	for _, word := range rest {
		if flag, _, _ := strings.Cut(word, "="); len(flag) > 1 && flag[0] == '-' && !hasFlag(cmd, flag) {
			return "it has no flag " + flag
		}
	}
	return ""
}

// hasFlag says whether a command has a flag, long or short.
func hasFlag(cmd *cobra.Command, flag string) bool {
	if name, long := strings.CutPrefix(flag, "--"); long {
		return cmd.Flag(name) != nil
	}
	return cmd.Flags().ShorthandLookup(flag[1:2]) != nil
}

// Every command that a page names is one, with these flags.
func TestCommandsExist(t *testing.T) {
	n := 0
	for _, name := range slices.Sorted(maps.Keys(loadPages(t))) {
		raw, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range findCommands(string(raw)) {
			n++
			if wrong := checkCommand(command); wrong != "" {
				t.Errorf("%s: sallyport %s: %s", name, command, wrong)
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d commands were found", n)
	}
	t.Logf("%d commands on pages", n)
}

func TestUnknownCommandsAreSeen(t *testing.T) {
	for command, ok := range map[string]bool{
		"status": true, "trace 203.0.113.10 198.51.100.14:443": true, "explain svc/NAME -n NAMESPACE": true,
		"map -o svg": true, "lab up --lab x": true,
		"weather": false, "status --sunny": false, "lab snow": false, "map -w": false,
	} {
		if wrong := checkCommand(command); (wrong == "") != ok {
			t.Errorf("%s: %q", command, wrong)
		}
	}
	text := "# x\n```\nsallyport status # or\neval \"$(sallyport lab env)\"\nbin/sallyport lab exec web -- curl -s x\n```\nand `sallyport plan`, not `sallyport`"
	if got, want := findCommands(text), []string{"status", "lab exec web", "plan"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
