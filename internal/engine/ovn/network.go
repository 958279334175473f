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

// Tables that only BuildNetwork reads.
const (
	loadBalancerGroupTable = "Load_Balancer_Group"
	chassisPrivateTable    = "Chassis_Private"
	encapTable             = "Encap"
	macBindingTable        = "MAC_Binding"
	serviceMonitorTable    = "Service_Monitor"
)

const externalIDsColumn = "external_ids"

// northboundColumns are the columns that ReadNorthbound reads.
var northboundColumns = map[string][]string{
	nb.GlobalTable: {nbCfgColumn, "sb_cfg", hvCfgColumn, "options"},
	nb.LogicalRouterTable: {
		"name", "enabled", "ports", "static_routes", "policies", "nat", "load_balancer", "load_balancer_group",
		"options", externalIDsColumn,
	},
	nb.LogicalRouterPortTable: {
		"name", "mac", "networks", "peer", "enabled", "gateway_chassis", "ha_chassis_group", "options",
		externalIDsColumn,
	},
	nb.StaticRouteTable: {
		"route_table", "ip_prefix", "policy", "nexthop", "output_port", "options",
		externalIDsColumn,
	},
	nb.LogicalRouterPolicyTable: {"priority", "match", "action", "nexthop", "nexthops", "options", externalIDsColumn},
	nb.NATTable: {
		"type", "external_ip", "external_mac", "external_port_range", "logical_ip", "logical_port", "gateway_port",
		"allowed_ext_ips",
		"exempted_ext_ips", "priority", "match", "options", externalIDsColumn,
	},
	nb.GatewayChassisTable: {"chassis_name", "priority"},
	nb.ChassisGroupTable:   {"ha_chassis"},
	nb.GroupChassisTable:   {"chassis_name", "priority"},
	nb.LogicalSwitchTable: {
		"name", "ports", "acls", "qos_rules", "load_balancer", "load_balancer_group", "other_config", externalIDsColumn,
	},
	nb.LogicalSwitchPortTable: {
		"name", "type", "addresses", "dynamic_addresses", "port_security", "tag", "enabled", "up", "options",
		externalIDsColumn,
	},
	nb.LoadBalancerTable: {
		"name", "protocol", "vips", "options", "selection_fields", "ip_port_mappings", "health_check",
		externalIDsColumn,
	},
	loadBalancerGroupTable: {"load_balancer"},
	nb.HealthCheckTable:    {"vip"},
	nb.PortGroupTable:      {"name", "ports", "acls", externalIDsColumn},
	nb.ACLTable: {
		"tier", "priority", "direction", "match", "action", "label", "sample_new", "sample_est",
		"name", "options", externalIDsColumn,
	},
	nb.QoSTable:              {"priority", "direction", "match", "action", externalIDsColumn},
	nb.AddressSetTable:       {"name", "addresses"},
	nb.StaticMACBindingTable: {"logical_port", "ip", "mac"},
}

// southboundColumns are the columns that ReadSouthbound reads.
var southboundColumns = map[string][]string{
	sb.ChassisTable:     {"name", "hostname", "encaps", "other_config"},
	chassisPrivateTable: {"name", "nb_cfg"},
	encapTable:          {"type", "ip"},
	sb.PortBindingTable: {"logical_port", "chassis"},
	macBindingTable:     {"logical_port", "ip", "mac"},
	serviceMonitorTable: {"ip", "port", "protocol", "logical_port", "status"},
}

// BuildNetwork converts the tables of both databases. Either may be nil if it could not be read.
func BuildNetwork(north, south *Tables) logical.Network {
	n := networkReader{
		north:         north,
		south:         south,
		chassisByPort: map[string]string{},
		loadBalancers: map[string]logical.LoadBalancer{},
	}
	for _, row := range south.tableRows(sb.PortBindingTable) {
		for _, chassis := range south.referencedNames(row, "chassis") {
			n.chassisByPort[row.stringColumn("logical_port")] = chassis
		}
	}
	out := logical.Network{
		Sets: map[string][]string{}, Chassis: n.readChassis(), Monitors: n.readServiceMonitors(),
		Learned: readNeighbours(south.tableRows(macBindingTable)),
		Static:  readNeighbours(north.tableRows(nb.StaticMACBindingTable)),
	}
	if south != nil {
		out.Schemas.Southbound = south.SchemaVersion
	}
	if north == nil {
		return out
	}
	out.Schemas.Northbound = north.SchemaVersion
	out.Routers = readSortedByName(north.tableRows(nb.LogicalRouterTable), n.readRouter, func(r logical.Router) string {
		return r.Name
	})
	out.Switches = readSortedByName(north.tableRows(nb.LogicalSwitchTable), n.readSwitch,
		func(s logical.Switch) string {
			return s.Name
		})
	out.Groups = readSortedByName(north.tableRows(nb.PortGroupTable), n.readPortGroup,
		func(g logical.PortGroup) string {
			return g.Name
		})
	for _, row := range north.tableRows(nb.AddressSetTable) {
		out.Sets[row.stringColumn("name")] = row.stringSetColumn("addresses")
	}
	for _, row := range north.tableRows(nb.GlobalTable) {
		out.Progress = logical.ConfigProgress{
			Asked:      row.intColumn(nbCfgColumn),
			Translated: row.intColumn("sb_cfg"),
			Done:       row.intColumn(hvCfgColumn),
		}
		out.Options = row.stringMapColumn("options")
	}
	return out
}

