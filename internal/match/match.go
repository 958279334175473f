// Package match is OVN's match language: what a rule, a policy or a translation says about packets, evaluated on one.
//
// It is total: any text is a Match or an error, and a Match holds for a packet, does not, or can't be told. What OVN itself refuses to
// carry out is an error here, too: such a rule is in the database and does nothing.
package match

import (
	"errors"
	"fmt"
)

// Match is a condition on packets.
type Match struct{ root node }

// Names is what a match refers to by name.
type Names interface {
	// Set is the addresses of an address set, as they are written there, and whether there is one of that name.
	Set(name string) ([]string, bool)
	// Group is the ports of a port group, and whether there is one of that name.
	Group(name string) ([]string, bool)
	// Resident says whether a port is on the chassis where the packet is.
	Resident(port string) bool
}

// Parse reads a match.
func Parse(text string) (Match, error) {
	p := &parser{words: lex(text), fields: fields}
	root, err := p.whole()
	if err != nil {
		return Match{}, fmt.Errorf("match %q: %w", text, err)
	}
	return Match{root}, nil
}

// Holds says whether the match holds for a packet.
func (m Match) Holds(p Packet, names Names) (bool, error) {
	if m.root == nil {
		return false, errors.New("match is empty")
	}
	return m.root.holds(question{&p, names})
}

// question is a packet, and who knows the names.
type question struct {
	packet *Packet
	names  Names
}

// node is a part of a match.
type node interface {
	holds(question) (bool, error)
	not() node
	// nominal: something in it has no order and no opposite, such as the name of a port.
	nominal() bool
}

// constant is 0 or 1.
type constant bool

func (c constant) holds(question) (bool, error) { return bool(c), nil }
func (c constant) not() node                    { return !c }
func (c constant) nominal() bool                { return false }

// resident asks where a port is.
type resident struct {
	port    string
	negated bool
}

func (r resident) holds(q question) (bool, error) { return q.names.Resident(r.port) != r.negated, nil }
func (r resident) not() node                      { return resident{r.port, !r.negated} }
func (r resident) nominal() bool                  { return false }

// joined is conditions that hold all, or of which one holds.
type joined struct {
	all   bool
	parts []node
}

func (j joined) holds(q question) (bool, error) {
	var unknown error
	for _, part := range j.parts {
		holds, err := part.holds(q)
		if err == nil && holds != j.all {
			return holds, nil // whatever the others are
		}
		if unknown == nil {
			unknown = err
		}
	}
	return j.all, unknown
}

func (j joined) not() node {
	out := joined{all: !j.all}
	for _, part := range j.parts {
		out.parts = append(out.parts, part.not())
	}
	return out
}

func (j joined) nominal() bool {
	for _, part := range j.parts {
		if part.nominal() {
			return true
		}
	}
	return false
}

// comparison is a field, or some bits of it, beside values.
type comparison struct {
	field    *field
	from     int // the lowest bit
	bits     int
	relation relation
	values   []value
}

func (c comparison) not() node {
	c.relation = opposites[c.relation]
	return c
}

func (c comparison) nominal() bool { return c.field.nominal }

func (c comparison) holds(q question) (bool, error) {
	values, err := c.expanded(q.names)
	if err != nil {
		return false, err
	}
	if len(values) == 0 { // an empty set
		return c.relation == notEqual, nil
	}
	switch {
	case c.field.means != nil:
		return c.predicate(q, values)
	case c.field.needs != nil:
		if holds, err := c.field.needs.holds(q); err != nil || !holds {
			return false, err
		}
	}
	for _, v := range values {
		if holds := c.compare(q.packet, v); holds != (c.relation == notEqual) {
			return holds, nil
		}
	}
	return c.relation == notEqual, nil
}

// predicate says whether what a field stands for is as the values want it.
func (c comparison) predicate(q question, values []value) (bool, error) {
	means, err := c.field.means.holds(q)
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

func (c comparison) compare(p *Packet, v value) bool {
	if c.field.bits == 0 {
		return (c.field.text(p) == v.text) == (c.relation == equal)
	}
	have, mask := c.field.number(p).right(c.from).and(ones(c.bits)), ones(c.bits)
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

// expanded is the values, with those that sets and groups stand for.
func (c comparison) expanded(names Names) ([]value, error) {
	var out []value
	for _, v := range c.values {
		switch {
		case v.set != "":
			addresses, err := c.addresses(v.set, names)
			if err != nil {
				return nil, fmt.Errorf("address set %s: %w", v.set, err)
			}
			out = append(out, addresses...)
		case v.group != "":
			ports, there := names.Group(v.group)
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

// addresses are those of an address set.
func (c comparison) addresses(set string, names Names) ([]value, error) {
	texts, there := names.Set(set)
	if !there {
		return nil, errors.New("there is none of that name")
	}
	var out []value
	for _, text := range texts {
		v, err := number(text)
		if err == nil {
			err = c.field.fits(v)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// relation is how a field is compared.
type relation string

const (
	equal          relation = "=="
	notEqual       relation = "!="
	less           relation = "<"
	lessOrEqual    relation = "<="
	greater        relation = ">"
	greaterOrEqual relation = ">="
)

// opposites are the relations that hold when the others do not.
var opposites = map[relation]relation{
	equal: notEqual, notEqual: equal, less: greaterOrEqual, greaterOrEqual: less, greater: lessOrEqual, lessOrEqual: greater,
}

// turned are the relations with their sides exchanged.
var turned = map[relation]relation{
	equal: equal, notEqual: notEqual, less: greater, greater: less, lessOrEqual: greaterOrEqual, greaterOrEqual: lessOrEqual,
}
