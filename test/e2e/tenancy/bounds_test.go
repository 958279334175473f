package tenancy

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	grpcstatus "google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/controller/nodehealth"
	"github.com/sallyport/sallyport/internal/engine/mtls"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

const byHealthPort = "the limits of the agent's health port"

// boundsAttacks are the attacks that limits of rates, sizes and times, and names in certificates stop.
var boundsAttacks = []attack{
	{"M4", outsider, "20 connections with 5,000 Watch streams each to an agent", byHealthPort, floodStreams},
	{"M4", outsider, "1,000 connections to an agent that say nothing", byHealthPort, floodConnections},
	{
		"M5", outsider, "the certificate of OVN's databases asks an agent", "names in certificates",
		askWithCertificate("ovn"),
	},
	{
		"M5", nodeAgent, "the certificate of one agent asks another", "names in certificates",
		askWithCertificate(nodehealth.AgentName),
	},
	{"M5", outsider, "no certificate asks an agent", "TLS of the agent", askWithCertificate("")},
	{
		"M6", tenantEditor, "a tenant reads metrics, with its token and without", "the rights on `/metrics`",
		readMetricsUnauthorized,
	},
	{"L9", tenantEditor, "150 patches of a Service, to and fro", "one Event for each reason", flipServicePatches},
	{
		"L9", tenantEditor, "100 EIps that are made and refused again and again",
		"one Event for each reason, a budget for the namespace", recreateRefusedEIP,
	},
	{"L10", tenantEditor, "a Service with thousands of ports", "condition `TooManyPorts`", requestManyPorts},
	{
		"", tenantEditor, "a Service with 200 source ranges, which ovn-controller can't negate",
		"rules that match what passes", requestManyRanges,
	},
	{"", tenantEditor, "a Service with 300 source ranges", "condition `TooManyRanges`", requestTooManyRanges},
	{
		"", tenantEditor, "a NetworkPolicy with 8 exceptions, which ovn-controller can't negate", byNetworks,
		expectRefused(
			harness.TryCreate("networkpolicies/evil-x/new", policyWithExceptions(8)), "use at most 3 in a rule",
			harness.TryCreate("networkpolicies/evil-x/new", policyWithExceptions(3))),
	},
	{"L7", nodeAgent, "an Event in the namespace of the platform", "RBAC of the agent", expectRefused(
		harness.TryCreate("events/kube-system/new", eventManifest("Pod", "x", "sallyport-agent")),
		"cannot create resource",
		harness.TryCreate("events/default/new", eventManifest("NodePath", "node1", "sallyport-agent")))},
}

const healthPort = 9107

// startAgent runs an agent on node1 that only answers health checks, with or without a certificate, and returns its
// process id.
func (f *attackFixture) startAgent(t *testing.T, secure bool) int {
	t.Helper()
	program, err := filepath.Abs("../../../bin/sallyport-agent")
	if err != nil {
		t.Fatal(err)
	}
	argv := []string{
		"setpriv", "--pdeathsig", "KILL", "--", program,
		"--egressip-node-healthcheck-port=" + strconv.Itoa(healthPort), "--bind-address=" + f.agentAddress(),
	}
	if secure {
		argv = append(argv, harness.HealthCheckFlags(filepath.Join(f.Dir, "pki"), nodehealth.AgentName)...)
	}
	cmd, err := f.Command("", "node1", argv...)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

func (f *attackFixture) agentAddress() string {
	return f.Blueprint.NodeList()[0].Tunnel.Addr().String()
}

func (f *attackFixture) certificateFiles(name string) mtls.Files {
	pki := func(file string) string { return filepath.Join(f.Dir, "pki", file) }
	return mtls.Files{Cert: pki(name + ".crt"), Key: pki(name + ".key"), CA: pki("ca.crt")}
}

// newAgentClient returns a client of the agent on node1, from another node.
func (f *attackFixture) newAgentClient(t *testing.T, from string,
	secrets credentials.TransportCredentials,
) grpc_health_v1.HealthClient {
	t.Helper()
	at := net.JoinHostPort(f.agentAddress(), strconv.Itoa(healthPort))
	conn, err := grpc.NewClient("passthrough:///"+at, grpc.WithTransportCredentials(secrets),
		grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) {
			return f.NS(from).Dial(ctx, "tcp", to)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return grpc_health_v1.NewHealthClient(conn)
}

func checkAgent(t *testing.T, client grpc_health_v1.HealthClient) error {
	t.Helper()
	_, err := client.Check(harness.Within(t, harness.Patience),
		&grpc_health_v1.HealthCheckRequest{Service: nodehealth.HealthService}, grpc.WaitForReady(true))
	return err
}

// expectAgentAnswer is the positive control: a request like the controller's is answered.
func expectAgentAnswer(t *testing.T, client grpc_health_v1.HealthClient) {
	t.Helper()
	harness.Eventually(t, "an answer of the agent", func() bool { return checkAgent(t, client) == nil })
}

// agentMemoryMB returns the memory usage of the agent in MB. The started process entered the node's namespaces; the
// agent is that process or its child.
func agentMemoryMB(t *testing.T, pid int) (most int) {
	t.Helper()
	pids := append(strings.Fields(harness.ReadFile(t, fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))),
		strconv.Itoa(pid))
	for _, p := range pids {
		raw, err := os.ReadFile("/proc/" + p + "/status")
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(raw)) {
			if kb, is := strings.CutPrefix(line, "VmRSS:"); is {
				n, _ := strconv.Atoi(strings.Fields(kb)[0])
				most = max(most, n>>10)
			}
		}
	}
	return most
}

