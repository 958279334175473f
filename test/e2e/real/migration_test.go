package real

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	vm "github.com/sallyport/sallyport/internal/lab/machine"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// maxMigrationSilence is how long a stream may be silent while a guest moves. QEMU stops it for up to 0.3 s, as KubeVirt
// has it; the emulated processor takes longer for the rest.
const maxMigrationSilence = 3 * time.Second

// TestReal6Migration moves a virtual machine between nodes by QEMU's live migration, with Kube-OVN's own options for it,
// under streams and new connections through a floating IP, a Service and an EgressIP. Objects of KubeVirt are written by the
// test, and it starts QEMU.
func TestReal6Migration(t *testing.T) {
	item := realItems.Item(t, 6)
	f := newMigrationFixture(t)
	item.AddFigure("guest: stock Debian kernel in QEMU, emulated; moved with migrate unix:, pre-copy, downtime limit 0.3 s")
	f.checkSources(t)
	nodes := []string{"node1", "node2", "node3"}
	for i := range show.ChooseSize(6, 1) {
		from, to := nodes[i%len(nodes)], nodes[(i+1)%len(nodes)]
		f.ResetDrops(t)
		load := f.startLoad(t)
		f.out.reset()
		before := f.out.seen()
		down := f.move(t, i, from, to)
		got := load.finish(t, false)
		out := f.out.seen()
		lost := out.failed - before.failed
		item.AddFigure("%s to %s: guest stopped %s ms; %s; out by the EgressIP: %d of %d new connections lost, longest silence %d ms",
			from, to, down, got, lost, out.opened-before.opened, out.longest.Milliseconds())
		// A connection that is just being opened can be lost: its SYN was answered on the other node.
		if got.ended > 0 || float64(got.lost+lost) > maxLossRate*float64(got.opened+out.opened-before.opened) ||
			out.connections != before.connections {
			t.Errorf("%s; out: %d lost, %d streams opened again", got, lost, out.connections-before.connections)
		}
		if silence := max(got.longest(), out.longest); silence > maxMigrationSilence {
			t.Errorf("silent for %v, allowed are %v", silence, maxMigrationSilence)
		}
		f.ExpectNoDrops(t)
		f.checkSources(t)
	}
}

// migrationFixture is a project with a virtual machine.
type migrationFixture struct {
	*upgradeFixture
	kit    vm.Kit
	guest  string // program
	runs   *hypervisor
	out    *receiver
	uid    string // of the VirtualMachineInstance
	public string // floating IP
	cloud  string // Service
}

const guestName = "vm"

