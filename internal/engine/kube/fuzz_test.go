package kube

import (
	"bytes"
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// FuzzManagedFields: for any set of managed fields, the extracted content is a part of the object.
func FuzzManagedFields(f *testing.F) {
	f.Add([]byte(`{"f:metadata":{"f:labels":{"f:kube-dc.com/vpc":{}}},"f:spec":{"f:cidrBlock":{},".":{}}}`),
		[]byte(`{"metadata":{"labels":{"kube-dc.com/vpc":"a"}},"spec":{"cidrBlock":"10.0.0.0/24"}}`))
	f.Add([]byte(`{"f:spec":{"f:staticRoutes":{"k:{\"cidr\":\"a\"}":{"f:cidr":{}},"v:\"x\"":{},"k:[":{}}}}`),
		[]byte(`{"spec":{"staticRoutes":[{"cidr":"a","b":1},"x",null]}}`))
	f.Add([]byte(`{"f:a":null}`), []byte(`{"a":[]}`))
	f.Fuzz(func(t *testing.T, set, object []byte) {
		o := &metav1.PartialObjectMetadata{}
		o.Labels = map[string]string{"app.kubernetes.io/managed-by": "sallyport", ownership.ShardLabel: "acme-web"}
		o.ManagedFields = []metav1.ManagedFieldsEntry{
			managedFieldsEntry(ownership.FieldManager, applyOperation, "", string(set)), managedFieldsEntry(ownership.FieldManager, applyOperation, "", `{"f:metadata":{"f:labels":{}}}`),
		}
		ownerShard(o)
		ours, err := appliedFields(o, ownership.FieldManager, "")
		var value map[string]any
		if err != nil || utiljson.Unmarshal(object, &value) != nil || value == nil {
			return
		}
		if got := ours.extract(value); !isPartOf(got, value) {
			t.Errorf("%s of %s is %v", set, object, got)
		}
	})
}

// isPartOf reports whether a value is a part of another: members and list items may be missing, nothing is added or
// moved.
func isPartOf(part, whole any) bool {
	switch part := part.(type) {
	case map[string]any:
		whole, same := whole.(map[string]any)
		for name, value := range part {
			if member, there := whole[name]; !there || !isPartOf(value, member) {
				return false
			}
		}
		return same
	case []any:
		list, same := whole.([]any)
		for _, item := range part {
			for len(list) > 0 && !isPartOf(item, list[0]) {
				list = list[1:]
			}
			if len(list) == 0 {
				return false
			}
			list = list[1:]
		}
		return same
	default:
		a, _ := json.Marshal(part)
		b, _ := json.Marshal(whole)
		return bytes.Equal(a, b)
	}
}

// FuzzInspection: any answer of a node is parsed without panic, and the result has no more answers than the node gave.
func FuzzInspection(f *testing.F) {
	f.Add([]byte(`{"spec":{"node":"n","routes":[{"to":"10.0.0.1"}]},"status":{"time":"2030-01-02T03:04:05.000006Z","routes":[{"nextHop":"x"},{}],"connections":[{"source":"10.0.0.1:80"}],
		"neighbours":[{"address":"10.0.0.1","macs":["b","a"]}],"interfaces":[{"addresses":["10.0.0.1/99"]}],"usage":[{"to":"[::1]:70000"}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var o kubedcv1alpha1.Inspection
		if json.Unmarshal(data, &o) != nil || o.Status.Time == nil { // without a time it is not answered yet
			return
		}
		read := readInspection(&o)
		if len(read.Routes) > len(o.Spec.Routes) || len(read.Connection) != len(o.Status.Connections) || len(read.Neighbours) != len(o.Status.Neighbours) {
			t.Errorf("%s\nis %+v", data, read)
		}
	})
}
