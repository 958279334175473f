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

// runAppctl sends a command to a program and returns the reply.
func runAppctl(ctx context.Context, dir, program, command string, args ...string) (string, error) {
	var out []string
	err := streamAppctl(ctx, dir, func(line []byte) {
		out = append(out, string(line))
	}, append([]string{program, command}, args...)...)
	return strings.Join(out, "\n"), err
}

// streamAppctl sends a command to a program, and calls line for each line of the reply. The order is program, command,
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

// sendRequest sends a JSON-RPC request.
func sendRequest(conn net.Conn, method string, params any) error {
	return json.NewEncoder(conn).Encode(map[string]any{"method": method, "params": params, "id": 0})
}

// dialControlSocket connects to the control socket of a program. A killed program leaves its socket behind, so there
// may be several. The newest one that accepts a connection is used.
func dialControlSocket(ctx context.Context, dir, program string) (net.Conn, error) {
	paths, err := filepath.Glob(filepath.Join(dir, program+".*ctl")) // NAME.PID.ctl or NAME.ctl
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
	err = fmt.Errorf("no socket of %s in %s; check that it is running on this node", program, dir)
	for _, path := range paths {
		conn, why := dialUnixSocket(ctx, path)
		if why == nil {
			return conn, nil
		}
		err = why
	}
	return nil, err
}

// dialUnixSocket connects to a socket. The deadline of the context applies to the connection.
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

// readReply reads a reply: one JSON object whose result is a text of lines. encoding/json would hold several copies of
// it in memory.
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
		return fmt.Errorf("read the reply: %w", r.err)
	}
	if problem != "" {
		return errors.New(strings.TrimSpace(problem))
	}
	return nil
}

// replyReader parses the subset of JSON that Open vSwitch writes. After an error it reads nothing.
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

// nextNonSpace returns the next byte that is not white space.
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
		r.err = fmt.Errorf("got %q, want %q", c, w)
	}
}

// skipValue skips a value that is not a string.
func (r *replyReader) skipValue() {
	for c := r.peekNonSpace(); r.err == nil && c != ',' && c != '}'; c = r.peekNonSpace() {
		r.readByte()
	}
}

// readString returns a string.
func (r *replyReader) readString() string {
	r.expectByte('"')
	var out []byte
	for c, more := r.readStringByte(); more; c, more = r.readStringByte() {
		out = append(out, c)
	}
	return string(out)
}

// streamLines calls line for each line of a string.
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

// readStringByte returns the next byte of a string until it ends. Replies have no other escapes than those of white
// space and quotes.
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
