package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/proc"
)

func TestHostEndsAreShortAndDistinct(t *testing.T) {
	seen := map[string]Port{}
	for pod := range 2000 {
		for _, link := range []string{"eth0", "net1", "net2"} {
			p := Port{
				LogicalPort: fmt.Sprintf("%s-%d.project-%d", strings.Repeat("long-", 20), pod, pod%7),
				Interface:   link,
			}
			name := hostEnd(p)
			if other, taken := seen[name]; taken {
				t.Errorf("%v and %v are both %s", p, other, name)
			}
			if len(name) > 15 || name != hostEnd(p) {
				t.Errorf("%s is the name of %v", name, p)
			}
			seen[name] = p
		}
	}
}

// A pod's process is called POD.NAMESPACE.CONTAINER, and a pod on another node may have a name like this node's.
func TestKillTakesOnlyTheNodesOwnProcesses(t *testing.T) {
	table := proc.NewTable(t.TempDir())
	c := Chassis{Shop: Shop{Processes: table}, Node: blueprint.Node{Name: "node1", Index: 1}}
	want := map[string]bool{
		"node1-ovsdb": false, "node1-vswitchd": false, "node1-ovn-controller": false,
		"node1-web.default.main": true, "node10-ovsdb": true, "node2-vswitchd": true,
	}
	for name := range want {
		p, err := table.Start(proc.Spec{Name: name, Argv: []string{"sleep", "1000"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Kill() })
	}
	if err := c.Kill(); err != nil {
		t.Error(err)
	}
	for _, p := range table.Processes("") {
		if p.Running() != want[p.Spec.Name] {
			t.Errorf("%s runs: %t", p.Spec.Name, p.Running())
		}
	}
}
