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

// runAppctl gives a program an order and returns its answer.
func runAppctl(ctx context.Context, dir, program, command string, args ...string) (string, error) {
	var out []string
	err := streamAppctl(ctx, dir, func(line []byte) {
		out = append(out, string(line))
	}, append([]string{program, command}, args...)...)
	return strings.Join(out, "\n"), err
}

// streamAppctl gives a program an order, and calls back for each line of its answer. The order is program, command,
// arguments.
func streamAppctl(ctx context.Context, dir string, line func([]byte), order ...string) error {
	conn, err := dialControlSocket(ctx, dir, order[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := sendRequest(conn, order[1], order[2:]); err != nil {
		return err
	}
	return readReply(bufio.NewReaderSize(conn, 64<<10), line)
}

// sendRequest asks for something by JSON-RPC.
func sendRequest(conn net.Conn, method string, params any) error {
	return json.NewEncoder(conn).Encode(map[string]any{"method": method, "params": params, "id": 0})
}

// dialControlSocket connects to the control socket of a program. A program that was killed leaves its socket behind, so
// there may be several, of which the newest that answers is the right one.
func dialControlSocket(ctx context.Context, dir, program string) (net.Conn, error) {
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
		conn, why := dialUnixSocket(ctx, path)
		if why == nil {
			return conn, nil
		}
		err = why
	}
	return nil, err
}

// dialUnixSocket connects to a socket until the context ends.
func dialUnixSocket(ctx context.Context, path string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if end, ok := ctx.Deadline(); ok {
		err = conn.SetDeadline(end)
	}
	return conn, err
}

// readReply reads an answer: one JSON object, whose result is a text of lines. encoding/json would hold all of it,
// several times.
func readReply(in *bufio.Reader, line func([]byte)) error {
	r := replyReader{in: in}
	problem := ""
	for c := r.nextNonSpace(); r.err == nil && c != '}'; c = r.nextNonSpace() { // each member begins with { or ,
		name := r.readString()
		r.expectByte(':')
		switch {
		case r.peekNonSpace() != '"': // null, or the number of the question
			r.skipValue()
		case name == "result":
			r.streamLines(line)
		case name == "error":
			problem = r.readString()
		default:
			r.readString()
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

// replyReader reads JSON, as far as programs of Open vSwitch write it. After an error it reads nothing.
type replyReader struct {
	in  *bufio.Reader
	err error
}

func (r *replyReader) readByte() byte {
	if r.err != nil {
		return 0
	}
	var c byte
	c, r.err = r.in.ReadByte()
	return c
}

// nextNonSpace is the next byte that is not white.
func (r *replyReader) nextNonSpace() byte {
	for {
		if c := r.readByte(); !bytes.ContainsRune([]byte(" \t\r\n"), rune(c)) {
			return c
		}
	}
}

func (r *replyReader) peekNonSpace() byte {
	c := r.nextNonSpace()
	if r.err == nil {
		r.err = r.in.UnreadByte()
	}
	return c
}

func (r *replyReader) expectByte(w byte) {
	if c := r.nextNonSpace(); r.err == nil && c != w {
		r.err = fmt.Errorf("%q instead of %q", c, w)
	}
}

// skipValue leaves out a value that is no text.
func (r *replyReader) skipValue() {
	for c := r.peekNonSpace(); r.err == nil && c != ',' && c != '}'; c = r.peekNonSpace() {
		r.readByte()
	}
}

// readString is a whole text.
func (r *replyReader) readString() string {
	r.expectByte('"')
	var out []byte
	for c, more := r.readStringByte(); more; c, more = r.readStringByte() {
		out = append(out, c)
	}
	return string(out)
}

// streamLines calls back for each line of a text.
func (r *replyReader) streamLines(line func([]byte)) {
	r.expectByte('"')
	var out []byte
	for c, more := r.readStringByte(); more; c, more = r.readStringByte() {
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

// readStringByte is the next byte of a text, until it ends. What is told has no other escapes than those of white space
// and quotes.
func (r *replyReader) readStringByte() (byte, bool) {
	switch c := r.readByte(); {
	case r.err != nil || c == '"':
		return 0, false
	case c != '\\':
		return c, true
	}
	switch c := r.readByte(); c {
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
			r.readByte()
		}
		return '?', r.err == nil
	default:
		return c, r.err == nil
	}
}
