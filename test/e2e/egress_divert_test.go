package e2e

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
)

// balancer makes a Service of type LoadBalancer for the pods of an app, and returns its address.
func (y *yard) balancer(t *testing.T, ns, name, app, annotations string) string {
	t.Helper()
	y.apply(t, fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: %s, annotations: {%s}}, spec: {type: LoadBalancer, selector: {app: %s}, ports: [{port: 80}]}}",
		name, ns, annotations, app))
	y.wait(t, "Service", ns, name, func(o *unstructured.Unstructured) bool { return ingress(o) != "" && manifest.True("Programmed")(o) })
	o, err := y.objects.Get(within(t, time.Minute), ref("Service", ns, name))
	if err != nil {
		t.Fatal(err)
	}
	return ingress(o)
}

// diverts makes an EgressRoute or EgressService, waits until it is in force, and returns the address with which pods leave.
func (y *yard) diverts(t *testing.T, kind, ns, name, spec string) string {
	t.Helper()
	y.divert(t, kind, ns, name, spec)
	y.takesEffect(t, kind, ns, name)
	y.fromHere(t)
	return y.field(t, kind, ns, name, "status", "externalIP")
}

func (y *yard) divert(t *testing.T, kind, ns, name, spec string) {
	t.Helper()
	group := map[string]string{"EgressRoute": "kube-dc.com/v1alpha1", "EgressService": "k8s.ovn.org/v1"}[kind]
	y.apply(t, fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: %s, namespace: %s}, spec: {%s}}", group, kind, name, ns, spec))
}

// prefix is the prefix of an external network.
func (y *yard) prefix(t *testing.T, kind string) netip.Prefix {
	t.Helper()
	for _, n := range y.blueprint.Networks {
		if n.Name == "ext-"+kind {
			return n.Prefixes[0]
		}
	}
	t.Fatalf("the lab has no network ext-%s", kind)
	return netip.Prefix{}
}

// byDestination: selected pods leave to some destinations by another network with its address; everything else, and what came in by any
// network, is as before.
func (y *yard) byDestination(t *testing.T) string {
	y.anew(t)
	ns, own := y.namespaces[0], y.own(t, "one")
	a, b := "a."+ns, "b."+ns
	public, cloud := y.network(t, "public"), y.network(t, "cloud")
	floating := y.fip(t, ns, "default", "{podTarget: {podName: a}, externalNetworkType: cloud}")
	y.sync(t)
	y.leaves(t, a, floating) // a floating IP of the default network is what its pod leaves with
	old := y.stream(t, "internet", floating)

	as := y.diverts(t, "EgressRoute", ns, "partners", "podSelector: {matchLabels: {app: a}}, destinations: [203.0.113.0/24], externalNetworkType: public")
	if !y.prefix(t, "public").Contains(netip.MustParseAddr(as)) {
		t.Fatalf("pods are to leave as %s, which is not of the network", as)
	}
	y.leaves(t, a, as)
	y.fromHere(t)
	for range 2 {
		y.leaves(t, a, as)
		y.leaves(t, b, own)
		y.everyWay(t, a, cloud.neighbourAddress, cloud.neighbour, floating)
		y.everyWay(t, a, public.neighbourAddress, public.neighbour, floating) // not a destination, though of the same network
		y.answers(t, "internet", "http://"+floating, "a", theInternet)        // the reply goes back by the default network
	}
	longest := survive(t, "with an EgressRoute", 3*time.Second, old, y.stream(t, "internet", floating))
	y.noDrops(t)

	near := y.diverts(t, "EgressRoute", ns, "wire", "podSelector: {matchLabels: {app: a}}, destinations: ["+y.prefix(t, "public").String()+"], externalNetwork: ext-public")
	y.everyWay(t, a, public.neighbourAddress, public.neighbour, near)
	y.label(t, "Pod "+ns+" b", "app", "a")
	y.leaves(t, b, as)
	y.label(t, "Pod "+ns+" b", "app", "b")
	y.leaves(t, b, own)
	y.remove(t, "EgressRoute", ns, "partners")
	y.leaves(t, a, floating)

	y.divert(t, "EgressRoute", ns, "moon", "destinations: [203.0.113.0/24], externalNetworkType: moon")
	y.tells(t, ref("EgressRoute", ns, "moon"), "ResolvedRefs", "NetworkNotFound")
	return fmt.Sprintf("to 203.0.113.0/24 one pod left as %s of the other network, its neighbour and other destinations as ever; "+
		"a floating IP on the default network answered all the time (longest silence %d ms)", as, longest.Milliseconds())
}

// behindService: pods behind a load balancer leave with its address, on any network, or by a network with the project's address there.
func (y *yard) behindService(t *testing.T) string {
	y.anew(t)
	ns, own := y.namespaces[0], y.own(t, "one")
	a, b := "a."+ns, "b."+ns
	public := y.network(t, "public")
	web := y.balancer(t, ns, "web", "a", "")
	y.leaves(t, a, own)
	as := y.diverts(t, "EgressService", ns, "web", "sourceIPBy: LoadBalancerIP, nodeSelector: {matchLabels: {kubernetes.io/hostname: node2}}")
	if host := y.field(t, "EgressService", ns, "web", "status", "host"); as != web || host != "ALL" {
		t.Errorf("the Service has %s, and its pods are to leave as %s by host %q", web, as, host)
	}
	y.leaves(t, a, web)
	y.leaves(t, b, own)
	y.everyWay(t, a, public.neighbourAddress, public.neighbour, web)
	y.answers(t, "internet", "http://"+web, "a", theInternet)

	mail := y.balancer(t, ns, "mail", "b", `k8s.ovn.org/egress-service: "{}", network.kube-dc.com/external-network-type: public`)
	y.fromHere(t)
	y.leaves(t, b, mail)
	y.leaves(t, a, web)
	y.everyWay(t, b, public.neighbourAddress, public.neighbour, mail)
	y.answers(t, "internet", "http://"+mail, "b", theInternet)
	y.noDrops(t)

	by := y.diverts(t, "EgressService", ns, "web", "sourceIPBy: Network, network: public")
	if !y.prefix(t, "public").Contains(netip.MustParseAddr(by)) || by == mail {
		t.Errorf("pods are to leave as %s", by)
	}
	y.leaves(t, a, by)
	y.answers(t, "internet", "http://"+web, "a", theInternet)
	y.noDrops(t)

	y.divert(t, "EgressService", ns, "web", "sourceIPBy: LoadBalancerIP, network: public")
	y.tells(t, ref("EgressService", ns, "web"), "Accepted", "AddressOfAnotherNetwork")
	y.leaves(t, a, own)
	y.divert(t, "EgressService", ns, "nobody", "")
	y.tells(t, ref("EgressService", ns, "nobody"), "ResolvedRefs", "ServiceNotFound")
	return fmt.Sprintf("pods left as %s of the default network, as %s of another by annotation, and by that network as %s; the load balancers answered", web, mail, by)
}
