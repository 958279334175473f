package cli

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// completedAccess returns the access of a command with these arguments and discovered settings.
func completedAccess(t *testing.T, found kube.DiscoveredSettings, args ...string) *clusterAccess {
	t.Helper()
	var a clusterAccess
	cmd := &cobra.Command{}
	a.addFlags(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	if problems := a.completeConfig(found); len(problems) > 0 {
		t.Fatal(problems)
	}
	a.adoptServers(found) // as without a relay
	return &a
}

// An invalid argument of the controller is ignored; the command still works.
func TestBadArgumentsOfTheControllerAreWarnings(t *testing.T) {
	var a clusterAccess
	a.addFlags(&cobra.Command{})
	problems := a.completeConfig(kube.DiscoveredSettings{ControllerArgs: []string{
		"--egress-liveness=never\x1b[2J",
		"--classless-services=everywhere", "--return-path=Up", "--unknown=1",
	}})
	if len(problems) != 2 || !strings.Contains(problems[0], `--egress-liveness="never\x1b[2J"`) ||
		!strings.Contains(problems[1], "--return-path") {
		t.Errorf("problems %q", problems)
	}
	if d := a.config.Defaults; d.ClasslessServices != snapshot.ClasslessEverywhere ||
		d.BFDInterval != 200*time.Millisecond {
		t.Errorf("settings %+v", d)
	}
	if problems := a.completeConfig(kube.DiscoveredSettings{ControllerArgs: []string{"--egress-liveness"}}); len(problems) != 1 {
		t.Errorf("an argument without its value: %q", problems)
	}
}

// A warning names at most maxShownIgnored Deployments.
func TestIgnoredDeploymentsAreNamed(t *testing.T) {
	if got := warnIgnored(nil); got != nil {
		t.Errorf("of none: %q", got)
	}
	var all []client.ObjectKey
	for i := range 100 {
		all = append(all, client.ObjectKey{Namespace: fmt.Sprintf("zed-%d", i), Name: "kube-ovn-controller"})
	}
	got := warnIgnored(all)
	if len(got) != 1 || !strings.Contains(got[0], "zed-0/kube-ovn-controller") ||
		!strings.Contains(got[0], "and 97 more") || !strings.Contains(got[0], "--controller-namespace") {
		t.Errorf("%q", got)
	}
}

func TestSettingsAreThoseOfTheControllerUnlessGiven(t *testing.T) {
	t.Setenv("OVN_NB_DB", "")
	t.Setenv("OVN_SB_DB", "")
	found := kube.DiscoveredSettings{
		ControllerArgs: []string{
			"--nb-address=tcp:ovn-nb.kube-system.svc:6641", "--nb-cert=/etc/sallyport/ovn/cert", "--workers=8",
			"--classless-services=everywhere",
			"--return-path=Source", "--egress-liveness=1s", "--cluster-prefixes=10.16.0.0/16,10.96.0.0/12",
			"--log-level=info",
			"--isolation=Report", "--trusted-namespaces=kube-system,dns", "--attachment-namespaces=shared",
		},
		Southbound: []string{"tcp:192.0.2.1:6642"},
	}
	c := completedAccess(t, found, "--egress-liveness=3s").config
	if d := c.Defaults; d.ClasslessServices != snapshot.ClasslessEverywhere ||
		d.DefaultReturnPath != snapshot.ReturnBySource || d.BFDInterval != 3*time.Second ||
		d.ClusterPrefixes.String() != "10.16.0.0/16,10.96.0.0/12" {
		t.Errorf("settings %+v", d)
	}
	if d := c.Defaults; d.Isolation != snapshot.IsolationReport || d.TrustedNamespaces.String() != "kube-system,dns" ||
		d.AttachmentNamespaces.String() != "shared" {
		t.Errorf("isolation %s, trusted %q, attachments %q", d.Isolation, d.TrustedNamespaces, d.AttachmentNamespaces)
	}
	if c.Northbound.CertFile != "" {
		t.Errorf("the certificate is a file of the controller's pod: %s", c.Northbound.CertFile)
	}
	if !slices.Equal(c.Northbound.Endpoints, []string{"tcp:ovn-nb.kube-system.svc:6641"}) ||
		!slices.Equal(c.Southbound.Endpoints, []string{"tcp:192.0.2.1:6642"}) {
		t.Errorf("databases %v %v", c.Northbound.Endpoints, c.Southbound.Endpoints)
	}
	if d := completedAccess(t, kube.DiscoveredSettings{}).config.Defaults; d.BFDInterval != 200*time.Millisecond ||
		d.ClasslessServices.String() != string(snapshot.ClasslessInProjects) {
		t.Errorf("settings where there is no controller: %+v", d)
	}
}

func TestDatabasesAreThoseThatAreGivenBeforeThoseThatAreFound(t *testing.T) {
	t.Setenv("OVN_SB_DB", "")
	found := kube.DiscoveredSettings{
		ControllerArgs: []string{"--nb-address=tcp:argument:1"},
		Northbound:     []string{"tcp:found:1"},
	}
	for _, c := range []struct{ environment, flag, want string }{
		{"", "", "tcp:found:1"},
		{"tcp:a:1,tcp:b:1", "", "tcp:a:1,tcp:b:1"},
		{"tcp:a:1", "--nb-address=tcp:given:1", "tcp:given:1"},
	} {
		t.Setenv("OVN_NB_DB", c.environment)
		var args []string
		if c.flag != "" {
			args = append(args, c.flag)
		}
		if got := strings.Join(completedAccess(t, found, args...).config.Northbound.Endpoints, ","); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func objectWithCondition(kind, name, status, reason string) clusterstate.Object {
	return clusterstate.Object{
		Ref: state.Ref{Kind: kind, Namespace: "acme-shop", Name: name}, Conditions: []clusterstate.Condition{
			{Type: "Accepted", Status: "True"},
			{Type: "Programmed", Status: status, Reason: reason, Message: "for a reason"},
		},
	}
}

func TestStatusOfASurveyInAFile(t *testing.T) {
	taken := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	s := &clusterstate.State{Taken: taken, Unread: []clusterstate.ReadFailure{{
		System:  clusterstate.Northbound,
		Problem: "connection refused",
	}}}
	s.Cluster = clusterstate.Cluster{
		Name: "lab", Version: "v1.35.4",
		Networks: []clusterstate.Network{{
			Object:  clusterstate.Object{Ref: state.Ref{Kind: "Subnet", Name: "ext"}},
			Type:    "cloud",
			Default: true,
			Subnets: []string{"ext"},
		}},
		Subnets: []clusterstate.Subnet{{
			Object: clusterstate.Object{Ref: state.Ref{Kind: "Subnet", Name: "ext"}},
			Used:   7,
			Free:   93,
		}},
		EIps: []clusterstate.EIp{
			{Object: objectWithCondition("EIp", "front", "True", "")},
			{Object: objectWithCondition("EIp", "back", "False", "PoolExhausted")},
		},
		Services: []clusterstate.Service{
			{Object: objectWithCondition("Service", "web", "True", ""), Ours: true},
			{Object: objectWithCondition("Service", "others", "False", "Strange")},
		},
		Nodes: []clusterstate.Node{{
			Object:  clusterstate.Object{Ref: state.Ref{Kind: "Node", Name: "node1"}},
			Ready:   true,
			Chassis: "c1",
		}},
		Leases: []clusterstate.Lease{{
			Object: clusterstate.Object{Ref: state.Ref{Name: "kube-ovn-controller"}}, Holder: "one",
			Renewed: taken.Add(-time.Minute), Lasts: 30 * time.Second,
		}},
	}
	file := filepath.Join(t.TempDir(), "survey.json")
	if err := writePrivateFile(file, s.Write); err != nil {
		t.Fatal(err)
	}
	text := commandOutput(t, "status", "--survey", file)
	for _, want := range []string{
		"not read: OVN northbound database: connection refused", "ext", "7", "93", "default, not ready", "1 not",
		"acme-shop/back  PoolExhausted  for a reason",
		"c1 (missing)", "1m0s ago, expired",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "Strange") || strings.Contains(text, "\x1b") {
		t.Errorf("it tells of what is not ours, or in colours where there is no terminal:\n%s", text)
	}
	if text := commandOutput(t, "status", "--survey", file, "-o", "json"); !strings.Contains(text,
		`"reason": "PoolExhausted"`) {
		t.Errorf("as JSON: %s", text)
	}
	if text := commandOutput(t, "status", "--survey", file, "-o", "yaml"); !strings.Contains(text,
		"reason: PoolExhausted") {
		t.Errorf("as YAML: %s", text)
	}
}

// commandOutput returns the output of a command.
func commandOutput(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := New("test")
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestUnknownOutputIsRefused(t *testing.T) {
	o := outputFlags{format: "xml"}
	if err := o.printResult(&cobra.Command{}, nil, nil); err == nil || !strings.Contains(err.Error(), "json") {
		t.Errorf("%v", err)
	}
}

func TestCalledAsPlugin(t *testing.T) {
	for program, want := range map[string]string{
		"bin/sallyport":                    "sallyport",
		"/usr/local/bin/kubectl-sallyport": "kubectl sallyport",
	} {
		if got := displayName(program); got != want {
			t.Errorf("%s: %s, want %s", program, got, want)
		}
	}
}

func TestPlanOfASurveyInAFile(t *testing.T) {
	line := state.Line{
		Text:   "+ NAT 203.0.113.9",
		Origin: state.Ref{Kind: "FIp", Namespace: "acme-shop", Name: "web"},
		Held:   true,
	}
	s := &clusterstate.State{Taken: time.Unix(1, 0).UTC(), Shards: []clusterstate.Shard{
		{Name: "acme-shop", Differs: []clusterstate.Difference{{Scope: "rows", Line: line}}},
		{Name: "acme-other", Differs: []clusterstate.Difference{{Scope: "rows", Line: line}}},
	}}
	file := filepath.Join(t.TempDir(), "survey.json")
	if err := writePrivateFile(file, s.Write); err != nil {
		t.Fatal(err)
	}
	want := "project acme-shop\n  rows\n    + NAT 203.0.113.9    # FIp acme-shop/web (waits)\n" +
		"plan: for 1 project, the controller would add 1, change 0 and delete 0\n"
	if got := commandOutput(t, "plan", "--survey", file, "acme-shop"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := commandOutput(t, "plan", "--survey", file); strings.Count(got, "\n  rows") != 2 {
		t.Errorf("of all:\n%s", got)
	}
}
