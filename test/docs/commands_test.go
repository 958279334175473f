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
	block  = regexp.MustCompile("(?ms)^```\\w*\n(.*?)^```")
	line   = regexp.MustCompile(`(?m)^(?:\$ )?(?:sudo )?(?:bin/|kubectl )?sallyport ([a-z].*)$`)
	quoted = regexp.MustCompile("`(?:bin/|kubectl )?sallyport ([a-z][^`]*)`")
	// end is where a command ends and a shell, a comment or a program in a lab begins.
	end = regexp.MustCompile(`\s(?:#|\||>|&&|-- ).*|\)".*|;.*`)
)

// commands are the command lines of sallyport on a page, without its name: in blocks, and in sentences.
func commands(text string) (out []string) {
	for _, b := range block.FindAllStringSubmatch(text, -1) {
		for _, m := range line.FindAllStringSubmatch(b[1], -1) {
			out = append(out, end.ReplaceAllString(m[1], ""))
		}
	}
	for _, m := range quoted.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		out = append(out, end.ReplaceAllString(m[1], ""))
	}
	return out
}

// unknown says what is wrong with a command line.
func unknown(command string) string {
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
		if flag, _, _ := strings.Cut(word, "="); len(flag) > 1 && flag[0] == '-' && !has(cmd, flag) {
			return "it has no flag " + flag
		}
	}
	return ""
}

// has says whether a command has a flag, long or short.
func has(cmd *cobra.Command, flag string) bool {
	if name, long := strings.CutPrefix(flag, "--"); long {
		return cmd.Flag(name) != nil
	}
	return cmd.Flags().ShorthandLookup(flag[1:2]) != nil
}

// Every command that a page names is one, with these flags.
func TestCommandsExist(t *testing.T) {
	n := 0
	for _, name := range slices.Sorted(maps.Keys(pages(t))) {
		raw, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range commands(string(raw)) {
			n++
			if wrong := unknown(command); wrong != "" {
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
		"status": true, "trace 203.0.113.10 198.51.100.14:443": true, "explain svc/NAME -n NAMESPACE": true, "map -o svg": true, "lab up --lab x": true,
		"weather": false, "status --sunny": false, "lab snow": false, "map -w": false,
	} {
		if wrong := unknown(command); (wrong == "") != ok {
			t.Errorf("%s: %q", command, wrong)
		}
	}
	text := "# x\n```\nsallyport status # or\neval \"$(sallyport lab env)\"\nbin/sallyport lab exec web -- curl -s x\n```\nand `sallyport plan`, not `sallyport`"
	if got, want := commands(text), []string{"status", "lab exec web", "plan"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
