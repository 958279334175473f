package kube

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/model/intent"
)

// WithObjects returns the cluster as it would be with some objects added, or replaced by their new versions. Only
// reading it makes sense.
func (c *Cluster) WithObjects(objects []client.Object) *Cluster {
	return &Cluster{
		api: c.api, reader: newOverlay(c.reader, objects), indexed: c.indexed, missingKinds: c.missingKinds,
		progress: c.progress,
	}
}

// overlay reads a cache with some objects added or replaced.
type overlay struct {
	client.Reader
	objects map[intent.ObjectKey]client.Object
	indexes map[reflect.Type]map[string]client.IndexerFunc
}

func newOverlay(below client.Reader, objects []client.Object) *overlay {
	out := &overlay{
		Reader: below, objects: map[intent.ObjectKey]client.Object{},
		indexes: map[reflect.Type]map[string]client.IndexerFunc{},
	}
	for _, o := range objects {
		if key, err := KeyOf(o); err == nil {
			out.objects[key] = o
		}
	}
	for _, index := range cacheIndexes() {
		of := reflect.TypeOf(index.object)
		if out.indexes[of] == nil {
			out.indexes[of] = map[string]client.IndexerFunc{}
		}
		out.indexes[of][index.name] = index.values
	}
	return out
}

// Get reads an object.
func (r *overlay) Get(ctx context.Context, name client.ObjectKey, into client.Object, by ...client.GetOption) error {
	gvk, err := kindOf(into)
	if err != nil {
		return err
	}
	key := intent.ObjectKey{Kind: intent.Kind(gvk.Kind), Namespace: name.Namespace, Name: name.Name}
	if o, there := r.objects[key]; there {
		reflect.ValueOf(into).Elem().Set(reflect.ValueOf(o.DeepCopyObject()).Elem())
		return nil
	}
	return r.Reader.Get(ctx, name, into, by...)
}

// List reads the objects of a kind.
func (r *overlay) List(ctx context.Context, list client.ObjectList, by ...client.ListOption) error {
	err := r.Reader.List(ctx, list, by...)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	gvk, err := kindOf(list)
	if err != nil {
		return err
	}
	kind := intent.Kind(gvk.Kind[:len(gvk.Kind)-len("List")])
	options := (&client.ListOptions{}).ApplyOptions(by)
	var items []runtime.Object
	if err := meta.EachListItem(list, func(item runtime.Object) error {
		if key, err := KeyOf(item.(client.Object)); err != nil || r.objects[key] == nil {
			items = append(items, item)
		}
		return nil
	}); err != nil {
		return err
	}
	for key, o := range r.objects {
		if key.Kind != kind {
			continue
		}
		if selected, err := r.isSelected(o, options); err != nil {
			return err
		} else if selected {
			items = append(items, o.DeepCopyObject())
		}
	}
	return meta.SetList(list, items)
}

// isSelected reports whether the options of a list select an object.
func (r *overlay) isSelected(o client.Object, by *client.ListOptions) (bool, error) {
	if by.Namespace != "" && by.Namespace != o.GetNamespace() ||
		by.LabelSelector != nil && !by.LabelSelector.Matches(labels.Set(o.GetLabels())) {
		return false, nil
	}
	if by.FieldSelector == nil {
		return true, nil
	}
	for _, want := range by.FieldSelector.Requirements() {
		values := r.indexes[reflect.TypeOf(o)][want.Field]
		if want.Field == ShardIndex {
			values = indexByShard
		}
		if values == nil {
			return false, fmt.Errorf("there is no index %s of %T", want.Field, o)
		}
		if !slices.Contains(values(o), want.Value) {
			return false, nil
		}
	}
	return true, nil
}

func kindOf(o runtime.Object) (schema.GroupVersionKind, error) {
	gvks, _, err := scheme.ObjectKinds(o)
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	return gvks[0], nil
}
