package address

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// rowOwner is a table whose rows have sets of other rows.
type rowOwner struct {
	table, namePrefix string
	ownColumn         string   // of its own
	rowColumns        []string // of rows, by column
}

// rowOwners have all rows of the projects in their sets. The name prefix of port groups matches the return ports of all
// projects, so that leftovers of deleted projects count, too.
var rowOwners = []rowOwner{
	{"logical_router", churnOrganization + "-", "options", []string{
		"ports", "nat", "policies", "static_routes", "load_balancer",
	}},
	{"logical_switch", churnOrganization + "-", "acls", []string{"ports", "qos_rules"}},
	{"port_group", "sallyport.", "external_ids", []string{"ports", "acls"}},
	{"address_set", "sallyport.", "addresses", nil},
}

// comparedColumns are the columns that are compared, without those about the writer: Kube-OVN and we write the same
// rows.
var comparedColumns = map[string]string{
	"logical_router_port":         "name,networks,peer,options,gateway_chassis",
	"nat":                         "type,external_ip,logical_ip,options,gateway_port",
	"logical_router_policy":       "priority,match,action,nexthop,nexthops",
	"logical_router_static_route": "ip_prefix,nexthop,policy,route_table,output_port",
	"logical_switch_port":         "name,type,addresses,options", "qos": "priority,direction,match,action,bandwidth",
	"acl": "tier,priority,direction,match,action,label", "load_balancer": "name,protocol,vips,options",
}

// readProjectRows returns the rows of the projects by owner.
func readProjectRows(t *testing.T, c *harness.Cluster) (out stateLines) {
	t.Helper()
	rows := map[string]map[string]any{}
	for table, columns := range comparedColumns {
		for _, row := range c.ReadNBTable(t, table, "_uuid,"+columns) {
			id := row["_uuid"].(string)
			delete(row, "_uuid")
			if chassis, there := row["gateway_chassis"]; there {
				row["gateway_chassis"] = len(fmt.Sprint(chassis)) > 2
			}
			rows[id] = row
		}
	}
	for _, o := range rowOwners {
		for _, row := range c.ReadNBTable(t, o.table,
			strings.Join(append([]string{"name", o.ownColumn}, o.rowColumns...), ",")) {
			name := row["name"].(string)
			if !strings.HasPrefix(name, o.namePrefix) || strings.Contains(fmt.Sprint(row["external_ids"]), "kube-ovn") {
				continue // Kube-OVN's groups belong to NetworkPolicies; the chart has one
			}
			out = append(out, o.formatRows(name, row, rows)...)
		}
	}
	for _, binding := range c.ReadNBTable(t, "static_mac_binding", "logical_port,ip,mac,override_dynamic_mac") {
		out = append(out, fmt.Sprintf("mac binding %v", binding))
	}
	return out
}

// formatRows formats an owner and its rows.
func (o rowOwner) formatRows(name string, row map[string]any, rows map[string]map[string]any) (out stateLines) {
	out = append(out, fmt.Sprintf("%s %s %s=%s", o.table, name, o.ownColumn, normalizeValue(row[o.ownColumn])))
	for _, set := range o.rowColumns {
		for _, id := range setValues(row[set]) {
			if rows[id.(string)]["policy"] == "src-ip" {
				// Kube-OVN's own row, which we do not need; it is not rewritten after an interruption
				continue
			}
			out = append(out, fmt.Sprintf("%s %s %s %s", o.table, name, set, normalizeValue(rows[id.(string)])))
		}
	}
	return out
}

// nameReturnPorts replaces the address of a return port, which depends on the order of events, by the name of the port.
// It returns the same for the next hops that marks select. They are the same in all projects, so they are by router.
func nameReturnPorts(t *testing.T, c *harness.Cluster, names map[string]string) (nextHops map[string]map[string]string) {
	t.Helper()
	portByMAC := map[string]string{}
	for _, port := range c.ReadNBTable(t, "logical_router_port", "name,networks,mac") {
		name, address := port["name"].(string), ipv4Pattern.FindString(fmt.Sprint(port["networks"]))
		if strings.HasPrefix(name, churnOrganization+"-") && strings.Contains(name, "-return-") {
			names[address], portByMAC[port["mac"].(string)] = name, name
		}
	}
	nextHops = map[string]map[string]string{}
	for _, binding := range c.ReadNBTable(t, "static_mac_binding", "logical_port,ip,mac") {
		router := projectPattern.FindString(binding["logical_port"].(string))
		if port := portByMAC[binding["mac"].(string)]; port != "" {
			if nextHops[router] == nil {
				nextHops[router] = map[string]string{}
			}
			nextHops[router][binding["ip"].(string)] = "to " + port
		}
	}
	return nextHops
}
