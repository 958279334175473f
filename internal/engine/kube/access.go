package kube

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// accessSelectors is the selectors of an external network that say who may use it.
type accessSelectors struct{ projects, namespaces labels.Selector }

// readAccessSelectors reads them. Nil: everybody may use the network. A selector that can't be used selects nobody: to
// leave it out would be to admit those whom the operator meant to keep away.
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
				snapshot.Malformed(fmt.Sprintf("%s can't be read: %v; correct it", s.field, err))
		}
		requirements, _ := selector.Requirements()
		for _, r := range requirements {
			if !isOperatorLabel(r.Key()) {
				return &accessSelectors{labels.Nothing(), labels.Nothing()}, snapshot.Malformed(fmt.Sprintf(
					"%s names label %s, which tenants may write; use %s, %s or labels that begin with %s",
					s.field, r.Key(), corev1.LabelMetadataName, kubedcv1.ProjectLabel, kubedcv1.OperatorLabelPrefix))
			}
		}
		*s.to = selector
	}
	return out, ""
}

// isOperatorLabel says whether tenants can't write a label of a namespace: the API server writes the first itself, and
// an admission policy keeps the others.
func isOperatorLabel(key string) bool {
	return key == corev1.LabelMetadataName || key == kubedcv1.ProjectLabel ||
		strings.HasPrefix(key, kubedcv1.OperatorLabelPrefix)
}

// namespaceLabels are the labels of a namespace that selectors look at. One that is not there yet has its name.
func (in *Inputs) namespaceLabels(namespace string) labels.Set {
	out := labels.Set{}
	if ns := in.knownNamespaces[namespace]; ns != nil {
		out = labels.Merge(out, ns.Labels)
	}
	out[corev1.LabelMetadataName] = namespace
	return out
}

// readAdmitted reads who may use a network, of those that the inputs know.
func (in *Inputs) readAdmitted(n *kubedcv1alpha1.ExternalNetwork) snapshot.Admitted {
	list, _ := readAccessSelectors(n)
	if list == nil {
		return nil
	}
	out := snapshot.Admitted{in.Shard: list.namespaces.Matches(in.namespaceLabels(in.Shard))}
	for name := range in.knownNamespaces {
		out[name] = list.namespaces.Matches(in.namespaceLabels(name))
	}
	for _, of := range [][]*kubedcv1.Project{in.projects, in.otherProjects} {
		for _, p := range of {
			set := labels.Merge(in.namespaceLabels(p.Namespace), labels.Set{kubedcv1.ProjectLabel: p.Name})
			admits := list.projects.Matches(set)
			out[snapshot.ProjectKey(p.Namespace, p.Name)] = admits
			// and not one that wants a name that is taken
			if shard := snapshot.ProjectShard(p.Namespace, p.Name); isAcceptedProject(p) {
				out[shard] = out[shard] || admits
			}
		}
	}
	return out
}

// gatherAllProjects adds all Projects, with their namespaces and organizations, where some network is not for
// everybody.
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

// hasRestrictedNetwork says whether some network is not for everybody.
func (in *Inputs) hasRestrictedNetwork() bool {
	for _, n := range in.networks {
		if n.Spec.AllowedProjects != nil || n.Spec.AllowedNamespaces != nil {
			return true
		}
	}
	return false
}
