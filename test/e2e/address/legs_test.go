package address

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/ownership"
)

// The patient's leg to the network of FIp b, by the names that its rows have.
var (
	sickNet   = sick + "-default"
	sickPort  = sick + "-" + sickNet // Kube-OVN's port to the switch
	sickOut   = sick + "-ext-public" // Kube-OVN's port to the network
	legPort   = ownership.LegRouterPort(sick, sickNet, "ext-public")
	legSocket = ownership.LegSwitchPort(sick, sickNet, "ext-public")
	legGroup  = ownership.LegGroup(sickNet, "ext-public")
	legSet    = ownership.LegTargets(sickNet, "ext-public")
	legTable  = ownership.ReturnTable("ext-public")
	turnPort  = ownership.TurnRouterPort(sick, sickNet)
	turnEnd   = ownership.TurnSwitchPort(sick, sickNet)
)

// legDrifts are what can be done to rows of legs.
func (p *driftedProject) legDrifts(*testing.T) []drift {
	return slices.Concat(p.portDrifts(), p.ruleDrifts(), p.markingDrifts(), p.routeDrifts(), p.replyDrifts())
}

// ofLeg is something that is done to the rows of a table that have a word. FIp b has to answer afterwards.
func ofLeg(what, table, word string, hand func() error) drift {
	return drift{what: "leg: " + what, about: []string{table + " ", word}, hand: hand, answers: []string{"b"}}
}

// ofSick is a condition for rows that say they are the patient's.
func ofSick(condition string, values ...any) string {
	return fmt.Sprintf(condition, values...) + ", external_ids:" + ownership.RowShardKey + "=" + sick
}

// portDrifts are what can be done to the two ends of a leg, and to the group of the one on the switch.
func (p *driftedProject) portDrifts() (out []drift) {
	port := func(what string, words ...string) {
		out = append(out, ofLeg("router port: "+what, "Logical_Router_Port", legPort, p.nb(words...)))
	}
	port("deleted", "lrp-del", legPort)
	port("another table", "set", "logical_router_port", legPort, "options:route_table=main")
	port("no table", "remove", "logical_router_port", legPort, "options", "route_table")
	port("another network", "set", "logical_router_port", legPort, `networks="10.66.0.200/23"`)
	port("another MAC address", "set", "logical_router_port", legPort, `mac="0a:00:00:00:00:01"`)
	port("another network, and no marks",
		"set", "logical_router_port", legPort, `networks="10.66.0.200/23"`, "--", "clear", "logical_router_port", legPort, "external_ids")
	port("a peer", "set", "logical_router_port", legPort, "peer=nobody")
	socket := func(what string, words ...string) {
		out = append(out, ofLeg("switch port: "+what, "Logical_Switch_Port", legSocket, p.nb(words...)))
	}
	socket("deleted", "lsp-del", legSocket)
	socket("to another router port", "set", "logical_switch_port", legSocket, "options:router-port=nobody")
	socket("another address", "set", "logical_switch_port", legSocket, "addresses=unknown")
	socket("another type", "set", "logical_switch_port", legSocket, `type=""`)
	group := func(what string, words ...string) {
		out = append(out, ofLeg("port group: "+what, "Port_Group", legGroup, p.nb(words...)))
	}
	group("deleted", "pg-del", legGroup)
	group("no ports", "clear", "port_group", legGroup, "ports")
	group("a pod's port too", "--id=@pod", "get", "logical_switch_port", "b."+sick, "--", "add", "port_group", legGroup, "ports", "@pod")
	group("pods' ports instead", "--id=@a", "get", "logical_switch_port", "a."+sick, "--", "--id=@b", "get", "logical_switch_port", "b."+sick,
		"--", "set", "port_group", legGroup, "ports=@a,@b")
	group("no ports and no marks", "clear", "port_group", legGroup, "ports", "--", "clear", "port_group", legGroup, "external_ids")
	group("no rules", "clear", "port_group", legGroup, "acls")
	set := func(what string, words ...string) {
		out = append(out, ofLeg("targets: "+what, "Address_Set", legSet, p.nb(words...)))
	}
	set("deleted", "destroy", "address_set", legSet)
	set("none", "clear", "address_set", legSet, "addresses")
	set("none, and no marks", "clear", "address_set", legSet, "addresses", "--", "clear", "address_set", legSet, "external_ids")
	set("one more", "add", "address_set", legSet, "addresses", `"10.66.0.99"`)
	set("another", "set", "address_set", legSet, `addresses="10.66.0.99"`)
	return out
}

