package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/model/intent"
)

// ListNames returns the sorted names of the objects of a kind, in one namespace or in all. It reads only metadata.
func ListNames(ctx context.Context, config *rest.Config, kind, namespace string) ([]string, error) {
	gvk, known := gvkByKind[intent.Kind(kind)]
	if kind == "Node" {
		gvk, known = corev1.SchemeGroupVersion.WithKind(kind), true
	}
	if !known {
		return nil, fmt.Errorf("cannot list objects of kind %s: unknown kind", kind)
	}
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to Kubernetes: %w", err)
	}
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind + "List"})
	if err := api.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list objects of kind %s: %w", kind, err)
	}
	var out []string
	for _, o := range list.Items {
		out = append(out, o.Name)
	}
	slices.SortFunc(out, strings.Compare)
	return slices.Compact(out), nil
}
