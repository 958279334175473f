package preflight_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io/fs"
	"math/big"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/config/crd"
	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/insight/preflight"
	"github.com/sallyport/sallyport/internal/model/installation"
)

// now is the time in all tests.
var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// world is a cluster. The healthy one lacks nothing; tests break it.
type world struct {
	version     string
	missing     []installation.API
	engine      *appsv1.Deployment
	controller  *appsv1.Deployment
	others      []client.Object
	nodes       []*corev1.Node
	gateway     *corev1.ConfigMap
	subnets     []*kube.Subnet
	vlans       []*kube.Vlan
	providers   []*kube.ProviderNetwork
	services    []*corev1.Service
	endpoints   []*discoveryv1.EndpointSlice
	secret      *corev1.Secret
	namespace   *corev1.Namespace
	definitions []*unstructured.Unstructured
	denied      string // a resource that the user may not create
	unreadable  string // a type that the user may not read
	options     kube.InstallationOptions
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		version: "v1.35.4",
		engine: newDeployment("kube-ovn-controller", corev1.Container{
			Name: "kube-ovn-controller", Image: "docker.io/kubeovn/kube-ovn:v1.16.2",
			Args: []string{"/kube-ovn/start-controller.sh", "--enable-eip-snat=true", "--enable-lb=true"},
			Env:  []corev1.EnvVar{{Name: "ENABLE_SSL", Value: "true"}},
		}),
		gateway: &corev1.ConfigMap{ObjectMeta: newMeta("kube-system", kubeovn.GatewayConfigMap)},
		secret: &corev1.Secret{
			ObjectMeta: newMeta("kube-system", "kube-ovn-tls"), Data: newCertificates(t, now.AddDate(1, 0, 0)),
		},
		namespace: &corev1.Namespace{ObjectMeta: newMeta("", "kube-system")},
		options: kube.InstallationOptions{
			Namespaces: kube.DefaultNamespaces, Release: "sallyport",
		},
	}
	for _, name := range []string{"node1", "node2"} {
		n := &corev1.Node{ObjectMeta: newMeta("", name)}
		n.Labels = map[string]string{kubeovn.GatewayLabel: "true"}
		n.Annotations = map[string]string{kubeovn.ChassisAnnotation: "0f" + name}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		w.nodes = append(w.nodes, n)
	}
	for _, name := range []string{"cloud", "public"} {
		s := &kube.Subnet{ObjectMeta: newMeta("", "ext-"+name)}
		s.Labels = map[string]string{"network.kube-dc.com/external-network-type": name}
		if name == "cloud" {
			s.Labels["network.kube-dc.com/default-external"] = "true"
		}
		s.Spec = kubeovn.SubnetSpec{CIDRBlock: "192.0.2.0/24", Gateway: "192.0.2.1", Vlan: "vlan-" + name}
		s.Status.Conditions = []kubeovn.Condition{{Type: kubeovn.ConditionReady, Status: "True"}}
		s.Status.V4AvailableIPs = 200
		vlan := &kube.Vlan{ObjectMeta: newMeta("", "vlan-"+name), Spec: kubeovn.VlanSpec{ID: 7, Provider: "wire-" + name}}
		p := &kube.ProviderNetwork{ObjectMeta: newMeta("", "wire-"+name)}
		p.Spec.DefaultInterface = "eth1"
		p.Status = kubeovn.ProviderNetworkStatus{Ready: true, ReadyNodes: []string{"node1", "node2"}}
		w.subnets, w.vlans, w.providers = append(w.subnets, s), append(w.vlans, vlan), append(w.providers, p)
	}
	for _, name := range []string{"ovn-nb", "ovn-sb"} {
		w.services = append(w.services, &corev1.Service{ObjectMeta: newMeta("kube-system", name)})
		e := &discoveryv1.EndpointSlice{ObjectMeta: newMeta("kube-system", name+"-x1")}
		e.Labels = map[string]string{discoveryv1.LabelServiceName: name}
		e.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.200"}}}
		w.endpoints = append(w.endpoints, e)
	}
	return w
}

func newMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func newDeployment(name string, c corev1.Container) *appsv1.Deployment {
	out := &appsv1.Deployment{ObjectMeta: newMeta("kube-system", name)}
	out.Spec.Template.Spec.Containers = []corev1.Container{c}
	out.Status.ReadyReplicas = 1
	return out
}

// install adds Sallyport's controller, with its CRDs, as Helm would.
func (w *world) install(t *testing.T) {
	t.Helper()
	helm := map[string]string{"meta.helm.sh/release-name": "sallyport", "meta.helm.sh/release-namespace": "kube-system"}
	w.controller = newDeployment("sallyport-controller", corev1.Container{
		Name: "controller", Image: "registry.example.com/sallyport:1", Args: []string{
			"--nb-address=ssl:ovn-nb.kube-system.svc:6641", "--nb-cert=/etc/sallyport/ovn/cert",
		},
	})
	w.controller.Annotations = helm
	w.controller.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "ovn-tls", VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: w.secret.Name},
	}}}
	w.define(t)
	for _, d := range w.definitions {
		d.SetAnnotations(helm)
		d.SetLabels(map[string]string{"app.kubernetes.io/name": "sallyport"})
	}
}

