// Package ipv6 is the tests of external networks with IPv4 and IPv6.
package ipv6

import (
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// ipv6Items is the list that `make show-ipv6` prints. Items without a test are not built yet.
var ipv6Items = show.New("IPv6 on external networks",
	"the 18 traffic kinds of show-return × {IPv4, IPv6, both at once on one pod}, three networks, three nodes",
	"Services: each family alone, both, changes of the policy with open connections, affinity, source ranges, UDP, SCTP",
	"FIp, EIp, quota, requested addresses, a colliding UID, a full range",
	"EgressIP with IPv6: selection, failover within 1 s, fail closed",
	"column reset, Kube-OVN restarted, pod moved, controller killed: same rows, streams of both families survive",
	"routed mode: a pod with a global address, reachable only where a FIp or Service allows it",
	"IPv6 only: pods without IPv4, an external network without IPv4, nodes without IPv4",
	"trace agrees with packets for IPv6 questions; IPv6 faults are named by one command",
	"rows and flows of a project with one and with both families; new connections per second, IPv6 over IPv4",
	"IPv6 is added to a network whose projects have IPv4 streams, and removed again: nothing is lost",
	"the default network, both families at once: way out, floating IPs, load balancer, a host on the wire, another project",
)

func TestMain(m *testing.M) { harness.Main(m, ipv6Items) }
