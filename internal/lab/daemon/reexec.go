package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/lab/realnode"
)

// A lab consists of two processes of this program besides what they start. The first is process 1 of the lab's process
// namespace: when it ends, the kernel ends everything in the lab. It only reaps. The second is the daemon. They are
// told apart by the name they were started with.
const (
	initName   = "sallyport-lab-init"
	daemonName = "sallyport-lab-daemon"
)

// Descriptors that both processes have, from the first free one on.
const (
	eventsFD     = 3
	firstDoorFD  = 4
	cloneOfALab  = syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
	exitOnFailed = 1
)

// Hook makes the program a lab's init or daemon when it was started as one, and then does not return. Every program
// that starts labs (the CLI, a test binary) calls it first.
func Hook() {
	var err error
	switch filepath.Base(os.Args[0]) {
	case initName:
		err = runInit()
	case daemonName:
		err = runDaemon()
	case realnode.InitName:
		err = realnode.RunInit()
	default:
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitOnFailed)
	}
	os.Exit(0)
}

// Command is a lab's init process, ready to be started with its configuration on standard input.
func Command(files []*os.File) *exec.Cmd {
	return &exec.Cmd{
		Path:       "/proc/self/exe",
		Args:       []string{initName},
		Env:        os.Environ(),
		Dir:        "/",
		ExtraFiles: files,
		SysProcAttr: &syscall.SysProcAttr{
			Cloneflags: cloneOfALab,
			Setsid:     true, // a lab outlives the terminal it was started from
		},
	}
}

func runInit() error {
	var config Config
	if err := json.NewDecoder(os.Stdin).Decode(&config); err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	if err := furnish(config); err != nil {
		return err
	}
	raw, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("pass configuration on: %w", err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("pass configuration on: %w", err)
	}
	child := &exec.Cmd{
		Path:   "/proc/self/exe",
		Args:   []string{daemonName},
		Env:    os.Environ(),
		Stdin:  read,
		Stdout: os.Stdout,
		Stderr: os.Stderr,
	}
	for fd := eventsFD; fd < firstDoorFD+len(config.Doors); fd++ {
		child.ExtraFiles = append(child.ExtraFiles, os.NewFile(uintptr(fd), "inherited"))
	}
	if err := child.Start(); err != nil {
		return fmt.Errorf("start daemon: %w", err)
	}
	for _, f := range child.ExtraFiles {
		_ = f.Close() // the end of the daemon must show as the end of its events
	}
	go func() {
		_, _ = write.Write(raw)
		_ = write.Close()
	}()
	return reapUntil(child.Process.Pid)
}

// reapUntil collects every orphan of the lab and returns when the daemon has ended.
func reapUntil(daemon int) error {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for processes: %w", err)
		}
		if pid == daemon {
			return fmt.Errorf("the lab's daemon ended (status %d)", status.ExitStatus())
		}
	}
}

// furnish mounts what is private to the lab: /proc and /sys of its namespaces, an empty /run and /var/log, and a file
// system for its data. All of it is gone with the lab's last process.
func furnish(c Config) error {
	data := c.path(Data)
	own := filepath.Join(data, "run", c.Dir[len("/run/"):])
	steps := []struct {
		what string
		do   func() error
	}{
		{"make mounts private", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
		{"make data directory", func() error { return os.MkdirAll(data, 0o755) }},
		{"mount data", func() error { return unix.Mount("tmpfs", data, "tmpfs", 0, "mode=755") }},
		{"make /run", func() error { return os.MkdirAll(own, 0o755) }},
		{"keep the lab's directory", func() error { return unix.Mount(c.Dir, own, "", unix.MS_BIND|unix.MS_REC, "") }},
		{"mount /run", func() error {
			return unix.Mount(filepath.Join(data, "run"), "/run", "", unix.MS_BIND|unix.MS_REC, "")
		}},
		{"mount /var/log", func() error { return unix.Mount("tmpfs", "/var/log", "tmpfs", 0, "mode=755") }},
		{"mount /proc", func() error { return unix.Mount("proc", "/proc", "proc", 0, "") }},
		{"mount /sys", func() error { return unix.Mount("sysfs", "/sys", "sysfs", 0, "") }},
		{"name the host", func() error { return unix.Sethostname([]byte(c.Name)) }},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return nil
}
