package intent

import "testing"

func TestStatusHasNoTimesAndAnOrder(t *testing.T) {
	condition := func(kind, at string) map[string]any {
		return map[string]any{"type": kind, "status": "True", "lastTransitionTime": at}
	}
	a := NewStatus(map[string]any{
		"ready":      true,
		"owners":     []any{},
		"conditions": []any{condition("B", "yesterday"), condition("A", "now")},
	})
	b := NewStatus(map[string]any{"ready": true, "conditions": []any{condition("A", "never"), condition("B", "now")}})
	want := `{"conditions":[{"status":"True","type":"A"},{"status":"True","type":"B"}],"ready":true}`
	if !a.Equal(b) || a.String() != want {
		t.Errorf("got %s and %s, want %s", a, b, want)
	}
	type typed struct {
		Kind   string `json:"type"`
		Status string `json:"status"`
	}
	if c := NewStatus(map[string]any{"ready": true, "conditions": []typed{{"B", "True"}, {"A", "True"}}}); !a.Equal(c) {
		t.Errorf("with conditions of another type it is %s", c)
	}
	if c := NewStatus(map[string]any{"ready": false}); a.Equal(c) {
		t.Errorf("%s and %s are taken for equal", a, c)
	}
}
