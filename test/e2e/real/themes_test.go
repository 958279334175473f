package real

import (
	"strings"
	"testing"

	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// minThemeChecks is how many checks each theme has at least.
const minThemeChecks = 3

// platformNamespace is a namespace of Kube-OVN's default VPC.
const platformNamespace = "mail"

// themeFixture is a lab with two real nodes and the chart. Project shop has the pods web on node1 and db on node2, both
// with the label role=backend, and cli on node1. Project rival has the pod mallory, and platformNamespace the pods s1 on
// node1 and s2 on node2. Both nodes may hold gateways and egress addresses.
type themeFixture struct {
	*release
	shop, rival   string            // namespaces
	pods          map[string]string // addresses by name
	public, cloud harness.ExternalNetwork
}

// themeCheck is one check of a theme, with packets.
type themeCheck struct {
	what  string
	run   func(*themeFixture, *testing.T)
	drops bool // the check makes routers outside drop packets
}

// themes are the main packet tests of the themes.
var themes = []struct {
	name   string
	checks []themeCheck
}{
	{"address", []themeCheck{
		{what: "pods leave with their project's address", run: (*themeFixture).checkProjectAddress},
		{what: "a floating IP in both directions", run: (*themeFixture).checkFloatingIP},
		{what: "an address answers only while it has a FIp", run: (*themeFixture).checkOnlyWithFIP},
		{what: "a floating IP moves to a pod on the other node", run: (*themeFixture).checkRetarget},
	}},
	{"returnpath", []themeCheck{
		{what: "one pod answers on two networks, on both nodes", run: (*themeFixture).checkTwoNetworks},
		{what: "streams by both networks at once", run: (*themeFixture).checkStreamsAtOnce},
		{what: "8 MiB by the secondary network", run: (*themeFixture).checkDownload},
	}},
	{"loadbalancer", []themeCheck{
		{what: "backends on both nodes see the client", run: (*themeFixture).checkBackends},
		{what: "source ranges", run: (*themeFixture).checkSourceRanges},
		{what: "refused without endpoints", run: (*themeFixture).checkNoEndpoints},
		{what: "session affinity", run: (*themeFixture).checkAffinity},
	}},
	{"egress", []themeCheck{
		{what: "EgressIP for selected pods", run: (*themeFixture).checkSelectedPods},
		{what: "EgressRoute", run: (*themeFixture).checkEgressRoute},
		{what: "EgressService", run: (*themeFixture).checkEgressService},
	}},
	{"tenancy", []themeCheck{
		{what: "another project's pod does not reach a pod", run: (*themeFixture).checkOtherProject},
		{what: "crafted frames", run: (*themeFixture).checkCraftedFrames, drops: true},
		{what: "another project's address", run: (*themeFixture).checkClaimedAddress},
		{what: "isolation of tenants on a network", run: (*themeFixture).checkIsolation},
	}},
	{"view", []themeCheck{
		{what: "trace agrees with packets", run: (*themeFixture).checkTraces},
		{what: "trace --live agrees with OVN's flows", run: (*themeFixture).checkLiveTrace},
		{what: "explain and doctor agree with packets", run: (*themeFixture).checkExplanations},
		{what: "trace through the relay and a kubelet's port-forward", run: (*themeFixture).checkRelay},
	}},
	{"nodes", []themeCheck{
		{what: "a server on the host network answers by the second uplink", run: (*themeFixture).checkHostServer, drops: true},
		{what: "a pod behind kube-proxy answers by the second uplink", run: (*themeFixture).checkProxiedPod, drops: true},
		{what: "method Static", run: (*themeFixture).checkStaticMethod, drops: true},
	}},
	{"platform", []themeCheck{
		{what: "pods leave with their nodes' addresses", run: (*themeFixture).checkNodeEgress},
		{what: "a floating IP", run: (*themeFixture).checkPlatformFIP},
		{what: "a Service", run: (*themeFixture).checkPlatformService},
		{what: "EgressIP", run: (*themeFixture).checkPlatformEgressIP},
	}},
}

// TestReal3Themes runs the main packet tests of the themes on real nodes, with the chart.
func TestReal3Themes(t *testing.T) {
	item := realItems.Item(t, 3)
	f := newThemeFixture(t)
	for _, theme := range themes {
		if len(theme.checks) < minThemeChecks {
			t.Errorf("theme %s has %d checks, wanted at least %d", theme.name, len(theme.checks), minThemeChecks)
		}
		t.Run(theme.name, func(t *testing.T) {
			var passed []string
			for _, c := range theme.checks {
				ran := false // false if -run excludes it
				if t.Run(c.what, func(t *testing.T) { ran = true; f.runCheck(t, c) }) && ran {
					passed = append(passed, c.what)
				}
			}
			item.AddFigure("%s: %d of %d checks: %s", theme.name, len(passed), len(theme.checks), strings.Join(passed, "; "))
		})
	}
	f.waitHealthy(t)
}

// runCheck runs one check. Routers outside drop nothing, unless the check makes them.
func (f *themeFixture) runCheck(t *testing.T, c themeCheck) {
	t.Helper()
	f.SyncFlows(t)
	f.ResetDrops(t)
	c.run(f, t)
	if !c.drops {
		f.ExpectNoDrops(t)
	}
}

// newThemeFixture starts the lab, installs the chart and creates the projects and pods.
func newThemeFixture(t *testing.T) *themeFixture {
	t.Helper()
	c := harness.StartLab(t, "themes", harness.LoadTopology(t, "real.yaml"))
	f := &themeFixture{
		release: newRelease(t, c, "defaults: {clusterPrefixes: [10.96.0.0/12, 10.16.0.0/16]}\n"),
		pods:    map[string]string{}, public: c.Network(t, "public"), cloud: c.Network(t, "cloud"),
	}
	f.importImage(t)
	f.install(t)
	for _, node := range c.Blueprint.NodeList() {
		f.SetLabel(t, "Node "+node.Name, ovnv1.AssignableLabel, "")
	}
	f.CreateOrganization(t, "themes")
	f.shop = f.CreateProject(t, "themes", "shop", "10.90.0.0/24", "cloud")
	f.rival = f.CreateProject(t, "themes", "rival", "10.91.0.0/24", "cloud")
	f.CreateNamespace(t, platformNamespace, "")
	f.SetLabel(t, "Namespace "+platformNamespace, "egress", "mail")
	backend := map[string]string{"role": "backend"}
	for _, p := range []harness.Pod{
		{Namespace: f.shop, Name: "web", Node: "node1", Labels: backend},
		{Namespace: f.shop, Name: "db", Node: "node2", Labels: backend},
		{Namespace: f.shop, Name: "cli", Node: "node1"},
		{Namespace: f.rival, Name: "mallory", Node: "node2"},
		{Namespace: platformNamespace, Name: "s1", Node: "node1", Labels: backend},
		{Namespace: platformNamespace, Name: "s2", Node: "node2", Labels: backend},
	} {
		f.pods[p.Name] = f.RunPod(t, p)
	}
	return f
}

// createFIP creates a floating IP of a pod of project shop.
func (f *themeFixture) createFIP(t *testing.T, name, network, pod string) string {
	t.Helper()
	return f.CreateFIP(t, f.shop, name, "{externalNetworkType: "+network+", podTarget: {podName: "+pod+"}}")
}

// projectAddress returns the address with which pods of project shop leave.
func (f *themeFixture) projectAddress(t *testing.T) string {
	t.Helper()
	return f.ReadField(t, "EIp", f.shop, "default-gw", "status", "ipAddress")
}

// expectAnswers runs ExpectAnswer for each protocol that containers speak.
func (f *themeFixture) expectAnswers(t *testing.T, where, address, name, saw string) {
	t.Helper()
	for _, protocol := range containerProtocols {
		f.ExpectAnswer(t, where, protocol+"://"+address+":80", name, saw)
	}
}

// expectInbound sends requests to an address from the internet, and from the client and the neighbour of a network.
func (f *themeFixture) expectInbound(t *testing.T, x harness.ExternalNetwork, address, name string) {
	t.Helper()
	f.expectAnswers(t, "internet", address, name, harness.InternetAddress)
	f.expectAnswers(t, x.Client, address, name, x.ClientAddress)
	f.expectAnswers(t, x.Neighbour, address, name, x.NeighbourAddress)
}

// expectEgressAs waits until a pod leaves with an address.
func (f *themeFixture) expectEgressAs(t *testing.T, pod, as string) {
	t.Helper()
	f.ExpectEgressAs(t, pod, as, containerProtocols...)
}
