package egress

import (
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

const southboundWrites = `sallyport_southbound_writes_total{result="ok"}`

// checkQuietMove moves the address while its pod sends nothing, to a node that has not held it before: replies to the
// next request reach that node only if it sends with the MAC address of the router port, which it replaced until then.
func (y *egressFixture) checkQuietMove(t *testing.T, item *show.Item) {
	holder := y.assignedNode(t, "out")
	y.SyncFlows(t)
	replaced := map[string]bool{}
	for _, n := range y.Blueprint.NodeList() {
		replaced[n.Name] = y.replacesMAC(t, n.Name)
	}
	y.drainNode(t, holder)
	now := y.waitMoved(t, "out", holder)
	begin := time.Now()
	if !replaced[now] { // control: there is something to stop
		t.Errorf("%s, where the address is now, did not replace the MAC address before; nodes that did: %v", now, replaced)
	}
	for limit := begin.Add(20 * time.Second); ; {
		_, err := y.SendRequest("a."+y.namespaces[0], "http://"+harness.InternetAddress)
		if err == nil {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("no answer for 20 s after the address moved from %s to %s; %s replaces the MAC address: %t; writes to the "+
				"southbound database: %v\n%s", holder, now, now, y.replacesMAC(t, now), y.ReadMetrics(t)[southboundWrites],
				y.RunSbctl(t, "--columns=logical_port,chassis,options", "find", "Port_Binding", "type=localnet"))
		}
	}
	answered := time.Since(begin)
	if y.replacesMAC(t, now) {
		t.Errorf("%s holds the address and replaces the MAC address of its router port", now)
	}
	item.AddFigure("moved while nobody sent, to a node that replaced the MAC address of the router port: answered after %d ms",
		answered.Milliseconds())
	y.undrainNode(t, holder)
}

// replacesMAC reports whether a node replaces the MAC address of the probed address's router port in frames that leave
// for the network (ovn-chassis-mac-mappings).
func (y *egressFixture) replacesMAC(t *testing.T, node string) bool {
	t.Helper()
	mac := intent.DeriveMAC(ownership.EgressRouterPort(netip.MustParseAddr("91.224.11.230")))
	flows := y.RunTool(t, "ovs-ofctl", "dump-flows", "unix:"+filepath.Join(y.Dir, "data", node, "br-int.mgmt"))
	return slices.ContainsFunc(strings.Split(flows, "\n"), func(flow string) bool {
		return strings.Contains(flow, "priority=150,") && strings.Contains(flow, "dl_src="+mac+" actions=mod_dl_src")
	})
}
