package harness

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/manifest"
)

// ControlLab sends a command about a node or process to the lab: kill, start, pause, resume, cut, mend.
func (c *Cluster) ControlLab(t *testing.T, order, target string) {
	t.Helper()
	if err := c.Order(Within(t, Patience), order, target); err != nil {
		t.Fatalf("%s %s: %v", order, target, err)
	}
}

// WaitNodeReady waits until a node is Ready or, if ready is false, not Ready.
func (c *Cluster) WaitNodeReady(t *testing.T, node string, ready bool) {
	t.Helper()
	c.WaitForObject(t, "Node", "", node, func(o *unstructured.Unstructured) bool {
		return o != nil && manifest.True("Ready")(o) == ready
	})
}

// ResolveTunnelPeers makes the nodes resolve each other's tunnel endpoints again, because Open vSwitch drops the packet
// that triggers the resolution.
func (c *Cluster) ResolveTunnelPeers(t *testing.T) {
	t.Helper()
	for _, from := range c.Blueprint.NodeList() {
		for _, to := range c.Blueprint.NodeList() {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			if conn, err := c.NS(from.Name).Dial(ctx, "tcp", to.Tunnel.Addr().String()+":9"); err == nil {
				_ = conn.Close()
			}
			cancel()
		}
	}
}
