package kubelet

import (
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func state(kind string) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: kind}
	over := func(code int32) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{ExitCode: code}
	}
	switch kind {
	case "new":
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	case "runs":
		s.State.Running, s.Ready = &corev1.ContainerStateRunning{}, true
	case "unready":
		s.State.Running = &corev1.ContainerStateRunning{}
	case "ok":
		s.State.Terminated = over(0)
	case "failed":
		s.State.Terminated = over(3)
	case "backoff":
		s.State.Waiting, s.LastTerminationState.Terminated = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"},
			over(3)
	}
	return s
}

func states(kinds ...string) (out []corev1.ContainerStatus) {
	for _, k := range kinds {
		out = append(out, state(k))
	}
	return out
}

func TestPhase(t *testing.T) {
	const always, onFailure, never = corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure,
		corev1.RestartPolicyNever
	for name, c := range map[string]struct {
		policy     corev1.RestartPolicy
		init       []corev1.ContainerStatus
		containers []corev1.ContainerStatus
		want       corev1.PodPhase
	}{
		"not started":                   {always, nil, states("new"), corev1.PodPending},
		"one of two started":            {always, nil, states("runs", "new"), corev1.PodPending},
		"init goes on":                  {always, states("runs"), states("new"), corev1.PodPending},
		"init fails and is repeated":    {always, states("failed"), states("new"), corev1.PodPending},
		"init fails for good":           {never, states("ok", "failed"), states("new"), corev1.PodFailed},
		"init done":                     {always, states("ok"), states("runs"), corev1.PodRunning},
		"ended, to be started again":    {always, nil, states("ok"), corev1.PodRunning},
		"in back-off":                   {onFailure, nil, states("backoff"), corev1.PodRunning},
		"failed, to be started again":   {onFailure, nil, states("ok", "failed"), corev1.PodRunning},
		"all done":                      {onFailure, nil, states("ok", "ok"), corev1.PodSucceeded},
		"one failed for good":           {never, nil, states("ok", "failed"), corev1.PodFailed},
		"one failed, another goes on":   {never, nil, states("failed", "runs"), corev1.PodRunning},
		"not yet connected after a cut": {always, nil, states("backoff"), corev1.PodRunning},
	} {
		if got := phaseOf(c.policy, c.init, c.containers); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func conditionOf(s corev1.PodStatus, kind corev1.PodConditionType) corev1.ConditionStatus {
	if c := conditionNamed(s.Conditions, kind); c != nil {
		return c.Status
	}
	return "absent"
}

func TestConditions(t *testing.T) {
	gated := []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}}
	for name, c := range map[string]struct {
		seen                                observation
		gates                               []corev1.PodReadinessGate
		open                                bool
		network, initialized, allUp, finish corev1.ConditionStatus
	}{
		"no network yet": {
			observation{Problem: "no port", Init: states("new"), Containers: states("new")},
			nil, false,
			"False", "False", "False", "False",
		},
		"running": {
			observation{Connected: true, Containers: states("runs")},
			nil, false, "True", "True", "True",
			"True",
		},
		"probe fails": {
			observation{Connected: true, Containers: states("runs", "unready")},
			nil, false, "True",
			"True", "False", "False",
		},
		"gate closed": {
			observation{Connected: true, Containers: states("runs")},
			gated, false, "True", "True",
			"True", "False",
		},
		"gate open": {
			observation{Connected: true, Containers: states("runs")},
			gated, true, "True", "True",
			"True", "True",
		},
		"in back-off": {
			observation{Connected: true, Containers: states("backoff")},
			nil, false, "True", "True",
			"False", "False",
		},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, ReadinessGates: c.gates}}
		if c.open {
			pod.Status.Conditions = []corev1.PodCondition{{Type: "example.com/gate", Status: corev1.ConditionTrue}}
		}
		s := statusOf(pod, c.seen, noon)
		for kind, want := range map[corev1.PodConditionType]corev1.ConditionStatus{
			corev1.PodReadyToStartContainers: c.network, corev1.PodInitialized: c.initialized,
			corev1.ContainersReady: c.allUp, corev1.PodReady: c.finish,
		} {
			if got := conditionOf(s, kind); got != want {
				t.Errorf("%s: %s is %s, want %s", name, kind, got, want)
			}
		}
	}
}

func TestStatusKeepsWhatOthersWrote(t *testing.T) {
	scheduled := corev1.PodCondition{
		Type:               corev1.PodScheduled,
		Status:             corev1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(noon),
	}
	pod := &corev1.Pod{Status: corev1.PodStatus{
		QOSClass:   corev1.PodQOSBestEffort,
		Conditions: []corev1.PodCondition{scheduled},
	}}
	host := netip.MustParseAddr("172.30.1.1")
	ips := []netip.Addr{netip.MustParseAddr("10.0.0.10"), netip.MustParseAddr("fd00:1::a")}
	seen := observation{Connected: true, Host: host, Containers: states("runs"), IPs: ips}

	first := statusOf(pod, seen, noon)
	if got := conditionNamed(first.Conditions, corev1.PodScheduled); got == nil || *got != scheduled ||
		first.QOSClass != corev1.PodQOSBestEffort {
		t.Errorf("others' fields were changed: %v", first)
	}
	if first.PodIP != "10.0.0.10" || len(first.PodIPs) != 2 || first.HostIP != "172.30.1.1" ||
		!first.StartTime.Time.Equal(noon) {
		t.Errorf("addresses or start time are wrong: %v", first)
	}

	pod.Status = first
	if again := statusOf(pod, seen, noon.Add(time.Hour)); !equality.Semantic.DeepEqual(first, again) {
		t.Errorf("nothing happened for an hour, and the status changed:\n%v\n%v", first, again)
	}
	seen.Containers = states("unready")
	later := statusOf(pod, seen, noon.Add(time.Hour))
	if c := conditionNamed(later.Conditions, corev1.PodReady); c.Status != corev1.ConditionFalse ||
		!c.LastTransitionTime.Time.Equal(noon.Add(time.Hour)) {
		t.Errorf("Ready turned False without a time of transition: %v", c)
	}
}

func TestNodeStatusIsWrittenOnlyWhenItSaysSomething(t *testing.T) {
	n := Node{Node: nodeNamed("node1")}
	first := nodeObject(n, "v1", 0, noon).Status
	if soon := nodeStatus(first, n, "v1", 0, noon.Add(statusPeriod/2)); !equality.Semantic.DeepEqual(first, soon) {
		t.Error("changed although nothing happened")
	}
	if late := nodeStatus(first, n, "v1", 0, noon.Add(2*statusPeriod)); equality.Semantic.DeepEqual(first, late) {
		t.Error("an old status is not refreshed")
	}
	lost := *first.DeepCopy()
	for i := range lost.Conditions {
		lost.Conditions[i].Status = corev1.ConditionUnknown
	}
	for _, c := range nodeStatus(lost, n, "v1", 0, noon.Add(time.Second)).Conditions {
		if c.Status == corev1.ConditionUnknown {
			t.Errorf("%s stays Unknown on a node that is there", c.Type)
		}
	}
}
