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
	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/snapshot"
)

// guestList is the selectors of an external network that say who may use it.
type guestList struct{ projects, namespaces labels.Selector }

// readGuestList reads them. Nil: everybody may use the network. A selector that can't be used selects nobody: to leave it out would be to
// admit those whom the operator meant to keep away.
func readGuestList(n *kubedcv1alpha1.ExternalNetwork) (*guestList, snapshot.Malformed) {
	if n.Spec.AllowedProjects == nil && n.Spec.AllowedNamespaces == nil {
		return nil, ""
	}
	out := &guestList{labels.Nothing(), labels.Nothing()}
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
			return &guestList{labels.Nothing(), labels.Nothing()}, snapshot.Malformed(fmt.Sprintf("%s can't be read: %v; correct it", s.field, err))
		}
		requirements, _ := selector.Requirements()
		for _, r := range requirements {
			if !isOperatorLabel(r.Key()) {
				return &guestList{labels.Nothing(), labels.Nothing()}, snapshot.Malformed(fmt.Sprintf(
					"%s names label %s, which tenants may write; use %s, %s or labels that begin with %s",
					s.field, r.Key(), corev1.LabelMetadataName, kubedcv1.ProjectLabel, kubedcv1.OperatorLabelPrefix))
			}
		}
		*s.to = selector
	}
	return out, ""
}

// isOperatorLabel says whether tenants can't write a label of a namespace: the API server writes the first itself, and an admission policy
// keeps the others.
func isOperatorLabel(key string) bool {
	return key == corev1.LabelMetadataName || key == kubedcv1.ProjectLabel || strings.HasPrefix(key, kubedcv1.OperatorLabelPrefix)
}

// labelsOf are the labels of a namespace that selectors look at. One that is not there yet has its name.
func (in *Inputs) labelsOf(namespace string) labels.Set {
	out := labels.Set{}
	if ns := in.known[namespace]; ns != nil {
		out = labels.Merge(out, ns.Labels)
	}
	out[corev1.LabelMetadataName] = namespace
	return out
}

// readAdmitted reads who may use a network, of those that the inputs know.
func (in *Inputs) readAdmitted(n *kubedcv1alpha1.ExternalNetwork) snapshot.Admitted {
	list, _ := readGuestList(n)
	if list == nil {
		return nil
	}
	out := snapshot.Admitted{in.Shard: list.namespaces.Matches(in.labelsOf(in.Shard))}
	for name := range in.known {
		out[name] = list.namespaces.Matches(in.labelsOf(name))
	}
	for _, of := range [][]*kubedcv1.Project{in.projects, in.others} {
		for _, p := range of {
			set := labels.Merge(in.labelsOf(p.Namespace), labels.Set{kubedcv1.ProjectLabel: p.Name})
			admits := list.projects.Matches(set)
			out[snapshot.ProjectKey(p.Namespace, p.Name)] = admits
			if shard := snapshot.ShardOf(p.Namespace, p.Name); isMember(p) { // and not one that wants a name that is taken
				out[shard] = out[shard] || admits
			}
		}
	}
	return out
}

// gatherGuests adds all Projects, with their namespaces and organizations, where some network is not for everybody.
func (c *Cluster) gatherGuests(ctx context.Context, in *Inputs) error {
	if !in.limitsNetworks() {
		return nil
	}
	if err := c.add(ctx, in, &kubedcv1.ProjectList{}, nil); err != nil {
		return err
	}
	for _, p := range in.others {
		for _, name := range []string{p.Namespace, p.Status.Namespace} {
			if in.known[name] != nil || name == "" {
				continue
			}
			if ns, err := c.read(ctx, intent.ObjectKey{Kind: intent.Namespace, Name: name}); err == nil {
				in.Add(ns)
			}
		}
	}
	return nil
}

// limitsNetworks says whether some network is not for everybody.
func (in *Inputs) limitsNetworks() bool {
	for _, n := range in.networks {
		if n.Spec.AllowedProjects != nil || n.Spec.AllowedNamespaces != nil {
			return true
		}
	}
	return false
}
