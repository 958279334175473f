package harness

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
)

// RunNbctl runs ovn-nbctl against the leader of the northbound database.
func (c *Cluster) RunNbctl(t *testing.T, args ...string) string {
	t.Helper()
	var sockets []string
	for _, server := range c.RunningNBServers(t) {
		sockets = append(sockets, "unix:"+c.DatabaseFile(server, "sock"))
	}
	return c.RunTool(t, "ovn-nbctl", append([]string{"--db=" + strings.Join(sockets, ","), ToolTimeout}, args...)...)
}

// RunSbctl runs ovn-sbctl on the southbound database.
func (c *Cluster) RunSbctl(t *testing.T, args ...string) string {
	t.Helper()
	return c.RunTool(t, "ovn-sbctl", append([]string{
		"--db=unix:" + filepath.Join(c.Dir, "data/ovn/sb1.sock"),
		ToolTimeout, "--bare",
	}, args...)...)
}

// WaitGatewaysSettled waits until every gateway port is on the first of the nodes that may hold it, and stays there. The
// first gateway port of a lab starts BFD between nodes. Until the sessions are up, the nodes take each other for dead, and
// another one can hold the port. When it moves, replies of open connections leave without translation.
func (c *Cluster) WaitGatewaysSettled(t *testing.T) {
	t.Helper()
	c.SyncFlows(t)
	for _, n := range c.Blueprint.NodeList() {
		Eventually(t, n.Name+"'s BFD sessions are up", func() bool { return c.isBFDUp(t, n.Name) })
	}
	Eventually(t, "every gateway port is on the first of its nodes", func() bool {
		first := map[string]string{} // the chassis with the highest priority, by group
		highest := map[string]int{}
		group := map[string]string{} // by member
		for _, g := range c.listSouthbound(t, "HA_Chassis_Group", "_uuid,ha_chassis") {
			for member := range strings.FieldsSeq(g[1]) {
				group[member] = g[0]
			}
		}
		for _, m := range c.listSouthbound(t, "HA_Chassis", "_uuid,chassis,priority") {
			priority, err := strconv.Atoi(m[2])
			if err != nil {
				t.Fatal(err)
			}
			if of := group[m[0]]; first[of] == "" || priority > highest[of] {
				first[of], highest[of] = m[1], priority
			}
		}
		return !slices.ContainsFunc(c.listSouthbound(t, "Port_Binding", "type,chassis,ha_chassis_group"), func(b []string) bool {
			return b[0] == "chassisredirect" && (b[1] == "" || b[1] != first[b[2]])
		})
	})
}

// isBFDUp reports whether both ends of every tunnel of a node that uses BFD say that it is up.
func (c *Cluster) isBFDUp(t *testing.T, node string) bool {
	t.Helper()
	tunnels := c.RunVsctl(t, node, "--format=csv", "--no-headings", "--columns=bfd,bfd_status", "find", "Interface",
		"type=geneve")
	for tunnel := range strings.Lines(tunnels) {
		if strings.Contains(tunnel, "enable=") && (!strings.Contains(tunnel, "remote_state=up") ||
			strings.Contains(tunnel, "state=down") || strings.Contains(tunnel, "state=init")) {
			return false
		}
	}
	return true
}

// ListGateways returns the node that holds each gateway port (cr-NAME), or an empty name.
func (c *Cluster) ListGateways(t *testing.T) map[string]string {
	t.Helper()
	nodes, out := map[string]string{}, map[string]string{}
	for _, chassis := range c.listSouthbound(t, "Chassis", "_uuid,hostname") {
		nodes[chassis[0]] = chassis[1]
	}
	for _, b := range c.listSouthbound(t, "Port_Binding", "type,logical_port,chassis") {
		if b[0] == "chassisredirect" {
			out[b[1]] = nodes[b[2]]
		}
	}
	return out
}

