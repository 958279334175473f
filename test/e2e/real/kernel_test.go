package real

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	vm "github.com/sallyport/sallyport/internal/lab/machine"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// TestReal4KernelDatapath shows every kind of address on a node whose Open vSwitch uses the kernel's datapath, geneve
// and connection tracking, on the kernels that nodes have. The other node of the lab has the userspace datapath.
func TestReal4KernelDatapath(t *testing.T) {
	if !show.IsFullSize() {
		t.Skip("a virtual machine for each kernel, minutes of an emulated processor: at full size only")
	}
	harness.RunAlone(t)
	guest := harness.BuildStaticBinary(t, "../../../internal/lab/kernelnode/guest", "build", "-ldflags=-s -w")
	kit := harness.PrepareVMKit(t)
	for _, kernel := range vm.Kernels() {
		t.Run(kernel, func(t *testing.T) {
			l := startKernelLab(t, kit, guest, kernel)
			l.item = realItems.Item(t, 4)
			l.createProjects(t)
			for _, part := range []struct {
				name string
				show func(*testing.T)
			}{
				{"datapath", l.checkDatapath},
				{"floating IP", l.showFloatingIPs},
				{"load balancer", l.showLoadBalancers},
				{"EgressIP", l.showEgressIP},
				{"gateway on the other node", l.showOtherGateway},
				{"cost of a return port", l.measureReturnPort},
				{"two machines", l.showTwoMachines},
				{"tc", l.showOffload},
				{"power cut", l.showPowerCut},
			} {
				t.Run(part.name, part.show)
			}
		})
	}
}

// createProjects creates two projects with pods in the machine and on the lab's node.
func (l *kernelLab) createProjects(t *testing.T) {
	t.Helper()
	l.CreateOrganization(t, "kernel")
	l.project = l.CreateProject(t, "kernel", "web", "10.91.0.0/24", "cloud")
	l.bare = l.CreateProject(t, "kernel", "bare", "10.91.0.0/24", "public")
	backend, sender := map[string]string{"role": "backend"}, map[string]string{"sends": "true"}
	l.runPodInMachine(t, l.vm, harness.Pod{Namespace: l.project, Name: "inside", Labels: backend})
	l.RunPod(t, harness.Pod{Namespace: l.project, Name: "outside", Node: labNode, Labels: backend})
	l.runPodInMachine(t, l.vm, harness.Pod{Namespace: l.project, Name: "sender-in", Labels: sender})
	l.RunPod(t, harness.Pod{Namespace: l.project, Name: "sender-out", Node: labNode, Labels: sender})
	l.runPodInMachine(t, l.vm, harness.Pod{Namespace: l.bare, Name: "bare"})
}

// checkDatapath fails unless the switch of the machine forwards in the machine's kernel, of the version that was asked
// for: the datapath is that of the kernel's module, and the tunnels are devices of the kernel.
func (l *kernelLab) checkDatapath(t *testing.T) {
	version := l.inMachine(t, "cat", "/proc/sys/kernel/osrelease")
	if !strings.HasPrefix(version, l.vm.Kernel+".") {
		t.Errorf("the kernel is %q, wanted %s", version, l.vm.Kernel)
	}
	shown := l.appctl(t, "dpctl/show")
	for _, want := range []string{"system@ovs-system:", "genev_sys_6081 (geneve", "ext-public\n", "ext-cloud\n"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the datapath has no %q:\n%s", want, shown)
		}
	}
	if strings.Contains(shown, "netdev@") {
		t.Errorf("there is a datapath in user space:\n%s", shown)
	}
	if modules := l.inMachine(t, "cat", "/proc/modules"); !strings.Contains(modules, "\nopenvswitch ") &&
		!strings.HasPrefix(modules, "openvswitch ") {
		t.Errorf("the module is not loaded:\n%s", modules)
	}
	l.item.AddFigure("kernel %s: datapath system@ovs-system, module openvswitch, geneve device genev_sys_6081",
		strings.TrimSpace(version))
}

// kernelPackets returns how many packets the kernel has forwarded by the flows that it has, without those that it sent
// to vswitchd.
func (l *kernelLab) kernelPackets(t *testing.T) int {
	t.Helper()
	for line := range strings.Lines(l.inMachine(t, "ovs-dpctl", "show")) {
		if _, rest, found := strings.Cut(line, "lookups: hit:"); found {
			hits, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return hits
		}
	}
	t.Fatal("the datapath does not say how many packets it has forwarded")
	return 0
}

