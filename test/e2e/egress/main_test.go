// Package egress is the tests of egress addresses: selection, failover, scale.
package egress

import (
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// egressItems is the list that `make show-egress` prints.
var egressItems = show.New("egress addresses",
	"every feature, by packets",
	"failover: how long nothing comes back, and no packet ever with another address",
	"100 addresses on 10 nodes, of which one is lost; 1,000 EgressIPs and 20,000 pods",
	"a node that comes and goes: the address does not follow every time",
)

// scaleItems is the part of the list of `make show-scale` that is shown here.
var scaleItems = show.New("cost that does not grow", "", "", "", "", "", "", "", "", "",
	"20 drains: median, worst, and the cause of the worst")

// dayItems is the part of the list of `make show-day` that is shown here.
var dayItems = show.New("from day one on", "", "", "", "", "", "", "procedures: certificates are rotated")

func TestMain(m *testing.M) { harness.Main(m, egressItems, scaleItems, dayItems) }
