package e2e

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/test/show"
)

var executions = regexp.MustCompile(`execs: (\d+)`)

func TestCore8Compile(t *testing.T) {
	item := core.Item(t, 8)
	run := func(limit time.Duration, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(within(t, limit), "go", append([]string{"test", "-count=1"}, args...)...)
		cmd.Dir = "../.."
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go test %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	out := run(5*time.Minute, "-v", "./internal/compile/...")
	goldens := strings.Count(out, "--- PASS: TestGolden/")
	if goldens == 0 {
		t.Errorf("no golden case ran:\n%s", out)
	}
	item.Figure("%d cases from YAML to objects, rows and status, each also with shuffled inputs", goldens)

	length := show.Size("10m", "30s")
	found := executions.FindAllStringSubmatch(run(20*time.Minute, "-run", "^$", "-fuzz", "FuzzShard", "-fuzztime", length, "./internal/compile"), -1)
	if len(found) == 0 {
		t.Fatal("the fuzzer tried nothing")
	}
	item.Figure("%s worlds in %s of fuzzing: no panic, no key wanted twice, every promise kept", found[len(found)-1][1], length)
}
