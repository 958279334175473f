package ovn

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// Handling is what ovn-northd computes after a change.
type Handling int

const (
	// Incremental is only what the change concerns.
	Incremental Handling = iota
	// RecomputesFlows is all logical flows.
	RecomputesFlows
	// RecomputesAll is everything.
	RecomputesAll
)

// TableHandling is how ovn-northd handles the changes of the rows of a table.
type TableHandling struct{ Added, Changed, Removed Handling }

// northdHandling has each table that we write. docs/reference/engine-cost.md has the measurements, and a test compares
// both.
var northdHandling = map[string]TableHandling{
	nb.GlobalTable:              {Incremental, Incremental, Incremental},
	nb.LogicalRouterTable:       {RecomputesAll, RecomputesAll, RecomputesAll}, // our rows are its options
	nb.AddressSetTable:          {Incremental, Incremental, Incremental},
	nb.ChassisGroupTable:        {Incremental, RecomputesAll, Incremental},
	nb.LogicalRouterPortTable:   {RecomputesAll, RecomputesAll, RecomputesAll},
	nb.GatewayChassisTable:      {RecomputesAll, RecomputesAll, RecomputesAll},
	nb.StaticMACBindingTable:    {RecomputesAll, RecomputesAll, RecomputesAll},
	nb.LogicalSwitchPortTable:   {RecomputesAll, RecomputesAll, RecomputesAll},
	nb.PortGroupTable:           {RecomputesFlows, RecomputesFlows, RecomputesFlows},
	nb.ACLTable:                 {RecomputesFlows, RecomputesFlows, RecomputesFlows},
	nb.QoSTable:                 {RecomputesAll, RecomputesAll, RecomputesAll},
	nb.LoadBalancerTable:        {Incremental, Incremental, RecomputesAll},
	vipTable:                    {Incremental, Incremental, Incremental},
	nb.HealthCheckTable:         {RecomputesAll, RecomputesAll, RecomputesAll},
	nb.StaticRouteTable:         {RecomputesAll, RecomputesAll, RecomputesAll},
	nb.NATTable:                 {Incremental, Incremental, Incremental},
	nb.LogicalRouterPolicyTable: {RecomputesAll, RecomputesAll, RecomputesAll},
}

// vipTable is the table in the keys of VIPs.
const vipTable = nb.LoadBalancerTable + " " + vipsColumn

// NorthdHandling returns how ovn-northd handles the changes of each table that we write.
func NorthdHandling() map[string]TableHandling { return maps.Clone(northdHandling) }

// handlingOf returns how ovn-northd handles a change. That of an unknown table may be expensive.
func handlingOf(c rowChange, before routerState) Handling {
	h, known := northdHandling[c.Key.Table]
	switch _, there := before.records[c.Key]; {
	case !known || changesHealthCheckedLB(c, before):
		return RecomputesAll
	case c.IsRemoval():
		return h.Removed
	case there:
		return h.Changed
	default:
		return h.Added
	}
}

// changesHealthCheckedLB reports whether a change is one of a load balancer with health checks, or of its VIPs. Only
// those have ip_port_mappings.
func changesHealthCheckedLB(c rowChange, before routerState) bool {
	row := before.records[c.Key].value
	if !c.IsRemoval() {
		row = *c.After
	}
	switch r := row.(type) {
	case intent.LoadBalancer:
		return len(r.IPPortMappings) > 0
	case intent.VIP:
		key := intent.RowKey{Table: nb.LoadBalancerTable, Router: c.Key.Router, ID: r.LoadBalancer}
		b, is := before.records[key].value.(intent.LoadBalancer)
		return is && len(b.IPPortMappings) > 0
	default:
		return false
	}
}

type repairContextKey struct{}

// WithRepair returns a context for writing rows again that somebody else has changed. Such writes do not wait for others:
// until then packets take a wrong path, and only those who may write to OVN can cause them.
func WithRepair(ctx context.Context) context.Context {
	return context.WithValue(ctx, repairContextKey{}, true)
}

// isRepair reports whether a context is one of WithRepair.
func isRepair(ctx context.Context) bool { return ctx.Value(repairContextKey{}) != nil }

// isUrgent reports whether changes do not wait for others, because they decide on which node packets leave after a node
// failed or is drained: all changes of the shard of egress addresses, which must not be waiting when a node fails, and
// changes of gateway chassis. They depend on nodes, EgressIPs and labels of namespaces, which tenants can't write.
func isUrgent(shard string, changes []rowChange) bool {
	return shard == ownership.EgressVpc || slices.ContainsFunc(changes, func(c rowChange) bool {
		return c.Key.Table == nb.GatewayChassisTable
	})
}

// submitRecompute sends a write after which ovn-northd computes everything, together with those of other shards.
func (c *Client) submitRecompute(ctx context.Context, prepare func(context.Context) (*pendingWrite, error)) error {
	var waiting func() func()
	if c.config.OnWait != nil {
		waiting = func() func() { return c.config.OnWait(ctx) }
	}
	return c.recomputes.submit(ctx, waiting, prepare)
}

// RecomputeStats returns how many transactions were sent after which ovn-northd computes everything, and how long shards
// waited for them altogether.
func (c *Client) RecomputeStats() (transactions int64, waited time.Duration) {
	c.recomputes.mu.Lock()
	defer c.recomputes.mu.Unlock()
	return c.recomputes.batches, c.recomputes.waits
}
