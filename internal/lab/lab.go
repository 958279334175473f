// Package lab is a lab seen from outside: started, found, entered, ordered about and removed.
package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/lab/daemon"
	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/internal/lab/parts"
	"github.com/sallyport/sallyport/internal/lab/proc"
)

// Root is where labs have their directories.
const Root = "/run/sallyport"

// Lab is a running lab.
type Lab struct {
	Name string
	Dir  string
	PID  int // of the lab's first process
}

// State of a lab: up, or crashed when its processes are gone and its directory is not.
type State struct {
	Name string
	PID  int
	Up   bool
}

var nameForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?$`)

// Open finds a running lab by name.
func Open(name string) (*Lab, error) {
	state, err := find(name)
	if err != nil {
		return nil, err
	}
	if !state.Up {
		return nil, fmt.Errorf("lab %q has crashed; remove what is left of it with: sallyport lab down --lab %s", name,
			name)
	}
	return &Lab{Name: name, Dir: dirOf(name), PID: state.PID}, nil
}

// List lists the labs of this machine.
func List() ([]State, error) {
	entries, err := os.ReadDir(Root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list labs: %w", err)
	}
	var out []State
	for _, e := range entries {
		if !nameForm.MatchString(e.Name()) {
			continue
		}
		state, err := find(e.Name())
		if errors.Is(err, errNoLab) {
			continue // it has ended since
		}
		if err != nil {
			return nil, err
		}
		out = append(out, state)
	}
	return out, nil
}

var errNoLab = errors.New("there is no lab")

func dirOf(name string) string { return filepath.Join(Root, name) }

func find(name string) (State, error) {
	if !nameForm.MatchString(name) {
		return State{}, fmt.Errorf("%q is no name for a lab: lower case letters, digits and hyphens, 32 at most", name)
	}
	if _, err := os.Stat(dirOf(name)); err != nil {
		return State{}, fmt.Errorf("%w %q; start it with: sallyport lab up --lab %s", errNoLab, name, name)
	}
	raw, err := os.ReadFile(filepath.Join(dirOf(name), pidFile))
	if errors.Is(err, fs.ErrPermission) {
		return State{}, fmt.Errorf("lab %q belongs to root; try again with sudo", name)
	}
	if err != nil {
		return State{Name: name}, nil // it never came to have a process
	}
	identity := strings.TrimSpace(string(raw))
	pid, err := strconv.Atoi(strings.Split(identity, " ")[0])
	if err != nil {
		return State{Name: name}, nil
	}
	return State{Name: name, PID: pid, Up: identity == identify(pid)}, nil
}

const pidFile = "pid"

// identify names a process for good: a process id alone is used again, together with its start time it is not.
// It is empty when there is no such process.
func identify(pid int) string {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The second field is the program's name in brackets and may contain anything.
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	const stateField, startField = 0, 19
	if fields[stateField] == "Z" {
		return ""
	}
	return fmt.Sprintf("%d %s", pid, fields[startField])
}

// Down ends a lab at once and removes what it left, whatever state it is in. A lab that does not exist is an error.
func Down(ctx context.Context, name string) error {
	state, err := find(name)
	if err != nil {
		return err
	}
	if state.Up {
		if err := end(ctx, state.PID); err != nil {
			return fmt.Errorf("end lab %s: %w", name, err)
		}
	}
	if err := removeCgroups(name); err != nil {
		return err
	}
	if err := os.RemoveAll(dirOf(name)); err != nil {
		return fmt.Errorf("remove lab %s: %w", name, err)
	}
	_ = os.Remove(Root) // stays while another lab is in it
	return nil
}

// end kills a lab's first process; the kernel then kills the rest, and says through the descriptor when all are gone.
func end(ctx context.Context, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	gone := make(chan error, 1)
	go func() { gone <- waitReadable(fd) }()
	select {
	case err := <-gone:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// waitReadable waits until a descriptor can be read. The kernel never restarts a poll that a signal has interrupted,
// and the Go runtime sends itself signals all the time.
func waitReadable(fd int) error {
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1) //nolint:gosec // a file descriptor is a small number
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Kubeconfig is the file with which programs on this machine reach the lab's API server.
func (l *Lab) Kubeconfig() string { return filepath.Join(l.Dir, daemon.Kubeconfig) }

// Inside is how a path of the lab is reached from outside it.
func (l *Lab) Inside(path string) string { return fmt.Sprintf("/proc/%d/root%s", l.PID, path) }

// NS is a network namespace of the lab by name: a node, a router, a client, internet, or <pod>.<namespace>.
func (l *Lab) NS(name string) netns.NS {
	ns := netns.At(l.Inside(filepath.Join(netns.Dir, name)))
	if pod, namespace, is := strings.Cut(name, "."); is && !ns.Exists() {
		if path := l.realPodNetwork(namespace, pod); path != "" {
			return netns.At(l.Inside(path))
		}
	}
	return ns
}

// OwnNS is the lab's own namespace, in which its control plane and its wires are.
func (l *Lab) OwnNS() netns.NS { return netns.At(fmt.Sprintf("/proc/%d/ns/net", l.PID)) }

// Namespaces lists the named network namespaces of the lab.
func (l *Lab) Namespaces() ([]string, error) {
	entries, err := os.ReadDir(l.Inside(netns.Dir))
	if err != nil {
		return nil, fmt.Errorf("list namespaces of lab %s: %w", l.Name, err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out, nil
}

// Status asks the lab how it is.
func (l *Lab) Status(ctx context.Context) (daemon.Status, error) {
	return l.call(ctx, http.MethodGet, "/status", nil)
}

// Order tells the lab to do something to a node or a process: kill, start, pause, resume, cut, mend.
func (l *Lab) Order(ctx context.Context, order, target string) error {
	_, err := l.call(ctx, http.MethodPost, "/"+order+"/"+target, nil)
	return err
}

// ReplaceOVN replaces OVN's programs of a node, or "central", the databases and northd, by those of another version. It
// fetches them first if they are not cached.
func (l *Lab) ReplaceOVN(ctx context.Context, target, version string, progress parts.Progress) error {
	if _, err := parts.EnsureOVN(ctx, version, progress); err != nil {
		return fmt.Errorf("get OVN %s: %w", version, err)
	}
	_, err := l.call(ctx, http.MethodPost, "/replace/"+url.PathEscape(target)+"/"+url.PathEscape(version), nil)
	return err
}

// Run starts a program of this machine in the lab's own network, as a process of the lab: it shows in its status, it
// can be killed and started again, and it ends with the lab. One of the same name is replaced.
func (l *Lab) Run(ctx context.Context, name string, argv ...string) error {
	body, err := json.Marshal(proc.Spec{Name: name, Argv: argv})
	if err != nil {
		return err
	}
	_, err = l.call(ctx, http.MethodPost, "/run", body)
	return err
}

func (l *Lab) call(ctx context.Context, method, path string, body []byte) (out daemon.Status, err error) {
	err = l.ask(ctx, method, path, body, &out)
	return out, err
}

// ask sends a request to the lab and reads its answer.
func (l *Lab) ask(ctx context.Context, method, path string, body []byte, out any) error {
	socket := filepath.Join(l.Dir, daemon.ControlSocket)
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	request, err := http.NewRequestWithContext(ctx, method, "http://lab"+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask lab %s: %w", l.Name, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("ask lab %s (is it still starting?): %w", l.Name, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		var failure daemon.Failure
		if err := json.NewDecoder(response.Body).Decode(&failure); err != nil {
			return fmt.Errorf("lab %s answered %s", l.Name, response.Status)
		}
		return errors.New(failure.Error)
	}
	if err := json.NewDecoder(response.Body).Decode(out); err != nil {
		return fmt.Errorf("read answer of lab %s: %w", l.Name, err)
	}
	return nil
}
