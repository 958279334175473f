package e2e

import (
	"fmt"
	"testing"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/lab/world"
)

// drops counts what each router has dropped since the last reset.
func (c *cluster) drops(t *testing.T) map[string]uint64 {
	t.Helper()
	out := map[string]uint64{}
	for _, s := range c.blueprint.Segments() {
		dropped, err := world.Dropped(c.NS(s.Router))
		if err != nil {
			t.Fatal(err)
		}
		out[s.Router] = dropped
	}
	return out
}

func (c *cluster) resetDrops(t *testing.T) {
	t.Helper()
	for _, s := range c.blueprint.Segments() {
		if err := world.ResetCounters(c.NS(s.Router)); err != nil {
			t.Fatal(err)
		}
	}
}

// noDrops fails the test when a router has dropped anything since the last reset.
func (c *cluster) noDrops(t *testing.T) {
	t.Helper()
	for router, n := range c.drops(t) {
		if n > 0 {
			t.Errorf("%s dropped %d packets", router, n)
		}
	}
}

// A node answers by its default uplink whichever way it was asked, so the other uplink is silent: the problem on nodes.
func TestNodeAnswersByItsDefaultUplink(t *testing.T) {
	c := shared(t)
	c.namespace(t, "uplink", "")
	c.apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: node-echo, namespace: uplink}
spec: {nodeName: node1, hostNetwork: true, containers: [{name: main, image: lab/echo}]}`)
	c.wait(t, "Pod", "uplink", "node-echo", manifest.True("Ready"))
	segments := c.blueprint.Segments()
	first, second := segments[len(segments)-2], segments[len(segments)-1]
	node := c.blueprint.NodeList()[0]
	target := func(i int) string {
		return fmt.Sprintf("http://%s", segments[len(segments)-2+i].NodeAddresses(node)[0].Addr())
	}

	c.resetDrops(t)
	c.answers(t, first.Client, target(0), "node-echo", first.ClientSide[0].Peer.Addr().String())
	c.noDrops(t)
	c.silent(t, second.Client, target(1))
	if c.drops(t)[first.Router] == 0 {
		t.Errorf("%s dropped nothing, so the reply did not leave by the default uplink", first.Router)
	}
}
