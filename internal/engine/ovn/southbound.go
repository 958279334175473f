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

// Southbound reads from the southbound database which chassis exist and which of them router ports are bound to. It
// writes nothing.
type Southbound struct {
	config     Config
	log        *slog.Logger
	prefix     string // of the names of router ports whose changes are reported
	onChange   func()
	tableCache atomic.Pointer[cache.TableCache] // nil while not connected
	stop       context.CancelFunc
	ended      chan struct{}
}

// WatchSouthbound starts to monitor the southbound database and calls tell after each change of a chassis, or of a
// router port with a name prefix. Without endpoints nothing is read, and all queries return nil.
func WatchSouthbound(ctx context.Context, config Config, log *slog.Logger, prefix string, tell func(),
) (*Southbound, error) {
	s := &Southbound{config: config, log: log, prefix: prefix, onChange: tell, ended: make(chan struct{})}
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

// Close ends the connection. The monitor does not reconnect.
func (s *Southbound) Close() {
	s.stop()
	<-s.ended
}

// maintainMonitor monitors one server after the other. It need not be the leader: a follower is only slightly later.
func (s *Southbound) maintainMonitor(ctx context.Context) {
	defer close(s.ended)
	pause := initialBackoff
	for ctx.Err() == nil {
		for _, endpoint := range s.config.Endpoints {
			if err := s.monitorServer(ctx, endpoint); err != nil && ctx.Err() == nil {
				s.log.Warn("can't read the OVN southbound database", "server", endpoint, "error", err)
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

// monitorServer monitors a server until the connection ends.
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
		AddFunc:    func(_ string, row model.Model) { s.notifyChange(row) },
		UpdateFunc: func(_ string, _, row model.Model) { s.notifyChange(row) },
		DeleteFunc: func(_ string, row model.Model) { s.notifyChange(row) },
	})
	if _, err := c.Monitor(begin, sb.MonitorRequest()); err != nil {
		return fmt.Errorf("read the database: %w", err)
	}
	s.tableCache.Store(rows)
	s.onChange()
	s.log.Info("connected to the OVN southbound database", "server", endpoint)
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

// notifyChange reports a changed row. The gateway ports of all projects are monitored too.
func (s *Southbound) notifyChange(row model.Model) {
	if p, isPort := row.(*sb.PortBinding); isPort &&
		!strings.HasPrefix(strings.TrimPrefix(p.LogicalPort, sb.ChassisRedirectPrefix), s.prefix) {
		return
	}
	if s.tableCache.Load() != nil {
		s.onChange()
	}
}

// IsConnected reports whether there is a connection.
func (s *Southbound) IsConnected() bool { return s.tableCache.Load() != nil }

// ChassisByPort returns the chassis that router ports with a name prefix are bound to, by port. Nil: not connected.
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

// ChassisNames returns the names of all chassis. Nil: not connected.
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
