package egress

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// egressFixture is a lab for egress addresses: two projects with the same internal addresses.
type egressFixture struct {
	*harness.Cluster
	*harness.Controller
	namespaces [2]string
	agents     map[string]*exec.Cmd // by node
	mounted    string               // directory of the certificates for health checks; empty: the lab's own
}

// TestEgress1Features checks the source addresses of selected pods as a host outside sees them.
func TestEgress1Features(t *testing.T) {
	item := egressItems.Item(t, 1)
	y := newEgressFixture(t, "egress")
	for _, f := range []struct {
		what string
		run  func(*egressFixture, *testing.T) string
	}{
		{"selected pods", (*egressFixture).checkSelectedPods},
		{"the manifests of OVN-Kubernetes' documentation", (*egressFixture).checkDocumentedManifests},
		{"several addresses", (*egressFixture).checkSeveralAddresses},
		{"labels that change", (*egressFixture).checkLabelChanges},
		{"pods that come and go", (*egressFixture).checkPodTurnover},
		{"fail closed before a pod is looked at", (*egressFixture).checkFailClosed},
		{"fail closed when a link loses its nodes", (*egressFixture).checkLinkWithoutNodes},
		{"no node", (*egressFixture).checkNoNode},
		{"mistakes", (*egressFixture).checkMistakes},
		{"nodes", (*egressFixture).checkNodeSelection},
		{"rebalancing", (*egressFixture).checkRebalancing},
		{"replies", (*egressFixture).checkReplies},
		{"fencing", (*egressFixture).checkFencing},
		{"EgressRoute", (*egressFixture).checkEgressRoute},
		{"EgressService", (*egressFixture).checkEgressService},
		{"deleted", (*egressFixture).checkDeletion},
	} {
		t.Run(f.what, func(t *testing.T) {
			y.ResetDrops(t)
			if figure := f.run(y, t); !t.Failed() {
				item.AddFigure("%s: %s", f.what, figure)
			}
		})
	}
	for _, s := range scenarios[show.ChooseSize(0, 1):] {
		t.Run("OVN-Kubernetes' scenario of 27 steps, "+s.what, func(t *testing.T) {
			if figure := s.runScenario(t); !t.Failed() {
				item.AddFigure("OVN-Kubernetes' scenario of 27 steps, %s: %s", s.what, figure)
			}
		})
	}
	item.AddFigure("IPv6 is not built: such an address is refused, because external networks have IPv4 only (ADR 8, and make show-core)")
}

