package ovn

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/logical"
	"github.com/sallyport/sallyport/internal/ovn/nb"
	"github.com/sallyport/sallyport/internal/ovn/sb"
)

// Tables of which nobody else here needs to know.
const (
	balancerGroupTable  = "Load_Balancer_Group"
	chassisPrivateTable = "Chassis_Private"
	encapTable          = "Encap"
	learnedTable        = "MAC_Binding"
	monitorTable        = "Service_Monitor"
)

const idsColumn = "external_ids" // the column in which rows say whose they are

// northbound is the columns that are read.
var northbound = map[string][]string{
	nb.GlobalTable: {askedColumn, "sb_cfg", doneColumn, "options"},
	nb.LogicalRouterTable: {
		"name", "enabled", "ports", "static_routes", "policies", "nat", "load_balancer", "load_balancer_group", "options", idsColumn,
	},
	nb.LogicalRouterPortTable: {
		"name", "mac", "networks", "peer", "enabled", "gateway_chassis", "ha_chassis_group", "options", idsColumn,
	},
	nb.StaticRouteTable:         {"route_table", "ip_prefix", "policy", "nexthop", "output_port", "options", idsColumn},
	nb.LogicalRouterPolicyTable: {"priority", "match", "action", "nexthop", "nexthops", "options", idsColumn},
	nb.NATTable: {
		"type", "external_ip", "external_mac", "external_port_range", "logical_ip", "logical_port", "gateway_port", "allowed_ext_ips",
		"exempted_ext_ips", "priority", "match", "options", idsColumn,
	},
	nb.GatewayChassisTable: {"chassis_name", "priority"},
	nb.ChassisGroupTable:   {"ha_chassis"},
	nb.GroupChassisTable:   {"chassis_name", "priority"},
	nb.LogicalSwitchTable: {
		"name", "ports", "acls", "qos_rules", "load_balancer", "load_balancer_group", "other_config", idsColumn,
	},
	nb.LogicalSwitchPortTable: {
		"name", "type", "addresses", "dynamic_addresses", "port_security", "tag", "enabled", "up", "options", idsColumn,
	},
	nb.LoadBalancerTable: {
		"name", "protocol", "vips", "options", "selection_fields", "ip_port_mappings", "health_check", idsColumn,
	},
	balancerGroupTable:       {"load_balancer"},
	nb.HealthCheckTable:      {"vip"},
	nb.PortGroupTable:        {"name", "ports", "acls", idsColumn},
	nb.ACLTable:              {"tier", "priority", "direction", "match", "action", "label", "sample_new", "sample_est", "name", "options", idsColumn},
	nb.QoSTable:              {"priority", "direction", "match", "action", idsColumn},
	nb.AddressSetTable:       {"name", "addresses"},
	nb.StaticMACBindingTable: {"logical_port", "ip", "mac"},
}

// southbound is the same of the other database.
var southbound = map[string][]string{
	sb.ChassisTable:     {"name", "hostname", "encaps", "other_config"},
	chassisPrivateTable: {"name", "nb_cfg"},
	encapTable:          {"type", "ip"},
	sb.PortBindingTable: {"logical_port", "chassis"},
	learnedTable:        {"logical_port", "ip", "mac"},
	monitorTable:        {"ip", "port", "protocol", "logical_port", "status"},
}

