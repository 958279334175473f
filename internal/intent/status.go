package intent

import (
	"cmp"
	"slices"

	"github.com/sallyport/sallyport/internal/state"
)

// Statuses is the status of each object of ours.
type Statuses = state.Set[ObjectKey, Status]

// Status is the status of an object as JSON with sorted keys. It is without the times at which conditions changed: those
// follow from what is there already, and only the target knows that.
type Status struct{ Content string }

// Equal compares content.
func (s Status) Equal(o Status) bool { return s.Content == o.Content }

// String is the content.
func (s Status) String() string { return s.Content }

// NewStatus is a status in normal form: conditions are sorted by type and have no time.
func NewStatus(status any) Status {
	body, isObject := normal(status).(map[string]any)
	if !isObject {
		body = map[string]any{} // not a status
	}
	if conditions, isList := body["conditions"].([]any); isList {
		body["conditions"] = timeless(conditions)
	}
	return Status{Content: text(body)}
}

func timeless(conditions []any) []any {
	for _, c := range conditions {
		if c, isObject := c.(map[string]any); isObject {
			delete(c, "lastTransitionTime")
		}
	}
	slices.SortFunc(conditions, func(a, b any) int { return cmp.Compare(conditionType(a), conditionType(b)) })
	return conditions
}

func conditionType(condition any) string {
	c, _ := condition.(map[string]any)
	name, _ := c["type"].(string)
	return name
}