// newEgressFixture starts the lab with a separate controller, and creates the projects.
func newEgressFixture(t *testing.T, name string) *egressFixture {
	t.Helper()
	b, err := blueprint.Load("../testdata/egress.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return newEgressFixtureFrom(t, name, b)
}

func newEgressFixtureFrom(t *testing.T, name string, b blueprint.Blueprint) *egressFixture {
	t.Helper()
	c := harness.StartLab(t, name, b)
	c.InstallSallyport(t)
	// It runs outside the lab, from where it cannot reach the nodes.
	y := &egressFixture{Cluster: c, Controller: c.NewController(t, os.TempDir(),
		"--egressip-reachability-total-timeout=0")}
	y.StartForTest(t)
	y.createProjects(t)
	return y
}

// createProjects creates the projects, and allows nodes to hold addresses.
func (y *egressFixture) createProjects(t *testing.T) {
	t.Helper()
	c := y.Cluster
	c.CreateOrganization(t, "yard")
	for i, project := range []string{"one", "two"} {
		y.namespaces[i] = c.CreateProject(t, "yard", project, "10.61.0.0/24", "cloud")
		for _, pod := range []string{"a", "b"} { // node1 can't hold addresses, node2 can
			y.runPod(t, y.namespaces[i], pod)
		}
	}
	for _, n := range c.Blueprint.NodeList()[1:] {
		y.SetLabel(t, "Node "+n.Name, ovnv1.AssignableLabel, "")
	}
}

// runPod runs a pod whose label app is its name.
func (y *egressFixture) runPod(t *testing.T, namespace, name string) {
	t.Helper()
	y.RunPod(t, harness.Pod{
		Namespace: namespace,
		Name:      name,
		Node:      map[string]string{"a": "node1", "b": "node2"}[name[:1]],
	})
}

// replacePods replaces the pods. The last packets of an old connection would take the new path, where a router does not
// know the connection.
func (y *egressFixture) replacePods(t *testing.T) {
	t.Helper()
	for _, ns := range y.namespaces {
		for _, pod := range []string{"a", "b"} {
			y.DeleteAndWait(t, "Pod", ns, pod)
			y.runPod(t, ns, pod)
		}
	}
}

// createEgressIP creates an EgressIP and waits until it is Programmed.
func (y *egressFixture) createEgressIP(t *testing.T, name, spec string) {
	t.Helper()
	y.applyEgressIP(t, name, spec)
	y.WaitProgrammedOnNodes(t, "EgressIP", "", name)
}

// applyEgressIP applies an EgressIP without waiting.
func (y *egressFixture) applyEgressIP(t *testing.T, name, spec string) {
	t.Helper()
	y.Apply(t, fmt.Sprintf("{apiVersion: k8s.ovn.org/v1, kind: EgressIP, metadata: {name: %s}, spec: %s}", name, spec))
}

// syncAndResetDrops waits until all nodes have the flows, and resets the drop counters. The source address of a
// connection that was opened in between changes, and a router drops the rest of that connection.
func (y *egressFixture) syncAndResetDrops(t *testing.T) {
	t.Helper()
	y.SyncFlows(t)
	y.ResetDrops(t)
}

// projectSelector returns a namespaceSelector for projects by name.
func projectSelector(names ...string) string {
	return "namespaceSelector: {matchExpressions: [{key: kube-dc.com/project, operator: In, values: [" +
		strings.Join(names, ", ") + "]}]}"
}

// expectEgressAs waits until a pod's packets have a source address, and checks it with each protocol.
func (y *egressFixture) expectEgressAs(t *testing.T, pod, as string) {
	t.Helper()
	y.ExpectEgressAs(t, pod, as, harness.Protocols...)
}

// expectNoEgress waits until a pod reaches nothing outside.
func (y *egressFixture) expectNoEgress(t *testing.T, pod string) {
	t.Helper()
	harness.Eventually(t, pod+" stays inside", func() bool {
		_, err := y.SendRequest(pod, "udp://"+harness.InternetAddress+":80")
		return err != nil
	})
	y.ExpectSilence(t, pod, "http://"+harness.InternetAddress)
}

// projectAddress returns the source address of a project's pods that no EgressIP selects.
func (y *egressFixture) projectAddress(t *testing.T, project string) string {
	t.Helper()
	return y.ReadField(t, "Project", "yard", project, "status", "externalIP")
}

// assignments returns the addresses of an EgressIP with their nodes, as "address node".
func (y *egressFixture) assignments(t *testing.T, name string) (out []string) {
	t.Helper()
	o, err := y.Objects.Get(harness.Within(t, harness.Patience), harness.ObjectRef("EgressIP", "", name))
	if err != nil || o == nil {
		t.Fatalf("EgressIP %s: %v", name, err)
	}
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "items")
	for _, item := range list {
		i := item.(map[string]any)
		out = append(out, fmt.Sprintf("%s %s", i["egressIP"], i["node"]))
	}
	return out
}

// assignedNode returns the node that holds the only address of an EgressIP.
func (y *egressFixture) assignedNode(t *testing.T, name string) string {
	t.Helper()
	items := y.assignments(t, name)
	if len(items) != 1 {
		t.Fatalf("EgressIP %s has %v, want one address on one node", name, items)
	}
	_, node, _ := strings.Cut(items[0], " ")
	return node
}

// waitEgressIPCondition waits until an EgressIP has a condition with a reason.
func (y *egressFixture) waitEgressIPCondition(t *testing.T, name, condition, reason string) {
	t.Helper()
	y.waitCondition(t, harness.ObjectRef("EgressIP", "", name), condition, reason)
}

