package nodehealth

import (
	"net"
	"slices"
	"sync"
)

// How many connections the health port holds: of one source address, and of all together. A controller needs one. What
// one costs is bounded by the options of the server, so this bounds the memory that all outsiders together can take.
const (
	maxConnsPerSource = 4
	maxConns          = 128
)

// boundedListener is a listener that holds a bounded number of connections. A new connection is never refused: the
// oldest one that has proved nothing is closed for it, of the same source first. So an outsider who opens connections
// closes his own, and one who comes from many addresses, or from that of the controller, closes those of outsiders
// before the controller's, which has had an answer.
type boundedListener struct {
	net.Listener

	mu    sync.Mutex
	conns []*boundedConn // the oldest first
}

// boundedConn is a connection of a crowd.
type boundedConn struct {
	net.Conn
	listener *boundedListener
	source   string // the address without the port
	answered bool   // it has had an answer: with TLS, it is of the controller's authority
}

// Accept takes the next connection, and closes another one where there are too many.
func (c *boundedListener) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	m := &boundedConn{Conn: conn, listener: c, source: remoteHost(conn.RemoteAddr())}
	if victim := c.addConn(m); victim != nil {
		_ = victim.Close() // whoever is at its other end has lost it either way
	}
	return m, nil
}

// addConn adds a connection, and returns the one to be closed for it, or nil.
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

// pickConnToClose is the oldest connection that has proved nothing, or the oldest one. The newest, which is the last,
// has its chance.
func pickConnToClose(conns []*boundedConn) *boundedConn {
	older := conns[:len(conns)-1]
	if i := slices.IndexFunc(older, func(m *boundedConn) bool { return !m.answered }); i >= 0 {
		return older[i]
	}
	return older[0]
}

// markAnswered notes that a connection from an address has had an answer.
func (c *boundedListener) markAnswered(remote net.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.conns {
		if m.RemoteAddr().String() == remote.String() {
			m.answered = true
		}
	}
}

// Close ends the connection and makes room.
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
