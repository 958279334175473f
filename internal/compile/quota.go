package compile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/snapshot"
)

// limit is how many EIps a namespace may have.
func (c *compiler) limit(namespace string) snapshot.Limit {
	if m := c.w.Management; m != nil {
		return cmp.Or(m.Quotas[namespace], c.w.Config.Quotas.EIps)
	}
	return cmp.Or(c.project.Quota, c.w.Namespace.Quota, c.w.Config.Quotas.EIps)
}

// quota says whether an EIp may have an address: its namespace may have one more, and so may its organization. The default gateway's does
// not count, and what is there stays when a quota is lowered.
func (c *compiler) quota(e *eip, have snapshot.OvnEip) (accepted, waiting intent.Finding) {
	if (have.Exists && have.Ours) || e.Remembered.IsValid() {
		return accepted, waiting
	}
	if limit, used := c.limit(e.Namespace), c.counted[e.Namespace]; !limit.Allows(used) {
		return intent.Finding{Reason: intent.QuotaExceeded, Message: fmt.Sprintf(
			"the project has %d EIps and may have %d; delete one, or ask the operator to raise the quota", used, limit.Most)}, waiting
	}
	if c.w.Management != nil || e.Accepted {
		return accepted, waiting
	}
	organization := c.w.Organizations[c.project.Namespace]
	limit := cmp.Or(organization.EIps, c.w.Config.Quotas.OrganizationEIps)
	if !limit.IsSet {
		return accepted, waiting
	}
	return c.share(e.Meta, limit, c.shareOfEIps(e, organization), "EIps")
}

// The quota of an organization is shared by shards that run side by side, each with its own view of the others. So that no two of them take
// the last one: who is alone may have it at once; otherwise who came first has it, and that is decided when everybody has seen both. Two
// objects may have been created in the same second, or by API servers whose clocks differ.

// settling is how long after its creation an object may still be unseen by another shard, or may have been accepted there without its
// status showing it.
const settling = 5 * time.Second

// share is how many of an organization's quota others have: those who have it or came first, and all who want it.
type share struct{ first, all int }

// share says whether an object may have one of what its organization may have.
func (c *compiler) share(m snapshot.Meta, limit snapshot.Limit, others share, what string) (accepted, waiting intent.Finding) {
	switch {
	case limit.Allows(others.all):
		return accepted, waiting
	case !limit.Allows(others.first):
		return intent.Finding{Reason: intent.QuotaExceeded, Message: fmt.Sprintf(
			"organization %s has %d %s and may have %d; delete one, or ask the operator to raise the quota of its namespace",
			c.project.Namespace, others.first, what, limit.Most)}, waiting
	case c.w.Now.Sub(m.Created) < settling:
		undecided := intent.Finding{Reason: intent.QuotaExceeded, Message: fmt.Sprintf(
			"organization %s asks for more than the %d %s that it may have; who came first is known in %d s",
			c.project.Namespace, limit.Most, what, settling/time.Second)}
		return undecided, undecided
	default:
		return accepted, waiting
	}
}

// shareOfEIps is how many of its organization's EIps others have. No project counts for more than its own quota unless it has more: what
// it can't get does not keep others from theirs.
func (c *compiler) shareOfEIps(e *eip, organization snapshot.Organization) (out share) {
	for _, m := range organization.Members {
		if m.Namespace == c.project.Namespace && m.Name == c.project.Name {
			m.Quota, m.EIps = c.limit(e.Namespace), c.ownEIps()
		} else if !m.Accepted {
			continue // the namespace of its name is another's
		}
		var held, before, all int
		for _, o := range m.EIps {
			switch {
			case o.Namespace == e.Namespace && o.Name == e.Name:
			case o.Accepted:
				held++
			case o.Deleting:
			default:
				all++
				if earlier(o.Meta, e.Meta) {
					before++
				}
			}
		}
		limit := cmp.Or(m.Quota, c.w.Config.Quotas.EIps)
		out.first, out.all = out.first+atMost(limit, held, before), out.all+atMost(limit, held, all)
	}
	return out
}

// atMost is what a project has and wants, as far as its own quota allows it.
func atMost(limit snapshot.Limit, held, wanted int) int {
	if !limit.IsSet {
		return held + wanted
	}
	return max(held, min(held+wanted, limit.Most))
}

// ownEIps are the EIps of the shard, as its organization counts them.
func (c *compiler) ownEIps() []snapshot.Counted {
	if c.ours == nil {
		c.ours = []snapshot.Counted{}
		for _, e := range c.eips {
			have := c.w.Engine.OvnEips[c.ovnEip(e)]
			if e.Child == "" {
				c.ours = append(c.ours, snapshot.Counted{Meta: e.Meta, Accepted: e.Accepted || have.Exists && have.Ours || e.Remembered.IsValid()})
			}
		}
	}
	return c.ours
}

// projectQuota says whether the organization may have one more Project. One that has its namespace stays when the quota is lowered.
func (c *compiler) projectQuota() (accepted, waiting intent.Finding) {
	p := c.project
	organization := c.w.Organizations[p.Namespace]
	limit := cmp.Or(organization.Projects, c.w.Config.Quotas.OrganizationProjects)
	if !limit.IsSet || p.Accepted || c.w.Namespace.Exists || c.w.Engine.Vpc.Exists {
		return accepted, waiting
	}
	others := slices.DeleteFunc(slices.Clone(organization.Members), func(m snapshot.Member) bool { return m.Name == p.Name })
	out := share{all: len(others)}
	for _, m := range others {
		if m.Accepted || earlier(m.Meta, p.Meta) {
			out.first++
		}
	}
	return c.share(p.Meta, limit, out, "Projects")
}

// earlier says whether an object came before another.
func earlier(a, b snapshot.Meta) bool {
	return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name)) < 0
}
