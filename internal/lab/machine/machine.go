// Package machine is a virtual machine with a stock Debian kernel that runs one program and ends.
package machine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/sallyport/sallyport/internal/lab/machine/guest"
	"github.com/sallyport/sallyport/internal/lab/parts"
)

// Job is what a machine is for.
type Job struct {
	Kernel  string   // one of Kernels
	Program string   // a static program; it runs as root in /tmp
	Args    []string // without the program's name
	Env     []string // besides PATH and HOME
	Modules []string // of the kernel, loaded before, with those that they need. One that can't be loaded fails the job
	// modules that are brought along to ModuleDir and not loaded: the program does that, or looks what is without them
	Spare    []string
	Programs []string // of this machine, brought along with their shared libraries: "nft"
}

// ModuleDir is where modules are in the machine.
const ModuleDir = "/modules"

// Result is how the program ended.
type Result struct {
	Output string // standard output and error
	Status int    // 128 and the signal, where one ended it
}

const (
	memory  = "512M"
	initPkg = "github.com/sallyport/sallyport/internal/lab/machine/init"
)

// ErrNoEnding is a machine that ended without saying how: it did not boot, or broke down.
var ErrNoEnding = guest.ErrNoEnding

// Kernels are the kernels that a machine can run, oldest first.
func Kernels() []string { return parts.Kernels() }

// Kit is what machines are booted from: QEMU, kernels, and the first process of a machine.
type Kit struct {
	parts parts.Set
	init  string
}

// Prepare fetches and builds everything that a machine needs, so that Run only boots. The first process is built into a
// directory of the caller's; that needs Go and this module's source.
func Prepare(ctx context.Context, dir string) (Kit, error) {
	set, err := parts.EnsureMachine(ctx, func(line string) { fmt.Fprintln(os.Stderr, line) })
	if err != nil {
		return Kit{}, fmt.Errorf("get the parts of the machine: %w", err)
	}
	k := Kit{parts: set, init: filepath.Join(dir, "init")}
	return k, buildInit(ctx, k.init)
}

// Run boots a machine, runs the job's program in it and waits for its end. That the program fails is no error; that it
// did not run, or that nobody knows how it ended, is. The machine has no network and no disk: nothing of it leaves it
// or stays.
func (k Kit) Run(ctx context.Context, job Job) (Result, error) {
	if !slices.Contains(Kernels(), job.Kernel) {
		return Result{}, fmt.Errorf("there is no kernel %q, there are %s", job.Kernel, strings.Join(Kernels(), " and "))
	}
	dir, err := os.MkdirTemp("", "machine-")
	if err != nil {
		return Result{}, fmt.Errorf("make a place for the machine: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	image, modules := k.parts.Kernel(job.Kernel)
	b := box{dir: dir, kernel: image, init: k.init}
	if err := b.fill(ctx, job, modules); err != nil {
		return Result{}, err
	}
	return b.run(ctx, k.parts)
}

// box is the directory of a machine: what it boots with and what it says.
type box struct{ dir, kernel, init string }

func (b box) path(name string) string { return filepath.Join(b.dir, name) }

// fill writes the machine's file system: first process, orders, program, modules, programs brought along.
func (b box) fill(ctx context.Context, job Job, dir string) error {
	all, err := readModules(dir)
	if err != nil {
		return err
	}
	load, err := all.order(job.Modules)
	if err != nil {
		return fmt.Errorf("kernel %s: %w", job.Kernel, err)
	}
	spare, err := all.order(job.Spare)
	if err != nil {
		return fmt.Errorf("kernel %s: %w", job.Kernel, err)
	}
	bring, err := libraries(ctx, job.Programs)
	if err != nil {
		return err
	}
	orders := guest.Orders{
		Program: "/program", Args: job.Args,
		Env: slices.Concat([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp"}, job.Env),
	}
	f, err := os.Create(b.path("initramfs"))
	if err != nil {
		return fmt.Errorf("make the machine's file system: %w", err)
	}
	defer f.Close()
	files := archive{to: f}
	files.copy("init", b.init)
	files.copy(orders.Program, job.Program)
	for _, from := range load {
		orders.Modules = append(orders.Modules, files.module(from))
	}
	for _, from := range spare {
		files.module(from)
	}
	for _, path := range bring {
		files.copy(path, path)
	}
	raw, err := json.Marshal(orders)
	files.file(guest.OrdersFile, raw)
	return errors.Join(err, files.end())
}

// module puts a module into the archive and returns where.
func (a *archive) module(from string) string {
	at := path.Join(ModuleDir, filepath.Base(from))
	a.copy(at, from)
	return at
}

func buildInit(ctx context.Context, path string) error {
	//nolint:gosec // a program that a test runs
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", path,
		initPkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the first process of the machine: %w\n%s", errors.Join(err, ctx.Err()), out)
	}
	return nil
}

// libraries are the paths of programs and of all that their dynamic loader opens for them. ldd prints those as
// "libnftables.so.1 => /lib/x86_64-linux-gnu/libnftables.so.1 (0x…)", and the loader itself without the first half.
func libraries(ctx context.Context, programs []string) ([]string, error) {
	var out []string
	for _, name := range programs {
		path, err := exec.LookPath(name)
		if err != nil {
			return nil, fmt.Errorf("bring %s along: %w", name, err)
		}
		listed, err := exec.CommandContext(ctx, "ldd", path).Output() //nolint:gosec // a program that a test runs
		if err != nil {
			return nil, fmt.Errorf("ask for the libraries of %s: %w", path, err)
		}
		out = append(out, path)
		for word := range strings.FieldsSeq(string(listed)) {
			if strings.HasPrefix(word, "/") {
				out = append(out, word)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// run boots the machine and waits for its end.
//
// The processor is emulated, always. /dev/kvm of a machine that is a virtual one itself may be there and not work.
func (b box) run(ctx context.Context, set parts.Set) (Result, error) {
	args := []string{
		"-accel", "tcg", "-machine", "q35", "-cpu", "max", "-smp", "1", "-m", memory,
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-serial", "file:" + b.path("console"), "-serial", "file:" + b.path("line"),
		"-kernel", b.kernel, "-initrd", b.path("initramfs"),
		// A panic reboots, and a reboot is the end. The kernel's check of its timer takes a slow emulator for a broken timer.
		"-append", "console=ttyS0 panic=-1 mitigations=off no_timer_check",
	}
	for _, dir := range set.Firmware() {
		args = append(args, "-L", dir)
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, set.Program("qemu-system-x86_64"), args...) //nolint:gosec // a program that a test runs
	cmd.Stdout, cmd.Stderr = &said, &said
	// The machine ends with this process, however that ends. What the kernel watches is the thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	failure := cmd.Run()
	if ctx.Err() != nil {
		failure = fmt.Errorf("the machine was ended: %w", context.Cause(ctx))
	}
	line, err := os.ReadFile(b.path("line"))
	if err != nil {
		return Result{}, fmt.Errorf("run QEMU: %w\n%s", errors.Join(failure, err), said.String())
	}
	output, status, err := guest.Ending(string(line))
	result := Result{Output: output, Status: status}
	if err = errors.Join(failure, err); err != nil {
		return result, fmt.Errorf("%w\n%s%s", err, said.String(), b.tail())
	}
	return result, nil
}

// tail is the end of what the kernel said: enough for a panic.
func (b box) tail() string {
	const most = 4096
	raw, err := os.ReadFile(b.path("console"))
	if err != nil {
		return err.Error()
	}
	return string(raw[max(0, len(raw)-most):])
}
