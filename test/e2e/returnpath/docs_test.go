package returnpath

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// TestReturn8Docs checks that the page on the return path has its pictures, its assumptions and its limits.
func TestReturn8Docs(t *testing.T) {
	item := returnItems.Item(t, 8)
	const dir = "../../../docs/concepts"
	page := harness.ReadFile(t, filepath.Join(dir, "return-path.md"))
	pictures := regexp.MustCompile(`(?s)!\[[^\]]+\]\(([^)]+\.svg)\)`).FindAllStringSubmatch(page, -1)
	for _, p := range pictures {
		picture := harness.ReadFile(t, filepath.Join(dir, p[1]))
		if err := checkWellFormedXML(picture); err != nil {
			t.Errorf("%s: %v", p[1], err)
		}
		if !strings.Contains(picture, "prefers-color-scheme: dark") {
			t.Errorf("%s can't be read on a dark page", p[1])
		}
	}
	if len(pictures) < 2 {
		t.Errorf("the page has %d pictures; wanted the way in and the way back", len(pictures))
	}
	words := []string{
		"## What it stands on", "## What it does not cover", "`pass`", "ct_label.label", "options:route_table",
		"Static_MAC_Binding",
		"NetworkPolicies", "hairpin", "IPv6", "NoWayBack", "returnPath: Source",
		fmt.Sprint(ownership.ReturnReply), fmt.Sprint(ownership.ReturnLeave), fmt.Sprint(ownership.DefaultEgress),
		fmt.Sprint(ownership.DefaultEgressOnLink),
	}
	for _, w := range words {
		if !strings.Contains(page, w) {
			t.Errorf("the page does not mention %s", w)
		}
	}
	item.AddFigure("docs/concepts/return-path.md: %d pictures; names the %d things that it stands on and does not cover", len(pictures), len(words))
}

func checkWellFormedXML(text string) error {
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
