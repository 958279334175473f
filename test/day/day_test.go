// Package day is the list of what operators need from day one on: a release, and what it is installed with.
package day

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/test/show"
)

// dayItems is the list that `make show-day` prints. Items without a title are shown by other packages.
var dayItems = show.New("from day one on",
	"a release as users get it: two platforms, chart, manifests, checksums; what was changed is refused",
	"", "", "", "", "", "", "", "commands and minutes from git clone to the first answered packet",
)

func TestMain(m *testing.M) { os.Exit(show.Finish(m.Run(), dayItems)) }

// TestDay1Release builds a release and publishes it to a registry on loopback. No cluster installs it.
func TestDay1Release(t *testing.T) {
	item := dayItems.Item(t, 1)
	cmd := exec.Command("make", "--no-print-directory", "-C", "../..", "release-check")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	passed := regexp.MustCompile(`--- PASS: TestPublished/(\w+)`).FindAllStringSubmatch(out.String(), -1)
	if len(passed) < 7 || strings.Contains(out.String(), "--- SKIP") {
		t.Fatalf("%d checks passed, or some were skipped:\n%s", len(passed), out.String())
	}
	var names []string
	for _, p := range passed {
		names = append(names, strings.ReplaceAll(p[1], "_", " "))
	}
	item.AddFigure("%d checks of what a registry serves: %s", len(names), strings.Join(names, ", "))
	item.AddFigure("no cluster has installed it: not on real nodes, and not on arm64")
}
