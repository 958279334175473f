package harness

import (
	"os"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sallyport/sallyport/internal/lab/manifest"
)

const (
	renderedChartFile = "../../../bin/sallyport.yaml" // written by `make chart` with the chart's default values
	// ChartNamespace is the namespace that the chart is installed in.
	ChartNamespace      = "kube-system"
	chartServiceAccount = "sallyport-controller"
)

// ApplyChart applies the rendered chart, or applies it again. It remains until the lab ends. The Deployment gets no
// replicas, because the lab's kubelet runs only built-in images.
func (c *Cluster) ApplyChart(t *testing.T) {
	t.Helper()
	raw, err := os.ReadFile(renderedChartFile)
	if err != nil {
		t.Fatalf("%v; run make chart", err)
	}
	objects, err := manifest.Parse(string(raw))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o.GetKind() == "Deployment" {
			if err := unstructured.SetNestedField(o.Object, int64(0), "spec", "replicas"); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Objects.ApplyObject(Within(t, Patience), o); err != nil {
			t.Fatal(err)
		}
	}
	crd := schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	for _, o := range objects {
		if o.GroupVersionKind() != crd {
			continue
		}
		if err := c.Objects.Wait(Within(t, Patience), manifest.Ref{GVK: crd, Name: o.GetName()},
			manifest.True("Established")); err != nil {
			t.Fatal(err)
		}
	}
}

// ControllerKubeconfig writes a kubeconfig with only the permissions of the chart's ServiceAccount, and returns its
// path.
func (c *Cluster) ControllerKubeconfig(t *testing.T) string {
	t.Helper()
	hours := int64(4 * 3600)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hours}}
	token, err := c.Client.CoreV1().ServiceAccounts(ChartNamespace).CreateToken(Within(t, Patience),
		chartServiceAccount, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("get a token for %s: %v", chartServiceAccount, err)
	}
	config, err := clientcmd.LoadFromFile(c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{chartServiceAccount: {Token: token.Status.Token}}
	config.Contexts[config.CurrentContext].AuthInfo = chartServiceAccount
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// LoadConfig reads a kubeconfig and disables the client-side rate limit.
func LoadConfig(t *testing.T, kubeconfig string) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return config
}
