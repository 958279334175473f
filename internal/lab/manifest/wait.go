package manifest

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// Ref names one object.
type Ref struct {
	GVK             schema.GroupVersionKind
	Namespace, Name string
}

func (r Ref) String() string {
	return r.GVK.Kind + " " + strings.TrimPrefix(r.Namespace+"/"+r.Name, "/")
}

// Condition is a fact about an object; the object is nil when it does not exist.
type Condition func(*unstructured.Unstructured) bool

// Exists holds when the object exists.
func Exists(o *unstructured.Unstructured) bool { return o != nil }

// Gone holds when the object does not exist.
func Gone(o *unstructured.Unstructured) bool { return o == nil }

// True holds when a condition of the object's status is True.
func True(kind string) Condition {
	return func(o *unstructured.Unstructured) bool {
		if o == nil {
			return false
		}
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, raw := range conditions {
			c, ok := raw.(map[string]any)
			if ok && c["type"] == kind && c["status"] == "True" {
				return true
			}
		}
		return false
	}
}

// Field holds when a field of the object prints as value.
func Field(value string, path ...string) Condition {
	return func(o *unstructured.Unstructured) bool {
		if o == nil {
			return false
		}
		got, found, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
		return found && fmt.Sprint(got) == value
	}
}

// Wait watches an object until the condition holds.
func (c *Client) Wait(ctx context.Context, ref Ref, holds Condition) error {
	resource, err := c.resource(ref.GVK, ref.Namespace)
	if err != nil {
		return err
	}
	selector := fields.OneTermEqualSelector("metadata.name", ref.Name).String()
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			return resource.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			return resource.Watch(ctx, o)
		},
	}
	precondition := func(store cache.Store) (bool, error) { return len(store.List()) == 0 && holds(nil), nil }
	var last *unstructured.Unstructured
	_, err = watchtools.UntilWithSync(ctx, lw, &unstructured.Unstructured{}, precondition,
		func(e watch.Event) (bool, error) {
			if e.Type == watch.Deleted {
				last = nil
				return holds(nil), nil
			}
			last, _ = e.Object.(*unstructured.Unstructured)
			return holds(last), nil
		})
	if err != nil {
		return fmt.Errorf("wait for %s: %w; its last status: %s", ref, err, statusOf(last))
	}
	return nil
}

func statusOf(o *unstructured.Unstructured) string {
	if o == nil {
		return "it does not exist"
	}
	return fmt.Sprint(o.Object["status"])
}

// Namespace makes a namespace and waits until pods can be made in it: its service account exists, and Kube-OVN has said
// which logical switch its pods belong to. A pod made before that lands in Kube-OVN's default subnet.
func (c *Client) Namespace(ctx context.Context, name string) error {
	if err := c.Apply(ctx, fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", name)); err != nil {
		return err
	}
	v1 := schema.GroupVersion{Version: "v1"}
	if err := c.Wait(ctx, Ref{GVK: v1.WithKind("ServiceAccount"), Namespace: name, Name: "default"},
		Exists); err != nil {
		return err
	}
	return c.Wait(ctx, Ref{GVK: v1.WithKind("Namespace"), Name: name}, func(o *unstructured.Unstructured) bool {
		return o != nil && o.GetAnnotations()["ovn.kubernetes.io/logical_switch"] != ""
	})
}