// Network is what the tables of both databases say. Either may be nil, when it could not be read.
func Network(north, south *Tables) logical.Network {
	n := reading{north: north, south: south, places: map[string]string{}, balancers: map[string]logical.Balancer{}}
	for _, row := range south.get(sb.PortBindingTable) {
		for _, chassis := range south.names(row, "chassis") {
			n.places[row.text("logical_port")] = chassis
		}
	}
	out := logical.Network{
		Sets: map[string][]string{}, Chassis: n.chassis(), Monitors: n.monitors(),
		Learned: neighbours(south.get(learnedTable)), Static: neighbours(north.get(nb.StaticMACBindingTable)),
	}
	if south != nil {
		out.Schemas.Southbound = south.Schema
	}
	if north == nil {
		return out
	}
	out.Schemas.Northbound = north.Schema
	out.Routers = byName(north.get(nb.LogicalRouterTable), n.router, func(r logical.Router) string { return r.Name })
	out.Switches = byName(north.get(nb.LogicalSwitchTable), n.logicalSwitch, func(s logical.Switch) string { return s.Name })
	out.Groups = byName(north.get(nb.PortGroupTable), n.group, func(g logical.Group) string { return g.Name })
	for _, row := range north.get(nb.AddressSetTable) {
		out.Sets[row.text("name")] = row.texts("addresses")
	}
	for _, row := range north.get(nb.GlobalTable) {
		out.Progress = logical.Progress{Asked: row.number(askedColumn), Translated: row.number("sb_cfg"), Done: row.number(doneColumn)}
		out.Options = row.pairs("options")
	}
	return out
}

// reading is the reading of both databases' tables.
type reading struct {
	north, south *Tables
	places       map[string]string // chassis by port
	balancers    map[string]logical.Balancer
}

// byName reads rows, in the order of a name.
func byName[V any](rows []tuple, read func(tuple) V, name func(V) string) []V {
	return ordered(rows, read, func(a, b V) int { return strings.Compare(name(a), name(b)) })
}

func ordered[V any](rows []tuple, read func(tuple) V, compare func(a, b V) int) []V {
	var out []V
	for _, row := range rows {
		out = append(out, read(row))
	}
	slices.SortStableFunc(out, compare)
	return out
}

func (n *reading) router(r tuple) logical.Router {
	return logical.Router{
		Name: r.text("name"), Disabled: !r.is("enabled", true), Options: r.pairs("options"), IDs: r.pairs(idsColumn),
		Ports: byName(n.north.refs(r, "ports"), n.routerPort, func(p logical.RouterPort) string { return p.Name }),
		Routes: ordered(n.north.refs(r, "static_routes"), route, func(a, b logical.Route) int {
			return cmp.Or(cmp.Compare(a.Table, b.Table), a.Prefix.Compare(b.Prefix), a.NextHop.Compare(b.NextHop), cmp.Compare(a.Output, b.Output))
		}),
		Policies: ordered(n.north.refs(r, "policies"), policy, func(a, b logical.Policy) int {
			return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Match, b.Match), cmp.Compare(a.Action, b.Action))
		}),
		NATs: ordered(n.north.refs(r, "nat"), n.translation, func(a, b logical.NAT) int {
			return cmp.Or(cmp.Compare(a.Type, b.Type), a.External.Compare(b.External), a.Logical.Compare(b.Logical), cmp.Compare(a.Port, b.Port),
				cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Match, b.Match))
		}),
		Balancers: n.balancersOf(r),
	}
}

func (n *reading) routerPort(r tuple) logical.RouterPort {
	out := logical.RouterPort{
		Name: r.text("name"), MAC: r.text("mac"), Peer: r.text("peer"), Disabled: !r.is("enabled", true),
		Options: r.pairs("options"), IDs: r.pairs(idsColumn), Holder: n.places[sb.HeldPrefix+r.text("name")],
	}
	for _, text := range r.texts("networks") {
		out.Networks = append(out.Networks, prefix(text))
	}
	chassis := n.north.refs(r, "gateway_chassis")
	for _, group := range n.north.refs(r, "ha_chassis_group") {
		chassis = append(chassis, n.north.refs(group, "ha_chassis")...)
	}
	slices.SortStableFunc(chassis, func(a, b tuple) int {
		return cmp.Or(cmp.Compare(b.number("priority"), a.number("priority")), strings.Compare(a.text("chassis_name"), b.text("chassis_name")))
	})
	for _, c := range chassis {
		out.Chassis = append(out.Chassis, c.text("chassis_name"))
	}
	return out
}

