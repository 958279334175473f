package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Finalizers is the target for our finalizer on the given objects.
type Finalizers struct {
	cluster *Cluster
	objects map[intent.ObjectKey]client.Object
}

// NewFinalizers returns the target for our finalizer on objects as they were read.
func NewFinalizers(c *Cluster, objects []client.Object) (*Finalizers, error) {
	keyed, err := indexByKey(objects)
	return &Finalizers{cluster: c, objects: keyed}, err
}

func indexByKey(objects []client.Object) (map[intent.ObjectKey]client.Object, error) {
	out := make(map[intent.ObjectKey]client.Object, len(objects))
	for _, o := range objects {
		key, err := KeyOf(o)
		if err != nil {
			return nil, err
		}
		out[key] = o
	}
	return out, nil
}

// Scope names the finalizer.
func (t *Finalizers) Scope() string { return "finalizer " + ownership.Finalizer }

// Observe returns the objects that have the finalizer.
func (t *Finalizers) Observe(context.Context) (intent.Finalizers, error) {
	set := intent.Finalizers{}
	for key, o := range t.objects {
		if slices.Contains(o.GetFinalizers(), ownership.Finalizer) {
			set[key] = state.Entry[intent.Finalizer]{Origin: key.Ref()}
		}
	}
	return set, nil
}

// Apply adds and removes the finalizer, of several objects in parallel.
func (t *Finalizers) Apply(ctx context.Context,
	changes []state.Change[intent.ObjectKey, intent.Finalizer],
) map[intent.ObjectKey]error {
	results := newWriteResults()
	forEachParallel(changes, func(c state.Change[intent.ObjectKey, intent.Finalizer]) {
		version, err := t.setFinalizer(ctx, c.Key, !c.IsRemoval())
		switch {
		case apierrors.IsNotFound(err) && c.IsRemoval(): // deleted with its last finalizer, or already gone
		case err != nil:
			results.record(c.Key, pendingWrite{}, err)
		case version != "":
			results.record(c.Key, pendingWrite{key: c.Key, version: version}, nil)
		}
	})
	t.cluster.waitForCache(ctx, results.marks)
	return results.failed
}

var errReplaced = errors.New("the object was replaced by another with the same name")

// setFinalizer adds or removes the finalizer if nobody wrote to the object in between. It returns the resource version
// that it wrote, if any.
func (t *Finalizers) setFinalizer(ctx context.Context, key intent.ObjectKey, on bool) (string, error) {
	seen, there := t.objects[key]
	if !there {
		return "", fmt.Errorf("%s was not read", key)
	}
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name,
		UID: seen.GetUID(), ResourceVersion: seen.GetResourceVersion(), Finalizers: seen.GetFinalizers(),
	}}
	o.SetGroupVersionKind(gvkByKind[key.Kind])
	for range maxAttempts {
		patch, err := buildFinalizerPatch(o, on)
		if err != nil || patch == nil {
			return "", err
		}
		err = t.cluster.api.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch),
			client.FieldOwner(ownership.FieldManager))
		if err == nil {
			return o.GetResourceVersion(), nil
		}
		if !apierrors.IsConflict(err) {
			return "", err
		}
		if err := t.cluster.api.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return "", err
		}
		if o.UID != seen.GetUID() {
			return "", errReplaced
		}
	}
	return "", fmt.Errorf("update finalizers: giving up after %d write conflicts", maxAttempts)
}

// buildFinalizerPatch returns nil if nothing changes.
func buildFinalizerPatch(o *metav1.PartialObjectMetadata, on bool) ([]byte, error) {
	finalizers := slices.DeleteFunc(slices.Clone(o.Finalizers), func(f string) bool { return f == ownership.Finalizer })
	if has := len(finalizers) < len(o.Finalizers); has == on {
		return nil, nil
	}
	if on {
		finalizers = append(finalizers, ownership.Finalizer)
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": o.ResourceVersion,
		"finalizers":      finalizers,
	}})
}
