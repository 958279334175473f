package match

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxParenDepth is how many parentheses may be open; OVN has the same limit.
const maxParenDepth = 100

type token struct {
	kind tokenKind
	text string
}

type tokenKind int

const (
	tokenEnd        tokenKind = iota
	tokenID                   // name of a field or function
	tokenLiteral              // a number or an address
	tokenString               // a string
	tokenAddressSet           // $name
	tokenPortGroup            // @name
	tokenOperator             // an operator or a parenthesis
	tokenInvalid              // not a token
)

// operators lists the operators, longer ones first.
var operators = []string{
	"==", "!=", "<=", ">=", "&&", "||", "..", "<", ">", "!", "(", ")", "{", "}", "[", "]", ",",
	"=",
}

// tokenize splits a text into tokens. An invalid token is the last one.
func tokenize(text string) []token {
	var out []token
	for {
		text = strings.TrimLeft(text, " \t\r\n")
		if text == "" {
			return append(out, token{})
		}
		w, length := scanToken(text)
		out = append(out, w)
		if w.kind == tokenInvalid {
			return out
		}
		text = text[length:]
	}
}

// scanToken returns the first token of a text, and its length in bytes.
func scanToken(text string) (token, int) {
	switch c := text[0]; {
	case c == '"':
		return scanQuotedString(text)
	case c == '$' || c == '@':
		length := identifierLength(text[1:])
		if length == 0 {
			return token{tokenInvalid, text}, len(text)
		}
		of := map[byte]tokenKind{'$': tokenAddressSet, '@': tokenPortGroup}[c]
		return token{of, text[1 : 1+length]}, 1 + length
	case isDigit(c) || c == ':' || startsWithAddress(text):
		length := literalLength(text)
		return token{tokenLiteral, text[:length]}, length
	}
	if length := identifierLength(text); length > 0 && !strings.HasPrefix(text, "..") {
		return token{tokenID, text[:length]}, length
	}
	for _, s := range operators {
		if strings.HasPrefix(text, s) {
			return token{tokenOperator, s}, len(s)
		}
	}
	return token{tokenInvalid, text}, len(text)
}

func scanQuotedString(text string) (token, int) {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			inside, err := strconv.Unquote(text[:i+1])
			if err != nil || !utf8.ValidString(inside) {
				return token{tokenInvalid, text}, len(text)
			}
			return token{tokenString, inside}, i + 1
		}
	}
	return token{tokenInvalid, text}, len(text)
}

// startsWithAddress reports whether a text that begins with a letter is an address such as fd00::1 or
// aa:bb:cc:dd:ee:ff.
func startsWithAddress(text string) bool {
	i := 0
	for i < len(text) && strings.IndexByte("0123456789abcdefABCDEF", text[i]) >= 0 {
		i++
	}
	return i > 0 && i < len(text) && text[i] == ':'
}

