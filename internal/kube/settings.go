package kube

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/mutual"
)

// Found is what a cluster says of those who write to it.
type Found struct {
	// Arguments are those of the controller of Sallyport that runs there.
	Arguments []string
	// Northbound and Southbound are the servers of OVN's databases, as Kube-OVN knows them.
	Northbound, Southbound []string
	// Secret is where Kube-OVN keeps the certificates for them.
	Secret client.ObjectKey
}

// Kube-OVN's Secret with certificates, and its keys. Sallyport's own is a copy of it.
const (
	secretName = "kube-ovn-tls"
	certKey    = "cert"
	keyKey     = "key"
	caKey      = "cacert"
)

// Certificates reads the certificates for OVN's databases from a Secret, as whoever may read it.
func Certificates(ctx context.Context, config *rest.Config, where client.ObjectKey) (mutual.Texts, error) {
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return mutual.Texts{}, fmt.Errorf("connect to Kubernetes: %w", err)
	}
	var secret corev1.Secret
	if err := api.Get(ctx, where, &secret); err != nil {
		return mutual.Texts{}, fmt.Errorf("read the certificates for OVN: %w", err)
	}
	return mutual.Texts{Cert: secret.Data[certKey], Key: secret.Data[keyKey], CA: secret.Data[caKey]}, nil
}

// Find looks for the Deployments of Sallyport and of Kube-OVN. What is not there, or may not be read, is empty.
func Find(ctx context.Context, config *rest.Config) (Found, error) {
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	var out Found
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return out, fmt.Errorf("connect to Kubernetes: %w", err)
	}
	var list appsv1.DeploymentList
	if err := api.List(ctx, &list); err != nil {
		return out, nil //nolint:nilerr // who may not read it has to say it
	}
	for _, d := range list.Items {
		for _, c := range d.Spec.Template.Spec.Containers {
			switch {
			case d.Name == "sallyport-controller" && c.Name == "controller":
				out.Arguments = c.Args
			case d.Name == "kube-ovn-controller" && c.Name == "kube-ovn-controller":
				out.Northbound, out.Southbound = servers(c, 6641), servers(c, 6642)
				out.Secret = client.ObjectKey{Namespace: d.Namespace, Name: secretName}
			}
		}
	}
	return out, nil
}

// servers are the servers of a database as Kube-OVN's environment names them: OVN_DB_IPS, with or without TLS.
func servers(c corev1.Container, port int) (out []string) {
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
