package address

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/model/ownership"
)

// Names of the rows of the project's return port for the network of FIp b.
var (
	driftSubnet       = driftVPC + "-default"
	driftRouterPort   = driftVPC + "-" + driftSubnet // Kube-OVN's port to the switch
	driftExternalPort = driftVPC + "-ext-public"     // Kube-OVN's port to the network
	returnRouterPort  = ownership.ReturnRouterPort(driftVPC, driftSubnet, "ext-public")
	returnSwitchPort  = ownership.ReturnSwitchPort(driftVPC, driftSubnet, "ext-public")
	returnPortGroup   = ownership.ReturnPortGroup(driftSubnet, "ext-public")
	returnAddressSet  = ownership.ReturnTargetSet(driftSubnet, "ext-public")
	returnRouteTable  = ownership.ReturnRouteTable("ext-public")
	hairpinRouterPort = ownership.HairpinRouterPort(driftVPC, driftSubnet)
	hairpinSwitchPort = ownership.HairpinSwitchPort(driftVPC, driftSubnet)
)

// returnPortDrifts changes rows of return ports.
func (p *driftedProject) returnPortDrifts(*testing.T) []driftCase {
	return slices.Concat(p.routerPortDrifts(), p.aclDrifts(), p.qosDrifts(), p.routeDrifts(), p.replyPathDrifts())
}

// returnPortDrift is a change of the rows of a table that contain a word. FIp b must answer afterwards.
func returnPortDrift(what, table, word string, hand func() error) driftCase {
	return driftCase{
		what:          "leg: " + what,
		watchedWords:  []string{table + " ", word},
		change:        hand,
		answeringFIPs: []string{"b"},
	}
}

// driftVPCCondition returns a condition for rows that are marked as the project's.
func driftVPCCondition(condition string, values ...any) string {
	return fmt.Sprintf(condition, values...) + ", external_ids:" + ownership.RowShardKey + "=" + driftVPC
}

// routerPortDrifts changes the router port and the switch port of a return port, and the port group of the latter.
func (p *driftedProject) routerPortDrifts() (out []driftCase) {
	port := func(what string, words ...string) {
		out = append(out, returnPortDrift("router port: "+what, "Logical_Router_Port", returnRouterPort,
			p.nbctl(words...)))
	}
	port("deleted", "lrp-del", returnRouterPort)
	port("another table", "set", "logical_router_port", returnRouterPort, "options:route_table=main")
	port("no table", "remove", "logical_router_port", returnRouterPort, "options", "route_table")
	port("another network", "set", "logical_router_port", returnRouterPort, `networks="10.66.0.200/23"`)
	port("another MAC address", "set", "logical_router_port", returnRouterPort, `mac="0a:00:00:00:00:01"`)
	port("another network, and no marks",
		"set", "logical_router_port", returnRouterPort, `networks="10.66.0.200/23"`, "--", "clear",
		"logical_router_port", returnRouterPort, "external_ids")
	port("a peer", "set", "logical_router_port", returnRouterPort, "peer=nobody")
	socket := func(what string, words ...string) {
		out = append(out, returnPortDrift("switch port: "+what, "Logical_Switch_Port", returnSwitchPort,
			p.nbctl(words...)))
	}
	socket("deleted", "lsp-del", returnSwitchPort)
	socket("to another router port", "set", "logical_switch_port", returnSwitchPort, "options:router-port=nobody")
	socket("another address", "set", "logical_switch_port", returnSwitchPort, "addresses=unknown")
	socket("another type", "set", "logical_switch_port", returnSwitchPort, `type=""`)
	group := func(what string, words ...string) {
		out = append(out, returnPortDrift("port group: "+what, "Port_Group", returnPortGroup, p.nbctl(words...)))
	}
	group("deleted", "pg-del", returnPortGroup)
	group("no ports", "clear", "port_group", returnPortGroup, "ports")
	group("a pod's port too", "--id=@pod", "get", "logical_switch_port", "b."+driftVPC, "--", "add", "port_group",
		returnPortGroup, "ports", "@pod")
	group("pods' ports instead", "--id=@a", "get", "logical_switch_port", "a."+driftVPC, "--", "--id=@b", "get",
		"logical_switch_port", "b."+driftVPC,
		"--", "set", "port_group", returnPortGroup, "ports=@a,@b")
	group("no ports and no marks", "clear", "port_group", returnPortGroup, "ports", "--", "clear", "port_group",
		returnPortGroup, "external_ids")
	group("no rules", "clear", "port_group", returnPortGroup, "acls")
	set := func(what string, words ...string) {
		out = append(out, returnPortDrift("targets: "+what, "Address_Set", returnAddressSet, p.nbctl(words...)))
	}
	set("deleted", "destroy", "address_set", returnAddressSet)
	set("none", "clear", "address_set", returnAddressSet, "addresses")
	set("none, and no marks", "clear", "address_set", returnAddressSet, "addresses", "--", "clear", "address_set",
		returnAddressSet, "external_ids")
	set("one more", "add", "address_set", returnAddressSet, "addresses", `"10.66.0.99"`)
	set("another", "set", "address_set", returnAddressSet, `addresses="10.66.0.99"`)
	return out
}

