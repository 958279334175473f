package lab

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sallyport/sallyport/internal/lab/daemon"
	"github.com/sallyport/sallyport/internal/lab/netns"
)

// ownNetwork names the lab's own namespace where a host is asked for.
const ownNetwork = "lab"

// Find is the network namespace of a pod of a Kubernetes namespace, or else of a node or host of that name.
func (l *Lab) Find(namespace, where string) (netns.NS, error) {
	if where == ownNetwork {
		return l.OwnNS(), nil
	}
	for _, name := range []string{where + "." + namespace, where} {
		if ns := l.NS(name); ns.Exists() {
			return ns, nil
		}
	}
	known, err := l.Namespaces()
	if err != nil {
		return netns.NS{}, err
	}
	return netns.NS{}, fmt.Errorf("lab %s has no pod %q in namespace %q and no host of that name; there are: %s",
		l.Name, where, namespace, strings.Join(known, " "))
}

// Command is a command of this machine, ready to run in the network of a pod or host. It sees the machine's files as
// the lab does, and it ends with the lab.
func (l *Lab) Command(namespace, where string, argv ...string) (*exec.Cmd, error) {
	ns, err := l.Find(namespace, where)
	if err != nil {
		return nil, err
	}
	target := fmt.Sprint(l.PID)
	args := append([]string{
		"--target", target, "--mount", "--pid", "--uts", "--ipc", "--net=" + ns.Path(), "--wd=.",
		"--",
	}, argv...)
	return exec.Command("nsenter", args...), nil //nolint:gosec // the lab's owner runs what he likes in it
}

// Log is the path of a log, from outside.
func (l *Lab) Log(name string) string {
	return l.Inside(filepath.Join(l.Dir, daemon.Logs, name+".log"))
}

// Database is an OVN database ("nb" or "sb") in the form that ovn-nbctl and ovn-sbctl take, from outside.
func (l *Lab) Database(name string, servers int) string {
	var out []string
	for i := 1; i <= servers; i++ {
		out = append(out, "unix:"+l.Inside(filepath.Join(l.Dir, daemon.OVN, fmt.Sprintf("%s%d.sock", name, i))))
	}
	return strings.Join(out, ",")
}
