package bgp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/internal/lab/proc"
)

// Shop is what starting an FRR needs: its packages, the process table, and the lab's directory for data.
type Shop struct {
	Packages  string
	Processes *proc.Table
	Data      string
}

// Speaker is one FRR. It has a root directory of its own, because FRR has its paths and its user compiled in.
type Speaker struct {
	shop     Shop
	name     string // of its namespace
	config   string
	programs []program
	calls    int // how many sessions are to come about
}

// program is one of FRR's, with the socket that it opens when it is ready.
type program struct {
	name, socket string
	args         []string
}

// A router has zebra, which writes what bgpd learns to the kernel's table; zebra in turn runs wild without mgmtd, to
// which it reports its interfaces. A node has bgpd alone, so that nothing it could ever learn changes the node's own
// routes. Alone, bgpd warns every second that it misses zebra.
var (
	ofRouter = []program{
		{name: "mgmtd", socket: "mgmtd_be.sock"},
		{name: "zebra", socket: "zserv.api"},
		{name: "bgpd", socket: "bgpd.vty"},
	}
	ofNode = []program{{name: "bgpd", socket: "bgpd.vty", args: []string{"--no_zebra", "--log-level", "errors"}}}
)

// Speakers are the FRRs of a lab, by the namespace that each is in: none in a lab without BGP.
func Speakers(shop Shop, b blueprint.Blueprint) map[string]*Speaker {
	out, uplinks := map[string]*Speaker{}, b.BGP()
	if len(uplinks) == 0 {
		return out
	}
	for _, s := range uplinks {
		calls := b.Nodes * len(s.Prefixes)
		out[s.Router] = &Speaker{shop: shop, name: s.Router, config: routerConfig(s), programs: ofRouter, calls: calls}
	}
	for _, n := range b.NodeList() {
		out[n.Name] = &Speaker{shop: shop, name: n.Name, config: nodeConfig(n, uplinks), programs: ofNode}
	}
	return out
}

// Build makes the root directory: the packages and /proc from elsewhere, and a configuration.
func (s *Speaker) Build() error {
	for _, dir := range []string{"usr", "proc", "etc/frr", "run/frr", "var/lib", "var/tmp"} {
		if err := os.MkdirAll(s.path(dir), 0o755); err != nil {
			return fmt.Errorf("make root of FRR: %w", err)
		}
	}
	for name, text := range map[string]string{ //nolint:gosec // FRR of a lab has no passwords
		"etc/passwd":         "frr:x:0:0::/:\n", // what it would run as; in a lab there is only root
		"etc/group":          "frr:x:0:\nfrrvty:x:0:frr\n",
		"etc/frr/vtysh.conf": "username frr nopassword\n", // else vtysh looks for PAM
		"etc/frr/bgpd.conf":  s.config,
		"etc/frr/zebra.conf": "", "etc/frr/mgmtd.conf": "",
	} {
		if err := os.WriteFile(s.path(name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("furnish root of FRR: %w", err)
		}
	}
	return errors.Join(
		os.Symlink("usr/lib", s.path("lib")), os.Symlink("usr/lib64", s.path("lib64")),
		bind(filepath.Join(s.shop.Packages, "usr"), s.path("usr")), bind("/proc", s.path("proc")),
	)
}

func bind(from, to string) error {
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount %s: %w", to, err)
	}
	return nil
}

// Start starts the programs, each when the one before is ready: bgpd that does not find zebra tries again after ten
// seconds only.
func (s *Speaker) Start(ctx context.Context) error {
	for _, p := range s.programs {
		socket := s.path("run/frr/" + p.socket)
		if err := os.RemoveAll(socket); err != nil { // of one that was killed
			return fmt.Errorf("clean up after %s: %w", p.name, err)
		}
		_, err := s.shop.Processes.Start(proc.Spec{
			Name: s.process(p),
			Argv: append([]string{"/usr/lib/frr/" + p.name, "--log", "stdout", "--vty_port", "0"}, p.args...),
			NS:   netns.Named(s.name),
			Dir:  "/",
			Root: s.root(),
		})
		if err != nil {
			return err
		}
		err = until(ctx, func() bool {
			_, err := os.Stat(socket)
			return err == nil
		})
		if err != nil {
			return fmt.Errorf("wait for %s: %w\n%s", s.process(p), err, s.shop.Processes.Tail(s.process(p)))
		}
	}
	return nil
}

// WaitCalled waits until every node has its sessions with this router.
func (s *Speaker) WaitCalled(ctx context.Context) error {
	if s.calls == 0 {
		return nil
	}
	var last error // a socket is there a moment before somebody listens
	err := until(ctx, func() bool {
		var out string
		if out, last = Ask(ctx, s.root(), "show bgp summary json"); last != nil {
			return false
		}
		up := 0
		up, last = established([]byte(out))
		return up == s.calls
	})
	if err != nil {
		return fmt.Errorf("wait for %d BGP sessions of %s: %w", s.calls, s.name, errors.Join(err, last))
	}
	return nil
}

// established counts sessions in what `show bgp summary json` says.
func established(summary []byte) (n int, err error) {
	var families map[string]json.RawMessage
	if err := json.Unmarshal(summary, &families); err != nil {
		return 0, fmt.Errorf("read FRR's summary: %w", err)
	}
	for _, raw := range families {
		var family struct {
			Peers map[string]struct{ State string }
		}
		if json.Unmarshal(raw, &family) != nil {
			continue // a remark among the families
		}
		for _, p := range family.Peers {
			if p.State == "Established" {
				n++
			}
		}
	}
	return n, nil
}

// Kill ends the programs as a power cut would.
func (s *Speaker) Kill() error {
	var errs []error
	for _, p := range s.programs {
		if running, err := s.shop.Processes.Get(s.process(p)); err == nil {
			errs = append(errs, running.Kill())
		}
	}
	return errors.Join(errs...)
}

func (s *Speaker) root() string             { return Root(s.shop.Data, s.name) }
func (s *Speaker) path(name string) string  { return filepath.Join(s.root(), name) }
func (s *Speaker) process(p program) string { return s.name + "-" + p.name }

// Ask gives commands to the FRR with that root directory, one after the other until one fails, and returns what it
// says.
func Ask(ctx context.Context, root string, commands ...string) (string, error) {
	args := []string{}
	for _, c := range commands {
		args = append(args, "-c", c)
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "/usr/bin/vtysh", args...) //nolint:gosec // a constant program in a lab
	cmd.SysProcAttr, cmd.Dir = &syscall.SysProcAttr{Chroot: root}, "/"
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("vtysh: %w: %s", err, bytes.TrimSpace(out.Bytes()))
	}
	return out.String(), nil
}

// until asks again and again: FRR has no events for those outside it.
func until(ctx context.Context, holds func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if holds() {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
