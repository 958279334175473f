// Package manifest is YAML applied to a lab's cluster, server-side, and waited for.
package manifest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"golang.org/x/sync/errgroup"
)

// FieldManager owns the fields that the lab applies.
const FieldManager = "sallyport-lab"

// Client applies manifests to one cluster.
type Client struct {
	dynamic dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
	dry     []string // what of the writing is only tried
}

// Trying is the same client, but what it applies is only tried: the API server says what it thinks of it and keeps
// nothing.
func (c *Client) Trying() *Client {
	tries := *c
	tries.dry = []string{metav1.DryRunAll}
	return &tries
}

// New is a client for the cluster that config reaches.
func New(config *rest.Config) (*Client, error) {
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make dynamic client: %w", err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make discovery client: %w", err)
	}
	return &Client{dynamic: dyn, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))},
		nil
}

// Parse reads a stream of YAML documents.
func Parse(text string) ([]*unstructured.Unstructured, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	var out []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("parse manifest: %w", err)
		}
		if len(object.Object) > 0 {
			out = append(out, object)
		}
	}
}

// Apply applies every document of a manifest, in order.
func (c *Client) Apply(ctx context.Context, text string) error {
	objects, err := Parse(text)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := c.ApplyObject(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// ApplyAll applies every document of a manifest, side by side.
func (c *Client) ApplyAll(ctx context.Context, text string) error {
	objects, err := Parse(text)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, object := range objects {
		group.Go(func() error { return c.ApplyObject(ctx, object) })
	}
	return group.Wait()
}

// ApplyObject applies one object, and its status where it has one.
func (c *Client) ApplyObject(ctx context.Context, object *unstructured.Unstructured) error {
	resource, err := c.resource(object.GroupVersionKind(), object.GetNamespace())
	if err != nil {
		return err
	}
	options := metav1.ApplyOptions{FieldManager: FieldManager, Force: true, DryRun: c.dry}
	_, err = resource.Apply(ctx, object.GetName(), object, options)
	if err == nil && object.Object["status"] != nil {
		_, err = resource.ApplyStatus(ctx, object.GetName(), object, options)
	}
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// Delete deletes every object of a manifest, last first, and waits until each is gone.
func (c *Client) Delete(ctx context.Context, text string) error {
	objects, err := Parse(text)
	if err != nil {
		return err
	}
	for i := len(objects) - 1; i >= 0; i-- {
		o := objects[i]
		resource, err := c.resource(o.GroupVersionKind(), o.GetNamespace())
		if err != nil {
			return err
		}
		if err := resource.Delete(ctx, o.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		if err := c.Wait(ctx, Ref{GVK: o.GroupVersionKind(), Namespace: o.GetNamespace(), Name: o.GetName()},
			Gone); err != nil {
			return err
		}
	}
	return nil
}

// Get reads one object; nil when it does not exist.
func (c *Client) Get(ctx context.Context, ref Ref) (*unstructured.Unstructured, error) {
	resource, err := c.resource(ref.GVK, ref.Namespace)
	if err != nil {
		return nil, err
	}
	object, err := resource.Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", ref, err)
	}
	return object, nil
}

func (c *Client) resource(gvk schema.GroupVersionKind, namespace string) (dynamic.ResourceInterface, error) {
	mapping, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		c.mapper.Reset() // the kind may have been defined since
		mapping, err = c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("find kind %s: %w", gvk.Kind, err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return c.dynamic.Resource(mapping.Resource), nil
	}
	return c.dynamic.Resource(mapping.Resource).Namespace(namespace), nil
}
