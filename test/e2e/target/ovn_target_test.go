package target

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/internal/model/state/statetest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

const rowsRouter = "rows" // the router that these tests write to

var rowsOrigin = state.Ref{Kind: "FIp", Namespace: "acme", Name: "web"}

// wantedRows returns a set of rows of one object, on the router of these tests.
func wantedRows(rows ...intent.Row) intent.Rows { return wantedOn(rowsRouter, rows...) }

func wantedOn(router string, rows ...intent.Row) intent.Rows {
	out := intent.Rows{}
	for _, r := range rows {
		out[r.Key(router)] = state.Entry[intent.Row]{Value: r, Origin: rowsOrigin}
	}
	return out
}

// onLinkPortRows returns both ends of a link inside the router, with a MAC binding for the far end.
func onLinkPortRows(mac, table string) []intent.Row {
	near, far := netip.MustParseAddr("169.254.90.1"), netip.MustParseAddr("169.254.90.2")
	farMAC := intent.DeriveMAC(rowsRouter, "far")
	return []intent.Row{
		intent.LogicalRouterPort{Name: "rows-near", MAC: mac, Network: netip.PrefixFrom(near, 30), Peer: "rows-far"},
		intent.LogicalRouterPort{
			Name: "rows-far", MAC: farMAC, Network: netip.PrefixFrom(far, 30), Peer: "rows-near", RouteTable: table,
		},
		intent.StaticMACBinding{Port: "rows-near", Address: far, MAC: farMAC},
	}
}

func fipRow(external, logical string) intent.Row {
	return intent.DNATAndSNAT{External: netip.MustParseAddr(external), Logical: netip.MustParseAddr(logical)}
}

func snatRow(external, logical string) intent.Row {
	return intent.SNAT{External: netip.MustParseAddr(external), Logical: netip.MustParsePrefix(logical)}
}

func policyRow(priority int, match, hop string) intent.Row {
	return intent.LogicalRouterPolicy{Priority: priority, Match: match, Action: "reroute", NextHops: hop}
}

const rowsSwitch = "rows-net" // the switch of the return port

// returnPortRows returns a return port between the router and the switch, with its marks and routes.
func returnPortRows(mark int, action string, table string) []intent.Row {
	return []intent.Row{
		intent.LogicalRouterPort{
			Name:       "rows-leg",
			MAC:        intent.DeriveMAC("leg"),
			Network:    netip.MustParsePrefix("10.0.0.254/24"),
			RouteTable: table,
		},
		intent.LogicalSwitchPort{Switch: rowsSwitch, Name: "rows-net-leg", RouterPort: "rows-leg"},
		intent.PortGroup{Name: "rows.leg", Ports: "rows-net-leg"},
		intent.AddressSet{Name: "rows.targets", Addresses: "10.0.0.7 10.0.0.8"},
		intent.ACL{
			PortGroup: "rows.leg",
			Direction: intent.ToLport,
			Tier:      1,
			Priority:  100,
			Match:     `inport == "rows-net-leg" && ip`,
			Action:    action,
			Label:     mark,
		},
		intent.QoS{Switch: rowsSwitch, Priority: 100, Match: "ct.trk && ct.rpl", Mark: mark},
		intent.LogicalRouterStaticRoute{
			RouteTable: table,
			Prefix:     netip.MustParsePrefix("10.0.0.0/25"),
			OutputPort: "rows-leg",
		},
		intent.LogicalRouterStaticRoute{
			RouteTable: "return-x",
			Prefix:     netip.MustParsePrefix("0.0.0.0/0"),
			NextHop:    netip.MustParseAddr("198.51.100.1"),
			OutputPort: "rows-out",
		},
	}
}

