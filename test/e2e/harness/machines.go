package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	vm "github.com/sallyport/sallyport/internal/lab/machine"
)

// BuildStatic builds a program of testdata for machines, which have no libraries.
func BuildStatic(t *testing.T, dir string, how ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	cmd := exec.CommandContext(Within(t, 5*time.Minute), "go", append(how, "-o", path, dir)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", dir, err, out)
	}
	return path
}

// BootMachine runs a job and prints how long it took.
func BootMachine(t *testing.T, job vm.Job) (vm.Result, error) {
	t.Helper()
	begun := time.Now()
	got, err := vm.Run(Within(t, 5*time.Minute), job)
	t.Logf("kernel %s: %s from the order to the end of the machine", job.Kernel, time.Since(begun).Round(100*time.Millisecond))
	return got, err
}
