package tenancy

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/test/show"
)

// TestTenancyScanners runs govulncheck, gosec and all fuzzers. CI has separate stages for the first two, and runs the
// seeds of the fuzzers as unit tests.
func TestTenancyScanners(t *testing.T) {
	if !show.IsFullSize() {
		t.Skip("make vuln, lint and test do it")
	}
	item := tenancyItems.Item(t, 6)
	scanned := runMake(t, "vuln")
	if n := strings.Count(scanned, "No vulnerabilities found."); n != 4 {
		t.Errorf("%d of 4 scans found nothing:\n%s", n, scanned)
	}
	database := regexp.MustCompile(`(?m)^database: .*`).FindString(scanned)
	runMake(t, "lint")
	fuzzers, executions := parseFuzzOutput(t, runMake(t, "fuzz", "FUZZTIME=1m"))
	item.AddFigure("no known vulnerability in packages and 3 programs (%s), no finding of gosec, %d fuzzers with %d executions: no failure",
		database, fuzzers, executions)
}

// runMake runs a target of the Makefile and returns its output.
func runMake(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make",
		append([]string{"--no-print-directory", "-C", "../../.."}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("make %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// parseFuzzOutput returns the number of fuzzers and executions in the output of make fuzz.
func parseFuzzOutput(t *testing.T, text string) (fuzzers, executions int) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^Fuzz\w+ +\S+ +PASS +(\d+) executions$`).FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil || n == 0 {
			t.Errorf("not executed: %s", m[0])
		}
		fuzzers, executions = fuzzers+1, executions+n
	}
	if fuzzers == 0 {
		t.Errorf("no fuzzer ran:\n%s", text)
	}
	return fuzzers, executions
}
