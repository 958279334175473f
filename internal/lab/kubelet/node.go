package kubelet

import (
	"fmt"
	"maps"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// chassisAnnotation ties a Node to its OVN chassis. Kube-OVN writes it when a chassis has the node's host name; being
// first saves a round, and makes sure that it names the chassis of the lab.
const chassisAnnotation = "ovn.kubernetes.io/chassis"

const statusPeriod = 5 * time.Minute // between reports that say nothing new

// nodeObject is the Node as it is registered.
func nodeObject(n Node, version string, boots int, now time.Time) *corev1.Node {
	labels := map[string]string{
		corev1.LabelHostname:   n.Name,
		corev1.LabelOSStable:   "linux",
		corev1.LabelArchStable: runtime.GOARCH,
		// Kube-OVN looks for the control plane by this label. Every node of a lab may hold it.
		"node-role.kubernetes.io/control-plane": "",
	}
	maps.Copy(labels, n.Labels)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:        n.Name,
		Labels:      labels,
		Annotations: map[string]string{chassisAnnotation: n.Name},
	}}
	node.Status = nodeStatus(node.Status, n, version, boots, now)
	return node
}

// nodeStatus is old with everything that the node itself reports.
func nodeStatus(old corev1.NodeStatus, n Node, version string, boots int, now time.Time) corev1.NodeStatus {
	s := *old.DeepCopy()
	s.Capacity = corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("64"),
		corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourcePods:   resource.MustParse("1000"),
	}
	s.Allocatable = s.Capacity
	s.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: n.Management.Addr().String()},
		{Type: corev1.NodeHostName, Address: n.Name},
	}
	s.DaemonEndpoints.KubeletEndpoint.Port = serverPort
	s.NodeInfo = corev1.NodeSystemInfo{
		MachineID: n.Name, SystemUUID: n.Name, BootID: fmt.Sprintf("%s-%d", n.Name, boots),
		OSImage: "Sallyport lab", OperatingSystem: "linux", Architecture: runtime.GOARCH,
		KubeletVersion: version, ContainerRuntimeVersion: "lab://1",
	}
	s.Conditions = nodeConditions(old.Conditions, now)
	return s
}

func nodeConditions(old []corev1.NodeCondition, now time.Time) []corev1.NodeCondition {
	out := append([]corev1.NodeCondition(nil), old...)
	for _, c := range []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID"},
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "the lab's node is up"},
	} {
		c.LastHeartbeatTime, c.LastTransitionTime = *stamp(now), *stamp(now)
		out = withNodeCondition(out, c, now)
	}
	return out
}

// withNodeCondition keeps a condition that already says the same and is not old, so that an unchanged node is not
// written.
func withNodeCondition(conditions []corev1.NodeCondition, c corev1.NodeCondition,
	now time.Time,
) []corev1.NodeCondition {
	for i := range conditions {
		old := &conditions[i]
		if old.Type != c.Type {
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
			if old.Reason == c.Reason && now.Sub(old.LastHeartbeatTime.Time) < statusPeriod {
				return conditions
			}
		}
		*old = c
		return conditions
	}
	return append(conditions, c)
}
