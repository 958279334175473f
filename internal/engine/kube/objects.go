package kube

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Objects is the target for the objects of one shard: those with our labels.
type Objects struct {
	cluster *Cluster
	shard   string
}

// NewObjects returns the target for the objects of a shard.
func NewObjects(c *Cluster, shard string) *Objects { return &Objects{cluster: c, shard: shard} }

// Scope describes the labels.
func (t *Objects) Scope() string {
	return fmt.Sprintf("objects with the labels %s=%s and %s=%s",
		ownership.ManagedByLabel, ownership.ManagedBy, ownership.ShardLabel, t.shard)
}

// Observe returns every object of the shard, reduced to the fields that we applied.
func (t *Objects) Observe(ctx context.Context) (intent.Objects, error) {
	set := intent.Objects{}
	for _, kind := range t.cluster.availableKinds(appliedKinds) {
		list, err := newList(kind)
		if err != nil {
			return nil, err
		}
		if err := t.cluster.reader.List(ctx, list, t.cluster.matchShard(t.shard)...); err != nil {
			return nil, fmt.Errorf("list %s: %w", kind, err)
		}
		if err := meta.EachListItem(list, func(item runtime.Object) error {
			return t.addObserved(set, kind, item.(client.Object))
		}); err != nil {
			return nil, err
		}
	}
	return set, nil
}

func (t *Objects) addObserved(set intent.Objects, kind intent.Kind, o client.Object) error {
	if n, is := o.(*kubedcv1alpha1.ExternalNetwork); ownerShard(o) != t.shard || is && !isGeneratedNetwork(n) {
		return nil
	}
	key := intent.ObjectKey{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}
	content, err := t.cluster.contentCache.getOrRead(key, o, func() (string, error) {
		return t.cluster.nodePathContents.getOrRead(o, func() (string, error) {
			applied, err := appliedContent(o)
			return intent.CanonicalJSON(applied), err
		})
	})
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	set[key] = state.Entry[intent.Object]{
		Value: intent.Object{
			Content:      content,
			Terminating:  o.GetDeletionTimestamp() != nil,
			Needs:        dependenciesOf(o, t.shard),
			PendingSince: pendingSince(o),
			InProgress:   isInProgress(o),
		},
		Origin: parseOrigin(o.GetAnnotations()[ownership.OriginAnnotation]),
	}
	return nil
}

// appliedContent returns the fields of an object that we applied, in the form that compile writes.
func appliedContent(o client.Object) (map[string]any, error) {
	owned, err := appliedFields(o, ownership.FieldManager, "")
	if err != nil {
		return nil, err
	}
	all, err := toJSONMap(o)
	if err != nil {
		return nil, err
	}
	labels, _, _ := unstructured.NestedFieldNoCopy(all, "metadata", "labels")
	annotations, _, _ := unstructured.NestedFieldNoCopy(all, "metadata", "annotations")
	all["metadata"] = map[string]any{"labels": labels, "annotations": annotations}
	delete(all, "status")
	out := owned.extractMap(all)
	unstructured.RemoveNestedField(out, "metadata", "annotations", ownership.OriginAnnotation)
	return out, nil
}

// formatOrigin and parseOrigin convert an origin to and from the value of its annotation.
func formatOrigin(r state.Ref) string { return r.Kind + "/" + r.Namespace + "/" + r.Name }

func parseOrigin(text string) state.Ref {
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return state.Ref{}
	}
	return state.Ref{Kind: parts[0], Namespace: parts[1], Name: parts[2]}
}

// pendingSince returns the creation time of an object that Kube-OVN has not finished, or zero.
func pendingSince(o client.Object) time.Time {
	ready := true
	switch o := o.(type) {
	case *OvnEip:
		ready = o.Status.Ready
	case *OvnFip:
		ready = o.Status.Ready
	case *OvnSnatRule:
		ready = o.Status.Ready
	}
	if ready || o.GetDeletionTimestamp() != nil {
		return time.Time{}
	}
	return o.GetCreationTimestamp().Time
}

// isInProgress reports whether Kube-OVN is working on a NAT object. Kube-OVN writes the NAT row, then its finalizer,
// then the status.
func isInProgress(o client.Object) bool {
	switch o.(type) {
	case *OvnFip, *OvnSnatRule:
		return len(o.GetFinalizers()) > 0
	default:
		return false
	}
}

// dependenciesOf returns the objects that must be deleted after this one. Kube-OVN does not finish the deletion of a
// NAT object whose router or address is gone, and deleting the OvnEip of a router port deletes the port.
func dependenciesOf(o client.Object, shard string) []intent.ObjectKey {
	named := func(kind intent.Kind, name string) intent.ObjectKey { return intent.ObjectKey{Kind: kind, Name: name} }
	switch o := o.(type) {
	case *OvnFip:
		return []intent.ObjectKey{named(intent.OvnEip, o.Spec.OvnEip), named(intent.Vpc, o.Spec.Vpc)}
	case *OvnSnatRule:
		return []intent.ObjectKey{
			named(intent.OvnEip, o.Spec.OvnEip), named(intent.Subnet, o.Spec.VpcSubnet),
			named(intent.Vpc, shard),
		}
	case *Subnet:
		return []intent.ObjectKey{named(intent.Vpc, o.Spec.Vpc)}
	case *Vpc:
		var out []intent.ObjectKey
		for _, list := range [][]string{o.Spec.ExtraExternalSubnets, o.Status.ExtraExternalSubnets} {
			for _, subnet := range list {
				out = append(out, named(intent.OvnEip, kubeovn.RouterPort(o.Name, subnet)))
			}
		}
		return out
	case *corev1.Namespace:
		return []intent.ObjectKey{named(intent.Subnet, ownership.VPCSubnetName(o.Name)), named(intent.Vpc, shard)}
	default:
		return nil
	}
}
