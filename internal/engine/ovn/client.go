// Package ovn is the OVN northbound database: a copy of what we need of it, and the rows of one router as a target.
package ovn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrNotConnected is returned while no server that leads the database can be reached. The reason is in the log.
var ErrNotConnected = errors.New("not connected to the OVN northbound database")

// How long we wait before we try all endpoints again, at first and at most.
const (
	initialBackoff = 100 * time.Millisecond
	maxBackoff     = 5 * time.Second
)

// Client is a connection to whichever server leads the northbound database, with a copy of the part that concerns us.
// When the connection ends, it makes another.
type Client struct {
	config  Config
	log     *slog.Logger
	current atomic.Pointer[session] // nil while there is none
	writes  atomic.Int64

	watchersMu sync.RWMutex
	watchers   []func(router string)

	stop  context.CancelFunc
	ended chan struct{}
}

// Dial connects and reads the database once. It tries again until the context is done; a wrong configuration fails at
// once.
func Dial(ctx context.Context, config Config, log *slog.Logger) (*Client, error) {
	if _, err := config.loadTLSConfig(); err != nil {
		return nil, err
	}
	c := &Client{config: config, log: log, ended: make(chan struct{})}
	first, err := c.connectWithBackoff(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to the OVN northbound database: %w", err)
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	c.activateSession(first, nil)
	go c.maintainSession(life, first)
	return c, nil
}

// Close ends the connection for good.
func (c *Client) Close() {
	c.stop()
	<-c.ended
}

// IsConnected says whether there is a connection now.
func (c *Client) IsConnected() bool { return c.current.Load() != nil }

// WriteCount counts the transactions that were carried out: a steady state has none.
func (c *Client) WriteCount() int64 { return c.writes.Load() }

// WatchRouters calls back with the name of a router whenever it, or a row that belongs to it, has changed; and after a
// connection was lost with every router's, because anything may have happened meanwhile, and with none, because the
// engine may be another one. The callback must not block.
func (c *Client) WatchRouters(changed func(router string)) {
	c.watchersMu.Lock()
	defer c.watchersMu.Unlock()
	c.watchers = append(c.watchers, changed)
}

// RouterPortNames names the ports of a router, whoever made them; nil when the router, or the database, is not there.
func (c *Client) RouterPortNames(router string) []string {
	s := c.current.Load()
	if s == nil {
		return nil
	}
	return s.routerPortNames(router)
}

// maintainSession replaces a session that has ended by the next, until the client is closed.
func (c *Client) maintainSession(ctx context.Context, s *session) {
	defer close(c.ended)
	for {
		select {
		case <-ctx.Done():
		case <-s.ended:
		}
		c.current.Store(nil)
		if ctx.Err() != nil {
			s.terminate(ErrNotConnected)
			return
		}
		c.log.Warn("left the OVN northbound database", "server", s.endpoint, "reason", s.endReason)
		next, err := c.connectWithBackoff(ctx)
		if err != nil {
			return
		}
		c.activateSession(next, s)
		s = next
	}
}

// activateSession makes a session the current one. Routers that were there before or are there now may have changed in
// between.
func (c *Client) activateSession(s, before *session) {
	c.current.Store(s)
	c.log.Info("joined the OVN northbound database", "server", s.endpoint)
	names := append(s.routerNames(), "")
	if before != nil {
		names = append(names, before.routerNames()...)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		c.notifyWatchers(s, name)
	}
}

// notifyWatchers passes a change on. What happens before a session is the current one is not told, because nobody could
// look at it.
func (c *Client) notifyWatchers(s *session, router string) {
	if c.current.Load() != s {
		return
	}
	c.watchersMu.RLock()
	defer c.watchersMu.RUnlock()
	for _, changed := range c.watchers {
		changed(router)
	}
}

// connectWithBackoff tries the endpoints in turn, with growing pauses, until one of them leads the database or the
// context is done.
func (c *Client) connectWithBackoff(ctx context.Context) (*session, error) {
	var said string
	for pause := initialBackoff; ; pause = min(2*pause, maxBackoff) {
		s, err := c.connectOnce(ctx)
		if err == nil {
			return s, nil
		}
		if text := err.Error(); text != said && ctx.Err() == nil {
			c.log.Warn("the OVN northbound database can't be reached", "error", err)
			said = text
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
		}
	}
}

func (c *Client) connectOnce(ctx context.Context) (*session, error) {
	secrets, err := c.config.loadTLSConfig() // read again each time: certificates are renewed in place
	if err != nil {
		return nil, err
	}
	var failed []error
	for _, endpoint := range c.config.Endpoints {
		s, err := openSession(ctx, endpoint, secrets, c.notifyWatchers)
		if err == nil {
			return s, nil
		}
		failed = append(failed, fmt.Errorf("%s: %w", endpoint, err))
	}
	return nil, errors.Join(failed...)
}
