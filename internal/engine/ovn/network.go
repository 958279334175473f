package ovn

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/engine/ovn/sb"
	"github.com/sallyport/sallyport/internal/model/logical"
)

// BuildNetwork converts the tables of both databases. Either may be nil if it could not be read.
func BuildNetwork(north, south *Tables) logical.Network {
	n := networkBuilder{
		north:         north,
		south:         south,
		chassisByPort: map[string]string{},
		loadBalancers: map[string]logical.LoadBalancer{},
	}
	for _, row := range tableRows[portBindingRow](south, sb.PortBindingTable) {
		for _, chassis := range south.referencedNames(row.Chassis) {
			n.chassisByPort[row.LogicalPort] = chassis
		}
	}
	out := logical.Network{
		Sets: map[string][]string{}, Chassis: n.buildChassis(), Monitors: n.buildServiceMonitors(),
		Learned: buildNeighbours(tableRows[nb.StaticMACBinding](south, macBindingTable)),
		Static:  buildNeighbours(tableRows[nb.StaticMACBinding](north, nb.StaticMACBindingTable)),
	}
	if south != nil {
		out.Schemas.Southbound = south.SchemaVersion
	}
	if north == nil {
		return out
	}
	out.Schemas.Northbound = north.SchemaVersion
	out.Routers = convertByName(tableRows[routerRow](north, nb.LogicalRouterTable), n.buildRouter,
		func(r logical.Router) string { return r.Name })
	out.Switches = convertByName(tableRows[switchRow](north, nb.LogicalSwitchTable), n.buildSwitch,
		func(s logical.Switch) string { return s.Name })
	out.Groups = convertByName(tableRows[portGroupRow](north, nb.PortGroupTable), n.buildPortGroup,
		func(g logical.PortGroup) string { return g.Name })
	for _, row := range tableRows[nb.AddressSet](north, nb.AddressSetTable) {
		out.Sets[row.Name] = row.Addresses
	}
	for _, row := range tableRows[globalRow](north, nb.GlobalTable) {
		out.Progress = logical.ConfigProgress{Asked: row.Asked, Translated: row.Translated, Done: row.Done}
		out.Options = row.Options
	}
	return out
}

// networkBuilder converts rows. It resolves references between them.
type networkBuilder struct {
	north, south  *Tables
	chassisByPort map[string]string // name of the chassis by logical port
	loadBalancers map[string]logical.LoadBalancer
}

// convertByName converts rows and sorts them by name.
func convertByName[M, V any](rows []*M, convert func(*M) V, name func(V) string) []V {
	return convertSorted(rows, convert, func(a, b V) int { return strings.Compare(name(a), name(b)) })
}

func convertSorted[M, V any](rows []*M, convert func(*M) V, compare func(a, b V) int) []V {
	var out []V
	for _, row := range rows {
		out = append(out, convert(row))
	}
	slices.SortStableFunc(out, compare)
	return out
}

func valueOrZero[T any](p *T) (zero T) {
	if p == nil {
		return zero
	}
	return *p
}

// isDisabled reads a column enabled, which is empty unless somebody sets it.
func isDisabled(enabled *bool) bool { return enabled != nil && !*enabled }

func (n *networkBuilder) buildRouter(r *routerRow) logical.Router {
	return logical.Router{
		Name: r.Name, Disabled: isDisabled(r.Enabled), Options: r.Options, IDs: r.ExternalIDs,
		Ports: convertByName(referencedRows[routerPortRow](n.north, r.Ports), n.buildRouterPort,
			func(p logical.RouterPort) string { return p.Name }),
		Routes: convertSorted(referencedRows[staticRouteRow](n.north, r.StaticRoutes), buildStaticRoute,
			func(a, b logical.StaticRoute) int {
				return cmp.Or(cmp.Compare(a.Table, b.Table), a.Prefix.Compare(b.Prefix), a.NextHop.Compare(b.NextHop),
					cmp.Compare(a.Output, b.Output))
			}),
		Policies: convertSorted(referencedRows[policyRow](n.north, r.Policies), buildPolicy,
			func(a, b logical.RouterPolicy) int {
				return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Match, b.Match),
					cmp.Compare(a.Action, b.Action))
			}),
		NATs: convertSorted(referencedRows[natRow](n.north, r.NAT), n.buildNAT, func(a, b logical.NAT) int {
			return cmp.Or(cmp.Compare(a.Type, b.Type), a.External.Compare(b.External), a.Logical.Compare(b.Logical),
				cmp.Compare(a.Port, b.Port),
				cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Match, b.Match))
		}),
		Balancers: n.buildLoadBalancers(r.LoadBalancers, r.LoadBalancerGroups),
	}
}

