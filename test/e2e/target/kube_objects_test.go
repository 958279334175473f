package target

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/internal/model/state/statetest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

var requestedBy = state.Ref{Kind: "Project", Namespace: "acme", Name: "web"}

// wantedObjects is the objects of a shard.
type wantedObjects struct {
	shard string
	set   intent.Objects
}

func (w wantedObjects) withObject(kind intent.Kind, namespace, name string, spec any) wantedObjects {
	key := intent.ObjectKey{Kind: kind, Namespace: namespace, Name: name}
	w.set[key] = state.Entry[intent.Object]{Value: intent.NewObject(intent.Meta{Labels: ownership.ManagedLabels(w.shard)}, spec), Origin: requestedBy}
	return w
}

func wantedFor(shard string) wantedObjects { return wantedObjects{shard, intent.Objects{}} }

// objectsKeepTheContract checks the contract without and with a cache: writes are visible at once in both.
func objectsKeepTheContract(t *testing.T, c *harness.Cluster) {
	for name, cluster := range map[string]*kube.Cluster{
		"live":   kube.NewLiveCluster(c.NewDirectClient(t, nil)),
		"cached": newCachedCluster(t, c, c.NewDirectClient(t, nil)),
	} {
		t.Run(name, func(t *testing.T) {
			ns := "objects-" + name
			c.CreateNamespace(t, ns, "")
			c.Apply(t, fmt.Sprintf(`
{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {name: theirs, namespace: %[1]s}, spec: {config: "{}"}}
---
apiVersion: kube-dc.com/v1
kind: EIp
metadata: {name: theirs, namespace: %[1]s, labels: {app.kubernetes.io/managed-by: sallyport, kube-dc.com/vpc: another}}`, ns))
			net := func(name string) kubeovn.AttachmentSpec {
				return kubeovn.AttachmentSpec{Config: `{"name":"` + name + `"}`}
			}
			statetest.CheckContract(t, statetest.Case[intent.ObjectKey, intent.Object]{
				Target: kube.NewObjects(cluster, ns),
				First: wantedFor(ns).withObject(intent.NetworkAttachment, ns, "a",
					net("a")).withObject(intent.NetworkAttachment, ns, "b", net("b")).
					withObject(intent.EIp, ns, "e", kubedcv1.EIpSpec{ExternalNetworkType: "cloud"}).set,
				Second: wantedFor(ns).withObject(intent.NetworkAttachment, ns, "b",
					net("other")).withObject(intent.NetworkAttachment, ns, "c", net("c")).
					withObject(intent.EIp, ns, "e", kubedcv1.EIpSpec{ExternalNetworkType: "cloud"}).set,
				DumpForeign: func(ctx context.Context) (string, error) {
					return readWrittenFields(ctx, c, objectHandle("kube-dc.com/v1", "EIp", ns, "theirs"),
						objectHandle("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", ns, "theirs"))
				},
			})
		})
	}
}

// wantedVPC returns the Kube-OVN objects of a project.
func wantedVPC(shard, protocol string) wantedObjects {
	return wantedFor(shard).
		withObject(intent.Namespace, "", shard, nil).
		withObject(intent.Vpc, "", shard, kubeovn.VpcSpec{Namespaces: []string{shard}}).
		withObject(intent.Subnet, "", shard+"-default", kubeovn.SubnetSpec{
			Vpc: shard, Protocol: protocol, CIDRBlock: "10.0.0.0/16", Namespaces: []string{shard},
		})
}

// objectsAreSteadyBesideKubeOVN checks that the fields that Kube-OVN fills in are no difference.
func objectsAreSteadyBesideKubeOVN(t *testing.T, c *harness.Cluster) {
	var writes writeLog
	api := c.NewDirectClient(t, writes.add)
	shard := "steady"
	target := kube.NewObjects(newCachedCluster(t, c, api), shard)
	want := wantedVPC(shard, "IPv4").set
	convergeObjects(t, target, want)
	t.Cleanup(func() { deleteAllObjects(t, c, target) })
	c.WaitForObject(t, "Subnet", "", shard+"-default", harness.IsReady)
	c.WaitForObject(t, "Vpc", "", shard, func(o *unstructured.Unstructured) bool {
		subnets, _, _ := unstructured.NestedStringSlice(o.Object, "status", "subnets")
		return slices.Contains(subnets, shard+"-default")
	})
	made := writes.list()
	if len(made) != 3 {
		t.Errorf("got %v; want one write for each of three objects", made)
	}
	convergeObjects(t, target, want)
	if again := writes.list(); len(again) != len(made) {
		t.Errorf("a steady state writes: %v", again[len(made):])
	}
	entry := observeTarget(t, target)[intent.ObjectKey{Kind: intent.Subnet, Name: shard + "-default"}]
	if entry.Origin != requestedBy || !slices.Equal(entry.Value.Needs,
		[]intent.ObjectKey{{Kind: intent.Vpc, Name: shard}}) {
		t.Errorf("the Subnet was asked for by %v and needs %v", entry.Origin, entry.Value.Needs)
	}

	// Manual changes are detected and repaired.
	vpc := objectHandle("kubeovn.io/v1", "Vpc", "", shard)
	for name, patch := range map[string]string{
		"a field":    `{"spec":{"namespaces":["default"]}}`,
		"our labels": `{"metadata":{"labels":null}}`,
	} {
		if err := api.Patch(t.Context(), vpc, client.RawPatch("application/merge-patch+json", []byte(patch)),
			client.FieldOwner("somebody")); err != nil {
			t.Fatal(err)
		}
		c.PollUntil(t, name+" to look different", func() bool {
			return len(state.Diff(want, observeTarget(t, target))) == 1
		})
		convergeObjects(t, target, want)
		if left := state.Diff(want, observeTarget(t, target)); len(left) != 0 {
			t.Errorf("%s was changed by hand and is not mended: %v", name, left)
		}
	}
}

