package relay

// streamPosition is a position in a stream of JSON objects. The answers of a server can be as large as its database, so
// they are not parsed, only followed.
type streamPosition struct {
	depth             int
	inString, escaped bool
}

// advance moves the position over a part of the stream.
func (p *streamPosition) advance(part []byte) {
	for _, c := range part {
		switch {
		case p.escaped:
			p.escaped = false
		case p.inString:
			p.inString, p.escaped = c != '"', c == '\\'
		case c == '"':
			p.inString = true
		case c == '{' || c == '[':
			p.depth++
		case c == '}' || c == ']':
			p.depth--
		}
	}
}

// isInMessage reports whether the position is inside of an object.
func (p *streamPosition) isInMessage() bool { return p.depth > 0 || p.inString }
