// Package ground is the tests of CI itself: parts from empty caches, duration, repeated runs without a failure, and a
// regression test for each known defect.
package ground

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/parts"
	"github.com/sallyport/sallyport/test/ground/record"
	"github.com/sallyport/sallyport/test/show"
)

// groundItems is the list that `make show-ground` prints.
var groundItems = show.New("solid ground",
	"all parts of the lab, fetched and built from empty caches",
	"the time of each stage and theme of CI, from empty caches and warm",
	"five runs of CI in a row without a failure, the last beside a busy loop on each core",
	"every known defect, with the test that failed before",
)

const root = "../.."

func TestMain(m *testing.M) {
	os.Exit(show.Finish(m.Run(), groundItems))
}

// requireFullSize skips tests that run CI, except at full size: CI cannot run itself.
func requireFullSize(t *testing.T) {
	t.Helper()
	if !show.IsFullSize() {
		t.Skip("hours: at full size only")
	}
}

// emptyCacheEnv returns environment variables for a command that must not find anything built or downloaded before.
func emptyCacheEnv(t *testing.T) []string {
	t.Helper()
	dir, err := os.MkdirTemp("", "empty-caches-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		clean := exec.Command("go", "clean", "-modcache") // its files are read-only
		clean.Env = append(os.Environ(), "GOMODCACHE="+filepath.Join(dir, "mod"))
		_ = clean.Run()
		_ = os.RemoveAll(dir)
	})
	return []string{
		"XDG_CACHE_HOME=" + dir, "SALLYPORT_CACHE=" + filepath.Join(dir, "sallyport"),
		"GOCACHE=" + filepath.Join(dir, "build"), "GOMODCACHE=" + filepath.Join(dir, "mod"),
	}
}

// runCommand runs a command in the repository and returns its output.
func runCommand(t *testing.T, env []string, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}

func TestGround1Parts(t *testing.T) {
	requireFullSize(t)
	item := groundItems.Item(t, 1)
	begun := time.Now()
	out, err := runCommand(t, emptyCacheEnv(t), "make", "--no-print-directory", "parts")
	if err != nil {
		t.Fatalf("%v\n%s", err, lastLines(out))
	}
	built := regexp.MustCompile(`(?m)^built (.*)$`).FindAllStringSubmatch(out, -1)
	for _, b := range built {
		item.AddFigure("%s", b[1])
	}
	if len(built) < 9 {
		t.Errorf("%d parts were built, and there are 9", len(built))
	}
	item.AddFigure("all together %.0f s", time.Since(begun).Seconds())
}

var timingPattern = regexp.MustCompile(`(?m)^(?:=== ((?:\S+) took \d+ s)|(theme \S+ took .*))$`)

// runCI runs CI completely and returns the durations of its stages and themes, and whether it passed.
func runCI(t *testing.T, env []string) (times string, passed bool) {
	t.Helper()
	out, err := runCommand(t, append(env, "CI=true", "SALLYPORT_SIZE="), "bash", ".ci/run")
	var all []string
	for _, m := range timingPattern.FindAllStringSubmatch(out, -1) {
		all = append(all, m[1]+m[2])
	}
	if err != nil {
		t.Errorf("%v\n%s", err, lastLines(out))
	}
	return strings.Join(all, "; "), err == nil
}

// verdicts are the words for a run that passed or did not.
var verdicts = map[bool]string{true: "passed", false: "FAILED"}

func TestGround2Time(t *testing.T) {
	requireFullSize(t)
	for _, kind := range []string{"empty caches", "warm"} {
		t.Run(kind, func(t *testing.T) {
			item := groundItems.Item(t, 2)
			var env []string
			if kind == "empty caches" {
				env = emptyCacheEnv(t)
			}
			begun := time.Now()
			times, passed := runCI(t, env)
			item.AddFigure("%s: %s after %.0f min: %s", kind, verdicts[passed], time.Since(begun).Minutes(), times)
		})
	}
}

// runsWanted is how many runs in a row must pass.
const runsWanted = 5

// runsPerSitting limits how many runs of CI item 3 makes. Runs of earlier sittings count if they were of the same commit.
var runsPerSitting = flag.Int("runs", runsWanted, "how many runs of CI to make at most; earlier runs of the same commit count")

// TestGround3Runs passes when the last runs of this commit, five at least, passed, and one of them was beside busy loops.
// Runs are recorded in the cache. A run that failed or was cut off begins a new row.
func TestGround3Runs(t *testing.T) {
	requireFullSize(t)
	item := groundItems.Item(t, 3)
	dir, commit := runsDir(t), cleanCommit(t)
	row := loadRow(t, dir, commit)
	for range *runsPerSitting {
		if isRowComplete(row) || t.Failed() {
			break
		}
		recordRun(t, dir, record.Run{Commit: commit, Busy: len(row) >= runsWanted-1 && !record.HasBusy(row)})
		row = loadRow(t, dir, commit)
	}
	for i, r := range row {
		item.AddFigure("run %d of %.12s, %s: %.0f min%s: %s", i+1, r.Commit, r.Begun.UTC().Format(time.DateTime),
			r.Ended.Sub(r.Begun).Minutes(), map[bool]string{true: ", beside a busy loop on each core"}[r.Busy], r.Times)
	}
	if !isRowComplete(row) {
		t.Errorf("%d runs of this commit in a row passed, %d are wanted, one of them beside busy loops", len(row), runsWanted)
	}
}