// withGatewayChassis adds the chassis that may hold ports, individually and as a group. northd warns about that on a
// router that is pinned to one chassis.
func withGatewayChassis(rows intent.Rows, chassis ...string) intent.Rows {
	add := func(r intent.Row) { rows[r.Key(rowsRouter)] = state.Entry[intent.Row]{Value: r, Origin: rowsOrigin} }
	for i, name := range chassis {
		add(intent.GatewayChassis{Port: "rows-leg", Chassis: name, Priority: 100 - i})
	}
	add(intent.HAChassisGroup{Name: "rows.holders", Chassis: strings.Join(chassis, " ")})
	add(intent.LogicalRouterPort{
		Name:           "rows-held",
		MAC:            intent.DeriveMAC("held"),
		Network:        netip.MustParsePrefix("240.0.0.1/30"),
		HAChassisGroup: "rows.holders",
	})
	add(intent.GatewayPortSNAT{
		GatewayPort: "rows-held",
		External:    netip.AddrFrom4([4]byte{240, 0, 0, byte(len(chassis))}),
		Logical:     netip.MustParsePrefix("10.0.0.0/24"),
	})
	return rows
}

// withLoadBalancers adds the load balancers of two Services with the same name, each with a health check.
func withLoadBalancers(rows intent.Rows, backend string, every int) intent.Rows {
	for _, by := range []state.Ref{
		{Kind: "Service", Namespace: "shop", Name: "way-in"},
		{Kind: "Service", Namespace: "shop-way", Name: "in"},
	} {
		vip := netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 51, 100, byte(30 + len(by.Namespace))}), 80)
		to := netip.MustParseAddrPort(backend)
		port, _ := intent.NewPodPort("shop", "pod")
		for _, r := range []intent.Row{
			intent.VIP{
				LoadBalancer: intent.ServiceKey(by) + " tcp", Protocol: intent.TCP, Address: vip,
				Backends: []netip.AddrPort{to}, Service: intent.ServiceKey(by),
			},
			intent.LoadBalancer{
				Service: intent.ServiceKey(by), Name: "shop-way-in-tcp", Protocol: intent.TCP,
				IPPortMappings: []intent.IPPortMapping{{
					Backend: to.Addr(),
					Port:    port,
					Source:  netip.MustParseAddr("10.0.0.250"),
				}}, Router: rowsRouter, Switches: []string{rowsSwitch},
			},
			intent.LoadBalancerHealthCheck{
				LoadBalancer: "shop-way-in-tcp",
				VIP:          vip,
				Interval:     every,
				Timeout:      1,
				SuccessCount: 1,
				FailureCount: 1,
			},
		} {
			rows[r.Key(rowsRouter)] = state.Entry[intent.Row]{Value: r, Origin: by}
		}
	}
	return rows
}

// firstRows and secondRows contain every kind of row; between them each kind is added, removed or changed.
func firstRows() intent.Rows {
	return withLoadBalancers(wantedRows(append(append(onLinkPortRows(intent.DeriveMAC("one"), "onlink"),
		returnPortRows(91, "pass", "return-x")...),
		intent.QoS{Switch: rowsSwitch, Priority: 110, Match: "pkt.mark == 91", Mark: 0},
		intent.RouteTableOption("rows-out", "return-x"), intent.NATAddressesOption("out-rows"),
		fipRow("198.51.100.10", "10.0.0.10"), fipRow("2001:db8::10", "fd00::10"),
		snatRow("198.51.100.20", "10.0.0.0/24"), snatRow("2001:db8::20", "fd00::/64"),
		snatRow("198.51.100.20", "10.1.0.1/32"),
		policyRow(ownership.ReturnFIP, "ip4.src == 10.0.0.10", "198.51.100.1"),
		policyRow(ownership.DefaultEgress, `inport == "rows-near" && ip4.src == 10.0.0.0/24`, "198.51.100.1"))...),
		"10.0.0.7:80", 5)
}

func secondRows() intent.Rows {
	return withLoadBalancers(wantedRows(append(append(onLinkPortRows(intent.DeriveMAC("two"), "")[:2],
		returnPortRows(92, "allow-related", "return-y")...),
		intent.RouteTableOption("rows-out", "return-y"), intent.NATAddressesOption("out-rows"),
		fipRow("198.51.100.10", "10.0.0.11"), fipRow("198.51.100.11", "10.0.0.10"),
		snatRow("198.51.100.21", "10.0.0.0/24"),
		policyRow(ownership.ReturnFIP, "ip4.src == 10.0.0.10", "198.51.100.2"),
		policyRow(ownership.ReturnFIPOnLink, "ip6.src == fd00::10", "2001:db8::1"))...), "10.0.0.8:81", 9)
}

