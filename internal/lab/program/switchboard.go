package program

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"sync"
)

// longestLine is what a plain TCP client may say at once, and the longest HTTP request line.
const longestLine = 8 << 10

var requestLine = regexp.MustCompile(`^[A-Z]+ \S+ HTTP/1\.[01]\r?\n$`)

// switchboard takes TCP connections and looks at their first line: HTTP goes to a web server, anything else is answered
// line by line.
type switchboard struct {
	web  *handoff
	name string
}

// serve takes connections until the context ends, and returns when the last one has ended with it.
func (s switchboard) serve(ctx context.Context, l net.Listener) error {
	l = bound(ctx, l)
	defer l.Close()
	var talking sync.WaitGroup
	defer talking.Wait()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("take connections: %w", err)
		}
		talking.Go(func() { s.talk(ctx, conn) })
	}
}

// talk serves one connection, or hands it on.
func (s switchboard) talk(ctx context.Context, conn net.Conn) {
	r := bufio.NewReaderSize(conn, longestLine)
	line, err := r.ReadSlice('\n')
	if requestLine.Match(line) {
		begun := io.MultiReader(bytes.NewReader(bytes.Clone(line)), r)
		s.web.give(ctx, &resumed{Conn: conn, begun: begun})
		return
	}
	defer conn.Close()
	answer := saw(s.name, seen(conn.RemoteAddr().String()))
	for ; len(line) > 0 && !errors.Is(err, bufio.ErrBufferFull); line, err = r.ReadSlice('\n') {
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}

// resumed is a connection whose first bytes were read already.
type resumed struct {
	net.Conn
	begun io.Reader
}

func (r *resumed) Read(b []byte) (int, error) { return r.begun.Read(b) }

// handoff is a listener whose connections come from a switchboard.
type handoff struct {
	ctx   context.Context
	conns chan net.Conn
}

func newHandoff(ctx context.Context) *handoff { return &handoff{ctx: ctx, conns: make(chan net.Conn)} }

func (h *handoff) give(ctx context.Context, conn net.Conn) {
	select {
	case h.conns <- conn:
	case <-ctx.Done():
		_ = conn.Close()
	}
}

// Accept is the next connection that was handed over.
func (h *handoff) Accept() (net.Conn, error) {
	select {
	case conn := <-h.conns:
		return conn, nil
	case <-h.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close does nothing: the listener ends with its context.
func (h *handoff) Close() error { return nil }

// Addr is no address: each connection has its own.
func (h *handoff) Addr() net.Addr { return &net.TCPAddr{} }
