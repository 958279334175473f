package view

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/world"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// inspectionFixture is a lab whose nodes are queried. The sockets of its Open vSwitch belong to user nobody, as with
// Kube-OVN.
type inspectionFixture struct {
	*harness.Cluster
	api          client.Client
	cloudSegment blueprint.Segment
	dualSegment  blueprint.Segment
}

// TestViewInspection checks that the answers of nodes are correct.
func TestViewInspection(t *testing.T) {
	c := harness.StartLab(t, "inspect", harness.LoadTopology(t, "inspect.yaml"))
	c.InstallSallyport(t)
	ctl := c.NewController(t, t.TempDir())
	ctl.Start(t)
	t.Cleanup(func() { ctl.Stop(syscall.SIGTERM) })
	c.ApplyAgent(t)
	q := &inspectionFixture{
		Cluster:      c,
		api:          c.NewDirectClient(t, nil),
		cloudSegment: c.Segment(t, "ext-cloud"),
		dualSegment:  c.Segment(t, "ext-dual"),
	}
	log := filepath.Join(t.TempDir(), "agent.log")
	for _, node := range []string{"node1", "node2"} {
		for _, name := range []string{"ovs-vswitchd.ctl", "ovn-controller.ctl", "db.sock"} {
			if err := os.Chown(c.Inside(filepath.Join(c.Dir, "data", node, name)), 65534, 65534); err != nil {
				t.Fatal(err)
			}
		}
		c.RunAgent(t, node, log)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the agents' log is\n%s", harness.ReadFile(t, log))
		}
	})
	t.Run("wires", q.checkNeighbours)
	t.Run("kernel", q.checkKernel)
	t.Run("connections", q.checkConnections)
	t.Run("switch", q.checkSwitch)
	t.Run("ports", q.checkPorts)
	t.Run("send", q.checkSentPackets)
	t.Run("rights", q.checkRights)
	t.Run("time", q.checkResponseTime)
}

// inspectNode queries a node, and returns the answer and the response time.
func (q *inspectionFixture) inspectNode(t *testing.T,
	spec kubedcv1alpha1.InspectionSpec,
) (kubedcv1alpha1.InspectionStatus, time.Duration) {
	t.Helper()
	o := &kubedcv1alpha1.Inspection{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}, Spec: spec}
	if err := q.api.Create(harness.Within(t, harness.Patience), o); err != nil {
		t.Fatal(err)
	}
	took := harness.Eventually(t, "node "+spec.Node+" answers", func() bool {
		return q.api.Get(harness.Within(t, harness.Patience), client.ObjectKeyFromObject(o), o) == nil &&
			o.Status.Time != nil
	})
	if err := q.api.Delete(harness.Within(t, harness.Patience), o); err != nil {
		t.Fatal(err)
	}
	return o.Status, took
}

// neighbourQuestion returns a question about an address on a network.
func neighbourQuestion(network string, a netip.Addr) kubedcv1alpha1.NeighbourQuestion {
	return kubedcv1alpha1.NeighbourQuestion{Interface: network, Address: a.String()}
}

// expectNeighbours fails the test unless the given MAC addresses answered each question.
func (q *inspectionFixture) expectNeighbours(t *testing.T, what, node string,
	questions []kubedcv1alpha1.NeighbourQuestion, want ...[]string,
) kubedcv1alpha1.InspectionStatus {
	t.Helper()
	status, _ := q.inspectNode(t, kubedcv1alpha1.InspectionSpec{Node: node, Neighbours: questions})
	if len(status.Neighbours) != len(want) {
		t.Fatalf("%s: %d answers, wanted %d (%q)", what, len(status.Neighbours), len(want), status.Problems)
	}
	for i, a := range status.Neighbours {
		slices.Sort(want[i])
		if !slices.Equal(a.MACs, want[i]) {
			t.Errorf("%s: on %s %s answers for %s, wanted %s", what, a.Interface, a.MACs, a.Address, want[i])
		}
	}
	return status
}