// TestRowsOfARouter tests the target for northbound rows, on databases in raft. Kube-OVN is stopped, because it deletes
// routers that are not a Vpc.
func TestRowsOfARouter(t *testing.T) {
	blue := blueprint.Default()
	blue.Nodes, blue.Gateways, blue.Raft, blue.Networks, blue.Uplinks = 0, 0, 3, nil, nil
	c := harness.StartLab(t, "rows", blue)
	c.ControlLab(t, "kill", "kube-ovn-controller")
	b := &rowsFixture{Cluster: c, client: dialNB(t, c), changedRouters: make(chan string, 10000)}
	b.rows = b.client.RowTarget(rowsRouter)
	b.client.WatchRouters(func(router string) {
		select {
		case b.changedRouters <- router:
		default:
		}
	})
	for _, test := range []struct {
		name string
		run  func(*rowsFixture, *testing.T)
	}{
		{"are taken by northd", (*rowsFixture).checkNorthd},
		{"pass the contract", (*rowsFixture).checkContract},
		{"of some VIPs pass the contract", (*rowsFixture).checkSomeVIPs},
		{"of some addresses of a set are written one by one", (*rowsFixture).checkSomeAddresses},
		{"come back when they are changed by hand", (*rowsFixture).checkDrift},
		{"of others stay", (*rowsFixture).checkForeignRows},
		{"put the addresses of a port of others right", (*rowsFixture).checkPortNetworks},
		{"of one key become one", (*rowsFixture).checkDuplicates},
		{"need their router", (*rowsFixture).checkOrphans},
		{"are written beside other writers", (*rowsFixture).checkConcurrentWriters},
		{"are as wanted when the leader has died", (*rowsFixture).checkFailover},
	} {
		t.Run(test.name, func(t *testing.T) {
			b.RunNbctl(t, "--if-exists", "lr-del", rowsRouter, "--", "--if-exists", "ls-del", rowsSwitch,
				"--", "--all", "destroy", "static_mac_binding", "--", "--all", "destroy", "port_group", "--", "--all",
				"destroy", "load_balancer", "--", "--if-exists", "destroy", "address_set", "rows.targets")
			b.waitUntil(t, "the client does not know the router", func() bool {
				return b.client.RouterPortNames(rowsRouter) == nil
			})
			b.RunNbctl(t, "lr-add", rowsRouter, "--", "ls-add", rowsSwitch,
				// the network of the next hops
				"--", "lrp-add", rowsRouter, "rows-out", "0a:00:00:00:00:01", "198.51.100.254/24", "2001:db8::254/64",
				"--", "lsp-add", rowsSwitch, "out-rows", "--", "set", "logical_switch_port", "out-rows", "type=router",
				"options:router-port=rows-out")
			b.waitUntil(t, "the client knows the router", func() bool {
				return b.client.RouterPortNames(rowsRouter) != nil
			})
			// northd writes this later, which would count as a change of the router during the test
			b.RunNbctl(t, "wait-until", "logical_switch_port", "out-rows", "up=true")
			test.run(b, t)
		})
	}
}