// waitCondition waits until an object has a condition with a reason.
func (y *egressFixture) waitCondition(t *testing.T, of manifest.Ref, condition, reason string) {
	t.Helper()
	y.WaitForObject(t, of.GVK.Kind, of.Namespace, of.Name, func(o *unstructured.Unstructured) bool {
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		return slices.ContainsFunc(conditions, func(c any) bool {
			m := c.(map[string]any)
			return m["type"] == condition && m["reason"] == reason && (m["message"] != "" || m["status"] == "True")
		})
	})
}

// checkSelectedPods shows that pods of two projects with the same internal addresses leave with one address, and that
// other pods and internal traffic are unaffected. An address on another network is not used, not even to hosts there.
func (y *egressFixture) checkSelectedPods(t *testing.T) string {
	y.createEgressIP(t, "elsewhere", "{egressIPs: [100.65.0.200], "+projectSelector("two")+
		", podSelector: {matchLabels: {app: c}}}")
	y.createEgressIP(t, "selected", "{egressIPs: [91.224.11.200], "+projectSelector("one", "two")+
		", podSelector: {matchLabels: {app: a}}}")
	near := []harness.ExternalNetwork{y.Network(t, "public"), y.Network(t, "cloud")}
	y.syncAndResetDrops(t)
	for i, project := range []string{"one", "two"} {
		a, b := "a."+y.namespaces[i], "b."+y.namespaces[i]
		y.expectEgressAs(t, a, "91.224.11.200")
		y.expectEgressAs(t, b, y.projectAddress(t, project))
		for _, n := range near { // hosts on the wire itself, without a router in between
			y.ExpectAnswers(t, a, n.NeighbourAddress, n.Neighbour, "91.224.11.200")
			y.ExpectAnswers(t, b, n.NeighbourAddress, n.Neighbour, y.projectAddress(t, project))
		}
		inside := y.ReadField(t, "Pod", y.namespaces[i], "b", "status", "podIP")
		y.ExpectAnswers(t, a, inside, "b", y.ReadField(t, "Pod", y.namespaces[i], "a", "status", "podIP"))
	}
	vm := "b-vm" // the pod in which KubeVirt runs a virtual machine has the machine's labels and its address
	y.RunPod(t, harness.Pod{
		Namespace: y.namespaces[0],
		Name:      vm,
		Node:      "node2",
		Labels:    map[string]string{"kubevirt.io": "virt-launcher", "app": "a"},
	})
	y.expectEgressAs(t, vm+"."+y.namespaces[0], "91.224.11.200")
	y.ExpectNoDrops(t)
	return fmt.Sprintf("pods of two projects with the same addresses inside left as 91.224.11.200 in %d ways, their neighbours as ever; no drops", 2*4*len(harness.Protocols))
}

// checkDocumentedManifests applies two manifests that were written for OVN-Kubernetes, unchanged and with addresses of
// a network of the lab.
func (y *egressFixture) checkDocumentedManifests(t *testing.T) string {
	page := harness.ReadFile(t, "../testdata/egressip-ovn-kubernetes.yaml")
	y.Apply(t, page)
	// their addresses are on no network of the lab: this is reported, not silently ignored
	for _, name := range []string{"egress-project1", "egressip-prod"} {
		y.waitEgressIPCondition(t, name, "Accepted", "AddressOutsideNetwork")
	}
	moved := strings.NewReplacer("192.168.127.", "91.224.11.", "10.0.254.100", "91.224.11.100").Replace(page)
	y.Apply(t, moved)
	for _, name := range []string{"egress-project1", "egressip-prod"} {
		y.WaitProgrammedOnNodes(t, "EgressIP", "", name)
	}
	y.SetLabel(t, "Namespace "+y.namespaces[0], "env", "qa")
	defer y.SetLabel(t, "Namespace "+y.namespaces[0], "env", "-")
	harness.Eventually(t, "a leaves as one of two", func() bool {
		a, err := y.SendRequest("a."+y.namespaces[0], "http://"+harness.InternetAddress)
		return err == nil && slices.Contains([]string{"91.224.11.10", "91.224.11.11"}, a.Saw.Addr().String())
	})
	y.SetLabel(t, "Pod "+y.namespaces[1]+" b", "app", "web")
	defer y.SetLabel(t, "Pod "+y.namespaces[1]+" b", "app", "b")
	y.expectEgressAs(t, "b."+y.namespaces[1], "91.224.11.100")
	return "apply unchanged, and with addresses of the lab select by labels and by expressions"
}

