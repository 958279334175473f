package kube

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

type objectChange = state.Change[intent.ObjectKey, intent.Object]

// Apply creates and updates objects in the order of their kinds, then deletes objects in reverse order. Objects of one
// kind do not depend on each other and are written in parallel. It returns when the cache shows the writes.
func (t *Objects) Apply(ctx context.Context, changes []objectChange) map[intent.ObjectKey]error {
	results := newWriteResults()
	additions, removals := groupByKind(changes)
	for _, group := range additions {
		forEachParallel(group, func(c objectChange) {
			mark, err := t.ensureObject(ctx, c)
			results.record(c.Key, mark, err)
		})
	}
	for _, group := range slices.Backward(removals) {
		forEachParallel(group, func(c objectChange) {
			mark, err := t.removeObject(ctx, c)
			results.record(c.Key, mark, err)
		})
	}
	t.cluster.waitForCache(ctx, results.marks)
	return results.failed
}

// groupByKind divides changes, which are in order of creation, into additions and removals of one kind each.
func groupByKind(changes []objectChange) (additions, removals [][]objectChange) {
	for _, c := range changes {
		groups := &additions
		if c.IsRemoval() {
			groups = &removals
		}
		last := len(*groups) - 1
		if last < 0 || (*groups)[last][0].Key.Kind != c.Key.Kind {
			*groups = append(*groups, nil)
			last++
		}
		(*groups)[last] = append((*groups)[last], c)
	}
	return additions, removals
}

// ensureObject brings an object to its wanted state. It compares with the current state, not with the state of the
// diff, so it is idempotent.
func (t *Objects) ensureObject(ctx context.Context, c objectChange) (pendingWrite, error) {
	now, err := t.currentObject(ctx, c)
	switch {
	case apierrors.IsNotFound(err):
		return t.applyObject(ctx, c, "")
	case err != nil:
		return pendingWrite{}, err
	case now.GetDeletionTimestamp() != nil:
		return pendingWrite{}, t.remindKubeOVN(ctx, c.Key, now) // created again when the deletion event arrives
	}
	if !t.isOurs(now) {
		return pendingWrite{}, t.notOursError(c.Key, now)
	}
	another, err := needsReplacement(c, now)
	if err != nil {
		return pendingWrite{}, err
	}
	if another && isOfferedTo(now, t.shard) {
		return pendingWrite{}, fmt.Errorf("%s was offered to this project, but its spec is not what the project needs, and "+
			"Kube-OVN reads it only once; remove the label %s, or delete the object", c.Key, ownership.AdoptLabel)
	}
	if another {
		return t.deleteObject(ctx, c.Key, now.GetUID())
	}
	return t.applyObject(ctx, c, now.GetUID())
}

// currentObject returns the object as last observed. If it was not observed, it asks the API server: someone may have
// created it a moment ago, and it must not be overwritten.
func (t *Objects) currentObject(ctx context.Context, c objectChange) (client.Object, error) {
	if c.Before != nil {
		if now, err := t.cluster.readObject(ctx, c.Key); !apierrors.IsNotFound(err) {
			return now, err
		}
	}
	now, err := newObject(c.Key.Kind)
	if err != nil {
		return nil, err
	}
	return now, t.cluster.api.Get(ctx, client.ObjectKey{Namespace: c.Key.Namespace, Name: c.Key.Name}, now)
}

// isOurs reports whether we may write to an object.
func (t *Objects) isOurs(o client.Object) bool { return belongsToShard(o, t.shard) }

func (t *Objects) notOursError(key intent.ObjectKey, o client.Object) error {
	if ownerShard(o) != "" { // tenants must not learn which project it belongs to
		return fmt.Errorf("%s exists and belongs to another project; choose another name", key)
	}
	return fmt.Errorf("%s exists and is not managed by Sallyport (field manager %s has not applied label %s=%s); "+
		"delete it, or choose another name",
		key, ownership.FieldManager, ownership.ShardLabel, t.shard)
}

