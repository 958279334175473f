package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sallyport/sallyport/internal/lab/manifest"
)

// Controller is the name of the controller: of its program, its ServiceAccount and its process in a lab.
const Controller = "sallyport-controller"

// Installation is what makes a lab a cluster with Sallyport.
type Installation struct {
	Manifests string   // file: the rendered chart
	Program   string   // file: the controller
	Flags     []string // of the controller, besides those that it needs in a lab
}

// tokenHours is how long the controller's token is good: longer than anybody keeps a lab.
const tokenHours = 24 * 7

// Install applies the chart's manifests and runs the controller in the lab with the rights of the chart's
// ServiceAccount and no others. The chart's Deployment gets no pods: a lab's nodes have no container images but their
// own.
func (l *Lab) Install(ctx context.Context, what Installation) error {
	config, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig())
	if err != nil {
		return err
	}
	account, err := applyChart(ctx, config, what.Manifests)
	if err != nil {
		return err
	}
	kubeconfig, err := l.accountConfig(ctx, config, account)
	if err != nil {
		return fmt.Errorf("get a token for %s: %w", Controller, err)
	}
	program, err := filepath.Abs(what.Program)
	if err != nil {
		return err
	}
	if _, err := os.Stat(program); err != nil {
		return fmt.Errorf("%w; build it with: make build", err)
	}
	status, err := l.Status(ctx)
	if err != nil {
		return err
	}
	servers := func(database string) string {
		var out []string
		for _, d := range status.Doors {
			if strings.HasPrefix(d.Name, database) {
				out = append(out, "ssl:"+d.Inside)
			}
		}
		return strings.Join(out, ",")
	}
	pki := func(name string) string { return filepath.Join(l.Dir, "pki", name) }
	return l.Run(ctx, Controller, append([]string{
		program, "--kubeconfig", kubeconfig, "--nb-address", servers("nb"), "--sb-address", servers("sb"),
		"--nb-cert", pki("ovn.crt"), "--nb-key", pki("ovn.key"), "--nb-ca", pki("ca.crt"),
		"--leader-elect=false", "--leader-election-namespace", account, "--metrics-address", "127.0.0.1:8080",
		"--health-address", "127.0.0.1:8081",
	}, what.Flags...)...)
}

// applyChart applies manifests, waits for their CRDs and returns the namespace of their ServiceAccount. No pods come of
// them: a lab's nodes have no container images but their own.
func applyChart(ctx context.Context, config *rest.Config, file string) (string, error) {
	raw, err := os.ReadFile(file) //nolint:gosec // the manifest that the user names
	if err != nil {
		return "", fmt.Errorf("%w; make it with: make chart", err)
	}
	objects, err := manifest.Parse(string(raw))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", file, err)
	}
	client, err := manifest.New(config)
	if err != nil {
		return "", err
	}
	account := ""
	for _, o := range objects {
		switch o.GetKind() {
		case "Deployment":
			if err := unstructured.SetNestedField(o.Object, int64(0), "spec", "replicas"); err != nil {
				return "", err
			}
		case "DaemonSet":
			continue
		case "ServiceAccount":
			account = o.GetNamespace()
		}
		if err := client.ApplyObject(ctx, o); err != nil {
			return "", err
		}
	}
	crd := schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	for _, o := range objects {
		if o.GroupVersionKind() != crd {
			continue
		}
		if err := client.Wait(ctx, manifest.Ref{GVK: crd, Name: o.GetName()},
			manifest.True("Established")); err != nil {
			return "", err
		}
	}
	return account, nil
}

// accountConfig writes a kubeconfig of the controller's ServiceAccount for use inside the lab.
func (l *Lab) accountConfig(ctx context.Context, config *rest.Config, namespace string) (string, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	return l.tokenConfig(ctx, client, namespace,
		access{account: Controller, server: "127.0.0.1:6443", file: "controller-kubeconfig"})
}

// access is how somebody reaches the API server inside the lab.
type access struct {
	account string                                 // ServiceAccount
	bound   *authenticationv1.BoundObjectReference // the pod that has the token; nil: none
	server  string
	file    string // in the lab's directory
}

// tokenConfig writes a kubeconfig with a token of a ServiceAccount, and returns its path.
func (l *Lab) tokenConfig(ctx context.Context, api kubernetes.Interface, namespace string, a access) (string, error) {
	seconds := int64(tokenHours * 3600)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &seconds,
		BoundObjectRef:    a.bound,
	}}
	token, err := api.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, a.account, request, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["lab"] = &clientcmdapi.Cluster{
		Server:               "https://" + a.server,
		CertificateAuthority: filepath.Join(l.Dir, "pki", "ca.crt"),
	}
	config.AuthInfos[a.account] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: a.account}
	config.CurrentContext = "lab"
	path := filepath.Join(l.Dir, a.file)
	return path, clientcmd.WriteToFile(*config, path)
}
