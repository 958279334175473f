package view

import (
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/insight/usage"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// explainFixture is a lab with one object of each kind and with agents, for explanations of objects and addresses.
type explainFixture struct {
	*harness.BackendProject
	*harness.Controller
	frontAddress, fipAddress, egressAddress, projectAddress string
}

// explanation is the part of an explanation that the tests check.
type explanation struct {
	About     struct{ Kind, Namespace, Name string }
	State     string
	Works     bool
	Addresses []string
	Path      []struct {
		Text, Node string
		Broken     bool
	}
	Has []struct {
		About  struct{ Kind, Name string }
		Text   string
		Broken bool
	}
	Made  []struct{ There bool }
	Rows  []struct{ Table, On, Text string }
	Nodes []struct{ Who, Text string }
	Wrong []struct{ Code, Severity, Cure string }
	Next  []string
}

func newExplainFixture(t *testing.T) *explainFixture {
	t.Helper()
	c := harness.StartLab(t, "desk", harness.LoadTopology(t, "shared.yaml"))
	c.InstallSallyport(t)
	d := &explainFixture{Controller: c.NewController(t, t.TempDir(), "--egressip-reachability-total-timeout=0")}
	d.StartForTest(t)
	installAgents(t, c)
	d.BackendProject = c.NewBackendProject(t, "desk", "10.71.0.0/24")
	d.frontAddress = d.CreateEIP(t, d.Namespace, "front", "{externalNetworkType: public}")
	for name, port := range map[string]int{"web": 80, "more": 81} {
		d.CreateService(t, harness.ServiceSpec{
			Name:        name,
			Annotations: "service.nlb.kube-dc.com/bind-on-eip: front",
			Ports:       fmt.Sprintf("[{port: %d, targetPort: 80}]", port),
		})
	}
	d.fipAddress = d.CreateFIP(t, d.Namespace, "one", "{podTarget: {podName: b2}, externalNetworkType: public}")
	d.projectAddress = d.ReadField(t, "EIp", d.Namespace, "default-gw", "status", "ipAddress")
	d.egressAddress = "100.65.9.9"
	d.SetLabel(t, "Node node3", ovnv1.AssignableLabel, "")
	d.Apply(t, fmt.Sprintf(`
apiVersion: k8s.ovn.org/v1
kind: EgressIP
metadata: {name: mail}
spec: {egressIPs: [%s], namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}, podSelector: {matchLabels: {app: b3}}}`, d.egressAddress, d.Namespace))
	d.WaitForObject(t, "EgressIP", "", "mail", manifest.True("Programmed"))
	d.SyncFlows(t)
	d.WaitGatewaysSettled(t)
	return d
}

// installAgents installs the agent on each node.
func installAgents(t *testing.T, c *harness.Cluster) {
	t.Helper()
	agent, err := filepath.Abs("../../../bin/sallyport-agent")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.InstallAgents(harness.Within(t, harness.Patience), "../../../bin/sallyport-agent.yaml", agent); err != nil {
		t.Fatal(err)
	}
}

// explain runs the command and returns the answer as data and as text.
func (d *explainFixture) explain(t *testing.T, question string) (explanation, string) {
	t.Helper()
	args := append([]string{"explain"}, strings.Fields(question)...)
	text, err := runCommand(t, d.Cluster, args...)
	if err != nil {
		t.Fatalf("sallyport explain %s: %v\n%s", question, err, text)
	}
	raw, err := runCommand(t, d.Cluster, append(args, "-o", "json")...)
	if err != nil {
		t.Fatalf("sallyport explain %s -o json: %v\n%s", question, err, raw)
	}
	var out explanation
	if err := json.Unmarshal([]byte(raw), &out); err != nil {
		t.Fatalf("sallyport explain %s -o json: %v\n%s", question, err, raw)
	}
	return out, text
}

// listNodes returns the nodes that packets pass, and those that hold a port. Nothing may be broken.
func (e explanation) listNodes(t *testing.T, question string) (passed, held []string) {
	t.Helper()
	for _, h := range e.Path {
		if passed = append(passed, h.Node); h.Broken {
			t.Errorf("%s: %s", question, h.Text)
		}
	}
	for _, p := range e.Has {
		if p.About.Kind == "Node" {
			held = append(held, p.About.Name)
		}
		if p.Broken {
			t.Errorf("%s: %s", question, p.Text)
		}
	}
	return passed, held
}

// gatewayNode returns the node that holds a port of a router, according to the southbound database.
func (d *explainFixture) gatewayNode(t *testing.T, port string) string {
	t.Helper()
	return d.ListGateways(t)["cr-"+port]
}

// TestViewExplain checks that explanations of objects and addresses are correct, for healthy and faulty ones.
func TestViewExplain(t *testing.T) {
	d := newExplainFixture(t)
	t.Run("well", d.checkHealthy)
	t.Run("addresses", d.checkAddressOwners)
	t.Run("wrong", d.checkFaulty)
	t.Run("names", d.checkTypos)
	t.Run("use", d.checkUsage)
}

// checkHealthy checks the explanation of working objects: addresses, the node that holds the gateway, the rows, and
// that all of them exist.
func (d *explainFixture) checkHealthy(t *testing.T) {
	public, cloud := d.gatewayNode(t, d.Namespace+"-ext-public"), d.gatewayNode(t, d.Namespace+"-ext-cloud")
	egress := d.gatewayNode(t, "sallyport-egress-"+strings.ReplaceAll(d.egressAddress, ".", "-"))
	for _, c := range []struct {
		question, address, node, table, row string
	}{
		{
			"eip/front -n " + d.Namespace, d.frontAddress, public, "Load_Balancer",
			d.Namespace + "-lb-tcp-0 tcp " + d.frontAddress + ":80 → ",
		},
		{"fip/one", d.fipAddress, public, "NAT", "dnat_and_snat " + d.fipAddress + " " + d.Pods["b2"]},
		{"svc/web -n " + d.Namespace, d.frontAddress, public, "Load_Balancer", d.Pods["b1"] + ":80"},
		{"egressip/mail", d.egressAddress, egress, "NAT", "snat " + d.egressAddress + " "},
		{"project/desk", d.projectAddress, cloud, "NAT", "snat " + d.projectAddress + " 10.71.0.0/24"},
	} {
		got, text := d.explain(t, c.question)
		passed, held := got.listNodes(t, c.question)
		row := slices.ContainsFunc(got.Rows, func(r struct{ Table, On, Text string }) bool {
			return r.Table == c.table && strings.Contains(r.Text, c.row)
		})
		there := !slices.ContainsFunc(got.Made, func(m struct{ There bool }) bool { return !m.There })
		if !got.Works || !slices.Equal(got.Addresses, []string{c.address}) || !slices.Contains(passed, c.node) ||
			!slices.Contains(held, c.node) || !row || !there || len(got.Made) == 0 {
			t.Errorf("%s: want it well, with %s held by %s, and a %s %s:\n%s\n%+v", c.question, c.address, c.node,
				c.table, c.row, text, got.Rows)
		}
		if lines := strings.Count(text, "\n"); lines > 24 || !strings.Contains(text, "Wrong       nothing found") {
			t.Errorf("%s: %d lines, want a screen without anything wrong:\n%s", c.question, lines, text)
		}
	}
}

// checkAddressOwners checks that the owner of an address is found.
func (d *explainFixture) checkAddressOwners(t *testing.T) {
	for address, want := range map[string]string{
		d.frontAddress:   "EIp " + d.Namespace + "/front is in force", // of two Services
		d.fipAddress:     "FIp " + d.Namespace + "/one is in force",
		d.egressAddress:  "EgressIP mail is in force",
		d.projectAddress: "Project hall/desk is in force",
		d.Pods["b1"]:     "Pod " + d.Namespace + "/b1 is ready",
		"91.224.11.1":    "gateway of Subnet ext-public, outside of the cluster",
		"91.224.11.9":    "Subnet ext-public 91.224.11.0/24 of network ext-public",
		"192.0.2.77":     "none of this cluster",
	} {
		if text, err := runCommand(t, d.Cluster, "explain", address); err != nil || !strings.Contains(text, want) {
			t.Errorf("explain %s: %v\n%s\nwant %q in it", address, err, text, want)
		}
	}
}

// checkFaulty checks that the explanation of a faulty object states the cause and the next step, and no longer does
// after the repair.
func (d *explainFixture) checkFaulty(t *testing.T) {
	d.ApplyService(t, harness.ServiceSpec{Name: "late", Annotations: "service.nlb.kube-dc.com/bind-on-eip: front"})
	t.Cleanup(func() { d.DeleteAndWait(t, "Service", d.Namespace, "late") })
	d.WaitServiceCondition(t, "late", "Accepted=False PortTaken", "held by")
	d.ApplyObject(t, "FIp", d.Namespace, "nobody", "{podTarget: {podName: nobody}, externalNetworkType: public}")
	t.Cleanup(func() { d.DeleteAndWait(t, "FIp", d.Namespace, "nobody") })
	harness.Eventually(t, "the FIp says what it lacks", func() bool {
		return strings.Contains(d.ReadField(t, "FIp", d.Namespace, "nobody", "status"), "PodNotFound")
	})
	d.CreateService(t, harness.ServiceSpec{Name: "lonely", Selector: "{app: nobody}"})
	for question, want := range map[string][]string{
		"svc/late": {"is refused: PortTaken", "error PortTaken Service " + d.Namespace +
			"/late: port 80/tcp of EIp front", "Do: Use other ports or another EIp"},
		"fip/nobody": {
			"waits: PodNotFound",
			"error PodNotFound FIp " + d.Namespace + "/nobody: pod nobody does not exist", "Do: Create it",
		},
		"svc/lonely": {
			"is in force, and has no endpoints", "✗ Service " + d.Namespace + "/lonely: has no endpoint for port 80/tcp",
			"error SelectorMatchesNothing Service " + d.Namespace + "/lonely", "Do: ",
		},
	} {
		d.expectExplanation(t, question, want...)
	}
	d.Stop(syscall.SIGTERM)
	d.RunNbctl(t, "lr-nat-del", d.Namespace, "dnat_and_snat", d.fipAddress)
	d.expectExplanation(t, d.fipAddress, "FIp "+d.Namespace+"/one is not in force: Programming",
		"✗ FIp "+d.Namespace+"/one: has the address, but nothing in the cluster answers for "+d.fipAddress,
		"missing: NAT "+d.Namespace+" [dnat_and_snat "+d.fipAddress+"]", "error RowMissing FIp "+d.Namespace+"/one: ",
		"it still says Programmed=True", "Do: ")
	d.Start(t)
	harness.Eventually(t, "the row is back, and nothing is wrong", func() bool {
		text, err := runCommand(t, d.Cluster, "explain", d.fipAddress, "--exit-code")
		return err == nil && strings.Contains(text, "nothing found")
	})
}

// expectExplanation fails the test unless an explanation contains all given words. With --exit-code the exit code
// indicates the problem.
func (d *explainFixture) expectExplanation(t *testing.T, question string, want ...string) {
	t.Helper()
	text, err := runCommand(t, d.Cluster, "explain", question, "--exit-code")
	for _, words := range want {
		if err == nil || !strings.Contains(text, words) {
			t.Errorf("explain %s: %v\n%s\nwant %q in it, and a failure", question, err, text, words)
		}
	}
}

// checkTypos checks that unknown names lead to suggestions, and that the shell completes names.
func (d *explainFixture) checkTypos(t *testing.T) {
	for question, want := range map[string]string{
		"eip/fornt": "sallyport explain eip/front -n " + d.Namespace,
		"epi/front": `there is no kind "epi"; use eip`,
	} {
		if text, err := runCommand(t, d.Cluster, "explain", question); err == nil || !strings.Contains(text, want) {
			t.Errorf("explain %s: %v %s; want %q suggested", question, err, text, want)
		}
	}
	for typed, want := range map[string]string{
		"e":     "egressip/\n",
		"eip/f": "eip/front\n",
		"node/": "node/node2\n",
		"fip/":  "fip/one\n",
	} {
		begun := time.Now()
		text, err := runCommand(t, d.Cluster, "__complete", "explain", typed)
		if took := time.Since(begun); err != nil || !strings.Contains(text, want) || took > show.ChooseSize(3*time.Second, 30*time.Second) {
			t.Errorf("%s is completed in %s: %v %s; want %q", typed, took, err, text, want)
		}
	}
}

// checkUsage checks that connections are counted on their node, for the address that they use.
func (d *explainFixture) checkUsage(t *testing.T) {
	for range 5 {
		conn, err := d.NS("cli."+d.Namespace).Dial(harness.Within(t, harness.Patience), "tcp",
			net.JoinHostPort(harness.InternetAddress, "80"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	raw, err := runCommand(t, d.Cluster, "top", "-o", "json")
	var u usage.Usage
	if err == nil {
		err = json.Unmarshal([]byte(raw), &u)
	}
	if err != nil {
		t.Fatalf("top: %v\n%s", err, raw)
	}
	for _, a := range u.Addresses {
		if a.Address.String() == d.projectAddress && a.Counted && a.PortsInUse >= 5 &&
			a.TopDestination.Addr().String() == harness.InternetAddress &&
			a.Nodes[0] == d.gatewayNode(t, d.Namespace+"-ext-cloud") {
			text, err := runCommand(t, d.Cluster, "top")
			if err != nil || !strings.Contains(text, "tcp "+harness.InternetAddress+":80") ||
				!strings.Contains(text, d.Namespace+" ") {
				t.Errorf("top: %v\n%s", err, text)
			}
			return
		}
	}
	t.Errorf("want 5 ports of %s in use to %s:\n%s", d.projectAddress, harness.InternetAddress, raw)
}