// networkReader converts rows. It resolves references between them.
type networkReader struct {
	north, south  *Tables
	chassisByPort map[string]string // name of the chassis by logical port
	loadBalancers map[string]logical.LoadBalancer
}

// readSortedByName converts rows and sorts them by name.
func readSortedByName[V any](rows []ovsdbRow, read func(ovsdbRow) V, name func(V) string) []V {
	return readSorted(rows, read, func(a, b V) int { return strings.Compare(name(a), name(b)) })
}

func readSorted[V any](rows []ovsdbRow, read func(ovsdbRow) V, compare func(a, b V) int) []V {
	var out []V
	for _, row := range rows {
		out = append(out, read(row))
	}
	slices.SortStableFunc(out, compare)
	return out
}

func (n *networkReader) readRouter(r ovsdbRow) logical.Router {
	return logical.Router{
		Name: r.stringColumn("name"), Disabled: !r.boolColumn("enabled", true), Options: r.stringMapColumn("options"),
		IDs: r.stringMapColumn(externalIDsColumn),
		Ports: readSortedByName(n.north.referencedRows(r, "ports"), n.readRouterPort,
			func(p logical.RouterPort) string {
				return p.Name
			}),
		Routes: readSorted(n.north.referencedRows(r, "static_routes"), readStaticRoute,
			func(a, b logical.StaticRoute) int {
				return cmp.Or(cmp.Compare(a.Table, b.Table), a.Prefix.Compare(b.Prefix), a.NextHop.Compare(b.NextHop),
					cmp.Compare(a.Output, b.Output))
			}),
		Policies: readSorted(n.north.referencedRows(r, "policies"), readPolicy, func(a, b logical.RouterPolicy) int {
			return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Match, b.Match),
				cmp.Compare(a.Action, b.Action))
		}),
		NATs: readSorted(n.north.referencedRows(r, "nat"), n.readNAT, func(a, b logical.NAT) int {
			return cmp.Or(cmp.Compare(a.Type, b.Type), a.External.Compare(b.External), a.Logical.Compare(b.Logical),
				cmp.Compare(a.Port, b.Port),
				cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Match, b.Match))
		}),
		Balancers: n.readLoadBalancers(r),
	}
}

func (n *networkReader) readRouterPort(r ovsdbRow) logical.RouterPort {
	out := logical.RouterPort{
		Name: r.stringColumn("name"), MAC: r.stringColumn("mac"), Peer: r.stringColumn("peer"),
		Disabled: !r.boolColumn("enabled", true),
		Options:  r.stringMapColumn("options"), IDs: r.stringMapColumn(externalIDsColumn),
		Holder: n.chassisByPort[sb.ChassisRedirectPrefix+r.stringColumn("name")],
	}
	for _, text := range r.stringSetColumn("networks") {
		out.Networks = append(out.Networks, parsePrefix(text))
	}
	chassis := n.north.referencedRows(r, "gateway_chassis")
	for _, group := range n.north.referencedRows(r, "ha_chassis_group") {
		chassis = append(chassis, n.north.referencedRows(group, "ha_chassis")...)
	}
	slices.SortStableFunc(chassis, func(a, b ovsdbRow) int {
		return cmp.Or(cmp.Compare(b.intColumn("priority"), a.intColumn("priority")),
			strings.Compare(a.stringColumn("chassis_name"), b.stringColumn("chassis_name")))
	})
	for _, c := range chassis {
		out.Chassis = append(out.Chassis, c.stringColumn("chassis_name"))
	}
	return out
}

func readStaticRoute(r ovsdbRow) logical.StaticRoute {
	return logical.StaticRoute{
		Table: r.stringColumn("route_table"), Prefix: parsePrefix(r.stringColumn("ip_prefix")),
		BySource: r.stringColumn("policy") == "src-ip",
		NextHop:  parseAddr(r.stringColumn("nexthop")), Output: r.stringColumn("output_port"),
		Options: r.stringMapColumn("options"), IDs: r.stringMapColumn(externalIDsColumn),
	}
}

