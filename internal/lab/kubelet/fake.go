package kubelet

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// syncFake carries out a pod of a fake node: it is what its annotations say, and nothing is kept or started for it.
func (k *Kubelet) syncFake(ctx context.Context, pod *corev1.Pod, m *member) error {
	if pod.DeletionTimestamp != nil {
		return k.remove(ctx, pod)
	}
	if completed(pod) {
		return nil
	}
	seen, ok, err := fakeObservation(pod, m.Management.Addr(), m.booted, time.Now())
	if err != nil || !ok {
		return err
	}
	return k.report(ctx, pod, seen)
}

// fakeObservation is a pod that runs and is ready as soon as it has an address. Containers that run since before the
// node's last boot were restarted by it.
func fakeObservation(pod *corev1.Pod, host netip.Addr, booted, now time.Time) (observation, bool, error) {
	o := observation{Connected: true, Host: host, IPs: []netip.Addr{host}}
	if !pod.Spec.HostNetwork {
		if !allocated(pod) {
			return o, false, nil
		}
		p, err := clusterNetwork(pod)
		if err != nil {
			return o, false, err
		}
		if o.IPs, err = split(p.read(pod.Annotations, "ip_address"), netip.ParseAddr); err != nil {
			return o, false, fmt.Errorf("address of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	for _, c := range pod.Spec.InitContainers {
		o.Init = append(o.Init, fakeInit(pod, c, now))
	}
	for _, c := range pod.Spec.Containers {
		o.Containers = append(o.Containers, fakeContainer(pod, c, booted, now))
	}
	return o, true, nil
}

func fakeContainer(pod *corev1.Pod, c corev1.Container, booted, now time.Time) corev1.ContainerStatus {
	old := containerNamed(pod, c.Name)
	if old == nil || old.State.Running == nil {
		return started(seedOne(pod, c, "", now), pod, true, now)
	}
	if old.State.Running.StartedAt.Before(stamp(booted)) {
		return started(seedOne(pod, c, "", now), pod, true, now)
	}
	s := *old.DeepCopy()
	s.Ready = true
	return s
}

func fakeInit(pod *corev1.Pod, c corev1.Container, now time.Time) corev1.ContainerStatus {
	if old := containerNamed(pod, c.Name); old != nil && old.State.Terminated != nil {
		return *old.DeepCopy()
	}
	s := started(seedOne(pod, c, "", now), pod, false, now)
	return ended(s, exit{reason: "Completed"}, now)
}

func completed(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
