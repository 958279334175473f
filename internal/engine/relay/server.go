package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/time/rate"
)

// ErrForbidden is returned by Authorize for a caller without permission, ErrUnauthenticated for a token that is not
// valid for the relay.
var (
	ErrForbidden       = errors.New("forbidden")
	ErrUnauthenticated = errors.New("the token is not valid for the relay")
)

// Server passes connections of authorized callers on to the servers of OVN's databases.
type Server struct {
	// Authorize returns the caller that holds a token and may get a path.
	Authorize func(ctx context.Context, token, path string) (caller string, err error)
	// Dial connects to a server of a database.
	Dial func(ctx context.Context, database string) (net.Conn, error)
	// Sync waits for ovn-northd and the chassis.
	Sync func(ctx context.Context) error
	Log  *slog.Logger

	mu       sync.Mutex
	open     map[string]int // connections by caller
	total    int
	syncMu   sync.Mutex
	lastSync time.Time
}

// Serve serves a listener until the context ends. Connections end with it.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: headerTimeout, IdleTimeout: headerTimeout, MaxHeaderBytes: maxHeaderBytes,
		ReadTimeout: idleTimeout, BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(netutil.LimitListener(listener, maxSockets)); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve the relay: %w", err)
	}
	return nil
}

// ServeHTTP authorizes a request, and carries a connection to a database.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	database, _ := strings.CutPrefix(r.URL.Path, PathPrefix)
	wantsSync := r.URL.Path == SyncPath && r.Method == http.MethodPost
	if !wantsSync && (r.Method != http.MethodGet || !isDatabase(database)) {
		http.Error(w, "no such database", http.StatusNotFound)
		return
	}
	caller, ok := s.authorize(w, r)
	if !ok {
		return
	}
	if wantsSync {
		s.serveSync(w, r)
		return
	}
	if r.Header.Get("Upgrade") != protocol {
		http.Error(w, "the connection must be upgraded to "+protocol, http.StatusUpgradeRequired)
		return
	}
	if !s.admit(caller) {
		http.Error(w, "too many connections; end other commands, or try again", http.StatusTooManyRequests)
		return
	}
	defer s.dismiss(caller)
	s.serveDatabase(w, r, caller, database)
}

// authorize returns the caller of a request, or answers it.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) (caller string, ok bool) {
	token, bears := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bears || token == "" {
		http.Error(w, "bearer token required", http.StatusUnauthorized)
		return "", false
	}
	ctx, cancel := context.WithTimeout(r.Context(), authorizeTimeout)
	defer cancel()
	caller, err := s.Authorize(ctx, token, r.URL.Path)
	switch {
	case err == nil:
		return caller, true
	case errors.Is(err, ErrUnauthenticated):
		http.Error(w, ErrUnauthenticated.Error(), http.StatusUnauthorized)
	case errors.Is(err, ErrForbidden):
		http.Error(w, "forbidden: the token's user may not get "+r.URL.Path, http.StatusForbidden)
	default:
		s.Log.Warn("the relay can't check a token", "error", err)
		http.Error(w, "the controller could not check the token with the API server; try again", http.StatusServiceUnavailable)
	}
	return "", false
}

// admit counts a connection of a caller, unless there are too many.
func (s *Server) admit(caller string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total >= maxConnections || s.open[caller] >= maxPerCaller {
		return false
	}
	if s.open == nil {
		s.open = map[string]int{}
	}
	s.open[caller]++
	s.total++
	return true
}

func (s *Server) dismiss(caller string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total--
	if s.open[caller]--; s.open[caller] == 0 {
		delete(s.open, caller)
	}
}

