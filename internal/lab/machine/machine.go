// Package machine is a virtual machine with a stock Debian kernel that runs one program and ends.
package machine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
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
	Spare      []string
	Programs   []string          // of this machine, brought along with their shared libraries: "nft"
	Files      map[string]string // of this machine, brought along: by their paths in the machine
	Interfaces []Interface       // none: the machine has no network
	Memory     string            // as QEMU takes it; empty: as much as a small program needs
}

// Interface is a network card of the machine, and the tap device of this machine that it is connected to.
type Interface struct {
	Tap string
	MAC net.HardwareAddr
}

// ModuleDir is where modules are in the machine.
const ModuleDir = "/modules"

// Result is how the program ended.
type Result struct {
	Output string // standard output and error
	Status int    // 128 and the signal, where one ended it
}

const (
	usualMemory = "512M"
	initPkg     = "github.com/sallyport/sallyport/internal/lab/machine/init"
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
// did not run, or that nobody knows how it ended, is. The machine has no disk, and no network unless the job says so:
// nothing of it stays.
func (k Kit) Run(ctx context.Context, job Job) (Result, error) {
	if err := checkKernel(job.Kernel); err != nil {
		return Result{}, err
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
	return b.run(ctx, b.command(k.parts, job))
}

// Command fills a directory and returns the command that boots the machine, for a job that somebody else starts and
// ends: a node of a lab. The command ends when the job's program does.
func (k Kit) Command(ctx context.Context, dir string, job Job) ([]string, error) {
	if err := checkKernel(job.Kernel); err != nil {
		return nil, err
	}
	image, modules := k.parts.Kernel(job.Kernel)
	b := box{dir: dir, kernel: image, init: k.init}
	if err := b.fill(ctx, job, modules); err != nil {
		return nil, err
	}
	return b.command(k.parts, job), nil
}

// Said returns what the machine of a directory has said so far: its program, then the end of what its kernel said.
func Said(dir string) string {
	b := box{dir: dir}
	line, _ := os.ReadFile(b.path("line"))
	return string(line) + "\n" + b.tail()
}

func checkKernel(version string) error {
	if slices.Contains(Kernels(), version) {
		return nil
	}
	return fmt.Errorf("there is no kernel %q, there are %s", version, strings.Join(Kernels(), " and "))
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
	for _, path := range slices.Sorted(maps.Keys(job.Files)) {
		files.copy(path, job.Files[path])
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

// command is the command that boots the machine.
//
// The processor is emulated, always. /dev/kvm of a machine that is a virtual one itself may be there and not work.
func (b box) command(set parts.Set, job Job) []string {
	argv := []string{
		set.Program("qemu-system-x86_64"),
		"-accel", "tcg", "-machine", "q35", "-cpu", "max", "-smp", "1", "-m", cmp.Or(job.Memory, usualMemory),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-serial", "file:" + b.path("console"), "-serial", "file:" + b.path("line"),
		"-kernel", b.kernel, "-initrd", b.path("initramfs"),
		// A panic reboots, and a reboot is the end. The kernel's check of its timer takes a slow emulator for a broken timer.
		"-append", "console=ttyS0 panic=-1 mitigations=off no_timer_check",
	}
	for _, dir := range set.Firmware() {
		argv = append(argv, "-L", dir)
	}
	for i, card := range job.Interfaces {
		id := fmt.Sprintf("n%d", i)
		// Frames leave the machine complete, as on a wire: the lab's switches in user space read them raw.
		argv = append(argv,
			"-netdev", fmt.Sprintf("tap,id=%s,ifname=%s,script=no,downscript=no,vnet_hdr=off", id, card.Tap),
			"-device", fmt.Sprintf("virtio-net-pci,netdev=%s,mac=%s,romfile=", id, card.MAC))
	}
	return argv
}

// run boots the machine and waits for its end.
func (b box) run(ctx context.Context, argv []string) (Result, error) {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // a program that a test runs
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
