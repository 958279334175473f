package compile

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// competingEIP is an EIp of one of several projects that share a quota.
type competingEIP struct {
	snapshot.Meta
	project    string
	visibleAt  time.Time // when caches show it
	acceptedAt time.Time // when its status was written; zero: never
}

// quotaFixture is projects of one organization whose shards run in parallel: each sees the decisions of others only
// some time later.
type quotaFixture struct {
	limit    int
	lag      time.Duration
	eips     []*competingEIP
	projects []string
}

// compileShard compiles one project's shard, and returns its accepted EIps.
func (r *quotaFixture) compileShard(project string, now time.Time) map[string]bool {
	w := &snapshot.VpcInput{
		Shard: "acme-" + project, Now: now, Namespace: snapshot.Namespace{Exists: true, Owned: true},
		Projects: []snapshot.Project{{
			Meta: snapshot.Meta{Namespace: "acme", Name: project}, Accepted: true, NetworkType: "a",
			Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")},
		}},
		ExternalSubnets: []snapshot.ExternalSubnet{{
			Subnet: "ext", Network: "ext", Type: "a", Prefix: netip.MustParsePrefix("198.51.100.0/24"),
			Gateway: addr("198.51.100.1"), Free: 100,
		}},
	}
	members := map[string]snapshot.MemberProject{}
	for _, p := range r.projects {
		members[p] = snapshot.MemberProject{Meta: snapshot.Meta{Namespace: "acme", Name: p}, Accepted: true}
	}
	for _, e := range r.eips {
		if e.visibleAt.After(now) {
			continue
		}
		if e.project == project {
			w.EIps = append(w.EIps, snapshot.EIp{Meta: e.Meta, Type: "a", Accepted: !e.acceptedAt.IsZero()})
			continue
		}
		m := members[e.project]
		m.EIps = append(m.EIps, snapshot.MemberEIp{
			Meta:     e.Meta,
			Accepted: !e.acceptedAt.IsZero() && now.Sub(e.acceptedAt) >= r.lag,
		})
		members[e.project] = m
	}
	o := snapshot.Organization{EIps: snapshot.AtMost(r.limit)}
	for _, p := range r.projects {
		o.Members = append(o.Members, members[p])
	}
	w.Organizations = map[string]snapshot.Organization{"acme": o}
	_, verdicts := Shard(w)
	out := map[string]bool{}
	for _, v := range verdicts {
		if v.Object.Kind == intent.EIp && v.Accepted.OK() {
			out[v.Object.Name] = true
		}
	}
	return out
}

// newQuotaFixture returns a limit and twelve EIps of three projects that are created within a few seconds.
func newQuotaFixture(chance *rand.Rand, begin time.Time) *quotaFixture {
	r := &quotaFixture{
		limit:    1 + chance.IntN(4),
		lag:      time.Duration(chance.IntN(3000)) * time.Millisecond,
		projects: []string{"p0", "p1", "p2"},
	}
	for i := range 12 {
		seen := begin.Add(time.Duration(chance.IntN(2500)) * time.Millisecond)
		// clock skew of the API server that set the creation time
		skew := time.Duration(chance.IntN(3)-1) * time.Second
		project := r.projects[chance.IntN(3)]
		r.eips = append(r.eips, &competingEIP{
			Meta: snapshot.Meta{
				Namespace: "acme-" + project,
				Name:      fmt.Sprintf("e%d", chance.IntN(1000)*100+i),
				Created:   seen.Add(skew).Truncate(time.Second),
			},
			project: project, visibleAt: seen,
		})
	}
	return r
}

// Shards of one organization decide in parallel. Together they never accept more than the quota, whatever they know of
// each other, and in the end not less.
func TestOrganizationHasWhatItMayHave(t *testing.T) {
	for seed := range uint64(100) {
		chance := rand.New(rand.NewPCG(seed, 1))
		begin := time.Unix(1000, 0)
		r := newQuotaFixture(chance, begin)
		given := 0
		for now := begin; now.Before(begin.Add(20 * time.Second)); now = now.Add(time.Duration(chance.IntN(400)) * time.Millisecond) {
			project := r.projects[chance.IntN(3)]
			accepted := r.compileShard(project, now)
			given = 0
			for _, e := range r.eips {
				if e.project == project && accepted[e.Name] && e.acceptedAt.IsZero() {
					e.acceptedAt = now
				}
				if !e.acceptedAt.IsZero() {
					given++
				}
			}
			if given > r.limit {
				t.Fatalf("seed %d: %d EIps after %s, and the organization may have %d", seed, given, now.Sub(begin),
					r.limit)
			}
		}
		if given != r.limit {
			t.Errorf("seed %d: %d EIps in the end, and the organization may have %d", seed, given, r.limit)
		}
	}
}

// A project that requests more than its own quota does not block its siblings.
func TestProjectDoesNotUseUpItsOrganization(t *testing.T) {
	old := time.Unix(1, 0)
	greedy := snapshot.MemberProject{
		Meta:     snapshot.Meta{Namespace: "acme", Name: "greedy"},
		Accepted: true,
		Quota:    snapshot.AtMost(2),
	}
	for i := range 100 {
		m := snapshot.Meta{Namespace: "acme-greedy", Name: fmt.Sprintf("e%d", i), Created: old}
		greedy.EIps = append(greedy.EIps, snapshot.MemberEIp{Meta: m, Accepted: i < 2})
	}
	c := &compiler{
		w:       &snapshot.VpcInput{Shard: "acme-p0"},
		project: &project{Project: snapshot.Project{Meta: snapshot.Meta{Namespace: "acme", Name: "p0"}}},
	}
	e := &eip{EIp: snapshot.EIp{Meta: snapshot.Meta{Namespace: "acme-p0", Name: "mine", Created: time.Unix(900, 0)}}}
	if got := c.countOtherEIPs(e, snapshot.Organization{Members: []snapshot.MemberProject{greedy}}); got != (quotaShare{2, 2}) {
		t.Errorf("others have %+v, and 2 are a greedy project's that may have 2", got)
	}
	greedy.Quota = snapshot.Limit{}
	if got := c.countOtherEIPs(e, snapshot.Organization{Members: []snapshot.MemberProject{greedy}}); got != (quotaShare{100, 100}) {
		t.Errorf("others have %+v, and 100 are a project's that may have as many as it wants", got)
	}
}
