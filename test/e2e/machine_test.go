package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	vm "github.com/sallyport/sallyport/internal/lab/machine"
)

// static builds a program of testdata for machines, which have no libraries.
func static(t *testing.T, dir string, how ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	cmd := exec.CommandContext(within(t, 5*time.Minute), "go", append(how, "-o", path, dir)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", dir, err, out)
	}
	return path
}

// boot runs a job and prints how long it took.
func boot(t *testing.T, job vm.Job) (vm.Result, error) {
	t.Helper()
	begun := time.Now()
	got, err := vm.Run(within(t, 5*time.Minute), job)
	t.Logf("kernel %s: %s from the order to the end of the machine", job.Kernel, time.Since(begun).Round(100*time.Millisecond))
	return got, err
}

// TestMachine shows that a program in a machine has the kernel that was asked for, with what this machine's own may lack.
func TestMachine(t *testing.T) {
	program := static(t, "./testdata/machine", "build")
	for _, kernel := range vm.Kernels() {
		job := vm.Job{Kernel: kernel, Program: program, Programs: []string{"nft"}}
		t.Run(kernel, func(t *testing.T) {
			with := job
			with.Modules = []string{"vrf", "dummy", "veth", "nf_tables", "nft_ct"}
			got, err := boot(t, with)
			if err != nil || got.Status != 0 {
				t.Fatalf("status %d, %v\n%s", got.Status, err, got.Output)
			}
			for _, want := range []string{"kernel " + kernel + ".", "device lo up", "vrf vrf-one", "dummy in-one", "veth left", "ct state established"} {
				if !strings.Contains(got.Output, want) {
					t.Errorf("%q is missing in\n%s", want, got.Output)
				}
			}
		})
		t.Run(kernel+" without its modules", func(t *testing.T) {
			if got, err := boot(t, job); err != nil || got.Status != 1 || !strings.Contains(got.Output, "make a VRF: operation not supported") {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// TestMachineTellsHowItEnded shows that a machine that did not do its job is not taken for one that did.
func TestMachineTellsHowItEnded(t *testing.T) {
	job := vm.Job{Kernel: vm.Kernels()[0], Program: static(t, "./testdata/machine", "build")}
	t.Run("exit status", func(t *testing.T) {
		exits := job
		exits.Args = []string{"3"}
		if got, err := boot(t, exits); err != nil || got.Status != 3 || got.Output != "" {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("panic of the kernel", func(t *testing.T) {
		breaks := job
		breaks.Args = []string{"panic"}
		if got, err := boot(t, breaks); !errors.Is(err, vm.ErrNoEnding) || !strings.Contains(err.Error(), "sysrq triggered crash") {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("module that there is not", func(t *testing.T) {
		lacks := job
		lacks.Modules = []string{"veth", "no_such_module"}
		if got, err := boot(t, lacks); err == nil || !strings.Contains(err.Error(), "no_such_module") {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("program that can't run", func(t *testing.T) {
		text := job
		text.Program = "machine_test.go"
		if got, err := boot(t, text); err == nil || !strings.Contains(err.Error(), "exec format error") {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("no time to boot", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if got, err := vm.Run(ctx, job); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
