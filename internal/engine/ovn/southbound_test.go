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
		s.tableCache.Store(&cache.TableCache{})
		if s.notifyChange(test.row); reported != test.reported {
			t.Errorf("%s: reported is %t", name, reported)
		}
	}
}
