package egress

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// balancer makes a Service of type LoadBalancer for the pods of an app, and returns its address.
func (y *egressLab) balancer(t *testing.T, ns, name, app, annotations string) string {
	t.Helper()
	y.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: %s, annotations: {%s}}, spec: {type: LoadBalancer, selector: {app: %s}, ports: [{port: 80}]}}",
		name, ns, annotations, app))
	y.Wait(t, "Service", ns, name, func(o *unstructured.Unstructured) bool {
		return harness.Ingress(o) != "" && manifest.True("Programmed")(o)
	})
	o, err := y.Objects.Get(harness.Within(t, time.Minute), harness.Ref("Service", ns, name))
	if err != nil {
		t.Fatal(err)
	}
	return harness.Ingress(o)
}

// diverts makes an EgressRoute or EgressService, waits until it is in force, and returns the address with which pods leave.
func (y *egressLab) diverts(t *testing.T, kind, ns, name, spec string) string {
	t.Helper()
	y.divert(t, kind, ns, name, spec)
	y.WaitInForce(t, kind, ns, name)
	y.fromHere(t)
	return y.ReadField(t, kind, ns, name, "status", "externalIP")
}

func (y *egressLab) divert(t *testing.T, kind, ns, name, spec string) {
	t.Helper()
	group := map[string]string{"EgressRoute": "kube-dc.com/v1alpha1", "EgressService": "k8s.ovn.org/v1"}[kind]
	y.Apply(t, fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: %s, namespace: %s}, spec: {%s}}", group, kind, name, ns, spec))
}

// prefix is the prefix of an external network.
func (y *egressLab) prefix(t *testing.T, kind string) netip.Prefix {
	t.Helper()
	for _, n := range y.Blueprint.Networks {
		if n.Name == "ext-"+kind {
			return n.Prefixes[0]
		}
	}
	t.Fatalf("the lab has no network ext-%s", kind)
	return netip.Prefix{}
}

// byDestination: selected pods leave to some destinations by another network with its address; everything else, and what came in by any
// network, is as before.
func (y *egressLab) byDestination(t *testing.T) string {
	y.anew(t)
	ns, own := y.namespaces[0], y.own(t, "one")
	a, b := "a."+ns, "b."+ns
	public, cloud := y.Network(t, "public"), y.Network(t, "cloud")
	floating := y.CreateFIP(t, ns, "default", "{podTarget: {podName: a}, externalNetworkType: cloud}")
	y.SyncFlows(t)
	y.leaves(t, a, floating) // a floating IP of the default network is what its pod leaves with
	old := y.StartStream(t, "internet", floating)

	as := y.diverts(t, "EgressRoute", ns, "partners", "podSelector: {matchLabels: {app: a}}, destinations: [203.0.113.0/24], externalNetworkType: public")
	if !y.prefix(t, "public").Contains(netip.MustParseAddr(as)) {
		t.Fatalf("pods are to leave as %s, which is not of the network", as)
	}
	y.leaves(t, a, as)
	y.fromHere(t)
	for range 2 {
		y.leaves(t, a, as)
		y.leaves(t, b, own)
		y.ExpectAnswers(t, a, cloud.NeighbourAddress, cloud.Neighbour, floating)
		y.ExpectAnswers(t, a, public.NeighbourAddress, public.Neighbour, floating)      // not a destination, though of the same network
		y.ExpectAnswer(t, "internet", "http://"+floating, "a", harness.InternetAddress) // the reply goes back by the default network
	}
	longest := harness.ExpectSurvival(t, "with an EgressRoute", 3*time.Second, old, y.StartStream(t, "internet", floating))
	y.ExpectNoDrops(t)

	near := y.diverts(t, "EgressRoute", ns, "wire", "podSelector: {matchLabels: {app: a}}, destinations: ["+y.prefix(t, "public").String()+"], externalNetwork: ext-public")
	y.ExpectAnswers(t, a, public.NeighbourAddress, public.Neighbour, near)
	y.SetLabel(t, "Pod "+ns+" b", "app", "a")
	y.leaves(t, b, as)
	y.SetLabel(t, "Pod "+ns+" b", "app", "b")
	y.leaves(t, b, own)
	y.Remove(t, "EgressRoute", ns, "partners")
	y.leaves(t, a, floating)

	y.divert(t, "EgressRoute", ns, "moon", "destinations: [203.0.113.0/24], externalNetworkType: moon")
	y.tells(t, harness.Ref("EgressRoute", ns, "moon"), "ResolvedRefs", "NetworkNotFound")
	return fmt.Sprintf("to 203.0.113.0/24 one pod left as %s of the other network, its neighbour and other destinations as ever; "+
		"a floating IP on the default network answered all the time (longest silence %d ms)", as, longest.Milliseconds())
}

// behindService: pods behind a load balancer leave with its address, on any network, or by a network with the project's address there.
func (y *egressLab) behindService(t *testing.T) string {
	y.anew(t)
	ns, own := y.namespaces[0], y.own(t, "one")
	a, b := "a."+ns, "b."+ns
	public := y.Network(t, "public")
	web := y.balancer(t, ns, "web", "a", "")
	y.leaves(t, a, own)
	as := y.diverts(t, "EgressService", ns, "web", "sourceIPBy: LoadBalancerIP, nodeSelector: {matchLabels: {kubernetes.io/hostname: node2}}")
	if host := y.ReadField(t, "EgressService", ns, "web", "status", "host"); as != web || host != "ALL" {
		t.Errorf("the Service has %s, and its pods are to leave as %s by host %q", web, as, host)
	}
	y.leaves(t, a, web)
	y.leaves(t, b, own)
	y.ExpectAnswers(t, a, public.NeighbourAddress, public.Neighbour, web)
	y.ExpectAnswer(t, "internet", "http://"+web, "a", harness.InternetAddress)

	mail := y.balancer(t, ns, "mail", "b", `k8s.ovn.org/egress-service: "{}", network.kube-dc.com/external-network-type: public`)
	y.fromHere(t)
	y.leaves(t, b, mail)
	y.leaves(t, a, web)
	y.ExpectAnswers(t, b, public.NeighbourAddress, public.Neighbour, mail)
	y.ExpectAnswer(t, "internet", "http://"+mail, "b", harness.InternetAddress)
	y.ExpectNoDrops(t)

	by := y.diverts(t, "EgressService", ns, "web", "sourceIPBy: Network, network: public")
	if !y.prefix(t, "public").Contains(netip.MustParseAddr(by)) || by == mail {
		t.Errorf("pods are to leave as %s", by)
	}
	y.leaves(t, a, by)
	y.ExpectAnswer(t, "internet", "http://"+web, "a", harness.InternetAddress)
	y.ExpectNoDrops(t)

	y.divert(t, "EgressService", ns, "web", "sourceIPBy: LoadBalancerIP, network: public")
	y.tells(t, harness.Ref("EgressService", ns, "web"), "Accepted", "AddressOfAnotherNetwork")
	y.leaves(t, a, own)
	y.divert(t, "EgressService", ns, "nobody", "")
	y.tells(t, harness.Ref("EgressService", ns, "nobody"), "ResolvedRefs", "ServiceNotFound")
	return fmt.Sprintf("pods left as %s of the default network, as %s of another by annotation, and by that network as %s; the load balancers answered", web, mail, by)
}
