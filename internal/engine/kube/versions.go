package kube

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// agentName is the name of the DaemonSet of the agents.
const agentName = "sallyport-agent"

// Versions are what runs in a cluster. Images are empty where there is none.
type Versions struct {
	ControllerImage, AgentImage string
	Kubernetes, KubeOVN         string
}

// ReadVersions reads what runs in a cluster: images of Deployments and DaemonSets, in the platform's namespaces only.
func ReadVersions(ctx context.Context, config *rest.Config, where Namespaces) (Versions, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	config = rest.CopyConfig(config)
	config.Timeout = connectTimeout
	server, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return Versions{}, fmt.Errorf("connect to Kubernetes: %w", err)
	}
	version, err := server.ServerVersion()
	if err != nil {
		return Versions{}, fmt.Errorf("read the version of Kubernetes: %w", err)
	}
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return Versions{}, fmt.Errorf("connect to Kubernetes: %w", err)
	}
	out := Versions{Kubernetes: version.GitVersion}
	err = readImages(ctx, api, where, &out)
	return out, err
}

// readImages reads the images of Sallyport and the version of Kube-OVN.
func readImages(ctx context.Context, api client.Reader, where Namespaces, out *Versions) error {
	out.KubeOVN = readEngineVersion(ctx, api, client.ObjectKey{Namespace: where.KubeOVN, Name: kubeOVNName})
	var controller appsv1.Deployment
	key := client.ObjectKey{Namespace: where.Controller, Name: controllerName}
	if err := client.IgnoreNotFound(api.Get(ctx, key, &controller)); err != nil && !apierrors.IsForbidden(err) {
		return fmt.Errorf("read Deployment %s: %w", key, err)
	}
	out.ControllerImage = firstImage(controller.Spec.Template.Spec.Containers)
	var agent appsv1.DaemonSet
	key = client.ObjectKey{Namespace: where.agents(), Name: agentName}
	if err := client.IgnoreNotFound(api.Get(ctx, key, &agent)); err != nil && !apierrors.IsForbidden(err) {
		return fmt.Errorf("read DaemonSet %s: %w", key, err)
	}
	out.AgentImage = firstImage(agent.Spec.Template.Spec.Containers)
	return nil
}

// firstImage returns the image of the first container.
func firstImage(of []corev1.Container) string {
	if len(of) == 0 {
		return ""
	}
	return of[0].Image
}
