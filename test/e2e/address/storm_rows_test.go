package address

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// owner is something that has rows in sets.
type owner struct {
	table, prefix string
	column        string   // of its own
	sets          []string // of rows, by column
}

// stormOwners have all rows of the projects in their sets. Of port groups the name begins so for everybody's legs: what is left of a
// project that is gone counts, too.
var stormOwners = []owner{
	{"logical_router", stormOrganization + "-", "load_balancer", []string{"ports", "nat", "policies", "static_routes"}},
	{"logical_switch", stormOrganization + "-", "acls", []string{"ports", "qos_rules"}},
	{"port_group", "sallyport.", "external_ids", []string{"ports", "acls"}},
	{"address_set", "sallyport.", "addresses", nil},
}

// stormColumns are what a row states, without who wrote it: Kube-OVN and we write the same.
var stormColumns = map[string]string{
	"logical_router_port": "name,networks,peer,options,gateway_chassis", "nat": "type,external_ip,logical_ip,options,gateway_port",
	"logical_router_policy": "priority,match,action,nexthop,nexthops", "logical_router_static_route": "ip_prefix,nexthop,policy,route_table,output_port",
	"logical_switch_port": "name,type,addresses,options", "qos": "priority,direction,match,action,bandwidth",
	"acl": "tier,priority,direction,match,action,label",
}

// stormRows are the rows of the projects, by who has them.
func stormRows(t *testing.T, c *harness.Cluster) (out remains) {
	t.Helper()
	rows := map[string]map[string]any{}
	for table, columns := range stormColumns {
		for _, row := range c.Table(t, table, "_uuid,"+columns) {
			id := row["_uuid"].(string)
			delete(row, "_uuid")
			if chassis, there := row["gateway_chassis"]; there {
				row["gateway_chassis"] = len(fmt.Sprint(chassis)) > 2
			}
			rows[id] = row
		}
	}
	for _, o := range stormOwners {
		for _, row := range c.Table(t, o.table, strings.Join(append([]string{"name", o.column}, o.sets...), ",")) {
			name := row["name"].(string)
			if !strings.HasPrefix(name, o.prefix) || strings.Contains(fmt.Sprint(row["external_ids"]), "kube-ovn") {
				continue // Kube-OVN's groups are NetworkPolicies; the chart has one
			}
			out = append(out, o.lines(name, row, rows)...)
		}
	}
	for _, binding := range c.Table(t, "static_mac_binding", "logical_port,ip,mac,override_dynamic_mac") {
		out = append(out, fmt.Sprintf("mac binding %v", binding))
	}
	return out
}

// lines are an owner and the rows that it has.
func (o owner) lines(name string, row map[string]any, rows map[string]map[string]any) (out remains) {
	out = append(out, fmt.Sprintf("%s %s %s=%s", o.table, name, o.column, steady(row[o.column])))
	for _, set := range o.sets {
		for _, id := range values(row[set]) {
			if rows[id.(string)]["policy"] == "src-ip" {
				continue // Kube-OVN's own, which nothing of ours needs; it does not write it again when a fault has cut it off
			}
			out = append(out, fmt.Sprintf("%s %s %s %s", o.table, name, set, steady(rows[id.(string)])))
		}
	}
	return out
}

// nameLegs gives the address of a leg, which is the next that is free when its network comes, the name of the leg.
func nameLegs(t *testing.T, c *harness.Cluster, names map[string]string) {
	t.Helper()
	for _, port := range c.Table(t, "logical_router_port", "name,networks") {
		name, address := port["name"].(string), anyAddress.FindString(fmt.Sprint(port["networks"]))
		if strings.HasPrefix(name, stormOrganization+"-") && strings.Contains(name, "-return-") {
			names[address] = name
		}
	}
}
