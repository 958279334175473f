package harness

import (
	"encoding/json"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// SyncFlows waits until every node forwards by the current northbound database. When ovn-controller has passed on all flows,
// the datapath of Open vSwitch may still forward by cached ones until they are revalidated, so they are removed.
func (c *Cluster) SyncFlows(t *testing.T) {
	t.Helper()
	c.RunTool(t, "ovn-nbctl", "--db=unix:"+filepath.Join(c.Dir, "data/ovn/nb1.sock"), ToolTimeout, "--wait=hv",
		"sync")
	sockets, err := filepath.Glob(c.Inside(filepath.Join(c.Dir, "data", "*", "ovs-vswitchd.ctl")))
	if err != nil || len(sockets) == 0 {
		t.Fatalf("the nodes' control sockets of Open vSwitch: %v, %v", sockets, err)
	}
	var wait sync.WaitGroup
	for _, socket := range sockets {
		wait.Go(func() { purgeCachedFlows(socket) })
	}
	wait.Wait()
}

// purgeCachedFlows removes the cached flows of a switch. A switch that is dead or stopped is left out.
func purgeCachedFlows(socket string) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer conn.Close()
	request := map[string]any{"id": 0, "method": "revalidator/purge", "params": []string{}}
	if conn.SetDeadline(time.Now().Add(10*time.Second)) != nil || json.NewEncoder(conn).Encode(request) != nil {
		return
	}
	var reply struct{}
	_ = json.NewDecoder(conn).Decode(&reply) // an error means that the switch has died meanwhile
}
