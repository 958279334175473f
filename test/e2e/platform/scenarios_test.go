package platform

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// The checks of this file are scenarios of OVN-Kubernetes' end-to-end tests. scenariolist_test.go lists all scenarios.

// Addresses of EgressIPs that these checks create.
const firstAddress, secondAddress, thirdAddress = "198.51.100.211", "198.51.100.212", "198.51.100.213"

// assignedNodes returns the node of each address of an EgressIP, from its status.
func (p *platformFixture) assignedNodes(t *testing.T, name string) map[string]string {
	t.Helper()
	e := &ovnv1.EgressIP{}
	if err := p.NewDirectClient(t, nil).Get(harness.Within(t, harness.Patience), client.ObjectKey{Name: name}, e); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, item := range e.Status.Items {
		out[item.EgressIP] = item.Node
	}
	return out
}

// waitAssigned waits until nodes hold the given addresses of an EgressIP and no others.
func (p *platformFixture) waitAssigned(t *testing.T, name string, addresses ...string) (nodes map[string]string) {
	t.Helper()
	harness.Eventually(t, fmt.Sprintf("%s has %v", name, addresses), func() bool {
		nodes = p.assignedNodes(t, name)
		return slices.Equal(slices.Sorted(maps.Keys(nodes)), slices.Sorted(slices.Values(addresses)))
	})
	return nodes
}

// expectEgressAsAll waits until connections of a pod leave with each of the addresses and with no other.
func (p *platformFixture) expectEgressAsAll(t *testing.T, pod string, addresses ...string) {
	t.Helper()
	var seen map[string]int
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("of %s the internet host saw %v last", pod, seen)
		}
	})
	harness.Eventually(t, fmt.Sprintf("%s leaves as %v", pod, addresses), func() bool {
		seen = map[string]int{}
		for range 12 * len(addresses) {
			a, err := p.SendRequest(pod, "http://"+harness.InternetAddress)
			if err != nil {
				return false
			}
			seen[a.Saw.Addr().String()]++
		}
		return slices.Equal(slices.Sorted(maps.Keys(seen)), slices.Sorted(slices.Values(addresses)))
	})
}

// runHostPod runs a pod on the host network of a node and returns the node's address.
func (p *platformFixture) runHostPod(t *testing.T, name, node string) string {
	t.Helper()
	p.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: plain, labels: {app: %s}}, "+
		"spec: {nodeName: %s, hostNetwork: true, containers: [{name: main, image: lab/echo}]}}", name, name, node))
	p.WaitForObject(t, "Pod", "plain", name, manifest.True("Ready"))
	return p.ReadField(t, "Pod", "plain", name, "status", "podIP")
}

// checkUnavailableNodes takes the nodes of two addresses away one after the other, and gives one back. Traffic inside
// the cluster does not change. Where pods of OVN-Kubernetes leave with the address of their node, ours do not leave.
func (p *platformFixture) checkUnavailableNodes(t *testing.T) string {
	p.createEgressIP(t, "two", "egressIPs: ["+firstAddress+", "+secondAddress+"], "+selectedPods)
	nodes := p.waitAssigned(t, "two", firstAddress, secondAddress)
	if nodes[firstAddress] == nodes[secondAddress] {
		t.Errorf("both addresses are on %s", nodes[firstAddress])
	}
	host := p.runHostPod(t, "beside", "node2")
	expectInside := func() {
		t.Helper()
		p.ExpectAnswer(t, "s1.mail", "http://"+p.podAddresses["s3"], "s3", p.podAddresses["s1"])
		for _, pod := range []string{"s1", "s3"} { // s3 runs on a node that may hold addresses, s1 does not
			p.ExpectAnswer(t, pod+".mail", "http://"+host, "beside", p.podAddresses[pod])
		}
	}
	assignable := func(node, value string) { p.SetLabel(t, "Node "+node, ovnv1.AssignableLabel, value) }
	t.Cleanup(func() { assignable(nodes[firstAddress], ""); assignable(nodes[secondAddress], "") })
	for _, pod := range []string{"s1.mail", "s3.mail"} {
		p.expectEgressAsAll(t, pod, firstAddress, secondAddress)
	}
	expectInside()

	p.SetLabel(t, "Pod mail s3", "role", "-")
	p.expectEgressAsAll(t, "s3.mail", p.nodeAddresses["node3"])
	p.expectEgressAsAll(t, "s1.mail", firstAddress, secondAddress)
	p.SetLabel(t, "Pod mail s3", "role", "out")

	assignable(nodes[firstAddress], "-")
	p.waitAssigned(t, "two", secondAddress)
	p.expectEgressAsAll(t, "s1.mail", secondAddress)
	p.expectEgressAsAll(t, "s3.mail", secondAddress)
	expectInside()

	assignable(nodes[secondAddress], "-")
	p.waitAssigned(t, "two")
	p.waitSilent(t, "s1.mail", "http://"+harness.InternetAddress)
	p.ExpectSilence(t, "s1.mail", "udp://"+harness.InternetAddress+":80")
	expectInside()
	p.expectUnchanged(t)

	assignable(nodes[firstAddress], "")
	var back []string
	harness.Eventually(t, "an address is on the node again", func() bool {
		back = slices.Collect(maps.Keys(p.assignedNodes(t, "two")))
		return len(back) == 1
	})
	p.expectEgressAsAll(t, "s1.mail", back...)
	return "two addresses, one, none and one again; pods and nodes see the pods' own addresses all the time"
}

