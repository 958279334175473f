package crd_test

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	v1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/config/crd"
)

// loadDefinitions are the CustomResourceDefinitions by kind.
func loadDefinitions(t *testing.T) map[string]map[string]any {
	t.Helper()
	names, err := fs.Glob(crd.Files, "*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("no definitions: %v", err)
	}
	out := map[string]map[string]any{}
	for _, name := range names {
		raw, err := fs.ReadFile(crd.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		object := map[string]any{}
		if err := yaml.Unmarshal(raw, &object); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		kind, _, _ := unstructured.NestedString(object, "spec", "names", "kind")
		out[kind] = object
	}
	return out
}

// definitionVersions are the versions of a definition.
func definitionVersions(t *testing.T, definition map[string]any) []map[string]any {
	t.Helper()
	list, _, err := unstructured.NestedSlice(definition, "spec", "versions")
	if err != nil || len(list) == 0 {
		t.Fatalf("no versions: %v", err)
	}
	var out []map[string]any
	for _, v := range list {
		out = append(out, v.(map[string]any))
	}
	return out
}

// Whoever uses the Go types finds each of them defined in a cluster, and the other way round.
func TestEveryKindIsDefinedAndRegistered(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1.AddToScheme, v1alpha1.AddToScheme, ovnv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	var registered []string
	for gvk := range scheme.AllKnownTypes() {
		// without a group: Kubernetes' own
		if kind, isList := strings.CutSuffix(gvk.Kind, "List"); isList && gvk.Group != "" {
			registered = append(registered, kind+"."+gvk.Version+"."+gvk.Group)
		}
	}
	var defined []string
	for kind, definition := range loadDefinitions(t) {
		group, _, _ := unstructured.NestedString(definition, "spec", "group")
		for _, v := range definitionVersions(t, definition) {
			defined = append(defined, kind+"."+v["name"].(string)+"."+group)
		}
	}
	slices.Sort(registered)
	slices.Sort(defined)
	if !slices.Equal(registered, defined) {
		t.Errorf("registered: %v\ndefined: %v", registered, defined)
	}
}

// The controller reports through status, one condition of a type, and `kubectl explain` has a sentence for every field.
func TestEveryKindReportsAndExplainsItself(t *testing.T) {
	for kind, definition := range loadDefinitions(t) {
		for _, v := range definitionVersions(t, definition) {
			if _, found, _ := unstructured.NestedMap(v, "subresources", "status"); !found {
				t.Errorf("%s has no status subresource", kind)
			}
			schema, _, _ := unstructured.NestedMap(v, "schema", "openAPIV3Schema")
			conditions, _, _ := unstructured.NestedMap(schema, "properties", "status", "properties", "conditions")
			// which is answered once, and has no conditions
			if conditions["x-kubernetes-list-type"] != "map" && kind != "Inspection" {
				t.Errorf("two writers of %s can't each own a condition", kind)
			}
			for _, field := range undescribedFields(schema, kind) {
				t.Errorf("%s has no description", field)
			}
		}
	}
}

// The description of FIp must say which connections that the target initiates use the address, as
// docs/concepts/overview.md explains.
func TestFIpSaysWhenItsTargetLeavesWithIt(t *testing.T) {
	for _, v := range definitionVersions(t, loadDefinitions(t)["FIp"]) {
		text, _, _ := unstructured.NestedString(v, "schema", "openAPIV3Schema", "description")
		text = strings.Join(strings.Fields(text), " ")
		for _, words := range []string{
			"Replies leave with the external address", "initiates leave with it if outbound is set", "default network",
			"returnPath Source", "EgressIP",
		} {
			if !strings.Contains(text, words) {
				t.Errorf("no %q in: %s", words, text)
			}
		}
	}
}

// undescribedFields lists the fields at and below a schema that have no description. Metadata explains itself.
func undescribedFields(schema map[string]any, path string) []string {
	var out []string
	if schema["description"] == nil {
		out = append(out, path)
	}
	if items, _, _ := unstructured.NestedMap(schema, "items"); items["properties"] != nil {
		out = append(out, undescribedFields(items, path+"[]")...)
	}
	properties, _, _ := unstructured.NestedMap(schema, "properties")
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if name != "metadata" {
			out = append(out, undescribedFields(properties[name].(map[string]any), path+"."+name)...)
		}
	}
	return out
}