// checkReplacedPort replaces one port of a group by another. This is invisible in lines without UUIDs, so the test
// reads the row itself.
func (p *driftedProject) checkReplacedPort(t *testing.T) {
	t.Helper()
	ports := func() string {
		return p.RunNbctl(t, "--bare", "--columns=ports", "find", "port_group", "name="+returnPortGroup)
	}
	want, begin := ports(), time.Now()
	hand := p.nbctl("--id=@pod", "get", "logical_switch_port", "b."+driftVPC, "--", "set", "port_group",
		returnPortGroup, "ports=@pod")
	if err := hand(); err != nil || want == "" {
		t.Fatalf("a pod's port instead of %q: %v", want, err)
	}
	p.PollUntil(t, "the leg's port is in its group again", func() bool { return ports() == want })
	if took := time.Since(begin); took > repairLimit {
		t.Errorf("a pod's port instead of the leg's: undone after %v, wanted within %v", took, repairLimit)
	}
	p.expectFIPsAnswer(t, "b")
}

// aclDrifts changes the ACLs that label connections.
func (p *driftedProject) aclDrifts() (out []driftCase) {
	of := func(tier int) string {
		return driftVPCCondition("tier=%d, external_ids:%s=%s", tier, ownership.RowParentKey, returnPortGroup)
	}
	for _, r := range []struct {
		what string
		tier int
		set  string
	}{
		{"another label", 1, "label=7"},
		{"no label", 1, "label=0"},
		{"another action", 1, "action=drop"},
		{"another direction", 1, "direction=from-lport"},
		{"another match", 1, `match="ip4.src == 192.0.2.1"`},
		{"another tier", 1, "tier=2"},
		{"another action", 3, "action=drop"},
		{"another priority", 3, "priority=7"},
	} {
		out = append(out, returnPortDrift(fmt.Sprintf("rule of tier %d: %s", r.tier, r.what), "ACL", returnSwitchPort,
			p.changeRows("acl", of(r.tier), r.set)))
	}
	stranded := driftVPCCondition("direction=from-lport, external_ids:%s=%s", ownership.RowParentKey, returnPortGroup)
	return append(out,
		returnPortDrift("rule of tier 1 deleted", "ACL", returnSwitchPort,
			p.removeRows("port_group "+returnPortGroup+" acls", "acl", of(1))),
		returnPortDrift("rule for the middle of connections deleted", "ACL", returnAddressSet,
			p.removeRows("port_group "+returnPortGroup+" acls", "acl", stranded)),
		returnPortDrift("rule for the middle of connections: no label", "ACL", returnAddressSet,
			p.changeRows("acl", stranded, "label=0")))
}

// qosDrifts changes the QoS rows that mark replies, of both return ports, which are on one switch.
func (p *driftedProject) qosDrifts() (out []driftCase) {
	const all = `"direction"`
	set := "logical_switch " + driftSubnet + " qos_rules"
	for _, priority := range []int{120, 110, 100, 95, 90} {
		about, of := fmt.Sprintf(`"priority":%d}`, priority), driftVPCCondition("priority=%d", priority)
		out = append(out,
			returnPortDrift(fmt.Sprintf("markings %d deleted", priority), "QoS", about, p.removeRows(set, "qos", of)),
			returnPortDrift(fmt.Sprintf("markings %d: another mark", priority), "QoS", about,
				p.changeRows("qos", of, "action:mark=7")))
	}
	return append(out,
		returnPortDrift("markings: another direction", "QoS", all,
			p.changeRows("qos", driftVPCCondition("priority=100"), "direction=to-lport")),
		returnPortDrift("markings: another match", "QoS", all,
			p.changeRows("qos", driftVPCCondition("priority=120"), `match="ip4.src == 192.0.2.1"`)),
		returnPortDrift("markings: another priority", "QoS", all,
			p.changeRows("qos", driftVPCCondition("priority=100"), "priority=80")),
		returnPortDrift("markings: a DSCP too", "QoS", all,
			p.changeRows("qos", driftVPCCondition("priority=100"), "action:dscp=7")),
		returnPortDrift("markings: all deleted", "QoS", all,
			p.removeRows(set, "qos", driftVPCCondition("direction=from-lport"))))
}

