package openvswitch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Configuration is the configuration of the switch.
type Configuration struct {
	Chassis string // its name in OVN
	Bridges []Bridge
	// PodInterfaces are the interfaces that are bound to OVN's logical ports.
	PodInterfaces map[string]bool
}

// Bridge is a bridge to a provider network.
type Bridge struct {
	Name, Network string
	Interfaces    []string // of the node
	Problem       string
}

// database is the name of the database, and of the table with its single row.
const database = "Open_vSwitch"

// row is a row in OVSDB's encoding, by column.
type row map[string]json.RawMessage

// readConfiguration reads the database of the switch.
func (n Node) readConfiguration(ctx context.Context) (out Configuration, err error) {
	tables, err := n.selectTables(ctx, [][]string{
		{database, "external_ids"},
		{"Bridge", "name", "ports"},
		{"Port", "_uuid", "interfaces"},
		{"Interface", "_uuid", "name", "type", "error", "external_ids"},
	})
	if err != nil {
		return out, err
	}
	if len(tables[0]) == 0 {
		return out, errors.New("the database is empty; check that the node is set up")
	}
	told := tables[0][0].mapValue("external_ids")
	out.Chassis, out.PodInterfaces = told["system-id"], map[string]bool{}
	interfaces := indexByUUID(tables[3])
	for _, i := range interfaces {
		if i.mapValue("external_ids")["iface-id"] != "" {
			out.PodInterfaces[i.stringValue("name")] = true
		}
	}
	bridges, ports := map[string]row{}, indexByUUID(tables[2])
	for _, b := range tables[1] {
		bridges[b.stringValue("name")] = b
	}
	for pair := range strings.SplitSeq(told["ovn-bridge-mappings"], ",") {
		network, name, found := strings.Cut(pair, ":")
		if !found {
			continue
		}
		b := Bridge{Name: name, Network: network}
		if bridge, there := bridges[name]; there {
			b.collectInterfaces(bridge, ports, interfaces)
		} else {
			b.Problem = "there is no such bridge"
		}
		out.Bridges = append(out.Bridges, b)
	}
	return out, nil
}

// PodInterfaces returns the interface of each logical port that is plugged into this switch. Ports that are not pods',
// such as the node's own, are internal to the switch and left out: a packet sent there would come from the node.
func (n Node) PodInterfaces(ctx context.Context) (map[string]string, error) {
	tables, err := n.selectTables(ctx, [][]string{{"Interface", "name", "type", "external_ids"}})
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, i := range tables[0] {
		port, kind := i.mapValue("external_ids")["iface-id"], i.stringValue("type")
		if port == "" || kind != "" && kind != "system" {
			continue
		}
		out[port] = i.stringValue("name")
	}
	return out, nil
}

// collectInterfaces finds the interfaces of a bridge that belong to the node: neither the bridge itself nor patch
// ports.
func (b *Bridge) collectInterfaces(bridge row, ports, interfaces map[string]row) {
	var problems []string
	for _, p := range bridge.stringValues("ports") {
		for _, i := range ports[p].stringValues("interfaces") {
			kind, name := interfaces[i].stringValue("type"), interfaces[i].stringValue("name")
			if kind == "internal" || kind == "patch" {
				continue
			}
			b.Interfaces = append(b.Interfaces, name)
			if problem := interfaces[i].stringValue("error"); problem != "" {
				problems = append(problems, name+": "+problem)
			}
		}
	}
	slices.Sort(b.Interfaces)
	slices.Sort(problems)
	b.Problem = strings.Join(problems, "; ")
}

// selectTables reads tables in one transaction. Each is given as its name followed by its columns.
func (n Node) selectTables(ctx context.Context, wanted [][]string) (out [][]row, err error) {
	conn, err := dialUnixSocket(ctx, filepath.Join(n.SwitchDir, "db.sock"))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	params := []any{database}
	for _, w := range wanted {
		params = append(params, map[string]any{"op": "select", "table": w[0], "where": []any{}, "columns": w[1:]})
	}
	if err := sendRequest(conn, "transact", params); err != nil {
		return nil, err
	}
	var answer struct {
		Result []struct {
			Rows  []row
			Error string
		}
	}
	if err := json.NewDecoder(conn).Decode(&answer); err != nil {
		return nil, err
	}
	for _, r := range answer.Result {
		if r.Error != "" {
			return nil, fmt.Errorf("ovsdb-server: %s", r.Error)
		}
		out = append(out, r.Rows)
	}
	if len(out) != len(wanted) {
		return nil, fmt.Errorf("got %d of %d results", len(out), len(wanted))
	}
	return out, nil
}

func indexByUUID(rows []row) map[string]row {
	out := make(map[string]row, len(rows))
	for _, r := range rows {
		out[r.stringValue("_uuid")] = r
	}
	return out
}

// stringValue returns the single value of a column, or an empty string.
func (r row) stringValue(column string) string {
	if all := r.stringValues(column); len(all) > 0 {
		return all[0]
	}
	return ""
}

// stringValues returns the values of a column. OVSDB encodes one value as itself, a reference as ["uuid", "…"], and
// several as ["set", […]].
func (r row) stringValues(column string) []string {
	list := []json.RawMessage{r[column]}
	var tagged []json.RawMessage
	if json.Unmarshal(r[column], &tagged) == nil && len(tagged) == 2 {
		if tag, _ := parseAtom(tagged[0]); tag == "set" && json.Unmarshal(tagged[1], &list) != nil {
			return nil
		}
	}
	var out []string
	for _, v := range list {
		if s, ok := parseAtom(v); ok {
			out = append(out, s)
		}
	}
	return out
}

// parseAtom returns a string, or the string of a reference.
func parseAtom(v json.RawMessage) (string, bool) {
	var text string
	if json.Unmarshal(v, &text) == nil {
		return text, true
	}
	var pair [2]string
	err := json.Unmarshal(v, &pair)
	return pair[1], err == nil
}

// mapValue returns a map column: ["map", [["key", "value"], …]].
func (r row) mapValue(column string) map[string]string {
	out := map[string]string{}
	var tagged []json.RawMessage
	var list [][2]string
	if json.Unmarshal(r[column], &tagged) == nil && len(tagged) == 2 && json.Unmarshal(tagged[1], &list) == nil {
		for _, p := range list {
			out[p[0]] = p[1]
		}
	}
	return out
}
