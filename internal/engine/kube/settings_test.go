package kube

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// testNamespaces are where Sallyport and Kube-OVN run in these tests.
var testNamespaces = Namespaces{Controller: "sallyport-system", KubeOVN: "kube-system"}

func newDeployment(namespace, name string, c corev1.Container) client.Object {
	out := &appsv1.Deployment{ObjectMeta: newMeta(namespace, name)}
	out.Spec.Template.Spec.Containers = []corev1.Container{{Name: "sidecar", Args: []string{"--no"}}, c}
	return out
}

func kubeOVNDeployment(namespace, address string) client.Object {
	return newDeployment(namespace, kubeOVNName,
		corev1.Container{Name: kubeOVNName, Env: []corev1.EnvVar{{Name: "OVN_DB_IPS", Value: address}}})
}

func controllerDeployment(namespace, argument string) client.Object {
	return newDeployment(namespace, controllerName, corev1.Container{Name: "controller", Args: []string{argument}})
}

func newFakeClient(objects ...client.Object) client.Client {
	byName := func(o client.Object) []string { return []string{o.GetName()} }
	return fake.NewClientBuilder().WithScheme(scheme).WithIndex(&appsv1.Deployment{}, "metadata.name",
		byName).WithObjects(objects...).Build()
}

// A Deployment with a platform name in another namespace decides nothing, wherever that namespace sorts.
func TestSettingsAreReadFromThePlatformsNamespacesOnly(t *testing.T) {
	tenants := []client.Object{
		kubeOVNDeployment("a-tenant", "127.9.9.9"), kubeOVNDeployment("zed", "127.9.9.9"),
		kubeOVNDeployment("sallyport-system", "127.9.9.9"),
		controllerDeployment("a-tenant", "--evil"), controllerDeployment("zed", "--evil"),
		controllerDeployment("kube-system", "--evil"),
	}
	got := discoverSettings(t.Context(),
		newFakeClient(append(tenants, kubeOVNDeployment("kube-system", "192.0.2.1"),
			controllerDeployment("sallyport-system", "--ours"))...), testNamespaces)
	if !slices.Equal(got.ControllerArgs, []string{"--ours"}) ||
		!slices.Equal(got.Northbound, []string{"tcp:192.0.2.1:6641"}) ||
		!slices.Equal(got.Southbound, []string{"tcp:192.0.2.1:6642"}) ||
		got.TLSSecret != (client.ObjectKey{Namespace: "kube-system", Name: tlsSecretName}) {
		t.Errorf("found %+v", got)
	}
	if len(got.IgnoredDeployments) != len(tenants) {
		t.Errorf("ignored are %v, want %d", got.IgnoredDeployments, len(tenants))
	}
	got = discoverSettings(t.Context(), newFakeClient(tenants...), testNamespaces)
	if len(got.ControllerArgs)+len(got.Northbound)+len(got.Southbound) > 0 || got.TLSSecret.Name != "" ||
		len(got.IgnoredDeployments) != len(tenants) {
		t.Errorf("where only tenants have such Deployments: %+v", got)
	}
}

func TestLeasesAreThoseOfThePlatformsNamespaces(t *testing.T) {
	e := &clusterDump{platform: testNamespaces}
	for _, key := range []client.ObjectKey{
		{Namespace: "acme", Name: "sallyport-controller"},
		{Namespace: "acme", Name: "kube-ovn-controller"},
		{Namespace: "kube-system", Name: "sallyport-controller"},
		{Namespace: "kube-system", Name: "kube-ovn-controller"},
		{Namespace: "kube-system", Name: "kube-scheduler"},
		{Namespace: "sallyport-system", Name: "sallyport-controller"},
		{Namespace: "zed", Name: "kube-ovn-controller"},
	} {
		e.leases.Items = append(e.leases.Items, coordinationv1.Lease{ObjectMeta: newMeta(key.Namespace, key.Name)})
	}
	var got []string
	for _, l := range e.readLeases() {
		got = append(got, l.Namespace+"/"+l.Name)
	}
	if want := []string{"kube-system/kube-ovn-controller", "sallyport-system/sallyport-controller"}; !slices.Equal(got,
		want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A pod is an agent only if the DaemonSet in the agents' namespace created it, whatever its labels are. That is the
// controller's namespace unless another one is set.
func TestAgentsAreThoseOfTheDaemonSet(t *testing.T) {
	yes := true
	agents := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "sallyport-agent", Controller: &yes}
	edited := func(edit func(*metav1.OwnerReference)) metav1.OwnerReference {
		out := agents
		edit(&out)
		return out
	}
	for name, c := range map[string]struct {
		namespace string
		owner     metav1.OwnerReference
		want      bool
	}{
		"an agent":             {"sallyport-system", agents, true},
		"a tenant's DaemonSet": {"acme", agents, false},
		"another DaemonSet": {"sallyport-system", edited(func(o *metav1.OwnerReference) {
			o.Name = "other"
		}), false},
		"a StatefulSet of the name": {"sallyport-system", edited(func(o *metav1.OwnerReference) {
			o.Kind = "StatefulSet"
		}), false},
		"another group": {"sallyport-system", edited(func(o *metav1.OwnerReference) {
			o.APIVersion = "evil.example/v1"
		}), false},
		"not its controller": {"sallyport-system", edited(func(o *metav1.OwnerReference) {
			o.Controller = nil
		}), false},
	} {
		pod := corev1.Pod{ObjectMeta: newMeta(c.namespace, "pod")}
		pod.Labels = map[string]string{"app.kubernetes.io/name": "sallyport-agent"}
		pod.OwnerReferences = []metav1.OwnerReference{c.owner}
		e := &clusterDump{platform: testNamespaces}
		e.pods.Items = []corev1.Pod{pod}
		if got := e.readPods()[0].Agent; got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
		e.platform.Agent = "sallyport-agents"
		if e.readPods()[0].Agent {
			t.Errorf("%s: its namespace is %s, and agents are in another", name, c.namespace)
		}
		e.pods.Items[0].Namespace = "sallyport-agents"
		if got, want := e.readPods()[0].Agent, c.owner == agents; got != want {
			t.Errorf("%s, in the namespace of agents: %t, want %t", name, got, want)
		}
	}
}

// An Event counts only in a namespace where its author may write about the object.
func TestEventsOfOtherNamespacesAreIgnored(t *testing.T) {
	for _, c := range []struct {
		in, about string
		want      int
	}{
		{"acme", "acme", 1},
		{"acme", "victim", 0},
		{"acme", "", 0},
		{"default", "", 1},
		{"kube-system", "", 1},
		{"default", "victim", 0},
	} {
		e := &clusterDump{}
		e.events.Items = []corev1.Event{{
			ObjectMeta:     newMeta(c.in, "e"),
			InvolvedObject: corev1.ObjectReference{Kind: "Thing", Namespace: c.about, Name: "x"},
		}}
		if got := e.readEvents(); len(got) != c.want {
			t.Errorf("in %s about an object of %q: %v", c.in, c.about, got)
		}
	}
}
