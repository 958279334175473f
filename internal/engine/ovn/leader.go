package ovn

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// leaderQuestion asks a server whether it leads a database. Servers of databases without a cluster are leaders.
const leaderQuestion = `{"id":"leader","method":"transact","params":["_Server",{"op":"select","table":"Database",` +
	`"where":[["name","==",%q]],"columns":["leader","connected"]}]}`

// maxLeaderAnswer limits the answer.
const maxLeaderAnswer = 64 << 10

// DialLeader connects to the server that leads a database, or to one that serves it if none leads. The connection
// carries OVSDB.
func DialLeader(ctx context.Context, config Config, database string) (net.Conn, error) {
	secrets, err := config.loadTLSConfig()
	if err != nil {
		return nil, err
	}
	var follower net.Conn
	var failed []error
	for i, endpoint := range config.Endpoints {
		attempt, cancel := ctx, context.CancelFunc(func() {})
		if end, limited := ctx.Deadline(); limited {
			attempt, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(len(config.Endpoints)-i))
		}
		conn, leads, err := dialLeaderCandidate(attempt, endpoint, secrets, database)
		cancel()
		switch {
		case err != nil:
			failed = append(failed, fmt.Errorf("%s: %w", endpoint, err))
		case leads:
			if follower != nil {
				_ = follower.Close()
			}
			return conn, nil
		case follower == nil:
			follower = conn
		default:
			_ = conn.Close()
		}
	}
	if follower == nil {
		return nil, errors.Join(failed...)
	}
	return follower, nil
}

// dialLeaderCandidate connects to a server and asks whether it leads a database.
func dialLeaderCandidate(ctx context.Context, endpoint string, secrets *tls.Config, database string) (conn net.Conn, leads bool,
	err error,
) {
	kind, address, _ := strings.Cut(endpoint, ":")
	switch kind {
	case "ssl":
		conn, err = (&tls.Dialer{Config: secrets}).DialContext(ctx, "tcp", address)
	case "tcp", "unix":
		conn, err = new(net.Dialer).DialContext(ctx, kind, address)
	default:
		err = fmt.Errorf("%s is not a protocol of OVSDB", kind)
	}
	if err != nil {
		return nil, false, err
	}
	if end, limited := ctx.Deadline(); limited {
		_ = conn.SetDeadline(end)
	}
	rest, leads, err := askLeader(conn, database)
	if err != nil {
		_ = conn.Close()
		return nil, false, fmt.Errorf("ask whether the server leads the database: %w", err)
	}
	_ = conn.SetDeadline(time.Time{})
	return &resumedConn{Conn: conn, from: io.MultiReader(rest, conn)}, leads, nil
}

// askLeader asks a server whether it leads a database. What the server has sent after the answer is returned too.
func askLeader(conn io.ReadWriter, database string) (rest io.Reader, leads bool, err error) {
	if _, err := fmt.Fprintf(conn, leaderQuestion, database); err != nil {
		return nil, false, err
	}
	decoder := json.NewDecoder(io.LimitReader(conn, maxLeaderAnswer))
	var answer struct {
		Result []struct {
			Rows []struct{ Leader, Connected bool }
		}
		Error any
	}
	if err := decoder.Decode(&answer); err != nil {
		return nil, false, err
	}
	if answer.Error != nil || len(answer.Result) != 1 || len(answer.Result[0].Rows) != 1 {
		return nil, false, fmt.Errorf("the server has no database %s", database)
	}
	return decoder.Buffered(), answer.Result[0].Rows[0].Leader, nil
}

// resumedConn is a connection of which a part was already read.
type resumedConn struct {
	net.Conn
	from io.Reader
}

// Read reads what was read ahead, then the connection.
func (c *resumedConn) Read(p []byte) (int, error) { return c.from.Read(p) }
