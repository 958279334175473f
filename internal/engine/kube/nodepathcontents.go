package kube

import (
	"maps"
	"reflect"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// nodePathContents has the contents that were last read from NodePaths. Most NodePaths of a cluster are equal and list
// all Services that are reached through their network: comparing two of them is much cheaper than reading one, and the
// content is in memory once.
type nodePathContents struct {
	mu     sync.Mutex
	recent []nodePathContent // the last one last
}

// maxRecentContents is the number of different contents that are kept: a few kinds of nodes, before and after a change.
const maxRecentContents = 8

type nodePathContent struct {
	object  *kubedcv1alpha1.NodePath
	fields  *metav1.FieldsV1
	content string
}

// getOrRead returns the content of a NodePath that is equal in all that we apply, or calls read. Of other kinds it calls
// read.
func (c *nodePathContents) getOrRead(o client.Object, read func() (string, error)) (string, error) {
	path, isNodePath := o.(*kubedcv1alpha1.NodePath)
	fields := soleAppliedFields(o)
	if !isNodePath || fields == nil {
		return read()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range slices.Backward(c.recent) {
		if r.fields == fields && isSameNodePath(r.object, path) {
			return r.content, nil
		}
	}
	content, err := read()
	if err == nil {
		c.recent = append(c.recent[max(0, len(c.recent)-maxRecentContents+1):], nodePathContent{path, fields, content})
	}
	return content, err
}

// soleAppliedFields returns the set of fields that we applied to an object, or nil if there is not exactly one. Equal
// sets have the same address (fieldSetTable).
func soleAppliedFields(o client.Object) (out *metav1.FieldsV1) {
	for _, entry := range o.GetManagedFields() {
		if !isAppliedBy(entry, ownership.FieldManager) || entry.Subresource != "" {
			continue
		}
		if out != nil {
			return nil
		}
		out = entry.FieldsV1
	}
	return out
}

// isSameNodePath reports whether two NodePaths are equal, apart from their names, status and origin.
func isSameNodePath(a, b *kubedcv1alpha1.NodePath) bool {
	annotations := func(o *kubedcv1alpha1.NodePath) map[string]string {
		out := maps.Clone(o.Annotations)
		delete(out, ownership.OriginAnnotation)
		return out
	}
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(annotations(a), annotations(b)) &&
		slices.EqualFunc(a.Spec.Networks, b.Spec.Networks, func(x, y kubedcv1alpha1.NodeNetwork) bool {
			if !slices.Equal(x.Services, y.Services) {
				return false
			}
			x.Services, y.Services = nil, nil // reflection is slow, and there may be thousands
			return reflect.DeepEqual(x, y)
		})
}
