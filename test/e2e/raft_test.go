package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/test/show"
)

// addressSet is the row that the stream of writes consists of: a table that neither northd nor Kube-OVN touches.
type addressSet struct {
	UUID string `ovsdb:"_uuid"`
	Name string `ovsdb:"name"`
}

func TestLab4RaftLeaderDiesAndNoWriteIsLost(t *testing.T) {
	item := list.Item(t, 4)
	b := blueprint.Default()
	b.Nodes, b.Gateways, b.Raft, b.Networks, b.Uplinks = 0, 0, 3, nil, nil
	c := own(t, "raft", b)
	nb := c.northbound(t, "Address_Set", &addressSet{})

	killAt := show.Size(1000, 300)
	total := 2 * killAt
	var written []string
	var gap time.Duration
	last := time.Now()
	for i := range total {
		if i == killAt {
			leader := c.leader(t)
			if err := c.Order(within(t, time.Minute), "kill", leader); err != nil {
				t.Fatal(err)
			}
			defer c.caughtUp(t, leader, &written)
			item.Figure("killed %s, the leader, after %d acknowledged writes", leader, len(written))
		}
		name := fmt.Sprintf("w%05d", i)
		write(t, nb, name)
		written = append(written, name)
		gap = max(gap, time.Since(last))
		last = time.Now()
	}
	for _, server := range c.alive(t) {
		missing := c.missing(t, server, written)
		if len(missing) > 0 {
			t.Errorf("%s lost %d of %d acknowledged writes, the first %s", server, len(missing), len(written), missing[0])
		}
	}
	item.Figure("%d writes acknowledged over TLS, all found on the surviving servers; longest wait for one %d ms", len(written), gap.Milliseconds())
}

// northbound is a client that speaks TLS to whichever server leads, about one table.
func (c *cluster) northbound(t *testing.T, table string, row model.Model) client.Client {
	t.Helper()
	dbModel, err := model.NewClientDBModel("OVN_Northbound", map[string]model.Model{table: row})
	if err != nil {
		t.Fatal(err)
	}
	options := []client.Option{client.WithTLSConfig(c.tls(t)), client.WithLeaderOnly(true)}
	status, err := c.Status(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range status.Doors {
		if strings.HasPrefix(d.Name, "nb") {
			options = append(options, client.WithEndpoint("ssl:"+d.Outside))
		}
	}
	nb, err := client.NewOVSDBClient(dbModel, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nb.Close)
	return nb
}

// tls is a client's side of the lab's TLS.
func (c *cluster) tls(t *testing.T) *tls.Config {
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

// write writes one row and returns when the database has acknowledged it. A write whose fate is unknown is looked up by
// writing it again: the name is a key, so it can't be there twice.
func write(t *testing.T, nb client.Client, name string) {
	t.Helper()
	ctx := within(t, 30*time.Second)
	for ctx.Err() == nil {
		if !nb.Connected() {
			if err := connect(ctx, nb); err != nil {
				continue
			}
		}
		ops, err := nb.Create(&addressSet{UUID: "new", Name: name})
		if err != nil {
			t.Fatal(err)
		}
		results, err := nb.Transact(ctx, ops...)
		if err != nil {
			nb.Disconnect()
			continue
		}
		if _, err := ovsdb.CheckOperationResults(results, ops); err == nil || strings.Contains(err.Error(), "constraint") {
			return
		}
		nb.Disconnect()
	}
	t.Fatalf("write %s: no server took it within 30 s", name)
}

func connect(ctx context.Context, nb client.Client) error {
	attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return nb.Connect(attempt)
}

// leader is the process that leads the northbound database.
func (c *cluster) leader(t *testing.T) string {
	t.Helper()
	for _, server := range c.alive(t) {
		status := c.tool(t, "ovn-appctl", "-t", c.serverFile(server, "ctl"), "cluster/status", "OVN_Northbound")
		if strings.Contains(status, "\nRole: leader") {
			return server
		}
	}
	t.Fatal("no server leads the northbound database")
	return ""
}

// alive lists the northbound servers that run.
func (c *cluster) alive(t *testing.T) (out []string) {
	t.Helper()
	status, err := c.Status(within(t, time.Minute))
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

func (c *cluster) serverFile(server, kind string) string {
	return filepath.Join(c.Dir, "data/ovn", strings.TrimPrefix(server, "ovn-")+"."+kind)
}

// missing asks one server, leader or not, which of the written rows it does not have.
func (c *cluster) missing(t *testing.T, server string, written []string) (out []string) {
	t.Helper()
	table := c.tool(t, "ovn-nbctl", "--no-leader-only", "--db=unix:"+c.serverFile(server, "sock"), "--bare", "--columns=name", "list", "address_set")
	have := map[string]bool{}
	for name := range strings.FieldsSeq(table) {
		have[name] = true
	}
	for _, name := range written {
		if !have[name] {
			out = append(out, name)
		}
	}
	return out
}

// caughtUp starts a killed server again and checks that it comes to have every write.
func (c *cluster) caughtUp(t *testing.T, server string, written *[]string) {
	t.Helper()
	if err := c.Order(within(t, time.Minute), "start", server); err != nil {
		t.Error(err)
		return
	}
	c.tool(t, "ovsdb-client", "--timeout=30", "wait", "unix:"+c.serverFile(server, "sock"), "OVN_Northbound", "connected")
	deadline := time.Now().Add(30 * time.Second)
	for {
		missing := c.missing(t, server, *written)
		if len(missing) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%s came back and still lacks %d writes", server, len(missing))
			return
		}
	}
}
