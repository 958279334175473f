// Package returnpath is the tests of the return path: replies leave through the network the request arrived on.
package returnpath

import (
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// returnItems is the list that `make show-return` prints.
var returnItems = show.New("the return path",
	"matrix: a pod answers on three networks at once, on one port and to one client address",
	"the pod on any node; gateways that fail, pods that move, network policies that filter",
	"switching a live project and adding a network keep connections; hairpin",
	"rows: the same number for 1, 100 and 1,000 floating IPs",
	"cost of the data path against OVN without a return path",
	"an attacker can't leave by a network it has no address on, nor reach another VPC",
	"soak: an hour of streams and new connections",
	"the documentation explains it",
)

func TestMain(m *testing.M) { harness.Main(m, returnItems) }
