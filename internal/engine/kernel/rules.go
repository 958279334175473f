package kernel

import (
	"context"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/nodepath"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Rules are the ip rules with our protocol and our preferences.
type Rules struct{ kernel *Kernel }

// Rules returns the target for ip rules.
func (k *Kernel) Rules() Rules { return Rules{k} }

// Scope describes which rules are ours.
func (Rules) Scope() string {
	return fmt.Sprintf("rules of protocol %d with preferences %d, %d and %d",
		ownership.NodeProtocol, ownership.NodeRuleToCluster, ownership.NodeRuleMark, ownership.NodeRuleSource)
}

// Observe returns our rules.
func (t Rules) Observe(context.Context) (nodepath.Rules, error) {
	out := nodepath.Rules{}
	return out, t.forEachRule(func(key nodepath.RuleKey, r netlink.Rule) error {
		out[key] = state.Entry[nodepath.Rule]{Value: nodepath.Rule{Table: r.Table}}
		return nil
	})
}

// forEachRule calls do for each of our rules.
func (t Rules) forEachRule(do func(nodepath.RuleKey, netlink.Rule) error) error {
	for _, family := range families {
		list, err := listWithRetry("rules", func() ([]netlink.Rule, error) { return t.kernel.handle.RuleList(family) })
		if err != nil {
			return err
		}
		for _, r := range list {
			switch r.Priority {
			case ownership.NodeRuleToCluster, ownership.NodeRuleMark, ownership.NodeRuleSource:
			default:
				continue
			}
			if r.Protocol != ownership.NodeProtocol {
				continue
			}
			r.Family = family
			if err := do(ruleKeyOf(r), r); err != nil {
				return err
			}
		}
	}
	return nil
}

// fromNetlink returns the family for the kernel's number.
func fromNetlink(number int) ipfamily.Family {
	if number == netlink.FAMILY_V6 {
		return ipfamily.V6
	}
	return ipfamily.V4
}

// toNetlink returns the kernel's number of a family.
func toNetlink(f ipfamily.Family) int {
	if f == ipfamily.V6 {
		return netlink.FAMILY_V6
	}
	return netlink.FAMILY_V4
}

func ruleKeyOf(r netlink.Rule) nodepath.RuleKey {
	return nodepath.RuleKey{
		Pref:   r.Priority,
		Family: fromNetlink(r.Family),
		From:   prefixFromIPNet(r.Src),
		To:     prefixFromIPNet(r.Dst),
		Mark:   r.Mark,
	}
}

func buildNetlinkRule(key nodepath.RuleKey, table int) *netlink.Rule {
	r := netlink.NewRule()
	r.Priority, r.Family, r.Table, r.Protocol = key.Pref, toNetlink(key.Family), table, ownership.NodeProtocol
	r.Src, r.Dst = ipNetFromPrefix(key.From), ipNetFromPrefix(key.To)
	if key.Mark != 0 {
		mask := uint32(ownership.NodeMarkMask)
		r.Mark, r.Mask = key.Mark, &mask
	}
	return r
}

// Apply adds and deletes rules. For the kernel, a rule with another action is a different rule: the new one is added
// before the old one is deleted.
func (t Rules) Apply(_ context.Context, changes []state.Change[nodepath.RuleKey,
	nodepath.Rule],
) map[nodepath.RuleKey]error {
	failed := map[nodepath.RuleKey]error{}
	for _, c := range changes {
		if c.After != nil {
			if err := t.kernel.handle.RuleAdd(buildNetlinkRule(c.Key, c.After.Table)); err != nil &&
				!errors.Is(err, unix.EEXIST) {
				failed[c.Key] = fmt.Errorf("add: %w", err)
				continue
			}
		}
		if c.Before != nil && (c.After == nil || *c.Before != *c.After) {
			if err := t.kernel.handle.RuleDel(buildNetlinkRule(c.Key, c.Before.Table)); err != nil && !isNotFound(err) {
				failed[c.Key] = fmt.Errorf("delete: %w", err)
			}
		}
	}
	return failed
}
