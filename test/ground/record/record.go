// Package record is the results of whole runs of CI, kept outside the tree: a row of runs takes hours, and may be shown in
// several sittings.
package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Run is one run of CI.
type Run struct {
	Commit string    `json:"commit"` // of a clean tree, before and after the run
	Begun  time.Time `json:"begun"`
	Ended  time.Time `json:"ended"`  // zero: it was cut off
	Busy   bool      `json:"busy"`   // beside a busy loop on each core
	Passed bool      `json:"passed"` // false until its end
	Times  string    `json:"times"`  // of its stages and themes
}

// Save writes a run into a directory. One that is saved when it begins counts as a failure until it is saved again: nobody
// can leave out a run by ending it.
func Save(dir string, r Run) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode a run: %w", err)
	}
	path := filepath.Join(dir, r.Begun.UTC().Format("20060102T150405.000Z")+".json")
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		return fmt.Errorf("record a run: %w", err)
	}
	return nil
}

// Load returns the runs in a directory, in the order of their beginnings.
func Load(dir string) ([]Run, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	out := make([]Run, len(files))
	var failures []error
	for i, file := range files {
		raw, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(raw, &out[i])
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("read %s: %w", file, err))
		}
	}
	slices.SortFunc(out, func(a, b Run) int { return a.Begun.Compare(b.Begun) })
	return out, errors.Join(failures...)
}

// Row returns the runs of a commit since the last that did not pass.
func Row(runs []Run, commit string) (row []Run) {
	for _, r := range runs {
		switch {
		case r.Commit != commit:
		case r.Passed:
			row = append(row, r)
		default:
			row = nil
		}
	}
	return row
}

// HasBusy reports whether one of the runs was beside busy loops.
func HasBusy(runs []Run) bool {
	return slices.ContainsFunc(runs, func(r Run) bool { return r.Busy })
}