// routeDrifts changes the routes from the network to the pods.
func (p *driftedProject) routeDrifts() (out []driftCase) {
	route := func(what string, hand func() error) {
		out = append(out, returnPortDrift("route "+what, "Logical_Router_Static_Route", returnRouteTable, hand))
	}
	const table = "logical_router_static_route"
	of := func(prefix string) string {
		return driftVPCCondition("route_table=%s, ip_prefix=%q", returnRouteTable, prefix)
	}
	for _, prefix := range []string{"0.0.0.0/0", "10.66.0.0/25", "10.66.0.128/25"} {
		route(prefix+" deleted", p.removeRows("logical_router "+driftVPC+" static_routes", table, of(prefix)))
		route(prefix+": another next hop", p.changeRows(table, of(prefix), "nexthop=91.224.11.99"))
		route(prefix+": another port", p.changeRows(table, of(prefix), "output_port="+driftRouterPort))
	}
	route("0.0.0.0/0: another table", p.changeRows(table, of("0.0.0.0/0"), "route_table=main"))
	port := func(what string, words ...string) {
		out = append(out, returnPortDrift("port on the network: "+what, "Logical_Router_Port",
			`"`+driftExternalPort+`"`, p.nbctl(words...)))
	}
	port("no table", "remove", "logical_router_port", driftExternalPort, "options", "route_table")
	port("another table", "set", "logical_router_port", driftExternalPort, "options:route_table=main")
	port("the table of another network", "set", "logical_router_port", driftExternalPort,
		"options:route_table="+ownership.ReturnRouteTable("ext-third"))
	return out
}

// replyPathDrifts changes the path of replies, of both return ports.
func (p *driftedProject) replyPathDrifts() (out []driftCase) {
	binding := func(what string, hand func() error) {
		out = append(out, returnPortDrift("MAC bindings: "+what, "Static_MAC_Binding", hairpinRouterPort, hand))
	}
	of := "logical_port=" + hairpinRouterPort
	turn := func(what, table, name string, words ...string) {
		out = append(out, returnPortDrift("turn: "+what, table, `"`+name+`"`, p.nbctl(words...)))
	}
	turn("deleted", "Logical_Router_Port", hairpinRouterPort, "lrp-del", hairpinRouterPort)
	turn("another network", "Logical_Router_Port", hairpinRouterPort, "set", "logical_router_port", hairpinRouterPort,
		`networks="10.66.0.201/23"`)
	turn("another MAC address, and no marks", "Logical_Router_Port", hairpinRouterPort,
		"set", "logical_router_port", hairpinRouterPort, `mac="0a:00:00:00:00:02"`, "--", "clear",
		"logical_router_port", hairpinRouterPort, "external_ids")
	turn("switch port deleted", "Logical_Switch_Port", hairpinSwitchPort, "lsp-del", hairpinSwitchPort)
	binding("deleted", func() error {
		found, err := p.findRows("static_mac_binding", of)
		if err != nil {
			return err
		}
		return p.nbctl(append([]string{"destroy", "static_mac_binding"}, found...)...)()
	})
	binding("another address", p.changeRows("static_mac_binding", of, `mac="0a:00:00:00:00:01"`))
	binding("learned ones first", p.changeRows("static_mac_binding", of, "override_dynamic_mac=false"))
	for priority, sets := range map[int][]string{
		ownership.ReturnReply:  {"nexthops=10.66.0.99", "action=drop"},
		ownership.ReturnLeave:  {"nexthops=10.66.0.99", "action=drop"},
		ownership.ReturnForged: {"action=allow"},
	} {
		about := fmt.Sprintf(`"priority":%d}`, priority)
		out = append(out, returnPortDrift(fmt.Sprintf("policies %d deleted", priority), "Logical_Router_Policy", about,
			p.nbctl("lr-policy-del", driftVPC, fmt.Sprint(priority))))
		for _, set := range sets {
			hand := p.changeRows("logical_router_policy", fmt.Sprintf("priority=%d", priority), set)
			out = append(out, returnPortDrift(fmt.Sprintf("policies %d: %s", priority, set), "Logical_Router_Policy",
				about, hand))
		}
	}
	slices.SortFunc(out, func(a, b driftCase) int { return strings.Compare(a.what, b.what) })
	return out
}
