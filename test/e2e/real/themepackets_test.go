package real

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// checkProjectAddress also asks hosts on the project's network, without a router in between.
func (f *themeFixture) checkProjectAddress(t *testing.T) {
	gateway := f.projectAddress(t)
	for _, pod := range []string{"web", "db"} {
		f.expectAnswers(t, pod+"."+f.shop, harness.InternetAddress, "internet", gateway)
		f.expectAnswers(t, pod+"."+f.shop, f.cloud.ClientAddress, f.cloud.Client, gateway)
		f.expectAnswers(t, pod+"."+f.shop, f.cloud.NeighbourAddress, f.cloud.Neighbour, gateway)
	}
}

// checkFloatingIP shows that a pod leaves with its floating IP on the default network, and another pod does not.
func (f *themeFixture) checkFloatingIP(t *testing.T) {
	address := f.createFIP(t, "default", "cloud", "web")
	f.expectInbound(t, f.cloud, address, "web")
	f.expectEgressAs(t, "web."+f.shop, address)
	f.expectEgressAs(t, "db."+f.shop, f.projectAddress(t))
}

func (f *themeFixture) checkOnlyWithFIP(t *testing.T) {
	address := f.CreateEIP(t, f.shop, "own", "{externalNetworkType: public}")
	silent := func() {
		f.ExpectSilence(t, "internet", "http://"+address)
		f.ExpectSilence(t, f.public.Client, "udp://"+address+":80")
	}
	silent()
	f.CreateFIP(t, f.shop, "own", "{eip: own, podTarget: {podName: web}}")
	f.expectInbound(t, f.public, address, "web")
	f.DeleteAndWait(t, "FIp", f.shop, "own")
	silent()
}

func (f *themeFixture) checkRetarget(t *testing.T) {
	address := f.createFIP(t, "moves", "public", "web")
	f.expectInbound(t, f.public, address, "web")
	if again := f.createFIP(t, "moves", "public", "db"); again != address {
		t.Errorf("the address was %s and is %s", address, again)
	}
	harness.Eventually(t, "the other pod answers", func() bool { // Open vSwitch may still have the flow in its cache
		a, err := f.SendRequest("internet", "http://"+address)
		return err == nil && a.Name == "db"
	})
	f.expectInbound(t, f.public, address, "db")
}

// checkTwoNetworks sends requests to each address from hosts of both networks. Connections of the pod itself leave
// through the project's default network.
func (f *themeFixture) checkTwoNetworks(t *testing.T) {
	for _, pod := range []string{"web", "db"} {
		byCloud, byPublic := f.createFIP(t, pod+"-cloud", "cloud", pod), f.createFIP(t, pod+"-public", "public", pod)
		for _, address := range []string{byCloud, byPublic} {
			f.expectInbound(t, f.cloud, address, pod)
			f.expectInbound(t, f.public, address, pod)
		}
		f.expectEgressAs(t, pod+"."+f.shop, byCloud)
	}
}

func (f *themeFixture) checkStreamsAtOnce(t *testing.T) {
	byCloud, byPublic := f.createFIP(t, "cloud", "cloud", "web"), f.createFIP(t, "public", "public", "web")
	streams := []*harness.Stream{
		f.StartStream(t, "internet", byCloud), f.StartStream(t, "internet", byPublic),
		f.StartStream(t, f.public.Client, byPublic), f.StartStream(t, "web."+f.shop, harness.InternetAddress),
	}
	f.expectEgressAs(t, "web."+f.shop, byCloud)
	harness.ExpectStreamsContinue(t, "by both networks", streams...)
}

func (f *themeFixture) checkDownload(t *testing.T) {
	address := f.createFIP(t, "bulk", "public", "db")
	f.Download(t, "internet", address, 8)
	f.Download(t, f.public.Client, address, 8)
}

// shopProject is project shop as harness functions for load balancers take it.
func (f *themeFixture) shopProject() *harness.BackendProject {
	return &harness.BackendProject{Cluster: f.Cluster, Namespace: f.shop, Pods: f.pods}
}

func (f *themeFixture) checkBackends(t *testing.T) {
	h := f.shopProject()
	for _, x := range []harness.ExternalNetwork{f.cloud, f.public} {
		address := h.CreateService(t, harness.ServiceSpec{
			Name: "by-" + x.Client, Annotations: "network.kube-dc.com/external-network-type: " +
				strings.TrimPrefix(x.Client, "client-ext-"),
		})
		h.ExpectBackends(t, "internet", "http://"+address, harness.InternetAddress, "web", "db")
		h.ExpectBackends(t, x.Client, "http://"+address, x.ClientAddress, "web", "db")
		h.ExpectBackends(t, "cli."+f.shop, "http://"+address, f.pods["cli"], "web", "db")
		h.ExpectSilence(t, "internet", "http://"+address+":81") // no port of the Service
	}
}

// checkSourceRanges admits one client; others get no answer, and do when the ranges are gone.
func (f *themeFixture) checkSourceRanges(t *testing.T) {
	h := f.shopProject()
	w := harness.ServiceSpec{
		Name: "ranged", Annotations: "network.kube-dc.com/external-network-type: public",
		ExtraFields: ", loadBalancerSourceRanges: [" + f.public.ClientAddress + "/32]",
	}
	address := h.CreateService(t, w)
	h.ExpectBackends(t, f.public.Client, "http://"+address, f.public.ClientAddress, "web", "db")
	h.ExpectSilence(t, "internet", "http://"+address)
	h.ExpectSilence(t, f.public.Neighbour, "http://"+address)
	w.ExtraFields = ", loadBalancerSourceRanges: []"
	h.ApplyService(t, w)
	harness.Eventually(t, "others are admitted", func() bool {
		_, err := h.SendRequest("internet", "http://"+address)
		return err == nil
	})
	h.ExpectBackends(t, f.public.Neighbour, "http://"+address, f.public.NeighbourAddress, "web", "db")
}

