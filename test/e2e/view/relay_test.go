package view

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/engine/relay"
	"github.com/sallyport/sallyport/internal/lab/cluster"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// volatile are the parts of outputs that differ between two runs.
var volatile = regexp.MustCompile(`[0-9.msh]+ ago|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`)

// relayFixture is a lab with a replica of the controller as a pod, and users who have a kubeconfig only.
type relayFixture struct {
	*harness.Cluster
	address string // a floating IP
	direct  []string
}

// TestDay2OnlyAKubeconfig runs every command with nothing but a kubeconfig: without a route to OVN's databases and
// without their certificates. The answers are those of direct access.
func TestDay2OnlyAKubeconfig(t *testing.T) {
	item := dayItems.Item(t, 2)
	c := harness.SharedSallyport(t)
	c.CreateOrganization(t, "laptop")
	ns := c.CreateProject(t, "laptop", "web", "10.88.0.0/24", "cloud")
	c.RunPod(t, harness.Pod{Namespace: ns, Name: "web", Node: "node1"})
	f := &relayFixture{Cluster: c, address: c.CreateFIP(t, ns, "web",
		"{podTarget: {podName: web}, externalNetworkType: public}")}
	north, south := c.DatabaseConfig(t, "nb"), c.DatabaseConfig(t, "sb")
	f.direct = []string{
		"--nb-address", strings.Join(north.Endpoints, ","), "--sb-address", strings.Join(south.Endpoints, ","),
		"--nb-cert", north.CertFile, "--nb-key", north.KeyFile, "--nb-ca", north.CAFile,
	}
	admin, olga := f.userConfig(t, ""), f.userConfig(t, "olga")

	out, code := f.runCommand(t, admin, "status")
	harness.ExpectContains(t, out, "could not read OVN", "no pod of the controller runs")
	if code != 1 {
		t.Errorf("without a replica: exit code %d", code)
	}
	f.startReplica(t)
	f.bind(t, "ClusterRoleBinding", "", "ClusterRole", "sallyport-operator")
	out, code = f.runCommand(t, olga, "explain", "fip/web", "-n", ns)
	harness.ExpectContains(t, out, "forbidden", "--role=sallyport-ovn-reader", "could not read OVN")
	if code != 1 || strings.Contains(out, "works\n") {
		t.Errorf("without permission: exit code %d:\n%s", code, out)
	}
	f.bind(t, "RoleBinding", harness.ChartNamespace, "Role", "sallyport-ovn-reader")
	harness.Eventually(t, "the permission takes effect", func() bool {
		_, code := f.runCommand(t, olga, "status")
		return code == 0
	})
	n := f.compareCommands(t, ns, olga)
	refused := f.attackRelay(t)
	item.AddFigure("%d commands say the same with a kubeconfig only as with OVN's keys; %d attacks on the relay are refused",
		n, refused)
}

// compareCommands runs commands with a kubeconfig only and with direct access, and returns their number.
func (f *relayFixture) compareCommands(t *testing.T, ns, kubeconfig string) (n int) {
	t.Helper()
	survey := filepath.Join(t.TempDir(), "survey.json")
	for _, args := range [][]string{
		{"status"},
		{"doctor"},
		{"plan"},
		{"plan", ns},
		{"map"},
		{"map", ns},
		{"top", "pools"},
		{"top", "nodes"},
		{"explain", "fip/web", "-n", ns, "-v"},
		{"explain", f.address},
		{"trace", f.Network(t, "public").ClientAddress, f.address + ":80"},
		{"survey", survey},
		{"doctor", "--bundle", filepath.Join(t.TempDir(), "bundle.tar.gz")},
	} {
		var said, want string
		var code, wantCode int
		for range 3 { // something may happen in between
			want, wantCode = f.runCommand(t, f.userConfig(t, ""), append(args, f.direct...)...)
			said, code = f.runCommand(t, kubeconfig, args...)
			if said == want && code == wantCode {
				break
			}
		}
		if said != want || code != wantCode {
			t.Errorf("%v: exit code %d, want %d\n%s\nwant\n%s", args, code, wantCode, said, want)
		}
		n++
	}
	if out, code := f.runCommand(t, kubeconfig, "map", "--survey", survey); code != 0 || !strings.Contains(out, ns) {
		t.Errorf("the survey lacks the project: exit code %d\n%s", code, out)
	}
	return n
}

