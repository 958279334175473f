// Package scale is the tests of what grows with the number of projects.
package scale

import (
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// scaleItems is the list that `make show-scale` prints. Items without a test are not built yet.
var scaleItems = show.New("cost that does not grow",
	"what each row type costs northd: a table",
	"a Service created, changed and deleted among 1,000 projects costs at most 1.5 times as much as among 50",
	"MAC bindings and flows of a gateway grow linearly with projects, after a restart of the gateways too",
	"one endpoint change among 10 to 5,000 Services of a project costs its own size: exponent at most 0.2",
	"one change with 10,000 EgressIPs, and with 1,000 nodes and 10,000 Services",
	"a standby takes over within 5 s",
	"memory at 10,000 Services",
	"10,000 projects, 100,000 Services, 100,000 pods and 1,000 nodes, simulated",
	"", // abusive tenants: in test/e2e/loadbalancer, which has Services that change
	"", // 20 drains: in test/e2e/egress, which has nodes that hold addresses
)

func TestMain(m *testing.M) { harness.Main(m, scaleItems) }