// applyObject applies an object. With a UID, it fails if the object was replaced since it was read.
func (t *Objects) applyObject(ctx context.Context, c objectChange, uid types.UID) (pendingWrite, error) {
	body := map[string]any{}
	if err := utiljson.Unmarshal([]byte(c.After.Content), &body); err != nil {
		return pendingWrite{}, err
	}
	u := &unstructured.Unstructured{Object: body}
	u.SetGroupVersionKind(gvkByKind[c.Key.Kind])
	u.SetNamespace(c.Key.Namespace)
	u.SetName(c.Key.Name)
	u.SetUID(uid)
	if err := unstructured.SetNestedField(body, formatOrigin(c.Origin), "metadata", "annotations",
		ownership.OriginAnnotation); err != nil {
		return pendingWrite{}, err
	}
	err := t.cluster.api.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.ForceOwnership,
		client.FieldOwner(ownership.FieldManager))
	if err != nil {
		return pendingWrite{}, fmt.Errorf("apply: %w", err)
	}
	return pendingWrite{key: c.Key, version: u.GetResourceVersion()}, nil
}

func (t *Objects) removeObject(ctx context.Context, c objectChange) (pendingWrite, error) {
	now, err := t.cluster.readObject(ctx, c.Key)
	switch {
	case apierrors.IsNotFound(err):
		return pendingWrite{}, nil
	case err != nil:
		return pendingWrite{}, err
	case !t.isOurs(now):
		return pendingWrite{}, nil
	case now.GetDeletionTimestamp() != nil:
		return pendingWrite{}, t.remindKubeOVN(ctx, c.Key, now)
	}
	return t.deleteObject(ctx, c.Key, now.GetUID())
}

// How long Kube-OVN may take to release a deleted object before the first reminder, and between reminders.
const (
	firstReminder = 5 * time.Second
	nextReminder  = 20 * time.Second
)

// remindKubeOVN changes an object whose deletion does not finish. Kube-OVN cleans up on an update event. An object that
// was deleted while Kube-OVN was down is new to it after the restart, so without another update it would never clean
// up.
func (t *Objects) remindKubeOVN(ctx context.Context, key intent.ObjectKey, o client.Object) error {
	if gvkByKind[key.Kind].GroupVersion() != kubeOVNGV || !t.isOurs(o) ||
		time.Since(o.GetDeletionTimestamp().Time) < firstReminder {
		return nil
	}
	last, err := time.Parse(time.RFC3339, o.GetAnnotations()[ownership.ReminderAnnotation])
	if err == nil && time.Since(last) < nextReminder {
		return nil
	}
	now := time.Now().UTC().Format(time.RFC3339)
	body := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, o.GetUID(), ownership.ReminderAnnotation,
		now)
	patch := client.RawPatch(types.MergePatchType, body)
	err = t.cluster.api.Patch(ctx, o.DeepCopyObject().(client.Object), patch, client.FieldOwner(ownership.FieldManager))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("trigger Kube-OVN to finish the deletion: %w", err)
	}
	return nil
}

// deleteObject deletes the object that was read, but not a newer object of the same name.
func (t *Objects) deleteObject(ctx context.Context, key intent.ObjectKey, uid types.UID) (pendingWrite, error) {
	o, err := newObject(key.Kind)
	if err != nil {
		return pendingWrite{}, err
	}
	o.SetNamespace(key.Namespace)
	o.SetName(key.Name)
	err = t.cluster.api.Delete(ctx, o, client.Preconditions{UID: &uid},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil && !apierrors.IsNotFound(err) {
		return pendingWrite{}, fmt.Errorf("delete: %w", err)
	}
	return pendingWrite{key: key, uid: uid}, nil
}

// needsReplacement reports whether an object must be deleted and created again: Kube-OVN reads its spec only once, and
// a field that we applied (or, if we applied none, any field of the spec) has to change.
func needsReplacement(c objectChange, now client.Object) (bool, error) {
	if !immutableKinds[c.Key.Kind] {
		return false, nil
	}
	content, err := appliedContent(now)
	if err != nil {
		return false, err
	}
	after := map[string]any{}
	if err := utiljson.Unmarshal([]byte(c.After.Content), &after); err != nil {
		return false, err
	}
	current, applied := content["spec"].(map[string]any)
	if !applied {
		all, err := toJSONMap(now)
		if err != nil {
			return false, err
		}
		current, _ = all["spec"].(map[string]any)
	}
	wanted, _ := after["spec"].(map[string]any)
	for name, value := range current {
		// Kube-OVN writes fields that nobody set as empty texts.
		if next, there := wanted[name]; there && value != "" && !reflect.DeepEqual(value, next) {
			return true, nil
		}
	}
	return false, nil
}
