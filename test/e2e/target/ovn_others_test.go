package target

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// checkForeignRows checks that rows of others on the router are never removed, and that a row that ours would duplicate
// is corrected instead.
func (b *rowsFixture) checkForeignRows(t *testing.T) {
	b.RunNbctl(t, "lr-nat-add", rowsRouter, "snat", "198.51.100.99", "10.99.0.0/24")
	// firstRows() has 10.0.0.10 there
	b.RunNbctl(t, "lr-nat-add", rowsRouter, "dnat_and_snat", "198.51.100.10", "10.0.0.77")
	b.RunNbctl(t, "lr-policy-add", rowsRouter, "1005", "ip4.dst == 10.99.0.0/24", "allow")
	b.RunNbctl(t, "lr-policy-add", rowsRouter, "500", "ip4.dst == 10.99.0.0/24", "reroute", "10.99.0.1")
	b.waitUntil(t, "the client knows the NAT", func() bool {
		held, err := b.rows.Observe(t.Context())
		return err == nil && len(held) == 3 // the policy of priority 500 is outside our bands
	})
	b.mustConverge(t, firstRows())
	if nat := b.RunNbctl(t, "lr-nat-list", rowsRouter); strings.Count(nat, " 198.51.100.10 ") != 1 ||
		!strings.Contains(nat, "10.0.0.10") {
		t.Errorf("a NAT row of others is not as wanted, or is there twice:\n%s", nat)
	}
	b.mustConverge(t, nil)
	if ours := b.dumpOurRows(t); ours != "" {
		t.Errorf("rows of ours stayed:\n%s", ours)
	}
	nat, policies := b.RunNbctl(t, "lr-nat-list", rowsRouter), b.RunNbctl(t, "lr-policy-list", rowsRouter)
	if strings.Count(nat, "198.51.100.") != 2 || strings.Count(policies, "10.99.0.0/24") != 2 {
		t.Errorf("rows of others are gone:\n%s\n%s", nat, policies)
	}
}

// checkDuplicates checks the case that Kube-OVN writes the row that we have just restored.
func (b *rowsFixture) checkDuplicates(t *testing.T) {
	want := wantedRows(fipRow("198.51.100.10", "10.0.0.10"), policyRow(ownership.DefaultEgress, "ip4", "198.51.100.1"))
	b.mustConverge(t, want)
	if marked := strings.Count(b.dumpOurRows(t), ownership.RowOwnerKey); marked != 2 {
		t.Fatalf("%d rows are marked as ours; wanted 2", marked)
	}
	b.RunNbctl(t, "--id=@new", "create", "nat", "type=dnat_and_snat", "external_ip=198.51.100.10",
		"logical_ip=10.0.0.10",
		"--", "add", "logical_router", rowsRouter, "nat", "@new")
	b.RunNbctl(t, "--id=@new", "create", "logical_router_policy", "priority=1000", "match=ip4", "action=reroute",
		"nexthops=198.51.100.1",
		"--", "add", "logical_router", rowsRouter, "policies", "@new")
	b.waitUntil(t, "both rows are seen twice", func() bool {
		held, err := b.rows.Observe(t.Context())
		return err == nil && len(held) == 4
	})
	b.mustConverge(t, want)
	nat, policies := b.RunNbctl(t, "lr-nat-list", rowsRouter), b.RunNbctl(t, "lr-policy-list", rowsRouter)
	if strings.Count(nat, "198.51.100.10") != 1 || strings.Count(policies, "reroute") != 1 {
		t.Errorf("one of each should be left:\n%s\n%s", nat, policies)
	}
	if ours := b.dumpOurRows(t); ours != "" {
		t.Errorf("the ones that are left should be those of others:\n%s", ours)
	}
}