func (f *themeFixture) checkNoEndpoints(t *testing.T) {
	h := f.shopProject()
	address := h.CreateService(t, harness.ServiceSpec{Name: "empty", Selector: "{tier: late}"})
	refused := func() bool {
		_, err := h.SendRequest("internet", "http://"+address)
		return err != nil && strings.Contains(err.Error(), "refused")
	}
	if !refused() {
		t.Error("without endpoints a connection is not refused")
	}
	pod := "Pod " + f.shop + " cli"
	f.SetLabel(t, pod, "tier", "late")
	harness.Eventually(t, "an endpoint", func() bool { return !refused() })
	f.SyncFlows(t)
	h.ExpectAnswer(t, "internet", "http://"+address, "cli", harness.InternetAddress)
	f.SetLabel(t, pod, "tier", "-")
	harness.Eventually(t, "no endpoint", refused)
}

// checkAffinity compares a Service with session affinity with one that has none.
func (f *themeFixture) checkAffinity(t *testing.T) {
	h := f.shopProject()
	sticky := h.CreateService(t, harness.ServiceSpec{Name: "sticky", ExtraFields: ", sessionAffinity: ClientIP"})
	first, err := h.SendRequest("internet", "http://"+sticky)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		h.ExpectAnswer(t, "internet", "http://"+sticky, first.Name, harness.InternetAddress)
	}
	loose := h.CreateService(t, harness.ServiceSpec{Name: "loose"})
	h.ExpectBackends(t, "internet", "http://"+loose, harness.InternetAddress, "web", "db")
}

// createEgressIP creates an EgressIP with egressAddress for a pod by its label app, in a namespace by a label.
func (f *themeFixture) createEgressIP(t *testing.T, name, namespaceLabel, pod string) {
	t.Helper()
	f.Apply(t, fmt.Sprintf(`{apiVersion: k8s.ovn.org/v1, kind: EgressIP, metadata: {name: %s}, spec: {egressIPs: [%s],
  namespaceSelector: {matchLabels: {%s}}, podSelector: {matchLabels: {app: %s}}}}`, name, egressAddress, namespaceLabel, pod))
	f.WaitProgrammedOnNodes(t, "EgressIP", "", name)
}

const shopLabel = "kube-dc.com/project: shop"

func (f *themeFixture) checkSelectedPods(t *testing.T) {
	f.expectEgressAs(t, "web."+f.shop, f.projectAddress(t))
	f.createEgressIP(t, "selected", shopLabel, "web")
	f.expectEgressAs(t, "web."+f.shop, egressAddress)
	f.expectAnswers(t, "web."+f.shop, f.public.NeighbourAddress, f.public.Neighbour, egressAddress)
	f.expectEgressAs(t, "db."+f.shop, f.projectAddress(t)) // not selected
	f.expectAnswers(t, "web."+f.shop, f.pods["db"], "db", f.pods["web"])
	f.DeleteAndWait(t, "EgressIP", "", "selected")
	f.expectEgressAs(t, "web."+f.shop, f.projectAddress(t))
}

// checkEgressRoute leads one pod to some destinations through the secondary network.
func (f *themeFixture) checkEgressRoute(t *testing.T) {
	gateway := f.projectAddress(t)
	f.Apply(t, fmt.Sprintf(`{apiVersion: kube-dc.com/v1alpha1, kind: EgressRoute, metadata: {name: partners, namespace: %s},
  spec: {podSelector: {matchLabels: {app: web}}, destinations: [203.0.113.0/24], externalNetworkType: public}}`, f.shop))
	f.WaitProgrammedOnNodes(t, "EgressRoute", f.shop, "partners")
	as := f.ReadField(t, "EgressRoute", f.shop, "partners", "status", "externalIP")
	if as == "" || as == gateway {
		t.Fatalf("the pod is to leave as %q, without the EgressRoute as %s", as, gateway)
	}
	f.expectEgressAs(t, "web."+f.shop, as)
	f.expectEgressAs(t, "db."+f.shop, gateway)                                              // not selected
	f.expectAnswers(t, "web."+f.shop, f.cloud.NeighbourAddress, f.cloud.Neighbour, gateway) // no destination
	f.DeleteAndWait(t, "EgressRoute", f.shop, "partners")
	f.expectEgressAs(t, "web."+f.shop, gateway)
}

// checkEgressService lets a Service's pod leave with the Service's address.
func (f *themeFixture) checkEgressService(t *testing.T) {
	gateway := f.projectAddress(t)
	address := f.shopProject().CreateService(t, harness.ServiceSpec{Name: "front", Selector: "{app: web}"})
	f.expectEgressAs(t, "web."+f.shop, gateway)
	f.Apply(t, fmt.Sprintf(`{apiVersion: k8s.ovn.org/v1, kind: EgressService, metadata: {name: front, namespace: %s},
  spec: {sourceIPBy: LoadBalancerIP}}`, f.shop))
	f.WaitProgrammedOnNodes(t, "EgressService", f.shop, "front")
	f.expectEgressAs(t, "web."+f.shop, address)
	f.expectEgressAs(t, "db."+f.shop, gateway)
	f.ExpectAnswer(t, "internet", "http://"+address, "web", harness.InternetAddress)
}
