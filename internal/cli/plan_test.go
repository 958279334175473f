package cli

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// --exit-code holds for manifests, too: a pipeline relies on it.
func TestPlanOfManifestsSetsTheExitCode(t *testing.T) {
	file := filepath.Join(t.TempDir(), "project.yaml")
	text := "{apiVersion: kube-dc.com/v1, kind: Project, metadata: {name: prod, namespace: acme}, spec: {cidrBlock: 10.0.0.0/24}}"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := combinedOutput(t, "plan", "-f", file); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := combinedOutput(t, "plan", "-f", file, "--exit-code"); !errors.Is(err, errDrift) {
		t.Errorf("%v\n%s", err, out)
	}
}