func (b *rowsFixture) checkContract(t *testing.T) {
	// rows of others in every table
	b.RunNbctl(t, "lr-nat-add", "ovn-cluster", "snat", "198.51.100.99", "10.99.0.0/24")
	b.RunNbctl(t, "lrp-add", rowsRouter, "rows-other", "0a:00:00:00:00:01", "10.99.0.1/24")
	b.RunNbctl(t, "static-mac-binding-add", "rows-other", "10.99.0.2", "0a:00:00:00:00:02")
	others := func(context.Context) (string, error) { return b.dumpOtherRows(t), nil }
	if dump, _ := others(t.Context()); strings.Count(dump, "99") < 4 {
		t.Fatalf("the dump of what others have is wrong:\n%s", dump)
	}
	statetest.CheckContract(t, statetest.Case[intent.RowKey, intent.Row]{
		Target:      b.rows,
		First:       withGatewayChassis(firstRows(), "one", "two"),
		Second:      withGatewayChassis(secondRows(), "two", "three", "one"),
		DumpForeign: others,
	})

	b.mustConverge(t, firstRows())
	writes := b.client.WriteCount()
	b.mustConverge(t, firstRows())
	if again := b.client.WriteCount(); again != writes {
		t.Errorf("a steady state wrote %d transactions", again-writes)
	}
	b.mustConverge(t, secondRows())
	if after := b.client.WriteCount(); after != writes+2 {
		t.Errorf("another set took %d transactions; wanted one for what comes and one for what goes", after-writes)
	}
}

// checkSomeVIPs checks the target for some VIPs of a shared load balancer. The others and the load balancer do not change.
func (b *rowsFixture) checkSomeVIPs(t *testing.T) {
	const balancer = "rows-lb-tcp-0"
	newVIP := func(host byte, backend string) intent.VIP {
		return intent.VIP{
			LoadBalancer: balancer, Protocol: intent.TCP, Service: "shop/way-in",
			Address:  netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 51, 100, host}), 80),
			Backends: []netip.AddrPort{netip.MustParseAddrPort(backend)},
		}
	}
	set := func(rows ...intent.Row) intent.Rows {
		out := intent.Rows{}
		for _, r := range rows {
			origin := state.Ref{Kind: "Service", Namespace: "shop", Name: "way-in"}
			if _, isShared := r.(intent.LoadBalancer); isShared {
				origin = state.Ref{Kind: "LoadBalancer", Namespace: rowsRouter, Name: "shared"}
			}
			out[r.Key(rowsRouter)] = state.Entry[intent.Row]{Value: r, Origin: origin}
		}
		return out
	}
	b.mustConverge(t, set(newVIP(40, "10.0.0.7:80"),
		intent.LoadBalancer{Name: balancer, Protocol: intent.TCP, Router: rowsRouter, Switches: []string{rowsSwitch}}))
	keys := map[intent.RowKey]bool{}
	for host := byte(41); host < 44; host++ {
		keys[newVIP(host, "10.0.0.7:80").Key(rowsRouter)] = true
	}
	statetest.CheckContract(t, statetest.Case[intent.RowKey, intent.Row]{
		Target: b.client.VIPTarget(rowsRouter, keys, []string{balancer}),
		First:  set(newVIP(41, "10.0.0.7:80"), newVIP(42, "10.0.0.7:80")),
		Second: set(newVIP(41, "10.0.0.8:80"), newVIP(43, "10.0.0.7:80")),
		DumpForeign: func(ctx context.Context) (string, error) {
			rows, err := b.rows.Observe(ctx)
			maps.DeleteFunc(rows, func(key intent.RowKey, _ state.Entry[intent.Row]) bool { return keys[key] })
			if len(rows) < 2 {
				t.Errorf("the other rows are missing: %v", rows)
			}
			return fmt.Sprint(rows) + b.dumpOtherRows(t), err
		},
	})
}

