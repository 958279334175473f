package trace

import (
	"fmt"
	"slices"
	"strings"
)

// hints are what kinds of rules can decide about a packet, by the state of its connection.
type hints struct{ allowNew, allow, drop bool }

func (c *crossing) hints() hints {
	f := c.f
	switch {
	case !f.Tracked:
		return hints{allow: true, drop: true}
	case f.New:
		return hints{allowNew: true, drop: true}
	case f.Established && !f.Reply:
		return hints{allow: true, drop: true}
	default:
		return hints{drop: true}
	}
}

// filter carries out the switch's rules of a direction, tier by tier.
func (c *crossing) filter(direction string, of func(rule) bool) (step, bool) {
	if c.stateful() && c.f.Reply {
		return goesOn() // replies pass before any rule
	}
	rules := slices.DeleteFunc(slices.Clone(c.rules), func(r rule) bool { return r.Direction != direction || !of(r) })
	last := 0
	for _, r := range rules {
		last = max(last, r.Tier)
	}
	for tier := range last + 1 {
		switch r := c.decisive(rules, tier); {
		case r == nil:
			c.keeps = c.keeps || c.stateful() && c.f.New
		case r.Action == "drop" || r.Action == "reject":
			return c.stopped(*r)
		case r.Action == "pass":
			c.tag(*r)
		default:
			c.tag(*r)
			c.passed(*r)
			return goesOn()
		}
	}
	if len(rules) > 0 && c.survey.Logical.Options["default_acl_drop"] == "true" {
		return ends(c.drop(RuleDrops, fmt.Sprintf("no rule of switch %s allows it, and OVN drops what none allows", c.Name), c.vpcOf(c.segment)))
	}
	return goesOn()
}

// stateful says whether rules see connections.
func (c *crossing) stateful() bool { return c.tracks || c.balancing() }

// tag notes the label that a rule gives to the connection.
func (c *crossing) tag(r rule) {
	if r.Label != 0 {
		c.label = uint32(r.Label) //nolint:gosec // OVN's schema allows 32 bits
	}
}

// decisive is the rule of a tier that decides about the packet; nil: none does.
func (c *crossing) decisive(rules []rule, tier int) *rule {
	hints, stateful := c.hints(), c.stateful()
	var best *rule
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
		if can && c.holds(r.Match, c.f, c.ruleRow(*r)) {
			best = r
		}
	}
	return best
}

// stopped is the end of a packet that a rule drops or rejects.
func (c *crossing) stopped(r rule) (step, bool) {
	about, code, text := c.ruleWords(r, c.segment)
	c.hop(c.f, about, c.ruleRow(r), "%s", strings.TrimPrefix(text, about.String()+" "))
	if r.Action == "reject" {
		return ends(c.refuse(code, text, about))
	}
	return ends(c.drop(code, text, about))
}

// passed notes that a rule has let the packet through, and lets the connection be written down.
func (c *crossing) passed(r rule) {
	if c.stateful() && r.Action != "allow-stateless" {
		c.keeps = c.keeps || c.f.New || r.Label != 0
	}
	if about, _, _ := c.ruleWords(r, c.segment); r.Tier > 0 && about.Kind != returnPath && about.Kind != "Vpc" {
		c.hop(c.f, about, c.ruleRow(r), "allows it")
	}
}

func (w *walk) ruleRow(r rule) string {
	if r.group != nil {
		return fmt.Sprintf("ACL of port group %s, %s, tier %d, priority %d", r.group.Name, r.Direction, r.Tier, r.Priority)
	}
	return fmt.Sprintf("ACL %s, tier %d, priority %d", r.Direction, r.Tier, r.Priority)
}
