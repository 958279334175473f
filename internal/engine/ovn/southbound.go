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
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/sallyport/sallyport/internal/engine/ovn/sb"
)

// Southbound reads from the southbound database which chassis exist and which of them router ports are bound to. Its
// only write is ReevaluateLocalnetPorts.
type Southbound struct {
	config   Config
	log      *slog.Logger
	prefix   string // of the names of router ports whose changes are reported
	onChange func()
	moves    chan struct{} // holds a value after a move of a gateway
	session  atomic.Pointer[southboundSession]
	stop     context.CancelFunc
	ended    chan struct{}
}

// southboundSession is a connection to a server whose tables were read.
type southboundSession struct {
	client client.Client
	rows   *cache.TableCache
}

// WatchSouthbound starts to monitor the southbound database and calls tell after each change of a chassis, or of a
// router port with a name prefix. Without endpoints nothing is read, and all queries return nil.
func WatchSouthbound(ctx context.Context, config Config, log *slog.Logger, prefix string, tell func(),
) (*Southbound, error) {
	s := &Southbound{
		config: config, log: log, prefix: prefix, onChange: tell, moves: make(chan struct{}, 1),
		ended: make(chan struct{}),
	}
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
		UpdateFunc: func(_ string, old, row model.Model) { s.notifyMove(old, row); s.notifyChange(row) },
		DeleteFunc: func(_ string, row model.Model) { s.notifyChange(row) },
	})
	if _, err := c.Monitor(begin, sb.MonitorRequest()); err != nil {
		return fmt.Errorf("read the database: %w", err)
	}
	s.session.Store(&southboundSession{client: c, rows: rows})
	s.signalMove() // there may have been one before
	s.onChange()
	s.log.Info("connected to the OVN southbound database", "server", endpoint)
	defer s.session.Store(nil)
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
	if s.session.Load() != nil {
		s.onChange()
	}
}

// notifyMove signals that a chassis claimed a gateway.
func (s *Southbound) notifyMove(before, after model.Model) {
	now, isPort := after.(*sb.PortBinding)
	if !isPort || now.Chassis == nil {
		return
	}
	if was := before.(*sb.PortBinding).Chassis; was == nil || *was != *now.Chassis {
		s.signalMove()
	}
}

func (s *Southbound) signalMove() {
	select {
	case s.moves <- struct{}{}:
	default: // signaled already
	}
}

// GatewayMoves receives a value after chassis have claimed gateways (ports of type chassisredirect), and after each
// connection to a server.
func (s *Southbound) GatewayMoves() <-chan struct{} { return s.moves }

// reevaluatedKey is the option of a Port_Binding that ReevaluateLocalnetPorts changes. ovn-controller does not read
// external_ids at all; an option that it does not know makes it evaluate the port again. ovn-northd removes the option
// when it computes everything again.
const reevaluatedKey = "sallyport-reevaluated"

// ReevaluateLocalnetPorts changes the bindings of all localnet ports, so that each ovn-controller evaluates their flows
// again: without it, the node that has claimed a gateway goes on replacing its MAC address. See ADR 47.
func (s *Southbound) ReevaluateLocalnetPorts(ctx context.Context, now time.Time) error {
	session := s.session.Load()
	if session == nil {
		return ErrNotConnected
	}
	key, err := ovsdb.NewOvsSet([]string{reevaluatedKey})
	if err != nil {
		return err
	}
	value, err := ovsdb.NewOvsMap(map[string]string{reevaluatedKey: now.UTC().Format(time.RFC3339Nano)})
	if err != nil {
		return err
	}
	change := ovsdb.Operation{
		Op: ovsdb.OperationMutate, Table: sb.PortBindingTable,
		Where: []ovsdb.Condition{ovsdb.NewCondition("type", ovsdb.ConditionEqual, sb.LocalnetType)},
		Mutations: []ovsdb.Mutation{
			*ovsdb.NewMutation("options", ovsdb.MutateOperationDelete, key),
			*ovsdb.NewMutation("options", ovsdb.MutateOperationInsert, value),
		},
	}
	results, err := session.client.Transact(ctx, change)
	if err != nil {
		return err
	}
	_, err = ovsdb.CheckOperationResults(results, []ovsdb.Operation{change})
	return err
}

// IsConnected reports whether there is a connection.
func (s *Southbound) IsConnected() bool { return s.session.Load() != nil }

// ChassisByPort returns the chassis that router ports with a name prefix are bound to, by port. Nil: not connected.
func (s *Southbound) ChassisByPort(prefix string) map[string]string {
	session := s.session.Load()
	if session == nil {
		return nil
	}
	rows := session.rows
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
	session := s.session.Load()
	if session == nil {
		return nil
	}
	rows := session.rows
	out := map[string]bool{}
	for _, m := range rows.Table(sb.ChassisTable).RowsShallow() {
		out[m.(*sb.Chassis).Name] = true
	}
	return out
}
