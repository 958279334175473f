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

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// fieldSet is a set of fields as the API server keeps it for each manager: "f:name" is a member of an object, "k:{…}"
// the item of a list with these keys, "v:…" the item of a set with this value, "." the thing itself. One without fields
// inside is there as a whole.
type fieldSet map[string]fieldSet

// appliedFields is the set of fields that a manager applied and that nobody has changed since: the API server takes a
// field from us when another manager writes another value to it.
func appliedFields(o client.Object, manager, subresource string) (fieldSet, error) {
	all := fieldSet{}
	for _, entry := range o.GetManagedFields() {
		if !isAppliedBy(entry, manager) || entry.Subresource != subresource || entry.FieldsV1 == nil {
			continue
		}
		var some fieldSet
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &some); err != nil {
			return nil, fmt.Errorf("read the fields that %s applied: %w", manager, err)
		}
		all = mergeFieldSets(all, some)
	}
	return all, nil
}

func isAppliedBy(entry metav1.ManagedFieldsEntry, manager string) bool {
	return entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply
}

// mergeFieldSets is needed when one manager has applied two versions of a kind: each has its own set.
func mergeFieldSets(a, b fieldSet) fieldSet {
	for name, inner := range b {
		have, there := a[name]
		switch {
		case !there:
			a[name] = inner
		case len(have) == 0 || len(inner) == 0:
			a[name] = fieldSet{}
		default:
			a[name] = mergeFieldSets(have, inner)
		}
	}
	return a
}

// extract is the part of a value that is in the set.
func (f fieldSet) extract(value any) any {
	if len(f) == 0 {
		return value
	}
	switch value := value.(type) {
	case map[string]any:
		return f.extractMap(value)
	case []any:
		return f.extractList(value)
	default:
		return value
	}
}

func (f fieldSet) extractMap(value map[string]any) map[string]any {
	out := map[string]any{}
	for name, inner := range f {
		member, isMember := strings.CutPrefix(name, "f:")
		if v, there := value[member]; isMember && there {
			out[member] = inner.extract(v)
		}
	}
	return out
}

// extractList keeps the order of the list.
func (f fieldSet) extractList(value []any) []any {
	out := []any{}
	for _, item := range value {
		for name, inner := range f {
			if matchesItem(name, item) {
				out = append(out, inner.extract(item))
				break
			}
		}
	}
	return out
}

// matchesItem says whether a path element stands for an item of a list.
func matchesItem(element string, item any) bool {
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

// toJSONMap is an object as JSON has it.
func toJSONMap(o client.Object) (map[string]any, error) {
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	return out, utiljson.Unmarshal(raw, &out)
}

// ownerShard is the shard that an object of ours belongs to; empty: it is not ours. A label alone is no title:
// everybody may write one to his own objects. We must have applied it. In a namespace it must name the shard of that
// namespace, too: whoever has all rights in his own can pretend to be our field manager there, and would have a say in
// other shards. Which namespaces are in the management VPC only Inputs know.
func ownerShard(o client.Object) string {
	shard := o.GetLabels()[ownership.ShardLabel]
	if !ownership.IsManagedObject(o.GetLabels()) || !hasAppliedLabel(o) {
		return ""
	}
	if in := o.GetNamespace(); in != "" && in != shard && shard != kubeovn.ManagementVpc {
		return ""
	}
	return shard
}

// hasAppliedLabel says whether we have applied the label that names an object's shard, and nobody has changed it since.
func hasAppliedLabel(o client.Object) bool {
	label := []byte(`"f:` + ownership.ShardLabel + `"`)
	return slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return isAppliedBy(e, ownership.FieldManager) && e.Subresource == "" && e.FieldsV1 != nil &&
			bytes.Contains(e.FieldsV1.GetRawBytes(), label)
	})
}

// AdoptByLabels lets an object without managed fields that has our labels be ours. Manifests in files have none, and
// mean what they say.
func AdoptByLabels(o client.Object) {
	gvks, _, err := scheme.ObjectKinds(o)
	if !ownership.IsManagedObject(o.GetLabels()) || len(o.GetManagedFields()) > 0 || err != nil {
		return
	}
	labels := fmt.Appendf(nil, `{"f:metadata":{"f:labels":{"f:%s":{},"f:%s":{}}}}`, ownership.ManagedByLabel,
		ownership.ShardLabel)
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: ownership.FieldManager, Operation: metav1.ManagedFieldsOperationApply,
		APIVersion: gvks[0].GroupVersion().String(),
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(labels)),
	}})
}

// TrimManagedFields is a transformation for caches: of the managers of fields it keeps us. Nobody here asks who the
// others are, only when Kube-OVN last wrote the status of a Vpc.
func TrimManagedFields(o any) (any, error) {
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
