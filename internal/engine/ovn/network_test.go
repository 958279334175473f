package ovn

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/sallyport/sallyport/internal/model/logical"
)

// parseTables returns tables as sent by a server: a set of one is encoded as a plain value.
func parseTables(t *testing.T, text string) *Tables {
	t.Helper()
	var rows map[string][]ovsdb.Row
	if err := json.Unmarshal([]byte(text), &rows); err != nil {
		t.Fatal(err)
	}
	out := &Tables{rows: map[string][]ovsdb.Row{}, byUUID: map[string]ovsdb.Row{}}
	for table, list := range rows {
		for _, row := range list {
			out.rows[table] = append(out.rows[table], row)
			out.byUUID[rowUUID(row)] = row
		}
	}
	return out
}

const (
	northboundJSON = `{
"NB_Global": [{"_uuid": ["uuid", "1"], "nb_cfg": 7, "sb_cfg": 7, "hv_cfg": 6, "options": ["map", [["mac_prefix", "0a:5a"]]]}],
"Logical_Router": [{"_uuid": ["uuid", "2"], "name": "shop", "enabled": ["set", []], "ports": ["uuid", "3"], "nat": ["set", [["uuid", "4"], ["uuid", "5"]]],
  "static_routes": ["uuid", "6"], "policies": ["set", [["uuid", "7"], ["uuid", "8"]]], "load_balancer": ["set", []], "load_balancer_group": ["uuid", "9"],
  "options": ["map", []], "external_ids": ["map", [["sallyport-owner", "Project/acme/shop"]]]}],
"Logical_Router_Port": [{"_uuid": ["uuid", "3"], "name": "shop-ext", "mac": "0a:5a:00:00:00:01", "networks": ["set", ["203.0.113.7/24", "2001:db8::7/64"]],
  "enabled": false, "gateway_chassis": ["set", []], "ha_chassis_group": ["uuid", "10"]}],
"HA_Chassis_Group": [{"_uuid": ["uuid", "10"], "ha_chassis": ["set", [["uuid", "11"], ["uuid", "12"]]]}],
"HA_Chassis": [{"_uuid": ["uuid", "11"], "chassis_name": "node1", "priority": 10}, {"_uuid": ["uuid", "12"], "chassis_name": "node2", "priority": 20}],
"NAT": [{"_uuid": ["uuid", "4"], "type": "snat", "external_ip": "203.0.113.7", "logical_ip": "10.0.0.0/16", "gateway_port": ["uuid", "3"], "priority": 3},
  {"_uuid": ["uuid", "5"], "type": "dnat_and_snat", "external_ip": "203.0.113.9", "logical_ip": "10.0.0.5", "exempted_ext_ips": ["uuid", "13"]}],
"Address_Set": [{"_uuid": ["uuid", "13"], "name": "near", "addresses": ["set", ["10.1.0.0/16", "10.0.0.0/16"]]}],
"Logical_Router_Static_Route": [{"_uuid": ["uuid", "6"], "route_table": "", "ip_prefix": "10.0.0.0/16", "policy": "src-ip", "nexthop": "discard", "output_port": ["set", []]}],
"Logical_Router_Policy": [{"_uuid": ["uuid", "7"], "priority": 10, "match": "ip4", "action": "reroute", "nexthop": "203.0.113.1", "nexthops": ["set", []]},
  {"_uuid": ["uuid", "8"], "priority": 20, "match": "ip4", "action": "allow", "nexthop": ["set", []], "nexthops": ["set", []]}],
"Load_Balancer_Group": [{"_uuid": ["uuid", "9"], "load_balancer": ["uuid", "14"]}],
"Load_Balancer": [{"_uuid": ["uuid", "14"], "name": "lb", "protocol": "udp", "health_check": ["uuid", "15"],
  "vips": ["map", [["[2001:db8::9]:53", "[fd00::5]:53,[fd00::4]:53"], ["203.0.113.8:53", ""], ["203.0.113.10", "10.0.0.5"]]]}],
"Load_Balancer_Health_Check": [{"_uuid": ["uuid", "15"], "vip": "203.0.113.8:53"}],
"Logical_Switch": [{"_uuid": ["uuid", "20"], "name": "inside", "ports": ["set", [["uuid", "21"], ["uuid", "22"], ["uuid", "23"]]], "acls": ["uuid", "24"], "qos_rules": ["uuid", "25"],
  "load_balancer": ["uuid", "14"], "other_config": ["map", []]}],
"Logical_Switch_Port": [{"_uuid": ["uuid", "21"], "name": "web.shop", "type": "", "addresses": "0a:00:00:00:00:05 10.0.0.5 fd00::5", "up": true, "port_security": "0a:00:00:00:00:05"},
  {"_uuid": ["uuid", "22"], "name": "to-shop", "type": "router", "addresses": "router", "options": ["map", [["router-port", "shop-inside"]]]},
  {"_uuid": ["uuid", "23"], "name": "wire", "type": "localnet", "addresses": "unknown", "tag": 100, "enabled": true, "options": ["map", [["network_name", "ext"]]]}],
"ACL": [{"_uuid": ["uuid", "24"], "priority": 1001, "direction": "to-lport", "match": "ip4", "action": "drop", "tier": 2, "label": 1398800385, "name": ["set", []], "sample_new": ["set", []],
  "sample_est": ["uuid", "28"]}],
"QoS": [{"_uuid": ["uuid", "25"], "priority": 5, "direction": "from-lport", "match": "ip4", "action": ["map", [["mark", 1397751808]]]}],
"Port_Group": [{"_uuid": ["uuid", "26"], "name": "guarded", "ports": ["set", [["uuid", "22"], ["uuid", "21"]]], "acls": ["uuid", "24"]}],
"Static_MAC_Binding": [{"_uuid": ["uuid", "27"], "logical_port": "shop-ext", "ip": "203.0.113.1", "mac": "0a:5a:00:00:00:02"}]}`
	southboundJSON = `{
"Chassis": [{"_uuid": ["uuid", "31"], "name": "node2", "hostname": "two", "encaps": ["uuid", "32"]}],
"Encap": [{"_uuid": ["uuid", "32"], "type": "geneve", "ip": "172.31.0.2"}],
"Chassis_Private": [{"_uuid": ["uuid", "33"], "name": "node2", "nb_cfg": 6}],
"Port_Binding": [{"_uuid": ["uuid", "34"], "logical_port": "cr-shop-ext", "chassis": ["uuid", "31"]}, {"_uuid": ["uuid", "35"], "logical_port": "web.shop", "chassis": ["uuid", "31"]},
  {"_uuid": ["uuid", "36"], "logical_port": "wire", "chassis": ["set", []]}],
"MAC_Binding": [{"_uuid": ["uuid", "37"], "logical_port": "shop-ext", "ip": "203.0.113.99", "mac": "0a:00:00:00:00:99"}],
"Service_Monitor": [{"_uuid": ["uuid", "38"], "ip": "10.0.0.5", "port": 53, "protocol": "udp", "logical_port": "web.shop", "status": "offline"}]}`
)