// checkSomeAddresses checks the target for some entries of a large address set: they are written in one transaction, the
// others stay, and the client does not report its own update.
func (b *rowsFixture) checkSomeAddresses(t *testing.T) {
	var addresses []string
	for i := range 500 {
		addresses = append(addresses, fmt.Sprintf("10.7.%d.%d", i/250, 1+i%250))
	}
	slices.Sort(addresses)
	b.mustConverge(t, wantedRows(intent.AddressSet{Name: "rows.targets", Addresses: strings.Join(addresses, " ")}))
	entries := func(set string) intent.Rows {
		return wantedRows(intent.AddressSetMember{Set: set, Address: netip.MustParseAddr("10.7.0.1")},
			intent.AddressSetMember{Set: set, Address: netip.MustParseAddr("10.7.0.2"), IsIn: true},
			intent.AddressSetMember{Set: set, Address: netip.MustParseAddr("10.8.0.1"), IsIn: true})
	}
	b.readReports(t, "before")
	writes := b.client.WriteCount()
	for _, want := range []int{2, 0} {
		plan, err := state.PreparePlan(t.Context(), b.client.AddressSetTarget(rowsRouter, entries("rows.targets")),
			entries("rows.targets"))
		if err != nil || len(plan.ChangeLines()) != want {
			t.Fatalf("%d changes, wanted %d: %v", len(plan.ChangeLines()), want, err)
		}
		if failures := state.Run(t.Context(), plan); len(failures) > 0 {
			t.Fatal(failures)
		}
	}
	if after := b.client.WriteCount(); after != writes+1 {
		t.Errorf("an entry that comes and one that goes took %d transactions", after-writes)
	}
	addresses = append(addresses[1:], "10.8.0.1")
	b.RunNbctl(t, "add", "address_set", "rows.targets", "addresses", "10.8.0.2") // somebody else, which is reported
	if reports := b.readReports(t, "after"); len(reports) != 1 {
		t.Errorf("reported are %v; wanted the update of somebody else, once, and not our own", reports)
	}
	got := strings.Fields(b.RunNbctl(t, "--bare", "--columns=addresses", "find", "address_set", "name=rows.targets"))
	slices.Sort(got)
	if want := append(addresses, "10.8.0.2"); !slices.Equal(got, want) {
		t.Errorf("the set has %d addresses, wanted %d", len(got), len(want))
	}
	if _, err := state.PreparePlan(t.Context(), b.client.AddressSetTarget(rowsRouter, entries("rows.none")),
		entries("rows.none")); err == nil {
		t.Error("entries of a set that does not exist are observed")
	}
}

// readReports returns the routers that the client has reported until now. Reports come in the order of the changes: a row of
// a router that does not exist, called after the marker, is changed last.
func (b *rowsFixture) readReports(t *testing.T, marker string) (routers []string) {
	t.Helper()
	b.RunNbctl(t, "create", "address_set", "name=rows.marker."+marker, "external_ids:"+ownership.RowShardKey+"="+marker)
	t.Cleanup(func() { b.RunNbctl(t, "destroy", "address_set", "rows.marker."+marker) })
	limit := time.After(harness.Patience)
	for {
		select {
		case router := <-b.changedRouters:
			if router == marker {
				return routers
			}
			routers = append(routers, router)
		case <-limit:
			t.Fatalf("the row called after %q is not reported; reported are %v", marker, routers)
		}
	}
}

// dumpOtherRows prints everything in the northbound database except our rows and references to them in the router.
func (b *rowsFixture) dumpOtherRows(t *testing.T) string {
	t.Helper()
	dump := b.RunTool(t, "ovsdb-client", "--format=csv", "dump", "unix:"+b.DatabaseFile(b.NBLeader(t), "sock"),
		"OVN_Northbound")
	var ours, out []string
	for line := range strings.Lines(dump) {
		if strings.Contains(line, ownership.RowShardKey) || strings.Contains(line, "rows-near") {
			ours = append(ours, line[:strings.Index(line, ",")])
			continue
		}
		out = append(out, line)
	}
	// sets with several values are quoted, smaller ones are not
	text := strings.ReplaceAll(strings.Join(out, ""), `"`, "")
	// our options on ports of others
	for _, option := range []string{"route_table=return-x", "route_table=return-y", "nat-addresses=router, "} {
		text = strings.ReplaceAll(text, option, "")
	}
	for _, uuid := range ours {
		text = strings.NewReplacer(", "+uuid, "", uuid+", ", "", uuid, "").Replace(text)
	}
	return strings.TrimSpace(text)
}

