package ovn

import (
	"testing"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// newRowChange returns the change of a row from before to after, which may be nil.
func newRowChange(before, after intent.Row) rowChange {
	var c rowChange
	if before != nil {
		c.Key, c.Before = before.Key("acme"), &before
	}
	if after != nil {
		c.Key, c.After = after.Key("acme"), &after
	}
	return c
}

func TestHandlingOfChanges(t *testing.T) {
	plain := intent.LoadBalancer{Name: "acme-lb-tcp-0", Protocol: intent.TCP}
	checked := intent.LoadBalancer{
		Name: "acme-web-tcp", Service: "acme/web", Protocol: intent.TCP,
		IPPortMappings: []intent.IPPortMapping{{}},
	}
	records := map[intent.RowKey]record{}
	for _, b := range []intent.LoadBalancer{plain, checked} {
		records[b.Key("acme")] = record{value: b}
	}
	vip := intent.VIP{LoadBalancer: plain.ID(), Protocol: intent.TCP}
	checkedVIP := intent.VIP{LoadBalancer: checked.ID(), Protocol: intent.TCP}
	policy := intent.LogicalRouterPolicy{Priority: 1}
	for title, k := range map[string]struct {
		change rowChange
		want   Handling
	}{
		"a VIP comes":                            {newRowChange(nil, vip), Incremental},
		"a VIP of a checked load balancer comes": {newRowChange(nil, checkedVIP), RecomputesAll},
		"a load balancer changes":                {newRowChange(plain, plain), Incremental},
		"a checked load balancer changes":        {newRowChange(checked, checked), RecomputesAll},
		"a load balancer is removed":             {newRowChange(plain, nil), RecomputesAll},
		"a policy comes":                         {newRowChange(nil, policy), RecomputesAll},
		"an ACL comes":                           {newRowChange(nil, intent.ACL{}), RecomputesFlows},
		"a NAT comes":                            {newRowChange(nil, aFIP), Incremental},
		"a row of an unknown table": {
			rowChange{Key: intent.RowKey{Table: "New_Table"}, After: new(intent.Row)}, RecomputesAll,
		},
	} {
		if got := handlingOf(k.change, routerState{records: records}); got != k.want {
			t.Errorf("%s: got %d, wanted %d", title, got, k.want)
		}
	}
}

func TestUrgentChanges(t *testing.T) {
	chassis := newRowChange(nil, intent.GatewayChassis{Port: "p", Chassis: "a"})
	policy := newRowChange(nil, intent.LogicalRouterPolicy{Priority: 1})
	if !isUrgent("ovn-cluster", []rowChange{policy, chassis}) || !isUrgent(ownership.EgressVpc, []rowChange{policy}) {
		t.Error("changes after which packets leave from another node wait")
	}
	if isUrgent("acme", []rowChange{policy}) {
		t.Error("a policy of a project is urgent")
	}
}

// Each table that rows may be in has an entry: an unknown one would be limited without need.
func TestEveryTableHasAHandling(t *testing.T) {
	for _, row := range []intent.Row{
		aPort, aBinding, aFIP, aSNAT, aSwitchPort,
		intent.LogicalRouterPolicy{},
		intent.QoS{},
		intent.ACL{},
		intent.PortGroup{},
		intent.AddressSet{},
		intent.LoadBalancer{},
		intent.VIP{},
		intent.LoadBalancerHealthCheck{},
		intent.LogicalRouterStaticRoute{},
		intent.GatewayChassis{},
		intent.HAChassisGroup{},
		intent.NBGlobalOption{},
		intent.RouterPortNetworks{},
		intent.RowOption{Table: nb.LogicalRouterTable},
	} {
		if _, known := northdHandling[row.Key("acme").Table]; !known {
			t.Errorf("%T: no handling of %s", row, row.Key("acme").Table)
		}
	}
}
