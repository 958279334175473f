package kube

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// maxAttempts is how often a write is tried when it conflicts with writes by others.
const maxAttempts = 5

type entryChange = state.Change[intent.VpcEntryKey, intent.VpcEntry]

// Apply makes all changes in one write, so they fail together.
func (t *VpcEntries) Apply(ctx context.Context, changes []entryChange) map[intent.VpcEntryKey]error {
	failed := map[intent.VpcEntryKey]error{}
	m, err := t.rewriteLists(ctx, changes)
	if err == nil {
		t.cluster.waitForCache(ctx, []pendingWrite{m})
		return failed
	}
	for _, c := range changes {
		if apierrors.IsNotFound(err) && c.IsRemoval() {
			continue // deleted with the Vpc
		}
		failed[c.Key] = err
	}
	return failed
}

// rewriteLists reads the lists, changes them and writes them back if nobody wrote to the Vpc in between.
func (t *VpcEntries) rewriteLists(ctx context.Context, changes []entryChange) (m pendingWrite, err error) {
	for range maxAttempts {
		vpc := &unstructured.Unstructured{}
		vpc.SetGroupVersionKind(gvkByKind[intent.Vpc])
		if err := t.cluster.api.Get(ctx, client.ObjectKey{Name: t.vpc}, vpc); err != nil {
			return pendingWrite{}, fmt.Errorf("read Vpc %s: %w", t.vpc, err)
		}
		patch, err := t.buildPatch(vpc, changes)
		if err != nil {
			return pendingWrite{}, err
		}
		if patch != nil {
			err = t.cluster.api.Patch(ctx, vpc, client.RawPatch(types.MergePatchType, patch),
				client.FieldOwner(ownership.FieldManager))
		}
		if err == nil {
			return pendingWrite{
				key:     intent.ObjectKey{Kind: intent.Vpc, Name: t.vpc},
				version: vpc.GetResourceVersion(),
			}, nil
		}
		if !apierrors.IsConflict(err) {
			return pendingWrite{}, fmt.Errorf("update Vpc %s: %w", t.vpc, err)
		}
	}
	return pendingWrite{}, fmt.Errorf("update Vpc %s: giving up after %d write conflicts", t.vpc, maxAttempts)
}

// buildPatch returns a patch with every list that changes, in full, or nil if none changes.
func (t *VpcEntries) buildPatch(vpc *unstructured.Unstructured, changes []entryChange) ([]byte, error) {
	spec := map[string]any{}
	for _, list := range sharedLists {
		items, _, err := unstructured.NestedSlice(vpc.Object, "spec", string(list))
		if err != nil {
			return nil, err
		}
		next, changed, err := editList(list, items, changes)
		if err != nil {
			return nil, err
		}
		if !changed {
			continue
		}
		spec[string(list)] = nil // an empty list is removed
		if len(next) > 0 {
			spec[string(list)] = next
		}
	}
	for _, c := range changes {
		if c.Key.List == intent.EnableExternal {
			spec[string(intent.EnableExternal)] = !c.IsRemoval()
		}
	}
	if len(spec) == 0 {
		return nil, nil
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": vpc.GetResourceVersion()},
		"spec":     spec,
	})
}

// editList applies the changes to a list. Other entries keep their position and content.
func editList(list intent.VpcList, items []any, changes []entryChange) (next []any, changed bool, err error) {
	wanted := map[string]entryChange{}
	for _, c := range changes {
		if c.Key.List == list {
			wanted[c.Key.ID] = c
		}
	}
	placed := map[string]bool{}
	for _, item := range items {
		e, err := parseEntry(list, item)
		if err != nil {
			return nil, false, fmt.Errorf("read %s: %w", list, err)
		}
		c, named := wanted[e.id]
		if named && (c.IsRemoval() || placed[e.id]) {
			changed = true
			continue
		}
		if named {
			placed[e.id] = true
		}
		if named && e.content != c.After.Content {
			changed = true
			item = entryValue(*c.After)
		}
		next = append(next, item)
	}
	for _, c := range changes {
		if c.Key.List == list && !c.IsRemoval() && !placed[c.Key.ID] {
			changed = true
			next = append(next, entryValue(*c.After))
		}
	}
	return next, changed, nil
}

// entryValue returns an entry as it is written: its content is already JSON.
func entryValue(e intent.VpcEntry) any { return json.RawMessage(e.Content) }