// listSouthbound returns columns of all rows of a table; the members of a set are separated by spaces.
func (c *Cluster) listSouthbound(t *testing.T, table, columns string) [][]string {
	t.Helper()
	text := c.RunSbctl(t, "--format=csv", "--no-headings", "--columns="+columns, "list", table)
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatalf("read table %s: %v\n%s", table, err, text)
	}
	return rows
}

// NewNBClient returns a client for one table that connects to the leader of the northbound database over TLS.
func (c *Cluster) NewNBClient(t *testing.T, table string, row model.Model) client.Client {
	t.Helper()
	dbModel, err := model.NewClientDBModel("OVN_Northbound", map[string]model.Model{table: row})
	if err != nil {
		t.Fatal(err)
	}
	options := []client.Option{client.WithTLSConfig(c.clientTLSConfig(t)), client.WithLeaderOnly(true)}
	status, err := c.Status(Within(t, Patience))
	if err != nil {
		t.Fatal(err)
	}
	for _, forward := range status.Doors {
		if strings.HasPrefix(forward.Name, "nb") {
			options = append(options, client.WithEndpoint("ssl:"+forward.Outside))
		}
	}
	nb, err := client.NewOVSDBClient(dbModel, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nb.Close)
	return nb
}

// clientTLSConfig returns the TLS configuration of a client of the lab's databases.
func (c *Cluster) clientTLSConfig(t *testing.T) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(c.Dir, "pki/ovn.crt"), filepath.Join(c.Dir, "pki/ovn.key"))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(c.Dir, "pki/ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// NBLeader returns the name of the process that leads the northbound database.
func (c *Cluster) NBLeader(t *testing.T) string {
	t.Helper()
	for _, server := range c.RunningNBServers(t) {
		status := c.RunTool(t, "ovn-appctl", "-t", c.DatabaseFile(server, "ctl"), "cluster/status", "OVN_Northbound")
		if strings.Contains(status, "\nRole: leader") {
			return server
		}
	}
	t.Fatal("no server leads the northbound database")
	return ""
}

// RunningNBServers lists the northbound servers that are running.
func (c *Cluster) RunningNBServers(t *testing.T) (out []string) {
	t.Helper()
	status, err := c.Status(Within(t, Patience))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range status.Processes {
		if strings.HasPrefix(p.Name, "ovn-nb") && p.State == "running" {
			out = append(out, p.Name)
		}
	}
	return out
}

// DatabaseFile returns the path of a file of a database server, such as its socket or log.
func (c *Cluster) DatabaseFile(server, kind string) string {
	return filepath.Join(c.Dir, "data/ovn", strings.TrimPrefix(server, "ovn-")+"."+kind)
}

// ReadNBTable reads a table of the northbound database. If columns is empty, rows have all columns.
func (c *Cluster) ReadNBTable(t *testing.T, table, columns string) (out []map[string]any) {
	t.Helper()
	var read struct {
		Headings []string
		Data     [][]any
	}
	args := []string{"--format=json", "list", table}
	if columns != "" {
		args = append([]string{"--columns=" + columns}, args...)
	}
	if err := json.Unmarshal([]byte(c.RunNbctl(t, args...)), &read); err != nil {
		t.Fatal(err)
	}
	for _, cells := range read.Data {
		row := map[string]any{}
		for i, cell := range cells {
			row[read.Headings[i]] = decodeOVSDBValue(cell)
		}
		out = append(out, row)
	}
	return out
}

// decodeOVSDBValue removes OVSDB's type tags from a value.
func decodeOVSDBValue(cell any) any {
	pair, ok := cell.([]any)
	if !ok || len(pair) != 2 {
		return cell
	}
	switch pair[0] {
	case "uuid":
		return pair[1]
	case "set":
		var out []any
		for _, item := range pair[1].([]any) {
			out = append(out, decodeOVSDBValue(item))
		}
		return out
	case "map":
		out := map[string]any{}
		for _, item := range pair[1].([]any) {
			out[fmt.Sprint(item.([]any)[0])] = item.([]any)[1]
		}
		return out
	default:
		return cell
	}
}
