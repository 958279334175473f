package view

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/insight/collector"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// planNamespace is the namespace of the project whose files are planned.
const planNamespace = "day5-one"

// planFixture is a project with a pod, an EIp that a FIp uses, and a quota that leaves room for one more EIp.
func planFixture(t *testing.T) *harness.Cluster {
	t.Helper()
	c := harness.SharedSallyport(t)
	c.CreateOrganization(t, "day5")
	c.Apply(t, `{apiVersion: kube-dc.com/v1, kind: Project, metadata: {name: one, namespace: day5},
  spec: {cidrBlock: 10.90.0.0/24, egressNetworkType: cloud, eipQuota: 4}}`)
	c.WaitProgrammed(t, "Project", "day5", "one")
	c.CreateProject(t, "day5", "two", "10.91.0.0/24", "cloud")
	c.RunPod(t, harness.Pod{Namespace: planNamespace, Name: "web", Node: "node1", Labels: map[string]string{"app": "web"}})
	c.CreateEIP(t, planNamespace, "used", "{externalNetworkType: public, ipAddress: 91.224.11.200}")
	c.CreateFIP(t, planNamespace, "web", "{eip: used, podTarget: {podName: web}}")
	c.Apply(t, planManifest("v1", "Service", "shop",
		"{type: LoadBalancer, selector: {app: web}, ports: [{name: http, port: 80}]}"))
	c.WaitProgrammed(t, "Service", planNamespace, "shop")
	c.SyncFlows(t)
	return c
}

// planManifest returns an object in the namespace of the project.
func planManifest(version, kind, name, spec string) string {
	return fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: %s, namespace: %s}, spec: %s}", version, kind, name,
		planNamespace, spec)
}

// planFile runs sallyport plan for a file and returns its output.
func planFile(t *testing.T, c *harness.Cluster, text string, args ...string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return runCommand(t, c, append([]string{"plan", "-f", file}, args...)...)
}

