package kube

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/model/shard"
)

func bySelector(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

// A network admits by labels that tenants cannot write; a selector with other labels admits nobody.
func TestNetworkAdmits(t *testing.T) {
	name, tier := corev1.LabelMetadataName, kubedcv1.OperatorLabelPrefix+"tier"
	for what, c := range map[string]struct {
		projects, namespaces *metav1.LabelSelector
		admits, malformed    bool
	}{
		"no selector":          {nil, nil, true, false},
		"all Projects":         {&metav1.LabelSelector{}, nil, true, false},
		"the organization":     {bySelector(name, "acme"), nil, true, false},
		"another organization": {bySelector(name, "umbrella"), nil, false, false},
		"the project":          {bySelector(kubedcv1.ProjectLabel, "prod"), nil, true, false},
		"another project":      {bySelector(kubedcv1.ProjectLabel, "web"), nil, false, false},
		"an operator's label":  {bySelector(tier, "gold"), nil, true, false},
		"a label of the Project itself": {
			bySelector(kubedcv1.OperatorLabelPrefix+"mine", "gold"), nil, false,
			false,
		},
		"a label that tenants write":        {bySelector("tier", "gold"), nil, false, true},
		"the absence of such a label":       {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "DoesNotExist"}}}, nil, false, true},
		"an operator that there is not":     {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: name, Operator: "Near"}}}, nil, false, true},
		"the namespace":                     {nil, bySelector(name, "acme-prod"), true, false},
		"another namespace":                 {nil, bySelector(name, "acme-web"), false, false},
		"a namespace by a tenant's label":   {nil, bySelector("team", "pay"), false, true},
		"the namespace and not the project": {bySelector(name, "umbrella"), bySelector(name, "acme-prod"), true, false},
		"one of two that can't be read":     {&metav1.LabelSelector{}, bySelector("team", "pay"), false, true},
	} {
		network := &kubedcv1alpha1.ExternalNetwork{
			ObjectMeta: metav1.ObjectMeta{Name: "internet"},
			Spec: kubedcv1alpha1.ExternalNetworkSpec{
				Type:              "public",
				Subnets:           []string{"ext"},
				AllowedProjects:   c.projects,
				AllowedNamespaces: c.namespaces,
			},
		}
		in := NewInputs(shard.Named("acme-prod"))
		in.Add(network)
		in.Add(newExternalSubnet("ext", nil, "198.51.100.0/24", "198.51.100.1"))
		in.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name:   "acme",
			Labels: map[string]string{tier: "gold", "tier": "gold"},
		}})
		in.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name:   "acme-prod",
			Labels: map[string]string{"team": "pay"},
		}})
		in.Add(&kubedcv1.Project{ObjectMeta: metav1.ObjectMeta{
			Namespace: "acme", Name: "prod", Labels: map[string]string{kubedcv1.OperatorLabelPrefix + "mine": "gold"},
		}})
		if got := in.readExternalSubnets()[0].Admitted.AdmitsAny("acme-prod", "acme/prod"); got != c.admits {
			t.Errorf("%s: admitted %t", what, got)
		}
		if _, wrong := readAccessSelectors(network); (wrong != "") != c.malformed || c.malformed &&
			!strings.Contains(string(wrong), "spec.allowed") {
			t.Errorf("%s: the network is told %q", what, wrong)
		}
	}
}