func floodStreams(t *testing.T, f *attackFixture, _ actor) {
	pid := f.startAgent(t, false)
	asks := f.newAgentClient(t, "node3", insecure.NewCredentials())
	expectAgentAnswer(t, asks)
	done := make(chan struct{})
	for range 20 {
		client := f.newAgentClient(t, "node2", insecure.NewCredentials())
		go func() {
			defer func() { done <- struct{}{} }()
			for range 5000 {
				w, err := client.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: nodehealth.HealthService})
				if err == nil {
					_, err = w.Recv()
				}
				if err == nil {
					t.Error("a stream is open")
					return
				}
			}
		}()
	}
	for range 20 {
		<-done
		if err := checkAgent(t, asks); err != nil {
			t.Errorf("the controller's question under the flood: %v", err)
		}
	}
	if mb := agentMemoryMB(t, pid); mb == 0 || mb > 64 {
		t.Errorf("the agent has %d MB", mb)
	}
}

func floodConnections(t *testing.T, f *attackFixture, _ actor) {
	f.startAgent(t, true)
	secrets, err := f.clientTLSConfig(nodehealth.ControllerName)
	if err != nil {
		t.Fatal(err)
	}
	asks := f.newAgentClient(t, "node3", credentials.NewTLS(secrets))
	expectAgentAnswer(t, asks)
	at := net.JoinHostPort(f.agentAddress(), strconv.Itoa(healthPort))
	for i := range 1000 {
		// the controller's health checks come from node3
		conn, err := f.NS([]string{"node2", "node3"}[i%2]).Dial(t.Context(), "tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	if err := checkAgent(t, asks); err != nil {
		t.Errorf("the controller's question: %v", err)
	}
}

func (f *attackFixture) clientTLSConfig(name string) (*tls.Config, error) {
	files := f.certificateFiles(name)
	files.PeerName = nodehealth.AgentName
	return files.ClientConfig()
}

// askWithCertificate connects to an agent with a certificate that is not the controller's, or with none if the name is
// empty.
func askWithCertificate(name string) func(*testing.T, *attackFixture, actor) {
	return func(t *testing.T, f *attackFixture, _ actor) {
		t.Helper()
		f.startAgent(t, true)
		own, err := f.clientTLSConfig(nodehealth.ControllerName)
		if err != nil {
			t.Fatal(err)
		}
		expectAgentAnswer(t, f.newAgentClient(t, "node3", credentials.NewTLS(own)))
		secrets := insecure.NewCredentials()
		if name != "" {
			other, err := f.clientTLSConfig(name)
			if err != nil {
				t.Fatal(err)
			}
			secrets = credentials.NewTLS(other)
		}
		client := f.newAgentClient(t, "node2", secrets)
		_, err = client.Check(harness.Within(t, harness.Patience),
			&grpc_health_v1.HealthCheckRequest{Service: nodehealth.HealthService})
		if grpcstatus.Code(err) != codes.Unavailable {
			t.Errorf("it is told %v", err)
		}
	}
}

// readMetricsUnauthorized requests the metrics of a second controller, which waits for leadership.
func readMetricsUnauthorized(t *testing.T, f *attackFixture, _ actor) {
	c := f.NewController(t, t.TempDir(), "--leader-elect=true", "--metrics-secure")
	c.StartForTest(t)
	f.Apply(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: reads-metrics},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: sallyport-metrics-reader}, subjects: [{kind: ServiceAccount, name: owner, namespace: evil-x}]}`)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // it is self-signed
	read := func(scheme, token string) int {
		r, err := http.NewRequestWithContext(harness.Within(t, harness.Patience), http.MethodGet,
			scheme+"://"+c.MetricsAddress+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := client.Do(r)
		if err != nil {
			return 0
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	harness.Eventually(t, "metrics for who may", func() bool {
		return read("https", f.createToken(t, "evil-x", "owner")) == http.StatusOK
	})
	if got := read("https", f.createToken(t, "evil-x", "edit")); got != http.StatusForbidden {
		t.Errorf("a tenant gets %d", got)
	}
	if got := read("https", ""); got != http.StatusUnauthorized {
		t.Errorf("nobody gets %d", got)
	}
	if got := read("http", f.createToken(t, "evil-x", "owner")); got == http.StatusOK {
		t.Error("they are served without TLS")
	}
}

// countEvents returns the number of our Events in the attacker's namespace about an object, or about any if the name is
// empty.
func (f *attackFixture) countEvents(t *testing.T, name string) (n int) {
	t.Helper()
	list, err := f.Client.EventsV1().Events("evil-x").List(harness.Within(t, harness.Patience), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.ReportingController == "sallyport" && (name == "" || e.Regarding.Name == name) {
			n++
		}
	}
	return n
}

func flipServicePatches(t *testing.T, f *attackFixture, who actor) {
	service := func(address string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: flip, namespace: evil-x, annotations: {network.kube-dc.com/external-network-type: public}},
  spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, loadBalancerIP: %s, selector: {app: mallory}, ports: [{port: 80}]}}`, address)
	}
	// control: a Service gets Events at all. One that waits for its EIp has none: the EIp has them.
	who.MustApply(t, f, service("91.224.11.78"))
	f.WaitForObject(t, "Service", "evil-x", "flip", manifest.True("Programmed"))
	harness.Eventually(t, "an Event", func() bool { return f.countEvents(t, "flip") > 0 })
	begun := time.Now()
	for i := range 150 {
		ctx := harness.Within(t, harness.Patience)
		if err := who.objects.Apply(ctx, service([]string{"91.224.11.1", "91.224.11.78"}[i%2])); err != nil {
			t.Fatal(err)
		}
		<-time.After(50 * time.Millisecond) // so that the controller reports each
	}
	f.WaitForObject(t, "Service", "evil-x", "flip", manifest.True("Programmed"))
	// the limit of an object is 25, and one more every five minutes
	if n, limit := f.countEvents(t, "flip"), 25+int(time.Since(begun)/(5*time.Minute))+1; n > limit {
		t.Errorf("%d Events, wanted %d at most", n, limit)
	}
}

