// Package address is the tests of projects, external addresses and floating IPs: packets, crashes, drift and deletion.
package address

import (
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// coreItems is the list that `make show-core` prints.
var coreItems = show.New("the core",
	"by packets: a project's way out, and floating IPs on the default, a secondary and a third network",
	"deletion: projects with addresses, deleted in any order and by namespace, leave nothing",
	"drift: what we own and somebody changes or deletes is back within 2 s; what others own is never touched",
	"crash: the controller killed at random moments of a storm converges to the same state, and no address is given twice",
	"the same with Kube-OVN restarted, the northbound leader killed, the API server restarted",
	"Programmed is never true before the row is in OVN; every mistake gives a condition and an event with the next step",
	"cost: 1,000 projects; a steady state and a restart write nothing; a change costs the same at 10 and at 1,000",
	"compile: goldens, shuffled inputs, fuzz",
)

func TestMain(m *testing.M) { harness.Main(m, coreItems) }