func objectsOfOthersAreRefused(t *testing.T, c *harness.Cluster) {
	shard := "taken"
	c.Apply(t, `{apiVersion: kubeovn.io/v1, kind: Vpc, metadata: {name: taken, labels: {owner: somebody}}, spec: {namespaces: [theirs]}}`)
	vpc := objectHandle("kubeovn.io/v1", "Vpc", "", shard)
	before, err := readWrittenFields(t.Context(), c, vpc)
	if err != nil {
		t.Fatal(err)
	}
	target := kube.NewObjects(newCachedCluster(t, c, c.NewDirectClient(t, nil)), shard)
	want := wantedFor(shard).withObject(intent.Vpc, "", shard, kubeovn.VpcSpec{Namespaces: []string{shard}}).set
	failed := target.Apply(t.Context(), state.Diff(want, observeTarget(t, target)))
	if err := failed[intent.ObjectKey{Kind: intent.Vpc, Name: shard}]; err == nil ||
		!strings.Contains(err.Error(), "Vpc taken exists and is not managed by Sallyport") {
		t.Errorf("got %v", failed)
	}
	after, err := readWrittenFields(t.Context(), c, vpc)
	if err != nil || after != before {
		t.Errorf("somebody's Vpc changed (%v):\n%s\n%s", err, before, after)
	}

	// Our labels alone do not make an object ours. Control: applied by our field manager, they do.
	labels := fmt.Sprintf(`{"%s":"%s","%s":"%s"}`, ownership.ManagedByLabel, ownership.ManagedBy, ownership.ShardLabel,
		shard)
	api := c.NewDirectClient(t, nil)
	if err := api.Patch(t.Context(), vpc,
		client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":`+labels+`}}`))); err != nil {
		t.Fatal(err)
	}
	failed = target.Apply(t.Context(), state.Diff(want, observeTarget(t, target)))
	if err := failed[intent.ObjectKey{Kind: intent.Vpc, Name: shard}]; err == nil ||
		!strings.Contains(err.Error(), "Vpc taken exists and is not managed by Sallyport") {
		t.Errorf("labels of others make an object ours: %v", failed)
	}
	body := fmt.Sprintf(`{"apiVersion":"kubeovn.io/v1","kind":"Vpc","metadata":{"name":"%s","labels":%s}}`, shard,
		labels)
	if err := api.Patch(t.Context(), vpc, client.RawPatch("application/apply-patch+yaml", []byte(body)),
		client.FieldOwner(ownership.FieldManager), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	c.PollUntil(t, "the Vpc to be ours", func() bool { return len(observeTarget(t, target)) == 1 })
	convergeObjects(t, target, want)
	if left := state.Diff(want, observeTarget(t, target)); len(left) != 0 {
		t.Errorf("adopted, but %v is left to do", left)
	}
}

// objectThatCannotChangeIsReplaced checks that an OvnEip is replaced when its network changes, because Kube-OVN reads
// it only once.
func objectThatCannotChangeIsReplaced(t *testing.T, c *harness.Cluster) {
	shard := "replaced"
	target := kube.NewObjects(newCachedCluster(t, c, c.NewDirectClient(t, nil)), shard)
	eip := func(subnet string) intent.Objects {
		return wantedFor(shard).withObject(intent.OvnEip, "", "eip-replaced",
			kubeovn.OvnEipSpec{ExternalSubnet: subnet, Type: "nat"}).set
	}
	convergeObjects(t, target, eip("ext-public"))
	t.Cleanup(func() { deleteAllObjects(t, c, target) })
	given := func(prefix string) func(*unstructured.Unstructured) bool {
		return func(o *unstructured.Unstructured) bool {
			if o == nil {
				return false
			}
			address, _, _ := unstructured.NestedString(o.Object, "status", "v4Ip")
			return strings.HasPrefix(address, prefix)
		}
	}
	c.WaitForObject(t, "OvnEip", "", "eip-replaced", given("91.224.11."))
	c.PollUntil(t, "the address from the other network", func() bool {
		convergeObjects(t, target, eip("ext-cloud"))
		return len(state.Diff(eip("ext-cloud"), observeTarget(t, target))) == 0
	})
	c.WaitForObject(t, "OvnEip", "", "eip-replaced", given("100.65."))
}
