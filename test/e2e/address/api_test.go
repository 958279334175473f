package address

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

func newKubeDCScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kubedcv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// TestAPITakesKubeDCManifests checks that manifests written for kube-dc apply unchanged: no field of spec or status is
// lost, and our Go types know each of them.
func TestAPITakesKubeDCManifests(t *testing.T) {
	c := harness.SharedLab(t)
	c.InstallCRDs(t)
	scheme := newKubeDCScheme(t)
	files, err := filepath.Glob("../testdata/kubedc/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	namespaces := map[string]bool{}
	var objects []*unstructured.Unstructured
	for _, file := range files {
		parsed, err := manifest.Parse(harness.ReadFile(t, file))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, o := range parsed {
			namespaces[o.GetNamespace()] = true
		}
		objects = append(objects, parsed...)
	}
	for _, name := range slices.Sorted(maps.Keys(namespaces)) {
		c.CreateNamespace(t, name, "")
	}
	for _, o := range objects {
		expectStoredUnchanged(t, c, scheme, o)
	}
}

// expectStoredUnchanged applies an object and compares what the API server stores with the manifest.
func expectStoredUnchanged(t *testing.T, c *harness.Cluster, scheme *runtime.Scheme, o *unstructured.Unstructured) {
	t.Helper()
	if err := c.Objects.ApplyObject(harness.Within(t, harness.Patience), o); err != nil {
		t.Error(err)
		return
	}
	ref := manifest.Ref{GVK: o.GroupVersionKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
	got, err := c.Objects.Get(harness.Within(t, harness.Patience), ref)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"spec", "status"} {
		if !equality.Semantic.DeepEqual(o.Object[part], got.Object[part]) {
			t.Errorf("%s: wrote %s %v, the API server keeps %v", ref, part, o.Object[part], got.Object[part])
		}
	}
	typed, err := scheme.New(o.GroupVersionKind())
	if err != nil {
		t.Fatal(err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(got.Object, typed, true); err != nil {
		t.Errorf("%s as a Go value: %v", ref, err)
	}
}

// TestAPIWordsMeanOurKinds checks that eip and fip mean our kinds, because Kube-OVN uses the same short names for its
// iptables addresses.
func TestAPIWordsMeanOurKinds(t *testing.T) {
	c := harness.SharedLab(t)
	c.InstallCRDs(t)
	discovery := memory.NewMemCacheClient(c.Client.Discovery())
	words := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(discovery), discovery, nil)
	for word, want := range map[string]schema.GroupVersionResource{
		"eip":     kubedcv1.GroupVersion.WithResource("eips"),
		"fip":     kubedcv1.GroupVersion.WithResource("fips"),
		"project": kubedcv1.GroupVersion.WithResource("projects"),
		"extnet":  v1alpha1.GroupVersion.WithResource("externalnetworks"),
		"oeip":    {Group: "kubeovn.io", Version: "v1", Resource: "ovn-eips"}, // control: Kube-OVN's kinds are served
	} {
		got, err := words.ResourceFor(schema.GroupVersionResource{Resource: word})
		if err != nil || got != want {
			t.Errorf("%s means %s (%v), want %s", word, got, err, want)
		}
	}
}

// validationCase is a spec that the API server refuses, and a valid one that differs only in what the message is about.
type validationCase struct {
	kind                   string
	validSpec, invalidSpec string // specs
	refusal                string // part of the error message
}

// manifestOf returns a manifest with a spec. The name is a DNS label; the namespace is ignored for cluster-scoped
// kinds.
func (r validationCase) manifestOf(namespace, name, spec string) string {
	version := kubedcv1.GroupVersion
	if r.kind == "ExternalNetwork" {
		version, namespace = v1alpha1.GroupVersion, ""
	}
	return fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: %s, namespace: %q}, spec: %s}", version, r.kind,
		name, namespace, spec)
}

func expectRefusal(t *testing.T, c *harness.Cluster, text, refusal string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	err := c.Objects.Apply(ctx, text)
	if err == nil || !strings.Contains(err.Error(), refusal) {
		t.Errorf("%s\ngot:  %v\nwant: %s", text, err, refusal)
	}
}
