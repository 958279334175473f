package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// RecordFunc records what happened to an object for users who look at it: an Event, as a warning if something is wrong.
type RecordFunc func(about client.Object, warning bool, reason, message string)

// Statuses is the target for the status of the given objects.
type Statuses struct {
	cluster *Cluster
	objects map[intent.ObjectKey]client.Object
	clock   func() time.Time
	record  RecordFunc
}

// NewStatuses returns the target for the status of objects as they were read.
func NewStatuses(c *Cluster, objects []client.Object, clock func() time.Time, record RecordFunc) (*Statuses, error) {
	keyed, err := indexByKey(objects)
	return &Statuses{cluster: c, objects: keyed, clock: clock, record: record}, err
}

// Scope names the field manager.
func (t *Statuses) Scope() string { return "status that " + ownership.StatusManager + " applied" }

// Observe returns every status, reduced to the fields that we applied.
func (t *Statuses) Observe(context.Context) (intent.Statuses, error) {
	set := intent.Statuses{}
	for key, o := range t.objects {
		status, err := t.cluster.statusCache.getOrRead(key, o, func() (intent.Status, error) {
			return appliedStatus(o)
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if status != (intent.Status{}) {
			set[key] = state.Entry[intent.Status]{Value: status, Origin: key.Ref()}
		}
	}
	return set, nil
}

// appliedStatus returns the status that we applied to an object, or zero.
func appliedStatus(o client.Object) (intent.Status, error) {
	owned, err := appliedFields(o, ownership.StatusManager, "status")
	if err != nil || len(owned) == 0 {
		return intent.Status{}, err
	}
	body, err := toJSONMap(o)
	if err != nil {
		return intent.Status{}, err
	}
	status, _ := owned.extractMap(map[string]any{"status": body["status"]})["status"].(map[string]any)
	return intent.NewStatus(status), nil
}

// Apply writes statuses in parallel. A deleted object is not a failure: nothing depends on its status.
func (t *Statuses) Apply(ctx context.Context,
	changes []state.Change[intent.ObjectKey, intent.Status],
) map[intent.ObjectKey]error {
	results := newWriteResults()
	forEachParallel(changes, func(c state.Change[intent.ObjectKey, intent.Status]) {
		o, there := t.objects[c.Key]
		if !there {
			results.record(c.Key, pendingWrite{}, fmt.Errorf("%s was not read", c.Key))
			return
		}
		version, err := t.applyStatus(ctx, c, o)
		switch {
		case apierrors.IsNotFound(err) || apierrors.IsConflict(err): // deleted, or replaced by another object
		case err != nil:
			results.record(c.Key, pendingWrite{}, err)
		default:
			results.record(c.Key, pendingWrite{key: c.Key, version: version}, nil)
		}
	})
	t.cluster.waitForCache(ctx, results.marks)
	return results.failed
}

func (t *Statuses) applyStatus(ctx context.Context, c state.Change[intent.ObjectKey, intent.Status],
	o client.Object,
) (string, error) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(gvkByKind[c.Key.Kind])
	u.SetNamespace(c.Key.Namespace)
	u.SetName(c.Key.Name)
	u.SetUID(o.GetUID())
	before, err := readConditions(o)
	if err != nil {
		return "", err
	}
	var news []metav1.Condition
	var moves []string
	if c.After != nil {
		status := map[string]any{}
		if err := utiljson.Unmarshal([]byte(c.After.Content), &status); err != nil {
			return "", err
		}
		news = setTransitionTimes(status, before, metav1.NewTime(t.clock()))
		u.Object["status"] = status
		moves = describeMoves(o, status)
	}
	err = t.cluster.api.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.ForceOwnership,
		client.FieldOwner(ownership.StatusManager))
	if err != nil {
		return "", fmt.Errorf("apply: %w", err)
	}
	t.recordEvents(ctx, o, news)
	for _, move := range moves {
		if t.record != nil {
			t.record(o, false, intent.Moved, move)
		}
	}
	return u.GetResourceVersion(), nil
}

// recordEvents records the changed conditions that are worth an Event: not the stages that every object passes, and
// nothing in a terminating namespace, where Kubernetes forbids new objects.
func (t *Statuses) recordEvents(ctx context.Context, o client.Object, news []metav1.Condition) {
	for _, n := range news {
		if t.record == nil || intent.IsTransientReason(n.Reason) || t.isTerminating(ctx, o.GetNamespace()) {
			continue
		}
		t.record(o, n.Status == metav1.ConditionFalse, n.Reason, cmp.Or(n.Message, intent.ReasonMeaning(n.Reason)))
	}
}

func (t *Statuses) isTerminating(ctx context.Context, namespace string) bool {
	ns, err := t.cluster.readObject(ctx, intent.ObjectKey{Kind: intent.Namespace, Name: namespace})
	return err == nil && ns.GetDeletionTimestamp() != nil
}

func readConditions(o client.Object) (map[string]metav1.Condition, error) {
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var body struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(raw, &body); err != nil {
		return nil, err
	}
	out := map[string]metav1.Condition{}
	for _, c := range body.Status.Conditions {
		out[c.Type] = c
	}
	return out, nil
}

// setTransitionTimes sets lastTransitionTime in every condition of a status, and returns the conditions whose status or
// reason changed.
func setTransitionTimes(status map[string]any, before map[string]metav1.Condition,
	now metav1.Time,
) (news []metav1.Condition) {
	list, _ := status["conditions"].([]any)
	for _, item := range list {
		body, isObject := item.(map[string]any)
		if !isObject {
			continue
		}
		var c metav1.Condition
		c.Type, _ = body["type"].(string)
		text, _ := body["status"].(string)
		c.Status = metav1.ConditionStatus(text)
		c.Reason, _ = body["reason"].(string)
		c.Message, _ = body["message"].(string)
		old := before[c.Type]
		since := now
		if old.Status == c.Status {
			since = old.LastTransitionTime
		}
		body["lastTransitionTime"] = since.UTC().Format(time.RFC3339)
		if old.Status != c.Status || old.Reason != c.Reason {
			news = append(news, c)
		}
	}
	return news
}