// planMistakes are mistakes in files, and what plan says about each.
func planMistakes() []struct{ name, text, want string } {
	object := func(kind, name, spec string) string { return planManifest("kube-dc.com/v1", kind, name, spec) }
	target := "podTarget: {podName: web}"
	return []struct{ name, text, want string }{
		{"kind", object("FIip", "a", "{}"), "did you mean FIp?"},
		{"field", object("FIp", "a", "{eipp: used, "+target+"}"), `unknown field "spec.eipp"; did you mean eip?`},
		{"field in a list", planManifest("v1", "Service", "a", "{type: LoadBalancer, ports: [{prot: 80}]}"), "did you mean port?"},
		{"type of a value", object("FIp", "a", "{eip: [used], "+target+"}"), "cannot unmarshal array"},
		{"version", planManifest("kube-dc.com/v2", "EIp", "a", "{}"), "use apiVersion kube-dc.com/v1"},
		{"field twice", "apiVersion: kube-dc.com/v1\nkind: EIp\nmetadata: {name: a, namespace: day5-one}\nspec:\n  externalNetworkType: public\n  externalNetworkType: cloud\n", "already set"},
		{"object twice", object("EIp", "a", "{}") + "\n---\n" + object("EIp", "a", "{}"), "document 2: EIp day5-one/a: the same object"},
		{"network", object("EIp", "a", "{externalNetworkType: clowd}"), "NetworkNotFound"},
		{"address outside", object("EIp", "a", "{externalNetworkType: public, ipAddress: 203.0.113.7}"), "AddressOutsideNetwork"},
		{"address in use", object("EIp", "a", "{externalNetworkType: public, ipAddress: 91.224.11.200}"), "! EIp day5-one/a: "},
		{"no address", object("EIp", "a", "{externalNetworkType: public, ipAddress: 91.224.11.300}"), "ipAddress must be one address"},
		{"quota", object("EIp", "a", "{}") + "\n---\n" + object("EIp", "b", "{}") + "\n---\n" + object("EIp", "c", "{}"), "QuotaExceeded"},
		{"FIp without a target", object("FIp", "a", "{eip: used}"), "FIp day5-one/a: spec: "},
		{"FIp with two targets", object("FIp", "a", "{eip: used, "+target+", vmTarget: {vmName: v}}"), "FIp day5-one/a: spec: "},
		{"EIp that does not exist", object("FIp", "a", "{eip: uesd, "+target+"}"), "EIpNotFound"},
		{"EIp in use", object("FIp", "a", "{eip: used, "+target+"}"), "! FIp day5-one/a: "},
		{"EIp of another namespace", object("FIp", "a", "{eip: day5-two/default-gw, "+target+"}"), "FIp day5-one/a: "},
		{"changed address", object("EIp", "used", "{externalNetworkType: public, ipAddress: 91.224.11.201}"), "ipAddress can't be changed"},
		{"class", planManifest("v1", "Service", "a", "{type: LoadBalancer, loadBalancerClass: example.com/lb, ports: [{port: 80}]}"), "loadBalancerClass example.com/lb is not Sallyport's"},
		{"selector of nothing", planManifest("v1", "Service", "a", "{type: LoadBalancer, selector: {app: wbe}, ports: [{port: 80}]}"), "selector matches no pod"},
		{
			"port in use",
			"{apiVersion: v1, kind: Service, metadata: {name: a, namespace: day5-one, annotations: {service.nlb.kube-dc.com/bind-on-eip: used}}, spec: {type: LoadBalancer, ports: [{port: 80}]}}",
			"! Service day5-one/a: ",
		},
		{
			"route to no prefix",
			planManifest("kube-dc.com/v1alpha1", "EgressRoute", "a", "{externalNetworkType: public, destinations: [203.0.113.9]}"),
			"a destination must be a prefix",
		},
		{"namespace", "{apiVersion: kube-dc.com/v1, kind: EIp, metadata: {name: a, namespace: day5-onne}}", "namespace day5-onne does not exist"},
		{
			"EgressIP of nobody",
			"{apiVersion: k8s.ovn.org/v1, kind: EgressIP, metadata: {name: day5}, spec: {egressIPs: [91.224.11.222], namespaceSelector: {matchLabels: {day: five}}}}",
			"namespaceSelector matches no namespace",
		},
		{
			"EgressIP on a used address",
			"{apiVersion: k8s.ovn.org/v1, kind: EgressIP, metadata: {name: day5}, spec: {egressIPs: [91.224.11.200], namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: day5-one}}}}",
			"EgressIPConflict",
		},
	}
}

