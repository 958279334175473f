package address

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// pointsTo returns a condition that holds if a FIp is Programmed with a target address.
func pointsTo(address string) manifest.Condition {
	at := manifest.Field(address, "status", "resolvedTargetIP")
	return func(o *unstructured.Unstructured) bool { return harness.IsUpToDate(o) && at(o) }
}

// expectTarget waits until a FIp has a target address, and tests it in both directions.
func (s *projectPair) expectTarget(t *testing.T, name, kind, target, answers string) {
	t.Helper()
	s.WaitForObject(t, "FIp", s.cloud, name, pointsTo(target))
	s.SyncFlows(t)
	external, x := s.ReadField(t, "FIp", s.cloud, name, "status", "externalIP"), s.Network(t, kind)
	s.ExpectAnswer(t, x.Client, "http://"+external, answers, x.ClientAddress)
	s.ExpectAnswer(t, "internet", "http://"+external, answers, harness.InternetAddress)
	s.ExpectAnswer(t, answers+"."+s.cloud, "http://"+harness.InternetAddress, "internet",
		s.egressAddress(t, s.cloud, kind, external))
}

// applyVM applies a virtual machine as KubeVirt reports it.
func (s *projectPair) applyVM(t *testing.T, name string, addresses ...string) {
	t.Helper()
	var interfaces string
	for i, a := range addresses {
		interfaces += fmt.Sprintf("{name: net%d, interfaceName: eth%d, ipAddress: %q, ipAddresses: [%q], mac: '0a:00:00:00:00:0%d'},", i, i, a, a, i)
	}
	s.Apply(t, fmt.Sprintf("{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: %s, namespace: %s}, status: {interfaces: [%s]}}",
		name, s.cloud, interfaces))
}

// checkTargets shows targets by address, pod and virtual machine; FIps follow the latter two when their address
// changes.
func (s *projectPair) checkTargets(t *testing.T) string {
	a := s.RunPod(t, harness.Pod{Namespace: s.cloud, Name: "target-a", Node: "node1"})
	b := s.RunPod(t, harness.Pod{Namespace: s.cloud, Name: "target-b", Node: "node2"})
	s.CreateFIP(t, s.cloud, "by-address", "{ipAddress: "+a+", externalNetworkType: cloud}")
	s.expectTarget(t, "by-address", "cloud", a, "target-a")
	s.DeleteAndWait(t, "FIp", s.cloud, "by-address")

	s.applyVM(t, "vm", "", a)
	before := s.CreateFIP(t, s.cloud, "by-vm", "{vmTarget: {vmName: vm}, externalNetworkType: public}")
	s.expectTarget(t, "by-vm", "public", a, "target-a")
	s.applyVM(t, "vm", b) // after a migration, or a change by the guest
	s.expectTarget(t, "by-vm", "public", b, "target-b")
	s.applyVM(t, "vm", b, a)
	s.CreateFIP(t, s.cloud, "by-vm", "{vmTarget: {vmName: vm, interfaceName: eth1}, externalNetworkType: public}")
	s.expectTarget(t, "by-vm", "public", a, "target-a")
	if after := s.ReadField(t, "FIp", s.cloud, "by-vm", "status", "externalIP"); after != before {
		t.Errorf("the virtual machine's floating IP was %s and is %s after its address has changed", before, after)
	}
	s.DeleteAndWait(t, "FIp", s.cloud, "by-vm")

	before = s.CreateFIP(t, s.cloud, "by-pod", "{podTarget: {podName: target-b}, externalNetworkType: third}")
	s.expectTarget(t, "by-pod", "third", b, "target-b")
	s.DeleteAndWait(t, "Pod", s.cloud, "target-b")
	// another pod has the old address now
	s.RunPod(t, harness.Pod{Namespace: s.cloud, Name: "squatter", Node: "node2", Address: b})
	again := s.RunPod(t, harness.Pod{Namespace: s.cloud, Name: "target-b", Node: "node3", Address: "10.31.0.200"})
	s.expectTarget(t, "by-pod", "third", again, "target-b")
	external := s.ReadField(t, "Project", "packets", "cloud", "status", "externalIP")
	s.ExpectAnswer(t, "squatter."+s.cloud, "http://"+harness.InternetAddress, "internet", external)
	if after := s.ReadField(t, "FIp", s.cloud, "by-pod", "status", "externalIP"); after != before {
		t.Errorf("the pod's floating IP was %s and is %s after the pod was made again", before, after)
	}
	return "by address, by pod and by virtual machine, on three networks; the last two keep their external address when the target's address changes"
}

