package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeServer is a database server that answers every request, and keeps what it has received.
type fakeServer struct {
	mu       sync.Mutex
	received []string
}

func (f *fakeServer) dial(context.Context, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		decoder := json.NewDecoder(theirs)
		for {
			var raw json.RawMessage
			if decoder.Decode(&raw) != nil {
				return
			}
			f.mu.Lock()
			f.received = append(f.received, string(raw))
			f.mu.Unlock()
			var m struct{ ID any }
			_ = json.Unmarshal(raw, &m)
			if json.NewEncoder(theirs).Encode(map[string]any{"id": m.ID, "result": []any{"}\"{"}, "error": nil}) != nil {
				return
			}
		}
	}()
	return ours, nil
}

func (f *fakeServer) count(text string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.received {
		if strings.Contains(r, text) {
			n++
		}
	}
	return n
}

// startRelay starts a relay in front of a fake server. The tokens are names of callers; "tenant" has no permission, and
// "unknown" is not valid.
func startRelay(t *testing.T) (*fakeServer, *Client) {
	t.Helper()
	fake, ctx := &fakeServer{}, t.Context()
	server := &Server{
		Authorize: func(_ context.Context, token, _ string) (string, error) {
			switch token {
			case "tenant":
				return "", ErrForbidden
			case "unknown":
				return "", ErrUnauthenticated
			case "broken":
				return "", errors.New("the API server is away")
			}
			return token, nil
		},
		Dial: fake.dial, Sync: func(context.Context) error { fake.received = append(fake.received, "sync"); return nil },
		Log: slog.New(slog.DiscardHandler),
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(ctx, listener) }()
	return fake, clientOf(listener.Addr().String(), "operator")
}

func clientOf(address, token string) *Client {
	return &Client{
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		},
		Token: func(context.Context) (string, error) { return token, nil },
	}
}

// ask sends a message and returns the answer.
func ask(t *testing.T, conn net.Conn, message string) (answer struct {
	ID     any
	Result []any
	Error  any
},
) {
	t.Helper()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, message); err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(conn).Decode(&answer); err != nil {
		t.Fatalf("%.80s: %v", message, err)
	}
	return answer
}

func open(t *testing.T, c *Client, database string) net.Conn {
	t.Helper()
	conn, err := c.Open(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

const goodSelect = `{"id":1,"method":"transact","params":["OVN_Northbound",{"op":"select","table":"ACL","where":[]}]}`

// TestOnlyReadsPass sends what an attacker with permission to read would. None of it reaches the server, and the same
// connection still reads.
func TestOnlyReadsPass(t *testing.T) {
	attacks := map[string]string{
		"insert":              `{"id":7,"method":"transact","params":["OVN_Northbound",{"op":"insert","table":"ATTACK","row":{}}]}`,
		"a write beside":      `{"id":7,"method":"transact","params":["OVN_Northbound",{"op":"select","table":"ACL","where":[]},{"op":"delete","table":"ATTACK","where":[]}]}`,
		"mutate":              `{"id":7,"method":"transact","params":["OVN_Northbound",{"op":"mutate","table":"ATTACK"}]}`,
		"wait":                `{"id":7,"method":"transact","params":["OVN_Northbound",{"op":"wait","table":"ATTACK"}]}`,
		"comment":             `{"id":7,"method":"transact","params":["OVN_Northbound",{"op":"comment","comment":"ATTACK"}]}`,
		"the last of two ops": `{"id":7,"method":"transact","params":["OVN_Northbound",{"op":"select","op":"update","table":"ATTACK"}]}`,
		"no op":               `{"id":7,"method":"transact","params":["OVN_Northbound",{"Op":"select","table":"ATTACK"}]}`,
		"not an operation":    `{"id":7,"method":"transact","params":["OVN_Northbound","ATTACK"]}`,
		"another database":    `{"id":7,"method":"transact","params":["OVN_Southbound",{"op":"select","table":"ATTACK","where":[]}]}`,
		"no database":         `{"id":7,"method":"monitor","params":[]}`,
		"monitor another":     `{"id":7,"method":"monitor","params":["ATTACK",null,{}]}`,
		"params is an object": `{"id":7,"method":"transact","params":{"ATTACK":1}}`,
		"lock":                `{"id":7,"method":"lock","params":["ATTACK"]}`,
		"steal":               `{"id":7,"method":"steal","params":["ATTACK"]}`,
		"convert":             `{"id":7,"method":"convert","params":["OVN_Northbound",{"ATTACK":1}]}`,
		"two methods":         `{"id":7,"method":"echo","method":"steal","params":["ATTACK"]}`,
		"an unknown member":   `{"id":7,"method":"echo","params":[],"Method":"ATTACK"}`,
		"a method of no kind": `{"id":7,"method":["ATTACK"],"params":[]}`,
		"too many operations": `{"id":7,"method":"transact","params":["OVN_Northbound"` + strings.Repeat(`,{"op":"select","table":"ATTACK"}`, maxOperations+1) + `]}`,
	}
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			fake, client := startRelay(t)
			conn := open(t, client, Northbound)
			if got := ask(t, conn, attack); got.Error == nil || got.ID != 7. {
				t.Errorf("answer %+v", got)
			}
			if got := ask(t, conn, goodSelect); got.Error != nil || fake.count("ACL") != 1 {
				t.Errorf("control: %+v, received %v", got, fake.received)
			}
			if fake.count("ATTACK") > 0 {
				t.Errorf("it reached the server: %v", fake.received)
			}
		})
	}
}

