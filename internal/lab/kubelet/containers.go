package kubelet

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	firstBackoff = time.Second
	maxBackoff   = 30 * time.Second
	lostCode     = 255 // the exit code of a container whose end nobody saw
)

// restarts says whether a container that has ended with this code is started again.
func restarts(policy corev1.RestartPolicy, code int32) bool {
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return code != 0
	}
	return true
}

// initPolicy is the restart policy of init containers: they run until they have succeeded once.
func initPolicy(policy corev1.RestartPolicy) corev1.RestartPolicy {
	if policy == corev1.RestartPolicyAlways {
		return corev1.RestartPolicyOnFailure
	}
	return policy
}

// nextBackoff is how long a container waits before its next start. One that ran well for a while starts afresh.
func nextBackoff(last, ran time.Duration) time.Duration {
	if last == 0 || ran > 2*maxBackoff {
		return firstBackoff
	}
	return min(2*last, maxBackoff)
}

// seed is the first status of each container in a new sandbox. A pod that ran before had a sandbox that is lost: its
// containers ended with it, and are started again if the pod's policy says so.
func seed(pod *corev1.Pod, now time.Time) (init, containers []corev1.ContainerStatus) {
	waiting := "ContainerCreating"
	if len(pod.Spec.InitContainers) > 0 {
		waiting = "PodInitializing"
	}
	for _, c := range pod.Spec.InitContainers {
		// Under Always, init containers prepare the new namespace again; under the others the API refuses to un-finish
		// them.
		init = append(init, seedOne(pod, c, "PodInitializing", now))
	}
	for _, c := range pod.Spec.Containers {
		containers = append(containers, seedOne(pod, c, waiting, now))
	}
	return init, containers
}

func seedOne(pod *corev1.Pod, c corev1.Container, reason string, now time.Time) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: "lab://" + c.Image, Started: new(bool)}
	s.State.Waiting = &corev1.ContainerStateWaiting{Reason: reason}
	old := containerNamed(pod, c.Name)
	if old == nil || old.ContainerID == "" {
		return s // has never run
	}
	s.RestartCount, s.LastTerminationState, s.ContainerID = old.RestartCount, old.LastTerminationState, old.ContainerID
	ended := old.State.Terminated
	if ended == nil && old.State.Running != nil {
		ended = &corev1.ContainerStateTerminated{
			ExitCode: lostCode, Reason: "Unknown", Message: "the node went down", ContainerID: old.ContainerID,
			StartedAt: old.State.Running.StartedAt, FinishedAt: *stamp(now),
		}
	}
	if ended != nil && !restarts(pod.Spec.RestartPolicy, ended.ExitCode) {
		s.State = corev1.ContainerState{Terminated: ended}
		return s
	}
	if ended != nil {
		s.LastTerminationState.Terminated = ended
	}
	s.RestartCount++
	return s
}

func containerNamed(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// started is the status of a container that runs from now on.
func started(s corev1.ContainerStatus, pod *corev1.Pod, ready bool, now time.Time) corev1.ContainerStatus {
	running := true
	s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: *stamp(now)}}
	s.ContainerID = fmt.Sprintf("lab://%s/%s/%d", pod.UID, s.Name, s.RestartCount)
	s.Started, s.Ready = &running, ready
	return s
}

// ended is the status of a container that has ended so.
func ended(s corev1.ContainerStatus, e exit, now time.Time) corev1.ContainerStatus {
	t := &corev1.ContainerStateTerminated{
		ExitCode: e.code, Reason: e.reason, Message: e.message, ContainerID: s.ContainerID, FinishedAt: *stamp(now),
	}
	if s.State.Running != nil {
		t.StartedAt = s.State.Running.StartedAt
	}
	s.State, s.Started, s.Ready = corev1.ContainerState{Terminated: t}, new(bool), false
	return s
}

// waiting is the status of a container that is not started yet, or not again.
func waiting(s corev1.ContainerStatus, reason, message string) corev1.ContainerStatus {
	if s.State.Terminated != nil {
		s.LastTerminationState.Terminated = s.State.Terminated
	}
	s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	s.Started, s.Ready = new(bool), false
	return s
}
