package install

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// TestDay7DrainedGateway takes the node that holds a project's gateways out of service with the commands of the how-to, under
// open connections, cuts its power, and brings it back.
func TestDay7DrainedGateway(t *testing.T) {
	item := dayItems.Item(t, 7)
	c := harness.StartSallyport(t, "drained", harness.LoadTopology(t, "shared.yaml"))
	c.CreateOrganization(t, "hall")
	ns := c.CreateProject(t, "hall", "drained", "10.72.0.0/24", "cloud")
	c.RunPod(t, harness.Pod{Namespace: ns, Name: "web", Node: "node1"})
	addresses := []string{
		c.CreateFIP(t, ns, "cloud", "{podTarget: {podName: web}, externalNetworkType: cloud}"),
		c.CreateFIP(t, ns, "public", "{podTarget: {podName: web}, externalNetworkType: public}"),
	}
	h := &harness.BackendProject{Cluster: c, Namespace: ns}
	addresses = append(addresses, h.CreateService(t, harness.ServiceSpec{
		Name: "web", Selector: "{app: web}", Annotations: "network.kube-dc.com/external-network-type: public",
	}))

	c.WaitGatewaysSettled(t)
	held := c.ListGateways(t)
	node := held["cr-"+ns+"-ext-public"]
	commands := harness.SectionBlocks(t, harness.ReadFile(t, harness.HowtoDir+"install.md"), "Take a gateway node out of service")
	env, dir := c.ShellEnv(t), t.TempDir()
	run := func(block int) {
		t.Helper()
		harness.RunBash(t, dir, env, "eval \"$(sallyport lab env)\"\n"+strings.ReplaceAll(commands[block], "NODE=node3", "NODE="+node))
	}
	priorities := c.RunNbctl(t, "--columns=name,priority", "list", "Gateway_Chassis")
	var streams []*harness.Stream
	for _, a := range addresses[:2] { // the gateways of load balancers do not know each other's connections
		streams = append(streams, c.StartStream(t, "internet", a))
	}
	harness.ExpectStreamsContinue(t, "before", streams...)
	measure := func(what string) time.Duration {
		t.Helper()
		silence := harness.ExpectStreamsContinue(t, what, streams...)
		harness.ResetGaps(streams...)
		for _, a := range addresses {
			c.ExpectAnswer(t, "internet", "http://"+a, "web", harness.InternetAddress)
		}
		return silence
	}
	harness.ResetGaps(streams...)
	c.ResetDrops(t)

	run(0)
	harness.Eventually(t, "no gateway is left on "+node, func() bool {
		for _, holder := range c.ListGateways(t) {
			if holder == node || holder == "" {
				return false
			}
		}
		return true
	})
	moved := measure("after the gateways have moved")
	c.ControlLab(t, "kill", node)
	c.WaitNodeReady(t, node, false)
	killed := measure("after the node was switched off")
	c.ControlLab(t, "start", node)
	c.WaitNodeReady(t, node, true)
	c.ResolveTunnelPeers(t)
	c.SyncFlows(t)
	run(1)
	harness.Eventually(t, "the gateways are where they were", func() bool {
		return fmt.Sprint(c.ListGateways(t)) == fmt.Sprint(held)
	})
	back := measure("after the gateways have moved back")
	if now := c.RunNbctl(t, "--columns=name,priority", "list", "Gateway_Chassis"); now != priorities {
		t.Errorf("the priorities are not as before:\n%s\nbefore:\n%s", now, priorities)
	}
	c.ExpectNoDrops(t)

	// control: without the commands the nodes have to find out by BFD
	c.ControlLab(t, "kill", node)
	undrained := measure("after the node was switched off without being drained")
	if undrained <= moved || undrained <= killed {
		t.Errorf("silent for %v without draining the node; with it %v and %v", undrained, moved, killed)
	}
	c.ControlLab(t, "start", node)
	c.WaitNodeReady(t, node, true)
	item.AddFigure("gateway node drained, switched off and back with the commands of the how-to: %d streams through floating IPs continue, "+
		"silent for at most %.1f s when gateways moved, %.1f s while the node was off, %.1f s when they moved back; switched off "+
		"without being drained, %.1f s", len(streams), moved.Seconds(), killed.Seconds(), back.Seconds(), undrained.Seconds())
}