func readPolicy(r ovsdbRow) logical.RouterPolicy {
	out := logical.RouterPolicy{
		Priority: r.intColumn("priority"), Match: r.stringColumn("match"), Action: r.stringColumn("action"),
		Options: r.stringMapColumn("options"), IDs: r.stringMapColumn(externalIDsColumn),
	}
	hops := r.stringSetColumn("nexthops")
	if len(hops) == 0 {
		hops = r.stringSetColumn("nexthop")
	}
	for _, hop := range hops {
		out.NextHops = append(out.NextHops, parseAddr(hop))
	}
	return out
}

func (n *networkReader) readNAT(r ovsdbRow) logical.NAT {
	return logical.NAT{
		Type: r.stringColumn("type"), External: parseAddr(r.stringColumn("external_ip")),
		Logical: parsePrefix(r.stringColumn("logical_ip")),
		Port:    firstOrEmpty(n.north.referencedNames(r, "gateway_port")), LogicalPort: r.stringColumn("logical_port"),
		ExternalMAC: r.stringColumn("external_mac"),
		PortRange:   r.stringColumn("external_port_range"), Match: r.stringColumn("match"),
		Priority: r.intColumn("priority"),
		Allowed:  firstOrEmpty(n.north.referencedNames(r, "allowed_ext_ips")),
		Exempted: firstOrEmpty(n.north.referencedNames(r, "exempted_ext_ips")),
		Options:  r.stringMapColumn("options"), IDs: r.stringMapColumn(externalIDsColumn),
	}
}

func firstOrEmpty(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// readLoadBalancers returns the load balancers of a router or switch, including those of its load balancer groups.
func (n *networkReader) readLoadBalancers(r ovsdbRow) []logical.LoadBalancer {
	rows := n.north.referencedRows(r, "load_balancer")
	for _, group := range n.north.referencedRows(r, "load_balancer_group") {
		rows = append(rows, n.north.referencedRows(group, "load_balancer")...)
	}
	return readSortedByName(rows, n.readLoadBalancer, func(b logical.LoadBalancer) string { return b.Name })
}

// readLoadBalancer converts each load balancer only once: those of a VPC are on all of its switches.
func (n *networkReader) readLoadBalancer(r ovsdbRow) logical.LoadBalancer {
	if known, there := n.loadBalancers[r.uuid()]; there {
		return known
	}
	out := logical.LoadBalancer{
		Name: r.stringColumn("name"), Protocol: r.stringColumn("protocol"), Options: r.stringMapColumn("options"),
		Fields:   r.stringSetColumn("selection_fields"),
		Mappings: r.stringMapColumn("ip_port_mappings"), IDs: r.stringMapColumn(externalIDsColumn),
	}
	for vip, backends := range r.stringMapColumn("vips") {
		v := logical.VIP{Address: parseAddrPort(vip)}
		for backend := range strings.SplitSeq(backends, ",") {
			if s := parseAddrPort(strings.TrimSpace(backend)); s.IsValid() {
				v.Backends = append(v.Backends, s)
			}
		}
		slices.SortFunc(v.Backends, netip.AddrPort.Compare)
		out.VIPs = append(out.VIPs, v)
	}
	slices.SortFunc(out.VIPs, func(a, b logical.VIP) int { return a.Address.Compare(b.Address) })
	for _, check := range n.north.referencedRows(r, "health_check") {
		out.Checked = append(out.Checked, check.stringColumn("vip"))
	}
	slices.Sort(out.Checked)
	n.loadBalancers[r.uuid()] = out
	return out
}

// parseAddrPort parses an address with an optional port. Without a port it returns port 0.
func parseAddrPort(text string) netip.AddrPort {
	if s, err := netip.ParseAddrPort(text); err == nil {
		return s
	}
	return netip.AddrPortFrom(parseAddr(strings.Trim(text, "[]")), 0)
}

func (n *networkReader) readSwitch(r ovsdbRow) logical.Switch {
	return logical.Switch{
		Name: r.stringColumn("name"), Options: r.stringMapColumn("other_config"),
		IDs: r.stringMapColumn(externalIDsColumn), Balancers: n.readLoadBalancers(r), ACLs: n.readACLs(r),
		Ports: readSortedByName(n.north.referencedRows(r, "ports"), n.readSwitchPort,
			func(p logical.SwitchPort) string {
				return p.Name
			}),
		QoS: readSorted(n.north.referencedRows(r, "qos_rules"), readQoS, func(a, b logical.QoS) int {
			return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Direction, b.Direction),
				cmp.Compare(a.Match, b.Match))
		}),
	}
}

