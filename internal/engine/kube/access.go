package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// accessSelectors are the selectors of an external network that restrict who may use it.
type accessSelectors struct{ projects, namespaces labels.Selector }

// readAccessSelectors parses them. It returns nil if everyone may use the network. An unusable selector selects nobody:
// ignoring it would admit those whom the operator meant to exclude.
func readAccessSelectors(n *kubedcv1alpha1.ExternalNetwork) (*accessSelectors, snapshot.Malformed) {
	if n.Spec.AllowedProjects == nil && n.Spec.AllowedNamespaces == nil {
		return nil, ""
	}
	out := &accessSelectors{labels.Nothing(), labels.Nothing()}
	for _, s := range []struct {
		field string
		from  *metav1.LabelSelector
		to    *labels.Selector
	}{
		{"spec.allowedProjects", n.Spec.AllowedProjects, &out.projects},
		{"spec.allowedNamespaces", n.Spec.AllowedNamespaces, &out.namespaces},
	} {
		selector, err := metav1.LabelSelectorAsSelector(s.from)
		if err != nil {
			return &accessSelectors{labels.Nothing(), labels.Nothing()},
				snapshot.Malformed(fmt.Sprintf("%s is not a valid selector: %v", s.field, err))
		}
		requirements, _ := selector.Requirements()
		for _, r := range requirements {
			if !isOperatorLabel(r.Key()) {
				return &accessSelectors{labels.Nothing(), labels.Nothing()}, snapshot.Malformed(fmt.Sprintf(
					"%s uses label %s, which tenants can write; use %s, %s or labels that begin with %s",
					s.field, r.Key(), corev1.LabelMetadataName, kubedcv1.ProjectLabel, kubedcv1.OperatorLabelPrefix))
			}
		}
		*s.to = selector
	}
	return out, ""
}

// isOperatorLabel reports whether tenants cannot write a namespace label: the API server sets the first one itself, and
// an admission policy protects the others.
func isOperatorLabel(key string) bool {
	return key == corev1.LabelMetadataName || key == kubedcv1.ProjectLabel ||
		strings.HasPrefix(key, kubedcv1.OperatorLabelPrefix)
}

// namespaceLabels returns the labels of a namespace for selectors. A namespace that does not exist yet has its name.
func (in *Inputs) namespaceLabels(namespace string) labels.Set {
	out := labels.Set{}
	if ns := in.knownNamespaces[namespace]; ns != nil {
		out = labels.Merge(out, ns.Labels)
	}
	out[corev1.LabelMetadataName] = namespace
	return out
}

// readAdmitted returns which of the known namespaces and projects may use a network.
func (in *Inputs) readAdmitted(n *kubedcv1alpha1.ExternalNetwork) snapshot.Admitted {
	list, _ := readAccessSelectors(n)
	if list == nil {
		return nil
	}
	out := snapshot.Admitted{in.Shard.Name: list.namespaces.Matches(in.namespaceLabels(in.Shard.Name))}
	for name := range in.knownNamespaces {
		out[name] = list.namespaces.Matches(in.namespaceLabels(name))
	}
	for _, of := range [][]*kubedcv1.Project{in.projects, in.otherProjects} {
		for _, p := range of {
			set := labels.Merge(in.namespaceLabels(p.Namespace), labels.Set{kubedcv1.ProjectLabel: p.Name})
			admits := list.projects.Matches(set)
			out[snapshot.ProjectKey(p.Namespace, p.Name)] = admits
			// a Project whose name is taken by another has no access
			if shard := snapshot.ProjectShard(p.Namespace, p.Name); isAcceptedProject(p) {
				out[shard] = out[shard] || admits
			}
		}
	}
	return out
}

// gatherAllProjects adds all Projects with their namespaces and organizations if any network is restricted.
func (c *Cluster) gatherAllProjects(ctx context.Context, in *Inputs) error {
	if !in.hasRestrictedNetwork() {
		return nil
	}
	if err := c.listInto(ctx, in, &kubedcv1.ProjectList{}, nil); err != nil {
		return err
	}
	for _, p := range in.otherProjects {
		for _, name := range []string{p.Namespace, p.Status.Namespace} {
			if in.knownNamespaces[name] != nil || name == "" {
				continue
			}
			if ns, err := c.readObject(ctx, intent.ObjectKey{Kind: intent.Namespace, Name: name}); err == nil {
				in.Add(ns)
			}
		}
	}
	return nil
}

// hasRestrictedNetwork reports whether any network restricts who may use it.
func (in *Inputs) hasRestrictedNetwork() bool { return slices.ContainsFunc(in.networks, isRestricted) }

// hasRestrictedNetwork reports the same of the networks in the cache. If they can't be read, one may be restricted.
func (c *Cluster) hasRestrictedNetwork(ctx context.Context) bool {
	var list kubedcv1alpha1.ExternalNetworkList
	err := c.reader.List(ctx, &list, client.UnsafeDisableDeepCopy)
	return err != nil || slices.ContainsFunc(list.Items, func(n kubedcv1alpha1.ExternalNetwork) bool {
		return isRestricted(&n)
	})
}

func isRestricted(n *kubedcv1alpha1.ExternalNetwork) bool {
	return n.Spec.AllowedProjects != nil || n.Spec.AllowedNamespaces != nil
}
