// Package page is a page of the documentation that is made from code: compared with what it should be, or rewritten.
package page

import (
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "rewrite pages that are made from code")

// Check fails the test unless a page is what it should be. With -update it is made so.
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
