package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/state"
)

// IdleServices is the target for Services that ask for automatic deletion. Removing an entry deletes the Service.
type IdleServices struct {
	cluster    *Cluster
	candidates map[intent.ObjectKey]types.UID
}

// NewIdleServices returns the target for such Services among the objects that were read.
func NewIdleServices(c *Cluster, objects []client.Object) *IdleServices {
	t := &IdleServices{cluster: c, candidates: map[intent.ObjectKey]types.UID{}}
	for _, o := range objects {
		s, isService := o.(*corev1.Service)
		if isService && s.Annotations[kubedcv1.AutodeleteAnnotation] == "true" && s.DeletionTimestamp == nil {
			t.candidates[intent.ObjectKey{Kind: intent.Service, Namespace: s.Namespace, Name: s.Name}] = s.UID
		}
	}
	return t
}

// Scope names the annotation.
func (t *IdleServices) Scope() string {
	return fmt.Sprintf("Services with the annotation %s=true", kubedcv1.AutodeleteAnnotation)
}

// Observe returns the Services that exist.
func (t *IdleServices) Observe(context.Context) (intent.KeptServices, error) {
	set := intent.KeptServices{}
	for key := range t.candidates {
		set[key] = state.Entry[intent.KeptService]{Origin: key.Ref()}
	}
	return set, nil
}

// Apply deletes Services and never creates any. A Service that is already gone is not an error.
func (t *IdleServices) Apply(ctx context.Context,
	changes []state.Change[intent.ObjectKey, intent.KeptService],
) map[intent.ObjectKey]error {
	failed := map[intent.ObjectKey]error{}
	for _, c := range changes {
		uid := t.candidates[c.Key]
		o := &corev1.Service{}
		o.Namespace, o.Name = c.Key.Namespace, c.Key.Name
		if !c.IsRemoval() || uid == "" {
			continue
		}
		if err := t.cluster.api.Delete(ctx, o, client.Preconditions{UID: &uid}); err != nil &&
			!apierrors.IsNotFound(err) {
			failed[c.Key] = fmt.Errorf("delete an idle Service: %w", err)
		}
	}
	return failed
}
