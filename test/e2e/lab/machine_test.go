package lab

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	vm "github.com/sallyport/sallyport/internal/lab/machine"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// TestMachine shows that a program in a virtual machine runs on the requested kernel, including features that this
// machine's own kernel may lack.
func TestMachine(t *testing.T) {
	program := harness.BuildStaticBinary(t, "../testdata/machine", "build")
	kit := harness.PrepareVMKit(t)
	for _, kernel := range vm.Kernels() {
		job := vm.Job{Kernel: kernel, Program: program, Programs: []string{"nft"}}
		t.Run(kernel, func(t *testing.T) {
			with := job
			with.Modules = []string{"vrf", "dummy", "veth", "nf_tables", "nft_ct"}
			got, err := harness.RunVM(t, kit, with)
			if err != nil || got.Status != 0 {
				t.Fatalf("status %d, %v\n%s", got.Status, err, got.Output)
			}
			for _, want := range []string{
				"kernel " + kernel + ".", "device lo up", "vrf vrf-one", "dummy in-one",
				"veth left", "ct state established",
			} {
				if !strings.Contains(got.Output, want) {
					t.Errorf("%q is missing in\n%s", want, got.Output)
				}
			}
		})
		t.Run(kernel+" without its modules", func(t *testing.T) {
			if got, err := harness.RunVM(t, kit, job); err != nil || got.Status != 1 ||
				!strings.Contains(got.Output, "make a VRF: operation not supported") {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// TestMachineTellsHowItEnded shows that a virtual machine that did not run its program is reported as a failure.
func TestMachineTellsHowItEnded(t *testing.T) {
	job := vm.Job{Kernel: vm.Kernels()[0], Program: harness.BuildStaticBinary(t, "../testdata/machine", "build")}
	kit := harness.PrepareVMKit(t)
	t.Run("nothing is built after the clock of a boot has started", func(t *testing.T) {
		without := job
		without.Args = []string{"0"}
		t.Setenv("GOCACHE", t.TempDir())
		t.Setenv("GOFLAGS", "-mod=none") // any go command fails from now on
		if got, err := harness.RunVM(t, kit, without); err != nil || got.Status != 0 {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("exit status", func(t *testing.T) {
		exits := job
		exits.Args = []string{"3"}
		if got, err := harness.RunVM(t, kit, exits); err != nil || got.Status != 3 || got.Output != "" {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("panic of the kernel", func(t *testing.T) {
		breaks := job
		breaks.Args = []string{"panic"}
		if got, err := harness.RunVM(t, kit, breaks); !errors.Is(err, vm.ErrNoEnding) ||
			!strings.Contains(err.Error(), "sysrq triggered crash") {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("module that there is not", func(t *testing.T) {
		lacks := job
		lacks.Modules = []string{"veth", "no_such_module"}
		if got, err := harness.RunVM(t, kit, lacks); err == nil || !strings.Contains(err.Error(), "no_such_module") {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("program that can't run", func(t *testing.T) {
		text := job
		text.Program = "machine_test.go"
		if got, err := harness.RunVM(t, kit, text); err == nil || !strings.Contains(err.Error(), "exec format error") {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("no time to boot", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if got, err := kit.Run(ctx, job); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
