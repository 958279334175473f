package target

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/match"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/internal/model/state/statetest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

type elementSet intent.VpcEntries

func (e elementSet) add(key intent.VpcEntryKey, value intent.VpcEntry) {
	e[key] = state.Entry[intent.VpcEntry]{Value: value, Origin: requestedBy}
}

func elementsKeepTheContract(t *testing.T, c *harness.Cluster) {
	c.Apply(t, `
apiVersion: kubeovn.io/v1
kind: Vpc
metadata: {name: elements}
spec:
  extraExternalSubnets: [ext-dual]
  staticRoutes: [{cidr: 10.9.0.0/16, nextHopIP: 10.0.0.9, policy: policyDst, ecmpMode: "", bfdId: "", routeTable: ""}]
  policyRoutes: [{priority: 29000, match: ip4.dst == 192.0.2.0/24, action: drop}, {priority: 32000, match: ip4.dst == 192.0.2.1, action: allow}]`)
	c.WaitForObject(t, "Vpc", "", "elements", func(o *unstructured.Unstructured) bool {
		standby, _, _ := unstructured.NestedBool(o.Object, "status", "standby")
		return standby
	})
	gateway, other := netip.MustParseAddr("91.224.11.1"), netip.MustParseAddr("100.65.0.1")
	reply := func(pod string) (intent.VpcEntryKey, intent.VpcEntry) {
		from := match.From(match.Addr(netip.MustParseAddr(pod)))
		return intent.ReroutePolicy(ownership.ReturnFIP, from, gateway).ToVpcEntry("elements")
	}
	first, second := elementSet{}, elementSet{}
	first.add(intent.DefaultRoute(gateway).ToVpcEntry("elements"))
	first.add(reply("10.0.0.7"))
	first.add(reply("10.0.0.8"))
	first.add(intent.ExternalSubnetEntry("elements", "ext-public"))
	second.add(intent.DefaultRoute(other).ToVpcEntry("elements"))
	second.add(reply("10.0.0.8"))
	second.add(reply("10.0.0.9"))
	ours := map[string]bool{"ext-public": true}
	var writes writeLog
	target := kube.NewVpcEntries(newCachedCluster(t, c, c.NewDirectClient(t, writes.add)), "elements", ours)
	statetest.CheckContract(t, statetest.Case[intent.VpcEntryKey, intent.VpcEntry]{
		Target: target, First: intent.VpcEntries(first), Second: intent.VpcEntries(second),
		DumpForeign: func(ctx context.Context) (string, error) { return foreignElements(ctx, c, "elements", ours) },
	})
	// First set: one write adds. Second, and first again: one write adds and one removes. Empty set: one write removes.
	// Applying the same set twice writes nothing.
	if got := writes.list(); len(got) != 6 {
		t.Errorf("%d writes, want 6: %v", len(got), got)
	}

	absent := kube.NewVpcEntries(newCachedCluster(t, c, c.NewDirectClient(t, nil)), "absent", ours)
	key, e := intent.ExternalSubnetEntry("absent", "ext-public")
	gone, _ := intent.ExternalSubnetEntry("absent", "ext-cloud")
	failed := absent.Apply(t.Context(), []state.Change[intent.VpcEntryKey, intent.VpcEntry]{
		{Key: key, After: &e},
		{Key: gone, Before: &e},
	})
	if failed[key] == nil || failed[gone] != nil {
		t.Errorf("without a Vpc, what comes fails and what goes does not; got %v", failed)
	}
}

func foreignElements(ctx context.Context, c *harness.Cluster, name string, ours map[string]bool) (string, error) {
	o, err := c.Objects.Get(ctx, harness.ObjectRef("Vpc", "", name))
	if err != nil {
		return "", err
	}
	var out []any
	for _, list := range []string{"extraExternalSubnets", "staticRoutes", "policyRoutes"} {
		items, _, _ := unstructured.NestedSlice(o.Object, "spec", list)
		for _, item := range items {
			fields, _ := item.(map[string]any)
			priority, _ := fields["priority"].(int64)
			if subnet, _ := item.(string); ours[subnet] || ownership.IsOwnPriority(name, int(priority)) ||
				fields["cidr"] == "0.0.0.0/0" {
				continue
			}
			out = append(out, item)
		}
	}
	return fmt.Sprint(out), nil
}
