package lab

import (
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// A lab takes its resource definitions from what an earlier lab has stored. They must be the manifest's: to apply it
// changes none. Control: a definition with one name more would be changed.
func TestStoredDefinitionsAreThoseOfTheManifest(t *testing.T) {
	c := harness.SharedLab(t)
	api, err := dynamic.NewForConfig(c.RESTConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	resource := api.Resource(harness.ResourceForRef(harness.ObjectRef("CustomResourceDefinition", "", "")))
	raw, err := os.ReadFile(c.Parts.KubeOVNCRDs())
	if err != nil {
		t.Fatal(err)
	}
	definitions, err := manifest.Parse(string(raw))
	if err != nil {
		t.Fatal(err)
	}
	if len(definitions) < 20 {
		t.Errorf("the manifest has %d definitions", len(definitions))
	}
	for _, d := range definitions {
		if before, after := generations(t, resource, d); before != after {
			t.Errorf("%s differs from the manifest", d.GetName())
		}
	}
	changed := definitions[0].DeepCopy()
	if err := unstructured.SetNestedStringSlice(changed.Object, []string{"changed"}, "spec", "names", "shortNames"); err != nil {
		t.Fatal(err)
	}
	if before, after := generations(t, resource, changed); before == after {
		t.Errorf("%s: a changed manifest has generation %d too", changed.GetName(), after)
	}
}

// generations returns the generation of a definition, and the one it would have if the manifest were applied. The API
// server raises it with each change of the spec.
func generations(t *testing.T, api dynamic.ResourceInterface, d *unstructured.Unstructured) (before, after int64) {
	t.Helper()
	ctx := harness.Within(t, harness.Patience)
	now, err := api.Get(ctx, d.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	applied, err := api.Apply(ctx, d.GetName(), d, metav1.ApplyOptions{
		FieldManager: manifest.FieldManager, Force: true, DryRun: []string{metav1.DryRunAll},
	})
	if err != nil {
		t.Fatal(err)
	}
	return now.GetGeneration(), applied.GetGeneration()
}