func route(r tuple) logical.Route {
	return logical.Route{
		Table: r.text("route_table"), Prefix: prefix(r.text("ip_prefix")), BySource: r.text("policy") == "src-ip",
		NextHop: address(r.text("nexthop")), Output: r.text("output_port"), Options: r.pairs("options"), IDs: r.pairs(idsColumn),
	}
}

func policy(r tuple) logical.Policy {
	out := logical.Policy{
		Priority: r.number("priority"), Match: r.text("match"), Action: r.text("action"), Options: r.pairs("options"), IDs: r.pairs(idsColumn),
	}
	hops := r.texts("nexthops")
	if len(hops) == 0 {
		hops = r.texts("nexthop")
	}
	for _, hop := range hops {
		out.NextHops = append(out.NextHops, address(hop))
	}
	return out
}

func (n *reading) translation(r tuple) logical.NAT {
	return logical.NAT{
		Type: r.text("type"), External: address(r.text("external_ip")), Logical: prefix(r.text("logical_ip")),
		Port: first(n.north.names(r, "gateway_port")), LogicalPort: r.text("logical_port"), ExternalMAC: r.text("external_mac"),
		PortRange: r.text("external_port_range"), Match: r.text("match"), Priority: r.number("priority"),
		Allowed: first(n.north.names(r, "allowed_ext_ips")), Exempted: first(n.north.names(r, "exempted_ext_ips")),
		Options: r.pairs("options"), IDs: r.pairs(idsColumn),
	}
}

func first(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// balancersOf are the load balancers of a router or a switch, its own and those of groups.
func (n *reading) balancersOf(r tuple) []logical.Balancer {
	rows := n.north.refs(r, "load_balancer")
	for _, group := range n.north.refs(r, "load_balancer_group") {
		rows = append(rows, n.north.refs(group, "load_balancer")...)
	}
	return byName(rows, n.balancer, func(b logical.Balancer) string { return b.Name })
}

// balancer reads a load balancer once: those of a VPC are on each of its switches.
func (n *reading) balancer(r tuple) logical.Balancer {
	if known, there := n.balancers[r.id()]; there {
		return known
	}
	out := logical.Balancer{
		Name: r.text("name"), Protocol: r.text("protocol"), Options: r.pairs("options"), Fields: r.texts("selection_fields"),
		Mappings: r.pairs("ip_port_mappings"), IDs: r.pairs(idsColumn),
	}
	for vip, backends := range r.pairs("vips") {
		v := logical.VIP{Address: socket(vip)}
		for backend := range strings.SplitSeq(backends, ",") {
			if s := socket(strings.TrimSpace(backend)); s.IsValid() {
				v.Backends = append(v.Backends, s)
			}
		}
		slices.SortFunc(v.Backends, netip.AddrPort.Compare)
		out.VIPs = append(out.VIPs, v)
	}
	slices.SortFunc(out.VIPs, func(a, b logical.VIP) int { return a.Address.Compare(b.Address) })
	for _, check := range n.north.refs(r, "health_check") {
		out.Checked = append(out.Checked, check.text("vip"))
	}
	slices.Sort(out.Checked)
	n.balancers[r.id()] = out
	return out
}

// socket reads an address with a port; one without has port 0.
func socket(text string) netip.AddrPort {
	if s, err := netip.ParseAddrPort(text); err == nil {
		return s
	}
	return netip.AddrPortFrom(address(strings.Trim(text, "[]")), 0)
}

func (n *reading) logicalSwitch(r tuple) logical.Switch {
	return logical.Switch{
		Name: r.text("name"), Options: r.pairs("other_config"), IDs: r.pairs(idsColumn), Balancers: n.balancersOf(r), ACLs: n.acls(r),
		Ports: byName(n.north.refs(r, "ports"), n.switchPort, func(p logical.SwitchPort) string { return p.Name }),
		QoS: ordered(n.north.refs(r, "qos_rules"), quality, func(a, b logical.QoS) int {
			return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Direction, b.Direction), cmp.Compare(a.Match, b.Match))
		}),
	}
}

