package program

import (
	"context"
	"net"

	"golang.org/x/net/netutil"
)

// mostConnections is what one port of a program holds open; further clients wait in the kernel's queue.
const mostConnections = 1024

// bounded is a listener that ends with a context, and its connections too.
type bounded struct {
	net.Listener
	ctx  context.Context
	stop func() bool
}

// bound gives a listener and all its connections a context to end with.
func bound(ctx context.Context, l net.Listener) net.Listener {
	l = netutil.LimitListener(l, mostConnections)
	return &bounded{Listener: l, ctx: ctx, stop: context.AfterFunc(ctx, func() { _ = l.Close() })}
}

// Accept waits for a connection.
func (b *bounded) Accept() (net.Conn, error) {
	conn, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return tie(b.ctx, conn), nil
}

// Close ends the listener before its context does.
func (b *bounded) Close() error {
	b.stop()
	return b.Listener.Close()
}

// tied is a connection that is closed when its context ends.
type tied struct {
	net.Conn
	stop func() bool
}

func tie(ctx context.Context, conn net.Conn) *tied {
	return &tied{Conn: conn, stop: context.AfterFunc(ctx, func() { _ = conn.Close() })}
}

// Close closes the connection before its context does.
func (t *tied) Close() error {
	t.stop()
	return t.Conn.Close()
}
