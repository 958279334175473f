// Package loadbalancer is the tests of load balancers: features, conformance, restarts, speed.
package loadbalancer

import (
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// balancerItems is the list that `make show-lb` prints.
var balancerItems = show.New("load balancers",
	"every feature, by packets",
	"Kubernetes' own conformance of Services: for each behaviour a test, or why it does not apply",
	"a rolling update of ten pods under load: no request fails",
	"Kube-OVN's controller restarts and removes every load balancer: back in 250 ms, connections go on",
	"speed against a bare transaction, with 1,000 and 10,000 Services",
	"abuse by one tenant does not slow down others",
)

// scaleItems is the part of the list of `make show-scale` that needs these fixtures.
var scaleItems = show.New("cost that does not grow", "", "", "",
	"one endpoint change among 1,000 and 10,000 Services, from the request to the row: ahead of Kube-OVN's own load balancer",
	"", "", "", "",
	"three abusive tenants at once: others wait at most twice as long",
)

func TestMain(m *testing.M) { harness.Main(m, balancerItems, scaleItems) }