func (n *reading) switchPort(r tuple) logical.SwitchPort {
	out := logical.SwitchPort{
		Name: r.text("name"), Type: r.text("type"), Security: r.texts("port_security"), Tag: r.number("tag"),
		Disabled: !r.is("enabled", true), Up: r.is("up", false), Options: r.pairs("options"), IDs: r.pairs(idsColumn),
		Chassis: n.places[r.text("name")],
	}
	switch out.Type {
	case nb.RouterPort:
		out.Router = out.Options["router-port"]
	case "localnet":
		out.Localnet = out.Options["network_name"]
	}
	for _, text := range append(r.texts("addresses"), r.texts("dynamic_addresses")...) {
		for word := range strings.FieldsSeq(text) {
			switch a := address(word); {
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

func (n *reading) group(r tuple) logical.Group {
	return logical.Group{Name: r.text("name"), Ports: n.north.names(r, "ports"), ACLs: n.acls(r), IDs: r.pairs(idsColumn)}
}

// acls are the rules of a switch or a port group, in the order in which they apply.
func (n *reading) acls(r tuple) []logical.ACL {
	return ordered(n.north.refs(r, "acls"), acl, func(a, b logical.ACL) int {
		return cmp.Or(cmp.Compare(a.Direction, b.Direction), cmp.Compare(a.Tier, b.Tier), cmp.Compare(b.Priority, a.Priority),
			cmp.Compare(a.Match, b.Match), cmp.Compare(a.Action, b.Action))
	})
}

func acl(r tuple) logical.ACL {
	return logical.ACL{
		Tier: r.number("tier"), Priority: r.number("priority"), Direction: r.text("direction"), Match: r.text("match"), Action: r.text("action"),
		Label: r.number("label"), Sampled: len(r.ids("sample_new"))+len(r.ids("sample_est")) > 0,
		Name: r.text("name"), Options: r.pairs("options"), IDs: r.pairs(idsColumn),
	}
}

func quality(r tuple) logical.QoS {
	return logical.QoS{
		Priority: r.number("priority"), Direction: r.text("direction"), Match: r.text("match"), Action: r.numbers("action"), IDs: r.pairs(idsColumn),
	}
}

func (n *reading) chassis() []logical.Chassis {
	seen := map[string]int{}
	for _, row := range n.south.get(chassisPrivateTable) {
		seen[row.text("name")] = row.number("nb_cfg")
	}
	return byName(n.south.get(sb.ChassisTable), func(r tuple) logical.Chassis {
		out := logical.Chassis{Name: r.text("name"), Host: r.text("hostname"), Options: r.pairs("other_config"), Seen: seen[r.text("name")]}
		for _, e := range n.south.refs(r, "encaps") {
			out.Encaps = append(out.Encaps, e.text("type")+" "+e.text("ip"))
		}
		slices.Sort(out.Encaps)
		return out
	}, func(c logical.Chassis) string { return c.Name })
}

func neighbours(rows []tuple) []logical.Neighbour {
	return ordered(rows, func(r tuple) logical.Neighbour {
		return logical.Neighbour{Port: r.text("logical_port"), Address: address(r.text("ip")), MAC: r.text("mac")}
	}, func(a, b logical.Neighbour) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), a.Address.Compare(b.Address), cmp.Compare(a.MAC, b.MAC))
	})
}

func (n *reading) monitors() []logical.Monitor {
	return ordered(n.south.get(monitorTable), func(r tuple) logical.Monitor {
		return logical.Monitor{
			Address:  netip.AddrPortFrom(address(r.text("ip")), uint16(r.number("port"))), //nolint:gosec // OVN's schema allows at most 65535
			Protocol: r.text("protocol"), Port: r.text("logical_port"), Status: r.text("status"),
		}
	}, func(a, b logical.Monitor) int {
		return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
	})
}
