package kube

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/shard"
)

// An ExternalNetwork is generated if we applied our label and nobody else has written to its spec. A user's label alone
// does not make one, and neither a status nor a label of others ends it.
func TestWhichNetworksAreGenerated(t *testing.T) {
	ours := metav1.ManagedFieldsEntry{
		Manager: ownership.FieldManager, Operation: metav1.ManagedFieldsOperationApply,
		FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:` + ownership.ShardLabel + `":{}}},"f:spec":{"f:type":{}}}`),
	}
	wrote := func(manager, fields, subresource string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Subresource: subresource,
			FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	for what, c := range map[string]struct {
		fields []metav1.ManagedFieldsEntry
		shard  string
		want   bool
	}{
		"ours":                       {[]metav1.ManagedFieldsEntry{ours}, ownership.NetworksShard, true},
		"with a status":              {[]metav1.ManagedFieldsEntry{ours, wrote(ownership.FieldManager, `{"f:status":{}}`, "status")}, ownership.NetworksShard, true},
		"with a user's label":        {[]metav1.ManagedFieldsEntry{ours, wrote("kubectl", `{"f:metadata":{}}`, "")}, ownership.NetworksShard, true},
		"edited":                     {[]metav1.ManagedFieldsEntry{ours, wrote("kubectl", `{"f:spec":{"f:isolation":{}}}`, "")}, ownership.NetworksShard, false},
		"a user's with our label":    {[]metav1.ManagedFieldsEntry{wrote("kubectl", `{"f:spec":{}}`, "")}, ownership.NetworksShard, false},
		"the label of another shard": {[]metav1.ManagedFieldsEntry{ours}, "acme-shop", false},
	} {
		n := &kubedcv1alpha1.ExternalNetwork{ObjectMeta: metav1.ObjectMeta{
			Name: "ext", Labels: ownership.ManagedLabels(c.shard), ManagedFields: c.fields,
		}}
		if got := isGeneratedNetwork(n); got != c.want {
			t.Errorf("%s: generated %t, wanted %t", what, got, c.want)
		}
		in := NewInputs(shard.Networks)
		if in.Add(n); (len(in.networks) == 0) != c.want {
			t.Errorf("%s: %d networks decide", what, len(in.networks))
		}
	}
}

// The cache keeps who has written to the spec of an ExternalNetwork: without it an edited one would be deleted.
func TestCacheKeepsWhoEditedNetworks(t *testing.T) {
	n := &kubedcv1alpha1.ExternalNetwork{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{
		Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate,
		FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`),
	}}}}
	trimmed, err := TrimObject(n)
	if err != nil || !hasForeignSpec(trimmed.(*kubedcv1alpha1.ExternalNetwork)) {
		t.Errorf("%+v, %v", trimmed, err)
	}
}
