package real

import (
	"maps"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/daemon"
	"github.com/sallyport/sallyport/internal/lab/parts"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// replace replaces one replica after the other, as a rolling update of the Deployment does.
func (f *upgradeFixture) replace(t *testing.T, program string) {
	t.Helper()
	for _, r := range f.replicas {
		r.Stop(syscall.SIGTERM)
		r.Program = program
		r.Start(t)
		f.expectProgress(t)
	}
}

func (f *upgradeFixture) waitIdly(t *testing.T) { f.expectProgress(t) }
func (f *upgradeFixture) upgrade(t *testing.T)  { f.replace(t, "") }
func (f *upgradeFixture) rollBack(t *testing.T) { f.replace(t, f.older) }

func (f *upgradeFixture) restartKubeOVN(t *testing.T) {
	f.allowUntranslated()
	f.ControlLab(t, "kill", "kube-ovn-controller")
	f.ControlLab(t, "start", "kube-ovn-controller")
	f.RunPod(t, harness.Pod{Namespace: f.namespace, Name: "after", Node: "node1"}) // it works
	f.expectProgress(t)
}

// allowUntranslated lets packets of pods leave as they are.
func (f *upgradeFixture) allowUntranslated() {
	f.untranslated = map[string]bool{}
	for _, address := range f.pods {
		f.untranslated[address] = true
	}
}

// extendCRDs adds an optional field to the CRDs, as a newer version would.
func (f *upgradeFixture) extendCRDs(t *testing.T) {
	for _, crd := range []string{"eips", "fips"} {
		name := crd + ".kube-dc.com"
		kubectl(t, f.Cluster, "patch", "crd", name, "--type=json", "-p", `[{"op": "add", "path":
  "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/newField", "value": {"type": "string", "maxLength": 10}}]`)
	}
	f.CreateFIP(t, f.namespace, "newer", "{externalNetworkType: public, newField: x, podTarget: {podName: spare}}")
	if got := f.ReadField(t, "FIp", f.namespace, "newer", "spec", "newField"); got != "x" {
		t.Errorf("the new field is %q", got)
	}
	f.DeleteAndWait(t, "FIp", f.namespace, "newer")
}

// stopAPIServer also restarts Kube-OVN's controller, which exits when it loses its Lease.
func (f *upgradeFixture) stopAPIServer(t *testing.T) {
	f.allowUntranslated()
	f.ControlLab(t, "kill", "kube-apiserver")
	pause(t, show.ChooseSize(apiServerOutage, 10*time.Second))
	f.ControlLab(t, "start", "kube-apiserver")
	harness.Eventually(t, "the API server answers", func() bool { // it knows CRDs last
		_, err := f.Objects.Get(harness.Within(t, time.Second), harness.ObjectRef("OvnEip", "", "none"))
		return err == nil
	})
	for _, r := range f.replicas { // one that lost its Lease has exited, and its kubelet starts it again
		select {
		case <-r.Exited:
			r.Stop(syscall.SIGTERM)
			r.Start(t)
		default:
		}
	}
	f.expectProgress(t)
}

// pause lets the load go on for some time.
func pause(t *testing.T, long time.Duration) {
	t.Helper()
	select {
	case <-time.After(long):
	case <-t.Context().Done():
	}
}

// rebootNode drains the node of the gateway with kubectl alone, cuts its power and lets it return.
func (f *upgradeFixture) rebootNode(t *testing.T) {
	f.allowUntranslated()
	held := f.tenantGateways(t)
	kubectl(t, f.Cluster, "drain", f.drained, "--ignore-daemonsets", "--force", "--delete-emptydir-data")
	f.ControlLab(t, "kill", f.drained)
	f.WaitNodeReady(t, f.drained, false)
	f.ControlLab(t, "start", f.drained)
	f.WaitNodeReady(t, f.drained, true)
	kubectl(t, f.Cluster, "uncordon", f.drained)
	f.ResolveTunnelPeers(t)
	harness.Eventually(t, "the gateways are where they were", func() bool { return maps.Equal(f.tenantGateways(t), held) })
	f.runEvictedPod(t)
	f.expectProgress(t)
}

// tenantGateways returns the nodes of the gateways, without those of egress addresses, which stay where they have moved to.
func (f *upgradeFixture) tenantGateways(t *testing.T) map[string]string {
	t.Helper()
	out := f.ListGateways(t)
	maps.DeleteFunc(out, func(port, _ string) bool { return strings.Contains(port, "-egress-") })
	return out
}

// upgradeOVN replaces OVN's programs: databases and northd first, then node by node.
func (f *upgradeFixture) upgradeOVN(t *testing.T) {
	f.allowUntranslated()
	targets := []string{daemon.Central}
	for _, n := range f.Blueprint.NodeList() {
		targets = append(targets, n.Name)
	}
	for _, target := range targets {
		err := f.ReplaceOVN(harness.Within(t, harness.Patience), target, parts.NextOVNVersion, func(line string) { t.Log(line) })
		if err != nil {
			t.Fatal(err)
		}
		pause(t, 3*time.Second) // as long as somebody looks whether it works
	}
	if got := f.RunSbctl(t, "get", "SB_Global", ".", "options:northd_internal_version"); !strings.Contains(got, parts.NextOVNVersion) {
		t.Errorf("northd has version %s", got)
	}
	for _, target := range targets[1:] {
		got := f.RunTool(t, "ovn-appctl", "-t", f.Dir+"/data/"+target+"/ovn-controller.ctl", "version")
		if !strings.Contains(got, parts.NextOVNVersion) {
			t.Errorf("ovn-controller of %s has version %s", target, got)
		}
	}
	f.expectProgress(t)
}

// expectFailureSeen is the control: connections to an address that goes away are lost.
func (f *upgradeFixture) expectFailureSeen(t *testing.T) {
	t.Helper()
	load := f.startLoad(t)
	f.DeleteAndWait(t, "FIp", f.namespace, "cloud")
	harness.Eventually(t, "connections are lost without the FIp", func() bool {
		load.mu.Lock()
		defer load.mu.Unlock()
		return load.lost[floatingIP] > 0
	})
	load.stop()
	load.running.Wait()
}
