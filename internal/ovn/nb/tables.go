package nb

import (
	"maps"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/model"
)

// LogicalRouter is a router. Rows in its sets exist as long as they are in the set.
type LogicalRouter struct {
	UUID     string   `ovsdb:"_uuid"`
	Name     string   `ovsdb:"name"`
	Ports    []string `ovsdb:"ports"`
	NAT      []string `ovsdb:"nat"`
	Policies []string `ovsdb:"policies"`
}

// LogicalRouterPort is a port of a router. Names are unique in the database.
type LogicalRouterPort struct {
	UUID        string            `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	MAC         string            `ovsdb:"mac"`
	Networks    []string          `ovsdb:"networks"`
	Peer        *string           `ovsdb:"peer"`
	Options     map[string]string `ovsdb:"options"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// StaticMACBinding is the MAC address of an address behind a port. Port and address are unique together; no set holds it, so
// it outlives its port.
type StaticMACBinding struct {
	UUID               string `ovsdb:"_uuid"`
	LogicalPort        string `ovsdb:"logical_port"`
	IP                 string `ovsdb:"ip"`
	MAC                string `ovsdb:"mac"`
	OverrideDynamicMAC bool   `ovsdb:"override_dynamic_mac"`
}

// NAT is an address translation of a router.
type NAT struct {
	UUID        string            `ovsdb:"_uuid"`
	Type        string            `ovsdb:"type"`
	ExternalIP  string            `ovsdb:"external_ip"`
	LogicalIP   string            `ovsdb:"logical_ip"`
	Options     map[string]string `ovsdb:"options"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// LogicalRouterPolicy is a policy of a router.
type LogicalRouterPolicy struct {
	UUID        string            `ovsdb:"_uuid"`
	Priority    int               `ovsdb:"priority"`
	Match       string            `ovsdb:"match"`
	Action      string            `ovsdb:"action"`
	Nexthop     *string           `ovsdb:"nexthop"` // OVN's older form of Nexthops
	Nexthops    []string          `ovsdb:"nexthops"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// LoadBalancer is a load balancer, of which we need to know only that it is there.
type LoadBalancer struct {
	UUID string `ovsdb:"_uuid"`
	Name string `ovsdb:"name"`
}

// AddressSet is a set of addresses, of which we need to know only whose it is. Names are unique in the database.
type AddressSet struct {
	UUID        string            `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

// LogicalSwitchPort is a port by which a switch leads to a router: an option names the router's port. Names are unique in the
// database.
type LogicalSwitchPort struct {
	UUID    string            `ovsdb:"_uuid"`
	Name    string            `ovsdb:"name"`
	Type    string            `ovsdb:"type"`
	Options map[string]string `ovsdb:"options"`
}

// libovsdb copies rows on their way in and out of its cache, by way of JSON unless the model can copy itself.

// CloneModel copies the row.
func (r *LogicalRouter) CloneModel() model.Model {
	c := *r
	c.Ports, c.NAT, c.Policies = slices.Clone(r.Ports), slices.Clone(r.NAT), slices.Clone(r.Policies)
	return &c
}

// CloneModelInto copies the row into another.
func (r *LogicalRouter) CloneModelInto(to model.Model) {
	*to.(*LogicalRouter) = *r.CloneModel().(*LogicalRouter)
}

// CloneModel copies the row.
func (p *LogicalRouterPort) CloneModel() model.Model {
	c := *p
	c.Networks, c.Peer = slices.Clone(p.Networks), text(p.Peer)
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
func (n *NAT) CloneModel() model.Model {
	c := *n
	c.Options, c.ExternalIDs = maps.Clone(n.Options), maps.Clone(n.ExternalIDs)
	return &c
}

// CloneModelInto copies the row into another.
func (n *NAT) CloneModelInto(to model.Model) { *to.(*NAT) = *n.CloneModel().(*NAT) }

// CloneModel copies the row.
func (p *LogicalRouterPolicy) CloneModel() model.Model {
	c := *p
	c.Nexthop, c.Nexthops, c.ExternalIDs = text(p.Nexthop), slices.Clone(p.Nexthops), maps.Clone(p.ExternalIDs)
	return &c
}

// CloneModelInto copies the row into another.
func (p *LogicalRouterPolicy) CloneModelInto(to model.Model) {
	*to.(*LogicalRouterPolicy) = *p.CloneModel().(*LogicalRouterPolicy)
}

// CloneModel copies the row.
func (b *LoadBalancer) CloneModel() model.Model {
	c := *b
	return &c
}

// CloneModelInto copies the row into another.
func (b *LoadBalancer) CloneModelInto(to model.Model) {
	*to.(*LoadBalancer) = *b.CloneModel().(*LoadBalancer)
}

// CloneModel copies the row.
func (a *AddressSet) CloneModel() model.Model {
	c := *a
	c.ExternalIDs = maps.Clone(a.ExternalIDs)
	return &c
}

// CloneModelInto copies the row into another.
func (a *AddressSet) CloneModelInto(to model.Model) {
	*to.(*AddressSet) = *a.CloneModel().(*AddressSet)
}

// CloneModel copies the row.
func (p *LogicalSwitchPort) CloneModel() model.Model {
	c := *p
	c.Options = maps.Clone(p.Options)
	return &c
}

// CloneModelInto copies the row into another.
func (p *LogicalSwitchPort) CloneModelInto(to model.Model) {
	*to.(*LogicalSwitchPort) = *p.CloneModel().(*LogicalSwitchPort)
}

// text copies an optional text.
func text(s *string) *string {
	if s == nil {
		return nil
	}
	c := *s
	return &c
}
