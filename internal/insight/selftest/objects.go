package selftest

import (
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/insight/selftest/peer"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

const (
	serverProject = "server" // it has a pod and addresses for each network
	appLabel      = "app"
	servicePort   = 80
	podUser       = 65532 // as in the chart
)

// organization returns the namespace of the run's Projects. The EgressIP has the same name.
func (r *run) organization() string { return ownership.CheckPrefix + r.id }

// namespace returns the namespace that a Project makes.
func (r *run) namespace(project string) string { return r.organization() + "-" + project }

// newMeta returns the metadata of an object of the run.
func (r *run) newMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{ownership.CheckRunLabel: r.id}}
}

func (r *run) newOrganization() *corev1.Namespace {
	out := &corev1.Namespace{ObjectMeta: r.newMeta("", r.organization())}
	until := r.Now().Add(r.Timeout + removalTimeout).UTC().Format(time.RFC3339)
	out.Annotations = map[string]string{ownership.CheckUntilAnnotation: until}
	return out
}

func (r *run) newProject(name string, on *network) *kubedcv1.Project {
	return &kubedcv1.Project{
		ObjectMeta: r.newMeta(r.organization(), name),
		Spec: kubedcv1.ProjectSpec{
			CIDRBlock: r.cluster.prefix.String(), EgressNetworkType: kubedcv1.NetworkType(on.name),
		},
	}
}

// newPod returns a pod that the Pod Security Standard restricted permits.
func (r *run) newPod(key client.ObjectKey, node string) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: r.newMeta(key.Namespace, key.Name)}
	out.Labels[appLabel] = key.Name
	out.Spec = corev1.PodSpec{
		NodeName: node, TerminationGracePeriodSeconds: new(int64(1)),
		AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(podUser)), RunAsGroup: new(int64(podUser)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: "peer", Image: r.Image, ImagePullPolicy: corev1.PullIfNotPresent,
			Command: []string{"sallyport-agent", "peer", "--name", key.String()},
			Ports:   []corev1.ContainerPort{{Name: "http", ContainerPort: peer.ServerPort}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
			},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
	}
	return out
}

// objectName returns the name of the FIp and of the Service of a network.
func (n *network) objectName() string { return fmt.Sprintf("network-%d", n.number) }

func (r *run) newFIP(n *network) *kubedcv1.FIp {
	return &kubedcv1.FIp{
		ObjectMeta: r.newMeta(n.server.Namespace, n.objectName()),
		Spec: kubedcv1.FIpSpec{
			PodTarget: &kubedcv1.PodTarget{PodName: n.server.Name}, ExternalNetworkType: kubedcv1.NetworkType(n.name),
		},
	}
}

func (r *run) newService(n *network) *corev1.Service {
	out := &corev1.Service{ObjectMeta: r.newMeta(n.server.Namespace, n.objectName())}
	out.Annotations = map[string]string{kubedcv1.ExternalNetworkTypeLabel: n.name}
	out.Spec = corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: new(kubedcv1.LoadBalancerClass),
		AllocateLoadBalancerNodePorts: new(false), Selector: map[string]string{appLabel: n.server.Name},
		Ports: []corev1.ServicePort{{Port: servicePort, TargetPort: intstr.FromInt32(peer.ServerPort)}},
	}
	return out
}

// newEgressIP selects the client of a network.
func (r *run) newEgressIP(n *network, address netip.Addr) *ovnv1.EgressIP {
	return &ovnv1.EgressIP{
		ObjectMeta: r.newMeta("", r.organization()),
		Spec: ovnv1.EgressIPSpec{
			EgressIPs: []string{address.String()},
			NamespaceSelector: metav1.LabelSelector{
				MatchLabels: map[string]string{corev1.LabelMetadataName: n.client.Namespace},
			},
		},
	}
}
