package record

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Only runs of the commit count, and only those since its last run that failed or was cut off.
func TestRowEndsWithAFailure(t *testing.T) {
	pass, fail := Run{Commit: "a", Passed: true}, Run{Commit: "a"}
	other, failedOther := Run{Commit: "b", Passed: true}, Run{Commit: "b"}
	for _, c := range []struct {
		what string
		runs []Run
		want int
	}{
		{"none", nil, 0},
		{"two", []Run{pass, pass}, 2},
		{"a failure before", []Run{pass, fail, pass, pass}, 2},
		{"a failure at the end", []Run{pass, pass, fail}, 0},
		{"another commit between", []Run{pass, other, failedOther, pass}, 2},
		{"another commit only", []Run{other, other}, 0},
	} {
		if got := len(Row(c.runs, "a")); got != c.want {
			t.Errorf("%s: %d in a row, want %d", c.what, got, c.want)
		}
	}
	if !HasBusy([]Run{pass, {Commit: "a", Busy: true}}) || HasBusy([]Run{pass}) {
		t.Error("busy runs are not told from others")
	}
}

// A run that was saved at its beginning and never again is a failure, and a file that can't be read is an error.
func TestRunsAreKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs")
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 4 {
		r := Run{Commit: "a", Begun: begun.Add(time.Duration(i) * time.Hour)}
		if err := Save(dir, r); err != nil {
			t.Fatal(err)
		}
		if i == 1 { // cut off
			continue
		}
		r.Ended, r.Passed, r.Times = r.Begun.Add(time.Minute), true, "test took 1 s"
		if err := Save(dir, r); err != nil {
			t.Fatal(err)
		}
	}
	runs, err := Load(dir)
	if err != nil || len(runs) != 4 || len(Row(runs, "a")) != 2 || runs[3].Times == "" {
		t.Errorf("%d runs, %d in a row, %v", len(runs), len(Row(runs, "a")), err)
	}
	if err := os.WriteFile(filepath.Join(dir, "x.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil {
		t.Error("a damaged record is overlooked")
	}
	if runs, err := Load(filepath.Join(dir, "none")); len(runs) != 0 || err != nil {
		t.Errorf("without a directory: %v, %v", runs, err)
	}
}