// checkOrphans checks that rows without their router fail, each with the reason; that a port name in use fails only
// that row; and that rows that outlive the router are deleted.
func (b *rowsFixture) checkOrphans(t *testing.T) {
	nobody := b.client.RowTarget("nobody")
	if held, err := nobody.Observe(t.Context()); err != nil || len(held) != 0 {
		t.Errorf("a router that does not exist holds %v, %v", held, err)
	}
	changes := state.Diff(firstRows(), intent.Rows{})
	failed := nobody.Apply(t.Context(), changes)
	for _, c := range changes {
		if err := failed[c.Key]; err == nil || !strings.Contains(err.Error(), "router nobody does not exist") {
			t.Errorf("%s: got %v; wanted to read that the router does not exist", c.Key, err)
		}
	}
	b.RunNbctl(t, "lrp-add", rowsRouter, "rows-near", "0a:00:00:00:00:01", "10.99.0.1/24")
	b.waitUntil(t, "the client knows the port", func() bool {
		return slices.Contains(b.client.RouterPortNames(rowsRouter), "rows-near")
	})
	failed = b.rows.Apply(t.Context(), changes)
	for key, err := range failed {
		if !strings.HasPrefix(key.ID, "rows-near") || !strings.Contains(err.Error(), "not managed by Sallyport") {
			t.Errorf("%s: got %v; wanted only the port and its MAC binding to fail", key, err)
		}
	}
	if len(failed) != 2 {
		t.Errorf("%d changes failed; wanted those of the port and its MAC binding", len(failed))
	}

	b.RunNbctl(t, "lrp-del", "rows-near")
	b.waitUntil(t, "the client knows that the port is gone", func() bool {
		return !slices.Contains(b.client.RouterPortNames(rowsRouter), "rows-near")
	})
	b.mustConverge(t, firstRows())
	b.RunNbctl(t, "lr-del", rowsRouter, "--", "lsp-del", "out-rows") // as Kube-OVN does
	b.waitUntil(t, "the client knows that the router is gone", func() bool {
		return b.client.RouterPortNames(rowsRouter) == nil
	})
	b.mustConverge(t, nil)
	if left := b.RunNbctl(t, "list", "static_mac_binding"); left != "" {
		t.Errorf("a MAC binding has outlived its router:\n%s", left)
	}
	if left := b.dumpOurRows(t); left != "" {
		t.Errorf("rows of ours have outlived their router:\n%s", left)
	}
}

// checkConcurrentWriters writes to the router continuously as another client. Our reads are then outdated when we
// write, and we retry.
func (b *rowsFixture) checkConcurrentWriters(t *testing.T) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 30 {
			b.RunNbctl(t, "lr-nat-add", rowsRouter, "snat", "198.51.100.99", fmt.Sprintf("10.99.%d.0/24", i))
		}
	}()
	sets := []intent.Rows{firstRows(), secondRows()}
	rounds := 0
	for running := true; running; rounds++ {
		b.mustConverge(t, sets[rounds%2])
		select {
		case <-done:
			running = false
		default:
		}
	}
	t.Logf("%d sets were written while somebody else wrote 30 rows", rounds)
	b.mustConverge(t, firstRows())
	b.mustConverge(t, nil)
	if nat := b.RunNbctl(t, "lr-nat-list", rowsRouter); strings.Count(nat, "198.51.100.99") != 30 ||
		strings.Count(nat, "snat") != 30 {
		t.Errorf("only the 30 rows of others should be left:\n%s", nat)
	}
}

// checkFailover kills the leader during a series of changes; the client connects to the next leader, and the last set
// is in the database.
func (b *rowsFixture) checkFailover(t *testing.T) {
	sets := []intent.Rows{firstRows(), secondRows()}
	var longest time.Duration
	const rounds, kill = 40, 10
	for i := range rounds {
		if i == kill {
			b.ControlLab(t, "kill", b.NBLeader(t))
		}
		begin := time.Now()
		err := b.converge(sets[i%2])
		for err != nil && time.Since(begin) < harness.Patience {
			err = b.converge(sets[i%2])
		}
		if err != nil {
			t.Fatal(err)
		}
		longest = max(longest, time.Since(begin))
	}
	t.Logf("the leader was killed; the longest of %d changes took %d ms", rounds, longest.Milliseconds())
	missing, err := state.PreparePlan(t.Context(), b.rows, sets[(rounds-1)%2])
	if err != nil || len(missing.ChangeLines()) != 0 {
		t.Errorf("%v %s", err, state.FormatPlans(missing))
	}
	for _, address := range []string{"198.51.100.11", "198.51.100.21"} { // of the second set, as shown by ovn-nbctl
		if nat := b.RunNbctl(t, "lr-nat-list", rowsRouter); !strings.Contains(nat, address) {
			t.Errorf("%s is not there:\n%s", address, nat)
		}
	}
}
