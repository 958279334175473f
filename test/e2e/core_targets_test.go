package e2e

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
)

// leadsTo holds when a FIp is in force and leads to an address.
func leadsTo(address string) manifest.Condition {
	at := manifest.Field(address, "status", "resolvedTargetIP")
	return func(o *unstructured.Unstructured) bool { return upToDate(o) && at(o) }
}

// follows waits until a FIp leads to an address and asks it from both sides.
func (s *stage) follows(t *testing.T, name, kind, target, answers string) {
	t.Helper()
	s.wait(t, "FIp", s.cloud, name, leadsTo(target))
	s.sync(t)
	external, x := s.field(t, "FIp", s.cloud, name, "status", "externalIP"), s.network(t, kind)
	s.answers(t, x.client, "http://"+external, answers, x.clientAddress)
	s.answers(t, "internet", "http://"+external, answers, theInternet)
	s.answers(t, answers+"."+s.cloud, "http://"+theInternet, "internet", s.leavesAs(t, s.cloud, kind, external))
}

// machine writes a virtual machine as KubeVirt reports it.
func (s *stage) machine(t *testing.T, name string, addresses ...string) {
	t.Helper()
	var interfaces string
	for i, a := range addresses {
		interfaces += fmt.Sprintf("{name: net%d, interfaceName: eth%d, ipAddress: %q, ipAddresses: [%q], mac: '0a:00:00:00:00:0%d'},", i, i, a, a, i)
	}
	s.apply(t, fmt.Sprintf("{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: %s, namespace: %s}, status: {interfaces: [%s]}}",
		name, s.cloud, interfaces))
}

// targets: a target by its address, as a pod and as a virtual machine; the last two are followed when their address changes.
func (s *stage) targets(t *testing.T) string {
	a := s.run(t, pod{namespace: s.cloud, name: "target-a", node: "node1"})
	b := s.run(t, pod{namespace: s.cloud, name: "target-b", node: "node2"})
	s.fip(t, s.cloud, "by-address", "{ipAddress: "+a+", externalNetworkType: cloud}")
	s.follows(t, "by-address", "cloud", a, "target-a")
	s.remove(t, "FIp", s.cloud, "by-address")

	s.machine(t, "vm", "", a)
	before := s.fip(t, s.cloud, "by-vm", "{vmTarget: {vmName: vm}, externalNetworkType: public}")
	s.follows(t, "by-vm", "public", a, "target-a")
	s.machine(t, "vm", b) // it was migrated, or its guest has another address
	s.follows(t, "by-vm", "public", b, "target-b")
	s.machine(t, "vm", b, a)
	s.fip(t, s.cloud, "by-vm", "{vmTarget: {vmName: vm, interfaceName: eth1}, externalNetworkType: public}")
	s.follows(t, "by-vm", "public", a, "target-a")
	if after := s.field(t, "FIp", s.cloud, "by-vm", "status", "externalIP"); after != before {
		t.Errorf("the virtual machine's floating IP was %s and is %s after its address has changed", before, after)
	}
	s.remove(t, "FIp", s.cloud, "by-vm")

	before = s.fip(t, s.cloud, "by-pod", "{podTarget: {podName: target-b}, externalNetworkType: third}")
	s.follows(t, "by-pod", "third", b, "target-b")
	s.remove(t, "Pod", s.cloud, "target-b")
	s.run(t, pod{namespace: s.cloud, name: "squatter", node: "node2", address: b}) // the old address is somebody else's now
	again := s.run(t, pod{namespace: s.cloud, name: "target-b", node: "node3", address: "10.31.0.200"})
	s.follows(t, "by-pod", "third", again, "target-b")
	external := s.field(t, "Project", "packets", "cloud", "status", "externalIP")
	s.answers(t, "squatter."+s.cloud, "http://"+theInternet, "internet", external)
	if after := s.field(t, "FIp", s.cloud, "by-pod", "status", "externalIP"); after != before {
		t.Errorf("the pod's floating IP was %s and is %s after the pod was made again", before, after)
	}
	return "by address, by pod and by virtual machine, on three networks; the last two keep their external address when the target's address changes"
}

