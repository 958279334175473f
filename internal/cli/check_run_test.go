package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/insight/preflight"
)

func TestFlagsOfSelftestNeedIt(t *testing.T) {
	for _, args := range [][]string{{"--keep"}, {"--image", "x"}, {"--clean", "--node", "x"}, {"--outside-command", "x"}} {
		if _, err := runCommand(t, append([]string{"check"}, args...)...); err == nil || !strings.Contains(err.Error(), "needs --run") {
			t.Errorf("%v: %v", args, err)
		}
	}
	if _, err := runCommand(t, "check", "--run", "--clean"); err == nil || !strings.Contains(err.Error(), "none of the others") {
		t.Errorf("--run with --clean: %v", err)
	}
}

// TestOutsideCommandHasNoShell runs commands that end well, badly, and never.
func TestOutsideCommandHasNoShell(t *testing.T) {
	out, err := runOutside(t.Context(), []string{"echo", "-n", "$HOME;", "http://192.0.2.1"})
	if out != "$HOME; http://192.0.2.1" || err != nil {
		t.Errorf("got %q, %v", out, err)
	}
	if _, err := runOutside(t.Context(), []string{"ls", "/nothing"}); err == nil || !strings.Contains(err.Error(), "No such file") {
		t.Errorf("the error of the command is missing: %v", err)
	}
	if _, err := runOutside(t.Context(), []string{"no-such-program-here"}); err == nil {
		t.Error("a program that does not exist was run")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := runOutside(ctx, []string{"sleep", "100"}); err == nil {
		t.Error("a command that does not end was not ended")
	}
}

func TestRunIDsAreNames(t *testing.T) {
	first, second := newRunID(), newRunID()
	if first == second || len(first) != 8 || strings.Trim(first, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		t.Errorf("ids %q and %q", first, second)
	}
}

// TestReportOfSelftest compares the table and the exit codes.
func TestReportOfSelftest(t *testing.T) {
	report := checkReport{Checks: []preflight.Result{
		{Check: "Pods", State: preflight.OK, Seen: "2 ready after 1s"},
		{Check: "cloud: FIp", State: preflight.Failed, Code: "NoAnswer", Seen: "http://192.0.2.9:8080: i/o timeout", Next: "sallyport doctor"},
		{Check: "cloud: default egress", State: preflight.NotChecked, Seen: "no server has answered"},
	}}
	var out strings.Builder
	if err := report.printText(&out, false); err != nil {
		t.Fatal(err)
	}
	want := `CHECK                  STATE        SEEN
Pods                   ok           2 ready after 1s
cloud: FIp             failed       http://192.0.2.9:8080: i/o timeout
                                    → sallyport doctor
cloud: default egress  not checked  no server has answered

1 ok, 0 warnings, 1 failed, 1 not checked
`
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
	for checks, code := range map[int]int{1: 0, 2: 2} {
		got := 0
		if err := (checkReport{Checks: report.Checks[:checks]}).exitError(); err != nil {
			got = ExitCode(err)
		}
		if got != code {
			t.Errorf("%d checks: exit code %d, wanted %d", checks, got, code)
		}
	}
}
