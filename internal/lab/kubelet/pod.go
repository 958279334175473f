package kubelet

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const orphanGrace = time.Second // what is left to the processes of a pod that was deleted by force

// syncPod brings one name up to date: sandboxes of pods that are gone end, and the pod that has the name now is carried
// out.
func (k *Kubelet) syncPod(_ context.Context, key types.NamespacedName) error {
	pod, err := k.storedPod(key)
	if err != nil {
		return err
	}
	if !k.endOthers(key, pod) {
		return nil // comes back when they have ended
	}
	if pod == nil {
		return nil
	}
	m := k.member(pod.Spec.NodeName)
	if m == nil {
		return nil
	}
	return m.inContact(func(ctx context.Context) error {
		if m.Switch == nil {
			return k.syncFake(ctx, pod, m)
		}
		return k.syncReal(ctx, pod, m)
	})
}

func (k *Kubelet) storedPod(key types.NamespacedName) (*corev1.Pod, error) {
	object, exists, err := k.pods.GetStore().GetByKey(key.String())
	if err != nil || !exists {
		return nil, err
	}
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("%s is a %T", key, object)
	}
	return pod, nil
}

func (k *Kubelet) syncReal(ctx context.Context, pod *corev1.Pod, m *member) error {
	s := k.sandboxOf(pod)
	if s == nil && pod.DeletionTimestamp != nil {
		return k.remove(ctx, pod)
	}
	if s == nil && completed(pod) {
		return nil
	}
	if s == nil {
		attached, problem := networkOf(pod)
		if problem != "" {
			return k.report(ctx, pod, pendingObservation(pod, m, problem))
		}
		s = k.start(pod, m, attached)
	}
	if pod.DeletionTimestamp != nil {
		s.stop(graceOf(pod))
		if s.ended() {
			return k.remove(ctx, pod)
		}
	}
	return k.report(ctx, pod, s.observe())
}

// networkOf is what a pod is to be plugged into, or why that is not known yet.
func networkOf(pod *corev1.Pod) ([]Attachment, string) {
	switch {
	case pod.Spec.HostNetwork:
		return nil, ""
	case !allocated(pod):
		return nil, "waiting for Kube-OVN to allocate an address"
	case !routed(pod):
		return nil, "waiting for Kube-OVN to route the address"
	}
	attached, err := Attachments(pod)
	if err != nil {
		return nil, err.Error()
	}
	return attached, ""
}

func pendingObservation(pod *corev1.Pod, m *member, problem string) observation {
	o := observation{Problem: problem, Host: m.Management.Addr()}
	o.Init, o.Containers = seed(pod, time.Now())
	return o
}

func graceOf(pod *corev1.Pod) time.Duration {
	if pod.DeletionGracePeriodSeconds == nil {
		return orphanGrace
	}
	return time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
}

// report writes the pod's status when it has changed.
func (k *Kubelet) report(ctx context.Context, pod *corev1.Pod, o observation) error {
	status := statusOf(pod, o, time.Now())
	if equality.Semantic.DeepEqual(pod.Status, status) {
		return nil
	}
	after := &corev1.Pod{Status: status}
	after.UID = pod.UID // the API refuses the patch when the name belongs to another pod by now
	patch, err := statusPatch(&corev1.Pod{Status: pod.Status}, after, corev1.Pod{})
	if err != nil {
		return err
	}
	_, err = k.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("report status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// remove takes a pod that has ended out of the API.
func (k *Kubelet) remove(ctx context.Context, pod *corev1.Pod) error {
	if len(pod.Finalizers) > 0 && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0 {
		return nil // said already; the rest is up to whoever holds the finalizers
	}
	err := k.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64),
		Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("remove pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// endOthers ends the sandboxes of this name that are not pod's, and says whether they have ended. A node that is cut
// off does not know that its pod is gone; its sandbox runs on.
func (k *Kubelet) endOthers(key types.NamespacedName, pod *corev1.Pod) bool {
	allEnded := true
	for _, s := range k.sandboxesNamed(key) {
		if pod != nil && s.pod.UID == pod.UID {
			continue
		}
		_ = s.node.inContact(func(context.Context) error {
			s.stop(orphanGrace)
			if !s.ended() {
				allEnded = false
				return nil
			}
			k.drop(s)
			s.forget()
			return nil
		})
	}
	return allEnded
}

func (k *Kubelet) sandboxesNamed(key types.NamespacedName) []*sandbox {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.sandboxes[key])
}

func (k *Kubelet) sandboxOf(pod *corev1.Pod) *sandbox {
	for _, s := range k.sandboxesNamed(nameOf(pod)) {
		if s.pod.UID == pod.UID {
			return s
		}
	}
	return nil
}

func (k *Kubelet) sandboxesOn(m *member) []*sandbox {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []*sandbox
	for _, list := range k.sandboxes {
		for _, s := range list {
			if s.node == m {
				out = append(out, s)
			}
		}
	}
	return out
}

// drop takes a sandbox that has ended off the list.
func (k *Kubelet) drop(s *sandbox) {
	key := nameOf(s.pod)
	k.mu.Lock()
	defer k.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(k.sandboxes[key]), func(o *sandbox) bool { return o == s })
	if len(left) == 0 {
		delete(k.sandboxes, key)
		return
	}
	k.sandboxes[key] = left
}
