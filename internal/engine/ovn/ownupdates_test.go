package ovn

import (
	"testing"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// Our own updates are not reported. Another client's update of the same row is.
func TestEchoIsNoNews(t *testing.T) {
	balancer := func(vips map[string]string) *nb.LoadBalancer {
		return &nb.LoadBalancer{
			UUID:        "b1",
			Name:        "acme/web",
			VIPs:        vips,
			ExternalIDs: map[string]string{ownership.RowShardKey: "acme"},
		}
	}
	none, one, two := balancer(nil), balancer(map[string]string{"198.51.100.7:80": "10.0.0.1:80"}),
		balancer(map[string]string{"198.51.100.7:80": "10.0.0.2:80"})
	s := newTestSession(t)
	told := 0
	x := newRowIndex(s, func(string) { told++ }, func(string, string) { told++ })
	written := func(b *nb.LoadBalancer) map[string]rowDraft {
		return map[string]rowDraft{b.UUID: {row: b, fields: []any{&b.VIPs, &b.Options}}}
	}
	for _, step := range []struct {
		what    string
		do      func()
		was, is *nb.LoadBalancer
		tells   int
	}{
		{"somebody else's", func() {}, none, one, 1},
		{"ours", func() { s.ownUpdates.expectUpdates(written(two)) }, one, two, 0},
		{"somebody else's again", func() {}, two, one, 1},
		{"the same as ours was, which is heard of once", func() {}, one, two, 1},
		{"not what we wrote", func() { s.ownUpdates.expectUpdates(written(none)) }, two, one, 1},
		{
			"what we wrote, later; nothing is as good as empty", func() {}, one,
			&nb.LoadBalancer{UUID: "b1", VIPs: map[string]string{}}, 0,
		},
		{"ours, but it failed", func() {
			s.ownUpdates.expectUpdates(written(two))
			s.ownUpdates.forgetUpdates(written(two))
		}, one, two, 1},
	} {
		told = 0
		step.do()
		x.OnUpdate(nb.LoadBalancerTable, step.was, step.is)
		if told != step.tells {
			t.Errorf("%s: told %d times, want %d", step.what, told, step.tells)
		}
	}
}

// libovsdb keeps a set in the order of its changes, not in that in which it was written.
func TestEchoOfASet(t *testing.T) {
	set := func(addresses ...string) *nb.AddressSet {
		return &nb.AddressSet{UUID: "a1", Addresses: addresses, ExternalIDs: map[string]string{ownership.RowShardKey: "acme"}}
	}
	for name, test := range map[string]struct {
		is    *nb.AddressSet
		tells int
	}{
		"the same":         {set("1", "2", "3"), 0},
		"in another order": {set("3", "1", "2"), 0},
		"one too many":     {set("3", "1", "2", "4"), 1},
		"one missing":      {set("3", "1"), 1},
		"another one":      {set("3", "1", "4"), 1},
		"empty":            {set(), 1},
	} {
		s, told := newTestSession(t), 0
		x := newRowIndex(s, func(string) { told++ }, nil)
		wrote := set("1", "2", "3")
		s.ownUpdates.expectUpdates(map[string]rowDraft{"a1": {row: wrote, fields: []any{&wrote.Addresses}}})
		if x.OnUpdate(nb.AddressSetTable, set("1"), test.is); told != test.tells {
			t.Errorf("%s: told %d times, want %d", name, told, test.tells)
		}
	}
}
