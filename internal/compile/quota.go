package compile

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// eipLimit returns the maximum number of EIps in a namespace.
func (c *compiler) eipLimit(namespace string) snapshot.Limit {
	if m := c.w.Management; m != nil {
		return cmp.Or(m.NamespaceQuotas[namespace], c.w.Config.Quotas.EIps)
	}
	return cmp.Or(c.project.EIpQuota, c.w.Namespace.Quota, c.w.Config.Quotas.EIps)
}

// checkEIPQuota checks the quotas of an EIp's namespace and of its organization. The EIp of the default egress does not
// count, and existing addresses are kept when a quota is lowered.
func (c *compiler) checkEIPQuota(e *eip, have snapshot.OvnEip) (accepted, waiting intent.Finding) {
	if (have.Exists && have.Owned) || e.StatusAddress.IsValid() {
		return accepted, waiting
	}
	if limit, used := c.eipLimit(e.Namespace), c.eipCount[e.Namespace]; !limit.AllowsMore(used) {
		return intent.Finding{Reason: intent.QuotaExceeded, Message: fmt.Sprintf(
			"%s has %d EIps (quota: %d); delete one, or ask the operator to raise the quota",
			c.describeScope(e.Namespace), used,
			limit.Max)}, waiting
	}
	if c.w.Management != nil || e.Accepted {
		return accepted, waiting
	}
	organization := c.w.Organizations[c.project.Namespace]
	limit := cmp.Or(organization.EIps, c.w.Config.Quotas.OrganizationEIps)
	if !limit.IsSet {
		return accepted, waiting
	}
	return c.checkSharedQuota(e.Meta, limit, c.countOtherEIPs(e, organization), "EIps")
}

// The quota of an organization is shared by shards that run in parallel, each with its own view of the others. To
// prevent two shards from taking the last unit: an object without competitors gets it at once. Otherwise the oldest
// object gets it, and this is decided only when all shards have seen all competitors. Two objects may have been created
// in the same second, or by API servers whose clocks differ.

// quotaSettleTime is how long after its creation an object may still be unknown to another shard, or may have been
// accepted there without its status showing it.
const quotaSettleTime = 5 * time.Second

// quotaShare is how much of an organization's quota others use: those that are accepted or older, and all that ask for
// it.
type quotaShare struct{ ahead, total int }

// checkSharedQuota checks an object against the quota of its organization.
func (c *compiler) checkSharedQuota(m snapshot.Meta, limit snapshot.Limit, others quotaShare, what string) (accepted,
	waiting intent.Finding,
) {
	switch {
	case limit.AllowsMore(others.total):
		return accepted, waiting
	case !limit.AllowsMore(others.ahead):
		return intent.Finding{Reason: intent.QuotaExceeded, Message: fmt.Sprintf(
			"organization %s has %d %s (quota: %d); delete one, or ask the operator to raise its namespace's quota",
			c.project.Namespace, others.ahead, what, limit.Max)}, waiting
	case c.w.Now.Sub(m.Created) < quotaSettleTime:
		undecided := intent.Finding{Reason: intent.QuotaExceeded, Message: fmt.Sprintf(
			"organization %s requests more than its quota of %d %s; the oldest request wins, which is decided in %d s",
			c.project.Namespace, limit.Max, what, quotaSettleTime/time.Second)}
		return undecided, undecided
	default:
		return accepted, waiting
	}
}

// countOtherEIPs counts the other EIps of the organization. No project counts for more than its own quota unless it
// already has more, so requests that its own quota refuses do not block others.
func (c *compiler) countOtherEIPs(e *eip, organization snapshot.Organization) (out quotaShare) {
	for _, m := range organization.Members {
		if m.Namespace == c.project.Namespace && m.Name == c.project.Name {
			m.Quota, m.EIps = c.eipLimit(e.Namespace), c.countedEIPs()
		} else if !m.Accepted {
			continue // not accepted: the namespace of its name belongs to another
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
				if o.IsEarlier(e.Meta) {
					before++
				}
			}
		}
		limit := cmp.Or(m.Quota, c.w.Config.Quotas.EIps)
		out.ahead, out.total = out.ahead+capByQuota(limit, held, before), out.total+capByQuota(limit, held, all)
	}
	return out
}

// capByQuota returns what a project has and wants, limited by its own quota.
func capByQuota(limit snapshot.Limit, held, wanted int) int {
	if !limit.IsSet {
		return held + wanted
	}
	return max(held, min(held+wanted, limit.Max))
}

// countedEIPs returns the EIps of the shard as the organization's quota counts them.
func (c *compiler) countedEIPs() []snapshot.MemberEIp {
	if c.ownCounted == nil {
		c.ownCounted = []snapshot.MemberEIp{}
		for _, e := range c.eips {
			have := c.w.Engine.OvnEips[c.ovnEipName(e)]
			if e.ExistingOvnEip == "" {
				c.ownCounted = append(c.ownCounted, snapshot.MemberEIp{
					Meta:     e.Meta,
					Accepted: e.Accepted || have.Exists && have.Owned || e.StatusAddress.IsValid(),
				})
			}
		}
	}
	return c.ownCounted
}

// checkProjectQuota checks whether the organization may have one more Project. A Project that has its namespace is kept
// when the quota is lowered.
func (c *compiler) checkProjectQuota() (accepted, waiting intent.Finding) {
	p := c.project
	organization := c.w.Organizations[p.Namespace]
	limit := cmp.Or(organization.Projects, c.w.Config.Quotas.OrganizationProjects)
	if !limit.IsSet || p.Accepted || c.w.Namespace.Exists || c.w.Engine.Vpc.Exists {
		return accepted, waiting
	}
	others := slices.DeleteFunc(slices.Clone(organization.Members), func(m snapshot.MemberProject) bool {
		return m.Name == p.Name
	})
	out := quotaShare{total: len(others)}
	for _, m := range others {
		if m.Accepted || m.IsEarlier(p.Meta) {
			out.ahead++
		}
	}
	return c.checkSharedQuota(p.Meta, limit, out, "Projects")
}
