package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
)

const goodProject = "{apiVersion: kube-dc.com/v1, kind: Project, metadata: {name: prod, namespace: acme}, spec: {cidrBlock: 10.0.0.0/24, egressNetworkType: cloud}}"

func writeManifest(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// --exit-code holds for manifests, too: a pipeline relies on it.
func TestPlanOfManifestsSetsTheExitCode(t *testing.T) {
	file := writeManifest(t, goodProject)
	if out, err := combinedOutput(t, "plan", "--offline", "-f", file); ExitCode(err) != 1 ||
		!strings.Contains(out, "! Project acme/prod: NetworkNotFound") {
		t.Errorf("a project without a network: %v\n%s", err, out)
	}
	const network = `
---
apiVersion: kubeovn.io/v1
kind: Subnet
metadata: {name: ext-cloud, labels: {network.kube-dc.com/external-network-type: cloud, network.kube-dc.com/default-external: "true"}}
spec: {cidrBlock: 198.51.100.0/24, gateway: 198.51.100.1, vlan: v, protocol: IPv4, notOurs: true}
status: {v4availableIPs: 250, conditions: [{type: Ready, status: "True"}]}
`
	file = writeManifest(t, goodProject+network)
	out, err := combinedOutput(t, "plan", "--offline", "-f", file)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := combinedOutput(t, "plan", "--offline", "-f", file, "--exit-code"); ExitCode(err) != 2 || err.Error() != "" {
		t.Errorf("%v\n%s", err, out)
	}
	if out := commandOutput(t, "plan", "--offline", "-f", file, "-o", "json"); !strings.Contains(out, `"line": "+ `) {
		t.Errorf("as JSON:\n%s", out)
	}
}

// Nothing to do is said, not shown by an empty output; a name that does not exist is an error.
func TestPlanSaysThatThereAreNoChanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "survey.json")
	s := &clusterstate.State{Taken: time.Unix(1, 0).UTC(), Shards: []clusterstate.Shard{{
		Name: "acme-shop", Wanted: []clusterstate.DesiredEntry{{Scope: "rows", There: true}},
	}}}
	if err := writePrivateFile(file, s.Write); err != nil {
		t.Fatal(err)
	}
	if got := commandOutput(t, "plan", "--survey", file, "--exit-code"); got != "no changes: 1 project compared\n" {
		t.Errorf("got %q", got)
	}
	if out, err := combinedOutput(t, "plan", "--survey", file, "acme-shp"); err == nil || !strings.Contains(err.Error(), "did you mean acme-shop?") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestPlanNamesMistakesInFiles(t *testing.T) {
	fip := func(text string) string { return "apiVersion: kube-dc.com/v1\nkind: FIp\n" + text }
	for name, c := range map[string]struct{ text, want string }{
		"unknown field": {
			fip("metadata: {name: a, namespace: ns}\nspec: {eipp: x}\n"),
			`document 1: FIp ns/a: unknown field "spec.eipp"; did you mean eip?`,
		},
		"field far from any": {
			fip("metadata: {name: a, namespace: ns}\nspec: {podTarget: {zzzzzzzz: x}}\n"), `unknown field "spec.podTarget.zzzzzzzz"; there are podName`,
		},
		"duplicate field": {
			fip("metadata: {name: a, namespace: ns}\nspec:\n  eip: one\n  eip: two\n"), `key "eip" already set in map`,
		},
		"kind":      {"apiVersion: kube-dc.com/v1\nkind: FIP\nmetadata: {name: a}", "there is no kind"},
		"near kind": {"apiVersion: kube-dc.com/v1\nkind: Projct\nmetadata: {name: a}", "did you mean Project?"},
		"core kind": {"apiVersion: v1\nkind: Servce\nmetadata: {name: a}", "did you mean Service?"},
		"version":   {"apiVersion: kube-dc.com/v3\nkind: FIp\nmetadata: {name: a}", "use apiVersion kube-dc.com/v1"},
		"group":     {"apiVersion: sallyport.io/v1\nkind: EIp\nmetadata: {name: a}", "use apiVersion kube-dc.com/v1"},
		"type":      {fip("metadata: {name: a, namespace: ns}\nspec: {eip: [x]}\n"), "FIp ns/a: "},
		"no kind":   {"metadata: {name: a}", "apiVersion or kind is missing"},
		"no name":   {fip("spec: {eip: x}\n"), "metadata.name is missing"},
		"yaml":      {"a: [", "document 1"},
		"second document": {
			goodProject + "\n---\n# a comment\n---\n" + fip("metadata: {name: a, namespace: ns}\nspec: {epi: x}\n"),
			`document 2: FIp ns/a: unknown field "spec.epi"; did you mean eip?`,
		},
		"same twice":  {goodProject + "\n---\n" + goodProject, "document 2: Project acme/prod: the same object is in"},
		"in a List":   {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: kube-dc.com/v1, kind: EIp, metadata: {name: a}, spec: {ipAddres: x}}", "did you mean ipAddress?"},
		"of metadata": {fip("metadata: {name: a, namespac: ns}\nspec: {}\n"), "did you mean namespace?"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := combinedOutput(t, "plan", "--offline", "-f", writeManifest(t, c.text))
			if !strings.Contains(out, c.want) || ExitCode(err) != 1 {
				t.Errorf("exit code %d, want 1 and %q in\n%s", ExitCode(err), c.want, out)
			}
		})
	}
}

// A file that is not for Sallyport is no mistake, and without anything for it there is nothing to plan.
func TestPlanIgnoresWhatDoesNotConcernIt(t *testing.T) {
	const other = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicass: 1}\n---\n" +
		"apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: b}\n"
	if out, err := combinedOutput(t, "plan", "--offline", "-f", writeManifest(t, other)); err == nil || errors.Is(err, exitMistakes) {
		t.Errorf("%v\n%s", err, out)
	}
	out, _ := combinedOutput(t, "plan", "--offline", "-f", writeManifest(t, other+"---\n"+goodProject))
	if !strings.Contains(out, "ignored: Deployment a (") || strings.Contains(out, "replicass") {
		t.Errorf("got\n%s", out)
	}
}