// checkSeveralAddresses shows that each of several addresses is on a different node and that connections use all of
// them.
func (y *egressFixture) checkSeveralAddresses(t *testing.T) string {
	y.createEgressIP(t, "several", "{egressIPs: [91.224.11.201, 91.224.11.202, 100.65.9.9], "+projectSelector("one")+
		"}")
	nodes, seen := map[string]bool{}, map[string]int{}
	for _, item := range y.assignments(t, "several") {
		_, node, _ := strings.Cut(item, " ")
		nodes[node] = true
	}
	if len(nodes) != 3 {
		t.Errorf("three addresses are on %v", nodes)
	}
	y.syncAndResetDrops(t)
	for range 40 {
		a, err := y.SendRequest("a."+y.namespaces[0], "http://"+harness.InternetAddress)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		seen[a.Saw.Addr().String()]++
	}
	if len(seen) != 3 || seen["91.224.11.201"]*seen["91.224.11.202"]*seen["100.65.9.9"] == 0 {
		t.Errorf("seen: %v, want all three addresses and no other", seen)
	}
	y.ExpectNoDrops(t)
	return fmt.Sprintf("three on two networks, on three nodes; 40 connections of one pod left as %v", seen)
}

// checkLabelChanges shows that changes of the labels of pods and namespaces change the selection.
func (y *egressFixture) checkLabelChanges(t *testing.T) string {
	ns, own := y.namespaces[0], y.projectAddress(t, "one")
	y.createEgressIP(t, "labels", "{egressIPs: [91.224.11.203], namespaceSelector: {matchLabels: {wants: egress}}, podSelector: {matchLabels: {role: out}}}")
	y.expectEgressAs(t, "a."+ns, own)
	y.SetLabel(t, "Namespace "+ns, "wants", "egress")
	y.expectEgressAs(t, "a."+ns, own)
	y.SetLabel(t, "Pod "+ns+" a", "role", "out")
	y.expectEgressAs(t, "a."+ns, "91.224.11.203")
	y.SetLabel(t, "Pod "+ns+" a", "role", "-")
	y.expectEgressAs(t, "a."+ns, own)
	y.SetLabel(t, "Pod "+ns+" a", "role", "out")
	y.expectEgressAs(t, "a."+ns, "91.224.11.203")
	y.checkSelectorChanges(t, own)
	y.SetLabel(t, "Namespace "+ns, "wants", "-")
	y.expectEgressAs(t, "a."+ns, own)
	y.SetLabel(t, "Pod "+ns+" a", "role", "-")
	y.expectEgressAs(t, "b."+ns, own)
	return "a pod's and a namespace's label, and a selector, move a pod there and back"
}

// checkSelectorChanges lets an EgressIP select other pods of the same project. This changes no row of the egress router,
// so the controller compiles this EgressIP only.
func (y *egressFixture) checkSelectorChanges(t *testing.T, own string) {
	t.Helper()
	before := y.ReadMetrics(t)
	for _, c := range []struct{ role, address string }{{"nobody", own}, {"out", "91.224.11.203"}} {
		y.createEgressIP(t, "labels", "{egressIPs: [91.224.11.203], namespaceSelector: {matchLabels: {wants: egress}}, "+
			"podSelector: {matchLabels: {role: "+c.role+"}}}")
		y.expectEgressAs(t, "a."+y.namespaces[0], c.address)
	}
	now := y.ReadMetrics(t)
	const single, wrong = `sallyport_egress_runs_total{compiled="egressips"}`, `sallyport_memo_checks_total{result="different"}`
	if now[single] == before[single] || now[wrong] > 0 {
		t.Errorf("%.0f runs compiled the changed EgressIP only, and %.0f checks of memos found a difference",
			now[single]-before[single], now[wrong])
	}
}

