package real

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/kernelnode"
	"github.com/sallyport/sallyport/internal/lab/kubelet"
	vm "github.com/sallyport/sallyport/internal/lab/machine"
	"github.com/sallyport/sallyport/internal/lab/program"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// kernelLab is a lab one node of which is a virtual machine with the kernel's datapath.
type kernelLab struct {
	*harness.Cluster
	kit     vm.Kit
	guest   string // the program of a virtual machine
	vm      *kernelnode.Node
	item    *show.Item
	project string // namespace of a project whose default network is cloud; on public it has a return port
	bare    string // namespace of a project whose default network is public, without a return port
}

const (
	labNode     = "node1" // has the userspace datapath
	machineNode = "fake1" // is the virtual machine
)

// startKernelLab starts a lab and the virtual machine, which is the only node that may hold gateways.
func startKernelLab(t *testing.T, kit vm.Kit, guest, kernel string) *kernelLab {
	t.Helper()
	b := harness.LoadTopology(t, "kernel.yaml")
	c := harness.StartLab(t, "kernel-"+strings.ReplaceAll(kernel, ".", ""), b)
	l := &kernelLab{Cluster: c, kit: kit, guest: guest}
	l.vm = l.startMachine(t, b.FakeNodeList()[0], kernel)
	for _, n := range b.Networks {
		l.SetLabel(t, "Node "+machineNode, n.Name+".provider-network.kubernetes.io/ready", "true")
	}
	l.SetLabel(t, "Node "+machineNode, kubeovn.GatewayLabel, "true")
	c.InstallSallyport(t)
	c.NewController(t, t.TempDir()).StartForTest(t)
	return l
}

// startMachine boots a virtual machine as one of the lab's nodes.
func (l *kernelLab) startMachine(t *testing.T, node blueprint.Node, kernel string) *kernelnode.Node {
	t.Helper()
	begun := time.Now()
	machine, err := kernelnode.Start(harness.Within(t, 4*time.Minute), l.kit, kernelnode.Config{
		Lab: l.Lab, Blueprint: l.Blueprint, Node: node, Kernel: kernel, Guest: l.guest, Dir: t.TempDir(), OVN: l.Parts,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("kernel %s: the switch of the machine runs after %s", kernel, time.Since(begun).Round(100*time.Millisecond))
	return machine
}

// runPodInMachine creates a pod on the node of a virtual machine and starts it there.
func (l *kernelLab) runPodInMachine(t *testing.T, machine *kernelnode.Node, p harness.Pod) {
	t.Helper()
	p.Node = machine.Name
	l.RunPod(t, p)
	ctx := harness.Within(t, harness.Patience)
	pod, err := l.Client.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	interfaces, err := kubelet.Attachments(pod)
	if err == nil {
		err = machine.StartPod(ctx, kernelnode.Pod{Name: p.Name, Interfaces: interfaces})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// sendFrom sends a request from a pod, in the machine or on the lab's node.
func (l *kernelLab) sendFrom(t *testing.T, pod, node, target string) (program.Answer, error) {
	t.Helper()
	if node != machineNode {
		return l.SendRequest(pod+"."+l.project, target)
	}
	ctx, cancel := context.WithTimeout(t.Context(), harness.AnswerTimeout)
	defer cancel()
	return l.vm.Ask(ctx, pod, target)
}

// vsctl runs ovs-vsctl in the virtual machine.
func (l *kernelLab) vsctl(t *testing.T, args ...string) string {
	t.Helper()
	return l.inMachine(t, append([]string{"ovs-vsctl", "--db=unix:" + l.vm.File("db.sock")}, args...)...)
}

// appctl talks to vswitchd in the virtual machine.
func (l *kernelLab) appctl(t *testing.T, args ...string) string {
	t.Helper()
	return l.inMachine(t, append([]string{"ovs-appctl", "-t", l.vm.File("ovs-vswitchd.ctl")}, args...)...)
}

// inMachine runs a program of Open vSwitch in the virtual machine.
func (l *kernelLab) inMachine(t *testing.T, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	out, err := l.vm.Run(ctx, argv...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
