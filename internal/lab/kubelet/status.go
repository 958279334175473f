package kubelet

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// observation is what a node knows about one of its pods.
type observation struct {
	Connected  bool         // the namespace is there and every interface is plugged
	Problem    string       // why it is not connected
	IPs        []netip.Addr // empty until connected
	Host       netip.Addr
	Init       []corev1.ContainerStatus // in the order of the spec
	Containers []corev1.ContainerStatus
}

// statusOf is the status that a pod should show. What other writers own (PodScheduled, the QoS class, foreign
// conditions) stays.
func statusOf(pod *corev1.Pod, o observation, now time.Time) corev1.PodStatus {
	s := *pod.Status.DeepCopy()
	s.Phase = phaseOf(pod.Spec.RestartPolicy, o.Init, o.Containers)
	s.InitContainerStatuses, s.ContainerStatuses = o.Init, o.Containers
	if s.StartTime == nil {
		s.StartTime = stamp(now)
	}
	s.HostIP, s.HostIPs = o.Host.String(), []corev1.HostIP{{IP: o.Host.String()}}
	s.PodIP, s.PodIPs = "", nil
	for i, ip := range o.IPs {
		if i == 0 {
			s.PodIP = ip.String()
		}
		s.PodIPs = append(s.PodIPs, corev1.PodIP{IP: ip.String()})
	}
	for _, c := range conditionsOf(pod, o, s.Phase) {
		s.Conditions = withCondition(s.Conditions, c, now)
	}
	return s
}

// phaseOf is the phase of a pod whose containers are in these states.
func phaseOf(policy corev1.RestartPolicy, init, containers []corev1.ContainerStatus) corev1.PodPhase {
	for _, c := range init {
		ended := c.State.Terminated
		if ended != nil && ended.ExitCode == 0 {
			continue
		}
		if ended != nil && policy == corev1.RestartPolicyNever {
			return corev1.PodFailed
		}
		return corev1.PodPending
	}
	alive, failed := 0, 0
	for _, c := range containers {
		switch ended := c.State.Terminated; {
		case ended != nil && restarts(policy, ended.ExitCode), c.State.Running != nil:
			alive++
		case ended != nil && ended.ExitCode != 0:
			failed++
		case ended != nil:
		case c.LastTerminationState.Terminated != nil:
			alive++ // waits to be started again
		default:
			return corev1.PodPending // has never run
		}
	}
	switch {
	case alive > 0 || len(containers) == 0:
		return corev1.PodRunning
	case failed > 0:
		return corev1.PodFailed
	}
	return corev1.PodSucceeded
}

func conditionsOf(pod *corev1.Pod, o observation, phase corev1.PodPhase) []corev1.PodCondition {
	network := corev1.PodCondition{
		Type:    corev1.PodReadyToStartContainers,
		Status:  truth(o.Connected),
		Message: o.Problem,
	}
	if o.Problem != "" {
		network.Reason = "NetworkNotReady"
	}
	completed := phase == corev1.PodSucceeded || phase == corev1.PodFailed
	initialized := unmet(corev1.PodInitialized, "ContainersNotInitialized", "containers with incomplete status",
		incomplete(o.Init))
	containers := unmet(corev1.ContainersReady, "ContainersNotReady", "containers with unready status",
		unready(o.Containers))
	if completed {
		containers = corev1.PodCondition{
			Type:   corev1.ContainersReady,
			Status: corev1.ConditionFalse,
			Reason: "PodCompleted",
		}
	}
	ready := containers
	ready.Type = corev1.PodReady
	if gates := closedGates(pod); ready.Status == corev1.ConditionTrue && len(gates) > 0 {
		ready = unmet(corev1.PodReady, "ReadinessGatesNotReady", "readiness gates that are not True", gates)
	}
	return []corev1.PodCondition{network, initialized, containers, ready}
}

// unmet is a condition that is true when names is empty.
func unmet(kind corev1.PodConditionType, reason, message string, names []string) corev1.PodCondition {
	if len(names) == 0 {
		return corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue}
	}
	return corev1.PodCondition{
		Type:    kind,
		Status:  corev1.ConditionFalse,
		Reason:  reason,
		Message: fmt.Sprintf("%s: [%s]", message, strings.Join(names, " ")),
	}
}

func incomplete(init []corev1.ContainerStatus) (names []string) {
	for _, c := range init {
		if c.State.Terminated == nil || c.State.Terminated.ExitCode != 0 {
			names = append(names, c.Name)
		}
	}
	return names
}

func unready(containers []corev1.ContainerStatus) (names []string) {
	for _, c := range containers {
		if !c.Ready {
			names = append(names, c.Name)
		}
	}
	return names
}

func closedGates(pod *corev1.Pod) (names []string) {
	for _, gate := range pod.Spec.ReadinessGates {
		if c := conditionNamed(pod.Status.Conditions, gate.ConditionType); c == nil ||
			c.Status != corev1.ConditionTrue {
			names = append(names, string(gate.ConditionType))
		}
	}
	return names
}

func conditionNamed(conditions []corev1.PodCondition, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

// withCondition sets a condition; the time of transition moves only when the status does.
func withCondition(conditions []corev1.PodCondition, c corev1.PodCondition, now time.Time) []corev1.PodCondition {
	c.LastTransitionTime = *stamp(now)
	old := conditionNamed(conditions, c.Type)
	if old == nil {
		return append(conditions, c)
	}
	if old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	c.LastProbeTime, c.ObservedGeneration = old.LastProbeTime, old.ObservedGeneration
	*old = c
	return conditions
}

func truth(b bool) corev1.ConditionStatus {
	if b {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}

// stamp is a time as the API keeps it: whole seconds. A finer one would never compare equal to what is read back.
func stamp(t time.Time) *metav1.Time {
	s := metav1.NewTime(t.Truncate(time.Second))
	return &s
}
