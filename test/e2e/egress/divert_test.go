package egress

import (
	"fmt"
	"net/netip"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// createLoadBalancer creates a Service of type LoadBalancer for the pods of an app, and returns its address.
func (y *egressFixture) createLoadBalancer(t *testing.T, ns, name, app, annotations string) string {
	t.Helper()
	y.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: %s, annotations: {%s}}, spec: {type: LoadBalancer, selector: {app: %s}, ports: [{port: 80}]}}",
		name, ns, annotations, app))
	y.WaitForObject(t, "Service", ns, name, func(o *unstructured.Unstructured) bool {
		return harness.IngressIP(o) != "" && manifest.True("Programmed")(o)
	})
	o, err := y.Objects.Get(harness.Within(t, harness.Patience), harness.ObjectRef("Service", ns, name))
	if err != nil {
		t.Fatal(err)
	}
	return harness.IngressIP(o)
}

// createEgressPolicy creates an EgressRoute or EgressService, waits until it is Programmed, and returns the source
// address.
func (y *egressFixture) createEgressPolicy(t *testing.T, kind, ns, name, spec string) string {
	t.Helper()
	y.applyEgressPolicy(t, kind, ns, name, spec)
	y.WaitProgrammedOnNodes(t, kind, ns, name)
	y.syncAndResetDrops(t)
	return y.ReadField(t, kind, ns, name, "status", "externalIP")
}

func (y *egressFixture) applyEgressPolicy(t *testing.T, kind, ns, name, spec string) {
	t.Helper()
	group := map[string]string{"EgressRoute": "kube-dc.com/v1alpha1", "EgressService": "k8s.ovn.org/v1"}[kind]
	y.Apply(t, fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: %s, namespace: %s}, spec: {%s}}", group, kind,
		name, ns, spec))
}

// networkPrefix returns the prefix of an external network.
func (y *egressFixture) networkPrefix(t *testing.T, kind string) netip.Prefix {
	t.Helper()
	for _, n := range y.Blueprint.Networks {
		if n.Name == "ext-"+kind {
			return n.Prefixes[0]
		}
	}
	t.Fatalf("the lab has no network ext-%s", kind)
	return netip.Prefix{}
}

// checkEgressRoute shows that selected pods reach some destinations through another network with an address of that
// network, and that all other traffic and all replies are unaffected.
func (y *egressFixture) checkEgressRoute(t *testing.T) string {
	y.replacePods(t)
	ns, own := y.namespaces[0], y.projectAddress(t, "one")
	a, b := "a."+ns, "b."+ns
	public, cloud := y.Network(t, "public"), y.Network(t, "cloud")
	floating := y.CreateFIP(t, ns, "default", "{podTarget: {podName: a}, externalNetworkType: cloud}")
	y.SyncFlows(t)
	y.expectEgressAs(t, a, floating) // a pod leaves with its floating IP on the default network
	old := y.StartStream(t, "internet", floating)

	as := y.createEgressPolicy(t, "EgressRoute", ns, "partners",
		"podSelector: {matchLabels: {app: a}}, destinations: [203.0.113.0/24], externalNetworkType: public")
	if !y.networkPrefix(t, "public").Contains(netip.MustParseAddr(as)) {
		t.Fatalf("pods are to leave as %s, which is not of the network", as)
	}
	y.expectEgressAs(t, a, as)
	y.syncAndResetDrops(t)
	for range 2 {
		y.expectEgressAs(t, a, as)
		y.expectEgressAs(t, b, own)
		y.ExpectAnswers(t, a, cloud.NeighbourAddress, cloud.Neighbour, floating)
		// not a destination, although on the same network
		y.ExpectAnswers(t, a, public.NeighbourAddress, public.Neighbour, floating)
		// the reply leaves through the default network
		y.ExpectAnswer(t, "internet", "http://"+floating, "a", harness.InternetAddress)
	}
	longest := harness.ExpectStreamsContinue(t, "with an EgressRoute", old,
		y.StartStream(t, "internet", floating))
	y.ExpectNoDrops(t)

	near := y.createEgressPolicy(t, "EgressRoute", ns, "wire", "podSelector: {matchLabels: {app: a}}, destinations: ["+
		y.networkPrefix(t, "public").String()+"], externalNetwork: ext-public")
	y.ExpectAnswers(t, a, public.NeighbourAddress, public.Neighbour, near)
	y.SetLabel(t, "Pod "+ns+" b", "app", "a")
	y.expectEgressAs(t, b, as)
	y.SetLabel(t, "Pod "+ns+" b", "app", "b")
	y.expectEgressAs(t, b, own)
	y.DeleteAndWait(t, "EgressRoute", ns, "partners")
	y.expectEgressAs(t, a, floating)

	y.applyEgressPolicy(t, "EgressRoute", ns, "moon", "destinations: [203.0.113.0/24], externalNetworkType: moon")
	y.waitCondition(t, harness.ObjectRef("EgressRoute", ns, "moon"), "ResolvedRefs", "NetworkNotFound")
	return fmt.Sprintf("to 203.0.113.0/24 one pod left as %s of the other network, its neighbour and other destinations as ever; "+
		"a floating IP on the default network answered all the time (longest silence %d ms)", as,
		longest.Milliseconds())
}