// viaKernel fails the test unless the kernel forwards packets while something is shown, and returns how many.
func (l *kernelLab) viaKernel(t *testing.T, show func()) int {
	t.Helper()
	l.ResetDrops(t)
	before := l.kernelPackets(t)
	show()
	l.ExpectNoDrops(t)
	forwarded := l.kernelPackets(t) - before
	if forwarded < 1 {
		t.Errorf("the kernel has forwarded %d packets", forwarded)
	}
	return forwarded
}

// showFloatingIPs reaches a pod in the machine and a pod behind a tunnel, on the default network and on a secondary one,
// whose replies need a return port.
func (l *kernelLab) showFloatingIPs(t *testing.T) {
	for _, pod := range []string{"inside", "outside"} {
		for _, kind := range []string{"cloud", "public"} {
			network := l.Network(t, kind)
			address := l.createFIP(t, l.project, pod, kind)
			packets := l.viaKernel(t, func() {
				l.ExpectAnswers(t, network.Client, address, pod, network.ClientAddress)
				l.Download(t, network.Client, address, 2)
			})
			l.item.AddFigure("kernel %s: floating IP on %s, pod %s the machine: %d protocols and 2 MiB, %d packets forwarded by the kernel, none dropped outside",
				l.vm.Kernel, kind, pod, len(harness.Protocols), packets)
		}
	}
}

// showLoadBalancers reaches the backends on both nodes through Services on both networks.
func (l *kernelLab) showLoadBalancers(t *testing.T) {
	backends := &harness.BackendProject{Cluster: l.Cluster, Namespace: l.project}
	for _, kind := range []string{"cloud", "public"} {
		network := l.Network(t, kind)
		address := backends.CreateService(t, harness.ServiceSpec{
			Name: "lb-" + kind, Annotations: "network.kube-dc.com/external-network-type: " + kind,
		})
		requests := 0
		packets := l.viaKernel(t, func() {
			requests = backends.ExpectBackends(t, network.Client, "http://"+address, network.ClientAddress, "inside", "outside")
		})
		l.item.AddFigure("kernel %s: load balancer on %s: backends in the machine and behind a tunnel within %d requests, %d packets forwarded by the kernel",
			l.vm.Kernel, kind, requests, packets)
	}
}

// showEgressIP lets pods on both nodes leave with an egress address that the machine holds, on the network that is not
// the project's.
func (l *kernelLab) showEgressIP(t *testing.T) {
	const address = "198.51.100.200"
	l.SetEgressAssignable(t, machineNode, true)
	pods := map[string]string{"sender-in": machineNode, "sender-out": labNode}
	for name, node := range pods {
		l.expectSource(t, name, node, l.ReadField(t, "Project", "kernel", "web", "status", "externalIP")) // the control
	}
	l.Apply(t, fmt.Sprintf("{apiVersion: k8s.ovn.org/v1, kind: EgressIP, metadata: {name: kernel}, spec: {egressIPs: [%s], "+
		"namespaceSelector: {matchLabels: {kube-dc.com/project: web}}, podSelector: {matchLabels: {sends: \"true\"}}}}", address))
	l.WaitProgrammedOnNodes(t, "EgressIP", "", "kernel")
	if items := l.ReadField(t, "EgressIP", "", "kernel", "status", "items"); !strings.Contains(items, machineNode) {
		t.Errorf("the address is on %s, wanted it on %s", items, machineNode)
	}
	for name, node := range pods {
		packets := l.viaKernel(t, func() { l.expectSource(t, name, node, address) })
		l.item.AddFigure("kernel %s: EgressIP held by the machine, pod on %s: %d protocols, %d packets forwarded by the kernel",
			l.vm.Kernel, node, len(harness.Protocols), packets)
	}
}

// expectSource waits until a pod's packets have a source address, and checks it with each protocol.
func (l *kernelLab) expectSource(t *testing.T, pod, node, address string) {
	t.Helper()
	for _, protocol := range harness.Protocols {
		saw := ""
		harness.Eventually(t, pod+" leaves as "+address+" by "+protocol, func() bool {
			a, err := l.sendFrom(t, pod, node, protocol+"://"+harness.InternetAddress+":80")
			if err != nil {
				saw = err.Error()
				return false
			}
			saw = a.Saw.Addr().String()
			return saw == address
		})
		if saw != address {
			t.Errorf("%s by %s: the server saw %s, wanted %s", pod, protocol, saw, address)
		}
	}
}

