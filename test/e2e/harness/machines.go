package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	vm "github.com/sallyport/sallyport/internal/lab/machine"
)

// BuildStaticBinary builds a static program from testdata for virtual machines, which have no libraries. Only the limit
// of the whole test run applies: with empty build caches on a busy machine it takes minutes.
func BuildStaticBinary(t *testing.T, dir string, how ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	cmd := exec.CommandContext(t.Context(), "go", append(how, "-o", path, dir)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", dir, err, out)
	}
	return path
}

// PrepareVMKit fetches and builds what virtual machines need, before the timeout of a boot starts.
func PrepareVMKit(t *testing.T) vm.Kit {
	t.Helper()
	runBesideOthers(t)
	kit, err := vm.Prepare(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return kit
}

// RunVM runs a job in a virtual machine and logs how long it took.
func RunVM(t *testing.T, kit vm.Kit, job vm.Job) (vm.Result, error) {
	t.Helper()
	begun := time.Now()
	got, err := kit.Run(Within(t, 10*time.Minute), job)
	t.Logf("kernel %s: %s from the order to the end of the machine", job.Kernel,
		time.Since(begun).Round(100*time.Millisecond))
	return got, err
}