// checkRetarget shows that a FIp changes to another pod with the same external address, and that the old address
// becomes free when it changes to another EIp.
func (s *projectPair) checkRetarget(t *testing.T) string {
	s.RunPod(t, harness.Pod{Namespace: s.cloud, Name: "old", Node: "node1"})
	s.RunPod(t, harness.Pod{Namespace: s.cloud, Name: "new", Node: "node3"})
	for _, kind := range []string{"cloud", "public"} {
		x := s.Network(t, kind)
		first, second := "first-"+kind, "second-"+kind
		one, two := s.CreateEIP(t, s.cloud, first, "{externalNetworkType: "+kind+"}"),
			s.CreateEIP(t, s.cloud, second, "{externalNetworkType: "+kind+"}")
		name := "moves-" + kind
		s.CreateFIP(t, s.cloud, name, "{podTarget: {podName: old}, eip: "+first+"}")
		s.ExpectAnswers(t, x.Client, one, "old", x.ClientAddress)
		if after := s.CreateFIP(t, s.cloud, name, "{podTarget: {podName: new}, eip: "+first+"}"); after != one {
			t.Errorf("with another target the external address is %s; it was %s", after, one)
		}
		s.ResetDrops(t)
		s.ExpectAnswers(t, x.Client, one, "new", x.ClientAddress)
		s.ExpectAnswers(t, "internet", one, "new", harness.InternetAddress)
		s.ExpectNoDrops(t)

		if after := s.CreateFIP(t, s.cloud, name, "{podTarget: {podName: new}, eip: "+second+"}"); after != two {
			t.Errorf("with another EIp the external address is %s; wanted %s", after, two)
		}
		s.ExpectAnswers(t, x.Client, two, "new", x.ClientAddress)
		s.ExpectSilence(t, x.Client, "http://"+one)
		s.WaitForObject(t, "EIp", s.cloud, first, manifest.Field("Released", "status", "ownershipType"))
		s.WaitForObject(t, "EIp", s.cloud, second, manifest.Field("Exclusive", "status", "ownershipType"))
		s.DeleteAndWait(t, "FIp", s.cloud, name)
	}
	return "on the default and a secondary network: another pod answers at the same address; with another EIp the old address is silent and Released"
}

// checkOwnedEIP shows that a FIp that selects a network creates and deletes its EIp, and that an EIp that a user
// created is kept.
func (s *projectPair) checkOwnedEIP(t *testing.T) string {
	s.RunPod(t, harness.Pod{Namespace: s.cloud, Name: "owner", Node: "node1"})
	s.CreateFIP(t, s.cloud, "maker", "{podTarget: {podName: owner}, externalNetworkType: public}")
	eip := s.ReadField(t, "FIp", s.cloud, "maker", "status", "eip")
	ovnEip := s.ReadField(t, "EIp", s.cloud, eip, "status", "ovnEIpRef")
	if len(eip) != len("fip-maker-12345") || ovnEip != "eip-"+s.cloud+"-"+eip {
		t.Errorf("the FIp's own EIp is %q with OvnEip %q", eip, ovnEip)
	}
	s.WaitForObject(t, "EIp", s.cloud, eip, manifest.Field("[map[ownerRef:maker type:FIp]]", "status", "owners"))
	s.DeleteAndWait(t, "FIp", s.cloud, "maker")
	s.WaitForObject(t, "EIp", s.cloud, eip, manifest.Gone)
	s.WaitForObject(t, "OvnEip", "", ovnEip, manifest.Gone)

	address := netip.MustParseAddr(s.CreateEIP(t, s.cloud, "kept", "{externalNetworkType: public}"))
	s.CreateFIP(t, s.cloud, "user", "{podTarget: {podName: owner}, eip: kept}")
	s.DeleteAndWait(t, "FIp", s.cloud, "user")
	s.WaitForObject(t, "EIp", s.cloud, "kept", manifest.Field("Released", "status", "ownershipType"))
	if got := s.ReadField(t, "EIp", s.cloud, "kept", "status", "ipAddress"); got != address.String() {
		t.Errorf("an EIp that a person made had %s and has %s after its FIp is gone", address, got)
	}
	return "made with the FIp and gone with it; an EIp that a person made stays Released with its address"
}

// checkAddressReuse shows that an address moves from one project to another, and so to another router. Hosts that have
// communicated with the first learn of it at once.
func (s *projectPair) checkAddressReuse(t *testing.T) string {
	var took time.Duration
	address := ""
	for _, ns := range []string{s.cloud, s.public} {
		name := "heir-of-" + ns
		s.RunPod(t, harness.Pod{Namespace: ns, Name: name, Node: "node1"})
		wish := ""
		if address != "" {
			wish = ", ipAddress: " + address
		}
		address = s.CreateEIP(t, ns, "handed", "{externalNetworkType: public"+wish+"}")
		s.CreateFIP(t, ns, "handed", "{podTarget: {podName: "+name+"}, eip: handed}")
		begin := time.Now()
		s.ExpectAnswer(t, "client-ext-public", "http://"+address, name, "")
		s.ExpectAnswer(t, "internet", "http://"+address, name, "")
		took = time.Since(begin)
		s.DeleteAndWait(t, "FIp", ns, "handed")
		s.DeleteAndWait(t, "EIp", ns, "handed")
	}
	return fmt.Sprintf("clients of one project's pod reach the other's %v after the FIp is in force",
		took.Round(time.Millisecond))
}