// TestDay5Plan checks that plan names mistakes in files, that it says that there is nothing to do, and that for valid
// files it prints the rows that are there after applying them.
func TestDay5Plan(t *testing.T) {
	c := planFixture(t)
	item := dayItems.Item(t, 5)
	t.Run("mistakes", func(t *testing.T) {
		named := 0
		for _, m := range planMistakes() {
			t.Run(m.name, func(t *testing.T) {
				out, err := planFile(t, c, m.text)
				isWarning := strings.Contains(out, "warning:")
				if !strings.Contains(out, m.want) || err == nil && !isWarning {
					t.Errorf("want %q and an error, got %v\n%s", m.want, err, out)
					return
				}
				named++
			})
		}
		item.AddFigure("mistakes named by plan: %d of %d", named, len(planMistakes()))
	})
	t.Run("unchanged", func(t *testing.T) {
		out, err := planFile(t, c, planManifest("kube-dc.com/v1", "FIp", "web", "{eip: used, podTarget: {podName: web}}"), "--exit-code")
		if err != nil || !strings.Contains(out, "no changes: 1 object of the files, 1 project compared") {
			t.Errorf("an object that the cluster has: %v\n%s", err, out)
		}
		if out, err := runCommand(t, c, "plan", planNamespace, "--exit-code"); err != nil || !strings.Contains(out, "no changes: 1 project compared") {
			t.Errorf("no drift: %v\n%s", err, out)
		}
		out, err = planFile(t, c, planManifest("kube-dc.com/v1", "EIp", "used", "{externalNetworkType: public, ipAddress: 91.224.11.200}"), "--delete")
		if !strings.Contains(out, "InUse") {
			t.Errorf("deleting an EIp in use: %v\n%s", err, out)
		}
	})
	rows := 0
	for _, valid := range []struct{ name, text string }{
		{"FIp", planManifest("kube-dc.com/v1", "EIp", "next", "{externalNetworkType: public, ipAddress: 91.224.11.210}") + "\n---\n" +
			planManifest("kube-dc.com/v1", "FIp", "next", "{eip: next, podTarget: {podName: db}}")},
		{"Service", planManifest("kube-dc.com/v1", "EIp", "front", "{externalNetworkType: public, ipAddress: 91.224.11.211}") + "\n---\n" +
			"{apiVersion: v1, kind: Service, metadata: {name: more, namespace: day5-one, annotations: {service.nlb.kube-dc.com/bind-on-eip: front}}, " +
			"spec: {type: LoadBalancer, selector: {app: web}, ports: [{name: http, port: 8080, targetPort: 80}]}}"},
		{"EgressRoute", planManifest("kube-dc.com/v1alpha1", "EgressRoute", "partners",
			"{externalNetworkType: public, destinations: [203.0.113.0/24], podSelector: {matchLabels: {app: web}}}")},
	} {
		if valid.name == "FIp" {
			c.RunPod(t, harness.Pod{Namespace: planNamespace, Name: "db", Node: "node2"})
		}
		rows += expectPlanned(t, c, valid.text)
	}
	item.AddFigure("entries that plan printed and apply made: %d", rows)
}

// expectPlanned plans a file, applies it, and fails the test unless what then exists for its objects is what plan
// printed. It returns the number of entries. Other objects of the cluster may change meanwhile.
func expectPlanned(t *testing.T, c *harness.Cluster, text string) int {
	t.Helper()
	out, err := planFile(t, c, text, "-o", "json")
	if err != nil {
		t.Errorf("%v\n%s", err, out)
		return 0
	}
	var plan struct {
		Objects  []struct{ Kind, Namespace, Name string }
		Projects []struct {
			Changes []struct{ Line, For string }
		}
	}
	if err := json.Unmarshal([]byte(out), &plan); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	of := map[string]bool{}
	for _, o := range plan.Objects {
		of[state.Ref{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}.String()] = true
	}
	var planned []string
	for _, p := range plan.Projects {
		for _, change := range p.Changes {
			if line, adds := strings.CutPrefix(change.Line, "+ "); adds && of[change.For] {
				planned = append(planned, line)
			}
		}
	}
	c.Apply(t, text)
	for _, o := range plan.Objects {
		c.WaitProgrammed(t, o.Kind, o.Namespace, o.Name)
	}
	made := listMade(t, c, of)
	slices.Sort(planned)
	if len(planned) == 0 || !slices.Equal(planned, made) {
		t.Errorf("plan printed\n  %s\nafter applying there is\n  %s", strings.Join(planned, "\n  "), strings.Join(made, "\n  "))
	}
	return len(made)
}

// listMade returns what exists for objects, sorted, as plan prints it.
func listMade(t *testing.T, c *harness.Cluster, of map[string]bool) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	o, err := collector.Open(observerConfig(t, c))
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	shards, err := o.CollectShards(ctx, collector.Scope{Shards: []string{planNamespace}})
	if err != nil {
		t.Fatal(err)
	}
	var made []string
	for _, s := range shards {
		for _, w := range s.Wanted {
			if of[w.Origin.String()] && w.There && !strings.HasPrefix(w.Scope, "finalizer") {
				made = append(made, w.Text)
			}
		}
	}
	slices.Sort(made)
	return made
}
