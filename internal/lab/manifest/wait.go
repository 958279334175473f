package manifest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
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

// Wait waits until the condition holds for an object: it reads the object, and then watches it from there. What holds
// already takes one request.
func (c *Client) Wait(ctx context.Context, ref Ref, holds Condition) error {
	resource, err := c.resource(ref.GVK, ref.Namespace)
	if err != nil {
		return err
	}
	w := &waiter{resource: resource, name: ref.Name, holds: holds}
	for {
		held, err := w.follow(ctx)
		if held {
			return nil
		}
		// The API server ended the watch, or does not answer; it may be restarting.
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; its last status: %s", ref, errors.Join(ctx.Err(), err), statusOf(w.last))
		}
	}
}

// retryPause is the time until a watch that ended is started again.
const retryPause = 100 * time.Millisecond

// waiter watches one object until a condition holds.
type waiter struct {
	resource dynamic.ResourceInterface
	name     string
	holds    Condition
	last     *unstructured.Unstructured // as last seen; nil: it does not exist
}

// follow reads and watches the object, and reports whether the condition held before the watch ended.
func (w *waiter) follow(ctx context.Context) (bool, error) {
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", w.name).String()}
	list, err := w.resource.List(ctx, options)
	if err != nil {
		return false, err
	}
	if w.last = nil; len(list.Items) > 0 {
		w.last = &list.Items[0]
	}
	if w.holds(w.last) {
		return true, nil
	}
	options.ResourceVersion = list.GetResourceVersion()
	events, err := w.resource.Watch(ctx, options)
	if err != nil {
		return false, err
	}
	defer events.Stop()
	for e := range events.ResultChan() {
		switch e.Type {
		case watch.Added, watch.Modified:
			w.last, _ = e.Object.(*unstructured.Unstructured)
		case watch.Deleted:
			w.last = nil
		case watch.Bookmark:
			continue
		case watch.Error:
			return false, apierrors.FromObject(e.Object)
		}
		if w.holds(w.last) {
			return true, nil
		}
	}
	return false, errors.New("the watch ended")
}

// WaitServed waits until the API server serves the kinds that resource definitions define. It has no event for this: it
// serves an established kind a moment before or after it lists it.
func (c *Client) WaitServed(ctx context.Context, definitions []*unstructured.Unstructured) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for _, d := range definitions {
		gvk := definedKind(d)
		for {
			_, err := c.resource(gvk, metav1.NamespaceNone)
			if err == nil {
				break
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return fmt.Errorf("wait until kind %s is served: %w", gvk.Kind, err)
			}
		}
	}
	return nil
}

// definedKind is the kind that a resource definition defines, in its first version.
func definedKind(definition *unstructured.Unstructured) schema.GroupVersionKind {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	gvk := schema.GroupVersionKind{Group: group, Kind: kind}
	if len(versions) > 0 {
		first, _ := versions[0].(map[string]any)
		gvk.Version, _ = first["name"].(string)
	}
	return gvk
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
