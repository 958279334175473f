package match

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// deepest is how many parentheses may be open. OVN allows as many.
const deepest = 100

// word is a token of a match.
type word struct {
	sort sort
	text string
}

type sort int

const (
	end       sort = iota
	name           // of a field or function
	literal        // a number or an address
	quoted         // a text
	setName        // $name
	groupName      // @name
	sign           // an operator or a parenthesis
	broken         // nothing that can be read
)

// signs are the operators, the longer ones first.
var signs = []string{"==", "!=", "<=", ">=", "&&", "||", "..", "<", ">", "!", "(", ")", "{", "}", "[", "]", ",", "="}

// lex takes a text apart. What can't be read is its last word.
func lex(text string) []word {
	var out []word
	for {
		text = strings.TrimLeft(text, " \t\r\n")
		if text == "" {
			return append(out, word{})
		}
		w, length := first(text)
		out = append(out, w)
		if w.sort == broken {
			return out
		}
		text = text[length:]
	}
}

// first is the first word of a text, and how many bytes it has.
func first(text string) (word, int) {
	switch c := text[0]; {
	case c == '"':
		return firstQuoted(text)
	case c == '$' || c == '@':
		length := identifier(text[1:])
		if length == 0 {
			return word{broken, text}, len(text)
		}
		of := map[byte]sort{'$': setName, '@': groupName}[c]
		return word{of, text[1 : 1+length]}, 1 + length
	case digit(c) || c == ':' || numeric(text):
		length := literalLength(text)
		return word{literal, text[:length]}, length
	}
	if length := identifier(text); length > 0 && !strings.HasPrefix(text, "..") {
		return word{name, text[:length]}, length
	}
	for _, s := range signs {
		if strings.HasPrefix(text, s) {
			return word{sign, s}, len(s)
		}
	}
	return word{broken, text}, len(text)
}

func firstQuoted(text string) (word, int) {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			inside, err := strconv.Unquote(text[:i+1])
			if err != nil || !utf8.ValidString(inside) {
				return word{broken, text}, len(text)
			}
			return word{quoted, inside}, i + 1
		}
	}
	return word{broken, text}, len(text)
}

// numeric says whether a text that begins with a letter is a number all the same: an address such as fd00::1 or aa:bb:cc:dd:ee:ff.
func numeric(text string) bool {
	i := 0
	for i < len(text) && strings.IndexByte("0123456789abcdefABCDEF", text[i]) >= 0 {
		i++
	}
	return i > 0 && i < len(text) && text[i] == ':'
}

// literalLength is how long the number is that a text begins with, with its mask. Two dots are no part of one, nor is a colon after a dot.
func literalLength(text string) int {
	i, dot := 0, false
	for i < len(text) {
		c := text[i]
		switch {
		case digit(c) || letter(c):
		case c == ':' && !dot:
		case c == '.' && (i+1 >= len(text) || text[i+1] != '.'):
			dot = true
		case c == '/':
			dot = false
		default:
			return i
		}
		i++
	}
	return i
}

func identifier(text string) int {
	i := 0
	for i < len(text) && (letter(text[i]) || text[i] == '_' || text[i] == '.' || i > 0 && digit(text[i])) {
		i++
	}
	return i
}

func digit(c byte) bool  { return c >= '0' && c <= '9' }
func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// parser reads words from the left.
type parser struct {
	words  []word
	depth  int
	not    bool
	fields map[string]*field
}

func (p *parser) peek() word { return p.words[0] }

func (p *parser) next() word {
	w := p.words[0]
	if len(p.words) > 1 {
		p.words = p.words[1:]
	}
	return w
}

// take takes a sign if it is the next word.
func (p *parser) take(text string) bool {
	if w := p.peek(); w.sort != sign || w.text != text {
		return false
	}
	p.next()
	return true
}

func (p *parser) expect(text string) error {
	if !p.take(text) {
		return fmt.Errorf("%q is missing before %q", text, p.peek().text)
	}
	return nil
}

// whole is the match, to its end.
func (p *parser) whole() (node, error) {
	out, err := p.terms()
	if err == nil && p.peek().sort != end {
		err = fmt.Errorf("%q is more than a match", p.peek().text)
	}
	return out, err
}

// terms are joined by && or by ||, but not by both.
func (p *parser) terms() (node, error) {
	out, err := p.term()
	if err != nil {
		return nil, err
	}
	join := p.peek()
	if join.sort != sign || join.text != "&&" && join.text != "||" {
		return out, nil
	}
	all := joined{all: join.text == "&&", parts: []node{out}}
	for p.take(join.text) {
		part, err := p.term()
		if err != nil {
			return nil, err
		}
		all.parts = append(all.parts, part)
	}
	if w := p.peek(); w.sort == sign && (w.text == "&&" || w.text == "||") {
		return nil, errors.New("&& and || need parentheses when they are together")
	}
	return all, nil
}

func (p *parser) term() (node, error) {
	if !p.take("!") {
		out, _, err := p.primary()
		return out, err
	}
	p.not = !p.not
	out, closed, err := p.primary()
	p.not = !p.not
	if err != nil {
		return nil, err
	}
	if !closed {
		return nil, errors.New("what ! is about needs parentheses")
	}
	return out.not(), nil
}

// primary is a term without its negation, and whether it can be negated without parentheses.
func (p *parser) primary() (_ node, closed bool, err error) {
	if p.take("(") {
		if p.depth++; p.depth > deepest {
			return nil, false, errors.New("too many parentheses")
		}
		defer func() { p.depth-- }()
		out, err := p.terms()
		if err == nil {
			err = p.expect(")")
		}
		return out, true, err
	}
	if p.peek().sort != name {
		return p.valueFirst()
	}
	if p.peek().text == "is_chassis_resident" {
		out, err := p.residence()
		return out, true, err
	}
	return p.fieldFirst()
}

