package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/test/page"
)

var decisionTitle = regexp.MustCompile(`^# (\d+)\. (.*)\n`)

// The how-to of the installation lists the router policy priorities that the controller owns.
func TestListOfPriorities(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, "docs/howto/install.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(raw), "these router policy priorities:")
	list, _, _ = strings.Cut(list, "\n#")
	if !found {
		t.Fatal("the page has no list of priorities")
	}
	for _, b := range ownership.PriorityBands {
		text := fmt.Sprintf("%d–%d", b.First, b.Last)
		if b.First == b.Last {
			text = strconv.Itoa(b.First)
		}
		if !strings.Contains(list, text) {
			t.Errorf("the list does not have %s (%s)", text, b.Purpose)
		}
	}
}

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