// checkPodTurnover shows that a new pod is selected, and that a pod that reuses the address of a deleted pod is
// selected by its own labels.
func (y *egressFixture) checkPodTurnover(t *testing.T) string {
	ns, own := y.namespaces[1], y.projectAddress(t, "two")
	y.createEgressIP(t, "comes", "{egressIPs: [91.224.11.204], "+projectSelector("two")+
		", podSelector: {matchLabels: {role: out}}}")
	const address = "10.61.0.77"
	for i, role := range []string{"out", "in", "out"} {
		name := fmt.Sprintf("a-%d", i)
		t.Run(name, func(t *testing.T) {
			y.RunPod(t, harness.Pod{
				Namespace: ns, Name: name, Node: "node1", Address: address, Labels: map[string]string{"role": role},
			})
			y.expectEgressAs(t, name+"."+ns, map[string]string{"out": "91.224.11.204", "in": own}[role])
		})
		y.WaitForObject(t, "Pod", ns, name, manifest.Gone)
	}
	return "three pods with one address after each other, of which the first and last are selected"
}

// checkFailClosed shows that while the controller is paused, a new pod that may be selected cannot leave with another
// address.
func (y *egressFixture) checkFailClosed(t *testing.T) string {
	ns := y.namespaces[1]
	y.createEgressIP(t, "closed", "{egressIPs: [91.224.11.205], "+projectSelector("two")+
		", podSelector: {matchLabels: {role: out}}}")
	resume := y.Pause(t)
	y.RunPod(t, harness.Pod{Namespace: ns, Name: "a-early", Node: "node1", Labels: map[string]string{"role": "out"}})
	y.RunPod(t, harness.Pod{Namespace: ns, Name: "a-other", Node: "node1"})
	for range 3 {
		y.ExpectSilence(t, "a-early."+ns, "http://"+harness.InternetAddress)
	}
	y.ExpectSilence(t, "a-other."+ns, "udp://"+harness.InternetAddress+":80")
	y.expectEgressAs(t, "b."+ns, y.projectAddress(t, "two")) // pods that were processed before still work
	resume()
	y.expectEgressAs(t, "a-early."+ns, "91.224.11.205")
	y.expectEgressAs(t, "a-other."+ns, y.projectAddress(t, "two"))
	return "a pod that starts while the controller is stopped gets nothing out, and 91.224.11.205 when it goes on"
}

// checkLinkWithoutNodes shows that nothing leaves with a pod's address when the project's end of a link to an egress
// address loses its chassis group, and with it the translation there.
func (y *egressFixture) checkLinkWithoutNodes(t *testing.T) string {
	ns, address := y.namespaces[0], netip.MustParseAddr("91.224.11.207")
	y.createEgressIP(t, "linked", "{egressIPs: ["+address.String()+"], "+projectSelector("one")+
		", podSelector: {matchLabels: {app: a}}}")
	y.expectEgressAs(t, "a."+ns, address.String())
	resume := y.Pause(t) // it would repair the port
	y.RunNbctl(t, "clear", "logical_router_port", ownership.VPCEgressLinkPort(ns, address), "ha_chassis_group")
	y.syncAndResetDrops(t)
	for _, protocol := range []string{"http", "udp"} {
		y.ExpectSilence(t, "a."+ns, protocol+"://"+harness.InternetAddress+":80")
	}
	y.ExpectNoDrops(t)
	resume()
	y.expectEgressAs(t, "a."+ns, address.String())
	return "a link without its chassis group lets nothing out, until it has it again"
}