// TestReadsPass sends what OVN's programs and libovsdb send to read.
func TestReadsPass(t *testing.T) {
	fake, client := startRelay(t)
	conn := open(t, client, Northbound)
	for i, message := range []string{
		goodSelect,
		`{"id":1,"method":"echo","params":[]}`,
		`{"id":1,"method":"list_dbs","params":[]}`,
		`{"id":1,"method":"get_schema","params":["_Server"]}`,
		`{"id":1,"method":"set_db_change_aware","params":[true]}`,
		`{"id":1,"method":"monitor_cond","params":["_Server",["monid","_Server"],{"Database":[{"columns":["leader"]}]}]}`,
		`{"id":1,"method":"monitor_cond_since","params":["OVN_Northbound",null,{},"00000000-0000-0000-0000-000000000000"]}`,
		`{"id":9007199254740993,"method":"monitor_cancel","params":[null]}`,
	} {
		if got := ask(t, conn, message); got.Error != nil || len(fake.received) != i+1 {
			t.Errorf("%s: %+v, %d received", message, got, len(fake.received))
		}
	}
	if fake.count("9007199254740993") != 1 {
		t.Error("a large number has changed on the way")
	}
}

func TestMessagesAreLimited(t *testing.T) {
	for name, message := range map[string]string{
		"huge":      `{"id":1,"method":"echo","params":["` + strings.Repeat("A", maxMessageBytes) + `"]}`,
		"deep":      `{"id":1,"method":"echo","params":` + strings.Repeat("[", 20000),
		"no object": `[1]`, "null": "null\n", "not JSON": `A{}`,
	} {
		t.Run(name, func(t *testing.T) {
			fake, client := startRelay(t)
			conn := open(t, client, Northbound)
			ask(t, conn, goodSelect) // control
			go func() { _, _ = io.WriteString(conn, message) }()
			_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
			if n, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) || n > 0 {
				t.Errorf("the connection is still open: %d bytes, %v", n, err)
			}
			if fake.count("A{") > 0 || len(fake.received) != 1 {
				t.Errorf("%d messages reached the server", len(fake.received))
			}
		})
	}
}

func TestRefusalsAndMonitorsAreLimited(t *testing.T) {
	_, client := startRelay(t)
	conn := open(t, client, Southbound)
	for range maxMonitors {
		if got := ask(t, conn, `{"id":1,"method":"monitor","params":["OVN_Southbound",null,{}]}`); got.Error != nil {
			t.Fatal(got)
		}
	}
	for range maxRefusals {
		if got := ask(t, conn, `{"id":1,"method":"monitor","params":["OVN_Southbound",null,{}]}`); got.Error == nil {
			t.Fatal("one monitor too many")
		}
	}
	_, _ = io.WriteString(conn, `{"id":1,"method":"lock","params":[]}`)
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes after too many refusals", n)
	}
}

