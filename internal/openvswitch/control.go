package openvswitch

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ask gives a program an order and returns its answer.
func ask(ctx context.Context, dir, program, command string, args ...string) (string, error) {
	var out []string
	err := tell(ctx, dir, func(line []byte) { out = append(out, string(line)) }, append([]string{program, command}, args...)...)
	return strings.Join(out, "\n"), err
}

// tell gives a program an order, and calls back for each line of its answer. The order is program, command, arguments.
func tell(ctx context.Context, dir string, line func([]byte), order ...string) error {
	conn, err := dial(ctx, dir, order[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := request(conn, order[1], order[2:]); err != nil {
		return err
	}
	return readReply(bufio.NewReaderSize(conn, 64<<10), line)
}

// request asks for something by JSON-RPC.
func request(conn net.Conn, method string, params any) error {
	return json.NewEncoder(conn).Encode(map[string]any{"method": method, "params": params, "id": 0})
}

// dial connects to the control socket of a program. A program that was killed leaves its socket behind, so there may be several, of which
// the newest that answers is the right one.
func dial(ctx context.Context, dir, program string) (net.Conn, error) {
	paths, err := filepath.Glob(filepath.Join(dir, program+".*ctl")) // NAME.PID.ctl, or NAME.ctl
	if err != nil {
		return nil, err
	}
	made := func(path string) time.Time {
		info, err := os.Stat(path)
		if err != nil {
			return time.Time{}
		}
		return info.ModTime()
	}
	slices.SortFunc(paths, func(a, b string) int { return cmp.Or(made(b).Compare(made(a)), strings.Compare(a, b)) })
	err = fmt.Errorf("no socket of %s in %s; is it running on this node?", program, dir)
	for _, path := range paths {
		conn, why := connect(ctx, path)
		if why == nil {
			return conn, nil
		}
		err = why
	}
	return nil, err
}

// connect connects to a socket until the context ends.
func connect(ctx context.Context, path string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if end, ok := ctx.Deadline(); ok {
		err = conn.SetDeadline(end)
	}
	return conn, err
}

// readReply reads an answer: one JSON object, whose result is a text of lines. encoding/json would hold all of it, several times.
func readReply(in *bufio.Reader, line func([]byte)) error {
	r := reply{in: in}
	problem := ""
	for c := r.next(); r.err == nil && c != '}'; c = r.next() { // each member begins with { or ,
		name := r.text()
		r.want(':')
		switch {
		case r.peek() != '"': // null, or the number of the question
			r.skip()
		case name == "result":
			r.lines(line)
		case name == "error":
			problem = r.text()
		default:
			r.text()
		}
	}
	if r.err != nil {
		return fmt.Errorf("read its answer: %w", r.err)
	}
	if problem != "" {
		return errors.New(strings.TrimSpace(problem))
	}
	return nil
}

// reply reads JSON, as far as programs of Open vSwitch write it. After an error it reads nothing.
type reply struct {
	in  *bufio.Reader
	err error
}

func (r *reply) byte() byte {
	if r.err != nil {
		return 0
	}
	var c byte
	c, r.err = r.in.ReadByte()
	return c
}

// next is the next byte that is not white.
func (r *reply) next() byte {
	for {
		if c := r.byte(); !bytes.ContainsRune([]byte(" \t\r\n"), rune(c)) {
			return c
		}
	}
}

func (r *reply) peek() byte {
	c := r.next()
	if r.err == nil {
		r.err = r.in.UnreadByte()
	}
	return c
}

func (r *reply) want(w byte) {
	if c := r.next(); r.err == nil && c != w {
		r.err = fmt.Errorf("%q instead of %q", c, w)
	}
}

// skip leaves out a value that is no text.
func (r *reply) skip() {
	for c := r.peek(); r.err == nil && c != ',' && c != '}'; c = r.peek() {
		r.byte()
	}
}

// text is a whole text.
func (r *reply) text() string {
	r.want('"')
	var out []byte
	for c, more := r.char(); more; c, more = r.char() {
		out = append(out, c)
	}
	return string(out)
}

// lines calls back for each line of a text.
func (r *reply) lines(line func([]byte)) {
	r.want('"')
	var out []byte
	for c, more := r.char(); more; c, more = r.char() {
		if c != '\n' {
			out = append(out, c)
			continue
		}
		line(out)
		out = out[:0]
	}
	if len(out) > 0 && r.err == nil {
		line(out)
	}
}

// char is the next byte of a text, until it ends. What is told has no other escapes than those of white space and quotes.
func (r *reply) char() (byte, bool) {
	switch c := r.byte(); {
	case r.err != nil || c == '"':
		return 0, false
	case c != '\\':
		return c, true
	}
	switch c := r.byte(); c {
	case 'n':
		return '\n', r.err == nil
	case 't':
		return '\t', r.err == nil
	case 'r':
		return '\r', r.err == nil
	case 'b', 'f':
		return '?', r.err == nil
	case 'u': // another control character
		for range 4 {
			r.byte()
		}
		return '?', r.err == nil
	default:
		return c, r.err == nil
	}
}