// checkSameName shows that a pod of a name that another pod had before, on another node, leaves with the egress
// address.
func (p *platformFixture) checkSameName(t *testing.T) string {
	p.redirectPods(t)
	holder := p.holder(t)
	const rounds = 4
	for i := range rounds {
		node := []string{"node1", holder}[i%2]
		t.Run(node, func(t *testing.T) {
			p.runPod(t, harness.Pod{
				Namespace: "mail", Name: "again", Node: node, Labels: map[string]string{"role": "out"},
			})
			p.expectEgressAs(t, "again.mail", egressAddress)
		})
		p.WaitForObject(t, "Pod", "mail", "again", manifest.Gone)
	}
	return fmt.Sprintf("%d pods of one name, on node1 and on the node with the address", rounds)
}

// checkSeveralEgressIPs shows two EgressIPs that select the same pod, of which the older one decides, and two with a pod
// each whose addresses are on one node.
func (p *platformFixture) checkSeveralEgressIPs(t *testing.T) string {
	assignable := func(node, value string) { p.SetLabel(t, "Node "+node, ovnv1.AssignableLabel, value) }
	t.Cleanup(func() { assignable("node2", ""); assignable("node3", "") })
	assignable("node3", "-")
	selects := func(address, app string) string {
		return "egressIPs: [" + address + "], namespaceSelector: {matchLabels: {egress: mail}}, " +
			"podSelector: {matchLabels: {app: " + app + "}}"
	}
	p.createEgressIP(t, "first", selects(firstAddress, "s1"))
	p.expectEgressAs(t, "s1.mail", firstAddress)
	p.createEgressIP(t, "second", selects(secondAddress, "s1"))
	p.waitEvent(t, "second", "UndefinedRequest")
	p.SyncFlows(t)
	p.expectEgressAsAll(t, "s1.mail", firstAddress)

	assignable("node3", "") // both move to another node
	assignable("node2", "-")
	harness.Eventually(t, "both addresses are on node3", func() bool {
		return p.assignedNodes(t, "first")[firstAddress] == "node3" && p.assignedNodes(t, "second")[secondAddress] == "node3"
	})
	p.expectEgressAsAll(t, "s1.mail", firstAddress)
	p.createEgressIP(t, "first", selects(thirdAddress, "s1")) // another address
	p.expectEgressAsAll(t, "s1.mail", thirdAddress)
	p.DeleteAndWait(t, "EgressIP", "", "first")
	p.expectEgressAsAll(t, "s1.mail", secondAddress)

	p.createEgressIP(t, "other", selects(thirdAddress, "s3"))
	p.expectEgressAsAll(t, "s3.mail", thirdAddress)
	p.DeleteAndWait(t, "EgressIP", "", "second")
	p.expectEgressAsAll(t, "s1.mail", p.nodeAddresses["node1"])
	p.expectEgressAsAll(t, "s3.mail", thirdAddress)
	return "the older of two decides, then the other; of two pods with an EgressIP each on one node, one keeps its own"
}

