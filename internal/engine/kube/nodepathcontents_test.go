package kube

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// newAppliedNodePath returns a NodePath of ours with some Services, after the API server has stored it.
func newAppliedNodePath(name string, services ...string) *kubedcv1alpha1.NodePath {
	o := &kubedcv1alpha1.NodePath{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: "1", ResourceVersion: "1", Labels: ownership.ManagedLabels(ownership.NodesShard),
		Annotations: map[string]string{ownership.OriginAnnotation: "Node//" + name},
	}}
	var values []string
	for _, s := range services {
		values = append(values, fmt.Sprintf(`"v:\"%s\"":{}`, s))
	}
	o.Spec.Networks = []kubedcv1alpha1.NodeNetwork{{Name: "red", Number: 7, Method: "Mark", Services: services}}
	o.ManagedFields = []metav1.ManagedFieldsEntry{managedFieldsEntry(ownership.FieldManager, applyOperation, "",
		fmt.Sprintf(`{"f:metadata":{"f:labels":{"f:%s":{},"f:%s":{}},"f:annotations":{"f:%s":{}}},"f:spec":{"f:networks":`+
			`{"k:{\"name\":\"red\"}":{".":{},"f:name":{},"f:number":{},"f:services":{%s}}}}}`,
			ownership.ManagedByLabel, ownership.ShardLabel, ownership.OriginAnnotation, strings.Join(values, ",")))}
	trimManagedFields(o)
	return o
}

// The content of a NodePath that equals one that was read is not read again. Everything that we apply makes a
// difference.
func TestNodePathContentsAreShared(t *testing.T) {
	services := []string{"10.96.0.1", "10.96.0.2"}
	for name, c := range map[string]struct {
		change func(*kubedcv1alpha1.NodePath)
		reads  int
	}{
		"equal":             {func(*kubedcv1alpha1.NodePath) {}, 1},
		"another status":    {func(o *kubedcv1alpha1.NodePath) { o.Status.Repairs = 7 }, 1},
		"another Service":   {func(o *kubedcv1alpha1.NodePath) { *o = *newAppliedNodePath("b", "10.96.0.1", "10.96.0.3") }, 2},
		"one Service less":  {func(o *kubedcv1alpha1.NodePath) { o.Spec.Networks[0].Services = services[:1] }, 2},
		"another number":    {func(o *kubedcv1alpha1.NodePath) { o.Spec.Networks[0].Number = 8 }, 2},
		"another label":     {func(o *kubedcv1alpha1.NodePath) { o.Labels[ownership.ShardLabel] = "x" }, 2},
		"an annotation":     {func(o *kubedcv1alpha1.NodePath) { o.Annotations["x"] = "y" }, 2},
		"fields were taken": {func(o *kubedcv1alpha1.NodePath) { o.ManagedFields = newAppliedNodePath("b").ManagedFields }, 2},
		"no managed fields": {func(o *kubedcv1alpha1.NodePath) { o.ManagedFields = nil }, 2},
	} {
		var contents nodePathContents
		reads := 0
		read := func(o client.Object) string {
			content, err := contents.getOrRead(o, func() (string, error) {
				reads++
				applied, err := appliedContent(o)
				return intent.CanonicalJSON(applied), err
			})
			if err != nil {
				t.Fatal(err)
			}
			return content
		}
		read(newAppliedNodePath("a", services...))
		other := newAppliedNodePath("b", services...)
		c.change(other)
		applied, err := appliedContent(other)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := read(other), intent.CanonicalJSON(applied); got != want || reads != c.reads {
			t.Errorf("%s: read %d times, want %d; content %s, want %s", name, reads, c.reads, got, want)
		}
	}
}

// Only a few contents are kept.
func TestNodePathContentsAreFew(t *testing.T) {
	var contents nodePathContents
	for i := range 100 {
		o := newAppliedNodePath("a", fmt.Sprintf("10.96.0.%d", i))
		if _, err := contents.getOrRead(o, func() (string, error) { return fmt.Sprint(i), nil }); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(contents.recent); got != maxRecentContents {
		t.Errorf("%d contents are kept, want %d", got, maxRecentContents)
	}
}

// Of a set of plain values, those that we applied are extracted, in the order of the list.
func TestAppliedSetItems(t *testing.T) {
	fields := fieldSet{`v:"a"`: {}, `v:7`: {}, `v:true`: {}, `v:"gone"`: {}, `v:{`: {}, ".": {}, `k:{"name":"x"}`: {"f:kept": {}}}
	got := fields.extractList([]any{
		"b", "a", int64(7), "7", true, map[string]any{"name": "x", "kept": "1", "other": "2"}, map[string]any{"name": "y"},
	})
	want := []any{"a", int64(7), true, map[string]any{"kept": "1"}}
	if !slices.EqualFunc(got, want, func(a, b any) bool { return intent.CanonicalJSON(a) == intent.CanonicalJSON(b) }) {
		t.Errorf("extracted %v, want %v", got, want)
	}
}
