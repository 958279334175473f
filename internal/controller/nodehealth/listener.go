package nodehealth

import (
	"net"
	"slices"
	"sync"
)

// Limits for connections to the health port: per source address and in total. A controller needs one. The options of
// the server limit the cost of one connection, so these limits bound the memory that all outsiders together can use.
const (
	maxConnsPerSource = 4
	maxConns          = 128
)

// boundedListener is a listener with a limited number of connections. It never refuses a new connection. Instead it
// closes the oldest unauthenticated one, preferably of the same source. So an outsider who opens connections closes its
// own, and one with many addresses, or with that of the controller, closes those of outsiders before the controller's
// connection, which has had an answer.
type boundedListener struct {
	net.Listener

	mu    sync.Mutex
	conns []*boundedConn // the oldest first
}

// boundedConn is a connection of a boundedListener.
type boundedConn struct {
	net.Conn
	listener *boundedListener
	source   string // address without port
	answered bool   // it has had an answer; with TLS, the peer has a certificate of the controller's authority
}

// Accept returns the next connection, and closes another one if there are too many.
func (c *boundedListener) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	m := &boundedConn{Conn: conn, listener: c, source: remoteHost(conn.RemoteAddr())}
	if victim := c.addConn(m); victim != nil {
		_ = victim.Close() // an error changes nothing: the connection is dropped either way
	}
	return m, nil
}

// addConn adds a connection and returns the connection to close in exchange, or nil.
func (c *boundedListener) addConn(m *boundedConn) *boundedConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(c.conns, m)
	var same []*boundedConn
	for _, other := range c.conns {
		if other.source == m.source {
			same = append(same, other)
		}
	}
	switch {
	case len(same) > maxConnsPerSource:
		return pickConnToClose(same)
	case len(c.conns) > maxConns:
		return pickConnToClose(c.conns)
	}
	return nil
}

// pickConnToClose returns the oldest connection without an answer, or else the oldest. It never picks the newest, which
// is the last.
func pickConnToClose(conns []*boundedConn) *boundedConn {
	older := conns[:len(conns)-1]
	if i := slices.IndexFunc(older, func(m *boundedConn) bool { return !m.answered }); i >= 0 {
		return older[i]
	}
	return older[0]
}

// markAnswered records that a connection from an address has had an answer.
func (c *boundedListener) markAnswered(remote net.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.conns {
		if m.RemoteAddr().String() == remote.String() {
			m.answered = true
		}
	}
}

// Close closes the connection and removes it from the listener.
func (m *boundedConn) Close() error {
	m.listener.mu.Lock()
	m.listener.conns = slices.DeleteFunc(m.listener.conns, func(other *boundedConn) bool { return other == m })
	m.listener.mu.Unlock()
	return m.Conn.Close()
}

func remoteHost(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}
