// Package realnode is a node of a lab as a machine of its own would be: containerd and runc, kubelet, kube-proxy and
// Kube-OVN's daemon in namespaces and control groups of the node.
package realnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/internal/lab/parts"
	"github.com/sallyport/sallyport/internal/lab/proc"
)

// Shop is what all real nodes of a lab have in common.
type Shop struct {
	Parts     parts.Set
	Processes *proc.Table
	Lab       string // directory of the lab
	Data      string // the lab's file system
	Cgroups   Cgroups
	Blueprint blueprint.Blueprint
	CA        string        // file: the lab's certificate authority
	Lease     time.Duration // of a node's heartbeat
	Images    []string      // files: container images that each node has from the beginning
}

// Node is one real node.
type Node struct {
	Shop
	blueprint.Node
	NS netns.NS
	// Kubeconfigs of the kubelet, of kube-proxy and of Kube-OVN's daemon.
	KubeletConfig, ProxyConfig, NetworkConfig string

	first *proc.Process   // process 1 of the node
	later []*proc.Process // started since
}

// namespaces of a node, besides that of its network and that of its control groups.
const namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS

// join moves a process into control groups before it becomes another program.
const join = `for group in $NODE_CGROUPS; do echo $$ >"$group/cgroup.procs" || exit 1; done; exec "$@"`

func (n *Node) path(name string) string { return filepath.Join(n.Data, "realnodes", n.Name, name) }

// switchPath is a file of the node's Open vSwitch.
func (n *Node) switchPath(name string) string { return filepath.Join(n.Data, n.Name, name) }

func (n *Node) disk(name string) string { return filepath.Join(n.path("disk"), name) }

func (n *Node) groups() string { return "NODE_CGROUPS=" + strings.Join(n.Cgroups.of(n.Name), " ") }

// Boot makes the node's control groups and namespaces, around the network namespace that it has already.
func (n *Node) Boot(ctx context.Context) error {
	program, err := n.initProgram()
	if err != nil {
		return err
	}
	if err := n.Cgroups.create(n.Name); err != nil {
		return err
	}
	finished := n.path("booted")
	if err := os.Remove(finished); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	what, err := json.Marshal(inside{
		Name: n.Name, Lab: n.Lab, Disk: n.path("disk"), Switch: n.switchPath(""), Cgroups: n.Cgroups.Dir,
		Groups: n.Cgroups.Hierarchies, Finished: finished,
	})
	if err != nil {
		return err
	}
	n.first, err = n.Processes.Start(proc.Spec{
		Name: n.Name + "-init",
		Argv: []string{"sh", "-c", join, "sh", "unshare", "--cgroup", "--", program, string(what)},
		Env:  []string{n.groups()},
		NS:   n.NS, Namespaces: namespaces,
	})
	if err != nil {
		return err
	}
	return n.await(ctx, "boot", n.first, func() bool {
		_, err := os.Stat(finished)
		return err == nil
	})
}

// initProgram is this program by the name that makes it the first process of a node.
func (n *Node) initProgram() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	link := n.path(InitName)
	if err := os.MkdirAll(n.path("disk"), 0o755); err != nil {
		return "", err
	}
	if err := os.Symlink(self, link); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return link, nil
}

const poll = 20 * time.Millisecond

// await waits until something is true, or the process that should make it true has ended.
func (n *Node) await(ctx context.Context, what string, p *proc.Process, done func() bool) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-p.Done():
			return fmt.Errorf("%s of %s: %s ended\n%s", what, n.Name, p.Spec.Name, n.Processes.Tail(p.Spec.Name))
		case <-ctx.Done():
			return fmt.Errorf("%s of %s: %w\n%s", what, n.Name, context.Cause(ctx), n.Processes.Tail(p.Spec.Name))
		}
	}
	return nil
}

// Enter is a command as it is run on the node: in its control groups and all its namespaces but that of the network,
// in which the lab starts it.
func (n *Node) Enter(argv ...string) []string {
	return append([]string{
		"sh", "-c", join, "sh", "nsenter", "--target", strconv.Itoa(n.first.PID()), "--mount", "--pid", "--ipc",
		"--uts", "--cgroup", "--",
	}, argv...)
}

