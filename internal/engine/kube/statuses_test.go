package kube

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTimeOfAConditionIsWhenItsStatusChanged(t *testing.T) {
	then := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	now := metav1.NewTime(then.Add(time.Hour))
	before := map[string]metav1.Condition{
		"Accepted":     {Type: "Accepted", Status: "True", Reason: "Accepted", LastTransitionTime: then},
		"ResolvedRefs": {Type: "ResolvedRefs", Status: "False", Reason: "NoSuchPod", LastTransitionTime: then},
		"Programmed":   {Type: "Programmed", Status: "False", Reason: "Waiting", LastTransitionTime: then},
	}
	status := map[string]any{"conditions": []any{
		map[string]any{"type": "Accepted", "status": "True", "reason": "Accepted", "message": "other words"},
		map[string]any{"type": "ResolvedRefs", "status": "False", "reason": "NoSuchEIp", "message": "no EIp"},
		map[string]any{"type": "Programmed", "status": "True", "reason": "Programmed", "message": "in OVN"},
	}}
	news := setTransitionTimes(status, before, now)
	for i, want := range []metav1.Time{then, then, now} {
		item := status["conditions"].([]any)[i].(map[string]any)
		if item["lastTransitionTime"] != want.Format(time.RFC3339) {
			t.Errorf("%s since %s, want %s", item["type"], item["lastTransitionTime"], want)
		}
	}
	if len(news) != 2 || news[0].Reason != "NoSuchEIp" || news[1].Reason != "Programmed" {
		t.Errorf("got %v; want news of another reason and of another status, none of other words", news)
	}
}