func (p *parser) residence() (node, error) {
	p.next()
	if err := p.expect("("); err != nil {
		return nil, err
	}
	port := p.next()
	if port.sort != quoted {
		return nil, fmt.Errorf("is_chassis_resident wants the name of a port, not %q", port.text)
	}
	return resident{port: port.text}, p.expect(")")
}

// fieldFirst is a field by itself, or one beside values.
func (p *parser) fieldFirst() (_ node, closed bool, err error) {
	c, err := p.field()
	if err != nil {
		return nil, false, err
	}
	r, is := p.relation()
	if !is {
		switch {
		case c.bits == 0:
			return nil, false, fmt.Errorf("field %s has to be compared with something", c.field.name)
		case c.bits > 1 && !p.not:
			return nil, false, fmt.Errorf("field %s has more than one bit and has to be compared with something", c.field.name)
		}
		out, err := p.compare(c, notEqual, []value{{}}, false)
		return out, true, err
	}
	values, set, err := p.values()
	if err != nil {
		return nil, false, err
	}
	out, err := p.compare(c, r, values, set)
	return out, false, err
}

// valueFirst is 0 or 1, a value beside a field, or a field between two values.
func (p *parser) valueFirst() (_ node, closed bool, err error) {
	alone := p.peek()
	values, set, err := p.values()
	if err != nil {
		return nil, false, err
	}
	r, is := p.relation()
	if !is {
		if alone.sort == literal && (alone.text == "0" || alone.text == "1") {
			return constant(alone.text == "1"), true, nil
		}
		return nil, false, fmt.Errorf("%q is compared with nothing", alone.text)
	}
	c, err := p.field()
	if err != nil {
		return nil, false, err
	}
	left, err := p.compare(c, turned[r], values, set)
	if err != nil {
		return nil, false, err
	}
	second, is := p.relation()
	if !is {
		return left, false, nil
	}
	if r == equal || r == notEqual || second == equal || second == notEqual || r[0] != second[0] {
		return nil, false, fmt.Errorf("a field is between two values like this: 1 < field < 5, not with %s and %s", r, second)
	}
	if values, set, err = p.values(); err != nil {
		return nil, false, err
	}
	right, err := p.compare(c, second, values, set)
	return joined{all: true, parts: []node{left, right}}, false, err
}

// field is a field, or bits of one.
func (p *parser) field() (comparison, error) {
	w := p.next()
	f := p.fields[w.text]
	if w.sort != name || f == nil {
		return comparison{}, fmt.Errorf("there is no field %q", w.text)
	}
	out := comparison{field: f, bits: f.bits}
	if !p.take("[") {
		return out, nil
	}
	low, err := p.position()
	if err != nil {
		return out, err
	}
	high := low
	if p.take("..") {
		if high, err = p.position(); err != nil {
			return out, err
		}
	}
	switch {
	case low > high || high >= f.bits:
		return out, fmt.Errorf("field %s has no bits %d to %d", f.name, low, high)
	case f.nominal && (low != 0 || high != f.bits-1):
		return out, fmt.Errorf("field %s can't be taken apart", f.name)
	}
	out.from, out.bits = low, high-low+1
	return out, p.expect("]")
}

func (p *parser) position() (int, error) {
	w := p.next()
	n, err := strconv.ParseUint(w.text, 10, 16)
	if w.sort != literal || err != nil {
		return 0, fmt.Errorf("%q is no bit's number", w.text)
	}
	return int(n), nil
}

func (p *parser) relation() (relation, bool) {
	r := relation(p.peek().text)
	if _, is := opposites[r]; !is || p.peek().sort != sign {
		return "", false
	}
	p.next()
	return r, true
}

// values are one value, or several in braces.
func (p *parser) values() (out []value, set bool, err error) {
	if !p.take("{") {
		v, err := p.value()
		return []value{v}, false, err
	}
	for !p.take("}") || len(out) == 0 {
		v, err := p.value()
		if err != nil {
			return nil, true, err
		}
		out = append(out, v)
		p.take(",")
	}
	return out, true, nil
}

func (p *parser) value() (value, error) {
	switch w := p.next(); w.sort {
	case literal:
		return number(w.text)
	case quoted:
		return value{text: w.text, quoted: true}, nil
	case setName:
		return value{set: w.text}, nil
	case groupName:
		return value{group: w.text}, nil
	default:
		return value{}, fmt.Errorf("%q is no value", w.text)
	}
}

// compare is a comparison that OVN would carry out.
func (p *parser) compare(c comparison, r relation, values []value, set bool) (node, error) {
	c.relation, c.values = r, values
	for _, v := range values {
		if err := c.field.fits(v); err != nil {
			return nil, err
		}
	}
	ordered := r != equal && r != notEqual
	switch {
	case ordered && set:
		return nil, fmt.Errorf("%s does not go with sets of values", r)
	case ordered && (c.field.nominal || c.field.means != nil):
		return nil, fmt.Errorf("%s does not go with field %s", r, c.field.name)
	case ordered && values[0].masked:
		return nil, fmt.Errorf("%s does not go with masks", r)
	case c.field.nominal && c.field.means == nil && r != p.wanted():
		return nil, fmt.Errorf("field %s can only be tested for what it is", c.field.name)
	}
	for _, v := range values {
		if positive := (v.number.low&1 != 0) == (r == equal); c.field.nominal && c.field.means != nil && positive == p.not {
			return nil, fmt.Errorf("%s can't be negated", c.field.name)
		}
	}
	return c, nil
}

// wanted is how a field without order may be compared: for what it is, all negations considered.
func (p *parser) wanted() relation {
	if p.not {
		return notEqual
	}
	return equal
}
