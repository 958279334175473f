package harness

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	return c.RunTool(t, "ovn-nbctl", append([]string{"--db=" + strings.Join(sockets, ","), "--timeout=30"}, args...)...)
}

// RunSbctl runs ovn-sbctl on the southbound database.
func (c *Cluster) RunSbctl(t *testing.T, args ...string) string {
	t.Helper()
	return c.RunTool(t, "ovn-sbctl", append([]string{
		"--db=unix:" + filepath.Join(c.Dir, "data/ovn/sb1.sock"),
		"--timeout=10", "--bare",
	}, args...)...)
}

// NewNBClient returns a client for one table that connects to the leader of the northbound database over TLS.
func (c *Cluster) NewNBClient(t *testing.T, table string, row model.Model) client.Client {
	t.Helper()
	dbModel, err := model.NewClientDBModel("OVN_Northbound", map[string]model.Model{table: row})
	if err != nil {
		t.Fatal(err)
	}
	options := []client.Option{client.WithTLSConfig(c.clientTLSConfig(t)), client.WithLeaderOnly(true)}
	status, err := c.Status(Within(t, time.Minute))
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
	status, err := c.Status(Within(t, time.Minute))
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
