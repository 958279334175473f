package kubelet

import (
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRestartPolicy(t *testing.T) {
	for _, c := range []struct {
		policy corev1.RestartPolicy
		code   int32
		want   bool
	}{
		{corev1.RestartPolicyAlways, 0, true},
		{corev1.RestartPolicyAlways, 1, true},
		{corev1.RestartPolicyOnFailure, 0, false},
		{corev1.RestartPolicyOnFailure, 1, true},
		{corev1.RestartPolicyNever, 0, false},
		{corev1.RestartPolicyNever, 1, false},
	} {
		if got := restarts(c.policy, c.code); got != c.want {
			t.Errorf("%s, exit %d: restarted %v, want %v", c.policy, c.code, got, c.want)
		}
	}
}

func TestBackoffDoublesToALimit(t *testing.T) {
	var got []time.Duration
	for d := time.Duration(0); len(got) < 7; got = append(got, d) {
		d = nextBackoff(d, time.Second)
	}
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		if got[i] != want*time.Second {
			t.Errorf("wait %d is %s, want %d s", i+1, got[i], want)
		}
	}
	if d := nextBackoff(maxBackoff, time.Hour); d != firstBackoff {
		t.Errorf("after an hour of work the wait is %s", d)
	}
}

func TestContainersOfALostSandbox(t *testing.T) {
	ran := func(st corev1.ContainerState) *corev1.ContainerStatus {
		return &corev1.ContainerStatus{Name: "c", ContainerID: "lab://x", RestartCount: 4, State: st}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon)}}
	completed := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 0}}
	for name, c := range map[string]struct {
		policy   corev1.RestartPolicy
		old      *corev1.ContainerStatus
		again    bool
		restarts int32
	}{
		"never ran":                    {corev1.RestartPolicyAlways, nil, true, 0},
		"ran, policy Always":           {corev1.RestartPolicyAlways, ran(running), true, 5},
		"ran, policy OnFailure":        {corev1.RestartPolicyOnFailure, ran(running), true, 5},
		"ran, policy Never":            {corev1.RestartPolicyNever, ran(running), false, 4},
		"had completed, policy Always": {corev1.RestartPolicyAlways, ran(completed), true, 5},
		"had completed, OnFailure":     {corev1.RestartPolicyOnFailure, ran(completed), false, 4},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: c.policy, Containers: []corev1.Container{{Name: "c"}}}}
		if c.old != nil {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{*c.old}
		}
		_, got := seed(pod, noon)
		if again := got[0].State.Waiting != nil; again != c.again || got[0].RestartCount != c.restarts {
			t.Errorf("%s: started again %v with %d restarts, want %v with %d", name, again, got[0].RestartCount,
				c.again, c.restarts)
		}
	}
}

func TestReadinessNeedsResultsInARow(t *testing.T) {
	verdict := tally{successes: 2, failures: 3}
	const results, want = "1011010010001", "0001111111100"
	got := ""
	for _, r := range results {
		if verdict.observe(r == '1') {
			got += "1"
		} else {
			got += "0"
		}
	}
	if got != want {
		t.Errorf("results %s give %s, want %s", results, got, want)
	}
}

func TestEnvironment(t *testing.T) {
	from := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	pod := annotatedPod(nil)
	pod.Spec.NodeName = "node1"
	seen := observation{IPs: []netip.Addr{netip.MustParseAddr("10.0.0.10"), netip.MustParseAddr("fd00:1::a")}}
	env, err := environment([]corev1.EnvVar{
		{Name: "NAME", ValueFrom: from("metadata.name")},
		{Name: "NS", ValueFrom: from("metadata.namespace")},
		{Name: "IP", ValueFrom: from("status.podIP")},
		{Name: "NODE", ValueFrom: from("spec.nodeName")},
		{Name: "WHERE", Value: "$(IP):80 of $(NAME), $$(IP), $(UNKNOWN)"},
	}, pod, seen)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"NAME": "web", "NS": "shop", "IP": "10.0.0.10", "NODE": "node1",
		"WHERE": "10.0.0.10:80 of web, $(IP), $(UNKNOWN)",
	} {
		if env.values[name] != want {
			t.Errorf("%s is %q, want %q", name, env.values[name], want)
		}
	}
	secret := corev1.EnvVar{Name: "S", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{}}}
	if _, err := environment([]corev1.EnvVar{secret}, pod, seen); err == nil {
		t.Error("a secret is taken for nothing")
	}
}