// anotherPort: one port of a group instead of another looks the same in lines without UUIDs, so the row itself is asked.
func (p *driftedProject) anotherPort(t *testing.T) {
	t.Helper()
	ports := func() string {
		return p.RunNbctl(t, "--bare", "--columns=ports", "find", "port_group", "name="+legGroup)
	}
	want, begin := ports(), time.Now()
	hand := p.nb("--id=@pod", "get", "logical_switch_port", "b."+sick, "--", "set", "port_group", legGroup, "ports=@pod")
	if err := hand(); err != nil || want == "" {
		t.Fatalf("a pod's port instead of %q: %v", want, err)
	}
	p.Until(t, "the leg's port is in its group again", func() bool { return ports() == want })
	if took := time.Since(begin); took > mendLimit {
		t.Errorf("a pod's port instead of the leg's: undone after %v, wanted within %v", took, mendLimit)
	}
	p.respond(t, "b")
}

// ruleDrifts are what can be done to the rules that give connections their label.
func (p *driftedProject) ruleDrifts() (out []drift) {
	of := func(tier int) string {
		return ofSick("tier=%d, external_ids:%s=%s", tier, ownership.RowParentKey, legGroup)
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
		out = append(out, ofLeg(fmt.Sprintf("rule of tier %d: %s", r.tier, r.what), "ACL", legSocket, p.change("acl", of(r.tier), r.set)))
	}
	stranded := ofSick("direction=from-lport, external_ids:%s=%s", ownership.RowParentKey, legGroup)
	return append(out,
		ofLeg("rule of tier 1 deleted", "ACL", legSocket, p.remove("port_group "+legGroup+" acls", "acl", of(1))),
		ofLeg("rule for the middle of connections deleted", "ACL", legSet, p.remove("port_group "+legGroup+" acls", "acl", stranded)),
		ofLeg("rule for the middle of connections: no label", "ACL", legSet, p.change("acl", stranded, "label=0")))
}

// markingDrifts are what can be done to the rules that mark replies: those of both legs, which are on one switch.
func (p *driftedProject) markingDrifts() (out []drift) {
	const all = `"direction"`
	set := "logical_switch " + sickNet + " qos_rules"
	for _, priority := range []int{120, 110, 100, 95, 90} {
		about, of := fmt.Sprintf(`"priority":%d}`, priority), ofSick("priority=%d", priority)
		out = append(out,
			ofLeg(fmt.Sprintf("markings %d deleted", priority), "QoS", about, p.remove(set, "qos", of)),
			ofLeg(fmt.Sprintf("markings %d: another mark", priority), "QoS", about, p.change("qos", of, "action:mark=7")))
	}
	return append(out,
		ofLeg("markings: another direction", "QoS", all, p.change("qos", ofSick("priority=100"), "direction=to-lport")),
		ofLeg("markings: another match", "QoS", all, p.change("qos", ofSick("priority=120"), `match="ip4.src == 192.0.2.1"`)),
		ofLeg("markings: another priority", "QoS", all, p.change("qos", ofSick("priority=100"), "priority=80")),
		ofLeg("markings: a DSCP too", "QoS", all, p.change("qos", ofSick("priority=100"), "action:dscp=7")),
		ofLeg("markings: all deleted", "QoS", all, p.remove(set, "qos", ofSick("direction=from-lport"))))
}

