package real

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// checkOtherProject has two controls: a pod of the same project reaches the address, and the other project's pod reaches
// the floating IP.
func (f *themeFixture) checkOtherProject(t *testing.T) {
	address := f.createFIP(t, "victim", "public", "web")
	f.expectAnswers(t, "db."+f.shop, f.pods["web"], "web", f.pods["db"])
	f.expectAnswers(t, "mallory."+f.rival, address, "web", "")
	for _, protocol := range containerProtocols {
		f.ExpectSilence(t, "mallory."+f.rival, protocol+"://"+f.pods["web"]+":80")
	}
}

// frameCounter counts frames with a word that arrive at a pod.
type frameCounter struct {
	word  []byte
	count atomic.Int32
}

// checkCraftedFrames lets pods send frames that they craft themselves. A frame of another project's pod does not arrive
// at the pod's own address, to whatever MAC address it is sent; one to the floating IP does, and one of the same project.
func (f *themeFixture) checkCraftedFrames(t *testing.T) {
	address := f.createFIP(t, "victim", "public", "web")
	bad, good := f.countFrames(t, "~bad~"), f.countFrames(t, "~good~")
	f.expectAnswers(t, "mallory."+f.rival, address, "web", "") // the controls must not depend on ARP resolution
	f.expectAnswers(t, "db."+f.shop, f.pods["web"], "web", "")
	web := harness.HardwareAddress(t, f.NS("web."+f.shop))
	router := f.routerMAC(t, f.rival)
	sent := 0
	for _, to := range []net.HardwareAddr{router, web, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}} {
		for _, protocol := range []byte{unix.IPPROTO_UDP, unix.IPPROTO_TCP, unix.IPPROTO_ICMP} {
			for _, source := range []string{"mallory", "db"} { // its own address, and one that it does not have
				f.sendFrame(t, "mallory."+f.rival, newFrame(f.pods[source], f.pods["web"], to, protocol), bad)
				sent++
			}
		}
	}
	controls := []func(){
		func() {
			f.sendFrame(t, "mallory."+f.rival, newFrame(f.pods["mallory"], address, router, unix.IPPROTO_UDP), good)
		},
		func() {
			f.sendFrame(t, "db."+f.shop, newFrame(f.pods["db"], f.pods["web"], web, unix.IPPROTO_UDP), good)
		},
	}
	for _, send := range controls {
		before := good.count.Load()
		harness.Eventually(t, "a frame on an allowed path arrives", func() bool {
			send()
			<-time.After(100 * time.Millisecond)
			return good.count.Load() > before
		})
	}
	if n := bad.count.Load(); n > 0 {
		t.Errorf("%d of %d frames arrived", n, sent)
	}
}

// countFrames counts frames with a word that arrive at pod web.
func (f *themeFixture) countFrames(t *testing.T, word string) *frameCounter {
	t.Helper()
	c := &frameCounter{word: []byte(word)}
	f.CaptureFrames(t, "web."+f.shop, "eth0", unix.ETH_P_ALL, func(frame []byte, own bool) {
		if !own && bytes.Contains(frame, c.word) {
			c.count.Add(1)
		}
	})
	return c
}

// newFrame returns a frame to a MAC address. If it is of TCP, it opens a connection.
func newFrame(source, target string, to net.HardwareAddr, protocol byte) harness.Frame {
	return harness.Frame{
		To: to, Protocol: protocol, Flags: harness.Syn,
		Source: netip.AddrPortFrom(netip.MustParseAddr(source), 22000),
		Target: netip.AddrPortFrom(netip.MustParseAddr(target), 80),
	}
}

// sendFrame sends a frame with a counter's word from the link of a pod.
func (f *themeFixture) sendFrame(t *testing.T, pod string, frame harness.Frame, c *frameCounter) {
	t.Helper()
	ns := f.NS(pod)
	frame.From, frame.Text = harness.HardwareAddress(t, ns), string(c.word)
	if err := harness.InjectFrame(ns, frame.Bytes()); err != nil {
		t.Fatal(err)
	}
}

// routerMAC returns the MAC address of a project's router, as its pods see it.
func (f *themeFixture) routerMAC(t *testing.T, namespace string) net.HardwareAddr {
	t.Helper()
	port := kubeovn.RouterPort(namespace, ownership.VPCSubnetName(namespace))
	for _, row := range f.ReadNBTable(t, "logical_router_port", "name,mac") {
		if row["name"] == port {
			mac, err := net.ParseMAC(fmt.Sprint(row["mac"]))
			if err != nil {
				t.Fatal(err)
			}
			return mac
		}
	}
	t.Fatalf("there is no port %s", port)
	return nil
}

// checkClaimedAddress lets a project ask for the address of another one. The control is an address that is free.
func (f *themeFixture) checkClaimedAddress(t *testing.T) {
	address := f.createFIP(t, "victim", "public", "web")
	f.ApplyObject(t, "EIp", f.rival, "taken", "{externalNetworkType: public, ipAddress: "+address+"}")
	f.WaitForObject(t, "EIp", f.rival, "taken", func(o *unstructured.Unstructured) bool {
		return harness.FalseReason(o, "Accepted") == "AddressTaken"
	})
	f.ApplyObject(t, "FIp", f.rival, "taken", "{eip: taken, podTarget: {podName: mallory}}")
	f.SyncFlows(t)
	f.expectInbound(t, f.public, address, "web")
	f.DeleteAndWait(t, "FIp", f.rival, "taken") // a target can have only one address on a network
	free := f.CreateFIP(t, f.rival, "free", "{externalNetworkType: public, podTarget: {podName: mallory}}")
	f.expectInbound(t, f.public, free, "mallory")
	f.expectInbound(t, f.public, address, "web")
}

// checkIsolation switches isolation of a network on and off. Outsiders are not tenants.
func (f *themeFixture) checkIsolation(t *testing.T) {
	address := f.createFIP(t, "victim", "public", "web")
	answered := func() bool {
		_, err := f.SendRequest("mallory."+f.rival, "udp://"+address+":80")
		return err == nil
	}
	f.expectAnswers(t, "mallory."+f.rival, address, "web", "")
	for _, isolation := range []string{"Tenants", "None"} {
		f.Apply(t, fmt.Sprintf("{apiVersion: kube-dc.com/v1alpha1, kind: ExternalNetwork, metadata: {name: public}, "+
			"spec: {type: public, subnets: [ext-public], isolation: %s}}", isolation))
		f.WaitProgrammedOnNodes(t, "ExternalNetwork", "", "public")
		harness.Eventually(t, "isolation "+isolation, func() bool { return answered() == (isolation == "None") })
		if isolation == "Tenants" {
			for _, protocol := range containerProtocols {
				f.ExpectSilence(t, "mallory."+f.rival, protocol+"://"+address+":80")
			}
		}
		f.expectInbound(t, f.public, address, "web")
	}
	f.expectAnswers(t, "mallory."+f.rival, address, "web", "")
}
