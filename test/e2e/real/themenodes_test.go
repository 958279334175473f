package real

import (
	"fmt"
	"testing"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// uplinkWorkload is what checkNodePath needs of a workload.
func (f *themeFixture) uplinkWorkload(t *testing.T) *workload {
	t.Helper()
	uplink := f.Segment(t, "uplink-b")
	return &workload{
		release: f.release, secondUplink: uplink.Client,
		node: uplink.NodeAddresses(f.Blueprint.NodeList()[0])[0].Addr().String(),
	}
}

func (f *themeFixture) checkHostServer(t *testing.T) {
	t.Cleanup(func() { f.DeleteAndWait(t, "ExternalNetwork", "", "uplink-b") })
	w := f.uplinkWorkload(t)
	w.checkNodePath(t)
	f.ExpectNoDrops(t)
}

// applyUplink applies the ExternalNetwork of the second uplink, until the end of the test. more is added to spec.nodes.
func (f *themeFixture) applyUplink(t *testing.T, more string) {
	t.Helper()
	f.Apply(t, fmt.Sprintf(`{apiVersion: kube-dc.com/v1alpha1, kind: ExternalNetwork, metadata: {name: uplink-b},
  spec: {type: uplink-b, nodes: {interface: uplink-b, gateways: [%s]%s}}}`, f.Segment(t, "uplink-b").Gateways[0].Addr(), more))
	for _, node := range f.Blueprint.NodeList() {
		f.WaitForObject(t, "NodePath", "", node.Name, harness.IsUpToDate)
	}
}

// checkProxiedPod asks a pod of the default VPC at an address of node1 on the second uplink, which kube-proxy translates.
// Without a NodePath the reply leaves by the first uplink, whose router drops it.
func (f *themeFixture) checkProxiedPod(t *testing.T) {
	w := f.uplinkWorkload(t)
	f.Apply(t, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: outside, namespace: %s}, spec: {selector: {app: s1},
  externalIPs: [%s], externalTrafficPolicy: Local, ports: [{name: t, port: 8080, targetPort: 80},
  {name: u, port: 8080, targetPort: 80, protocol: UDP}]}}`, platformNamespace, w.node))
	client := f.Segment(t, "uplink-b").ClientSide[0].Peer.Addr().String()
	target := w.node + ":8080"
	expectDropped := func() {
		t.Helper()
		f.ResetDrops(t)
		harness.Eventually(t, "without a NodePath, a reply leaves by the first uplink", func() bool {
			_, err := f.SendRequest(w.secondUplink, "udp://"+target)
			return err != nil && f.CountDrops(t)["router-uplink-a"] > 0
		})
	}
	expectDropped()
	f.applyUplink(t, "")
	f.ResetDrops(t)
	for _, protocol := range []string{"udp", "http"} {
		f.ExpectAnswer(t, w.secondUplink, protocol+"://"+target, "s1", client)
	}
	f.ExpectNoDrops(t)
	f.DeleteAndWait(t, "ExternalNetwork", "", "uplink-b")
	expectDropped()
}

// checkStaticMethod is first without the client's prefix: there is no route to it by the second uplink.
func (f *themeFixture) checkStaticMethod(t *testing.T) {
	w := f.uplinkWorkload(t)
	f.Apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: on-host, namespace: default}
spec:
  nodeName: node1
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: lab/echo, imagePullPolicy: IfNotPresent, securityContext: {runAsUser: 0}}]`)
	f.WaitForObject(t, "Pod", "default", "on-host", manifest.True("Ready"))
	client := f.Segment(t, "uplink-b").ClientSide[0].Peer
	f.applyUplink(t, ", method: Static, clients: [198.18.99.0/24]")
	f.ExpectSilence(t, w.secondUplink, "udp://"+w.node+":80")
	f.applyUplink(t, ", method: Static, clients: ["+client.Masked().String()+"]")
	harness.Eventually(t, "node1 has the route", func() bool {
		_, err := f.SendRequest(w.secondUplink, "udp://"+w.node+":80")
		return err == nil
	})
	f.ResetDrops(t)
	for _, protocol := range []string{"udp", "http"} {
		f.ExpectAnswer(t, w.secondUplink, protocol+"://"+w.node+":80", "node1", client.Addr().String())
	}
	f.ExpectNoDrops(t)
}

// nodeAddress returns the address of a node on its first uplink.
func (f *themeFixture) nodeAddress(t *testing.T, i int) string {
	t.Helper()
	return f.Segment(t, "uplink-a").NodeAddresses(f.Blueprint.NodeList()[i])[0].Addr().String()
}

// checkNodeEgress shows the translation of Kube-OVN's daemon.
func (f *themeFixture) checkNodeEgress(t *testing.T) {
	for i, pod := range []string{"s1", "s2"} {
		f.expectEgressAs(t, pod+"."+platformNamespace, f.nodeAddress(t, i))
	}
	f.expectAnswers(t, "s1."+platformNamespace, f.pods["s2"], "s2", f.pods["s1"])
}

func (f *themeFixture) checkPlatformFIP(t *testing.T) {
	address := f.CreateEIP(t, platformNamespace, "front", "{externalNetworkType: public}")
	f.ExpectSilence(t, "internet", "http://"+address)
	f.CreateFIP(t, platformNamespace, "front", "{eip: front, podTarget: {podName: s2}}")
	harness.Eventually(t, "the pod answers", func() bool {
		_, err := f.SendRequest("internet", "http://"+address)
		return err == nil
	})
	f.expectInbound(t, f.public, address, "s2")
	f.expectEgressAs(t, "s2."+platformNamespace, f.nodeAddress(t, 1)) // without outbound: true
	f.DeleteAndWait(t, "FIp", platformNamespace, "front")
	f.ExpectSilence(t, "internet", "http://"+address)
}

func (f *themeFixture) checkPlatformService(t *testing.T) {
	h := &harness.BackendProject{Cluster: f.Cluster, Namespace: platformNamespace, Pods: f.pods}
	address := h.CreateService(t, harness.ServiceSpec{Name: "mail", ExtraFields: ", loadBalancerClass: kube-dc.com/sallyport"})
	h.ExpectBackends(t, "internet", "http://"+address, harness.InternetAddress, "s1", "s2")
	h.ExpectBackends(t, f.cloud.Client, "http://"+address, f.cloud.ClientAddress, "s1", "s2")
	h.ExpectSilence(t, "internet", "http://"+address+":81") // no port of the Service
	f.expectEgressAs(t, "s1."+platformNamespace, f.nodeAddress(t, 0))
}

func (f *themeFixture) checkPlatformEgressIP(t *testing.T) {
	f.createEgressIP(t, "mail", "egress: mail", "s1")
	f.expectEgressAs(t, "s1."+platformNamespace, egressAddress)
	f.expectEgressAs(t, "s2."+platformNamespace, f.nodeAddress(t, 1)) // not selected
	f.expectAnswers(t, "s1."+platformNamespace, f.pods["s2"], "s2", f.pods["s1"])
	f.DeleteAndWait(t, "EgressIP", "", "mail")
	f.expectEgressAs(t, "s1."+platformNamespace, f.nodeAddress(t, 0))
}