func newMigrationFixture(t *testing.T) *migrationFixture {
	t.Helper()
	kit, guest := harness.PrepareVMKit(t), harness.BuildStaticBinary(t, "../testdata/vm", "build", "-ldflags=-s -w")
	c := harness.StartLab(t, "migration", harness.LoadTopology(t, "migration.yaml"))
	f := &migrationFixture{upgradeFixture: &upgradeFixture{Cluster: c}, kit: kit, guest: guest}
	f.InstallSallyport(t)
	if err := f.Objects.Apply(harness.Within(t, harness.Patience), harness.ReadFile(t, "../testdata/kubevirt-migration.yaml")); err != nil {
		t.Fatal(err)
	}
	f.NewController(t, t.TempDir(), "--egressip-reachability-total-timeout=0").StartForTest(t)
	harness.Eventually(t, "Kube-OVN watches migrations", func() bool {
		return f.GrepProcessLog("kube-ovn-controller", "Start kubevirt informer", 1) != ""
	})
	f.CreateOrganization(t, "guests")
	f.namespace = f.CreateProject(t, "guests", "vms", "10.92.0.0/24", "cloud")
	f.Apply(t, fmt.Sprintf("{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: %s, namespace: %s}, "+
		"spec: {runStrategy: Always, template: {metadata: {}, spec: {domain: {}}}}}", guestName, f.namespace))
	f.applyInstance(t, `{phase: Running, nodeName: node1}`)
	f.uid = f.ReadField(t, "VirtualMachineInstance", f.namespace, guestName, "metadata", "uid")
	address := f.runLauncher(t, "launcher-0", "node1", "")
	f.applyInstance(t, fmt.Sprintf(`{phase: Running, nodeName: node1, interfaces: [{name: default, interfaceName: eth0, ipAddress: %q, ipAddresses: [%[1]q]}]}`, address))
	f.createEgressIP(t)
	f.out = f.startReceiver(t)
	f.runs = f.startHypervisor(t, "launcher-0", false)
	f.public = f.CreateFIP(t, f.namespace, "public", "{externalNetworkType: public, vmTarget: {vmName: vm}}")
	f.Apply(t, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: vm, namespace: %s}, spec: {type: LoadBalancer,
  selector: {app: vm}, ports: [{port: 80}]}}`, f.namespace))
	f.WaitForObject(t, "Service", f.namespace, "vm", func(o *unstructured.Unstructured) bool {
		f.cloud = harness.IngressIP(o)
		return manifest.True("Programmed")(o) && f.cloud != ""
	})
	harness.Eventually(t, "the guest sends", f.out.hasLines)
	for _, where := range []string{"internet", "client-ext-public"} {
		f.paths = append(f.paths, upgradePath{floatingIP, where, f.public})
	}
	for _, where := range []string{"internet", "client-ext-cloud"} {
		f.paths = append(f.paths, upgradePath{loadBalancer, where, f.cloud})
	}
	return f
}

// createEgressIP comes before the guest: a connection that is open keeps no source address when it gets another one.
func (f *migrationFixture) createEgressIP(t *testing.T) {
	t.Helper()
	f.SetLabel(t, "Node node3", "k8s.ovn.org/egress-assignable", "")
	f.Apply(t, fmt.Sprintf(`{apiVersion: k8s.ovn.org/v1, kind: EgressIP, metadata: {name: guests}, spec: {egressIPs: [%s],
  namespaceSelector: {matchLabels: {kube-dc.com/project: vms}}, podSelector: {matchLabels: {app: vm}}}}`, egressAddress))
	f.WaitProgrammedOnNodes(t, "EgressIP", "", "guests")
}

func (f *migrationFixture) applyInstance(t *testing.T, status string) {
	t.Helper()
	f.ApplyWithoutCleanup(t, fmt.Sprintf(`{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance,
  metadata: {name: %s, namespace: %s}, status: %s}`, guestName, f.namespace, status))
}

// checkSources expects the guest to see clients, and hosts outside to see the EgressIP.
func (f *migrationFixture) checkSources(t *testing.T) {
	t.Helper()
	f.SyncFlows(t)
	f.ExpectAnswer(t, "client-ext-public", "http://"+f.public, guestName, f.Network(t, "public").ClientAddress)
	f.ExpectAnswer(t, "internet", "http://"+f.cloud, guestName, harness.InternetAddress)
	if from := f.out.seen().from; from.String() != egressAddress {
		t.Errorf("the guest's connection came from %s, wanted %s", from, egressAddress)
	}
}

// runLauncher runs a pod as KubeVirt's virt-launcher, which has the port of the virtual machine, and returns its address.
func (f *migrationFixture) runLauncher(t *testing.T, name, node, migration string) string {
	t.Helper()
	f.createLauncher(t, name, node, migration)
	return f.waitLauncher(t, name)
}

func (f *migrationFixture) createLauncher(t *testing.T, name, node, migration string) {
	t.Helper()
	labels := "app: vm, kubevirt.io: virt-launcher, vm.kubevirt.io/name: vm"
	if migration != "" {
		labels += ", kubevirt.io/migrationJobUID: " + migration
	}
	f.ApplyWithoutCleanup(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata:
  name: %s
  namespace: %s
  labels: {%s}
  annotations: {kubevirt.io/domain: vm}
  ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, name: vm, uid: %s, controller: true}]
spec: {nodeName: %s, terminationGracePeriodSeconds: 1, containers: [{name: compute, image: lab/idle}]}`, name, f.namespace, labels, f.uid, node))
}

