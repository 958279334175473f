// Package daemon is the inside of a lab: the process that starts everything in private namespaces, keeps it, and obeys
// orders until it is killed.
package daemon

import (
	"path/filepath"
	"time"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/boot"
	"github.com/sallyport/sallyport/internal/lab/parts"
	"github.com/sallyport/sallyport/internal/lab/realnode"
)

// Config is what a lab is started with. It reaches the daemon as JSON on standard input.
type Config struct {
	Name      string              `json:"name"`
	Dir       string              `json:"dir"` // the lab's directory, seen alike inside and outside
	Blueprint blueprint.Blueprint `json:"blueprint"`
	Doors     []Door              `json:"doors"`
	Deadline  time.Time           `json:"deadline"` // give up starting; zero: never
	// Cgroups are those of whoever started the lab, below which real nodes have theirs.
	Cgroups []realnode.Hierarchy `json:"cgroups,omitempty"`
	Images  []string             `json:"images,omitempty"` // files: container images of real nodes
}

// Door is a listener on the machine's loopback that leads into the lab. Nothing can go out by it: the daemon only
// accepts.
type Door struct {
	Name    string `json:"name"`    // api, nb1, sb1, …
	Outside string `json:"outside"` // address on the machine
	Inside  string `json:"inside"`  // address in the lab
}

// Files of a lab, below its directory. Data is on a file system that exists inside the lab only.
const (
	ControlSocket = "control.sock"
	Kubeconfig    = "kubeconfig"
	Log           = "daemon.log"
	PKI           = "pki"
	Data          = "data"
	Cgroups       = "data/cgroup"
	Logs          = "data/logs"
	OVN           = "data/ovn"
)

// OptionalParts are the parts that this lab needs and others do not.
func OptionalParts(b blueprint.Blueprint) []string {
	var out []string
	if len(b.BGP()) > 0 {
		out = append(out, parts.FRR)
	}
	if b.RealNodes > 0 {
		out = append(out, parts.RealNode()...)
	}
	return out
}

func (c Config) path(name string) string { return filepath.Join(c.Dir, name) }

// Event is one line of the daemon's report while it starts.
type Event struct {
	Step  *boot.Timing `json:"step,omitempty"`
	Error string       `json:"error,omitempty"`
	Ready bool         `json:"ready,omitempty"`
	Usage *Usage       `json:"usage,omitempty"`
}

// Usage is what a lab costs.
type Usage struct {
	Memory    int64 `json:"memory"` // resident bytes of all processes
	Processes int   `json:"processes"`
}

// Silence of a node is noticed soon in a small lab. In a lab of hundreds of fake nodes, which are never silent,
// heartbeats at Kubernetes' usual pace would be the API server's main work.
const (
	quickLease, quickGrace = 8 * time.Second, 10 * time.Second
	calmLease, calmGrace   = 400 * time.Second, 500 * time.Second
	calmFrom               = 50 // nodes
)

func (c Config) heartbeat() (lease, grace time.Duration) {
	if c.Blueprint.Nodes+c.Blueprint.FakeNodes >= calmFrom {
		return calmLease, calmGrace
	}
	return quickLease, quickGrace
}
