package target

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// checkDrift changes every kind of row by hand while a goroutine converges after each change that the client reports.
func (b *rowsFixture) checkDrift(t *testing.T) {
	b.mustConverge(t, firstRows())
	want := b.dumpOurRows(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- b.repairUntilDone(ctx, firstRows()) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	var longest time.Duration
	for _, hand := range []string{
		"lr-nat-del rows dnat_and_snat 198.51.100.10",
		"lr-nat-del rows snat 10.0.0.0/24",
		"lr-policy-del rows 30000",
		"lrp-del rows-near",
		"static-mac-binding-del rows-near 169.254.90.2",
		"set logical_router_port rows-far mac=\"0a:00:00:00:00:09\"",
		"set logical_router_port rows-far networks=\"169.254.90.6/30\"",
		"set logical_router_port rows-far options:route_table=elsewhere",
		"clear logical_router_port rows-near peer",
		"set static_mac_binding . mac=\"0a:00:00:00:00:09\"",
		"set static_mac_binding . override_dynamic_mac=false",
		"set nat 198.51.100.10 logical_ip=10.0.0.99",
		"set nat 10.0.0.0/24 external_ip=198.51.100.99",
		"set logical_router_policy 30000 nexthops=198.51.100.99",
		"set logical_router_policy 30000 action=drop",
		"lrp-del rows-leg",
		"lsp-del rows-net-leg",
		"set logical_switch_port rows-net-leg options:router-port=elsewhere",
		`set logical_switch_port rows-net-leg type=""`,
		"pg-del rows.leg",
		"clear port_group rows.leg ports",
		"clear port_group rows.leg acls",
		"set acl 91 label=92",
		"set acl 91 direction=from-lport",
		"destroy address_set rows.targets",
		"set address_set rows.targets addresses=10.0.0.9",
		"qos-del rows-net from-lport",
		"set qos 110 action:mark=5",
		"--route-table=return-x lr-route-del rows 10.0.0.0/25",
		"set logical_router_static_route 198.51.100.1 nexthop=198.51.100.2",
		"remove logical_router_port rows-out options route_table",
		"set logical_router_port rows-out options:route_table=return-other",
		"remove logical_switch_port out-rows options nat-addresses",
		"set logical_switch_port out-rows options:nat-addresses=198.51.100.9",
	} {
		begin := time.Now()
		b.RunNbctl(t, b.resolveUUID(t, strings.Fields(hand))...)
		var now string
		for {
			if now = b.dumpOurRows(t); now == want {
				break
			}
			if time.Since(begin) > harness.Patience {
				t.Errorf("after %q the rows are not as they were:\n%s\nwanted:\n%s", hand, now, want)
				break
			}
		}
		longest = max(longest, time.Since(begin))
	}
	t.Logf("the longest repair, with the two calls of ovn-nbctl that it is seen by, took %d ms", longest.Milliseconds())
}

// repairUntilDone converges after each change until the context is done.
func (b *rowsFixture) repairUntilDone(ctx context.Context, want intent.Rows) error {
	for {
		select {
		case router := <-b.changedRouters:
			if router != rowsRouter {
				continue
			}
			if err := b.converge(want); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// resolveUUID inserts the UUID of the row into a command "set table what column=value".
func (b *rowsFixture) resolveUUID(t *testing.T, command []string) []string {
	t.Helper()
	column, found := map[string]string{
		"nat": "external_ip", "logical_router_policy": "priority", "static_mac_binding": "", "acl": "label",
		"qos":                         "priority",
		"logical_router_static_route": "nexthop",
	}[command[1]]
	if command[0] != "set" || !found {
		return command
	}
	what := command[2]
	if strings.Contains(what, "/") && command[1] == "nat" {
		column = "logical_ip"
	}
	find := []string{"--bare", "--columns=_uuid", "find", command[1]}
	if column != "" {
		find = append(find, fmt.Sprintf("%s=%s", column, what))
	}
	command[2] = b.RunNbctl(t, find...)
	return command
}

// dumpOurRows prints the router's rows without their UUIDs.
func (b *rowsFixture) dumpOurRows(t *testing.T) string {
	t.Helper()
	var out []string
	for _, table := range [][2]string{
		{"logical_router_port", "name,mac,networks,peer,options,external_ids"},
		{"static_mac_binding", "logical_port,ip,mac,override_dynamic_mac"},
		{"nat", "type,external_ip,logical_ip,options,external_ids"},
		{"logical_router_policy", "priority,match,action,nexthop,nexthops,external_ids"},
		{"logical_switch_port", "name,type,addresses,options,external_ids"},
		{"port_group", "name,external_ids"},
		{"address_set", "name,addresses,external_ids"},
		{"acl", "tier,priority,direction,match,action,label,external_ids"},
		{"qos", "priority,direction,match,action,external_ids"},
		{"logical_router_static_route", "route_table,ip_prefix,nexthop,output_port,external_ids"},
	} {
		text := b.RunNbctl(t, "--format=csv", "--no-headings", "--columns="+table[1], "list", table[0])
		for line := range strings.Lines(text) {
			if strings.Contains(line, ownership.RowShardKey) || strings.Contains(line, "rows-near") ||
				strings.Contains(line, "nat-addresses") || strings.Contains(line, ownership.ReturnTablePrefix) {
				out = append(out, strings.TrimSpace(line))
			}
		}
	}
	slices.Sort(out)
	for _, group := range []string{"ports", "acls"} { // only the number, because they are UUIDs
		if members := b.RunNbctl(t, "--bare", "--columns="+group, "list", "port_group"); members != "" {
			out = append(out, fmt.Sprint(group, len(members)))
		}
	}
	return strings.Join(out, "\n")
}