// checkNoNode shows that without a node selected pods cannot leave, or leave like other pods if the EgressIP fails
// open.
func (y *egressFixture) checkNoNode(t *testing.T) string {
	for _, open := range []bool{false, true} {
		policy := map[bool]string{false: "Closed", true: "Open"}[open]
		name := strings.ToLower(policy) + "-nowhere"
		y.createEgressIP(t, name, "{egressIPs: [91.224.11.206], failurePolicy: "+policy+", "+projectSelector("one")+
			", podSelector: {matchLabels: {app: a}}}")
		a, b, own := "a."+y.namespaces[0], "b."+y.namespaces[0], y.projectAddress(t, "one")
		y.expectEgressAs(t, a, "91.224.11.206")
		for _, n := range y.Blueprint.NodeList()[1:] {
			y.SetLabel(t, "Node "+n.Name, ovnv1.AssignableLabel, "-")
		}
		y.waitEgressIPCondition(t, name, "Programmed", "NoMatchingNodeFound")
		if items := y.assignments(t, name); len(items) > 0 {
			t.Errorf("no node can hold an address, and the status has %v", items)
		}
		if open {
			y.expectEgressAs(t, a, own)
		} else {
			y.expectNoEgress(t, a)
		}
		y.expectEgressAs(t, b, own)
		for _, n := range y.Blueprint.NodeList()[1:] {
			y.SetLabel(t, "Node "+n.Name, ovnv1.AssignableLabel, "")
		}
		y.expectEgressAs(t, a, "91.224.11.206")
		y.DeleteAndWait(t, "EgressIP", "", name)
		y.expectEgressAs(t, a, own)
	}
	return "without a node a selected pod stays inside, or with failurePolicy Open leaves as others; then as 91.224.11.206 again"
}

// checkMistakes shows that each mistake results in a condition and an event with the wording of OVN-Kubernetes.
func (y *egressFixture) checkMistakes(t *testing.T) string {
	y.createEgressIP(t, "first", "{egressIPs: [91.224.11.207], "+projectSelector("one")+"}")
	held := y.CreateEIP(t, y.namespaces[0], "taken", "{externalNetworkType: public}")
	list := []struct{ name, addresses, condition, reason string }{
		{"again", "91.224.11.207", "Accepted", "UnsupportedRequest"},
		{"no-address", "91.224.11.300", "Accepted", "InvalidEgressIP"},
		{"outside", "192.0.2.7", "Accepted", "AddressOutsideNetwork"},
		{"six", `"2001:db8::7"`, "Accepted", "AddressOutsideNetwork"}, // ADR 8
		{"gateway", "91.224.11.1", "Accepted", "EgressIPConflict"},
		{"held", held, "Accepted", "EgressIPConflict"},
		{
			"too-many", "91.224.11.211, 91.224.11.212, 91.224.11.213, 91.224.11.214, 91.224.11.215, 91.224.11.216",
			"Programmed", "UnassignedRequest",
		},
	}
	for _, m := range list {
		y.applyEgressIP(t, m.name, "{egressIPs: ["+m.addresses+"], "+projectSelector("two")+
			", podSelector: {matchLabels: {app: nobody}}}")
		y.waitEgressIPCondition(t, m.name, m.condition, m.reason)
		y.waitEvent(t, m.name, m.reason)
	}
	// pods that another EgressIP selects
	y.createEgressIP(t, "younger", "{egressIPs: [91.224.11.217], "+projectSelector("one")+"}")
	y.waitEvent(t, "younger", "UndefinedRequest")
	if n := len(y.assignments(t, "too-many")); n != 5 {
		t.Errorf("of six addresses %d are on five nodes", n)
	}
	y.expectEgressAs(t, "a."+y.namespaces[0], "91.224.11.207")
	return fmt.Sprintf("%d, each with a condition and an event, and pods of two with an event; the EgressIP that was there goes on", len(list))
}

// waitEvent waits until there is an event on an EgressIP.
func (y *egressFixture) waitEvent(t *testing.T, name, reason string) {
	t.Helper()
	harness.Eventually(t, "an event "+reason+" on "+name, func() bool {
		events, err := y.Client.EventsV1().Events("").List(harness.Within(t, harness.Patience), metav1.ListOptions{})
		return err == nil && slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Kind == "EgressIP" && e.Regarding.Name == name && e.Reason == reason
		})
	})
}

