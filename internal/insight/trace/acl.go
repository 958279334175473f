package trace

import (
	"fmt"
	"slices"
	"strings"
)

// aclHints says which actions of ACLs can apply to a packet, by the state of its connection. OVN computes them in
// ls_in_acl_hint and ls_out_acl_hint.
type aclHints struct{ allowNew, allow, drop bool }

func (c *switchPipeline) computeACLHints() aclHints {
	f := c.pkt
	switch {
	case !f.Tracked:
		return aclHints{allow: true, drop: true}
	case f.New:
		return aclHints{allowNew: true, drop: true}
	case f.Established && !f.Reply:
		return aclHints{allow: true, drop: true}
	default:
		return aclHints{drop: true}
	}
}

// evaluateACLs evaluates the switch's ACLs of one direction, tier by tier.
func (c *switchPipeline) evaluateACLs(direction string, of func(acl) bool) (transition, bool) {
	if c.isStateful() && c.pkt.Reply {
		return continuePipeline() // replies are allowed before any ACL is evaluated
	}
	rules := slices.DeleteFunc(slices.Clone(c.acls), func(r acl) bool { return r.Direction != direction || !of(r) })
	last := 0
	for _, r := range rules {
		last = max(last, r.Tier)
	}
	for tier := range last + 1 {
		switch r := c.decisiveACL(rules, tier); {
		case r == nil:
			c.commitNeeded = c.commitNeeded || c.isStateful() && c.pkt.New
		case r.Action == "drop" || r.Action == "reject":
			return c.endByACL(*r)
		case r.Action == "pass":
			c.setCTLabel(*r)
		default:
			c.setCTLabel(*r)
			c.allowByACL(*r)
			return continuePipeline()
		}
	}
	if len(rules) > 0 && c.survey.Logical.Options["default_acl_drop"] == "true" {
		return endPipeline(c.dropPacket(RuleDrops,
			fmt.Sprintf("no ACL of switch %s allows it, and OVN's option default_acl_drop is set", c.Name),
			c.switchOwnerRef(c.logicalSwitch)))
	}
	return continuePipeline()
}

// isStateful reports whether ACLs are evaluated with connection tracking.
func (c *switchPipeline) isStateful() bool { return c.hasRelatedACL || c.hasLoadBalancers() }

// setCTLabel stores the label that an ACL gives to the connection.
func (c *switchPipeline) setCTLabel(r acl) {
	if r.Label != 0 {
		c.ctLabel = uint32(r.Label) //nolint:gosec // OVN's schema allows 32 bits
	}
}

// decisiveACL returns the ACL of a tier with the highest priority that matches the packet, or nil.
func (c *switchPipeline) decisiveACL(rules []acl, tier int) *acl {
	hints, stateful := c.computeACLHints(), c.isStateful()
	var best *acl
	for i := range rules {
		r := &rules[i]
		if r.Tier != tier || best != nil && r.Priority <= best.Priority {
			continue
		}
		can := true
		switch r.Action {
		case "allow", "allow-related":
			can = !stateful || hints.allow || hints.allowNew
		case "drop", "reject":
			can = !stateful || hints.drop
		}
		if can && c.evaluateMatch(r.Match, c.pkt, c.formatACLRow(*r)) {
			best = r
		}
	}
	return best
}

// endByACL drops or rejects the packet because of an ACL.
func (c *switchPipeline) endByACL(r acl) (transition, bool) {
	about, code, text := c.describeACL(r, c.logicalSwitch)
	c.addHop(c.pkt, Hop{About: about, Row: c.formatACLRow(r)}, "%s", strings.TrimPrefix(text, about.String()+" "))
	if r.Action == "reject" {
		return endPipeline(c.rejectPacket(code, text, about))
	}
	return endPipeline(c.dropPacket(code, text, about))
}

// allowByACL allows the packet because of an ACL, and marks its connection to be committed.
func (c *switchPipeline) allowByACL(r acl) {
	if c.isStateful() && r.Action != "allow-stateless" {
		c.commitNeeded = c.commitNeeded || c.pkt.New || r.Label != 0
	}
	if about, _, _ := c.describeACL(r, c.logicalSwitch); r.Tier > 0 && about.Kind != returnPath && about.Kind != "Vpc" {
		c.addHop(c.pkt, Hop{About: about, Row: c.formatACLRow(r)}, "allows it")
	}
}

func (w *traceRun) formatACLRow(r acl) string {
	if r.portGroup != nil {
		return fmt.Sprintf("ACL of port group %s, %s, tier %d, priority %d", r.portGroup.Name, r.Direction, r.Tier,
			r.Priority)
	}
	return fmt.Sprintf("ACL %s, tier %d, priority %d", r.Direction, r.Tier, r.Priority)
}