// Wrap turns a process of the lab into one of the node.
func (n *Node) Wrap(s proc.Spec) proc.Spec {
	s.Argv, s.Env, s.NS = n.Enter(s.Argv...), append(s.Env, n.groups()), n.NS
	return s
}

// search is the PATH of the node's programs.
func (n *Node) search() string {
	dirs := []string{n.Parts.Bin()}
	for _, name := range parts.RealNode() {
		dirs = append(dirs, n.Parts.Dir(name))
	}
	return strings.Join(append(dirs, os.Getenv("PATH")), ":")
}

func (n *Node) start(name string, argv []string, env ...string) (*proc.Process, error) {
	p, err := n.Processes.Start(n.Wrap(proc.Spec{
		Name: n.Name + "-" + name, Argv: argv,
		Env: append(env, "PATH="+n.search(), "XTABLES_LIBDIR="+n.Parts.XtablesLibraries()),
	}))
	if err == nil {
		n.later = append(n.later, p)
	}
	return p, err
}

// write makes a file below the node's /etc, as the node sees it: those who watch a directory notice nothing else.
func (n *Node) write(name, text string) error {
	path := filepath.Join("/proc", strconv.Itoa(n.first.PID()), "root/etc", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644) //nolint:gosec // a configuration, without secrets
}

// StartRuntime starts containerd and loads the images.
func (n *Node) StartRuntime(ctx context.Context) error {
	plugins, runc := n.Parts.Dir(parts.KubeOVNNode), filepath.Join(n.Parts.Dir(parts.Runc), "runc")
	if err := n.write("containerd/config.toml", containerdConfig(runc, plugins)); err != nil {
		return err
	}
	p, err := n.start("containerd", []string{"containerd", "--config", "/etc/containerd/config.toml"})
	if err != nil {
		return err
	}
	if err := n.await(ctx, "container runtime", p, func() bool { return n.ctr(ctx, "version") == nil }); err != nil {
		return err
	}
	for _, image := range n.Images {
		if err := n.ImportImage(ctx, image); err != nil {
			return err
		}
	}
	return nil
}

// ImportImage loads a container image from an archive of the machine, which the node sees at the same path unless it
// is below a directory of the node's own.
func (n *Node) ImportImage(ctx context.Context, file string) error {
	return n.ctr(ctx, "images", "import", "--local", file)
}

// ctr talks to the node's containerd.
func (n *Node) ctr(ctx context.Context, args ...string) error {
	_, err := n.output(ctx, filepath.Join(n.Parts.Dir(parts.Containerd), "ctr"), append([]string{"-n", "k8s.io"}, args...)...)
	return err
}

// output runs a program on the node to its end.
func (n *Node) output(ctx context.Context, program string, args ...string) (string, error) {
	argv := n.Enter(append([]string{program}, args...)...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // a part of the lab
	cmd.Env = append(os.Environ(), n.groups(), "PATH="+n.search())
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s on %s: %w: %s", filepath.Base(program), strings.Join(args, " "), n.Name, err, out)
	}
	return string(out), nil
}

// podNetworks is where containerd binds the network namespaces of pods.
const podNetworks = "/run/netns"

// PodNetwork is the file of a pod's network namespace, as the lab sees it; empty if the node has no such pod with a
// network of its own. Kube-OVN's plugin notes the namespace on the port that it makes.
func (n *Node) PodNetwork(ctx context.Context, namespace, pod string) (string, error) {
	out, err := n.output(ctx, n.Parts.Program("ovs-vsctl"), "--db=unix:/run/openvswitch/db.sock", "--bare", "--columns=external_ids",
		"find", "Interface", fmt.Sprintf("external_ids:pod_name=%q", pod),
		fmt.Sprintf("external_ids:pod_namespace=%q", namespace))
	if err != nil {
		return "", err
	}
	for _, entry := range strings.Fields(out) {
		key, value, _ := strings.Cut(entry, "=")
		if key == "pod_netns" {
			return filepath.Join("/proc", strconv.Itoa(n.first.PID()), "root", podNetworks, filepath.Base(value)), nil
		}
	}
	return "", nil
}

