// Package nodes is the tests of return traffic and egress on nodes, with packets through a node's kernel.
package nodes

import (
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// agentItems is the list that `make show-agent` prints.
var agentItems = show.New("return traffic on nodes",
	"every method: without it the reply leaves by the default uplink, with it the client gets its answer",
	"VRF on real kernels",
	"rules, programming time and speed of each method",
	"the method changes on a live node",
	"the seed's commands, one by one",
	"least privilege",
)

func TestMain(m *testing.M) { harness.Main(m, agentItems) }
