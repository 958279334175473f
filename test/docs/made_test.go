package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/test/page"
)

var decisionTitle = regexp.MustCompile(`^# (\d+)\. (.*)\n`)

// The list of decisions has all of them.
func TestListOfDecisions(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "docs/adr/[0-9]*.md"))
	if err != nil || len(files) < 20 {
		t.Fatalf("%d decisions: %v", len(files), err)
	}
	var out strings.Builder
	out.WriteString("# Decisions\n\nWhat was decided, why, what was not chosen, and what follows. `make golden` writes this list.\n\n")
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		title := decisionTitle.FindStringSubmatch(string(raw))
		if title == nil {
			t.Fatalf("%s does not begin with its number and title", file)
		}
		fmt.Fprintf(&out, "%s. [%s](%s)\n", title[1], title[2], filepath.Base(file))
	}
	page.Check(t, filepath.Join(root, "docs/adr/README.md"), out.String())
}
