package address

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

var fuzzExecutions = regexp.MustCompile(`execs: (\d+)`)

func TestCore8Compile(t *testing.T) {
	if !show.IsFullSize() {
		t.Skip("make test runs these; here they run at full size only, with the fuzzer")
	}
	item := coreItems.Item(t, 8)
	run := func(limit time.Duration, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(harness.Within(t, limit), "go", append([]string{"test", "-count=1"}, args...)...)
		cmd.Dir = "../../.."
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go test %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	out := run(15*time.Minute, "-v", "./internal/compile/...")
	goldens := strings.Count(out, "--- PASS: TestGolden/")
	if goldens == 0 {
		t.Errorf("no golden case ran:\n%s", out)
	}
	item.AddFigure("%d cases from YAML to objects, rows and status, each also with shuffled inputs", goldens)

	worlds := strings.Count(out, "--- PASS: FuzzShard/")
	if worlds == 0 {
		t.Errorf("no world was tried:\n%s", out)
	}
	item.AddFigure("%d worlds that are always the same: no panic, no key wanted twice, every promise kept", worlds)

	// in CI a fuzzer that finds an existing defect would block unrelated changes
	length := show.ChooseSize("10m", "")
	if length == "" {
		return
	}
	found := fuzzExecutions.FindAllStringSubmatch(run(20*time.Minute, "-run", "^$", "-fuzz", "FuzzShard", "-fuzztime",
		length, "./internal/compile"), -1)
	if len(found) == 0 {
		t.Fatal("the fuzzer tried nothing")
	}
	item.AddFigure("%s worlds more in %s of fuzzing", found[len(found)-1][1], length)
}