// waitEvent waits until there is an event on an EgressIP.
func (p *platformFixture) waitEvent(t *testing.T, name, reason string) {
	t.Helper()
	harness.Eventually(t, "an event "+reason+" on "+name, func() bool {
		events, err := p.Client.EventsV1().Events("").List(harness.Within(t, harness.Patience), metav1.ListOptions{
			FieldSelector: "reason=" + reason,
		})
		if err != nil {
			return false
		}
		for _, e := range events.Items {
			if e.Regarding.Kind == "EgressIP" && e.Regarding.Name == name {
				return true
			}
		}
		return false
	})
}

// checkNetworkPolicy shows that a NetworkPolicy decides which hosts outside a selected pod reaches. OVN-Kubernetes shows
// the same with its own kind EgressFirewall.
func (p *platformFixture) checkNetworkPolicy(t *testing.T) string {
	p.redirectPods(t)
	public := p.Network(t, "public")
	p.Apply(t, "{apiVersion: v1, kind: Service, metadata: {name: near, namespace: plain}, "+
		"spec: {selector: {app: u2}, ports: [{port: 80}]}}")
	service := "http://" + p.ReadField(t, "Service", "plain", "near", "spec", "clusterIP")
	p.expectEgressAs(t, "s1.mail", egressAddress)
	p.ExpectAnswers(t, "s1.mail", public.NeighbourAddress, public.Neighbour, egressAddress)
	p.Apply(t, `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: one-host, namespace: mail}
spec:
  podSelector: {matchLabels: {role: out}}
  policyTypes: [Egress]
  egress: [{to: [{ipBlock: {cidr: `+harness.InternetAddress+`/32}}, {ipBlock: {cidr: 10.16.0.0/16}}, {ipBlock: {cidr: 10.96.0.0/12}}]}]`)
	harness.Eventually(t, "the policy takes effect", func() bool {
		_, err := p.SendRequest("s1.mail", "http://"+public.NeighbourAddress)
		return err != nil
	})
	for pod, protocol := range map[string]string{"s1": "http", "s3": "udp"} {
		p.ExpectSilence(t, pod+".mail", protocol+"://"+public.NeighbourAddress+":80")
		p.ExpectAnswers(t, pod+".mail", harness.InternetAddress, "internet", egressAddress)
		p.ExpectAnswer(t, pod+".mail", "http://"+p.podAddresses["u2"], "u2", p.podAddresses[pod])
		p.ExpectAnswer(t, pod+".mail", service, "u2", p.podAddresses[pod])
	}
	if err := p.Client.NetworkingV1().NetworkPolicies("mail").Delete(harness.Within(t, harness.Patience), "one-host",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the other host answers again", func() bool {
		a, err := p.SendRequest("s1.mail", "http://"+public.NeighbourAddress)
		return err == nil && a.Saw.Addr().String() == egressAddress
	})
	return "one host is reached as " + egressAddress + ", the other not; pods and a ClusterIP as before"
}

// checkDeletedNamespace shows that pods of other namespaces keep the egress address when a pod and then its whole
// namespace are deleted.
func (p *platformFixture) checkDeletedNamespace(t *testing.T) string {
	p.redirectPods(t)
	p.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: third, labels: {egress: mail}}}")
	p.WaitForObject(t, "ServiceAccount", "third", "default", manifest.Exists)
	p.WaitForObject(t, "Namespace", "", "third", func(o *unstructured.Unstructured) bool {
		return o != nil && strings.HasPrefix(o.GetAnnotations()["ovn.kubernetes.io/logical_switch"], "ovn-default")
	})
	p.runPod(t, harness.Pod{Namespace: "third", Name: "t2", Node: "node2", Labels: map[string]string{"role": "out"}})
	p.expectEgressAs(t, "t2.third", egressAddress)
	p.expectEgressAs(t, "s1.mail", egressAddress)
	p.DeleteAndWait(t, "Pod", "third", "t2")
	p.expectEgressAsAll(t, "s1.mail", egressAddress)
	p.DeleteAndWait(t, "Namespace", "", "third")
	p.expectEgressAsAll(t, "s1.mail", egressAddress)
	return "pods of another namespace keep the address"
}
