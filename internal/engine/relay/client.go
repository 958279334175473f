package relay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// maxAnswerBytes limits the text of an answer that is not an upgrade.
const maxAnswerBytes = 4 << 10

// requestTimeout limits opening a connection through the relay.
const requestTimeout = 15 * time.Second

// Client opens connections through the relay.
type Client struct {
	// Dial connects to the relay.
	Dial func(ctx context.Context) (net.Conn, error)
	// Token returns a token for the relay.
	Token func(ctx context.Context) (string, error)
}

// AnswerError is the answer of a relay that did not open a connection.
type AnswerError struct {
	Status int
	Text   string
}

// Error returns the text of the relay.
func (e *AnswerError) Error() string {
	return fmt.Sprintf("the relay of the controller answered %d: %s", e.Status, e.Text)
}

// Open opens a connection to a database.
func (c *Client) Open(ctx context.Context, database string) (net.Conn, error) {
	return c.request(ctx, http.MethodGet, PathPrefix+database, http.StatusSwitchingProtocols)
}

// Sync waits for ovn-northd and the chassis, for a few seconds.
func (c *Client) Sync(ctx context.Context) error {
	conn, err := c.request(ctx, http.MethodPost, SyncPath, http.StatusNoContent)
	if err != nil {
		return err
	}
	return conn.Close()
}

// request sends a request and returns the connection when the answer has the wanted status.
func (c *Client) request(ctx context.Context, method, path string, want int) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	token, err := c.Token(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := c.Dial(ctx)
	if err != nil {
		return nil, err
	}
	// Not a deadline: connections of port-forward have none.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	reader, err := exchange(conn, method, path, token, want)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &bufferedConn{Conn: conn, reader: reader}, nil
}

func exchange(conn net.Conn, method, path, token string, want int) (*bufio.Reader, error) {
	request, err := http.NewRequest(method, "http://sallyport"+path, http.NoBody) //nolint:noctx // the connection is closed instead
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	if want == http.StatusSwitchingProtocols {
		request.Header.Set("Connection", "Upgrade")
		request.Header.Set("Upgrade", protocol)
	}
	if err := request.Write(conn); err != nil {
		return nil, fmt.Errorf("send a request to the relay: %w", err)
	}
	reader := bufio.NewReader(conn)
	answer, err := http.ReadResponse(reader, request) //nolint:bodyclose // the body is the connection
	if err != nil {
		return nil, fmt.Errorf("read the answer of the relay: %w", err)
	}
	if answer.StatusCode == want {
		return reader, nil
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswerBytes))
	return nil, &AnswerError{Status: answer.StatusCode, Text: strings.TrimSpace(string(text))}
}

// bufferedConn is a connection of which a part was already read.
type bufferedConn struct {
	net.Conn
	reader *bufio.Reader
}

// Read reads what was read ahead, then the connection.
func (c *bufferedConn) Read(p []byte) (int, error) { return c.reader.Read(p) }

// Sockets are local sockets that lead to the databases, for programs that connect to an address. They are in a
// directory that only this user can enter: whoever connects has the user's permission to read.
type Sockets struct {
	directory string
	listeners []net.Listener
	ctx       context.Context //nolint:containedctx // the life of the sockets
	cancel    context.CancelFunc
	client    *Client
	group     sync.WaitGroup
}

// Listen opens a socket for each database.
func (c *Client) Listen() (*Sockets, error) {
	directory, err := os.MkdirTemp("", "sallyport-") // mode 0700
	if err != nil {
		return nil, err
	}
	s := &Sockets{directory: directory, client: c}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for _, database := range []string{Northbound, Southbound} {
		listener, err := new(net.ListenConfig).Listen(s.ctx, "unix", filepath.Join(directory, database))
		if err != nil {
			s.Close()
			return nil, err
		}
		s.listeners = append(s.listeners, listener)
		s.group.Go(func() { s.serve(listener, database) })
	}
	return s, nil
}

// Endpoint returns the address of a database, in OVN's notation.
func (s *Sockets) Endpoint(database string) string {
	return "unix:" + filepath.Join(s.directory, database)
}

// Close closes the sockets and all connections, and waits for their end.
func (s *Sockets) Close() {
	s.cancel()
	for _, l := range s.listeners {
		_ = l.Close()
	}
	s.group.Wait()
	_ = os.RemoveAll(s.directory)
}

func (s *Sockets) serve(listener net.Listener, database string) {
	for {
		local, err := listener.Accept()
		if err != nil {
			return // closed
		}
		s.group.Go(func() { s.carry(local, database) })
	}
}

// carry connects a local connection to a database. If that fails, the connection ends.
func (s *Sockets) carry(local net.Conn, database string) {
	defer local.Close() //nolint:errcheck // both sides have ended
	far, err := s.client.Open(s.ctx, database)
	if err != nil {
		return
	}
	defer far.Close() //nolint:errcheck // both sides have ended
	stop := context.AfterFunc(s.ctx, func() { _ = local.Close(); _ = far.Close() })
	defer stop()
	ended := make(chan error, 2)
	for _, pair := range [][2]net.Conn{{local, far}, {far, local}} {
		s.group.Go(func() {
			_, err := io.Copy(pair[0], pair[1])
			ended <- errors.Join(err, local.Close(), far.Close())
		})
	}
	<-ended
	<-ended
}
