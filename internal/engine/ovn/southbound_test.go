package ovn

import (
	"testing"

	"github.com/ovn-kubernetes/libovsdb/cache"
	"github.com/ovn-kubernetes/libovsdb/model"

	"github.com/sallyport/sallyport/internal/engine/ovn/sb"
)

// Changes of chassis, and of ports with the prefix, are reported; those of other routers' gateway ports are not.
func TestSouthboundNotifications(t *testing.T) {
	for name, test := range map[string]struct {
		row      model.Model
		reported bool
	}{
		"a chassis":                {&sb.Chassis{Name: "node1"}, true},
		"a port":                   {&sb.PortBinding{LogicalPort: sb.ChassisRedirectPrefix + "egress-192-0-2-1"}, true},
		"a port of another router": {&sb.PortBinding{LogicalPort: sb.ChassisRedirectPrefix + "acme-egress"}, false},
	} {
		reported := false
		s := &Southbound{prefix: "egress", onChange: func() { reported = true }}
		if s.notifyChange(test.row); reported {
			t.Errorf("%s is reported without a connection", name)
		}
		s.session.Store(&southboundSession{rows: &cache.TableCache{}})
		if s.notifyChange(test.row); reported != test.reported {
			t.Errorf("%s: reported is %t", name, reported)
		}
	}
}

// Only a claim is a move: not the release before it, and not a change of another column.
func TestSouthboundMoves(t *testing.T) {
	node1, node2 := "node1", "node2"
	for name, test := range map[string]struct {
		before, after model.Model
		moved         bool
	}{
		"claimed":        {&sb.PortBinding{}, &sb.PortBinding{Chassis: &node1}, true},
		"claimed anew":   {&sb.PortBinding{Chassis: &node1}, &sb.PortBinding{Chassis: &node2}, true},
		"released":       {&sb.PortBinding{Chassis: &node1}, &sb.PortBinding{}, false},
		"another column": {&sb.PortBinding{Chassis: &node1}, &sb.PortBinding{Chassis: &node1, TunnelKey: 2}, false},
		"a chassis":      {&sb.Chassis{Name: "node1"}, &sb.Chassis{Name: "node2"}, false},
	} {
		s := &Southbound{moves: make(chan struct{}, 1)}
		s.notifyMove(test.before, test.after)
		s.notifyMove(test.before, test.after) // a signal that nobody has received yet does not block
		if moved := len(s.GatewayMoves()) > 0; moved != test.moved {
			t.Errorf("%s: moved is %t", name, moved)
		}
	}
}
