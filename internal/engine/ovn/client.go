// Package ovn is the access to the OVN databases: a cache of the northbound database, and the rows of one router as a
// target.
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

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
)

// ErrNotConnected is returned while the leader of the database can't be reached. The log has the reason.
var ErrNotConnected = errors.New("not connected to the OVN northbound database")

// How long to pause before all endpoints are tried again: initial and maximum.
const (
	initialBackoff = 100 * time.Millisecond
	maxBackoff     = 5 * time.Second
)

// Client is a connection to the leader of the northbound database, with a cache of the part we need. It reconnects when
// the connection ends.
type Client struct {
	config  Config
	log     *slog.Logger
	current atomic.Pointer[session] // nil while not connected
	writes  atomic.Int64

	recomputes recomputeLimiter

	watchersMu sync.RWMutex
	watchers   []func(router string)
	podWatcher func(namespace, name string)

	stop  context.CancelFunc
	ended chan struct{}
}

// Dial connects and reads the database once. It retries until the context is done. A wrong configuration fails at once.
func Dial(ctx context.Context, config Config, log *slog.Logger) (*Client, error) {
	if _, err := config.loadTLSConfig(); err != nil {
		return nil, err
	}
	c := &Client{config: config, log: log, ended: make(chan struct{})}
	c.recomputes = recomputeLimiter{interval: config.RecomputeInterval, commit: c.commitTogether}
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

// Close ends the connection. The client does not reconnect.
func (c *Client) Close() {
	c.stop()
	<-c.ended
}

// IsConnected reports whether the client is connected.
func (c *Client) IsConnected() bool { return c.current.Load() != nil }

// WriteCount returns the number of committed transactions. It does not grow in a steady state.
func (c *Client) WriteCount() int64 { return c.writes.Load() }

// WatchRouters calls changed with the name of a router when the router or a row that belongs to it changes. After a
// reconnect, it calls changed for every router, because any of them may have changed, and with an empty name, because
// the engine may have been replaced. The callback must not block.
func (c *Client) WatchRouters(changed func(router string)) {
	c.watchersMu.Lock()
	defer c.watchersMu.Unlock()
	c.watchers = append(c.watchers, changed)
}

// WatchPodPorts calls changed with a pod when its port on a switch of the management VPC changes; the port of a virtual
// machine is that of a pod with the machine's name. Without it, the management VPC changes. The callback must not block.
func (c *Client) WatchPodPorts(changed func(namespace, name string)) {
	c.watchersMu.Lock()
	defer c.watchersMu.Unlock()
	c.podWatcher = changed
}

// RouterPortNames returns the names of all ports of a router, including those of others. It returns nil if there is no
// connection or no such router.
func (c *Client) RouterPortNames(router string) []string {
	s := c.current.Load()
	if s == nil {
		return nil
	}
	return s.routerPortNames(router)
}

// maintainSession replaces a session that has ended with a new one, until the client is closed.
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
		c.log.Warn("disconnected from the OVN northbound database", "server", s.endpoint, "reason", s.endReason)
		next, err := c.connectWithBackoff(ctx)
		if err != nil {
			return
		}
		c.activateSession(next, s)
		s = next
	}
}

// activateSession makes a session the current one. It notifies about every router of the new and the previous session,
// because any of them may have changed in between.
func (c *Client) activateSession(s, before *session) {
	c.current.Store(s)
	c.log.Info("connected to the OVN northbound database", "server", s.endpoint)
	names := append(s.routerNames(), "")
	if before != nil {
		names = append(names, before.routerNames()...)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		c.notifyWatchers(s, name)
	}
}

// notifyWatchers passes a change on. It ignores changes before the session is the current one, because nobody could
// read them.
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

// notifyPodWatcher passes a change of a pod's port on, as notifyWatchers does.
func (c *Client) notifyPodWatcher(s *session, namespace, name string) {
	c.watchersMu.RLock()
	changed := c.podWatcher
	c.watchersMu.RUnlock()
	switch {
	case changed == nil:
		c.notifyWatchers(s, kubeovn.ManagementVpc)
	case c.current.Load() == s:
		changed(namespace, name)
	}
}

// connectWithBackoff tries the endpoints in order, with growing pauses, until one of them leads the database or the
// context is done.
func (c *Client) connectWithBackoff(ctx context.Context) (*session, error) {
	var logged string
	for pause := initialBackoff; ; pause = min(2*pause, maxBackoff) {
		s, err := c.connectOnce(ctx)
		if err == nil {
			return s, nil
		}
		if text := err.Error(); text != logged && ctx.Err() == nil {
			c.log.Warn("can't connect to the OVN northbound database", "error", err)
			logged = text
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
		s, err := openSession(ctx, endpoint, secrets, c)
		if err == nil {
			return s, nil
		}
		failed = append(failed, fmt.Errorf("%s: %w", endpoint, err))
	}
	return nil, errors.Join(failed...)
}
