package proc

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// begin starts a shell script that says "ready" on descriptor 3, and gives what else it and its children say there.
func begin(t *testing.T, table *Table, name, script string) (*Process, *bufio.Reader) {
	t.Helper()
	pipe := filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(pipe, 0o600))
	p, err := table.Start(Spec{
		Name: name,
		Argv: []string{"sh", "-c", `exec 3>"$PIPE"; ` + script},
		Env:  []string{"PIPE=" + pipe},
	})
	must(t, err)
	t.Cleanup(func() { _ = p.Kill() })
	f, err := os.Open(pipe)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	said := bufio.NewReader(f)
	if line, err := said.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%s said %q, %v", name, line, err)
	}
	return p, said
}

const forever = "echo ready >&3; exec sleep 1000"

// next is what comes from a channel, soon.
func next[T any](t *testing.T, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(10 * time.Second):
		t.Fatal("waited in vain")
	}
	return got
}

// rest reads what is said until nobody is left who could say anything.
func rest(t *testing.T, said io.Reader) string {
	t.Helper()
	all := make(chan string, 1)
	go func() {
		raw, _ := io.ReadAll(said)
		all <- string(raw)
	}()
	return next(t, all)
}

func TestKilledProcessCanBeStartedAgain(t *testing.T) {
	table := NewTable(t.TempDir())
	p, _ := begin(t, table, "one", forever)
	if got := p.State(); got.State != "running" || got.PID != p.PID() || syscall.Kill(p.PID(), 0) != nil {
		t.Errorf("after the start: %+v", got)
	}
	if _, err := table.Start(p.Spec); err == nil || !strings.Contains(err.Error(), "already running") {
		t.Errorf("a second of the name: %v, want it refused", err)
	}
	if err := p.Kill(); err != nil || p.Running() || p.State().State != "killed" {
		t.Errorf("after Kill: %v, %+v", err, p.State())
	}
	if err := p.Pause(); err == nil {
		t.Error("an ended process is paused")
	}
	again, _ := begin(t, table, "one", forever)
	if got, err := table.Get("one"); err != nil || got != again || !got.Running() || got.PID() == p.PID() {
		t.Errorf("after the second start: %+v, %v", got, err)
	}
}

// The kernel tells a parent when a child stops and when it goes on.
func TestPausedProcessDoesNotRun(t *testing.T) {
	p, said := begin(t, NewTable(t.TempDir()), "one",
		`trap 'echo again >&3' CONT; echo ready >&3; while :; do sleep 1000 & wait; done`)
	for _, c := range []struct {
		do    func() error
		event int
		state string
	}{{p.Pause, unix.WSTOPPED, "paused"}, {p.Resume, unix.WCONTINUED, "running"}} {
		must(t, c.do())
		if stopped, err := IsStopped(p.PID()); err != nil || stopped != (c.state == "paused") {
			t.Errorf("%s: stopped %v, %v", c.state, stopped, err)
		}
		if err := unix.Waitid(unix.P_PID, p.PID(), &unix.Siginfo{}, c.event, nil); err != nil ||
			p.State().State != c.state {
			t.Errorf("%v, state %s, want %s", err, p.State().State, c.state)
		}
	}
	if line, err := said.ReadString('\n'); line != "again\n" {
		t.Errorf("the resumed process said %q, %v", line, err)
	}
	must(t, p.Pause(), p.Kill()) // a paused process can be killed
}

func TestStopAsksFirst(t *testing.T) {
	table := NewTable(t.TempDir())
	polite, said := begin(t, table, "polite", `trap 'echo bye >&3; exit 0' TERM; echo ready >&3; sleep 1000 & wait`)
	if err := polite.Stop(10 * time.Second); err != nil || polite.Err() != nil || rest(t, said) != "bye\n" {
		t.Errorf("%v; it ended with %v", err, polite.Err())
	}
	deaf, _ := begin(t, table, "deaf", `trap '' TERM; `+forever)
	if err := deaf.Stop(50 * time.Millisecond); err != nil || deaf.Running() ||
		!strings.Contains(deaf.Err().Error(), "killed") {
		t.Errorf("%v; it ended with %v, want it killed after the grace", err, deaf.Err())
	}
}

// As in a container: what the first process started ends with it, also when it does not listen.
func TestChildrenEndWithTheProcess(t *testing.T) {
	const deafChild = `(trap '' TERM; echo ready >&3; exec sleep 1000) & `
	for _, c := range []struct {
		how, script string
		end         func(*Process) error
	}{
		{"Kill", deafChild + "wait", (*Process).Kill},
		{"Stop", deafChild + "wait", func(p *Process) error { return p.Stop(10 * time.Second) }},
		{"its own end", "sleep 1000 & echo ready >&3; exit 3", func(p *Process) error {
			next(t, p.Done())
			return nil
		}},
	} {
		t.Run(c.how, func(t *testing.T) {
			p, said := begin(t, NewTable(t.TempDir()), "parent", c.script)
			must(t, c.end(p))
			rest(t, said) // the child holds the pipe as long as it lives
		})
	}
}

