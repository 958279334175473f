package realnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/lab/netns"
)

// InitName is what the first process of a node is called: the program that is started by this name calls RunInit.
const InitName = "sallyport-lab-node"

// inside is what the first process of a node has to know.
type inside struct {
	Name     string      `json:"name"`
	Lab      string      `json:"lab"`      // directory of the lab, which the node sees at the same path
	Disk     string      `json:"disk"`     // what outlives a power cut
	Switch   string      `json:"switch"`   // directory of the node's Open vSwitch and ovn-controller
	Cgroups  string      `json:"cgroups"`  // where the lab has mounted them, which is no business of the node
	Groups   []Hierarchy `json:"groups"`   // mounted anew: the node sees its own only
	Finished string      `json:"finished"` // file that says that the node is furnished
}

// RunInit is the first process of a node, in new namespaces and in the node's control groups. It mounts what is the
// node's own, and then only reaps: with it, the kernel ends everything on the node.
func RunInit() error {
	var n inside
	if len(os.Args) != 2 {
		return errors.New("the first process of a node is started by a lab")
	}
	if err := json.Unmarshal([]byte(os.Args[1]), &n); err != nil {
		return fmt.Errorf("read what the node is: %w", err)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	if err := n.furnish(); err != nil {
		return err
	}
	if err := os.WriteFile(n.Finished, nil, 0o644); err != nil {
		return fmt.Errorf("tell the lab: %w", err)
	}
	reap(ended)
	return nil
}

// reap collects every child that ends, for ever.
func reap(ended <-chan os.Signal) {
	for range ended {
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if pid <= 0 || err != nil {
				break
			}
		}
	}
}

// furnish mounts what a machine of its own would have. /etc is the machine's with the node's changes on top.
func (n inside) furnish() error {
	bind := func(from, to string) func() error {
		return func() error {
			if err := errors.Join(os.MkdirAll(from, 0o755), os.MkdirAll(to, 0o755)); err != nil {
				return err
			}
			return unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, "")
		}
	}
	run := filepath.Join(n.Disk, "run")
	steps := []struct {
		what string
		do   func() error
	}{
		{"make mounts private", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
		{"forget other networks", forgetNetworks},
		{"name the host", func() error { return unix.Sethostname([]byte(n.Name)) }},
		{"mount /proc", func() error { return unix.Mount("proc", "/proc", "proc", 0, "") }},
		{"forward packets of pods", func() error {
			return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644)
		}},
		{"mount /sys", n.mountSys},
		{"make /run", func() error { return errors.Join(os.RemoveAll(run), os.MkdirAll(run, 0o755)) }},
		{"mount new /run", func() error { return unix.Mount("tmpfs", run, "tmpfs", 0, "mode=755") }},
		{"keep the lab's directory", bind(n.Lab, filepath.Join(run, n.Lab[len("/run/"):]))},
		{"keep the switch's directory", bind(n.Switch, filepath.Join(run, "openvswitch"))},
		{"keep ovn-controller's directory", bind(n.Switch, filepath.Join(run, "ovn"))},
		{"mount /run", func() error { return unix.Mount(run, "/run", "", unix.MS_BIND|unix.MS_REC, "") }},
		{"mount /var/lib", bind(filepath.Join(n.Disk, "var/lib"), "/var/lib")},
		{"mount /var/log", bind(filepath.Join(n.Disk, "var/log"), "/var/log")},
		{"mount /etc", n.mountEtc},
		{"hide settings of the machine", n.hideSettings},
		{"leave the machine's control groups", func() error { return n.leaveCgroups() }},
		{"share mounts with pods", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "") }},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return nil
}

// forgetNetworks drops the lab's network namespaces from the node's mounts: they would last as long as the node does.
func forgetNetworks() error {
	entries, err := os.ReadDir(netns.Dir)
	for _, e := range entries {
		if err := unix.Unmount(filepath.Join(netns.Dir, e.Name()), unix.MNT_DETACH); err != nil &&
			!errors.Is(err, unix.EINVAL) {
			return err
		}
	}
	return err
}

// mountSys mounts the /sys of the node's network, with its control groups.
func (n inside) mountSys() error {
	if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return err
	}
	const groups = "/sys/fs/cgroup"
	if err := unix.Mount("tmpfs", groups, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	for _, h := range n.Groups {
		if err := h.mount(groups); err != nil {
			return err
		}
	}
	return nil
}

func (n inside) mountEtc() error {
	upper, work := filepath.Join(n.Disk, "etc"), filepath.Join(n.Disk, "etc.work")
	if err := errors.Join(os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o755)); err != nil {
		return err
	}
	return unix.Mount("overlay", "/etc", "overlay", 0, "lowerdir=/etc,upperdir="+upper+",workdir="+work)
}

// settings of the kernel that are the machine's, with the values that a kubelet wants. It would write them: it finds
// files of the node instead, which say so already.
var settings = map[string]string{
	"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
	"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
}

func (n inside) hideSettings() error {
	dir := filepath.Join(n.Disk, "settings")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	number := 0
	for name, value := range settings {
		setting := filepath.Join("/proc/sys", name)
		if _, err := os.Stat(setting); err != nil {
			continue // not in this kernel
		}
		number++
		file := filepath.Join(dir, strconv.Itoa(number))
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := unix.Mount(file, setting, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// leaveCgroups hides the hierarchies through which the lab sees those of the whole machine.
func (n inside) leaveCgroups() error {
	for _, h := range n.Groups {
		at := filepath.Join(n.Cgroups, h.Name())
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("%s: %w", at, err)
		}
	}
	return nil
}