func recreateRefusedEIP(t *testing.T, f *attackFixture, who actor) {
	before, begun := f.countEvents(t, ""), time.Now()
	bad := eipManifest("evil-x", "again", "{externalNetworkType: public, ipAddress: 91.224.11.1}")
	for range 100 {
		if err := who.objects.Apply(harness.Within(t, harness.Patience), bad); err != nil {
			t.Fatal(err)
		}
		f.expectReason(t, harness.ObjectRef("EIp", "evil-x", "again"), "Accepted", "AddressOutsideNetwork")
		if err := who.objects.Delete(harness.Within(t, harness.Patience), bad); err != nil {
			t.Fatal(err)
		}
	}
	// the limit of a namespace is 250, and one more every second
	n := f.countEvents(t, "") - before
	if limit := 250 + int(time.Since(begun).Seconds()) + 1; n == 0 || n > limit {
		t.Errorf("%d Events, wanted %d at most", n, limit)
	}
}

// rangedService returns a Service of the attacker with source ranges: a client, and unrelated addresses.
func rangedService(client string, more int) string {
	ranges := client + "/32"
	for i := range more {
		ranges += fmt.Sprintf(", %d.%d.%d.%d/32", 1+i*37%200, i*91%250, i*53%250, i*29%250)
	}
	return fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: ranged, namespace: evil-x, annotations: {network.kube-dc.com/external-network-type: public}},
  spec: {type: LoadBalancer, selector: {app: mallory}, ports: [{port: 80}], loadBalancerSourceRanges: [%s]}}`, ranges)
}

func requestManyRanges(t *testing.T, f *attackFixture, who actor) {
	who.MustApply(t, f, rangedService(f.public.ClientAddress, 199))
	f.WaitForObject(t, "Service", "evil-x", "ranged", manifest.True("Programmed"))
	begun := time.Now()
	f.SyncFlows(t)
	if took := time.Since(begun); took > show.ChooseSize(time.Minute, harness.Patience) {
		t.Errorf("the nodes took %v to carry it out", took)
	}
	address := f.serviceAddress(t, "ranged")
	f.ExpectAnswer(t, f.public.Client, "http://"+address, "mallory", f.public.ClientAddress)
	f.ExpectSilence(t, f.public.Neighbour, "http://"+address)
}

func requestTooManyRanges(t *testing.T, f *attackFixture, who actor) {
	who.MustApply(t, f, rangedService(f.public.ClientAddress, 299))
	f.expectReason(t, harness.ObjectRef("Service", "evil-x", "ranged"), "Accepted", "TooManyRanges")
	who.MustApply(t, f, rangedService(f.public.ClientAddress, 9))
	f.WaitForObject(t, "Service", "evil-x", "ranged", manifest.True("Programmed"))
}

// serviceAddress returns the address of a Service of the attacker.
func (f *attackFixture) serviceAddress(t *testing.T, service string) string {
	t.Helper()
	var address string
	hasAddress := func(o *unstructured.Unstructured) bool {
		address = harness.IngressIP(o)
		return address != ""
	}
	if err := f.Objects.Wait(harness.Within(t, harness.Patience), harness.ObjectRef("Service", "evil-x", service),
		hasAddress); err != nil {
		t.Fatal(err)
	}
	return address
}

// policyWithExceptions returns a NetworkPolicy that admits everyone except some addresses.
func policyWithExceptions(n int) string {
	var except []string
	for i := range n {
		except = append(except, fmt.Sprintf("%d.%d.%d.%d/32", 1+i*37%200, i*91%250, i*53%250, i*29%250))
	}
	return fmt.Sprintf("{spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0, except: [%s]}}]}]}}",
		strings.Join(except, ", "))
}

func requestManyPorts(t *testing.T, f *attackFixture, who actor) {
	before := f.createVictimService(t, "alone")
	var ports strings.Builder
	for p := range show.ChooseSize(4000, 1500) {
		fmt.Fprintf(&ports, "{name: p%d, port: %d, targetPort: 80}, ", p, p+1)
	}
	who.MustApply(t, f, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: wide, namespace: evil-x, annotations: {network.kube-dc.com/external-network-type: public}},
  spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, selector: {app: mallory}, ports: [%s]}}`, strings.TrimSuffix(ports.String(), ", ")))
	f.expectReason(t, harness.ObjectRef("Service", "evil-x", "wide"), "Programmed", "TooManyPorts")
	address := f.serviceAddress(t, "wide")
	f.SyncFlows(t) // the condition does not say whether the nodes have the flows
	// control: ports within the limit work
	f.ExpectAnswer(t, f.public.Client, "http://"+address+":1000", "mallory", f.public.ClientAddress)
	f.ExpectSilence(t, f.public.Client, "http://"+address+":1001")
	if took := f.createVictimService(t, "beside"); took > max(show.ChooseSize(time.Minute, harness.Patience), 4*before) {
		t.Errorf("meanwhile another tenant's Service took %v; before, one took %v", took, before)
	}
}

// createVictimService creates a Service of a victim and returns how long it took to be programmed.
func (f *attackFixture) createVictimService(t *testing.T, name string) time.Duration {
	t.Helper()
	begun := time.Now()
	f.Apply(t, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: %s, annotations: {network.kube-dc.com/external-network-type: public}},
  spec: {type: LoadBalancer, selector: {app: shop}, ports: [{port: 80}]}}`, name, f.victims[0].namespace))
	f.WaitForObject(t, "Service", f.victims[0].namespace, name, manifest.True("Programmed"))
	return time.Since(begun)
}