func (n *networkBuilder) buildRouterPort(r *routerPortRow) logical.RouterPort {
	out := logical.RouterPort{
		Name: r.Name, MAC: r.MAC, Peer: valueOrZero(r.Peer), Disabled: isDisabled(r.Enabled), Options: r.Options,
		IDs: r.ExternalIDs, Holder: n.chassisByPort[sb.ChassisRedirectPrefix+r.Name],
	}
	for _, text := range r.Networks {
		out.Networks = append(out.Networks, parsePrefix(text))
	}
	var chassis []nb.GroupChassis
	for _, c := range referencedRows[nb.GatewayChassis](n.north, r.GatewayChassis) {
		chassis = append(chassis, nb.GroupChassis{ChassisName: c.ChassisName, Priority: c.Priority})
	}
	if r.Group != nil {
		for _, group := range referencedRows[nb.ChassisGroup](n.north, []string{*r.Group}) {
			for _, c := range referencedRows[nb.GroupChassis](n.north, group.Chassis) {
				chassis = append(chassis, *c)
			}
		}
	}
	slices.SortStableFunc(chassis, func(a, b nb.GroupChassis) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), strings.Compare(a.ChassisName, b.ChassisName))
	})
	for _, c := range chassis {
		out.Chassis = append(out.Chassis, c.ChassisName)
	}
	return out
}

func buildStaticRoute(r *staticRouteRow) logical.StaticRoute {
	return logical.StaticRoute{
		Table: r.RouteTable, Prefix: parsePrefix(r.IPPrefix), BySource: r.Policy == "src-ip",
		NextHop: parseAddr(r.Nexthop), Output: valueOrZero(r.OutputPort), Options: r.Options, IDs: r.ExternalIDs,
	}
}

func buildPolicy(r *policyRow) logical.RouterPolicy {
	out := logical.RouterPolicy{
		Priority: r.Priority, Match: r.Match, Action: r.Action, Options: r.Options, IDs: r.ExternalIDs,
	}
	hops := r.Nexthops
	if len(hops) == 0 && r.Nexthop != nil {
		hops = []string{*r.Nexthop}
	}
	for _, hop := range hops {
		out.NextHops = append(out.NextHops, parseAddr(hop))
	}
	return out
}

func (n *networkBuilder) buildNAT(r *natRow) logical.NAT {
	out := logical.NAT{
		Type: r.Type, External: parseAddr(r.ExternalIP), Logical: parsePrefix(r.LogicalIP), LogicalPort: r.LogicalPort,
		ExternalMAC: r.ExternalMAC, PortRange: r.PortRange, Match: r.Match, Priority: r.Priority,
		Allowed:  firstOrEmpty(n.north.referencedNames(r.Allowed)),
		Exempted: firstOrEmpty(n.north.referencedNames(r.Exempted)),
		Options:  r.Options, IDs: r.ExternalIDs,
	}
	if r.GatewayPort != nil {
		out.Port = firstOrEmpty(n.north.referencedNames([]string{*r.GatewayPort}))
	}
	return out
}

func firstOrEmpty(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// buildLoadBalancers returns the load balancers of a router or switch, including those of its load balancer groups.
func (n *networkBuilder) buildLoadBalancers(own, groups []string) []logical.LoadBalancer {
	uuids := slices.Clone(own)
	for _, group := range referencedRows[loadBalancerGroupRow](n.north, groups) {
		uuids = append(uuids, group.LoadBalancers...)
	}
	var out []logical.LoadBalancer
	for _, uuid := range uuids {
		if b, there := n.buildLoadBalancer(uuid); there {
			out = append(out, b)
		}
	}
	slices.SortStableFunc(out, func(a, b logical.LoadBalancer) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// buildLoadBalancer converts each load balancer only once: those of a VPC are on all of its switches.
func (n *networkBuilder) buildLoadBalancer(uuid string) (logical.LoadBalancer, bool) {
	if known, there := n.loadBalancers[uuid]; there {
		return known, true
	}
	rows := referencedRows[loadBalancerRow](n.north, []string{uuid})
	if len(rows) == 0 {
		return logical.LoadBalancer{}, false
	}
	r := rows[0]
	out := logical.LoadBalancer{
		Name: r.Name, Protocol: valueOrZero(r.Protocol), Options: r.Options, Fields: r.SelectionFields,
		Mappings: r.IPPortMappings, IDs: r.ExternalIDs, VIPs: buildVIPs(r.VIPs),
	}
	for _, check := range referencedRows[nb.HealthCheck](n.north, r.HealthChecks) {
		out.Checked = append(out.Checked, check.VIP)
	}
	slices.Sort(out.Checked)
	n.loadBalancers[uuid] = out
	return out, true
}

func buildVIPs(vips map[string]string) (out []logical.VIP) {
	for vip, backends := range vips {
		v := logical.VIP{Address: parseAddrPort(vip)}
		for backend := range strings.SplitSeq(backends, ",") {
			if s := parseAddrPort(strings.TrimSpace(backend)); s.IsValid() {
				v.Backends = append(v.Backends, s)
			}
		}
		slices.SortFunc(v.Backends, netip.AddrPort.Compare)
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b logical.VIP) int { return a.Address.Compare(b.Address) })
	return out
}

// parseAddrPort parses an address with an optional port. Without a port it returns port 0.
func parseAddrPort(text string) netip.AddrPort {
	if s, err := netip.ParseAddrPort(text); err == nil {
		return s
	}
	return netip.AddrPortFrom(parseAddr(strings.Trim(text, "[]")), 0)
}

func (n *networkBuilder) buildSwitch(r *switchRow) logical.Switch {
	return logical.Switch{
		Name: r.Name, Options: r.OtherConfig, IDs: r.ExternalIDs,
		Balancers: n.buildLoadBalancers(r.LoadBalancers, r.LoadBalancerGroups), ACLs: n.buildACLs(r.ACLs),
		Ports: convertByName(referencedRows[switchPortRow](n.north, r.Ports), n.buildSwitchPort,
			func(p logical.SwitchPort) string { return p.Name }),
		QoS: convertSorted(referencedRows[nb.QoS](n.north, r.QoSRules), buildQoS, func(a, b logical.QoS) int {
			return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Direction, b.Direction),
				cmp.Compare(a.Match, b.Match))
		}),
	}
}