// literalLength returns the length of the literal at the start of a text, with its mask. Two dots end it, and so does a
// colon after a dot.
func literalLength(text string) int {
	i, dot := 0, false
	for i < len(text) {
		c := text[i]
		switch {
		case isDigit(c) || isLetter(c):
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

func identifierLength(text string) int {
	i := 0
	for i < len(text) && (isLetter(text[i]) || text[i] == '_' || text[i] == '.' || i > 0 && isDigit(text[i])) {
		i++
	}
	return i
}

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// parser is a recursive descent parser.
type parser struct {
	tokens  []token
	depth   int
	negated bool
	fields  map[string]*field
}

func (p *parser) peekToken() token { return p.tokens[0] }

func (p *parser) nextToken() token {
	w := p.tokens[0]
	if len(p.tokens) > 1 {
		p.tokens = p.tokens[1:]
	}
	return w
}

// acceptOperator consumes an operator if it is the next token.
func (p *parser) acceptOperator(text string) bool {
	if w := p.peekToken(); w.kind != tokenOperator || w.text != text {
		return false
	}
	p.nextToken()
	return true
}

func (p *parser) expectOperator(text string) error {
	if !p.acceptOperator(text) {
		return fmt.Errorf("%q expected before %q", text, p.peekToken().text)
	}
	return nil
}

// parseAll parses the whole text.
func (p *parser) parseAll() (node, error) {
	out, err := p.parseExpression()
	if err == nil && p.peekToken().kind != tokenEnd {
		err = fmt.Errorf("unexpected %q after the match", p.peekToken().text)
	}
	return out, err
}

// parseExpression parses terms joined by && or by ||. OVN does not allow both without parentheses.
func (p *parser) parseExpression() (node, error) {
	out, err := p.parseTerm()
	if err != nil {
		return nil, err
	}
	join := p.peekToken()
	if join.kind != tokenOperator || join.text != "&&" && join.text != "||" {
		return out, nil
	}
	all := booleanExpr{isAnd: join.text == "&&", operands: []node{out}}
	for p.acceptOperator(join.text) {
		part, err := p.parseTerm()
		if err != nil {
			return nil, err
		}
		all.operands = append(all.operands, part)
	}
	if w := p.peekToken(); w.kind == tokenOperator && (w.text == "&&" || w.text == "||") {
		return nil, errors.New("&& and || can't be mixed without parentheses")
	}
	return all, nil
}

func (p *parser) parseTerm() (node, error) {
	if !p.acceptOperator("!") {
		out, _, err := p.parsePrimary()
		return out, err
	}
	p.negated = !p.negated
	out, closed, err := p.parsePrimary()
	p.negated = !p.negated
	if err != nil {
		return nil, err
	}
	if !closed {
		return nil, errors.New("the operand of ! needs parentheses")
	}
	return out.negate(), nil
}

// parsePrimary parses a term without negation, and returns whether it can be negated without parentheses.
func (p *parser) parsePrimary() (_ node, closed bool, err error) {
	if p.acceptOperator("(") {
		if p.depth++; p.depth > maxParenDepth {
			return nil, false, errors.New("too many parentheses")
		}
		defer func() { p.depth-- }()
		out, err := p.parseExpression()
		if err == nil {
			err = p.expectOperator(")")
		}
		return out, true, err
	}
	if p.peekToken().kind != tokenID {
		return p.parseValueFirst()
	}
	if p.peekToken().text == "is_chassis_resident" {
		out, err := p.parseChassisResident()
		return out, true, err
	}
	return p.parseFieldFirst()
}

func (p *parser) parseChassisResident() (node, error) {
	p.nextToken()
	if err := p.expectOperator("("); err != nil {
		return nil, err
	}
	port := p.nextToken()
	if port.kind != tokenString {
		return nil, fmt.Errorf("is_chassis_resident needs the name of a port, not %q", port.text)
	}
	return chassisResident{port: port.text}, p.expectOperator(")")
}

// parseFieldFirst parses a field on its own, or a comparison that begins with a field.
func (p *parser) parseFieldFirst() (_ node, closed bool, err error) {
	c, err := p.parseField()
	if err != nil {
		return nil, false, err
	}
	r, is := p.parseRelation()
	if !is {
		switch {
		case c.width == 0:
			return nil, false, fmt.Errorf("field %s has to be compared with something", c.field.name)
		case c.width > 1 && !p.negated:
			return nil, false, fmt.Errorf("field %s has more than one bit and has to be compared with something",
				c.field.name)
		}
		out, err := p.buildComparison(c, notEqual, []value{{}}, false)
		return out, true, err
	}
	values, set, err := p.parseValues()
	if err != nil {
		return nil, false, err
	}
	out, err := p.buildComparison(c, r, values, set)
	return out, false, err
}

// parseValueFirst parses 0 or 1, or a comparison that begins with a value, such as 1 < field < 5.
func (p *parser) parseValueFirst() (_ node, closed bool, err error) {
	alone := p.peekToken()
	values, set, err := p.parseValues()
	if err != nil {
		return nil, false, err
	}
	r, is := p.parseRelation()
	if !is {
		if alone.kind == tokenLiteral && (alone.text == "0" || alone.text == "1") {
			return boolConstant(alone.text == "1"), true, nil
		}
		return nil, false, fmt.Errorf("%q is not compared with a field", alone.text)
	}
	c, err := p.parseField()
	if err != nil {
		return nil, false, err
	}
	left, err := p.buildComparison(c, swappedRelations[r], values, set)
	if err != nil {
		return nil, false, err
	}
	second, is := p.parseRelation()
	if !is {
		return left, false, nil
	}
	if r == equal || r == notEqual || second == equal || second == notEqual || r[0] != second[0] {
		return nil, false, fmt.Errorf("a range has the form 1 < field < 5, not with %s and %s", r,
			second)
	}
	if values, set, err = p.parseValues(); err != nil {
		return nil, false, err
	}
	right, err := p.buildComparison(c, second, values, set)
	return booleanExpr{isAnd: true, operands: []node{left, right}}, false, err
}

// parseField parses a field, with an optional bit range.
func (p *parser) parseField() (comparison, error) {
	w := p.nextToken()
	f := p.fields[w.text]
	if w.kind != tokenID || f == nil {
		return comparison{}, fmt.Errorf("there is no field %q", w.text)
	}
	out := comparison{field: f, width: f.width}
	if !p.acceptOperator("[") {
		return out, nil
	}
	low, err := p.parseBitIndex()
	if err != nil {
		return out, err
	}
	high := low
	if p.acceptOperator("..") {
		if high, err = p.parseBitIndex(); err != nil {
			return out, err
		}
	}
	switch {
	case low > high || high >= f.width:
		return out, fmt.Errorf("field %s has no bits %d to %d", f.name, low, high)
	case f.nominal && (low != 0 || high != f.width-1):
		return out, fmt.Errorf("bits of field %s can't be selected", f.name)
	}
	out.lowBit, out.width = low, high-low+1
	return out, p.expectOperator("]")
}

func (p *parser) parseBitIndex() (int, error) {
	w := p.nextToken()
	n, err := strconv.ParseUint(w.text, 10, 16)
	if w.kind != tokenLiteral || err != nil {
		return 0, fmt.Errorf("%q is not a bit number", w.text)
	}
	return int(n), nil
}

func (p *parser) parseRelation() (relation, bool) {
	r := relation(p.peekToken().text)
	if _, is := negatedRelations[r]; !is || p.peekToken().kind != tokenOperator {
		return "", false
	}
	p.nextToken()
	return r, true
}

// parseValues parses one value, or several in braces.
func (p *parser) parseValues() (out []value, set bool, err error) {
	if !p.acceptOperator("{") {
		v, err := p.parseValue()
		return []value{v}, false, err
	}
	for !p.acceptOperator("}") || len(out) == 0 {
		v, err := p.parseValue()
		if err != nil {
			return nil, true, err
		}
		out = append(out, v)
		p.acceptOperator(",")
	}
	return out, true, nil
}

func (p *parser) parseValue() (value, error) {
	switch w := p.nextToken(); w.kind {
	case tokenLiteral:
		return parseLiteral(w.text)
	case tokenString:
		return value{text: w.text, quoted: true}, nil
	case tokenAddressSet:
		return value{set: w.text}, nil
	case tokenPortGroup:
		return value{group: w.text}, nil
	default:
		return value{}, fmt.Errorf("%q is not a value", w.text)
	}
}

// buildComparison returns a comparison, or an error if OVN would reject it.
func (p *parser) buildComparison(c comparison, r relation, values []value, set bool) (node, error) {
	c.relation, c.values = r, values
	for _, v := range values {
		if err := c.field.checkValue(v); err != nil {
			return nil, err
		}
	}
	ordered := r != equal && r != notEqual
	switch {
	case ordered && set:
		return nil, fmt.Errorf("%s can't be used with sets of values", r)
	case ordered && (c.field.nominal || c.field.predicate != nil):
		return nil, fmt.Errorf("%s can't be used with field %s", r, c.field.name)
	case ordered && values[0].masked:
		return nil, fmt.Errorf("%s can't be used with masks", r)
	case c.field.nominal && c.field.predicate == nil && r != p.allowedRelation():
		return nil, fmt.Errorf("field %s can only be tested for equality", c.field.name)
	}
	for _, v := range values {
		if positive := (v.number.low&1 != 0) == (r == equal); c.field.nominal && c.field.predicate != nil &&
			positive == p.negated {
			return nil, fmt.Errorf("%s can't be negated", c.field.name)
		}
	}
	return c, nil
}

// allowedRelation returns the relation that is allowed for nominal fields: == after all negations.
func (p *parser) allowedRelation() relation {
	if p.negated {
		return notEqual
	}
	return equal
}
