package nb

import (
	"maps"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/model"
)

// Global is the single row of NB_Global.
type Global struct {
	UUID        string            `ovsdb:"_uuid"`
	Options     map[string]string `ovsdb:"options"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// LogicalRouter is a router. ovsdb-server deletes rows that are no longer in its sets.
type LogicalRouter struct {
	UUID     string   `ovsdb:"_uuid"`
	Name     string   `ovsdb:"name"`
	Ports    []string `ovsdb:"ports"`
	NAT      []string `ovsdb:"nat"`
	Policies []string `ovsdb:"policies"`
	// Load balancers exist on their own.
	LoadBalancers []string          `ovsdb:"load_balancer"`
	Options       map[string]string `ovsdb:"options"`
}

// LogicalSwitch is a switch. We need only its load balancers.
type LogicalSwitch struct {
	UUID          string   `ovsdb:"_uuid"`
	Name          string   `ovsdb:"name"`
	LoadBalancers []string `ovsdb:"load_balancer"`
}

// LogicalRouterPort is a port of a router. Names are unique in the database.
type LogicalRouterPort struct {
	UUID        string            `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	MAC         string            `ovsdb:"mac"`
	Networks    []string          `ovsdb:"networks"`
	Peer        *string           `ovsdb:"peer"`
	Group       *string           `ovsdb:"ha_chassis_group"`
	Options     map[string]string `ovsdb:"options"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// GatewayChassis is a chassis that a router port may be bound to. Names are unique in the database.
type GatewayChassis struct {
	UUID        string            `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	ChassisName string            `ovsdb:"chassis_name"`
	Priority    int               `ovsdb:"priority"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// ChassisGroup is a group of chassis that router ports may be bound to. Of those that are up, OVN selects the one with
// the highest priority. Names are unique in the database.
type ChassisGroup struct {
	UUID        string            `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	Chassis     []string          `ovsdb:"ha_chassis"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// GroupChassis is a member of a chassis group.
type GroupChassis struct {
	UUID        string            `ovsdb:"_uuid"`
	ChassisName string            `ovsdb:"chassis_name"`
	Priority    int               `ovsdb:"priority"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// StaticMACBinding is a static neighbour entry of a router port. The pair of port and address is unique. No set refers
// to the row, so it outlives its port.
type StaticMACBinding struct {
	UUID               string `ovsdb:"_uuid"`
	LogicalPort        string `ovsdb:"logical_port"`
	IP                 string `ovsdb:"ip"`
	MAC                string `ovsdb:"mac"`
	OverrideDynamicMAC bool   `ovsdb:"override_dynamic_mac"`
}

// NAT is a NAT rule of a router.
type NAT struct {
	UUID        string            `ovsdb:"_uuid"`
	Type        string            `ovsdb:"type"`
	ExternalIP  string            `ovsdb:"external_ip"`
	LogicalIP   string            `ovsdb:"logical_ip"`
	GatewayPort *string           `ovsdb:"gateway_port"`
	Match       string            `ovsdb:"match"`
	Priority    int               `ovsdb:"priority"` // only with a match
	Options     map[string]string `ovsdb:"options"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// LogicalRouterPolicy is a policy of a router.
type LogicalRouterPolicy struct {
	UUID        string            `ovsdb:"_uuid"`
	Priority    int               `ovsdb:"priority"`
	Match       string            `ovsdb:"match"`
	Action      string            `ovsdb:"action"`
	Nexthop     *string           `ovsdb:"nexthop"` // older form of Nexthops
	Nexthops    []string          `ovsdb:"nexthops"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// LoadBalancer is a load balancer. Of those that Kube-OVN creates for each VPC, we need only their names.
type LoadBalancer struct {
	UUID           string            `ovsdb:"_uuid"`
	Name           string            `ovsdb:"name"`
	Protocol       *string           `ovsdb:"protocol"`
	VIPs           map[string]string `ovsdb:"vips"`
	Options        map[string]string `ovsdb:"options"`
	IPPortMappings map[string]string `ovsdb:"ip_port_mappings"`
	ExternalIDs    map[string]string `ovsdb:"external_ids"`
}

// AddressSet is a set of addresses. Names are unique in the database.
type AddressSet struct {
	UUID        string            `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	Addresses   []string          `ovsdb:"addresses"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// LogicalSwitchPort is a port of a switch. It belongs to a pod, which Kube-OVN writes to external_ids, or leads to the
// router port that an option names. Names are unique in the database.
type LogicalSwitchPort struct {
	UUID        string            `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	Type        string            `ovsdb:"type"`
	Addresses   []string          `ovsdb:"addresses"`
	Options     map[string]string `ovsdb:"options"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// The cache holds only our own rows of the following tables.

// PortGroup is a group of switch ports. Names are unique in the database.
type PortGroup struct {
	UUID        string            `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	Ports       []string          `ovsdb:"ports"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// HealthCheck is the health check of one VIP of a load balancer.
type HealthCheck struct {
	UUID        string            `ovsdb:"_uuid"`
	VIP         string            `ovsdb:"vip"`
	Options     map[string]string `ovsdb:"options"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// ACL is an ACL of a port group.
type ACL struct {
	UUID        string            `ovsdb:"_uuid"`
	Tier        int               `ovsdb:"tier"`
	Priority    int               `ovsdb:"priority"`
	Direction   string            `ovsdb:"direction"`
	Match       string            `ovsdb:"match"`
	Action      string            `ovsdb:"action"`
	Label       int               `ovsdb:"label"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// QoS is a rule of a switch that sets the packet mark.
type QoS struct {
	UUID        string            `ovsdb:"_uuid"`
	Priority    int               `ovsdb:"priority"`
	Direction   string            `ovsdb:"direction"`
	Match       string            `ovsdb:"match"`
	Action      map[string]int    `ovsdb:"action"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// StaticRoute is a static route of a router.
type StaticRoute struct {
	UUID        string            `ovsdb:"_uuid"`
	RouteTable  string            `ovsdb:"route_table"`
	IPPrefix    string            `ovsdb:"ip_prefix"`
	Nexthop     string            `ovsdb:"nexthop"`
	OutputPort  *string           `ovsdb:"output_port"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// libovsdb copies rows in and out of its cache. It uses JSON unless the model implements the methods below.

// CloneModel copies the row.
func (g *Global) CloneModel() model.Model {
	c := *g
	c.Options, c.ExternalIDs = maps.Clone(g.Options), maps.Clone(g.ExternalIDs)
	return &c
}

// CloneModelInto copies the row into another.
func (g *Global) CloneModelInto(to model.Model) { *to.(*Global) = *g.CloneModel().(*Global) }

// CloneModel copies the row.
func (r *LogicalRouter) CloneModel() model.Model {
	c := *r
	c.Ports, c.NAT, c.Policies = slices.Clone(r.Ports), slices.Clone(r.NAT), slices.Clone(r.Policies)
	c.LoadBalancers, c.Options = slices.Clone(r.LoadBalancers), maps.Clone(r.Options)
	return &c
}

// CloneModelInto copies the row into another.
func (r *LogicalRouter) CloneModelInto(to model.Model) {
	*to.(*LogicalRouter) = *r.CloneModel().(*LogicalRouter)
}

// CloneModel copies the row.
func (p *LogicalRouterPort) CloneModel() model.Model {
	c := *p
	c.Networks, c.Peer, c.Group = slices.Clone(p.Networks), cloneString(p.Peer), cloneString(p.Group)
	c.Options, c.ExternalIDs = maps.Clone(p.Options), maps.Clone(p.ExternalIDs)
	return &c
}

// CloneModelInto copies the row into another.
func (p *LogicalRouterPort) CloneModelInto(to model.Model) {
	*to.(*LogicalRouterPort) = *p.CloneModel().(*LogicalRouterPort)
}

// CloneModel copies the row.
func (b *StaticMACBinding) CloneModel() model.Model {
	c := *b
	return &c
}

// CloneModelInto copies the row into another.
func (b *StaticMACBinding) CloneModelInto(to model.Model) {
	*to.(*StaticMACBinding) = *b.CloneModel().(*StaticMACBinding)
}

// CloneModel copies the row.
func (g *ChassisGroup) CloneModel() model.Model {
	c := *g
	c.Chassis, c.ExternalIDs = slices.Clone(g.Chassis), maps.Clone(g.ExternalIDs)
	return &c
}

// CloneModelInto copies the row into another.
func (g *ChassisGroup) CloneModelInto(to model.Model) {
	*to.(*ChassisGroup) = *g.CloneModel().(*ChassisGroup)
}

// CloneModel copies the row.
func (g *GroupChassis) CloneModel() model.Model {
	c := *g
	c.ExternalIDs = maps.Clone(g.ExternalIDs)
	return &c
}

// CloneModelInto copies the row into another.
func (g *GroupChassis) CloneModelInto(to model.Model) {
	*to.(*GroupChassis) = *g.CloneModel().(*GroupChassis)
}

// CloneModel copies the row.
func (n *NAT) CloneModel() model.Model {
	c := *n
	c.GatewayPort, c.Options, c.ExternalIDs = cloneString(n.GatewayPort), maps.Clone(n.Options),
		maps.Clone(n.ExternalIDs)
	return &c
}

// CloneModelInto copies the row into another.
func (n *NAT) CloneModelInto(to model.Model) { *to.(*NAT) = *n.CloneModel().(*NAT) }

// CloneModel copies the row.
func (p *LogicalRouterPolicy) CloneModel() model.Model {
	c := *p
	c.Nexthop, c.Nexthops, c.ExternalIDs = cloneString(p.Nexthop), slices.Clone(p.Nexthops), maps.Clone(p.ExternalIDs)
	return &c
}

// CloneModelInto copies the row into another.
func (p *LogicalRouterPolicy) CloneModelInto(to model.Model) {
	*to.(*LogicalRouterPolicy) = *p.CloneModel().(*LogicalRouterPolicy)
}

// CloneModel copies the row.
func (l *LogicalSwitch) CloneModel() model.Model {
	c := *l
	c.LoadBalancers = slices.Clone(l.LoadBalancers)
	return &c
}

// CloneModelInto copies the row into another.
func (l *LogicalSwitch) CloneModelInto(to model.Model) {
	*to.(*LogicalSwitch) = *l.CloneModel().(*LogicalSwitch)
}

// CloneModel copies the row.
func (b *LoadBalancer) CloneModel() model.Model {
	c := *b
	c.Protocol, c.VIPs, c.Options = cloneString(b.Protocol), maps.Clone(b.VIPs), maps.Clone(b.Options)
	c.IPPortMappings, c.ExternalIDs = maps.Clone(b.IPPortMappings), maps.Clone(b.ExternalIDs)
	return &c
}

// CloneModelInto copies the row into another.
func (b *LoadBalancer) CloneModelInto(to model.Model) {
	*to.(*LoadBalancer) = *b.CloneModel().(*LoadBalancer)
}

// CloneModel copies the row.
func (h *HealthCheck) CloneModel() model.Model {
	c := *h
	c.Options, c.ExternalIDs = maps.Clone(h.Options), maps.Clone(h.ExternalIDs)
	return &c
}

// CloneModelInto copies the row into another.
func (h *HealthCheck) CloneModelInto(to model.Model) {
	*to.(*HealthCheck) = *h.CloneModel().(*HealthCheck)
}

// CloneModel copies the row.
func (a *AddressSet) CloneModel() model.Model {
	c := *a
	c.Addresses, c.ExternalIDs = slices.Clone(a.Addresses), maps.Clone(a.ExternalIDs)
	return &c
}

// CloneModelInto copies the row into another.
func (a *AddressSet) CloneModelInto(to model.Model) {
	*to.(*AddressSet) = *a.CloneModel().(*AddressSet)
}

// CloneModel copies the row.
func (p *LogicalSwitchPort) CloneModel() model.Model {
	c := *p
	c.Addresses, c.Options, c.ExternalIDs = slices.Clone(p.Addresses), maps.Clone(p.Options), maps.Clone(p.ExternalIDs)
	return &c
}

// CloneModelInto copies the row into another.
func (p *LogicalSwitchPort) CloneModelInto(to model.Model) {
	*to.(*LogicalSwitchPort) = *p.CloneModel().(*LogicalSwitchPort)
}

// CloneModel copies the row.
func (g *PortGroup) CloneModel() model.Model {
	c := *g
	c.Ports, c.ExternalIDs = slices.Clone(g.Ports), maps.Clone(g.ExternalIDs)
	return &c
}

// CloneModelInto copies the row into another.
func (g *PortGroup) CloneModelInto(to model.Model) { *to.(*PortGroup) = *g.CloneModel().(*PortGroup) }

// CloneModel copies the row.
func (a *ACL) CloneModel() model.Model {
	c := *a
	c.ExternalIDs = maps.Clone(a.ExternalIDs)
	return &c
}

// CloneModelInto copies the row into another.
func (a *ACL) CloneModelInto(to model.Model) { *to.(*ACL) = *a.CloneModel().(*ACL) }

// CloneModel copies the row.
func (q *QoS) CloneModel() model.Model {
	c := *q
	c.Action, c.ExternalIDs = maps.Clone(q.Action), maps.Clone(q.ExternalIDs)
	return &c
}

// CloneModelInto copies the row into another.
func (q *QoS) CloneModelInto(to model.Model) { *to.(*QoS) = *q.CloneModel().(*QoS) }

// CloneModel copies the row.
func (r *StaticRoute) CloneModel() model.Model {
	c := *r
	c.OutputPort, c.ExternalIDs = cloneString(r.OutputPort), maps.Clone(r.ExternalIDs)
	return &c
}

// CloneModelInto copies the row into another.
func (r *StaticRoute) CloneModelInto(to model.Model) {
	*to.(*StaticRoute) = *r.CloneModel().(*StaticRoute)
}

func cloneString(s *string) *string {
	if s == nil {
		return nil
	}
	c := *s
	return &c
}
