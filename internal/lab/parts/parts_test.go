package parts

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func quiet(string) {}

// fake is a part with one program, the text of which says where the part was to be kept.
func fake(builds *atomic.Int32) part {
	return part{
		name: "fake", version: "1.0", inputs: []byte("go.sum"),
		build: func(_ context.Context, w workshop) error {
			builds.Add(1)
			return os.WriteFile(filepath.Join(w.dir, "bin/program"), []byte(w.final), 0o755)
		},
	}
}

func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return strings.Join(out, " ")
}

func TestKeyFollowsWhatIsBuilt(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range []part{
		{name: "fake", version: "1.0", inputs: []byte("sum")},
		{name: "other", version: "1.0", inputs: []byte("sum")},
		{name: "fake", version: "1.1", inputs: []byte("sum")},
		{name: "fake", version: "1.0", inputs: []byte("sum2")},
		{name: "fake", version: "1.0s", inputs: []byte("um")},
		{name: "fake", version: "1.0"},
	} {
		again := p
		if seen[p.key()] || p.key() != again.key() {
			t.Errorf("%s is the key of two parts, or not the only one of %+v", p.key(), p)
		}
		seen[p.key()] = true
	}
	for _, p := range slices.Concat(ofLab(), ofMachine()) {
		if !strings.HasPrefix(p.key(), p.name+"-"+p.version+"-") || len(p.inputs) == 0 {
			t.Errorf("%s with %d bytes of inputs", p.key(), len(p.inputs))
		}
	}
}

func TestOptionalPartIsForThoseWhoAsk(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("SALLYPORT_CACHE", cache)
	for _, p := range slices.Concat(ofLab(), ofMachine()) {
		if err := os.Mkdir(filepath.Join(cache, p.key()), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	with, err := Ensure(t.Context(), quiet, FRR)
	if want := filepath.Join(cache, frr().key(), "root"); err != nil || with.Root(FRR) != want {
		t.Errorf("asked for: %q, %v; want %q", with.Root(FRR), err, want)
	}
	if err := os.Remove(filepath.Join(cache, frr().key())); err != nil {
		t.Fatal(err)
	}
	without, err := Ensure(t.Context(), func(line string) { t.Errorf("not asked for, and still: %s", line) })
	if err != nil || without.Bin() != with.Bin() {
		t.Errorf("programs are in %q, %v; want %q", without.Bin(), err, with.Bin())
	}
}

func TestFinishedPartIsReused(t *testing.T) {
	var builds atomic.Int32
	cache := t.TempDir()
	dir := filepath.Join(cache, "fake")
	if err := os.MkdirAll(filepath.Join(dir+".building", "stale"), 0o755); err != nil { // somebody was killed here
		t.Fatal(err)
	}
	for range 3 {
		if err := fake(&builds).ensure(t.Context(), dir, quiet); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(filepath.Join(dir, "bin/program"))
	if builds.Load() != 1 || err != nil || string(raw) != dir {
		t.Errorf("%d builds; program %q, %v", builds.Load(), raw, err)
	}
	if got := names(t, cache) + ": " + names(t, dir); got != "fake fake.lock: bin" {
		t.Errorf("the cache has %s", got)
	}
}

func TestFailedBuildLeavesNothingAndIsRetried(t *testing.T) {
	var builds atomic.Int32
	cache, broken := t.TempDir(), errors.New("broken")
	dir := filepath.Join(cache, "fake")
	failing := fake(&builds)
	build := failing.build
	failing.build = func(ctx context.Context, w workshop) error { return errors.Join(build(ctx, w), broken) }
	if err := failing.ensure(t.Context(), dir, quiet); !errors.Is(err, broken) {
		t.Errorf("%v, want the build's error", err)
	}
	if got := names(t, cache); got != "fake.lock" {
		t.Errorf("a failed build leaves %s", got)
	}
	if err := fake(&builds).ensure(t.Context(), dir, quiet); err != nil || builds.Load() != 2 ||
		names(t, dir) != "bin" {
		t.Errorf("retried: %v, %d builds, %s", err, builds.Load(), names(t, dir))
	}
}

func TestTwoAtOnceBuildOnce(t *testing.T) {
	var builds atomic.Int32
	dir := filepath.Join(t.TempDir(), "fake")
	building, others, finish := make(chan struct{}), sync.WaitGroup{}, make(chan struct{})
	slow := fake(&builds)
	build := slow.build
	slow.build = func(ctx context.Context, w workshop) error {
		if _, err := os.Stat(w.final); err == nil {
			t.Error("a part is in its place before it is complete")
		}
		close(building) // a second build would panic here
		<-finish
		return build(ctx, w)
	}
	var all sync.WaitGroup
	use := func() {
		if err := slow.ensure(t.Context(), dir, quiet); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "bin/program")); err != nil {
			t.Errorf("ensured without being there: %v", err)
		}
	}
	all.Go(use)
	<-building
	for range 8 {
		others.Add(1)
		all.Go(func() { others.Done(); use() })
	}
	others.Wait()
	close(finish)
	all.Wait()
	if builds.Load() != 1 {
		t.Errorf("%d builds", builds.Load())
	}
}

func TestUpstreamVersion(t *testing.T) {
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("dpkg compares the versions of packages")
	}
	for _, c := range []struct {
		found, version string
		want           bool
	}{
		{"10.3-3+deb13u1", "10.3", true},
		{"10.3-3", "10.3", true},
		{"10.3.1-1", "10.3", true},
		{"10.3+ds-1", "10.3", true},
		{"10.3~rc1-1", "10.3", false},
		{"10.4~rc1-1", "10.3", false},
		{"10.4-1", "10.3", false},
		{"10.30-1", "10.3", false},
		{"1:10.0.13+ds-0+deb13u1", "10.0", true},
		{"1:10.1.2+ds-1", "10.0", false},
		{"1:110.0.2-1", "10.0", false},
		{"25.03.0-2", "25.03", true},
		{"25.09.0-1", "25.03", false},
		{"6.12.57-1", "6.12", true},
		{"6.12.57-1", "6.1", false},
		{"6.1.158-1", "6.1", true},
	} {
		if got, err := isUpstreamVersion(t.Context(), c.found, c.version); err != nil || got != c.want {
			t.Errorf("%s is of upstream version %s: %t, %v", c.found, c.version, got, err)
		}
	}
	if _, err := isUpstreamVersion(t.Context(), "1.0-1", "one"); err == nil {
		t.Error("a version without a number is compared")
	}
}

