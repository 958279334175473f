// Package page is the check of documentation pages that are generated from code: it compares a page, or rewrites it.
package page

import (
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "rewrite pages that are made from code")

// Check fails the test unless a page has the expected content. With -update it writes the page instead.
func Check(t *testing.T, file, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	is, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(is) != want {
		t.Errorf("%s is not what the code gives; run this test with -update, or make golden", file)
	}
}