func isRowComplete(row []record.Run) bool { return len(row) >= runsWanted && record.HasBusy(row) }

// runsDir returns the directory with the records.
func runsDir(t *testing.T) string {
	t.Helper()
	cache, err := parts.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(cache, "ci-runs")
}

func loadRow(t *testing.T, dir, commit string) []record.Run {
	t.Helper()
	runs, err := record.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return record.Row(runs, commit)
}

// cleanCommit returns the commit of the tree. A run of a tree with other content says nothing about the commit.
func cleanCommit(t *testing.T) string {
	t.Helper()
	changes, err := runCommand(t, nil, "git", "status", "--porcelain")
	if err != nil || changes != "" {
		t.Fatalf("the tree is not that of a commit; commit or stash first: %v\n%s", err, changes)
	}
	commit, err := runCommand(t, nil, "git", "rev-parse", "HEAD")
	if err != nil {
		t.Fatalf("%v\n%s", err, commit)
	}
	return strings.TrimSpace(commit)
}

// recordRun runs CI once and records the result. It passes only if the tree is the same before and after.
func recordRun(t *testing.T, dir string, r record.Run) {
	t.Helper()
	r.Begun = time.Now()
	if err := record.Save(dir, r); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range runtime.NumCPU() {
		go func() {
			for r.Busy && ctx.Err() == nil { // a busy loop on a core
			}
		}()
	}
	times, passed := runCI(t, nil)
	r.Ended, r.Times = time.Now(), times
	r.Passed = passed && cleanCommit(t) == r.Commit
	if err := record.Save(dir, r); err != nil {
		t.Fatal(err)
	}
}

// defect is a fixed defect with the test that failed before the fix.
type defect struct{ what, pkg, test string }

var defects = []defect{
	{"a newer Debian revision of a part is refused", "./internal/lab/parts", "TestUpstreamVersion"},
	{"the agent's mount of /proc/sys/net is refused by runc", "./test/chart", "TestMountsAreAllowed"},
	{"the agent writes settings below --sysctl-root", "./internal/engine/kernel", "TestSettingsAreBelowTheRoot"},
	{"a machine's program is built while its clock runs", "./test/e2e/lab", "TestMachineTellsHowItEnded"},
	{
		"an EgressIP says Programmed for pods that it does not serve", "./internal/compile",
		"TestEgressVerdicts|TestUnservedPods",
	},
	{"doctor does not know pods that an EgressIP does not serve", "./internal/insight/diagnosis", "TestFaults"},
	{
		"trace calls a node that forwards the one that answers", "./internal/insight/trace",
		"TestNodeForwardsWhatLeavesTheDefaultVPC",
	},
	{"status shows no agents", "./internal/cli", "TestStatusShowsAgents"},
	{"a blank port_security entry makes trace panic", "./internal/insight/trace", "TestPortSecurity"},
	{"the text of FIp promises its address on every network", "./config/crd", "TestFIpSaysWhenItsTargetLeavesWithIt"},
	{
		"a foreign ACL with a sample or a label breaks return paths unseen", "./internal/insight/diagnosis",
		"TestFaults|TestLabelsThatStay",
	},
	{"trace does not know that a load balancer ignores ping", "./internal/insight/trace", "TestPingOfALoadBalancer"},
	{"priorities of egress are not held against their bands", "./internal/model/ownership", "TestPrioritiesAreInBands"},
	{"the name of a Subnet is made in two places", "./internal/architecture", "TestSubnetNamesComeFromOwnership"},
	{"steps of a shard are known by an index", "./internal/controller", "TestStepsAreKnownByThemselves"},
}

func TestGround4Defects(t *testing.T) {
	item := groundItems.Item(t, 4)
	for _, d := range defects {
		t.Run(d.test, func(t *testing.T) {
			out, err := runCommand(t, nil, "go", "test", "-count=1", "-v", "-run", "^("+d.test+")$", d.pkg)
			passed := len(regexp.MustCompile(`(?m)^--- PASS: `).FindAllString(out, -1))
			if want := strings.Count(d.test, "|") + 1; err != nil || passed != want {
				t.Fatalf("%s: %d of %d tests passed: %v\n%s", d.what, passed, want, err, lastLines(out))
			}
			item.AddFigure("%s: %s in %s passes", d.what, d.test, d.pkg)
		})
	}
}