func TestExecutableName(t *testing.T) {
	for path, want := range map[string]string{
		"go.etcd.io/etcd/server/v3":                  "server",
		"k8s.io/kubernetes/cmd/kubectl":              "kubectl",
		"github.com/kubeovn/kube-ovn/cmd/controller": "controller",
		"example.com/cmd/viewer":                     "viewer",
	} {
		if got := executableName(path); got != want {
			t.Errorf("%s is built as %s, not %s", path, got, want)
		}
	}
}

// Only the parts that are asked for may be missing from a cache, and a name that no part has would never be built.
func TestRealNodePartsAreOptionalParts(t *testing.T) {
	for _, name := range append(RealNode(), FRR) {
		i := slices.IndexFunc(ofLab(), func(p part) bool { return p.name == name })
		if i < 0 || !ofLab()[i].optional {
			t.Errorf("%s is no optional part of a lab", name)
		}
	}
}

func TestPkgConfigNamesTheUnpackedLibrary(t *testing.T) {
	program := filepath.Join(t.TempDir(), "pkg-config")
	if err := writePkgConfig(program, "/unpacked"); err != nil {
		t.Fatal(err)
	}
	for question, want := range map[string]string{
		"--cflags": "-I/unpacked/usr/include\n",
		"--libs":   "-L/unpacked/usr/lib/x86_64-linux-gnu -lseccomp\n",
		"--other":  "",
	} {
		got, err := exec.Command(program, question, "--", "libseccomp").Output()
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", question, got, err, want)
		}
	}
}