// StartKubelet starts the kubelet and kube-proxy. The node's object may exist already.
func (n *Node) StartKubelet() error {
	err := errors.Join(
		n.write("kubernetes/kubelet.yaml", kubeletConfig(n.CA, n.Lease)),
		n.write("kubernetes/kube-proxy.yaml", proxyConfig(n.Name, n.ProxyConfig, n.Blueprint.PodRange().String())),
	)
	if err != nil {
		return err
	}
	if _, err := n.start("kubelet", []string{
		"kubelet", "--config=/etc/kubernetes/kubelet.yaml", "--kubeconfig=" + n.KubeletConfig,
		"--hostname-override=" + n.Name, "--node-ip=" + n.Management.Addr().String(), "--root-dir=/var/lib/kubelet",
	}); err != nil {
		return err
	}
	_, err = n.start("kube-proxy", []string{"kube-proxy", "--config=/etc/kubernetes/kube-proxy.yaml"})
	return err
}

// networkSocket is where the CNI plugin finds Kube-OVN's daemon.
const networkSocket = "/run/openvswitch/kube-ovn-daemon.sock"

// StartNetwork starts Kube-OVN's daemon, and configures the CNI when it answers: a node without it is not ready.
func (n *Node) StartNetwork(ctx context.Context) error {
	socket := n.switchPath(filepath.Base(networkSocket)) // the same file, as the lab sees it
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	conflist, err := os.ReadFile(n.Parts.CNIConfiguration())
	if err != nil {
		return fmt.Errorf("read Kube-OVN's CNI configuration: %w", err)
	}
	if err := errors.Join(n.write("openvswitch/system-id.conf", n.Name+"\n"),
		os.MkdirAll(n.disk("var/log/kube-ovn"), 0o755)); err != nil {
		return err
	}
	address := n.Management.Addr().String()
	external := "external"
	if network := n.Blueprint.DefaultNetwork(); network != nil {
		external = network.Name
	}
	p, err := n.start("kube-ovn-daemon", []string{
		"kube-ovn-daemon", "--kubeconfig=" + n.NetworkConfig, "--ovs-socket=/run/openvswitch/db.sock",
		"--bind-socket=" + networkSocket, "--service-cluster-ip-range=" + n.Blueprint.ServiceRanges(),
		"--iface=br-phy", "--network-type=geneve", "--encap-checksum=false", "--mtu=1400",
		"--external-gateway-switch=" + external, "--logtostderr=true",
	}, "KUBECONFIG="+n.NetworkConfig, "KUBE_NODE_NAME="+n.Name, "POD_IP="+address, "POD_IPS="+address,
		"POD_NAME=kube-ovn-cni-"+n.Name, "POD_NAMESPACE=kube-system", "ENABLE_BIND_LOCAL_IP=true")
	if err != nil {
		return err
	}
	if err := n.await(ctx, "network", p, func() bool { return answers(socket) }); err != nil {
		return err
	}
	return n.write("cni/net.d/01-kube-ovn.conflist", string(conflist))
}

func answers(socket string) bool {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

// Kill is a power cut: it ends every process of the node at once. What is on its disk stays.
func (n *Node) Kill() error {
	if n.first == nil {
		return nil
	}
	for _, p := range n.later {
		p.Expect()
	}
	err := n.first.Kill()
	for _, p := range n.later {
		<-p.Done() // what entered the node ends with what it started there
	}
	n.later = nil
	return err
}

// Memory is what the node's processes use, in bytes, and what is on its disk and in its /run, which are in memory.
func (n *Node) Memory() (processes, files int64, err error) { return n.Cgroups.memory(n.Name) }

// Address is the node's address in the cluster.
func (n *Node) Address() netip.Addr { return n.Management.Addr() }