// checkNodeSelection shows the nodeSelector, the choice of the node with the fewest addresses, and that addresses do
// not move without need.
func (y *egressFixture) checkNodeSelection(t *testing.T) string {
	y.SetLabel(t, "Node node4", "rack", "b")
	y.SetLabel(t, "Node node5", "rack", "b")
	y.createEgressIP(t, "rack", "{egressIPs: [91.224.11.221], nodeSelector: {matchLabels: {rack: b}}, "+
		projectSelector("one")+", podSelector: {matchLabels: {app: a}}}")
	first := y.assignedNode(t, "rack")
	other := map[string]string{"node4": "node5", "node5": "node4"}[first]
	if other == "" {
		t.Fatalf("%s holds it, which has no label rack=b", first)
	}
	y.createEgressIP(t, "fewest", "{egressIPs: [91.224.11.222], nodeSelector: {matchLabels: {rack: b}}, "+
		projectSelector("two")+", podSelector: {matchLabels: {app: a}}}")
	if got := y.assignedNode(t, "fewest"); got != other {
		t.Errorf("%s has one address, and got another; %s has none", got, other)
	}
	moves := func(to string) {
		t.Helper()
		y.WaitForObject(t, "EgressIP", "", "rack", isHeldBy(func(node string) bool { return node == to }))
		y.expectEgressAs(t, "a."+y.namespaces[0], "91.224.11.221")
	}
	y.SetLabel(t, "Node "+first, ovnv1.AssignableLabel, "-")
	moves(other)
	y.SetLabel(t, "Node "+first, ovnv1.AssignableLabel, "")
	y.SetLabel(t, "Node node2", "rack", "b") // triggers the controller
	y.SyncFlows(t)
	if got := y.assignedNode(t, "rack"); got != other {
		t.Errorf("it went from %s to %s because a node came back", other, got)
	}
	y.expectEgressAs(t, "a."+y.namespaces[1], "91.224.11.222")
	for _, n := range []string{"node2", "node4", "node5"} {
		y.SetLabel(t, "Node "+n, "rack", "-")
	}
	return "by nodeSelector, to the node with the fewest, and back to none that returns"
}

// checkRebalancing shows that the addresses of a loaded node move to an empty one on request, or one at a time if the
// controller is configured to.
func (y *egressFixture) checkRebalancing(t *testing.T) string {
	names := []string{"level-1", "level-2", "level-3", "level-4"}
	y.SetLabel(t, "Node node2", "rack", "c")
	for i, name := range names {
		y.createEgressIP(t, name, fmt.Sprintf(
			"{egressIPs: [91.224.11.%d], nodeSelector: {matchLabels: {rack: c}}, %s, podSelector: {matchLabels: {app: a}}}", 223+i, projectSelector("one")))
	}
	y.SetLabel(t, "Node node3", "rack", "c")
	defer func() {
		for _, n := range []string{"node2", "node3"} {
			y.SetLabel(t, "Node "+n, "rack", "-")
		}
	}()
	on := func(node string) (out int) {
		for _, name := range names {
			if y.assignedNode(t, name) == node {
				out++
			}
		}
		return out
	}
	y.SyncFlows(t)
	if n := on("node2"); n != 4 {
		t.Errorf("%d of 4 addresses are still on the node that had all", n)
	}
	y.requestRebalance(t, "level-2", "first")
	y.WaitForObject(t, "EgressIP", "", "level-2", func(o *unstructured.Unstructured) bool {
		return harness.StringField(o, "status", "rebalanced") == "first"
	})
	y.WaitForObject(t, "EgressIP", "", "level-2", isHeldBy(func(node string) bool { return node == "node3" }))
	if n := on("node2"); n != 3 {
		t.Errorf("one address was to move, and %d of 4 are left", n)
	}
	y.expectEgressAs(t, "a."+y.namespaces[0], "91.224.11.223") // of the oldest EgressIP

	y.Stop(syscall.SIGTERM)
	args := y.Args
	y.Args = append(slices.Clone(args), "--egress-rebalance-every=1s")
	y.Start(t)
	harness.Eventually(t, "two addresses on each", func() bool { return on("node2") == 2 && on("node3") == 2 })
	y.Stop(syscall.SIGTERM)
	y.Args = args
	y.Start(t)
	y.expectEgressAs(t, "a."+y.namespaces[0], "91.224.11.223")
	return "of four addresses on one node one goes to an empty node on request, and one more with --egress-rebalance-every"
}

