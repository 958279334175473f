package ovn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ovn-kubernetes/libovsdb/cache"
	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
	"github.com/ovn-kubernetes/libovsdb/ovsdb/serverdb"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
)

// Time limits for a server: to report whether it leads, to send the database, and to answer an echo request.
const (
	leadershipTimeout = 3 * time.Second
	monitorTimeout    = time.Minute
	probeInterval     = 5 * time.Second
	probeTimeout      = 10 * time.Second
)

// session is one connection to the leader of the database, with its own cache.
//
// A session never reconnects; the client opens a new one. libovsdb can reconnect by itself, but then it empties its
// cache while others read it, blocks transactions and queries until it is connected again, and uses only the
// certificates it was started with. It can also follow the leader by itself, but leaks a goroutine each time. So the
// session watches leadership through a second connection to the same server.
type session struct {
	endpoint            string
	nbClient            client.Client // each client has one connection and is never reused
	serverClient        client.Client
	tableCache          *cache.TableCache
	changes             changeBroadcast
	ownUpdates          ownUpdates
	misplaced           misplacedPorts
	missingCapabilities string       // what the engine lacks for return ports; empty: nothing
	transactions        atomic.Int64 // number of transactions that were begun

	once      sync.Once
	ended     chan struct{}
	endReason error // valid once ended is closed
}

// openSession connects to one server. It notifies the watchers of a client.
func openSession(ctx context.Context, endpoint string, secrets *tls.Config, of *Client) (*session, error) {
	s := &session{endpoint: endpoint, ended: make(chan struct{})}
	err := s.monitorLeadership(ctx, secrets)
	if err == nil {
		err = s.monitorNorthbound(ctx, secrets, of)
	}
	if err != nil {
		s.terminate(err)
		return nil, err
	}
	go s.probeServer() //nolint:gosec // it outlives the context of opening, and ends with the session
	return s, nil
}

// monitorLeadership checks that the server leads the database, and ends the session when it no longer does.
func (s *session) monitorLeadership(ctx context.Context, secrets *tls.Config) error {
	ctx, cancel := context.WithTimeout(ctx, leadershipTimeout)
	defer cancel()
	described, err := serverdb.FullDatabaseModel()
	if err != nil {
		return err
	}
	if s.serverClient, err = s.dialServer(ctx, described, secrets); err != nil {
		return err
	}
	check := func(_ string, m model.Model) {
		if d, ok := m.(*serverdb.Database); ok && d.Name == nb.Database && d.Model == serverdb.DatabaseModelClustered &&
			!d.Leader {
			s.terminate(errors.New("the server is not the leader of the database"))
		}
	}
	databases := s.serverClient.Cache()
	if databases == nil {
		return ErrNotConnected
	}
	databases.AddEventHandler(&cache.EventHandlerFuncs{
		UpdateFunc: func(table string, _, m model.Model) { check(table, m) },
	})
	_, err = s.serverClient.Monitor(ctx, &client.Monitor{
		Method: ovsdb.ConditionalMonitorRPC,
		Tables: []client.TableMonitor{{Table: serverdb.DatabaseTable, Fields: []string{"name", "model", "leader"}}},
	})
	if err != nil {
		return fmt.Errorf("check whether the server is the leader: %w", err)
	}
	for _, m := range databases.Table(serverdb.DatabaseTable).Rows() {
		check(serverdb.DatabaseTable, m)
	}
	return s.endError()
}

// monitorNorthbound reads our part of the database into the cache and keeps it up to date.
func (s *session) monitorNorthbound(ctx context.Context, secrets *tls.Config, of *Client) error {
	ctx, cancel := context.WithTimeout(ctx, monitorTimeout)
	defer cancel()
	described, err := nb.DatabaseModel()
	if err != nil {
		return err
	}
	if s.nbClient, err = s.dialServer(ctx, described, secrets); err != nil {
		return err
	}
	if s.tableCache = s.nbClient.Cache(); s.tableCache == nil {
		return ErrNotConnected
	}
	s.tableCache.AddEventHandler(newRowIndex(s, func(router string) { of.notifyWatchers(s, router) },
		func(namespace, name string) { of.notifyPodWatcher(s, namespace, name) }))
	if _, err := s.nbClient.Monitor(ctx, nb.MonitorRequest()); err != nil {
		return fmt.Errorf("read the database: %w", err)
	}
	s.missingCapabilities = s.findMissingCapabilities()
	s.misplaced.indexExisting(s)
	return s.endError()
}

// dialServer opens a connection that is closed with the session. The session ends when the connection is lost.
func (s *session) dialServer(ctx context.Context, described model.ClientDBModel, secrets *tls.Config) (client.Client,
	error,
) {
	c, err := client.NewOVSDBClient(described, client.WithEndpoint(s.endpoint), client.WithTLSConfig(secrets))
	if err != nil {
		return nil, err
	}
	go func() {
		select {
		case <-c.DisconnectNotify():
			s.terminate(errors.New("the connection was lost"))
		case <-s.ended:
			c.Close()
		}
	}()
	if err := c.Connect(ctx); err != nil {
		return nil, err
	}
	if err := s.endError(); err != nil { // the session may have ended before there was a connection to close
		c.Close()
		return nil, err
	}
	return c, nil
}

// probeServer sends echo requests, the only way to notice that a machine has vanished. It also detects a lost
// connection that libovsdb did not report; libovsdb drops the report when nobody is listening at that moment.
func (s *session) probeServer() {
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		select {
		case <-s.ended:
			return
		case <-tick.C:
		}
		for _, c := range []client.Client{s.nbClient, s.serverClient} {
			ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
			err := c.Echo(ctx)
			cancel()
			if err != nil {
				s.terminate(fmt.Errorf("the server does not answer: %w", err))
			}
		}
	}
}

// terminate ends the session. Only the first call has an effect.
func (s *session) terminate(why error) {
	s.once.Do(func() {
		s.endReason = why
		close(s.ended)
	})
}

// endError returns why the session has ended, or nil while it is running.
func (s *session) endError() error {
	select {
	case <-s.ended:
		return s.endReason
	default:
		return nil
	}
}

// waitUntil waits until holds returns true. It checks again after each change of the cache.
func (s *session) waitUntil(ctx context.Context, holds func() bool) error {
	for {
		next := s.changes.nextChange()
		if holds() {
			return nil
		}
		select {
		case <-next:
		case <-s.ended:
			return s.endReason
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// changeBroadcast wakes all waiters at the next change.
type changeBroadcast struct {
	mu          sync.Mutex
	waitChannel chan struct{}
}

// nextChange returns a channel that is closed at the next change.
func (n *changeBroadcast) nextChange() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waitChannel == nil {
		n.waitChannel = make(chan struct{})
	}
	return n.waitChannel
}

func (n *changeBroadcast) broadcast() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waitChannel != nil {
		close(n.waitChannel)
		n.waitChannel = nil
	}
}
