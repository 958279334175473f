package main

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	osv   = "testdata/database"
	known = "Vulnerability #1: GO-2021-0113"
)

// scanned runs the command and returns what it prints.
func scanned(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), args, &out)
	t.Logf("vuln %s: %v\n%s", strings.Join(args, " "), err, out.String())
	return out.String(), err
}

// A vulnerability that is called fails the scan of the source and of the program; one in a function that nobody calls does not.
func TestKnownVulnerabilityIsFound(t *testing.T) {
	for module, found := range map[string]bool{"called": true, "required": false} {
		dir := filepath.Join("testdata", module)
		program := filepath.Join(t.TempDir(), module)
		build := exec.CommandContext(t.Context(), "go", "build", "-C", dir, "-trimpath", "-o", program, ".")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for what, args := range map[string][]string{"source": {"-C", dir, "./..."}, "program": {program}} {
			out, err := scanned(t, append([]string{"-database", osv}, args...)...)
			if strings.Contains(out, known) != found || (err != nil) != found {
				t.Errorf("%s of %s: %v; wanted %s found: %v", what, module, err, known, found)
			}
		}
	}
}

// A fault in the scan is no clean bill: neither a database without entries, nor one of another form, nor packages that are not there.
func TestFailedScanFails(t *testing.T) {
	nothing := httptest.NewServer(http.NotFoundHandler())
	defer nothing.Close()
	for words, args := range map[string][]string{
		"has no OSV files":  {"-database", t.TempDir(), "-optional", "./..."},
		"unrecognized":      {"-database", nothing.URL, "-optional", "./..."},
		"no-such-package":   {"-database", osv, "./no-such-package"},
		"name the packages": {"-database", osv},
	} {
		if out, err := scanned(t, args...); err == nil || !strings.Contains(out+err.Error(), words) {
			t.Errorf("vuln %v: %v; wanted %q", args, err, words)
		}
	}
}

// Where no database can be reached, the scan fails, and with -optional says that it did not happen.
func TestMissingDatabase(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	out, err := scanned(t, "./...")
	if !errors.Is(err, errNoDatabase) || !strings.Contains(err.Error(), "VULN_DATABASE") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = scanned(t, "-optional", "./...")
	if err != nil || !strings.HasPrefix(out, "NOT SCANNED: ") {
		t.Errorf("%v\n%s", err, out)
	}
	if db, err := find(t.Context(), "", osv); err != nil || !strings.Contains(db.String(), "1 entries up to GO-2021-0113") {
		t.Errorf("the database that was kept: %v, %v", db, err)
	}
}
