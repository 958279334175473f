package ovn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ovn-kubernetes/libovsdb/cache"
	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
	"github.com/ovn-kubernetes/libovsdb/ovsdb/serverdb"

	"github.com/sallyport/sallyport/internal/ovn/nb"
)

// How long a server may take: to say whether it leads, to send its whole database, and to answer when it is asked whether it
// is there.
const (
	followLimit = 3 * time.Second
	copyLimit   = time.Minute
	probeEvery  = 5 * time.Second
	probeLimit  = 10 * time.Second
)

// session is one connection to the server that leads the database, with its own copy of it.
//
// A session is never mended; the next one begins anew. libovsdb can reconnect by itself, but then it empties its copy while
// others read it, holds back transactions and questions until it is there again, and looks only at the certificates that it
// was started with. It can follow the leader by itself too, and leaves a goroutine behind each time; so a second connection
// to the same server watches that.
type session struct {
	endpoint  string
	nb        client.Client // one connection each, never used again
	server    client.Client
	rows      *cache.TableCache
	news      news
	echoes    echoes
	misplaced misplacedPorts
	lacks     string // what it lacks for legs; empty: nothing

	once  sync.Once
	ended chan struct{}
	why   error // once ended is closed
}

// open connects to one server. tell is called with the routers that change.
func open(ctx context.Context, endpoint string, secrets *tls.Config, tell func(*session, string)) (*session, error) {
	s := &session{endpoint: endpoint, ended: make(chan struct{})}
	err := s.follow(ctx, secrets)
	if err == nil {
		err = s.copy(ctx, secrets, tell)
	}
	if err != nil {
		s.end(err)
		return nil, err
	}
	go s.probe() //nolint:gosec // it outlives the context of opening, and ends with the session
	return s, nil
}

// follow checks that the server leads the database, and ends the session when it does not any more.
func (s *session) follow(ctx context.Context, secrets *tls.Config) error {
	ctx, cancel := context.WithTimeout(ctx, followLimit)
	defer cancel()
	described, err := serverdb.FullDatabaseModel()
	if err != nil {
		return err
	}
	if s.server, err = s.dial(ctx, described, secrets); err != nil {
		return err
	}
	check := func(_ string, m model.Model) {
		if d, ok := m.(*serverdb.Database); ok && d.Name == nb.Database && d.Model == serverdb.DatabaseModelClustered && !d.Leader {
			s.end(errors.New("the server does not lead the database"))
		}
	}
	databases := s.server.Cache()
	if databases == nil {
		return ErrNotConnected
	}
	databases.AddEventHandler(&cache.EventHandlerFuncs{
		UpdateFunc: func(table string, _, m model.Model) { check(table, m) },
	})
	_, err = s.server.Monitor(ctx, &client.Monitor{
		Method: ovsdb.ConditionalMonitorRPC,
		Tables: []client.TableMonitor{{Table: serverdb.DatabaseTable, Fields: []string{"name", "model", "leader"}}},
	})
	if err != nil {
		return fmt.Errorf("ask who leads: %w", err)
	}
	for _, m := range databases.Table(serverdb.DatabaseTable).Rows() {
		check(serverdb.DatabaseTable, m)
	}
	return s.alive()
}

// copy fetches our part of the database and keeps it up to date.
func (s *session) copy(ctx context.Context, secrets *tls.Config, tell func(*session, string)) error {
	ctx, cancel := context.WithTimeout(ctx, copyLimit)
	defer cancel()
	described, err := nb.Model()
	if err != nil {
		return err
	}
	if s.nb, err = s.dial(ctx, described, secrets); err != nil {
		return err
	}
	if s.rows = s.nb.Cache(); s.rows == nil {
		return ErrNotConnected
	}
	s.rows.AddEventHandler(newIndex(s, func(router string) { tell(s, router) }))
	if _, err := s.nb.Monitor(ctx, nb.Monitor()); err != nil {
		return fmt.Errorf("read the database: %w", err)
	}
	s.lacks = s.examine()
	s.misplaced.fill(s)
	return s.alive()
}

// dial makes a connection that ends with the session, and ends the session when it ends.
func (s *session) dial(ctx context.Context, described model.ClientDBModel, secrets *tls.Config) (client.Client, error) {
	c, err := client.NewOVSDBClient(described, client.WithEndpoint(s.endpoint), client.WithTLSConfig(secrets))
	if err != nil {
		return nil, err
	}
	go func() {
		select {
		case <-c.DisconnectNotify():
			s.end(errors.New("the connection was lost"))
		case <-s.ended:
			c.Close()
		}
	}()
	if err := c.Connect(ctx); err != nil {
		return nil, err
	}
	if err := s.alive(); err != nil { // it may have ended before there was something to close
		c.Close()
		return nil, err
	}
	return c, nil
}

// probe asks the server now and then whether it is there: nothing else shows that a machine has vanished. It also finds a
// lost connection that libovsdb has not reported, as it does when nobody listened at that moment.
func (s *session) probe() {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.ended:
			return
		case <-tick.C:
		}
		for _, c := range []client.Client{s.nb, s.server} {
			ctx, cancel := context.WithTimeout(context.Background(), probeLimit)
			err := c.Echo(ctx)
			cancel()
			if err != nil {
				s.end(fmt.Errorf("the server does not answer: %w", err))
			}
		}
	}
}

// end ends the session, once.
func (s *session) end(why error) {
	s.once.Do(func() {
		s.why = why
		close(s.ended)
	})
}

// alive is why the session has ended, or nil.
func (s *session) alive() error {
	select {
	case <-s.ended:
		return s.why
	default:
		return nil
	}
}

// until waits until something holds of the copy of the database. It is asked again after each change.
func (s *session) until(ctx context.Context, holds func() bool) error {
	for {
		next := s.news.next()
		if holds() {
			return nil
		}
		select {
		case <-next:
		case <-s.ended:
			return s.why
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// news wakes everybody who waits for the next change.
type news struct {
	mu      sync.Mutex
	waiting chan struct{}
}

// next is closed at the next change.
func (n *news) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiting == nil {
		n.waiting = make(chan struct{})
	}
	return n.waiting
}

func (n *news) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiting != nil {
		close(n.waiting)
		n.waiting = nil
	}
}