func TestProcessThatHasEndedIsNotKilled(t *testing.T) {
	p, _ := begin(t, NewTable(t.TempDir()), "one", "echo ready >&3; exit 3")
	next(t, p.Done())
	for range 2 {
		if got := p.State(); got.State != "ended" || got.Detail != "exit status 3" {
			t.Errorf("%+v, want it ended with status 3", got)
		}
		must(t, p.Kill()) // too late, and no error
	}
}

func TestEndedIsToldOnlyOfTheUnexpected(t *testing.T) {
	told := make(chan string, 10)
	table := NewTable(t.TempDir())
	table.Ended = func(p *Process) { told <- p.Spec.Name }
	killed, _ := begin(t, table, "killed", forever)
	stopped, _ := begin(t, table, "stopped", forever)
	must(t, killed.Kill(), stopped.Stop(10*time.Second))
	crashed, _ := begin(t, table, "crashed", forever)
	must(t, syscall.Kill(crashed.PID(), syscall.SIGKILL)) // by somebody else
	if got := next(t, told); got != "crashed" {
		t.Errorf("told of %s", got)
	}
	done, _ := begin(t, table, "done", "echo ready >&3")
	if got := next(t, told); got != "done" || done.State().Detail != "exit status 0" || len(told) > 0 {
		t.Errorf("told of %s, and %d more; %+v", got, len(told), done.State())
	}
}

func TestProcessThatEndsByItselfIsStartedAgain(t *testing.T) {
	table := NewTable(t.TempDir())
	table.Ended = func(p *Process) { t.Errorf("told of %s", p.Spec.Name) }
	first, err := table.Start(Spec{Name: "a", Argv: []string{"sleep", "100"}, Restart: time.Millisecond})
	must(t, err, syscall.Kill(first.PID(), syscall.SIGKILL)) // by somebody else
	var second *Process
	for second = first; second == first; {
		second, err = table.Get("a")
		must(t, err)
	}
	must(t, second.Kill()) // as ordered, it stays ended
	select {
	case <-time.After(50 * time.Millisecond):
	case <-t.Context().Done():
	}
	if last, err := table.Get("a"); err != nil || last != second || last.Running() {
		t.Errorf("it was started again after it was killed: %+v, %v", last.State(), err)
	}
}

func TestUnknownNameIsAnsweredWithTheKnown(t *testing.T) {
	table := NewTable(t.TempDir())
	for _, name := range []string{"node2-a", "node1-a", "node10-a"} {
		begin(t, table, name, forever)
	}
	if _, err := table.Get("node3-a"); err == nil ||
		!strings.Contains(err.Error(), `"node3-a"; there are: node1-a, node10-a, node2-a`) {
		t.Error(err)
	}
	if _, err := table.Get("node1-a"); err != nil {
		t.Error(err)
	}
	if got := table.Processes("node1-"); len(got) != 1 || got[0].Spec.Name != "node1-a" {
		t.Errorf("node1 has %v", got)
	}
}

func TestLogIsContinued(t *testing.T) {
	table := NewTable(t.TempDir())
	for _, word := range []string{"one", "two"} {
		p, err := table.Start(Spec{
			Name: "a",
			Argv: []string{"sh", "-c", "echo $WORD; echo from $PWD >&2"},
			Env:  []string{"WORD=" + word},
			Dir:  "/",
		})
		must(t, err)
		next(t, p.Done())
	}
	raw, err := os.ReadFile(table.LogPath("a"))
	if want := "one\nfrom /\ntwo\nfrom /"; err != nil || string(raw) != want+"\n" || table.Tail("a") != want {
		t.Errorf("the log is %q, %v; its tail %q", raw, err, table.Tail("a"))
	}
	table.Forget("a")
	if _, err := os.Stat(table.LogPath("a")); !os.IsNotExist(err) || len(table.Processes("")) > 0 {
		t.Errorf("a forgotten process has a log: %v", err)
	}
}

func TestProcessHasItsOwnRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to change the root directory")
	}
	table := NewTable(t.TempDir())
	if _, err := table.Start(Spec{Name: "none", Argv: []string{"/bin/true"}, Dir: "/", Root: t.TempDir()}); err == nil {
		t.Error("a program was found that its root directory does not have")
	}
	p, err := table.Start(Spec{Name: "whole", Argv: []string{"/bin/true"}, Dir: "/", Root: "/"})
	must(t, err)
	next(t, p.Done())
	must(t, p.Err())
}