func (f *migrationFixture) waitLauncher(t *testing.T, name string) string {
	t.Helper()
	f.WaitForObject(t, "Pod", f.namespace, name, manifest.True("Ready"))
	return f.ReadField(t, "Pod", f.namespace, name, "status", "podIP")
}

// move is a live migration as KubeVirt does it; it returns for how many milliseconds QEMU says that the guest was stopped.
func (f *migrationFixture) move(t *testing.T, n int, from, to string) string {
	t.Helper()
	migration, target := fmt.Sprintf("move-%d", n), fmt.Sprintf("launcher-%d", n+1)
	f.applyMigration(t, migration, "{}")
	uid := f.ReadField(t, "VirtualMachineInstanceMigration", f.namespace, migration, "metadata", "uid")
	// Between the pod and its interface KubeVirt has seconds, in which Kube-OVN prepares the port; the lab's kubelet is faster.
	f.ControlLab(t, "pause", to+"-ovn-controller")
	f.createLauncher(t, target, to, uid)
	state := fmt.Sprintf("{migrationUid: %q, sourceNode: %s, targetNode: %s, sourcePod: %s, targetPod: %s}", uid, from, to, f.runs.pod, target)
	f.patchInstance(t, "migrationState: "+state)
	f.applyMigration(t, migration, "{phase: Scheduling, migrationState: "+state+"}")
	port := guestName + "." + f.namespace
	harness.Eventually(t, "Kube-OVN prepares the port", func() bool {
		options := f.RunNbctl(t, "get", "Logical_Switch_Port", port, "options")
		return strings.Contains(options, from+","+to) && strings.Contains(options, "rarp")
	})
	f.ControlLab(t, "resume", to+"-ovn-controller")
	f.waitLauncher(t, target)
	h := f.startHypervisor(t, target, true)
	down := f.runs.sendTo(t, h)
	f.patchInstance(t, "nodeName: "+to)
	f.applyMigration(t, migration, "{phase: Succeeded, migrationState: "+state+"}")
	harness.Eventually(t, "Kube-OVN gives the port to the new node", func() bool {
		return !strings.Contains(f.RunNbctl(t, "get", "Logical_Switch_Port", port, "options"), from+",")
	})
	f.ControlLab(t, "kill", f.runs.process)
	f.DeleteAndWait(t, "Pod", f.namespace, f.runs.pod)
	f.runs = h
	return down
}

// sendTo moves the guest to another QEMU and waits until it runs there.
func (h *hypervisor) sendTo(t *testing.T, other *hypervisor) (down string) {
	t.Helper()
	if _, err := h.tell("migrate -d unix:" + other.socket()); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the guest has moved", func() bool {
		said, err := h.tell("info migrate")
		if err != nil || strings.Contains(said, "failed") {
			t.Fatalf("%v\n%s", err, said)
		}
		for line := range strings.Lines(said) {
			if ms, found := strings.CutPrefix(strings.TrimSpace(line), "downtime: "); found {
				down = strings.TrimSuffix(ms, " ms")
			}
		}
		return strings.Contains(said, "Migration status: completed") || strings.Contains(said, "Status: completed")
	})
	said, err := other.tell("info status")
	if err != nil || !strings.Contains(said, "VM status: running") {
		t.Errorf("the guest does not run after the migration: %v, %s", err, said)
	}
	return down
}

// applyMigration writes a VirtualMachineInstanceMigration as KubeVirt's virt-controller does.
func (f *migrationFixture) applyMigration(t *testing.T, name, status string) {
	t.Helper()
	f.ApplyWithoutCleanup(t, fmt.Sprintf(`{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstanceMigration, metadata: {name: %s, namespace: %s},
  spec: {vmiName: %s}, status: %s}`, name, f.namespace, guestName, status))
}

// patchInstance changes the status of the VirtualMachineInstance.
func (f *migrationFixture) patchInstance(t *testing.T, status string) {
	t.Helper()
	kubectl(t, f.Cluster, "patch", "vmi", guestName, "-n", f.namespace, "--type=merge", "--subresource=status", "-p", "status: {"+status+"}")
}