// serveSync waits for ovn-northd and the chassis. This increments a counter that every chassis answers, so requests
// soon after another one do nothing.
func (s *Server) serveSync(w http.ResponseWriter, r *http.Request) {
	s.syncMu.Lock()
	defer s.syncMu.Unlock()
	if time.Since(s.lastSync) < syncInterval {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), syncTimeout)
	defer cancel()
	err := s.Sync(ctx)
	s.lastSync = time.Now()
	if err != nil {
		s.Log.Warn("the relay can't wait for OVN", "error", err)
		http.Error(w, "the controller does not reach the OVN northbound database", http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// serveDatabase connects a request to a server of a database.
func (s *Server) serveDatabase(w http.ResponseWriter, r *http.Request, caller, database string) {
	ctx, cancel := context.WithTimeout(r.Context(), connectionLifetime)
	defer cancel()
	begin, done := context.WithTimeout(ctx, dialTimeout)
	server, err := s.Dial(begin, database)
	done()
	if err != nil {
		s.Log.Warn("the relay can't connect to OVN", "database", database, "error", err)
		http.Error(w, "the controller does not reach a server of "+database+"; its log has the reason", http.StatusBadGateway)
		return
	}
	defer server.Close() //nolint:errcheck // it was only read from
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		http.Error(w, "the connection can't be upgraded", http.StatusInternalServerError)
		return
	}
	conn, buffered, err := hijacker.Hijack()
	if err != nil {
		return
	}
	defer conn.Close() //nolint:errcheck // the other side has gone
	s.Log.Info("the relay opened a connection", "database", database, "caller", caller)
	_ = conn.SetDeadline(time.Now().Add(idleTimeout))
	if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+
		protocol+"\r\n\r\n"); err != nil {
		return
	}
	c := &connection{
		database: database, caller: conn, server: server, from: buffered.Reader,
		limiter: rate.NewLimiter(requestsPerSecond, requestBurst),
	}
	err = c.run(ctx)
	s.Log.Info("the relay closed a connection", "database", database, "caller", caller, "reason", fmt.Sprint(err))
}

// connection is a connection between a caller and a server.
type connection struct {
	database       string
	caller, server net.Conn
	from           io.Reader // the caller, with what was read ahead
	limiter        *rate.Limiter
	monitors       int
	refusals       int

	writeMu sync.Mutex // of caller: answers of the server and refusals must not be mixed
}

// run passes messages until a side ends the connection or breaks a rule. It returns the reason.
func (c *connection) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = c.caller.Close(); _ = c.server.Close() })
	defer stop()
	ended := make(chan error, 2)
	go func() { ended <- c.passAnswers() }()
	go func() { ended <- c.passRequests(ctx) }()
	err := <-ended
	_ = c.caller.Close()
	_ = c.server.Close()
	<-ended
	return err
}

// passRequests sends the messages of the caller that only read.
func (c *connection) passRequests(ctx context.Context) error {
	reader := newMessageReader(c.from, maxMessageBytes)
	encoder := json.NewEncoder(c.server)
	for {
		_ = c.caller.SetReadDeadline(time.Now().Add(idleTimeout))
		m, err := reader.readMessage()
		if err != nil {
			return err
		}
		if err := c.limiter.Wait(ctx); err != nil {
			return err
		}
		if why := c.check(m); why != nil {
			err = c.refuse(m, why)
		} else {
			_ = c.server.SetWriteDeadline(time.Now().Add(writeTimeout))
			err = encoder.Encode(m)
		}
		if err != nil {
			return err
		}
	}
}

// refuse answers a message that must not be passed, unless there were too many.
func (c *connection) refuse(m message, why error) error {
	if c.refusals++; c.refusals > maxRefusals {
		return errors.New("too many refused messages")
	}
	if !m.isAnswered() {
		return nil
	}
	return c.answer(m.refuse(why))
}

// check returns why a message is refused, or nil.
func (c *connection) check(m message) error {
	if err := checkMessage(m, c.database); err != nil {
		return err
	}
	if m.isMonitor() {
		if c.monitors++; c.monitors > maxMonitors {
			return fmt.Errorf("a connection has at most %d monitors", maxMonitors)
		}
	}
	return nil
}

// answer sends a message of the relay itself, between two of the server.
func (c *connection) answer(m message) error {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	_ = c.caller.SetWriteDeadline(time.Now().Add(writeTimeout))
	return json.NewEncoder(c.caller).Encode(m)
}

// passAnswers copies what the server sends. A caller that does not read is disconnected, so that the server need not
// keep its updates.
func (c *connection) passAnswers() error {
	var position streamPosition
	chunk, inside := make([]byte, 32<<10), false
	defer func() {
		if inside {
			c.writeMu.Unlock()
		}
	}()
	for {
		n, err := c.server.Read(chunk)
		if n > 0 && !inside {
			c.writeMu.Lock()
			inside = true
		}
		_ = c.caller.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := c.caller.Write(chunk[:n]); err != nil {
			return err
		}
		if position.advance(chunk[:n]); inside && !position.isInMessage() {
			c.writeMu.Unlock()
			inside = false
		}
		if err != nil {
			return err
		}
	}
}
