package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/state"
)

// Stays is the Services that ask to be deleted at some time. To take one away is to delete it.
type Stays struct {
	cluster *Cluster
	asking  map[intent.ObjectKey]types.UID
}

// NewStays is those of the objects that were read.
func NewStays(c *Cluster, objects []client.Object) *Stays {
	t := &Stays{cluster: c, asking: map[intent.ObjectKey]types.UID{}}
	for _, o := range objects {
		s, isService := o.(*corev1.Service)
		if isService && s.Annotations[kubedcv1.AutodeleteAnnotation] == "true" && s.DeletionTimestamp == nil {
			t.asking[intent.ObjectKey{Kind: intent.Service, Namespace: s.Namespace, Name: s.Name}] = s.UID
		}
	}
	return t
}

// Scope is the annotation.
func (t *Stays) Scope() string {
	return fmt.Sprintf("Services with the annotation %s=true", kubedcv1.AutodeleteAnnotation)
}

// Observe returns those that are there.
func (t *Stays) Observe(context.Context) (intent.Stays, error) {
	set := intent.Stays{}
	for key := range t.asking {
		set[key] = state.Entry[intent.Stay]{Origin: key.Ref()}
	}
	return set, nil
}

// Apply deletes Services. None is ever made: who deletes one meanwhile has done the work.
func (t *Stays) Apply(ctx context.Context, changes []state.Change[intent.ObjectKey, intent.Stay]) map[intent.ObjectKey]error {
	failed := map[intent.ObjectKey]error{}
	for _, c := range changes {
		uid := t.asking[c.Key]
		o := &corev1.Service{}
		o.Namespace, o.Name = c.Key.Namespace, c.Key.Name
		if !c.Removes() || uid == "" {
			continue
		}
		if err := t.cluster.api.Delete(ctx, o, client.Preconditions{UID: &uid}); err != nil && !apierrors.IsNotFound(err) {
			failed[c.Key] = fmt.Errorf("delete a Service that stays without endpoints: %w", err)
		}
	}
	return failed
}
