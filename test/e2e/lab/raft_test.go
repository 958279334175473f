package lab

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// addressSet is the row that the test writes repeatedly, in a table that neither northd nor Kube-OVN writes to.
type addressSet struct {
	UUID string `ovsdb:"_uuid"`
	Name string `ovsdb:"name"`
}

func TestLab4RaftLeaderDiesAndNoWriteIsLost(t *testing.T) {
	item := labItems.Item(t, 4)
	b := blueprint.Default()
	b.Nodes, b.Gateways, b.Raft, b.Networks, b.Uplinks = 0, 0, 3, nil, nil
	c := harness.StartLab(t, "raft", b)
	nb := c.NewNBClient(t, "Address_Set", &addressSet{})

	killAt := show.ChooseSize(1000, 300)
	total := 2 * killAt
	var written []string
	var gap time.Duration
	last := time.Now()
	for i := range total {
		if i == killAt {
			leader := c.NBLeader(t)
			if err := c.Order(harness.Within(t, harness.Patience), "kill", leader); err != nil {
				t.Fatal(err)
			}
			defer expectCaughtUp(t, c, leader, &written)
			item.AddFigure("killed %s, the leader, after %d acknowledged writes", leader, len(written))
		}
		name := fmt.Sprintf("w%05d", i)
		writeRow(t, nb, name)
		written = append(written, name)
		gap = max(gap, time.Since(last))
		last = time.Now()
	}
	for _, server := range c.RunningNBServers(t) {
		missing := missingRows(t, c, server, written)
		if len(missing) > 0 {
			t.Errorf("%s lost %d of %d acknowledged writes, the first %s", server, len(missing), len(written),
				missing[0])
		}
	}
	item.AddFigure("%d writes acknowledged over TLS, all found on the surviving servers; longest wait for one %d ms",
		len(written), gap.Milliseconds())
}

// writeRow writes one row and returns when the database has acknowledged it. A write with an unknown outcome is
// repeated: the name is a key, so the row cannot exist twice.
func writeRow(t *testing.T, nb client.Client, name string) {
	t.Helper()
	ctx := harness.Within(t, harness.Patience)
	for ctx.Err() == nil {
		if !nb.Connected() {
			if err := connectNB(ctx, nb); err != nil {
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
		if _, err := ovsdb.CheckOperationResults(results, ops); err == nil ||
			strings.Contains(err.Error(), "constraint") {
			return
		}
		nb.Disconnect()
	}
	t.Fatalf("write %s: no server took it within %s", name, harness.Patience)
}

func connectNB(ctx context.Context, nb client.Client) error {
	attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return nb.Connect(attempt)
}

// missingRows returns the written rows that one server, leader or not, does not have.
func missingRows(t *testing.T, c *harness.Cluster, server string, written []string) (out []string) {
	t.Helper()
	table := c.RunTool(t, "ovn-nbctl", "--no-leader-only", "--db=unix:"+c.DatabaseFile(server, "sock"), "--bare",
		"--columns=name", "list", "address_set")
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

// expectCaughtUp restarts a killed server and checks that it receives every write.
func expectCaughtUp(t *testing.T, c *harness.Cluster, server string, written *[]string) {
	t.Helper()
	if err := c.Order(harness.Within(t, harness.Patience), "start", server); err != nil {
		t.Error(err)
		return
	}
	c.RunTool(t, "ovsdb-client", harness.ToolTimeout, "wait", "unix:"+c.DatabaseFile(server, "sock"), "OVN_Northbound",
		"connected")
	deadline := time.Now().Add(harness.Patience)
	for {
		missing := missingRows(t, c, server, *written)
		if len(missing) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%s came back and still lacks %d writes", server, len(missing))
			return
		}
	}
}
