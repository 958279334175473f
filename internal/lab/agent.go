package lab

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sallyport/sallyport/internal/lab/cluster"
	"github.com/sallyport/sallyport/internal/lab/netns"
)

// Agent is the name of the agent: of its program and its ServiceAccount. On a node its process is called
// NODE-sallyport-agent.
const Agent = "sallyport-agent"

// InstallAgents applies the chart's manifests of the agent, and runs it on each node with the rights that its pod there
// would have.
func (l *Lab) InstallAgents(ctx context.Context, manifests, program string) error {
	config, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig())
	if err != nil {
		return err
	}
	namespace, err := applyChart(ctx, config, manifests)
	if err != nil {
		return err
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	status, err := l.Status(ctx)
	if err != nil {
		return err
	}
	for _, n := range status.Blueprint.NodeList() {
		kubeconfig, err := l.AgentConfig(ctx, api, namespace, n.Name)
		if err != nil {
			return fmt.Errorf("get a token for the agent of %s: %w", n.Name, err)
		}
		argv := append([]string{"nsenter", "--net=" + filepath.Join(netns.Dir, n.Name), "--", program},
			l.AgentFlags(n.Name, kubeconfig)...)
		if err := l.Run(ctx, n.Name+"-"+Agent, argv...); err != nil {
			return err
		}
	}
	return nil
}

// AgentFlags are what the agent of a node is started with.
func (l *Lab) AgentFlags(node, kubeconfig string) []string {
	sockets := filepath.Join(l.Dir, "data", node) // of its Open vSwitch and its ovn-controller
	return []string{
		"--node=" + node, "--kubeconfig=" + kubeconfig, "--state-dir=" + filepath.Join(l.Dir, node+"-agent"),
		"--openvswitch-dir=" + sockets, "--ovn-dir=" + sockets,
	}
}

// AgentConfig writes a kubeconfig for use on a node, with the token that a pod of the agent's has there: it says on
// which node that is.
func (l *Lab) AgentConfig(ctx context.Context, api kubernetes.Interface, namespace, node string) (string, error) {
	name := Agent + "-" + node
	pod, err := api.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		pod, err = api.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
			Spec: corev1.PodSpec{
				NodeName: node, ServiceAccountName: Agent, HostNetwork: true,
				Containers: []corev1.Container{{Name: "main", Image: "lab/idle"}},
			},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		return "", err
	}
	status, err := l.Status(ctx)
	if err != nil {
		return "", err
	}
	return l.tokenConfig(ctx, api, namespace, access{
		account: Agent, bound: &authenticationv1.BoundObjectReference{
			Kind:       "Pod",
			APIVersion: "v1",
			Name:       pod.Name,
			UID:        pod.UID,
		},
		server: netip.AddrPortFrom(status.Blueprint.ServerAddresses()[0].Addr(), cluster.APIPort).String(),
		file:   "agent-kubeconfig-" + node,
	})
}