// define adds the CRDs of this version, without labels and annotations.
func (w *world) define(t *testing.T) {
	t.Helper()
	names, err := fs.Glob(crd.Files, "*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("no definitions: %v", err)
	}
	for _, name := range names {
		raw, err := fs.ReadFile(crd.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(raw, &o.Object); err != nil {
			t.Fatal(err)
		}
		w.definitions = append(w.definitions, o)
	}
}

// definition returns one of the CRDs.
func (w *world) definition(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	i := slices.IndexFunc(w.definitions, func(o *unstructured.Unstructured) bool { return o.GetName() == name })
	if i < 0 {
		t.Fatalf("there is no definition %s", name)
	}
	return w.definitions[i]
}

// addWaitingPod adds a pod of the controller that does not start.
func (w *world) addWaitingPod(reason string) {
	pod := &corev1.Pod{ObjectMeta: newMeta("kube-system", "sallyport-controller-x1")}
	pod.Labels = map[string]string{"app.kubernetes.io/name": "sallyport", "app.kubernetes.io/component": "controller"}
	c := corev1.ContainerStatus{Name: "controller", Image: "registry.example.com/sallyport:1"}
	c.State.Waiting = &corev1.ContainerStateWaiting{Reason: reason}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{c}
	w.others = append(w.others, pod)
}

// objects are all objects of the cluster but the CRDs.
func (w *world) objects() (out []client.Object) {
	for _, o := range []*appsv1.Deployment{w.engine, w.controller} {
		if o != nil {
			out = append(out, o)
		}
	}
	if w.gateway != nil {
		out = append(out, w.gateway)
	}
	if w.secret != nil {
		out = append(out, w.secret)
	}
	if w.namespace != nil {
		out = append(out, w.namespace)
	}
	out = appendObjects(out, w.nodes)
	out = appendObjects(out, w.subnets)
	out = appendObjects(out, w.vlans)
	out = appendObjects(out, w.providers)
	out = appendObjects(out, w.services)
	out = appendObjects(out, w.endpoints)
	return append(out, w.others...)
}

func appendObjects[O client.Object](to []client.Object, list []O) []client.Object {
	for _, o := range list {
		to = append(to, o)
	}
	return to
}

// client returns a client of the API server.
func (w *world) client() client.Client {
	byName := func(o client.Object) []string { return []string{o.GetName()} }
	return fake.NewClientBuilder().WithScheme(kube.Scheme()).WithIndex(&appsv1.Deployment{}, "metadata.name", byName).
		WithObjects(w.objects()...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, api client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if review, is := o.(*authorizationv1.SelfSubjectAccessReview); is {
				review.Status.Allowed = review.Spec.ResourceAttributes.Resource != w.denied
				return nil
			}
			return api.Create(ctx, o, opts...)
		},
		Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, is := o.(*appsv1.DaemonSet); is && w.unreadable == "daemonsets" {
				return apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "daemonsets"}, key.Name, nil)
			}
			return api.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, api client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			switch list := list.(type) {
			case *unstructured.UnstructuredList:
				for _, o := range w.definitions {
					list.Items = append(list.Items, *o)
				}
				return nil
			case *corev1.NodeList:
				if w.unreadable == "nodes" {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil)
				}
			}
			return api.List(ctx, list, opts...)
		},
	}).Build()
}

// discovery returns what the API server serves.
func (w *world) discovery() *fakediscovery.FakeDiscovery {
	resources := map[string][]metav1.APIResource{}
	for _, a := range installation.WantedAPIs() {
		if !slices.Contains(w.missing, a) {
			resources[a.GroupVersion] = append(resources[a.GroupVersion], metav1.APIResource{Name: a.Resource})
		}
	}
	out := &fakediscovery.FakeDiscovery{
		Fake: &clienttesting.Fake{}, FakedServerVersion: &version.Info{GitVersion: w.version},
	}
	for group, list := range resources {
		out.Resources = append(out.Resources, &metav1.APIResourceList{GroupVersion: group, APIResources: list})
	}
	return out
}

// check reads the cluster as the command does, and checks it.
func (w *world) check(t *testing.T) []preflight.Result {
	t.Helper()
	reader := &kube.InstallationReader{
		API: w.client(), Discovery: w.discovery(), Options: w.options, Now: func() time.Time { return now },
	}
	found, err := reader.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return preflight.Check(found)
}

// newCertificates returns a CA and a certificate that it signed, with the keys of Kube-OVN's Secret.
func newCertificates(t *testing.T, expires time.Time) map[string][]byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ovn"}, NotBefore: now.AddDate(-2, 0, 0),
		NotAfter: now.AddDate(9, 0, 0), IsCA: true, BasicConstraintsValid: true,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "kube-ovn"}, NotBefore: now.AddDate(-1, 0, 0),
		NotAfter: expires,
	}
	encode := func(c *x509.Certificate) []byte {
		der, err := x509.CreateCertificate(rand.Reader, c, authority, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	return map[string][]byte{"cacert": encode(authority), "cert": encode(leaf), "key": []byte("not read")}
}
