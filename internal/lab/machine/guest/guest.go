// Package guest is the inside of a machine: its first process, which runs one program, says how that ended and powers
// off.
package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/lab/netns"
)

// OrdersFile is where a machine's file system has its orders.
const OrdersFile = "/orders.json"

// Orders say what a machine does. Paths are those of its own file system.
type Orders struct {
	Modules []string // files, in the order in which they are loaded
	Program string
	Args    []string
	Env     []string
}

// line is the serial line for what the program says. The kernel has the first one for itself, so that nothing of the
// two is mixed.
const line = "/dev/ttyS1"

// Run does what was ordered and ends the machine; it does not return.
func Run() {
	out, err := prepare()
	if err != nil {
		fmt.Println(err) // there is no line: the kernel's console has to do
		powerOff()
	}
	status, err := obey(out)
	if err == nil {
		fmt.Fprint(out, ended(status))
	} else {
		fmt.Fprint(out, failed(err))
	}
	// What is still in the line's buffer would go with the machine.
	_ = unix.IoctlSetInt(int(out.Fd()), unix.TCSBRK, 1)
	powerOff()
}

func powerOff() {
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	select {} // a first process that ends is a panic of the kernel
}

// prepare makes the machine a place where programs find what they expect, and opens its line.
func prepare() (*os.File, error) {
	for _, m := range []struct{ kind, dir string }{
		{"proc", "/proc"},
		{"sysfs", "/sys"},
		{"devtmpfs", "/dev"},
		{"tmpfs", "/run"},
		{"tmpfs", "/tmp"},
	} {
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			return nil, fmt.Errorf("make %s: %w", m.dir, err)
		}
		if err := unix.Mount(m.kind, m.dir, m.kind, 0, ""); err != nil {
			return nil, fmt.Errorf("mount %s: %w", m.dir, err)
		}
	}
	out, err := os.OpenFile(line, os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, fmt.Errorf("open the line: %w", err)
	}
	fd := int(out.Fd())
	settings, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("read the settings of the line: %w", err)
	}
	settings.Oflag &^= unix.OPOST // or every line ends with a carriage return
	return out, unix.IoctlSetTermios(fd, unix.TCSETS, settings)
}

// obey carries out the orders and is the exit status of the program.
func obey(out *os.File) (int, error) {
	raw, err := os.ReadFile(OrdersFile)
	if err != nil {
		return 0, fmt.Errorf("read orders: %w", err)
	}
	var orders Orders
	if err := json.Unmarshal(raw, &orders); err != nil {
		return 0, fmt.Errorf("read orders: %w", err)
	}
	if err := netns.Own().LinkUp("lo"); err != nil {
		return 0, err
	}
	for _, file := range orders.Modules {
		if err := load(file); err != nil {
			return 0, fmt.Errorf("load %s: %w", file, err)
		}
	}
	cmd := &exec.Cmd{
		Path:   orders.Program,
		Args:   append([]string{orders.Program}, orders.Args...),
		Env:    orders.Env,
		Dir:    "/tmp",
		Stdout: out,
		Stderr: out,
	}
	return status(cmd.Run())
}

func load(file string) error {
	f, err := os.Open(file) //nolint:gosec // a file that a test puts into a machine
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.FinitModule(int(f.Fd()), "", 0)
}

// status is the exit status as a shell has it. A program that did not start has none.
func status(err error) (int, error) {
	var exit *exec.ExitError
	if err == nil || !errors.As(err, &exit) {
		return 0, err
	}
	if wait, ok := exit.Sys().(syscall.WaitStatus); ok && wait.Signaled() {
		return 128 + int(wait.Signal()), nil
	}
	return exit.ExitCode(), nil
}