func (n *networkBuilder) buildSwitchPort(r *switchPortRow) logical.SwitchPort {
	out := logical.SwitchPort{
		Name: r.Name, Type: r.Type, Security: r.Security, Tag: r.Tag, Disabled: isDisabled(r.Enabled), Up: r.Up,
		Options: r.Options, IDs: r.ExternalIDs, Chassis: n.chassisByPort[r.Name],
	}
	switch out.Type {
	case nb.RouterPortType:
		out.Router = out.Options["router-port"]
	case "localnet":
		out.Localnet = out.Options["network_name"]
	}
	for _, text := range slices.Concat(r.Addresses, r.DynamicAddresses) {
		for word := range strings.FieldsSeq(text) {
			switch a := parseAddr(word); {
			case a.IsValid():
				out.Addresses = append(out.Addresses, a)
			case word == "unknown":
				out.Unknown = true
			case strings.Contains(word, ":"):
				out.MAC = word
			}
		}
	}
	return out
}

func (n *networkBuilder) buildPortGroup(r *portGroupRow) logical.PortGroup {
	return logical.PortGroup{
		Name: r.Name, Ports: n.north.referencedNames(r.Ports), ACLs: n.buildACLs(r.ACLs), IDs: r.ExternalIDs,
	}
}

// buildACLs returns the ACLs of a switch or port group in order of evaluation.
func (n *networkBuilder) buildACLs(uuids []string) []logical.ACL {
	return convertSorted(referencedRows[aclRow](n.north, uuids), buildACL, func(a, b logical.ACL) int {
		return cmp.Or(cmp.Compare(a.Direction, b.Direction), cmp.Compare(a.Tier, b.Tier),
			cmp.Compare(b.Priority, a.Priority),
			cmp.Compare(a.Match, b.Match), cmp.Compare(a.Action, b.Action))
	})
}

func buildACL(r *aclRow) logical.ACL {
	return logical.ACL{
		Tier: r.Tier, Priority: r.Priority, Direction: r.Direction, Match: r.Match, Action: r.Action, Label: r.Label,
		Sampled: len(r.SampleNew)+len(r.SampleEst) > 0, Name: r.Name, Options: r.Options, IDs: r.ExternalIDs,
	}
}

func buildQoS(r *nb.QoS) logical.QoS {
	return logical.QoS{
		Priority: r.Priority, Direction: r.Direction, Match: r.Match, Action: r.Action, IDs: r.ExternalIDs,
	}
}

func (n *networkBuilder) buildChassis() []logical.Chassis {
	seen := map[string]int{}
	for _, row := range tableRows[chassisPrivateRow](n.south, chassisPrivateTable) {
		seen[row.Name] = row.Seen
	}
	return convertByName(tableRows[chassisRow](n.south, sb.ChassisTable), func(r *chassisRow) logical.Chassis {
		out := logical.Chassis{Name: r.Name, Host: r.Hostname, Options: r.OtherConfig, Seen: seen[r.Name]}
		for _, e := range referencedRows[encapRow](n.south, r.Encaps) {
			out.Encaps = append(out.Encaps, e.Type+" "+e.IP)
		}
		slices.Sort(out.Encaps)
		return out
	}, func(c logical.Chassis) string { return c.Name })
}

func buildNeighbours(rows []*nb.StaticMACBinding) []logical.MACBinding {
	return convertSorted(rows, func(r *nb.StaticMACBinding) logical.MACBinding {
		return logical.MACBinding{Port: r.LogicalPort, Address: parseAddr(r.IP), MAC: r.MAC}
	}, func(a, b logical.MACBinding) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), a.Address.Compare(b.Address), cmp.Compare(a.MAC, b.MAC))
	})
}

func (n *networkBuilder) buildServiceMonitors() []logical.ServiceMonitor {
	return convertSorted(tableRows[serviceMonitorRow](n.south, serviceMonitorTable),
		func(r *serviceMonitorRow) logical.ServiceMonitor {
			return logical.ServiceMonitor{
				Address:  netip.AddrPortFrom(parseAddr(r.IP), uint16(r.Port)), //nolint:gosec // OVN's schema allows at most 65535
				Protocol: r.Protocol, Port: r.LogicalPort, Status: r.Status,
			}
		}, func(a, b logical.ServiceMonitor) int {
			return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
		})
}
