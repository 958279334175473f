package target

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// TestKubeTargets tests the targets on Kubernetes, in a lab without our controller, which would repair what the tests
// do.
func TestKubeTargets(t *testing.T) {
	c := harness.StartLab(t, "targets", harness.LoadTopology(t, "shared.yaml"))
	c.InstallCRDs(t)
	for name, test := range map[string]func(*testing.T, *harness.Cluster){
		"scheme is the API server's":           schemeIsTheAPIServers,
		"objects keep the contract":            objectsKeepTheContract,
		"objects are steady beside Kube-OVN":   objectsAreSteadyBesideKubeOVN,
		"objects of others are refused":        objectsOfOthersAreRefused,
		"object that can't change is replaced": objectThatCannotChangeIsReplaced,
		"elements keep the contract":           elementsKeepTheContract,
		"finalizers keep the contract":         finalizersKeepTheContract,
		"statuses keep the contract":           statusesKeepTheContract,
	} {
		t.Run(name, func(t *testing.T) { test(t, c) })
	}
}

// schemeIsTheAPIServers checks that the API server serves every kind that we know under the same resource name.
func schemeIsTheAPIServers(t *testing.T, c *harness.Cluster) {
	api := c.NewDirectClient(t, nil)
	for _, list := range []client.ObjectList{
		&kube.VpcList{}, &kube.SubnetList{}, &kube.OvnEipList{}, &kube.OvnFipList{}, &kube.OvnSnatRuleList{},
		&kube.NetworkAttachmentDefinitionList{},
		&corev1.NamespaceList{}, &kubedcv1.ProjectList{}, &kubedcv1.EIpList{}, &kubedcv1.FIpList{},
	} {
		if err := api.List(t.Context(), list); err != nil {
			t.Errorf("list %T: %v", list, err)
		}
	}
	var subnet kube.Subnet
	if err := api.Get(t.Context(), client.ObjectKey{Name: "ext-public"}, &subnet); err != nil {
		t.Fatal(err)
	}
	if subnet.Spec.CIDRBlock != "91.224.11.0/24" || !subnet.Status.IsReady() || subnet.Status.V4AvailableIPs < 100 {
		t.Errorf("ext-public is read as %+v %+v", subnet.Spec, subnet.Status)
	}
}

// writeLog records writes in order.
type writeLog struct {
	mu    sync.Mutex
	lines []string
}

func (w *writeLog) add(verb, kind string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, verb+" "+kind)
}

func (w *writeLog) list() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.lines...)
}

// newCachedCluster returns the cluster as the controller sees it, with a cache that lives as long as the test.
func newCachedCluster(t *testing.T, c *harness.Cluster, api client.Client) *kube.Cluster {
	t.Helper()
	options := kube.CacheOptions()
	options.Scheme = kube.Scheme()
	store, err := cache.New(c.RESTConfig(t), options)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := kube.NewCluster(t.Context(), api, store)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- store.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if !store.WaitForCacheSync(harness.Within(t, harness.Patience)) {
		t.Fatal("the cache is not filled")
	}
	return cluster
}

// objectHandle returns an empty object with a kind and name, for clients.
func objectHandle(version, kind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(version)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// readWrittenFields returns objects without the metadata that the API server adds.
func readWrittenFields(ctx context.Context, c *harness.Cluster, objects ...*unstructured.Unstructured) (string, error) {
	out := ""
	for _, o := range objects {
		got, err := c.Objects.Get(ctx, manifest.Ref{
			GVK:       o.GroupVersionKind(),
			Namespace: o.GetNamespace(),
			Name:      o.GetName(),
		})
		if err != nil {
			return "", err
		}
		raw, err := json.Marshal([]any{got.GetLabels(), got.GetAnnotations(), got.Object["spec"]})
		if err != nil {
			return "", err
		}
		out += string(raw) + "\n"
	}
	return out, nil
}

func observeTarget[K state.Key[K], V state.Value[V]](t *testing.T, target state.Target[K, V]) state.Set[K, V] {
	t.Helper()
	set, err := target.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func preparePlan[K state.Key[K], V state.Value[V]](t *testing.T, target state.Target[K, V], want state.Set[K, V],
	guards ...state.Guard[K, V],
) state.Plan {
	t.Helper()
	plan, err := state.PreparePlan(context.Background(), target, want, guards...)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func convergeObjects(t *testing.T, target *kube.Objects, want intent.Objects) {
	t.Helper()
	for _, failure := range state.Run(context.Background(), preparePlan(t, target, want, intent.DeleteAfterUsers)) {
		t.Error(failure)
	}
}

// deleteAllObjects deletes everything in the order that Kube-OVN requires, step by step as objects disappear.
func deleteAllObjects(t *testing.T, c *harness.Cluster, target *kube.Objects) {
	t.Helper()
	c.PollUntil(t, "everything to be gone", func() bool {
		convergeObjects(t, target, intent.Objects{})
		left, err := target.Observe(context.Background())
		return err == nil && len(left) == 0
	})
}
