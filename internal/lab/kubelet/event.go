package kubelet

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// event tells who watches the pod what went wrong. Callers back off, so there are few; one that can't be written is
// logged.
func (s *sandbox) event(reason, message string) {
	now := time.Now()
	err := s.node.inContact(func(ctx context.Context) error {
		_, err := s.k.Client.CoreV1().Events(s.pod.Namespace).Create(ctx, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{
				Name:      fmt.Sprintf("%s.%x", s.pod.Name, now.UnixNano()),
				Namespace: s.pod.Namespace,
			},
			InvolvedObject: corev1.ObjectReference{
				APIVersion: "v1", Kind: "Pod", Namespace: s.pod.Namespace, Name: s.pod.Name, UID: s.pod.UID,
			},
			Reason:         reason,
			Message:        brief(message),
			Type:           corev1.EventTypeWarning,
			Source:         corev1.EventSource{Component: "kubelet", Host: s.node.Name},
			FirstTimestamp: *stamp(now),
			LastTimestamp:  *stamp(now),
			Count:          1,
		}, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		s.k.Log.Warn("event not written", "pod", s.name, "reason", reason, "message", message, "error", err)
	}
}

// brief is a message as long as the API takes it in an Event.
func brief(message string) string {
	const longest = 1000
	if len(message) <= longest {
		return message
	}
	return strings.ToValidUTF8(message[:longest], "") + "…"
}
