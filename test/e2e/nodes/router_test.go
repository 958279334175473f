package nodes

import (
	"fmt"
	"testing"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// TestNodeAnswersByItsDefaultUplink shows the problem on nodes: a node answers through its default uplink regardless of
// where the request arrived, so the other uplink is silent.
func TestNodeAnswersByItsDefaultUplink(t *testing.T) {
	c := harness.SharedLab(t)
	c.CreateNamespace(t, "uplink", "")
	c.Apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: node-echo, namespace: uplink}
spec: {nodeName: node1, hostNetwork: true, containers: [{name: main, image: lab/echo}]}`)
	c.WaitForObject(t, "Pod", "uplink", "node-echo", manifest.True("Ready"))
	segments := c.Blueprint.Segments()
	first, second := segments[len(segments)-2], segments[len(segments)-1]
	node := c.Blueprint.NodeList()[0]
	target := func(i int) string {
		return fmt.Sprintf("http://%s", segments[len(segments)-2+i].NodeAddresses(node)[0].Addr())
	}

	c.ResetDrops(t)
	c.ExpectAnswer(t, first.Client, target(0), "node-echo", first.ClientSide[0].Peer.Addr().String())
	c.ExpectNoDrops(t)
	c.ExpectSilence(t, second.Client, target(1))
	if c.CountDrops(t)[first.Router] == 0 {
		t.Errorf("%s dropped nothing, so the reply did not leave by the default uplink", first.Router)
	}
}
