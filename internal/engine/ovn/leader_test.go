package ovn

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
)

// serveLeaderAnswers starts a server that answers the question for the leader, and then sends its name.
func serveLeaderAnswers(t *testing.T, name, answer string) (endpoint string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_ = json.NewDecoder(conn).Decode(new(any))
				fmt.Fprintf(conn, "%s%q\n", answer, name)
			}()
		}
	}()
	return "unix:" + path
}

func TestDialLeader(t *testing.T) {
	const row = `{"id":"leader","error":null,"result":[{"rows":[{"leader":%t,"connected":true}]}]}`
	leader := serveLeaderAnswers(t, "leader", fmt.Sprintf(row, true))
	follower := serveLeaderAnswers(t, "follower", fmt.Sprintf(row, false))
	stranger := serveLeaderAnswers(t, "stranger", `{"id":"leader","error":null,"result":[{"rows":[]}]}`)
	silent := serveLeaderAnswers(t, "silent", ``)
	gone := "unix:" + filepath.Join(t.TempDir(), "gone")
	for _, c := range []struct {
		endpoints []string
		want      string // empty: no connection
	}{
		{[]string{gone, stranger, follower, leader}, "leader"},
		{[]string{silent, leader}, "leader"},
		{[]string{follower, follower, gone}, "follower"},
		{[]string{gone, stranger}, ""},
		{[]string{"http:127.0.0.1:1"}, ""},
		{nil, ""},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		conn, err := DialLeader(ctx, Config{Endpoints: c.endpoints}, nb.Database)
		cancel()
		if c.want == "" || err != nil {
			if (c.want == "") != (err != nil) {
				t.Errorf("%v: %v", c.endpoints, err)
			}
			continue
		}
		var name string
		if err := json.NewDecoder(io.LimitReader(conn, 100)).Decode(&name); err != nil || name != c.want {
			t.Errorf("%v: %q, %v, want %s", c.endpoints, name, err, c.want)
		}
		_ = conn.Close()
	}
}