// linkMAC returns the MAC address of a link.
func (q *inspectionFixture) linkMAC(t *testing.T, place, link string) (out string) {
	t.Helper()
	if err := q.NS(place).Do(func() error {
		l, err := netlink.LinkByName(link)
		if err == nil {
			out = l.Attrs().HardwareAddr.String()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// checkNeighbours checks the answers for addresses of networks: one host, two hosts, and none for an unused address.
func (q *inspectionFixture) checkNeighbours(t *testing.T) {
	router, host := q.linkMAC(t, q.cloudSegment.Router, "lan"), q.linkMAC(t, q.cloudSegment.Neighbour, "eth0")
	router6, host6 := q.linkMAC(t, q.dualSegment.Router, "lan"), q.linkMAC(t, q.dualSegment.Neighbour, "eth0")
	gateway, gateway6 := q.cloudSegment.Gateways[0], q.dualSegment.Gateways[1]
	tagged := neighbourQuestion("ext-cloud", gateway.Addr())
	tagged.Vlan = 7
	questions := []kubedcv1alpha1.NeighbourQuestion{
		neighbourQuestion("ext-cloud", gateway.Addr()),
		neighbourQuestion("ext-cloud", q.cloudSegment.Neighbours[0].Addr()),
		neighbourQuestion("ext-cloud", netip.MustParseAddr("100.65.77.77")), tagged,
		neighbourQuestion("ext-dual", gateway6.Addr()),
		neighbourQuestion("ext-dual", q.dualSegment.Neighbours[1].Addr()),
		neighbourQuestion("ext-dual", netip.MustParseAddr("2001:db8:18::77:77")),
	}
	none := []string{}
	q.expectNeighbours(t, "as it is", "node1", questions, []string{router}, []string{host}, none, none,
		[]string{router6}, []string{host6}, none)

	q.RunInNetns(t, q.cloudSegment.Router, "ip", "addr", "del", gateway.String(), "dev", "lan")
	q.RunInNetns(t, q.dualSegment.Router, "ip", "addr", "del", gateway6.String(), "dev", "lan")
	q.expectNeighbours(t, "without gateways", "node1", questions, none, []string{host}, none, none, none,
		[]string{host6}, none)

	q.RunInNetns(t, q.cloudSegment.Neighbour, "ip", "addr", "add", gateway.Addr().String()+"/32", "dev", "eth0")
	q.RunInNetns(t, q.cloudSegment.Router, "ip", "addr", "add", gateway.String(), "dev", "lan")
	q.RunInNetns(t, q.dualSegment.Neighbour, "ip", "addr", "add", gateway6.Addr().String()+"/128", "dev", "eth0",
		"nodad")
	q.RunInNetns(t, q.dualSegment.Router, "ip", "addr", "add", gateway6.String(), "dev", "lan", "nodad")
	q.expectNeighbours(t, "with two of each", "node2", questions, []string{router, host}, []string{host}, none, none,
		[]string{router6, host6}, []string{host6}, none)
	q.RunInNetns(t, q.cloudSegment.Neighbour, "ip", "addr", "del", gateway.Addr().String()+"/32", "dev", "eth0")
	q.RunInNetns(t, q.dualSegment.Neighbour, "ip", "addr", "del", gateway6.Addr().String()+"/128", "dev", "eth0")

	lost := append(questions[:1:1], neighbourQuestion("eth9", gateway.Addr()))
	status := q.expectNeighbours(t, "with an interface that is not there", "node1", lost, []string{router})
	if want := []string{"there is no interface eth9 on this node"}; !slices.Equal(status.Problems, want) ||
		len(status.Interfaces) == 0 {
		t.Errorf("its problems are %q, wanted %q; %d interfaces are told", status.Problems, want,
			len(status.Interfaces))
	}
}

// checkKernel checks interfaces, sysctls and routes, and that answers follow changes.
func (q *inspectionFixture) checkKernel(t *testing.T) {
	uplink := q.Segment(t, "uplink-a")
	spec := kubedcv1alpha1.InspectionSpec{Node: "node1", Routes: []kubedcv1alpha1.RouteQuestion{
		{To: uplink.Gateways[0].Addr().String()},
		{To: "203.0.113.9", From: "198.51.100.9", Interface: "uplink-a"},
		{To: "2001:db8:ffff::1"},
	}}
	lines := func() string {
		status, _ := q.inspectNode(t, spec)
		var out []string
		for _, name := range []string{"uplink-a", "uplink-b", "ext-dual"} {
			i := slices.IndexFunc(status.Interfaces, func(i kubedcv1alpha1.InterfaceAnswer) bool {
				return i.Name == name
			})
			if i < 0 {
				t.Fatalf("it does not tell of %s: %v", name, status.Interfaces)
			}
			out = append(out, fmt.Sprint(name, " up ", status.Interfaces[i].Up, " cut ", status.Interfaces[i].NoCarrier,
				" mtu ", status.Interfaces[i].MTU))
		}
		for i, r := range status.Routes {
			out = append(out, strings.TrimSpace(fmt.Sprint(i, " ", r.Interface, " ", r.Source, " ", r.Problem)))
		}
		return strings.Join(append(out, "rp_filter "+status.Settings["net.ipv4.conf.uplink-a.rp_filter"]), "\n")
	}
	compare := func(what, want string) {
		t.Helper()
		if got := lines(); got != strings.TrimSpace(want) {
			t.Errorf("%s: node1 tells\n%s\nwanted\n%s", what, got, want)
		}
	}
	q.RunOnNode1(t, "sysctl", "-qw", "net.ipv4.ip_forward=1")
	// so that replies there do not leave by uplink-a
	q.RunOnNode1(t, "ip", "route", "add", "198.51.100.0/24", "dev", "eth0")
	const unreachable = "2   network is unreachable"
	compare("as it is", `
uplink-a up true cut false mtu 1500
uplink-b up true cut false mtu 1500
ext-dual up true cut false mtu 1500
0 uplink-a 192.0.2.11
1 uplink-a 198.51.100.9
`+unreachable+`
rp_filter 0`)
	port := world.PortName("ext-dual", "node1")
	inLab := func(argv ...string) { q.RunInNetns(t, "lab", argv...) }
	inLab("ip", "link", "set", port, "down")
	q.RunOnNode1(t, "sh", "-c", "ip link set uplink-a mtu 1400; ip link set uplink-b down; sysctl -qw net.ipv4.conf.uplink-a.rp_filter=1")
	t.Cleanup(func() {
		inLab("ip", "link", "set", port, "up")
		q.RunOnNode1(t, "sh", "-c", "ip link set uplink-a mtu 1500; ip link set uplink-b up; sysctl -qw net.ipv4.conf.uplink-a.rp_filter=0; ip route del 198.51.100.0/24 dev eth0")
	})
	compare("changed", `
uplink-a up true cut false mtu 1400
uplink-b up false cut false mtu 1500
ext-dual up false cut true mtu 1500
0 uplink-a 192.0.2.11
1   the kernel drops it (rp_filter): a reply to 198.51.100.9 would not leave by uplink-a
`+unreachable+`
rp_filter 1`)
}

// checkConnections checks that the connections of a client are found with their backend, and counted.
func (q *inspectionFixture) checkConnections(t *testing.T) {
	q.CreateOrganization(t, "inspect")
	ns := q.CreateProject(t, "inspect", "web", "10.40.0.0/24", "cloud")
	server := q.RunPod(t, harness.Pod{
		Namespace: ns,
		Name:      "server",
		Image:     "lab/echo",
		Labels:    map[string]string{"app": "server"},
	})
	q.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: server, namespace: %s}
spec: {type: LoadBalancer, selector: {app: server}, ports: [{port: 8080, targetPort: 80}]}`, ns))
	h := &harness.BackendProject{Cluster: q.Cluster, Namespace: ns}
	h.WaitServiceProgrammed(t, "server")
	eip, out := h.ServiceAddress(t, "server"), q.ReadField(t, "EIp", ns, "default-gw", "status", "ipAddress")
	from := q.cloudSegment.ClientSide[0].Peer.Addr().String()
	spec := kubedcv1alpha1.InspectionSpec{
		Connections: []kubedcv1alpha1.ConnectionQuestion{{Client: from, Server: eip, Port: 8080}},
		Usage:       []string{eip, out},
	}
	const many = 20
	for range many {
		q.ExpectAnswer(t, q.cloudSegment.Client, "http://"+eip+":8080", "server", from)
		q.ExpectAnswer(t, "server."+ns, "http://"+harness.InternetAddress+":80", "internet", out)
	}
	holder := h.RunSbctl(t, "--columns=chassis", "find", "port_binding", "logical_port=cr-inspect-web-ext-cloud")
	spec.Node = h.RunSbctl(t, "--columns=hostname", "list", "chassis", holder)
	status, _ := q.inspectNode(t, spec)
	if len(status.Connections) < many {
		t.Fatalf("%s tells of %d connections of %s to %s, wanted %d: %v", spec.Node, len(status.Connections), from, eip,
			many, status.Problems)
	}
	for _, c := range status.Connections {
		want := kubedcv1alpha1.ConnectionAnswer{ // the client chooses its port, and OVN the zone
			Protocol: "tcp", Source: c.Source, Destination: eip + ":8080", ReplySource: server + ":80",
			ReplyDestination: c.Source,
			State:            c.State, Zone: c.Zone, ZoneName: c.ZoneName,
		}
		if c != want || !strings.HasPrefix(c.Source, from+":") || c.State == "" ||
			!strings.HasPrefix(c.ZoneName, "inspect-web") {
			t.Errorf("a connection is %+v; wanted one of %s to %s:80 in a zone of the project's router", c, from,
				server)
		}
	}
	in, left := status.Usage[0], status.Usage[1]
	if in.Connections < many || in.Ports != 0 || left.Connections < many || left.Ports < many ||
		left.To != harness.InternetAddress+":80" || left.Protocol != "tcp" {
		t.Errorf("usage is %+v, wanted %d that come, and %d that leave to %s", status.Usage, many, many,
			harness.InternetAddress)
	}
	other := map[string]string{"node1": "node2", "node2": "node1"}[spec.Node]
	address := netip.MustParseAddr(eip)
	held := q.RunNbctl(t, "get", "logical_router_port", "inspect-web-ext-cloud", "mac")
	question := []kubedcv1alpha1.NeighbourQuestion{neighbourQuestion("ext-cloud", address)}
	q.expectNeighbours(t, "of an address that another node holds", other, question, []string{strings.Trim(held, `"`)})
	q.expectNeighbours(t, "of an address that the node itself holds", spec.Node, question, []string{})
	spec.Node, spec.Connections[0].Client = other, "192.0.2.99"
	if status, _ = q.inspectNode(t, spec); len(status.Connections) > 0 || status.Usage[0].Connections > 0 {
		t.Errorf("%s, which does not hold them, tells of %v and %v", other, status.Connections, status.Usage)
	}
}

// checkSwitch checks the state of Open vSwitch and ovn-controller, also when they do not answer.
func (q *inspectionFixture) checkSwitch(t *testing.T) {
	spec := kubedcv1alpha1.InspectionSpec{Node: "node1", Usage: []string{"100.65.0.99"}}
	status, _ := q.inspectNode(t, spec)
	s := status.Switch
	if s.Version == "" || s.Chassis != "node1" || s.Controller != "connected" || s.Problem != "" || s.MaxTracked == 0 ||
		len(status.Problems) > 0 {
		t.Errorf("the switch is %+v, problems %q", s, status.Problems)
	}
	want := []kubedcv1alpha1.BridgeAnswer{
		{Name: "br-ext-cloud", Network: "ext-cloud", Interfaces: []string{"ext-cloud"}},
		{Name: "br-ext-dual", Network: "ext-dual", Interfaces: []string{"ext-dual"}},
	}
	if fmt.Sprint(s.Bridges) != fmt.Sprint(want) {
		t.Errorf("its bridges are %v, wanted %v", s.Bridges, want)
	}
	q.RunVsctl(t, "node1", "del-port", "br-ext-dual", "ext-dual")
	t.Cleanup(func() { q.RunVsctl(t, "node1", "--may-exist", "add-port", "br-ext-dual", "ext-dual") })
	if status, _ = q.inspectNode(t, spec); len(status.Switch.Bridges) != 2 ||
		len(status.Switch.Bridges[1].Interfaces) != 0 {
		t.Errorf("without its port, the bridges are %v", status.Switch.Bridges)
	}
	q.ControlLab(t, "pause", "node1-vswitchd")
	status, took := q.inspectNode(t, spec)
	q.ControlLab(t, "resume", "node1-vswitchd")
	if took > show.ChooseSize(30*time.Second, harness.Patience) || status.Switch.Problem == "" || len(status.Problems) == 0 || len(status.Interfaces) == 0 {
		t.Errorf("with a switch that hangs, it answered after %v: %q, %q, %d interfaces", took, status.Switch.Problem,
			status.Problems, len(status.Interfaces))
	}
}

// checkPorts asks pods whether they answer. What is not a pod of the node is not asked: a pod of another node, the node's
// own port in OVN, or an uplink.
func (q *inspectionFixture) checkPorts(t *testing.T) {
	q.RunPod(t, harness.Pod{Namespace: "default", Name: "open", Node: "node1"})
	pod, err := q.Client.CoreV1().Pods("default").Get(harness.Within(t, harness.Patience), "open", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	good := kubedcv1alpha1.PortQuestion{
		LogicalPort: "open.default", MAC: pod.Annotations["ovn.kubernetes.io/mac_address"], Address: pod.Status.PodIP,
		From: pod.Annotations["ovn.kubernetes.io/gateway"], Protocol: "tcp", Port: 80,
	}
	ask := func(node string, change func(*kubedcv1alpha1.PortQuestion)) kubedcv1alpha1.PortAnswer {
		question := good
		change(&question)
		status, _ := q.inspectNode(t, kubedcv1alpha1.InspectionSpec{
			Node: node, Ports: []kubedcv1alpha1.PortQuestion{question},
		})
		if len(status.Ports) != 1 {
			t.Fatalf("%+v: %d answers, problems %q", question, len(status.Ports), status.Problems)
		}
		return status.Ports[0]
	}
	for _, c := range []struct {
		what, node, result, problem string
		change                      func(*kubedcv1alpha1.PortQuestion)
	}{
		{"a port", "node1", "Open", "", func(*kubedcv1alpha1.PortQuestion) {}},
		{"a closed port", "node1", "Closed", "", func(q *kubedcv1alpha1.PortQuestion) { q.Port = 81 }},
		{"by UDP", "node1", "Closed", "", func(q *kubedcv1alpha1.PortQuestion) { q.Protocol, q.Port = "udp", 81 }},
		{"by SCTP", "node1", "Open", "", func(q *kubedcv1alpha1.PortQuestion) { q.Protocol = "sctp" }},
		{"a ping", "node1", "Open", "", func(q *kubedcv1alpha1.PortQuestion) { q.Protocol, q.Port = "icmp", 0 }},
		{"another address", "node1", "Silent", "", func(q *kubedcv1alpha1.PortQuestion) { q.Address = "10.16.9.9" }},
		{"a pod of another node", "node2", "", "no pod of this node", func(*kubedcv1alpha1.PortQuestion) {}},
		{"the node", "node1", "", "no pod of this node", func(q *kubedcv1alpha1.PortQuestion) { q.LogicalPort = "node-node1" }},
		{"an uplink", "node1", "", "no pod of this node", func(q *kubedcv1alpha1.PortQuestion) { q.LogicalPort = "ext-cloud" }},
		{"for everybody", "node1", "", "not allowed", func(q *kubedcv1alpha1.PortQuestion) { q.From = "224.0.0.1" }},
	} {
		if got := ask(c.node, c.change); got.Result != c.result || !strings.Contains(got.Problem, c.problem) ||
			(got.Problem != "") != (c.problem != "") {
			t.Errorf("%s: %+v, wanted %q, %q", c.what, got, c.result, c.problem)
		}
	}
}

// checkSentPackets sends packets into OVN. What is not an external network of the node is refused, as are packets that are
// not from host to host, and more packets than a node sends.
func (q *inspectionFixture) checkSentPackets(t *testing.T) {
	q.CreateOrganization(t, "sends")
	q.CreateProject(t, "sends", "web", "10.41.0.0/24", "cloud")
	holder := q.RunSbctl(t, "--columns=chassis", "find", "port_binding", "logical_port=cr-sends-web-ext-cloud")
	node := q.RunSbctl(t, "--columns=hostname", "list", "chassis", holder)
	good := kubedcv1alpha1.SendQuestion{
		LogicalPort: "localnet.ext-cloud", MAC: "00:00:00:5e:00:07", From: harness.InternetAddress, To: "100.65.77.77",
		FromPort: 50000, Port: 80, Protocol: "udp", Mark: 7,
	}
	send := func(change func(*kubedcv1alpha1.SendQuestion)) string {
		question := good
		change(&question)
		status, _ := q.inspectNode(t, kubedcv1alpha1.InspectionSpec{Node: node, Send: &question})
		if status.Sent == nil {
			t.Fatalf("%+v: no answer, problems %q", question, status.Problems)
		}
		return status.Sent.Problem
	}
	for _, c := range []struct {
		what, problem string
		change        func(*kubedcv1alpha1.SendQuestion)
	}{
		{"a packet", "", func(*kubedcv1alpha1.SendQuestion) {}},
		{"at a pod", "no patch port", func(s *kubedcv1alpha1.SendQuestion) { s.LogicalPort = "open.default" }},
		{"at the node", "no patch port", func(s *kubedcv1alpha1.SendQuestion) { s.LogicalPort = "node-node1" }},
		{"at an interface", "no patch port", func(s *kubedcv1alpha1.SendQuestion) { s.LogicalPort = "ext-cloud" }},
		{"to many", "not allowed", func(s *kubedcv1alpha1.SendQuestion) { s.To = "224.0.0.1" }},
		{"to all", "not allowed", func(s *kubedcv1alpha1.SendQuestion) { s.To = "255.255.255.255" }},
		{"to the node itself", "not allowed", func(s *kubedcv1alpha1.SendQuestion) { s.To = "127.0.0.1" }},
		{"to all stations", "not the MAC address", func(s *kubedcv1alpha1.SendQuestion) { s.MAC = "ff:ff:ff:ff:ff:ff" }},
	} {
		if got := send(c.change); !strings.Contains(got, c.problem) || (got != "") != (c.problem != "") {
			t.Errorf("%s: %q, wanted %q", c.what, got, c.problem)
		}
	}
	// All at once: a node sends eight, and one more per second.
	const many = 24
	problems := make([]string, many)
	var group sync.WaitGroup
	for i := range many {
		group.Go(func() { problems[i] = send(func(*kubedcv1alpha1.SendQuestion) {}) })
	}
	group.Wait()
	refused := 0
	for _, p := range problems {
		if strings.Contains(p, "at most one packet per 1s") {
			refused++
		}
	}
	if refused == 0 || refused == many {
		t.Errorf("of %d packets that were asked for at once, %d were refused", many, refused)
	}
}

// checkRights checks who may create Inspections and who may answer them.
func (q *inspectionFixture) checkRights(t *testing.T) {
	ask := func(name, node string) *kubedcv1alpha1.Inspection {
		o := &kubedcv1alpha1.Inspection{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       kubedcv1alpha1.InspectionSpec{Node: node},
		}
		if err := q.api.Create(harness.Within(t, harness.Patience), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = q.api.Delete(harness.Within(t, harness.Patience), o) })
		return o
	}
	ask("of-node1", "node1")
	nobodys := ask("of-nobody", "node9")
	var mine kubedcv1alpha1.InspectionList
	if err := q.api.List(harness.Within(t, harness.Patience), &mine,
		client.MatchingFields{"spec.node": "node1"}); err != nil || len(mine.Items) != 1 ||
		mine.Items[0].Name != "of-node1" {
		t.Errorf("an agent would see %d Inspections: %v", len(mine.Items), err)
	}
	agent := harness.NewUser(t, "the agent of node1",
		harness.LoadConfig(t, q.KubeconfigForHost(t, q.AgentKubeconfig(t, "node1"))))
	const says = `{"status":{"problems":["x"]}}`
	agent.Can(t, "answer for its node", harness.TryPatch("inspections//of-node1/status", says))
	agent.Cannot(t, "answer for another", harness.TryPatch("inspections//of-nobody/status", says),
		"an agent reports on the node that it runs on, and this is the Inspection of node9")
	agent.Cannot(t, "ask", harness.TryCreate("inspections//new", "{spec: {node: node1}}"), "cannot create")
	agent.Cannot(t, "delete", harness.TryDelete("inspections//of-node1"), "cannot delete")

	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "operators"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "sallyport-operator"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "olga"}},
	}
	if _, err := q.Client.RbacV1().ClusterRoleBindings().Create(harness.Within(t, harness.Patience), binding,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	olga := q.ImpersonateUser(t, "olga")
	olga.Can(t, "ask", harness.TryCreate("inspections//new", "{spec: {node: node1}}"))
	olga.Can(t, "read", harness.TryGet("nodes//node1"))
	olga.Cannot(t, "answer", harness.TryPatch("inspections//of-node1/status", says), "cannot patch")
	olga.Cannot(t, "read Secrets", harness.TryGet("secrets/kube-system/any"), "cannot get")
	q.ImpersonateUser(t, "tom").Cannot(t, "ask", harness.TryCreate("inspections//new", "{spec: {node: node1}}"),
		"cannot create")
	if err := q.api.Get(harness.Within(t, harness.Patience), client.ObjectKeyFromObject(nobodys), nobodys); err != nil ||
		nobodys.Status.Time != nil {
		t.Errorf("somebody answered for node9: %v, %v", nobodys.Status, err)
	}
}

// checkResponseTime measures the time until an answer.
func (q *inspectionFixture) checkResponseTime(t *testing.T) {
	var all []kubedcv1alpha1.NeighbourQuestion
	for i := range 256 {
		all = append(all, neighbourQuestion("ext-cloud", netip.AddrFrom4([4]byte{100, 65, 3, byte(i)})))
	}
	all[0] = neighbourQuestion("ext-cloud", q.cloudSegment.Gateways[0].Addr())
	for what, spec := range map[string]kubedcv1alpha1.InspectionSpec{
		"the node as it is":         {Node: "node1"},
		"and 1,024 addresses' use":  {Node: "node1", Usage: numberedAddresses(1024)},
		"and 256 addresses on wire": {Node: "node1", Neighbours: all},
	} {
		var took []time.Duration
		for range 5 {
			status, after := q.inspectNode(t, spec)
			took = append(took, after)
			if len(status.Problems) > 0 || len(spec.Neighbours) > 0 && len(status.Neighbours[0].MACs) != 1 {
				t.Errorf("%s: %q, %v", what, status.Problems, status.Neighbours[:1])
			}
		}
		slices.Sort(took)
		t.Logf("%s: answered after %d ms (median of %d, at most %d ms)", what, took[len(took)/2].Milliseconds(),
			len(took), took[len(took)-1].Milliseconds())
	}
}

func numberedAddresses(n int) (out []string) {
	for i := range n {
		out = append(out, netip.AddrFrom4([4]byte{100, 65, byte(i >> 8), byte(i)}).String())
	}
	return out
}