// requestRebalance requests that the addresses of an EgressIP are rebalanced.
func (y *egressFixture) requestRebalance(t *testing.T, name, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, ovnv1.RebalanceAnnotation, value)
	err := y.NewDirectClient(t, nil).Patch(harness.Within(t, harness.Patience),
		&ovnv1.EgressIP{ObjectMeta: metav1.ObjectMeta{Name: name}},
		client.RawPatch(types.MergePatchType, []byte(patch)))
	if err != nil {
		t.Fatal(err)
	}
}

// checkReplies shows that replies to requests at a floating IP or load balancer leave with that address, while
// connections that the same pod initiates leave with its egress address.
func (y *egressFixture) checkReplies(t *testing.T) string {
	ns := y.namespaces[0]
	public := y.CreateFIP(t, ns, "public", "{podTarget: {podName: a}, externalNetworkType: public}")
	y.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: cloud, namespace: %s}, spec: {type: LoadBalancer, selector: {app: a}, ports: [{port: 80}]}}", ns))
	y.WaitForObject(t, "Service", ns, "cloud", func(o *unstructured.Unstructured) bool {
		return harness.IngressIP(o) != "" && manifest.True("Programmed")(o)
	})
	o, err := y.Objects.Get(harness.Within(t, harness.Patience), harness.ObjectRef("Service", ns, "cloud"))
	if err != nil {
		t.Fatal(err)
	}
	balanced := harness.IngressIP(o)
	y.SyncFlows(t)
	old := []*harness.Stream{y.StartStream(t, "internet", public), y.StartStream(t, "internet", balanced)}
	y.createEgressIP(t, "replies", "{egressIPs: [100.65.9.20], "+projectSelector("one")+"}")
	y.expectEgressAs(t, "a."+ns, "100.65.9.20")
	y.syncAndResetDrops(t)
	for _, address := range []string{public, balanced} {
		for _, n := range []harness.ExternalNetwork{y.Network(t, "public"), y.Network(t, "cloud")} {
			y.ExpectAnswer(t, n.Client, "http://"+address, "a", n.ClientAddress)
		}
		y.ExpectAnswer(t, "internet", "http://"+address, "a", harness.InternetAddress)
	}
	fresh := []*harness.Stream{y.StartStream(t, "internet", public), y.StartStream(t, "internet", balanced)}
	longest := harness.ExpectStreamsContinue(t, "with an EgressIP", append(old, fresh...)...)
	y.ExpectNoDrops(t)
	y.DeleteAndWait(t, "EgressIP", "", "replies")
	harness.ExpectStreamsContinue(t, "without it again", append(old, fresh...)...)
	return fmt.Sprintf("a floating IP on one network and a load balancer on another answer, streams live on (longest silence %d ms), the pod's own leaves as 100.65.9.20",
		longest.Milliseconds())
}

// checkDeletion shows that everything that was written for EgressIPs is deleted with the last one.
func (y *egressFixture) checkDeletion(t *testing.T) string {
	y.WaitForObject(t, "Vpc", "", "sallyport-egress", manifest.Gone)
	left := ""
	harness.Eventually(t, "nothing is left", func() bool {
		left = y.RunTool(t, "ovn-nbctl", "--db=unix:"+y.Dir+"/data/ovn/nb1.sock", "--bare", "--columns=name", "find",
			"Logical_Router_Port") +
			y.RunTool(t, "ovn-nbctl", "--db=unix:"+y.Dir+"/data/ovn/nb1.sock", "--bare", "--columns=name", "find",
				"Address_Set")
		return !strings.Contains(left, "egress")
	})
	return "router, ports and address sets are gone"
}