func (n *networkReader) readSwitchPort(r ovsdbRow) logical.SwitchPort {
	out := logical.SwitchPort{
		Name: r.stringColumn("name"), Type: r.stringColumn("type"), Security: r.stringSetColumn("port_security"),
		Tag:      r.intColumn("tag"),
		Disabled: !r.boolColumn("enabled", true), Up: r.boolColumn("up", false), Options: r.stringMapColumn("options"),
		IDs:     r.stringMapColumn(externalIDsColumn),
		Chassis: n.chassisByPort[r.stringColumn("name")],
	}
	switch out.Type {
	case nb.RouterPortType:
		out.Router = out.Options["router-port"]
	case "localnet":
		out.Localnet = out.Options["network_name"]
	}
	for _, text := range append(r.stringSetColumn("addresses"), r.stringSetColumn("dynamic_addresses")...) {
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

func (n *networkReader) readPortGroup(r ovsdbRow) logical.PortGroup {
	return logical.PortGroup{
		Name:  r.stringColumn("name"),
		Ports: n.north.referencedNames(r, "ports"),
		ACLs:  n.readACLs(r),
		IDs:   r.stringMapColumn(externalIDsColumn),
	}
}

// readACLs returns the ACLs of a switch or port group in order of evaluation.
func (n *networkReader) readACLs(r ovsdbRow) []logical.ACL {
	return readSorted(n.north.referencedRows(r, "acls"), readACL, func(a, b logical.ACL) int {
		return cmp.Or(cmp.Compare(a.Direction, b.Direction), cmp.Compare(a.Tier, b.Tier),
			cmp.Compare(b.Priority, a.Priority),
			cmp.Compare(a.Match, b.Match), cmp.Compare(a.Action, b.Action))
	})
}

func readACL(r ovsdbRow) logical.ACL {
	return logical.ACL{
		Tier: r.intColumn("tier"), Priority: r.intColumn("priority"), Direction: r.stringColumn("direction"),
		Match: r.stringColumn("match"), Action: r.stringColumn("action"),
		Label: r.intColumn("label"), Sampled: len(r.uuidColumn("sample_new"))+len(r.uuidColumn("sample_est")) > 0,
		Name: r.stringColumn("name"), Options: r.stringMapColumn("options"), IDs: r.stringMapColumn(externalIDsColumn),
	}
}

func readQoS(r ovsdbRow) logical.QoS {
	return logical.QoS{
		Priority: r.intColumn("priority"), Direction: r.stringColumn("direction"), Match: r.stringColumn("match"),
		Action: r.intMapColumn("action"), IDs: r.stringMapColumn(externalIDsColumn),
	}
}

func (n *networkReader) readChassis() []logical.Chassis {
	seen := map[string]int{}
	for _, row := range n.south.tableRows(chassisPrivateTable) {
		seen[row.stringColumn("name")] = row.intColumn("nb_cfg")
	}
	return readSortedByName(n.south.tableRows(sb.ChassisTable), func(r ovsdbRow) logical.Chassis {
		out := logical.Chassis{
			Name:    r.stringColumn("name"),
			Host:    r.stringColumn("hostname"),
			Options: r.stringMapColumn("other_config"),
			Seen:    seen[r.stringColumn("name")],
		}
		for _, e := range n.south.referencedRows(r, "encaps") {
			out.Encaps = append(out.Encaps, e.stringColumn("type")+" "+e.stringColumn("ip"))
		}
		slices.Sort(out.Encaps)
		return out
	}, func(c logical.Chassis) string { return c.Name })
}

func readNeighbours(rows []ovsdbRow) []logical.MACBinding {
	return readSorted(rows, func(r ovsdbRow) logical.MACBinding {
		return logical.MACBinding{
			Port:    r.stringColumn("logical_port"),
			Address: parseAddr(r.stringColumn("ip")),
			MAC:     r.stringColumn("mac"),
		}
	}, func(a, b logical.MACBinding) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), a.Address.Compare(b.Address), cmp.Compare(a.MAC, b.MAC))
	})
}

func (n *networkReader) readServiceMonitors() []logical.ServiceMonitor {
	return readSorted(n.south.tableRows(serviceMonitorTable), func(r ovsdbRow) logical.ServiceMonitor {
		return logical.ServiceMonitor{
			Address:  netip.AddrPortFrom(parseAddr(r.stringColumn("ip")), uint16(r.intColumn("port"))), //nolint:gosec // OVN's schema allows at most 65535
			Protocol: r.stringColumn("protocol"), Port: r.stringColumn("logical_port"),
			Status: r.stringColumn("status"),
		}
	}, func(a, b logical.ServiceMonitor) int {
		return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
	})
}
