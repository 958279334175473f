package reach

import (
	"net"
	"slices"
	"sync"
)

// How many connections the health port holds: of one source address, and of all together. A controller needs one. What one costs is
// bounded by the options of the server, so this bounds the memory that all outsiders together can take.
const (
	perSource = 4
	inAll     = 128
)

// crowd is a listener that holds a bounded number of connections. A new connection is never refused: the oldest one that has proved
// nothing is closed for it, of the same source first. So an outsider who opens connections closes his own, and one who comes from
// many addresses, or from that of the controller, closes those of outsiders before the controller's, which has had an answer.
type crowd struct {
	net.Listener

	mu    sync.Mutex
	conns []*member // the oldest first
}

// member is a connection of a crowd.
type member struct {
	net.Conn
	crowd  *crowd
	source string // the address without the port
	proved bool   // it has had an answer: with TLS, it is of the controller's authority
}

// Accept takes the next connection, and closes another one where there are too many.
func (c *crowd) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	m := &member{Conn: conn, crowd: c, source: sourceOf(conn.RemoteAddr())}
	if victim := c.admit(m); victim != nil {
		_ = victim.Close() // whoever is at its other end has lost it either way
	}
	return m, nil
}

// admit adds a connection, and returns the one to be closed for it, or nil.
func (c *crowd) admit(m *member) *member {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(c.conns, m)
	var same []*member
	for _, other := range c.conns {
		if other.source == m.source {
			same = append(same, other)
		}
	}
	switch {
	case len(same) > perSource:
		return dispensable(same)
	case len(c.conns) > inAll:
		return dispensable(c.conns)
	}
	return nil
}

// dispensable is the oldest connection that has proved nothing, or the oldest one. The newest, which is the last, has its chance.
func dispensable(conns []*member) *member {
	older := conns[:len(conns)-1]
	if i := slices.IndexFunc(older, func(m *member) bool { return !m.proved }); i >= 0 {
		return older[i]
	}
	return older[0]
}

// prove notes that a connection from an address has had an answer.
func (c *crowd) prove(remote net.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.conns {
		if m.RemoteAddr().String() == remote.String() {
			m.proved = true
		}
	}
}

// Close ends the connection and makes room.
func (m *member) Close() error {
	m.crowd.mu.Lock()
	m.crowd.conns = slices.DeleteFunc(m.crowd.conns, func(other *member) bool { return other == m })
	m.crowd.mu.Unlock()
	return m.Conn.Close()
}

func sourceOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}