func TestNetworkIsReadAsTheDatabasesHaveIt(t *testing.T) {
	n := BuildNetwork(parseTables(t, northboundJSON), parseTables(t, southboundJSON))
	router, inside := n.Router("shop"), n.Switch("inside")
	if router == nil || inside == nil {
		t.Fatalf("%+v", n)
	}
	addr, prefix, socket := netip.MustParseAddr, netip.MustParsePrefix, netip.MustParseAddrPort
	port := logical.RouterPort{
		Name: "shop-ext", MAC: "0a:5a:00:00:00:01", Networks: []netip.Prefix{prefix("2001:db8::7/64"), prefix("203.0.113.7/24")}, Disabled: true,
		Chassis: []string{"node2", "node1"}, Holder: "node2",
	}
	balancer := logical.LoadBalancer{
		Name: "lb", Protocol: "udp", Checked: []string{"203.0.113.8:53"}, VIPs: []logical.VIP{
			{Address: socket("203.0.113.8:53")},
			{Address: socket("203.0.113.10:0"), Backends: []netip.AddrPort{socket("10.0.0.5:0")}},
			{Address: socket("[2001:db8::9]:53"), Backends: []netip.AddrPort{socket("[fd00::4]:53"), socket("[fd00::5]:53")}},
		},
	}
	rule := logical.ACL{Tier: 2, Priority: 1001, Direction: "to-lport", Match: "ip4", Action: "drop", Label: 1398800385, Sampled: true}
	for what, pair := range map[string][2]any{
		"ports": {router.Ports, []logical.RouterPort{port}},
		"routes": {router.Routes, []logical.StaticRoute{
			{Prefix: prefix("10.0.0.0/16"), BySource: true},
		}},
		"policies": {router.Policies, []logical.RouterPolicy{
			{Priority: 20, Match: "ip4", Action: "allow"}, {Priority: 10, Match: "ip4", Action: "reroute", NextHops: []netip.Addr{addr("203.0.113.1")}},
		}},
		"translations": {router.NATs, []logical.NAT{
			{Type: "dnat_and_snat", External: addr("203.0.113.9"), Logical: prefix("10.0.0.5/32"), Exempted: "near"},
			{Type: "snat", External: addr("203.0.113.7"), Logical: prefix("10.0.0.0/16"), Port: "shop-ext", Priority: 3},
		}},
		"load balancers of a group": {router.Balancers, []logical.LoadBalancer{balancer}},
		"load balancers":            {inside.Balancers, []logical.LoadBalancer{balancer}},
		"switch ports": {inside.Ports, []logical.SwitchPort{
			{Name: "to-shop", Type: "router", Router: "shop-inside", Options: map[string]string{"router-port": "shop-inside"}},
			{
				Name: "web.shop", MAC: "0a:00:00:00:00:05", Addresses: []netip.Addr{addr("10.0.0.5"), addr("fd00::5")},
				Security: []string{"0a:00:00:00:00:05"}, Up: true, Chassis: "node2",
			},
			{Name: "wire", Type: "localnet", Unknown: true, Localnet: "ext", Tag: 100, Options: map[string]string{"network_name": "ext"}},
		}},
		"rules":      {inside.ACLs, []logical.ACL{rule}},
		"marks":      {inside.QoS, []logical.QoS{{Priority: 5, Direction: "from-lport", Match: "ip4", Action: map[string]int{"mark": 1397751808}}}},
		"groups":     {n.Groups, []logical.PortGroup{{Name: "guarded", Ports: []string{"to-shop", "web.shop"}, ACLs: []logical.ACL{rule}}}},
		"sets":       {n.Sets, map[string][]string{"near": {"10.0.0.0/16", "10.1.0.0/16"}}},
		"chassis":    {n.Chassis, []logical.Chassis{{Name: "node2", Host: "two", Encaps: []string{"geneve 172.31.0.2"}, Seen: 6}}},
		"learned":    {n.Learned, []logical.MACBinding{{Port: "shop-ext", Address: addr("203.0.113.99"), MAC: "0a:00:00:00:00:99"}}},
		"neighbours": {n.Static, []logical.MACBinding{{Port: "shop-ext", Address: addr("203.0.113.1"), MAC: "0a:5a:00:00:00:02"}}},
		"monitors":   {n.Monitors, []logical.ServiceMonitor{{Address: socket("10.0.0.5:53"), Protocol: "udp", Port: "web.shop", Status: "offline"}}},
		"progress":   {n.Progress, logical.ConfigProgress{Asked: 7, Translated: 7, Done: 6}},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", what, pair[0], pair[1])
		}
	}
	if owner := router.IDs.Owner(); owner.Kind != "Project" || owner.Name != "shop" {
		t.Errorf("the router is %s's", owner)
	}
}

// If one database is missing, the other is still converted.
func TestNetworkOfOneDatabase(t *testing.T) {
	n := BuildNetwork(parseTables(t, northboundJSON), nil)
	if r := n.Router("shop"); r == nil || r.Ports[0].Holder != "" || len(n.Chassis) > 0 || n.Progress.Asked != 7 {
		t.Errorf("without the southbound database: %+v", n)
	}
	n = BuildNetwork(nil, parseTables(t, southboundJSON))
	if len(n.Routers) > 0 || !slices.ContainsFunc(n.Chassis, func(c logical.Chassis) bool { return c.Seen == 6 }) {
		t.Errorf("without the northbound database: %+v", n)
	}
}