// showOtherGateway lets the lab's other node hold the gateways of a new project: a request comes to the machine through
// a tunnel, and the machine's kernel sends the reply back by the network that it came from.
func (l *kernelLab) showOtherGateway(t *testing.T) {
	l.SetLabel(t, "Node "+labNode, kubeovn.GatewayLabel, "true")
	l.SetLabel(t, "Node "+machineNode, kubeovn.GatewayLabel, "-")
	defer func() {
		l.SetLabel(t, "Node "+machineNode, kubeovn.GatewayLabel, "true")
		l.SetLabel(t, "Node "+labNode, kubeovn.GatewayLabel, "-")
	}()
	ns := l.CreateProject(t, "kernel", "far", "10.92.0.0/24", "cloud")
	l.runPodInMachine(t, l.vm, harness.Pod{Namespace: ns, Name: "far"})
	for _, kind := range []string{"cloud", "public"} {
		network := l.Network(t, kind)
		address := l.createFIP(t, ns, "far", kind)
		packets := l.viaKernel(t, func() {
			l.ExpectAnswers(t, network.Client, address, "far", network.ClientAddress)
		})
		l.item.AddFigure("kernel %s: floating IP on %s, gateway on a node with the userspace datapath: %d packets forwarded by the kernel",
			l.vm.Kernel, kind, packets)
	}
}

// showTwoMachines reaches a pod in a second machine, which has the other kernel: between gateway and pod there are only
// kernels.
func (l *kernelLab) showTwoMachines(t *testing.T) {
	kernels := vm.Kernels()
	other := kernels[0]
	if other == l.vm.Kernel {
		other = kernels[1]
	}
	second := l.startMachine(t, l.Blueprint.FakeNodeList()[1], other)
	l.runPodInMachine(t, second, harness.Pod{Namespace: l.project, Name: "second"})
	for _, kind := range []string{"cloud", "public"} {
		network := l.Network(t, kind)
		address := l.createFIP(t, l.project, "second", kind)
		// Two emulated machines take seconds for their first flows, and the client's retries are out of state for a router.
		l.ExpectAnswers(t, network.Client, address, "second", network.ClientAddress)
		packets := l.viaKernel(t, func() {
			l.ExpectAnswers(t, network.Client, address, "second", network.ClientAddress)
			l.Download(t, network.Client, address, 1)
		})
		l.item.AddFigure("gateway on kernel %s, pod on kernel %s: floating IP on %s: %d protocols and 1 MiB, %d packets forwarded by the gateway's kernel",
			l.vm.Kernel, other, kind, len(harness.Protocols), packets)
	}
	// A chassis that is gone and still in the database would keep others waiting for it.
	if err := second.Stop(harness.Within(t, harness.Patience)); err != nil {
		t.Fatal(err)
	}
	l.RunSbctl(t, "chassis-del", second.Name)
}

// showPowerCut is the control of all others: without the machine nothing answers.
func (l *kernelLab) showPowerCut(t *testing.T) {
	network := l.Network(t, "public")
	address := l.createFIP(t, l.project, "outside", "public")
	l.ExpectAnswer(t, network.Client, "http://"+address, "outside", network.ClientAddress)
	if err := l.vm.Stop(harness.Within(t, harness.Patience)); err != nil {
		t.Fatal(err)
	}
	l.ExpectSilence(t, network.Client, "http://"+address)
}

// createFIP returns the address of a floating IP for a pod. It remains until the lab ends.
func (l *kernelLab) createFIP(t *testing.T, ns, pod, kind string) string {
	t.Helper()
	name := "fip-" + pod + "-" + kind
	l.ApplyWithoutCleanup(t, fmt.Sprintf("{apiVersion: kube-dc.com/v1, kind: FIp, metadata: {name: %s, namespace: %s}, "+
		"spec: {podTarget: {podName: %s}, externalNetworkType: %s}}", name, ns, pod, kind))
	l.WaitProgrammedOnNodes(t, "FIp", ns, name)
	return l.ReadField(t, "FIp", ns, name, "status", "externalIP")
}