// attackRelay connects with tokens that must not be accepted, and sends a write with one that is. It returns the number
// of attacks.
func (f *relayFixture) attackRelay(t *testing.T) (n int) {
	t.Helper()
	config := harness.LoadConfig(t, f.Kubeconfig())
	tunnel, err := kube.NewRelayTunnel(config, harness.ChartNamespace, relay.Audience)
	if err != nil {
		t.Fatal(err)
	}
	defer tunnel.Close()
	open := func(token string) (net.Conn, error) {
		client := &relay.Client{Dial: tunnel.Dial, Token: func(context.Context) (string, error) { return token, nil }}
		return client.Open(harness.Within(t, harness.Patience), relay.Northbound)
	}
	const reader = "sallyport-ovn-reader"
	for name, c := range map[string]struct {
		token string
		want  int
	}{
		"no token":                             {"", http.StatusUnauthorized},
		"an invented token":                    {"x.y.z", http.StatusUnauthorized},
		"a tenant's token for the relay":       {f.issueToken(t, "laptop", "default", relay.Audience), http.StatusForbidden},
		"a token of the reader for the API":    {f.issueToken(t, harness.ChartNamespace, reader), http.StatusUnauthorized},
		"the controller's token for the relay": {f.issueToken(t, harness.ChartNamespace, "sallyport-controller", relay.Audience), http.StatusForbidden},
	} {
		_, err := open(c.token)
		if got := new(relay.AnswerError); !errors.As(err, &got) || got.Status != c.want {
			t.Errorf("%s: %v, want %d", name, err, c.want)
		}
		n++
	}
	conn, err := open(f.issueToken(t, harness.ChartNamespace, reader, relay.Audience))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // it was only read from
	const write = `{"id":1,"method":"transact","params":["OVN_Northbound",{"op":"insert","table":"Address_Set","row":{"name":"attack"}}]}`
	const read = `{"id":2,"method":"transact","params":["OVN_Northbound",{"op":"select","table":"Address_Set","where":[["name","==","attack"]]}]}`
	if _, err := io.WriteString(conn, write+read); err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(conn)
	for _, want := range []string{"only reads", `"rows":[]`} {
		var answer json.RawMessage
		if err := decoder.Decode(&answer); err != nil || !strings.Contains(string(answer), want) {
			t.Errorf("%s, %v: want %s", answer, err, want)
		}
	}
	return n + 1
}

func (f *relayFixture) issueToken(t *testing.T, namespace, account string, audiences ...string) string {
	t.Helper()
	token, err := f.Client.CoreV1().ServiceAccounts(namespace).CreateToken(harness.Within(t, harness.Patience), account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}

// startReplica runs a standby of the controller as a pod on node1, with the labels, the port and the permissions that
// the chart's Deployment gives it.
func (f *relayFixture) startReplica(t *testing.T) {
	t.Helper()
	status, err := f.Status(harness.Within(t, harness.Patience))
	if err != nil {
		t.Fatal(err)
	}
	servers := map[string][]string{}
	for _, d := range status.Doors {
		servers[d.Name[:2]] = append(servers[d.Name[:2]], "ssl:"+d.Inside)
	}
	config, err := clientcmd.LoadFromFile(f.ControllerKubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, there := range config.Clusters {
		there.Server = "https://" + netip.AddrPortFrom(status.Blueprint.ServerAddresses()[0].Addr(), cluster.APIPort).String()
	}
	kubeconfig := filepath.Join(f.Dir, "replica-kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	north := f.DatabaseConfig(t, "nb")
	program, err := filepath.Abs("../../../bin/sallyport-controller")
	if err != nil {
		t.Fatal(err)
	}
	argv, err := json.Marshal([]string{
		program, "--kubeconfig", kubeconfig, "--nb-address", strings.Join(servers["nb"], ","), "--sb-address",
		strings.Join(servers["sb"], ","), "--nb-cert", north.CertFile, "--nb-key", north.KeyFile, "--nb-ca", north.CAFile,
		"--leader-elect-lease-duration=1h", "--leader-election-namespace=" + harness.ChartNamespace,
		"--metrics-address=0", "--health-address=0", "--relay-address=127.0.0.1:8082",
	})
	if err != nil {
		t.Fatal(err)
	}
	f.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata:
  name: sallyport-controller-standby
  namespace: %s
  labels: {app.kubernetes.io/name: sallyport, app.kubernetes.io/component: controller}
spec:
  nodeName: node1
  hostNetwork: true
  tolerations: [{operator: Exists}]
  containers: [{name: controller, image: lab/idle, ports: [{name: relay, containerPort: 8082}], command: %s}]`,
		harness.ChartNamespace, argv))
	harness.Eventually(t, "the replica serves the relay", func() bool {
		out, code := f.runCommand(t, f.userConfig(t, ""), "status")
		if code != 0 {
			t.Logf("%s", out)
		}
		return code == 0
	})
}

// bind grants olga a role until the end of the test.
func (f *relayFixture) bind(t *testing.T, kind, namespace, roleKind, role string) {
	t.Helper()
	where := ""
	if namespace != "" {
		where = ", namespace: " + namespace
	}
	f.Apply(t, fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: %s
metadata: {name: olga-%s%s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %s, name: %s}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: olga}]`, kind, role, where, roleKind, role))
}

// userConfig writes a kubeconfig of a user, or of the administrator.
func (f *relayFixture) userConfig(t *testing.T, user string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(f.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range config.AuthInfos {
		*a = clientcmdapi.AuthInfo{
			ClientCertificateData: a.ClientCertificateData, ClientKeyData: a.ClientKeyData, Impersonate: user,
		}
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// runCommand runs sallyport with a kubeconfig and an empty environment, and returns what it prints, without times.
func (f *relayFixture) runCommand(t *testing.T, kubeconfig string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(harness.Within(t, harness.Patience), filepath.Join(binDir(t), "sallyport"), args...)
	cmd.Env = []string{"KUBECONFIG=" + kubeconfig, "TMPDIR=" + os.TempDir(), "TZ=UTC"}
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return volatile.ReplaceAllString(string(out), "TIME"), cmd.ProcessState.ExitCode()
}
