package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/cluster"
	"github.com/sallyport/sallyport/internal/lab/daemon"
	"github.com/sallyport/sallyport/internal/lab/engine"
	"github.com/sallyport/sallyport/internal/lab/parts"
	"github.com/sallyport/sallyport/internal/lab/proc"
)

// Options are what a lab is started with.
type Options struct {
	Name      string
	Blueprint blueprint.Blueprint
	Images    []string           // files: container images that real nodes have from the beginning, that of pause among them
	Progress  func(line string)  // told of builds, one line each; may be nil
	Event     func(daemon.Event) // told of each step as it ends; may be nil
	// KeepFailed leaves a lab that could not be started as it is, so that somebody can look at it.
	KeepFailed bool
}

// Up starts a lab and returns when it is usable. When it can't be, nothing of it is left, unless that was asked for.
func Up(ctx context.Context, o Options) (*Lab, error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.Event == nil {
		o.Event = func(daemon.Event) {}
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if _, err := parts.Ensure(ctx, o.Progress, daemon.OptionalParts(o.Blueprint)...); err != nil {
		return nil, fmt.Errorf("get the parts of the lab: %w", err)
	}
	if err := claim(o.Name); err != nil {
		return nil, err
	}
	l, err := launch(ctx, o)
	if err != nil && o.KeepFailed {
		return nil, fmt.Errorf("%w\n(what is left of lab %s was kept, as asked)", err, o.Name)
	}
	if err != nil {
		return nil, errors.Join(err, Down(context.WithoutCancel(ctx), o.Name))
	}
	return l, nil
}

// needed are programs of the machine that a lab uses, with the Debian package of each.
var needed = [][2]string{{"nft", "nftables"}, {"nsenter", "util-linux"}}

func (o Options) check() error {
	if os.Geteuid() != 0 {
		return errors.New("a lab needs root: it makes namespaces, mounts and network links (try: sudo sallyport lab up)")
	}
	if !nameForm.MatchString(o.Name) {
		return fmt.Errorf("%q is no name for a lab: lower case letters, digits and hyphens, 32 at most", o.Name)
	}
	for _, n := range needed {
		if _, err := exec.LookPath(n[0]); err != nil {
			return fmt.Errorf("the lab needs the program %s; install it with: apt-get install %s", n[0], n[1])
		}
	}
	if err := o.Blueprint.Check(); err != nil {
		return fmt.Errorf("this lab can't be built:\n%w", err)
	}
	return o.checkImages()
}

// claim takes the lab's name by making its directory.
func claim(name string) error {
	if err := os.MkdirAll(Root, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", Root, err)
	}
	err := os.Mkdir(dirOf(name), 0o700)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("there is a lab %q already; use another name (--lab), or remove it with: sallyport lab down --lab %s", name, name)
	}
	if err != nil {
		return fmt.Errorf("make the lab's directory: %w", err)
	}
	return nil
}

// reportTime is how long before its deadline a start gives up by itself, so that it can say where it was stuck.
const reportTime = 2 * time.Second

// launch starts the lab's first process and follows its report.
func launch(ctx context.Context, o Options) (*Lab, error) {
	config := daemon.Config{Name: o.Name, Dir: dirOf(o.Name), Blueprint: o.Blueprint, Images: o.Images}
	if o.Blueprint.RealNodes > 0 {
		groups, err := claimCgroups(o.Name)
		if err != nil {
			return nil, err
		}
		config.Cgroups = groups
	}
	if deadline, ok := ctx.Deadline(); ok {
		config.Deadline = deadline.Add(-reportTime)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	defer read.Close()
	files := []*os.File{write}
	defer func() { closeAll(files) }()
	for _, door := range doors(o.Blueprint) {
		file, address, err := listen()
		if err != nil {
			return nil, err
		}
		door.Outside = address
		config.Doors = append(config.Doors, door)
		files = append(files, file)
	}
	pid, err := spawn(config, files)
	if err != nil {
		return nil, err
	}
	closeAll(files) // so that the pipe ends with the daemon
	files = nil
	stop := context.AfterFunc(ctx, func() { _ = read.Close() })
	defer stop()
	if err := follow(read, o.Event); err != nil {
		return nil, errors.Join(context.Cause(ctx),
			fmt.Errorf("start lab %s: %w\n%s", o.Name, err, proc.Tail(filepath.Join(config.Dir, daemon.Log))))
	}
	return &Lab{Name: o.Name, Dir: config.Dir, PID: pid}, nil
}

// doors are the ways in: the API server and every OVN database server.
func doors(b blueprint.Blueprint) []daemon.Door {
	out := []daemon.Door{{Name: "api", Inside: cluster.APIAddress()}}
	nb, sb := engine.TLSPorts()
	for i, s := range b.ServerAddresses() {
		out = append(out,
			daemon.Door{Name: fmt.Sprintf("nb%d", i+1), Inside: fmt.Sprintf("%s:%d", s.Addr(), nb)},
			daemon.Door{Name: fmt.Sprintf("sb%d", i+1), Inside: fmt.Sprintf("%s:%d", s.Addr(), sb)})
	}
	return out
}

func listen() (*os.File, string, error) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, "", fmt.Errorf("open a door on loopback: %w", err)
	}
	defer l.Close()
	file, err := l.File()
	if err != nil {
		return nil, "", fmt.Errorf("open a door on loopback: %w", err)
	}
	return file, l.Addr().String(), nil
}

func spawn(config daemon.Config, files []*os.File) (int, error) {
	log, err := os.Create(filepath.Join(config.Dir, daemon.Log))
	if err != nil {
		return 0, fmt.Errorf("make log: %w", err)
	}
	defer log.Close()
	raw, err := json.Marshal(config)
	if err != nil {
		return 0, fmt.Errorf("encode configuration: %w", err)
	}
	cmd := daemon.Command(files)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(raw), log, log
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("make the lab's namespaces: %w", err)
	}
	go func() { _ = cmd.Wait() }() // a parent that lives on must collect it
	pid := cmd.Process.Pid
	if err := os.WriteFile(filepath.Join(config.Dir, pidFile), []byte(identify(pid)+"\n"), 0o600); err != nil {
		return 0, errors.Join(fmt.Errorf("write pid: %w", err), cmd.Process.Kill())
	}
	return pid, nil
}

// follow reads the daemon's report to its end.
func follow(report io.Reader, event func(daemon.Event)) error {
	decoder := json.NewDecoder(report)
	for {
		var e daemon.Event
		if err := decoder.Decode(&e); err != nil {
			return errors.New("the lab ended before it was ready")
		}
		event(e)
		if e.Error != "" {
			return errors.New(e.Error)
		}
		if e.Ready {
			return nil
		}
	}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
