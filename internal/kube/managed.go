package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/kubeovn"
	"github.com/sallyport/sallyport/internal/ownership"
)

// fields is a set of fields as the API server keeps it for each manager: "f:name" is a member of an object, "k:{…}" the item
// of a list with these keys, "v:…" the item of a set with this value, "." the thing itself. One without fields inside is
// there as a whole.
type fields map[string]fields

// applied is the set of fields that a manager applied and that nobody has changed since: the API server takes a field from
// us when another manager writes another value to it.
func applied(o client.Object, manager, subresource string) (fields, error) {
	all := fields{}
	for _, entry := range o.GetManagedFields() {
		if !isApplied(entry, manager) || entry.Subresource != subresource || entry.FieldsV1 == nil {
			continue
		}
		var some fields
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &some); err != nil {
			return nil, fmt.Errorf("read the fields that %s applied: %w", manager, err)
		}
		all = union(all, some)
	}
	return all, nil
}

func isApplied(entry metav1.ManagedFieldsEntry, manager string) bool {
	return entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply
}

// union is needed when one manager has applied two versions of a kind: each has its own set.
func union(a, b fields) fields {
	for name, inner := range b {
		have, there := a[name]
		switch {
		case !there:
			a[name] = inner
		case len(have) == 0 || len(inner) == 0:
			a[name] = fields{}
		default:
			a[name] = union(have, inner)
		}
	}
	return a
}

// of is the part of a value that is in the set.
func (f fields) of(value any) any {
	if len(f) == 0 {
		return value
	}
	switch value := value.(type) {
	case map[string]any:
		return f.ofMap(value)
	case []any:
		return f.ofList(value)
	default:
		return value
	}
}

func (f fields) ofMap(value map[string]any) map[string]any {
	out := map[string]any{}
	for name, inner := range f {
		member, isMember := strings.CutPrefix(name, "f:")
		if v, there := value[member]; isMember && there {
			out[member] = inner.of(v)
		}
	}
	return out
}

// ofList keeps the order of the list.
func (f fields) ofList(value []any) []any {
	out := []any{}
	for _, item := range value {
		for name, inner := range f {
			if names(name, item) {
				out = append(out, inner.of(item))
				break
			}
		}
	}
	return out
}

// names says whether a path element stands for an item of a list.
func names(element string, item any) bool {
	if text, isValue := strings.CutPrefix(element, "v:"); isValue {
		var want any
		return utiljson.Unmarshal([]byte(text), &want) == nil && reflect.DeepEqual(item, want)
	}
	text, isKey := strings.CutPrefix(element, "k:")
	object, isObject := item.(map[string]any)
	want := map[string]any{}
	if !isKey || !isObject || utiljson.Unmarshal([]byte(text), &want) != nil {
		return false
	}
	for k, v := range want {
		if !reflect.DeepEqual(object[k], v) {
			return false
		}
	}
	return true
}

// plain is an object as JSON has it.
func plain(o client.Object) (map[string]any, error) {
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	return out, utiljson.Unmarshal(raw, &out)
}

// belongs is the shard that an object of ours belongs to; empty: it is not ours. A label alone is no title: everybody may write one to
// his own objects. We must have applied it. In a namespace it must name the shard of that namespace, too: whoever has all rights in his
// own can pretend to be our field manager there, and would have a say in other shards. Which namespaces are in the management VPC only
// Inputs know.
func belongs(o client.Object) string {
	shard := o.GetLabels()[ownership.ShardLabel]
	if !ownership.Ours(o.GetLabels()) || !appliedLabel(o) {
		return ""
	}
	if in := o.GetNamespace(); in != "" && in != shard && shard != kubeovn.ManagementVpc {
		return ""
	}
	return shard
}

// appliedLabel says whether we have applied the label that names an object's shard, and nobody has changed it since.
func appliedLabel(o client.Object) bool {
	label := []byte(`"f:` + ownership.ShardLabel + `"`)
	return slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return isApplied(e, ownership.FieldManager) && e.Subresource == "" && e.FieldsV1 != nil && bytes.Contains(e.FieldsV1.GetRawBytes(), label)
	})
}

// Claim lets an object without managed fields that has our labels be ours. Manifests in files have none, and mean what they say.
func Claim(o client.Object) {
	gvks, _, err := scheme.ObjectKinds(o)
	if !ownership.Ours(o.GetLabels()) || len(o.GetManagedFields()) > 0 || err != nil {
		return
	}
	labels := fmt.Appendf(nil, `{"f:metadata":{"f:labels":{"f:%s":{},"f:%s":{}}}}`, ownership.ManagedByLabel, ownership.ShardLabel)
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: ownership.FieldManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: gvks[0].GroupVersion().String(),
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(labels)),
	}})
}

// Trim is a transformation for caches: of the managers of fields it keeps us. Nobody here asks who the others are, only when
// Kube-OVN last wrote the status of a Vpc.
func Trim(o any) (any, error) {
	object, isObject := o.(client.Object)
	if !isObject {
		return o, nil // a deletion that was not seen itself
	}
	_, isVpc := o.(*Vpc)
	var kept []metav1.ManagedFieldsEntry
	for _, entry := range object.GetManagedFields() {
		switch {
		case entry.Manager == ownership.FieldManager || entry.Manager == ownership.StatusManager:
			kept = append(kept, entry)
		case isVpc && entry.Subresource == "status":
			entry.FieldsV1 = nil
			kept = append(kept, entry)
		}
	}
	object.SetManagedFields(kept)
	return o, nil
}
