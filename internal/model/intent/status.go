package intent

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sallyport/sallyport/internal/model/state"
)

// Statuses is the status of each object of ours.
type Statuses = state.Set[ObjectKey, Status]

// Status is the status of an object as JSON with sorted keys. It is without the times at which conditions changed:
// those follow from what is there already, and only the target knows that.
type Status struct{ Content string }

// Equal compares content.
func (s Status) Equal(o Status) bool { return s.Content == o.Content }

// String is the content.
func (s Status) String() string { return s.Content }

// NewStatus is a status in normal form: conditions are sorted by type and have no time.
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
