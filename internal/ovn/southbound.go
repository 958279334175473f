package ovn

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ovn-kubernetes/libovsdb/cache"
	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/sallyport/sallyport/internal/ovn/sb"
)

// Southbound is what the southbound database says now: where router ports are held, and which chassis there are. Nothing is written there.
type Southbound struct {
	config Config
	log    *slog.Logger
	tell   func()
	rows   atomic.Pointer[cache.TableCache] // nil while there is no connection
	stop   context.CancelFunc
	ended  chan struct{}
}

// Look begins to read the southbound database, and calls back when something has changed. Without a server there is nothing to read, and
// nothing is known.
func Look(ctx context.Context, config Config, log *slog.Logger, tell func()) (*Southbound, error) {
	s := &Southbound{config: config, log: log, tell: tell, ended: make(chan struct{})}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	if len(config.Endpoints) == 0 {
		close(s.ended)
		return s, nil
	}
	if _, err := config.tls(); err != nil {
		stop()
		return nil, err
	}
	go s.keep(life)
	return s, nil
}

// Close ends the connection for good.
func (s *Southbound) Close() {
	s.stop()
	<-s.ended
}

// keep reads from one server after the other. Any of them will do: what it says late, it says late.
func (s *Southbound) keep(ctx context.Context) {
	defer close(s.ended)
	pause := firstPause
	for ctx.Err() == nil {
		for _, endpoint := range s.config.Endpoints {
			if err := s.follow(ctx, endpoint); err != nil && ctx.Err() == nil {
				s.log.Warn("the OVN southbound database can't be read", "server", endpoint, "error", err)
				continue
			}
			pause = firstPause
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
			pause = min(2*pause, longestPause)
		}
	}
}

// follow reads from a server until the connection ends.
func (s *Southbound) follow(ctx context.Context, endpoint string) error {
	secrets, err := s.config.tls()
	if err != nil {
		return err
	}
	described, err := sb.Model()
	if err != nil {
		return err
	}
	c, err := client.NewOVSDBClient(described, client.WithEndpoint(endpoint), client.WithTLSConfig(secrets))
	if err != nil {
		return err
	}
	defer c.Close()
	begin, cancel := context.WithTimeout(ctx, copyLimit)
	defer cancel()
	if err := c.Connect(begin); err != nil {
		return err
	}
	rows := c.Cache()
	if rows == nil {
		return ErrNotConnected
	}
	rows.AddEventHandler(&cache.EventHandlerFuncs{
		AddFunc:    func(string, model.Model) { s.changed() },
		UpdateFunc: func(string, model.Model, model.Model) { s.changed() },
		DeleteFunc: func(string, model.Model) { s.changed() },
	})
	if _, err := c.Monitor(begin, sb.Monitor()); err != nil {
		return fmt.Errorf("read the database: %w", err)
	}
	s.rows.Store(rows)
	s.tell()
	s.log.Info("reads the OVN southbound database", "server", endpoint)
	defer s.rows.Store(nil)
	alive := time.NewTicker(probeEvery)
	defer alive.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.DisconnectNotify():
			return nil
		case <-alive.C:
			probe, cancel := context.WithTimeout(ctx, probeLimit)
			err := c.Echo(probe)
			cancel()
			if err != nil {
				return err
			}
		}
	}
}

func (s *Southbound) changed() {
	if s.rows.Load() != nil {
		s.tell()
	}
}

// Connected says whether there is a connection now.
func (s *Southbound) Connected() bool { return s.rows.Load() != nil }

// Holders are the chassis that hold router ports, by port; nil: nothing is known.
func (s *Southbound) Holders(prefix string) map[string]string {
	rows := s.rows.Load()
	if rows == nil {
		return nil
	}
	out := map[string]string{}
	for _, m := range rows.Table(sb.PortBindingTable).RowsShallow() {
		p := m.(*sb.PortBinding)
		port, held := strings.CutPrefix(p.Port, sb.HeldPrefix)
		if !held || p.Chassis == nil || !strings.HasPrefix(port, prefix) {
			continue
		}
		if c, there := rows.Table(sb.ChassisTable).Row(*p.Chassis).(*sb.Chassis); there {
			out[port] = c.Name
		}
	}
	return out
}

// Chassis are those that there are; nil: nothing is known.
func (s *Southbound) Chassis() map[string]bool {
	rows := s.rows.Load()
	if rows == nil {
		return nil
	}
	out := map[string]bool{}
	for _, m := range rows.Table(sb.ChassisTable).RowsShallow() {
		out[m.(*sb.Chassis).Name] = true
	}
	return out
}
