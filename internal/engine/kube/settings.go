package kube

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/engine/mtls"
)

// Namespaces are where the platform runs. An object with a platform name or label in any other namespace belongs to a
// tenant.
type Namespaces struct {
	Controller string // Sallyport's Deployment and its Lease
	Agent      string // Sallyport's agents; empty: Controller
	KubeOVN    string // Kube-OVN's Deployments, Leases and certificates
}

// agents returns the namespace of Sallyport's agents.
func (n Namespaces) agents() string { return cmp.Or(n.Agent, n.Controller) }

// DefaultNamespaces are the namespaces in the documentation and in Kube-OVN's manifests.
var DefaultNamespaces = Namespaces{Controller: metav1.NamespaceSystem, KubeOVN: metav1.NamespaceSystem}

// DiscoveredSettings are settings read from the Deployments in a cluster.
type DiscoveredSettings struct {
	// ControllerArgs are the arguments of the running Sallyport controller.
	ControllerArgs []string
	// Northbound and Southbound are the servers of OVN's databases in Kube-OVN's settings.
	Northbound, Southbound []string
	// TLSSecret contains Kube-OVN's certificates for these servers.
	TLSSecret client.ObjectKey
	// IgnoredDeployments are Deployments with the same names in other namespaces.
	IgnoredDeployments []client.ObjectKey
}

// The Deployments that settings are read from.
const (
	controllerName = "sallyport-controller"
	kubeOVNName    = "kube-ovn-controller"
)

// Kube-OVN's Secret with certificates, and its keys. Sallyport's own Secret is a copy.
const (
	tlsSecretName = "kube-ovn-tls" //nolint:gosec // the name of a Secret, and none itself
	certKey       = "cert"
	keyKey        = "key"
	caKey         = "cacert"
)

// ReadCertificates reads the certificates for OVN's databases from a Secret, with the caller's permissions.
func ReadCertificates(ctx context.Context, config *rest.Config, where client.ObjectKey) (mtls.PEM, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return mtls.PEM{}, fmt.Errorf("connect to Kubernetes: %w", err)
	}
	var secret corev1.Secret
	if err := api.Get(ctx, where, &secret); err != nil {
		return mtls.PEM{}, fmt.Errorf("read the certificates for OVN: %w", err)
	}
	return mtls.PEM{Cert: secret.Data[certKey], Key: secret.Data[keyKey], CA: secret.Data[caKey]}, nil
}

// DiscoverSettings reads the Deployments of Sallyport and Kube-OVN, each from its namespace only: someone who can
// create a Deployment elsewhere must not decide which databases an operator's commands read. Whatever is missing or not
// readable is empty.
func DiscoverSettings(ctx context.Context, config *rest.Config, where Namespaces) (DiscoveredSettings, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return DiscoveredSettings{}, fmt.Errorf("connect to Kubernetes: %w", err)
	}
	return discoverSettings(ctx, api, where), nil
}

func discoverSettings(ctx context.Context, api client.Reader, where Namespaces) (out DiscoveredSettings) {
	controller := client.ObjectKey{Namespace: where.Controller, Name: controllerName}
	if c := readContainer(ctx, api, controller, "controller"); c != nil {
		out.ControllerArgs = c.Args
	}
	engine := client.ObjectKey{Namespace: where.KubeOVN, Name: kubeOVNName}
	if c := readContainer(ctx, api, engine, kubeOVNName); c != nil {
		out.Northbound, out.Southbound = databaseServers(*c, 6641), databaseServers(*c, 6642)
		out.TLSSecret = client.ObjectKey{Namespace: where.KubeOVN, Name: tlsSecretName}
	}
	out.IgnoredDeployments = append(listNamesakes(ctx, api, controller), listNamesakes(ctx, api, engine)...)
	return out
}

// readContainer reads a container of a Deployment. It returns nil if the container is missing or not readable; then the
// user has to give the settings.
func readContainer(ctx context.Context, api client.Reader, key client.ObjectKey, name string) *corev1.Container {
	var d appsv1.Deployment
	if err := api.Get(ctx, key, &d); err != nil {
		return nil
	}
	all := d.Spec.Template.Spec.Containers
	if i := slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// readEngineVersion reads the version of Kube-OVN from the image of its controller. The version is parsed and printed
// again, so that no text of the Deployment reaches a terminal.
func readEngineVersion(ctx context.Context, api client.Reader, key client.ObjectKey) string {
	c := readContainer(ctx, api, key, kubeOVNName)
	if c == nil {
		return ""
	}
	if version, ok := kubeovn.ParseImageVersion(c.Image); ok {
		return version.String()
	}
	return ""
}

// listNamesakes returns the Deployments with the same name in other namespaces, or none without permission to list
// them.
func listNamesakes(ctx context.Context, api client.Reader, of client.ObjectKey) (out []client.ObjectKey) {
	var list appsv1.DeploymentList
	if err := api.List(ctx, &list, client.MatchingFields{"metadata.name": of.Name}); err != nil {
		return nil
	}
	for i := range list.Items {
		if key := client.ObjectKeyFromObject(&list.Items[i]); key.Name == of.Name && key != of {
			out = append(out, key)
		}
	}
	return out
}

// databaseServers returns the servers of a database from Kube-OVN's environment: OVN_DB_IPS, with or without TLS.
func databaseServers(c corev1.Container, port int) (out []string) {
	value := func(name string) string {
		i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == name })
		if i < 0 {
			return ""
		}
		return c.Env[i].Value
	}
	protocol := "tcp"
	if value("ENABLE_SSL") == "true" {
		protocol = "ssl"
	}
	for _, address := range strings.FieldsFunc(value("OVN_DB_IPS"), func(r rune) bool { return r == ',' || r == ' ' }) {
		out = append(out, protocol+":"+net.JoinHostPort(address, fmt.Sprint(port)))
	}
	return out
}

// ReadControllerImage returns the image of the controller that is installed in a namespace.
func ReadControllerImage(ctx context.Context, api client.Reader, namespace string) (string, error) {
	var d appsv1.Deployment
	if err := api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: controllerName}, &d); err != nil {
		return "", err
	}
	for _, c := range d.Spec.Template.Spec.Containers {
		if c.Name == "controller" {
			return c.Image, nil
		}
	}
	return "", fmt.Errorf("there is no container %q in Deployment %s/%s", "controller", namespace, controllerName)
}
