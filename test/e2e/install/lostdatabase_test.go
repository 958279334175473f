package install

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// lostDatabaseFixture is a cluster with every kind of address, whose OVN databases get lost.
type lostDatabaseFixture struct {
	*harness.BackendProject
	fip, service, egress string
}

// TestDay7LostDatabases replaces OVN's databases by empty ones, as when the disk of a single server is lost, and shows what
// it takes until all addresses are what they were.
func TestDay7LostDatabases(t *testing.T) {
	item := dayItems.Item(t, 7)
	c := harness.StartSallyport(t, "lost", harness.LoadTopology(t, "shared.yaml"))
	f := &lostDatabaseFixture{BackendProject: c.NewBackendProject(t, "lost", "10.70.0.0/24")}
	f.fip = c.CreateFIP(t, f.Namespace, "desk", "{podTarget: {podName: b2}, externalNetworkType: public}")
	f.service = f.CreateService(t, harness.ServiceSpec{Name: "shop", Annotations: "network.kube-dc.com/external-network-type: public"})
	f.egress = "100.65.8.50"
	c.SetEgressAssignable(t, "node3", true)
	c.Apply(t, fmt.Sprintf(`
apiVersion: k8s.ovn.org/v1
kind: EgressIP
metadata: {name: mail}
spec: {egressIPs: [%s], namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}, podSelector: {matchLabels: {role: backend}}}`,
		f.egress, f.Namespace))
	c.WaitForObject(t, "EgressIP", "", "mail", manifest.True("Programmed"))
	f.waitAnswers(t)

	f.replaceDatabases(t, "sb")
	begun := time.Now()
	f.SyncFlows(t) // before, nodes go on with the flows that they have
	f.waitAnswers(t)
	item.AddFigure("southbound database replaced by an empty one: nodes have their flows from it, and every address answers, after %.1f s, without human action",
		time.Since(begun).Seconds())

	f.replaceDatabases(t, "nb", "sb")
	harness.Eventually(t, "the loss is felt", func() bool { return !f.answers() })
	harness.Eventually(t, "doctor begins with the loss", func() bool {
		return strings.HasPrefix(f.runDoctor(t), "ERROR LogicalSwitchMissing\n")
	})
	harness.ExpectContains(t, f.runDoctor(t), "the database seems to be new", "rollout restart deployment/kube-ovn-controller")
	if f.answers() {
		t.Error("the addresses answer before Kube-OVN is restarted: the pages say that it takes that")
	}
	// a lab has no Deployment of Kube-OVN that the command of the page could restart
	c.ControlLab(t, "kill", "kube-ovn-controller")
	c.ControlLab(t, "start", "kube-ovn-controller")
	item.AddFigure("both replaced: doctor names it; every address answers as before %.1f s after Kube-OVN's controller is restarted",
		f.waitAnswers(t).Seconds())
	c.WaitProgrammed(t, "FIp", f.Namespace, "desk")
	if now := f.ServiceAddress(t, "shop"); now != f.service {
		t.Errorf("the Service has the address %s now, %s before", now, f.service)
	}
	harness.Eventually(t, "doctor finds nothing wrong", func() bool { return strings.Contains(f.runDoctor(t), "nothing is wrong") })
}

// replaceDatabases stops the only server of each database, and starts it with an empty database.
func (f *lostDatabaseFixture) replaceDatabases(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		f.ControlLab(t, "kill", "ovn-"+name+"1")
	}
	for _, name := range names {
		server := "ovn-" + name + "1"
		file := f.DatabaseFile(server, "db")
		if err := os.Remove(f.Inside(file)); err != nil {
			t.Fatal(err)
		}
		f.RunTool(t, "ovsdb-tool", "create", file, f.Parts.Schema("ovn-"+name))
		f.ControlLab(t, "start", server)
	}
}

// waitAnswers waits until each address answers, and returns how long it took.
func (f *lostDatabaseFixture) waitAnswers(t *testing.T) time.Duration {
	t.Helper()
	return harness.Eventually(t, "every address answers", f.answers)
}

// answers reports whether the FIp and the Service answer a host outside, and a pod leaves with its egress address.
func (f *lostDatabaseFixture) answers() bool {
	for _, address := range []string{f.fip, f.service} {
		a, err := f.Cluster.SendRequest("internet", "http://"+address)
		if err != nil || a.Saw.Addr().String() != harness.InternetAddress || address == f.fip && a.Name != "b2" {
			return false
		}
	}
	a, err := f.Cluster.SendRequest("b1."+f.Namespace, "http://"+harness.InternetAddress)
	return err == nil && a.Saw.Addr().String() == f.egress
}

// runDoctor returns what doctor prints. Its exit code says that there are findings.
func (f *lostDatabaseFixture) runDoctor(t *testing.T) string {
	t.Helper()
	return harness.RunBash(t, t.TempDir(), f.ShellEnv(t),
		"eval \"$(sallyport lab env)\"\nsallyport doctor --severity warning 2>/dev/null || [ $? -le 2 ]")
}