func TestOnlyAuthorizedCallers(t *testing.T) {
	fake, good := startRelay(t)
	conn, err := good.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	address := conn.RemoteAddr().String()
	_ = conn.Close()
	for token, want := range map[string]int{
		"": http.StatusUnauthorized, "unknown": http.StatusUnauthorized, "tenant": http.StatusForbidden,
		"broken": http.StatusServiceUnavailable, strings.Repeat("x", 2*maxHeaderBytes): http.StatusRequestHeaderFieldsTooLarge,
	} {
		_, err := clientOf(address, token).Open(t.Context(), Northbound)
		if got := new(AnswerError); !errors.As(err, &got) || got.Status != want {
			t.Errorf("token %.20q: %v, want %d", token, err, want)
		}
		if err := clientOf(address, token).Sync(t.Context()); err == nil {
			t.Errorf("token %.20q may sync", token)
		}
	}
	if _, err := good.Open(t.Context(), "_Server"); err == nil {
		t.Error("opened a database that is not served")
	}
	if len(fake.received) > 0 {
		t.Errorf("reached the server: %v", fake.received)
	}
	ask(t, open(t, good, Northbound), goodSelect)
}

func TestSyncIsLimited(t *testing.T) {
	fake, client := startRelay(t)
	for range 10 {
		if err := client.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := fake.count("sync"); n < 1 || n > 5 {
		t.Errorf("ten requests led to %d", n)
	}
}

func TestConnectionsAreLimited(t *testing.T) {
	_, client := startRelay(t)
	var all []net.Conn
	for range maxPerCaller {
		all = append(all, open(t, client, Northbound))
	}
	_, err := client.Open(t.Context(), Northbound)
	if got := new(AnswerError); !errors.As(err, &got) || got.Status != http.StatusTooManyRequests {
		t.Fatalf("one more: %v", err)
	}
	other := *client
	other.Token = func(context.Context) (string, error) { return "another", nil }
	ask(t, open(t, &other, Northbound), goodSelect)
	_ = all[0].Close()
	for {
		conn, err := client.Open(t.Context(), Northbound)
		if err == nil {
			_ = conn.Close()
			break
		}
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

// TestSockets checks that a program reaches the database through the local socket, which other users can't enter, and
// that closing ends everything, also while a connection can't be opened.
func TestSockets(t *testing.T) {
	_, client := startRelay(t)
	sockets, err := client.Listen()
	if err != nil {
		t.Fatal(err)
	}
	path := strings.TrimPrefix(sockets.Endpoint(Northbound), "unix:")
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ask(t, conn, goodSelect)
	sockets.Close()
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes after the end", n)
	}
	if _, err := net.Dial("unix", path); err == nil {
		t.Error("the socket is still there")
	}
}

func TestSocketsOfARelayThatHangs(t *testing.T) {
	hanging := &Client{
		Dial:  func(context.Context) (net.Conn, error) { ours, _ := net.Pipe(); return ours, nil },
		Token: func(context.Context) (string, error) { return "operator", nil },
	}
	sockets, err := hanging.Listen()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("unix", strings.TrimPrefix(sockets.Endpoint(Southbound), "unix:"))
	if err != nil {
		t.Fatal(err)
	}
	go func() { sockets.Close(); _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) || err == nil {
		t.Errorf("it hangs: %v", err)
	}
}

// TestRefusalsComeBetweenMessages checks that a refusal does not land inside of an answer.
func TestRefusalsComeBetweenMessages(t *testing.T) {
	caller, near := net.Pipe()
	server, far := net.Pipe()
	c := &connection{caller: near, server: server}
	go func() { _ = c.passAnswers() }()
	go func() { _, _ = io.WriteString(far, `{"result":["\"}`) }()
	head := make([]byte, 15)
	if _, err := io.ReadFull(caller, head); err != nil {
		t.Fatal(err)
	}
	go func() { _ = c.answer(message{idKey: "mine"}) }()
	go func() { _, _ = io.WriteString(far, `"]}`) }()
	decoder := json.NewDecoder(io.MultiReader(bytes.NewReader(head), caller))
	for _, want := range []string{resultKey, idKey} {
		var m message
		if err := decoder.Decode(&m); err != nil || m[want] == nil {
			t.Errorf("%v, %v: want the one with %s", m, err, want)
		}
	}
}
