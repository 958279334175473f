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
// the list item with these keys, "v:…" the set item with this value, "." the element itself. An element without nested
// fields is in the set as a whole.
type fieldSet map[string]fieldSet

// appliedFields returns the fields that a manager applied and that nobody changed since: the API server revokes our
// ownership of a field when another manager writes a different value.
func appliedFields(o client.Object, manager, subresource string) (fieldSet, error) {
	all := fieldSet{}
	for _, entry := range o.GetManagedFields() {
		if !isAppliedBy(entry, manager) || entry.Subresource != subresource || entry.FieldsV1 == nil {
			continue
		}
		var some fieldSet
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &some); err != nil {
			return nil, fmt.Errorf("parse the managed fields of %s: %w", manager, err)
		}
		all = mergeFieldSets(all, some)
	}
	return all, nil
}

func isAppliedBy(entry metav1.ManagedFieldsEntry, manager string) bool {
	return entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply
}

// mergeFieldSets merges two sets. It is needed when a manager applied two versions of a kind: each version has its own
// set.
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

// extract returns the part of a value that is in the set.
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

// extractList keeps the order of the list. Its cost is linear in a set of plain values, which may have thousands.
func (f fieldSet) extractList(value []any) []any {
	selected := f.readItems()
	out := []any{}
	for _, item := range value {
		if inner, there := selected.find(item); there {
			out = append(out, inner.extract(item))
		}
	}
	return out
}

// itemSet is the path elements of a list, parsed.
type itemSet struct {
	values map[any]fieldSet // items of a set that are plain values
	keyed  []keyedItem      // items of a list that are identified by some of their members
}

type keyedItem struct {
	keys  map[string]any
	inner fieldSet
}

// readItems parses the path elements of a list, and skips those that are not valid.
func (f fieldSet) readItems() itemSet {
	out := itemSet{values: map[any]fieldSet{}}
	for name, inner := range f {
		if text, isValue := strings.CutPrefix(name, "v:"); isValue {
			var value any
			if utiljson.Unmarshal([]byte(text), &value) == nil && isPlain(value) {
				out.values[value] = inner
			}
		}
		if text, isKey := strings.CutPrefix(name, "k:"); isKey {
			keys := map[string]any{}
			if utiljson.Unmarshal([]byte(text), &keys) == nil {
				out.keyed = append(out.keyed, keyedItem{keys, inner})
			}
		}
	}
	return out
}

// find returns the fields of an item of the list.
func (s itemSet) find(item any) (fieldSet, bool) {
	if isPlain(item) {
		inner, there := s.values[item]
		return inner, there
	}
	object, isObject := item.(map[string]any)
	for _, k := range s.keyed {
		if isObject && k.matches(object) {
			return k.inner, true
		}
	}
	return nil, false
}

func (k keyedItem) matches(object map[string]any) bool {
	for name, value := range k.keys {
		if !reflect.DeepEqual(object[name], value) {
			return false
		}
	}
	return true
}

// isPlain reports whether a JSON value is neither an object nor a list. The API server has sets of such values only.
func isPlain(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return false
	default:
		return true
	}
}

func toJSONMap(o client.Object) (map[string]any, error) {
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	return out, utiljson.Unmarshal(raw, &out)
}

// ownerShard returns the shard that owns an object, or an empty string if the object is not ours. A label alone proves
// nothing, because users can label their own objects: we must have applied it. In a namespace, it must also name the
// shard of that namespace: a user with all permissions in a namespace can impersonate our field manager there and would
// influence other shards. Only Inputs know which namespaces are in the management VPC.
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

// hasAppliedLabel reports whether we applied the shard label of an object and nobody changed it since.
func hasAppliedLabel(o client.Object) bool {
	label := []byte(`"f:` + ownership.ShardLabel + `"`)
	return slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return isAppliedBy(e, ownership.FieldManager) && e.Subresource == "" && e.FieldsV1 != nil &&
			bytes.Contains(e.FieldsV1.GetRawBytes(), label)
	})
}

// AdoptByLabels marks an object with our labels as ours if it has no managed fields. Manifests in files have none, and
// their labels are trusted.
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