// checkPortNetworks checks that Kube-OVN's port gets the wanted addresses, of both families, and keeps them when they are
// no longer wanted; a missing port is not created.
func (b *rowsFixture) checkPortNetworks(t *testing.T) {
	b.RunNbctl(t, "lrp-add", rowsRouter, "rows-wan", "0a:00:00:00:00:03", "198.51.102.16/24")
	b.waitUntil(t, "the client knows the port", func() bool {
		return slices.Contains(b.client.RouterPortNames(rowsRouter), "rows-wan")
	})
	want := func(port, networks string) intent.Rows {
		return wantedRows(intent.RouterPortNetworks{Port: port, Networks: networks})
	}
	const v4, both = `["198.51.102.11/24"]`, `["198.51.102.11/24", "2001:db8:66::b/64"]`
	for _, step := range []struct {
		wanted intent.Rows
		have   string
	}{
		{want("rows-wan", "198.51.102.11/24"), v4},
		{intent.Rows{}, v4},
		{want("rows-wan", "198.51.102.11/24 2001:db8:66::b/64"), both},
		{intent.Rows{}, both},
		{want("rows-wan", "198.51.102.11/24"), v4},
	} {
		b.mustConverge(t, step.wanted)
		if got := strings.TrimSpace(b.RunNbctl(t, "get", "logical_router_port", "rows-wan", "networks")); got != step.have {
			t.Errorf("the port has %s, want %s", got, step.have)
		}
	}
	err := b.converge(want("rows-missing", "198.51.102.11/24"))
	if err == nil || !strings.Contains(err.Error(), "port rows-missing does not exist") {
		t.Errorf("a port that is not there: %v", err)
	}
}

// checkNorthd checks that northd creates ports and flows from the rows without warnings. It counts warnings, so it must
// run first.
func (b *rowsFixture) checkNorthd(t *testing.T) {
	before := len(harness.ReadFile(t, b.Log("ovn-northd")))
	b.RunNbctl(t, "set", "logical_router", rowsRouter, "options:chassis=nobody") // NAT needs a chassis
	for _, want := range []intent.Rows{firstRows(), secondRows(), firstRows()} {
		b.mustConverge(t, want)
		b.RunNbctl(t, "--wait=sb", "sync")
	}
	sbctl := []string{"--no-leader-only", "--db=unix:" + filepath.Join(b.Dir, "data/ovn/sb1.sock")}
	flows := b.RunTool(t, "ovn-sbctl", append(sbctl, "lflow-list", rowsRouter)...)
	for _, part := range []string{
		"ct_dnat(10.0.0.10)", "ct_snat(198.51.100.10)", "ct_dnat(fd00::10)",
		"ip4.src == 10.0.0.0/24 && (!ct.trk || !ct.rpl)), action=(ct_snat(198.51.100.20)",
		"ip4.src == 10.1.0.1 && (!ct.trk || !ct.rpl)), action=(ct_snat(198.51.100.20)",
		"ip4.src == 10.0.0.10), action=(reg0 = 198.51.100.1; ",
	} {
		if !strings.Contains(flows, part) {
			t.Errorf("northd made no flow with %q", part)
		}
	}
	for _, port := range []string{"rows-near", "rows-far"} {
		bound := b.RunTool(t, "ovn-sbctl",
			append(sbctl, "--bare", "--columns=logical_port", "find", "port_binding", "logical_port="+port)...)
		if bound != port {
			t.Errorf("northd made no port of %s: %q", port, bound)
		}
	}
	if mac := b.RunTool(t, "ovn-sbctl", append(sbctl, "--bare", "--columns=mac", "list",
		"static_mac_binding")...); mac != intent.DeriveMAC(rowsRouter, "far") {
		t.Errorf("northd made no MAC binding: %q", mac)
	}
	// control: there is no route to this next hop
	b.mustConverge(t, wantedRows(policyRow(ownership.DefaultEgress, "ip4", "192.0.2.1")))
	b.RunNbctl(t, "--wait=sb", "sync")
	var complaints []string
	for line := range strings.Lines(harness.ReadFile(t, b.Log("ovn-northd"))[before:]) {
		if strings.Contains(line, "|timeval|") {
			continue // the machine is busy
		}
		if strings.Contains(line, "|ERR|") || strings.Contains(line, "|WARN|") {
			complaints = append(complaints, line)
		}
	}
	if len(complaints) != 1 || !strings.Contains(complaints[0], "192.0.2.1") {
		t.Errorf("northd complains of %q; wanted the control alone", complaints)
	}
}
