// Package proc is the table of processes that a lab has started: each with a name, a namespace and a log.
package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sallyport/sallyport/internal/lab/netns"
)

// Spec says how to start a process.
type Spec struct {
	Name string   // unique in its table; also the name of its log
	Argv []string // program and arguments
	Env  []string // added to the lab's own environment
	NS   netns.NS // zero value: the lab's own namespace
	Dir  string
	Root string // its own root directory; empty: the lab's
	// Restart starts the process again this long after it ended without being asked to, as kubelet does with a container.
	// 0: it stays ended.
	Restart time.Duration
	// Namespaces are made for it, besides NS, which it enters: CLONE_NEWPID and the like.
	Namespaces uintptr
}

// Table holds the processes of a lab by name.
type Table struct {
	Logs  string         // directory of the logs
	Ended func(*Process) // told of a process that ended without being asked to and stays ended; set before the first Start

	mu    sync.Mutex
	procs map[string]*Process
}

// Process is one started program.
type Process struct {
	Spec Spec
	cmd  *exec.Cmd
	done chan struct{}
	err  error

	mu      sync.Mutex
	paused  bool
	ordered bool        // somebody asked it to end
	restart *time.Timer // runs after it ended by itself
}

// State is what `lab status` shows of a process.
type State struct {
	Name   string `json:"name"`
	PID    int    `json:"pid"`
	State  string `json:"state"` // running, paused, ended, killed
	Detail string `json:"detail,omitempty"`
}

// NewTable is an empty table that logs into dir.
func NewTable(dir string) *Table { return &Table{Logs: dir, procs: map[string]*Process{}} }

// Start starts a process. A process of the same name must have ended before; its log is continued.
func (t *Table) Start(spec Spec) (*Process, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.start(spec)
}

func (t *Table) start(spec Spec) (*Process, error) {
	if old := t.procs[spec.Name]; old != nil && old.Running() {
		return nil, fmt.Errorf("%s is already running (pid %d)", spec.Name, old.PID())
	}
	log, err := os.OpenFile(t.LogPath(spec.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", spec.Name, err)
	}
	defer log.Close()
	cmd := exec.Command(spec.Argv[0], spec.Argv[1:]...) //nolint:gosec // a program of the lab
	cmd.Env, cmd.Dir = append(os.Environ(), spec.Env...), spec.Dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Chroot: spec.Root, Cloneflags: spec.Namespaces}
	if err := spec.NS.Do(cmd.Start); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	p := &Process{Spec: spec, cmd: cmd, done: make(chan struct{})}
	t.procs[spec.Name] = p
	go func() {
		p.err = cmd.Wait()
		_ = p.send(syscall.SIGKILL) // what it left running ends with it, as in a container
		close(p.done)
		t.handleEnd(p)
	}()
	return p, nil
}

// handleEnd starts a process again that ended without being asked to, or tells of its end.
func (t *Table) handleEnd(p *Process) {
	switch {
	case p.Expected():
	case p.Spec.Restart > 0:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.restart = time.AfterFunc(p.Spec.Restart, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			if t.procs[p.Spec.Name] == p {
				_, _ = t.start(p.Spec) // if it can't be started, its state stays "ended"
			}
		})
	case t.Ended != nil:
		t.Ended(p)
	}
}

// Get finds a process by name.
func (t *Table) Get(name string) (*Process, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.procs[name]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("no process %q; there are: %s", name, strings.Join(sortedKeys(t.procs), ", "))
}

// Forget drops an ended process from the table, with its log.
func (t *Table) Forget(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.procs, name)
	_ = os.Remove(t.LogPath(name))
}

// Processes lists the processes whose name has the prefix, in the order of their names.
func (t *Table) Processes(prefix string) []*Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []*Process
	for _, name := range sortedKeys(t.procs) {
		if strings.HasPrefix(name, prefix) {
			out = append(out, t.procs[name])
		}
	}
	return out
}

// LogPath is the log of the process called name.
func (t *Table) LogPath(name string) string { return filepath.Join(t.Logs, name+".log") }

// Tail is the end of a process's log, for an error message.
func (t *Table) Tail(name string) string { return Tail(t.LogPath(name)) }

// Tail is the end of a log; empty when there is none.
func Tail(path string) string {
	raw, err := os.ReadFile(path) //nolint:gosec // a file of /proc
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}

func sortedKeys(m map[string]*Process) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// PID is the process id in the lab's own process namespace.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how the process ended; only meaningful after Done.
func (p *Process) Err() error { return p.err }

// Running says whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Expected says whether somebody asked the process to end.
func (p *Process) Expected() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ordered
}

// Expect says that somebody ends the process, or what it runs on. One that has ended by itself is not made to look
// killed.
func (p *Process) Expect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ordered = p.ordered || p.Running()
	if p.restart != nil {
		p.restart.Stop()
	}
}

// Kill ends the process and its children at once, as a power cut would, and waits until it is gone.
func (p *Process) Kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// Stop asks the process to end and kills it when it has not after grace.
func (p *Process) Stop(grace time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return p.Kill()
	}
}

func (p *Process) signal(sig syscall.Signal) error {
	p.Expect()
	return p.send(sig)
}

// send signals the whole process group; a group that is gone is no error.
func (p *Process) send(sig syscall.Signal) error {
	if err := syscall.Kill(-p.PID(), sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %s: %w", p.Spec.Name, err)
	}
	return nil
}

// Pause stops the process from running without ending it, and returns when it has stopped; Resume lets it go on.
func (p *Process) Pause() error {
	if err := p.setPaused(true, syscall.SIGSTOP); err != nil {
		return err
	}
	deadline := time.Now().Add(pauseLimit)
	for {
		stopped, err := IsStopped(p.PID())
		if err != nil || stopped || !p.Running() {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s still runs %v after SIGSTOP", p.Spec.Name, pauseLimit)
		}
		<-time.After(time.Millisecond)
	}
}

// pauseLimit is how long a process may take to stop. The thread that takes the signal must get a processor first.
const pauseLimit = 10 * time.Second

// IsStopped reports whether all threads of a process are stopped by a signal. A process that received SIGSTOP runs on until
// one of its threads has been scheduled and has seen it.
func IsStopped(pid int) (bool, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false, err
	}
	for _, file := range files {
		raw, err := os.ReadFile(file) //nolint:gosec // a file of the kernel
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // the thread has ended
		}
		if err != nil {
			return false, err
		}
		// "PID (NAME) STATE …", and the name may have spaces and parentheses.
		if state := raw[bytes.LastIndexByte(raw, ')')+1:]; !bytes.HasPrefix(state, []byte(" T ")) {
			return false, nil
		}
	}
	return len(files) > 0, nil
}

// Resume lets a paused process go on.
func (p *Process) Resume() error { return p.setPaused(false, syscall.SIGCONT) }

func (p *Process) setPaused(paused bool, sig syscall.Signal) error {
	if !p.Running() {
		return fmt.Errorf("%s has ended", p.Spec.Name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = paused
	return p.send(sig)
}

// State is the process as `lab status` shows it.
func (p *Process) State() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := State{Name: p.Spec.Name, PID: p.PID(), State: "running"}
	switch {
	case !p.Running() && p.ordered:
		s.State = "killed"
	case !p.Running():
		s.State, s.Detail = "ended", p.cmd.ProcessState.String()
	case p.paused:
		s.State = "paused"
	}
	return s
}
