// Package match parses OVN's match language and evaluates matches of ACLs, router policies and NAT entries on a packet.
//
// Any text gives a Match or an error. A Match holds for a packet, does not hold, or cannot be evaluated. What OVN
// itself rejects is an error here, too: such a row is in the database but has no effect.
package match

import (
	"errors"
	"fmt"
)

// Match is a parsed match.
type Match struct{ root node }

// Resolver resolves the names that a match refers to.
type Resolver interface {
	// AddressSet returns the entries of an address set as they are in the database, and whether the set exists.
	AddressSet(name string) ([]string, bool)
	// PortGroup returns the ports of a port group, and whether the group exists.
	PortGroup(name string) ([]string, bool)
	// IsChassisResident reports whether a port is on the packet's chassis.
	IsChassisResident(port string) bool
}

// Parse parses a match.
func Parse(text string) (Match, error) {
	p := &parser{tokens: tokenize(text), fields: fields}
	root, err := p.parseAll()
	if err != nil {
		return Match{}, fmt.Errorf("match %q: %w", text, err)
	}
	return Match{root}, nil
}

// Evaluate reports whether the match holds for a packet. The error says why it cannot be evaluated.
func (m Match) Evaluate(p Packet, names Resolver) (bool, error) {
	if m.root == nil {
		return false, errors.New("match is empty")
	}
	return m.root.evaluate(evalContext{&p, names})
}

// evalContext is the packet, and the resolver of names.
type evalContext struct {
	packet   *Packet
	resolver Resolver
}

// node is a node of the syntax tree.
type node interface {
	evaluate(evalContext) (bool, error)
	negate() node
	// isNominal reports whether it contains a nominal field, such as the name of a port. OVN allows only == on those.
	isNominal() bool
}

// boolConstant is the literal 0 or 1.
type boolConstant bool

func (c boolConstant) evaluate(evalContext) (bool, error) { return bool(c), nil }
func (c boolConstant) negate() node                       { return !c }
func (c boolConstant) isNominal() bool                    { return false }

// chassisResident is is_chassis_resident("port").
type chassisResident struct {
	port    string
	negated bool
}

func (r chassisResident) evaluate(q evalContext) (bool, error) {
	return q.resolver.IsChassisResident(r.port) != r.negated, nil
}

func (r chassisResident) negate() node    { return chassisResident{r.port, !r.negated} }
func (r chassisResident) isNominal() bool { return false }

// booleanExpr joins operands with && or ||.
type booleanExpr struct {
	isAnd    bool
	operands []node
}

func (j booleanExpr) evaluate(q evalContext) (bool, error) {
	var unknown error
	for _, part := range j.operands {
		holds, err := part.evaluate(q)
		if err == nil && holds != j.isAnd {
			return holds, nil // the other operands do not matter
		}
		if unknown == nil {
			unknown = err
		}
	}
	return j.isAnd, unknown
}

func (j booleanExpr) negate() node {
	out := booleanExpr{isAnd: !j.isAnd}
	for _, part := range j.operands {
		out.operands = append(out.operands, part.negate())
	}
	return out
}

func (j booleanExpr) isNominal() bool {
	for _, part := range j.operands {
		if part.isNominal() {
			return true
		}
	}
	return false
}

// comparison compares a field, or some of its bits, with values.
type comparison struct {
	field    *field
	lowBit   int
	width    int
	relation relation
	values   []value
}

func (c comparison) negate() node {
	c.relation = negatedRelations[c.relation]
	return c
}

func (c comparison) isNominal() bool { return c.field.nominal }

func (c comparison) evaluate(q evalContext) (bool, error) {
	values, err := c.expandValues(q.resolver)
	if err != nil {
		return false, err
	}
	if len(values) == 0 { // an empty address set or port group
		return c.relation == notEqual, nil
	}
	switch {
	case c.field.predicate != nil:
		return c.evaluatePredicate(q, values)
	case c.field.prereqs != nil:
		if holds, err := c.field.prereqs.evaluate(q); err != nil || !holds {
			return false, err
		}
	}
	for _, v := range values {
		if holds := c.compareValue(q.packet, v); holds != (c.relation == notEqual) {
			return holds, nil
		}
	}
	return c.relation == notEqual, nil
}

// evaluatePredicate compares a predicate, a field that stands for an expression, with values.
func (c comparison) evaluatePredicate(q evalContext, values []value) (bool, error) {
	means, err := c.field.predicate.evaluate(q)
	if err != nil {
		return false, err
	}
	for _, v := range values {
		if holds := means == ((v.number.low&1 != 0) == (c.relation == equal)); holds != (c.relation == notEqual) {
			return holds, nil
		}
	}
	return c.relation == notEqual, nil
}

func (c comparison) compareValue(p *Packet, v value) bool {
	if c.field.width == 0 {
		return (c.field.text(p) == v.text) == (c.relation == equal)
	}
	have, mask := c.field.number(p).shiftRight(c.lowBit).and(lowBitsMask(c.width)), lowBitsMask(c.width)
	if v.masked {
		mask = v.mask.and(mask)
	}
	order := have.and(mask).compare(v.number.and(mask))
	switch c.relation {
	case equal:
		return order == 0
	case notEqual:
		return order != 0
	case less:
		return order < 0
	case lessOrEqual:
		return order <= 0
	case greater:
		return order > 0
	default:
		return order >= 0
	}
}

// expandValues returns the values, with address sets and port groups replaced by their members.
func (c comparison) expandValues(names Resolver) ([]value, error) {
	var out []value
	for _, v := range c.values {
		switch {
		case v.set != "":
			addresses, err := c.expandAddressSet(v.set, names)
			if err != nil {
				return nil, fmt.Errorf("address set %s: %w", v.set, err)
			}
			out = append(out, addresses...)
		case v.group != "":
			ports, there := names.PortGroup(v.group)
			if !there {
				return nil, fmt.Errorf("there is no port group %s", v.group)
			}
			for _, port := range ports {
				out = append(out, value{text: port})
			}
		default:
			out = append(out, v)
		}
	}
	return out, nil
}

// expandAddressSet returns the values of an address set.
func (c comparison) expandAddressSet(set string, names Resolver) ([]value, error) {
	texts, there := names.AddressSet(set)
	if !there {
		return nil, errors.New("there is none of that name")
	}
	var out []value
	for _, text := range texts {
		v, err := parseLiteral(text)
		if err == nil {
			err = c.field.checkValue(v)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// relation is a comparison operator.
type relation string

const (
	equal          relation = "=="
	notEqual       relation = "!="
	less           relation = "<"
	lessOrEqual    relation = "<="
	greater        relation = ">"
	greaterOrEqual relation = ">="
)

// negatedRelations maps each relation to its negation.
var negatedRelations = map[relation]relation{
	equal: notEqual, notEqual: equal, less: greaterOrEqual, greaterOrEqual: less, greater: lessOrEqual,
	lessOrEqual: greater,
}

// swappedRelations maps each relation to the one with its sides exchanged.
var swappedRelations = map[relation]relation{
	equal: equal, notEqual: notEqual, less: greater, greater: less, lessOrEqual: greaterOrEqual,
	greaterOrEqual: lessOrEqual,
}
