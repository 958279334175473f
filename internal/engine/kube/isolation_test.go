package kube

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// Only what an operator wrote into a Subnet allows a pod there. A substring of a name does not match.
func TestMisplacedPodsAreAllowedByOperatorsOnly(t *testing.T) {
	ours := ownership.ManagedLabels("acme-web")
	for what, c := range map[string]struct {
		labels  map[string]string
		spec    *kubeovn.SubnetSpec
		allowed bool
		project string
		from    string
	}{
		"a project's": {ours, &kubeovn.SubnetSpec{
			Vpc:        "acme-web",
			Provider:   "ovn",
			Namespaces: []string{"acme-web"},
		}, false, "acme-web", ""},
		"given to the namespace": {nil, &kubeovn.SubnetSpec{Namespaces: []string{"a", "evil-x"}}, true, "", ""},
		"given to a longer name": {
			nil, &kubeovn.SubnetSpec{Namespaces: []string{"evil-x2", "evil", "*"}}, false,
			"", "",
		},
		"an external one":            {nil, &kubeovn.SubnetSpec{Vlan: "ext"}, false, "", ""},
		"of the same VPC":            {nil, &kubeovn.SubnetSpec{Vpc: "evil-x"}, true, "", ""},
		"of its own attachment":      {nil, &kubeovn.SubnetSpec{Provider: "fast.evil-x.ovn"}, true, "", "evil-x"},
		"of another's attachment":    {nil, &kubeovn.SubnetSpec{Provider: "evil-x.shared.ovn"}, false, "", "shared"},
		"of no attachment":           {nil, &kubeovn.SubnetSpec{Provider: "a.evil-x.ovn.b"}, false, "", ""},
		"labelled, but not its name": {ownership.ManagedLabels("acme-pay"), &kubeovn.SubnetSpec{}, false, "", ""},
		"unknown":                    {nil, nil, false, "", ""},
	} {
		in := NewInputs(shard.Named("acme-web"))
		in.AddMisplacedPorts([]snapshot.PodPort{{
			Name:      "spy.evil-x",
			Namespace: "evil-x",
			Pod:       "spy",
			Subnet:    "acme-web-default",
		}})
		if c.spec != nil {
			subnet := &Subnet{ObjectMeta: metav1.ObjectMeta{Name: "acme-web-default", Labels: c.labels}, Spec: *c.spec}
			AdoptByLabels(subnet)
			in.Add(subnet)
		}
		if got := in.readMisplacedPorts()[0]; got.Allowed != c.allowed || got.Project != c.project ||
			got.AttachmentNamespace != c.from {
			t.Errorf("%s: %+v", what, got)
		}
		if !slices.ContainsFunc(in.referencedKeys(), func(k intent.ObjectKey) bool {
			return k.Kind == intent.Subnet && k.Name == "acme-web-default"
		}) {
			t.Error("the Subnet is not looked up")
		}
	}
}
