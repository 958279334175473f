package intent

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sallyport/sallyport/internal/model/state"
)

// Statuses are the statuses of our objects.
type Statuses = state.Set[ObjectKey, Status]

// Status is the status of an object as JSON with sorted keys. It has no transition times: those depend on the existing
// status, which only the target knows.
type Status struct{ Content string }

// Equal compares the content.
func (s Status) Equal(o Status) bool { return s.Content == o.Content }

// String returns the content.
func (s Status) String() string { return s.Content }

// NewStatus returns a status in normal form: conditions are sorted by type and have no times.
func NewStatus(status map[string]any) Status {
	conditions, plain := status["conditions"].([]any)
	if !plain {
		conditions, _ = roundTripJSON(status["conditions"]).([]any)
	}
	if len(conditions) > 0 {
		status = maps.Clone(status)
		status["conditions"] = normalizeConditions(conditions)
	}
	return Status{Content: CanonicalJSON(status)}
}

func normalizeConditions(conditions []any) []any {
	out := slices.Clone(conditions)
	for i, c := range out {
		if c, isObject := c.(map[string]any); isObject && c["lastTransitionTime"] != nil {
			c = maps.Clone(c)
			delete(c, "lastTransitionTime")
			out[i] = c
		}
	}
	slices.SortFunc(out, func(a, b any) int { return cmp.Compare(conditionType(a), conditionType(b)) })
	return out
}

func conditionType(condition any) string {
	c, _ := condition.(map[string]any)
	name, _ := c["type"].(string)
	return name
}
