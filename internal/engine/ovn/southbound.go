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

	"github.com/sallyport/sallyport/internal/engine/ovn/sb"
)

// Southbound is what the southbound database says now: where router ports are held, and which chassis there are.
// Nothing is written there.
type Southbound struct {
	config     Config
	log        *slog.Logger
	onChange   func()
	tableCache atomic.Pointer[cache.TableCache] // nil while there is no connection
	stop       context.CancelFunc
	ended      chan struct{}
}

// WatchSouthbound begins to read the southbound database, and calls back when something has changed. Without a server
// there is nothing to read, and nothing is known.
func WatchSouthbound(ctx context.Context, config Config, log *slog.Logger, tell func()) (*Southbound, error) {
	s := &Southbound{config: config, log: log, onChange: tell, ended: make(chan struct{})}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	if len(config.Endpoints) == 0 {
		close(s.ended)
		return s, nil
	}
	if _, err := config.loadTLSConfig(); err != nil {
		stop()
		return nil, err
	}
	go s.maintainMonitor(life)
	return s, nil
}

// Close ends the connection for good.
func (s *Southbound) Close() {
	s.stop()
	<-s.ended
}

// maintainMonitor reads from one server after the other. Any of them will do: what it says late, it says late.
func (s *Southbound) maintainMonitor(ctx context.Context) {
	defer close(s.ended)
	pause := initialBackoff
	for ctx.Err() == nil {
		for _, endpoint := range s.config.Endpoints {
			if err := s.monitorServer(ctx, endpoint); err != nil && ctx.Err() == nil {
				s.log.Warn("the OVN southbound database can't be read", "server", endpoint, "error", err)
				continue
			}
			pause = initialBackoff
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
			pause = min(2*pause, maxBackoff)
		}
	}
}

// monitorServer reads from a server until the connection ends.
func (s *Southbound) monitorServer(ctx context.Context, endpoint string) error {
	secrets, err := s.config.loadTLSConfig()
	if err != nil {
		return err
	}
	described, err := sb.DatabaseModel()
	if err != nil {
		return err
	}
	c, err := client.NewOVSDBClient(described, client.WithEndpoint(endpoint), client.WithTLSConfig(secrets))
	if err != nil {
		return err
	}
	defer c.Close()
	begin, cancel := context.WithTimeout(ctx, monitorTimeout)
	defer cancel()
	if err := c.Connect(begin); err != nil {
		return err
	}
	rows := c.Cache()
	if rows == nil {
		return ErrNotConnected
	}
	rows.AddEventHandler(&cache.EventHandlerFuncs{
		AddFunc:    func(string, model.Model) { s.notifyChange() },
		UpdateFunc: func(string, model.Model, model.Model) { s.notifyChange() },
		DeleteFunc: func(string, model.Model) { s.notifyChange() },
	})
	if _, err := c.Monitor(begin, sb.MonitorRequest()); err != nil {
		return fmt.Errorf("read the database: %w", err)
	}
	s.tableCache.Store(rows)
	s.onChange()
	s.log.Info("reads the OVN southbound database", "server", endpoint)
	defer s.tableCache.Store(nil)
	alive := time.NewTicker(probeInterval)
	defer alive.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.DisconnectNotify():
			return nil
		case <-alive.C:
			probe, cancel := context.WithTimeout(ctx, probeTimeout)
			err := c.Echo(probe)
			cancel()
			if err != nil {
				return err
			}
		}
	}
}

func (s *Southbound) notifyChange() {
	if s.tableCache.Load() != nil {
		s.onChange()
	}
}

// IsConnected says whether there is a connection now.
func (s *Southbound) IsConnected() bool { return s.tableCache.Load() != nil }

// ChassisByPort are the chassis that hold router ports, by port; nil: nothing is known.
func (s *Southbound) ChassisByPort(prefix string) map[string]string {
	rows := s.tableCache.Load()
	if rows == nil {
		return nil
	}
	out := map[string]string{}
	for _, m := range rows.Table(sb.PortBindingTable).RowsShallow() {
		p := m.(*sb.PortBinding)
		port, held := strings.CutPrefix(p.LogicalPort, sb.ChassisRedirectPrefix)
		if !held || p.Chassis == nil || !strings.HasPrefix(port, prefix) {
			continue
		}
		if c, there := rows.Table(sb.ChassisTable).Row(*p.Chassis).(*sb.Chassis); there {
			out[port] = c.Name
		}
	}
	return out
}

// ChassisNames are those that there are; nil: nothing is known.
func (s *Southbound) ChassisNames() map[string]bool {
	rows := s.tableCache.Load()
	if rows == nil {
		return nil
	}
	out := map[string]bool{}
	for _, m := range rows.Table(sb.ChassisTable).RowsShallow() {
		out[m.(*sb.Chassis).Name] = true
	}
	return out
}
