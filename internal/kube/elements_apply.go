package kube

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/state"
)

// attempts is how often a write is tried when somebody else writes to the same object in between.
const attempts = 5

type elementChange = state.Change[intent.ElementKey, intent.Element]

// Apply carries all changes out in one write, so they fail together.
func (t *Elements) Apply(ctx context.Context, changes []elementChange) map[intent.ElementKey]error {
	failed := map[intent.ElementKey]error{}
	m, err := t.rewrite(ctx, changes)
	if err == nil {
		t.cluster.settle(ctx, []mark{m})
		return failed
	}
	for _, c := range changes {
		if apierrors.IsNotFound(err) && c.Removes() {
			continue // it went with the Vpc
		}
		failed[c.Key] = err
	}
	return failed
}

// rewrite reads the lists, changes them and writes them back on condition that nobody wrote to the Vpc in between.
func (t *Elements) rewrite(ctx context.Context, changes []elementChange) (m mark, err error) {
	for range attempts {
		vpc := &unstructured.Unstructured{}
		vpc.SetGroupVersionKind(kinds[intent.Vpc])
		if err := t.cluster.api.Get(ctx, client.ObjectKey{Name: t.vpc}, vpc); err != nil {
			return mark{}, fmt.Errorf("read Vpc %s: %w", t.vpc, err)
		}
		patch, err := t.patch(vpc, changes)
		if err != nil {
			return mark{}, err
		}
		if patch != nil {
			err = t.cluster.api.Patch(ctx, vpc, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(ownership.FieldManager))
		}
		if err == nil {
			return mark{key: intent.ObjectKey{Kind: intent.Vpc, Name: t.vpc}, version: vpc.GetResourceVersion()}, nil
		}
		if !apierrors.IsConflict(err) {
			return mark{}, fmt.Errorf("write Vpc %s: %w", t.vpc, err)
		}
	}
	return mark{}, fmt.Errorf("write Vpc %s: others wrote to it %d times in between", t.vpc, attempts)
}

// patch is the lists that change, as a whole: nil if none does.
func (t *Elements) patch(vpc *unstructured.Unstructured, changes []elementChange) ([]byte, error) {
	spec := map[string]any{}
	for _, list := range lists {
		items, _, err := unstructured.NestedSlice(vpc.Object, "spec", string(list))
		if err != nil {
			return nil, err
		}
		next, changed, err := edited(list, items, changes)
		if err != nil {
			return nil, err
		}
		if !changed {
			continue
		}
		spec[string(list)] = nil // an empty list is as good as none
		if len(next) > 0 {
			spec[string(list)] = next
		}
	}
	for _, c := range changes {
		if c.Key.List == intent.External {
			spec[string(intent.External)] = !c.Removes()
		}
	}
	if len(spec) == 0 {
		return nil, nil
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": vpc.GetResourceVersion()}, "spec": spec})
}

// edited is a list after the changes to it. What they do not name keeps its place and is passed on as it was read.
func edited(list intent.List, items []any, changes []elementChange) (next []any, changed bool, err error) {
	wanted := map[string]elementChange{}
	for _, c := range changes {
		if c.Key.List == list {
			wanted[c.Key.ID] = c
		}
	}
	placed := map[string]bool{}
	for _, item := range items {
		e, err := elementOf(list, item)
		if err != nil {
			return nil, false, fmt.Errorf("read %s: %w", list, err)
		}
		c, named := wanted[e.id]
		if named && (c.Removes() || placed[e.id]) {
			changed = true
			continue
		}
		if named {
			placed[e.id] = true
		}
		if named && e.content != c.After.Content {
			changed = true
			item = value(*c.After)
		}
		next = append(next, item)
	}
	for _, c := range changes {
		if c.Key.List == list && !c.Removes() && !placed[c.Key.ID] {
			changed = true
			next = append(next, value(*c.After))
		}
	}
	return next, changed, nil
}

// value is an element as it is written: its content is JSON already.
func value(e intent.Element) any { return json.RawMessage(e.Content) }
