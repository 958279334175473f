package trace

import (
	"fmt"
	"slices"
	"strings"
)

// aclHints are what kinds of rules can decide about a packet, by the state of its connection.
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

// evaluateACLs carries out the switch's rules of a direction, tier by tier.
func (c *switchPipeline) evaluateACLs(direction string, of func(acl) bool) (transition, bool) {
	if c.isStateful() && c.pkt.Reply {
		return continuePipeline() // replies pass before any rule
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
			fmt.Sprintf("no rule of switch %s allows it, and OVN drops what none allows", c.Name),
			c.switchOwnerRef(c.logicalSwitch)))
	}
	return continuePipeline()
}

// isStateful says whether rules see connections.
func (c *switchPipeline) isStateful() bool { return c.hasRelatedACL || c.hasLoadBalancers() }

// setCTLabel notes the label that a rule gives to the connection.
func (c *switchPipeline) setCTLabel(r acl) {
	if r.Label != 0 {
		c.ctLabel = uint32(r.Label) //nolint:gosec // OVN's schema allows 32 bits
	}
}

// decisiveACL is the rule of a tier that decides about the packet; nil: none does.
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

// endByACL is the end of a packet that a rule drops or rejects.
func (c *switchPipeline) endByACL(r acl) (transition, bool) {
	about, code, text := c.describeACL(r, c.logicalSwitch)
	c.addHop(c.pkt, about, c.formatACLRow(r), "%s", strings.TrimPrefix(text, about.String()+" "))
	if r.Action == "reject" {
		return endPipeline(c.rejectPacket(code, text, about))
	}
	return endPipeline(c.dropPacket(code, text, about))
}

// allowByACL notes that a rule has let the packet through, and lets the connection be written down.
func (c *switchPipeline) allowByACL(r acl) {
	if c.isStateful() && r.Action != "allow-stateless" {
		c.commitNeeded = c.commitNeeded || c.pkt.New || r.Label != 0
	}
	if about, _, _ := c.describeACL(r, c.logicalSwitch); r.Tier > 0 && about.Kind != returnPath && about.Kind != "Vpc" {
		c.addHop(c.pkt, about, c.formatACLRow(r), "allows it")
	}
}

func (w *traceRun) formatACLRow(r acl) string {
	if r.portGroup != nil {
		return fmt.Sprintf("ACL of port group %s, %s, tier %d, priority %d", r.portGroup.Name, r.Direction, r.Tier,
			r.Priority)
	}
	return fmt.Sprintf("ACL %s, tier %d, priority %d", r.Direction, r.Tier, r.Priority)
}
