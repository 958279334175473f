package kube

import (
	"context"
	"fmt"
	"io/fs"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/config/crd"
	"github.com/sallyport/sallyport/internal/model/installation"
)

var definitionListGVK = schema.GroupVersionKind{
	Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinitionList",
}

// readWantedDefinitions reads the CRDs of this version.
func readWantedDefinitions() (out []installation.Definition, _ error) {
	names, err := fs.Glob(crd.Files, "*.yaml")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		raw, err := fs.ReadFile(crd.Files, name)
		if err != nil {
			return nil, err
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(raw, &o.Object); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		out = append(out, readDefinition(o))
	}
	return out, nil
}

// readDefinitions reads the CRDs of the cluster that have the names of ours, or are in kube-dc's group.
func (r *InstallationReader) readDefinitions(ctx context.Context, out *installation.Cluster) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(definitionListGVK)
	if err := r.API.List(ctx, list); err != nil {
		return err
	}
	for i := range list.Items {
		d := readDefinition(&list.Items[i])
		isOurs := slices.ContainsFunc(out.Wanted, func(w installation.Definition) bool { return w.Name == d.Name })
		if isOurs || d.Group == "kube-dc.com" {
			out.Definitions = append(out.Definitions, d)
		}
	}
	slices.SortFunc(out.Definitions, func(a, b installation.Definition) int {
		return slices.Compare([]string{a.Name}, []string{b.Name})
	})
	return nil
}

// readDefinition reads a CRD.
func readDefinition(o *unstructured.Unstructured) installation.Definition {
	text := func(path ...string) string {
		value, _, _ := unstructured.NestedString(o.Object, path...)
		return value
	}
	out := installation.Definition{
		Name: o.GetName(), Group: text("spec", "group"), Kind: text("spec", "names", "kind"),
		Scope:    text("spec", "scope"),
		Labelled: o.GetLabels()[chartNameLabel] == chartName, Release: readRelease(o.GetAnnotations()),
	}
	versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
	for _, raw := range versions {
		v, _ := raw.(map[string]any)
		name, _ := v["name"].(string)
		if served, _ := v["served"].(bool); !served || name == "" {
			continue
		}
		out.Versions = append(out.Versions, name)
		spec, _, _ := unstructured.NestedMap(v, "schema", "openAPIV3Schema", "properties", "spec")
		out.Fields = append(out.Fields, listFields(spec, name)...)
	}
	slices.Sort(out.Fields)
	return out
}

// listFields returns the fields below a schema, each with its path.
func listFields(schema map[string]any, path string) (out []string) {
	if items, ok := schema["items"].(map[string]any); ok {
		return listFields(items, path+"[]")
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, raw := range properties {
		below, _ := raw.(map[string]any)
		out = append(append(out, path+"."+name), listFields(below, path+"."+name)...)
	}
	return out
}