// routeDrifts are what can be done to the way from the network to the pods.
func (p *driftedProject) routeDrifts() (out []drift) {
	route := func(what string, hand func() error) {
		out = append(out, ofLeg("route "+what, "Logical_Router_Static_Route", legTable, hand))
	}
	const table = "logical_router_static_route"
	of := func(prefix string) string { return ofSick("route_table=%s, ip_prefix=%q", legTable, prefix) }
	for _, prefix := range []string{"0.0.0.0/0", "10.66.0.0/25", "10.66.0.128/25"} {
		route(prefix+" deleted", p.remove("logical_router "+sick+" static_routes", table, of(prefix)))
		route(prefix+": another next hop", p.change(table, of(prefix), "nexthop=91.224.11.99"))
		route(prefix+": another port", p.change(table, of(prefix), "output_port="+sickPort))
	}
	route("0.0.0.0/0: another table", p.change(table, of("0.0.0.0/0"), "route_table=main"))
	port := func(what string, words ...string) {
		out = append(out, ofLeg("port on the network: "+what, "Logical_Router_Port", `"`+sickOut+`"`, p.nb(words...)))
	}
	port("no table", "remove", "logical_router_port", sickOut, "options", "route_table")
	port("another table", "set", "logical_router_port", sickOut, "options:route_table=main")
	port("the table of another network", "set", "logical_router_port", sickOut, "options:route_table="+ownership.ReturnTable("ext-third"))
	return out
}

// replyDrifts are what can be done to the way of replies, of both legs.
func (p *driftedProject) replyDrifts() (out []drift) {
	binding := func(what string, hand func() error) {
		out = append(out, ofLeg("MAC bindings: "+what, "Static_MAC_Binding", turnPort, hand))
	}
	of := "logical_port=" + turnPort
	turn := func(what, table, name string, words ...string) {
		out = append(out, ofLeg("turn: "+what, table, `"`+name+`"`, p.nb(words...)))
	}
	turn("deleted", "Logical_Router_Port", turnPort, "lrp-del", turnPort)
	turn("another network", "Logical_Router_Port", turnPort, "set", "logical_router_port", turnPort, `networks="10.66.0.201/23"`)
	turn("another MAC address, and no marks", "Logical_Router_Port", turnPort,
		"set", "logical_router_port", turnPort, `mac="0a:00:00:00:00:02"`, "--", "clear", "logical_router_port", turnPort, "external_ids")
	turn("switch port deleted", "Logical_Switch_Port", turnEnd, "lsp-del", turnEnd)
	binding("deleted", func() error {
		found, err := p.find("static_mac_binding", of)
		if err != nil {
			return err
		}
		return p.nb(append([]string{"destroy", "static_mac_binding"}, found...)...)()
	})
	binding("another address", p.change("static_mac_binding", of, `mac="0a:00:00:00:00:01"`))
	binding("learned ones first", p.change("static_mac_binding", of, "override_dynamic_mac=false"))
	for priority, sets := range map[int][]string{
		ownership.ReturnReply:  {"nexthops=10.66.0.99", "action=drop"},
		ownership.ReturnLeave:  {"nexthops=10.66.0.99", "action=drop"},
		ownership.ReturnForged: {"action=allow"},
	} {
		about := fmt.Sprintf(`"priority":%d}`, priority)
		out = append(out, ofLeg(fmt.Sprintf("policies %d deleted", priority), "Logical_Router_Policy", about, p.nb("lr-policy-del", sick, fmt.Sprint(priority))))
		for _, set := range sets {
			hand := p.change("logical_router_policy", fmt.Sprintf("priority=%d", priority), set)
			out = append(out, ofLeg(fmt.Sprintf("policies %d: %s", priority, set), "Logical_Router_Policy", about, hand))
		}
	}
	slices.SortFunc(out, func(a, b drift) int { return strings.Compare(a.what, b.what) })
	return out
}