// repoint: a FIp leads to another pod under the same external address; with another EIp, the old address is free again.
func (s *stage) repoint(t *testing.T) string {
	s.run(t, pod{namespace: s.cloud, name: "old", node: "node1"})
	s.run(t, pod{namespace: s.cloud, name: "new", node: "node3"})
	for _, kind := range []string{"cloud", "public"} {
		x := s.network(t, kind)
		first, second := "first-"+kind, "second-"+kind
		one, two := s.eip(t, s.cloud, first, "{externalNetworkType: "+kind+"}"), s.eip(t, s.cloud, second, "{externalNetworkType: "+kind+"}")
		name := "moves-" + kind
		s.fip(t, s.cloud, name, "{podTarget: {podName: old}, eip: "+first+"}")
		s.everyWay(t, x.client, one, "old", x.clientAddress)
		if after := s.fip(t, s.cloud, name, "{podTarget: {podName: new}, eip: "+first+"}"); after != one {
			t.Errorf("with another target the external address is %s; it was %s", after, one)
		}
		s.resetDrops(t)
		s.everyWay(t, x.client, one, "new", x.clientAddress)
		s.everyWay(t, "internet", one, "new", theInternet)
		s.noDrops(t)

		if after := s.fip(t, s.cloud, name, "{podTarget: {podName: new}, eip: "+second+"}"); after != two {
			t.Errorf("with another EIp the external address is %s; wanted %s", after, two)
		}
		s.everyWay(t, x.client, two, "new", x.clientAddress)
		s.silent(t, x.client, "http://"+one)
		s.wait(t, "EIp", s.cloud, first, manifest.Field("Released", "status", "ownershipType"))
		s.wait(t, "EIp", s.cloud, second, manifest.Field("Exclusive", "status", "ownershipType"))
		s.remove(t, "FIp", s.cloud, name)
	}
	return "on the default and a secondary network: another pod answers at the same address; with another EIp the old address is silent and Released"
}

// ownEIp: a FIp that asks by network makes an EIp and takes it away; one that a person made stays.
func (s *stage) ownEIp(t *testing.T) string {
	s.run(t, pod{namespace: s.cloud, name: "owner", node: "node1"})
	s.fip(t, s.cloud, "maker", "{podTarget: {podName: owner}, externalNetworkType: public}")
	eip := s.field(t, "FIp", s.cloud, "maker", "status", "eip")
	ovnEip := s.field(t, "EIp", s.cloud, eip, "status", "ovnEIpRef")
	if len(eip) != len("fip-maker-12345") || ovnEip != "eip-"+s.cloud+"-"+eip {
		t.Errorf("the FIp's own EIp is %q with OvnEip %q", eip, ovnEip)
	}
	s.wait(t, "EIp", s.cloud, eip, manifest.Field("[map[ownerRef:maker type:FIp]]", "status", "owners"))
	s.remove(t, "FIp", s.cloud, "maker")
	s.wait(t, "EIp", s.cloud, eip, manifest.Gone)
	s.wait(t, "OvnEip", "", ovnEip, manifest.Gone)

	address := netip.MustParseAddr(s.eip(t, s.cloud, "kept", "{externalNetworkType: public}"))
	s.fip(t, s.cloud, "user", "{podTarget: {podName: owner}, eip: kept}")
	s.remove(t, "FIp", s.cloud, "user")
	s.wait(t, "EIp", s.cloud, "kept", manifest.Field("Released", "status", "ownershipType"))
	if got := s.field(t, "EIp", s.cloud, "kept", "status", "ipAddress"); got != address.String() {
		t.Errorf("an EIp that a person made had %s and has %s after its FIp is gone", address, got)
	}
	return "made with the FIp and gone with it; an EIp that a person made stays Released with its address"
}

// handedOn: an address goes from one project to another, and so to another router. Who has talked with the first learns of it at once.
func (s *stage) handedOn(t *testing.T) string {
	var took time.Duration
	address := ""
	for _, ns := range []string{s.cloud, s.public} {
		name := "heir-of-" + ns
		s.run(t, pod{namespace: ns, name: name, node: "node1"})
		wish := ""
		if address != "" {
			wish = ", ipAddress: " + address
		}
		address = s.eip(t, ns, "handed", "{externalNetworkType: public"+wish+"}")
		s.fip(t, ns, "handed", "{podTarget: {podName: "+name+"}, eip: handed}")
		begin := time.Now()
		s.answers(t, "client-ext-public", "http://"+address, name, "")
		s.answers(t, "internet", "http://"+address, name, "")
		took = time.Since(begin)
		s.remove(t, "FIp", ns, "handed")
		s.remove(t, "EIp", ns, "handed")
	}
	return fmt.Sprintf("clients of one project's pod reach the other's %v after the FIp is in force", took.Round(time.Millisecond))
}
