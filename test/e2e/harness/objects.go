package harness

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/config/crd"
	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/lab/manifest"
)

// InstallCRDs installs Sallyport's CRDs. They remain until the lab ends.
func (c *Cluster) InstallCRDs(t *testing.T) {
	t.Helper()
	names, err := fs.Glob(crd.Files, "*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("no definitions: %v", err)
	}
	for _, name := range names {
		raw, err := fs.ReadFile(crd.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := manifest.Parse(string(raw))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, o := range objects {
			if err := c.Objects.ApplyObject(Within(t, Patience), o); err != nil {
				t.Fatal(err)
			}
			ref := manifest.Ref{GVK: o.GroupVersionKind(), Name: o.GetName()}
			if err := c.Objects.Wait(Within(t, Patience), ref, manifest.True("Established")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// StringField returns a field of an object as text.
func StringField(o *unstructured.Unstructured, path ...string) string {
	out, _, _ := unstructured.NestedString(o.Object, path...)
	return out
}

// FindCondition returns a condition of an object.
func FindCondition(o *unstructured.Unstructured, kind string) map[string]any {
	if o == nil {
		return nil
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, raw := range conditions {
		if c, ok := raw.(map[string]any); ok && c["type"] == kind {
			return c
		}
	}
	return nil
}

// FalseReason returns the reason of a condition that is False, and an empty string otherwise.
func FalseReason(o *unstructured.Unstructured, kind string) string {
	c := FindCondition(o, kind)
	if c == nil || c["status"] != "False" {
		return ""
	}
	reason, _ := c["reason"].(string)
	return reason
}

// ReadStatusField returns a status field of an object as text.
func (c *Cluster) ReadStatusField(t *testing.T, kind, namespace, name, field string) string {
	t.Helper()
	o, err := c.Objects.Get(Within(t, Patience), ObjectRef(kind, namespace, name))
	if err != nil || o == nil {
		t.Fatalf("%s %s: %v", kind, name, err)
	}
	return StringField(o, "status", field)
}

// ApplyWithoutCleanup applies objects that remain until the lab ends.
func (c *Cluster) ApplyWithoutCleanup(t *testing.T, text string) {
	t.Helper()
	if err := c.Objects.ApplyAll(Within(t, Patience), text); err != nil {
		t.Fatal(err)
	}
}

// SetLabel sets a label of an object: "Node NAME", "Namespace NAME" or "Pod NAMESPACE NAME". The value "-" removes the
// label.
func (c *Cluster) SetLabel(t *testing.T, object, key, value string) {
	t.Helper()
	words := strings.Fields(object)
	name := words[len(words)-1]
	text := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, key, value)
	if value == "-" {
		text = fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, key)
	}
	var err error
	core, patch, ctx := c.Client.CoreV1(), []byte(text), Within(t, Patience)
	switch words[0] {
	case "Node":
		_, err = core.Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	case "Namespace":
		_, err = core.Namespaces().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	case "Pod":
		_, err = core.Pods(words[1]).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// RESTConfig returns the configuration of an administrator's client.
func (c *Cluster) RESTConfig(t *testing.T) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return config
}

// NewDirectClient returns a client without a cache. If wrote is not nil, it is called for each write.
func (c *Cluster) NewDirectClient(t *testing.T, wrote func(verb, kind string)) client.Client {
	t.Helper()
	api, err := client.New(c.RESTConfig(t), client.Options{Scheme: kube.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	if wrote == nil {
		return api
	}
	return kube.NewCountingClient(api, wrote)
}

// PollUntil polls until the condition holds, for conditions that are not about a single object.
func (c *Cluster) PollUntil(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(Patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// ResourceForRef returns the API resource of a kind.
func ResourceForRef(r manifest.Ref) schema.GroupVersionResource {
	if resource, irregular := map[string]string{
		"OvnEip": "ovn-eips", "OvnFip": "ovn-fips", "OvnSnatRule": "ovn-snat-rules",
	}[r.GVK.Kind]; irregular {
		return r.GVK.GroupVersion().WithResource(resource)
	}
	return r.GVK.GroupVersion().WithResource(strings.ToLower(r.GVK.Kind) + "s")
}