// checkEgressService shows that pods behind a load balancer leave with its address, on any network, or through a
// network with the project's address on it.
func (y *egressFixture) checkEgressService(t *testing.T) string {
	y.replacePods(t)
	ns, own := y.namespaces[0], y.projectAddress(t, "one")
	a, b := "a."+ns, "b."+ns
	public := y.Network(t, "public")
	web := y.createLoadBalancer(t, ns, "web", "a", "")
	y.expectEgressAs(t, a, own)
	as := y.createEgressPolicy(t, "EgressService", ns, "web",
		"sourceIPBy: LoadBalancerIP, nodeSelector: {matchLabels: {kubernetes.io/hostname: node2}}")
	if host := y.ReadField(t, "EgressService", ns, "web", "status", "host"); as != web || host != "ALL" {
		t.Errorf("the Service has %s, and its pods are to leave as %s by host %q", web, as, host)
	}
	y.expectEgressAs(t, a, web)
	y.expectEgressAs(t, b, own)
	y.ExpectAnswers(t, a, public.NeighbourAddress, public.Neighbour, web)
	y.ExpectAnswer(t, "internet", "http://"+web, "a", harness.InternetAddress)

	mail := y.createLoadBalancer(t, ns, "mail", "b",
		`k8s.ovn.org/egress-service: "{}", network.kube-dc.com/external-network-type: public`)
	y.syncAndResetDrops(t)
	y.expectEgressAs(t, b, mail)
	y.expectEgressAs(t, a, web)
	y.ExpectAnswers(t, b, public.NeighbourAddress, public.Neighbour, mail)
	y.ExpectAnswer(t, "internet", "http://"+mail, "b", harness.InternetAddress)
	y.ExpectNoDrops(t)

	by := y.createEgressPolicy(t, "EgressService", ns, "web", "sourceIPBy: Network, network: public")
	if !y.networkPrefix(t, "public").Contains(netip.MustParseAddr(by)) || by == mail {
		t.Errorf("pods are to leave as %s", by)
	}
	y.expectEgressAs(t, a, by)
	y.ExpectAnswer(t, "internet", "http://"+web, "a", harness.InternetAddress)
	y.ExpectNoDrops(t)

	y.applyEgressPolicy(t, "EgressService", ns, "web", "sourceIPBy: LoadBalancerIP, network: public")
	y.waitCondition(t, harness.ObjectRef("EgressService", ns, "web"), "Accepted", "AddressOfAnotherNetwork")
	y.expectEgressAs(t, a, own)
	y.applyEgressPolicy(t, "EgressService", ns, "nobody", "")
	y.waitCondition(t, harness.ObjectRef("EgressService", ns, "nobody"), "ResolvedRefs", "ServiceNotFound")
	return fmt.Sprintf("pods left as %s of the default network, as %s of another by annotation, and by that network as %s; the load balancers answered", web, mail, by)
}
