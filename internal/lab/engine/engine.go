// Package engine is OVN in a lab: the databases with northd, and an Open vSwitch chassis on each node.
package engine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sallyport/sallyport/internal/lab/parts"
	"github.com/sallyport/sallyport/internal/lab/proc"
)

// Bridges of the lab's own namespace that every node is wired to.
const (
	ManagementWire = "management"
	TunnelWire     = "tunnels"
)

// Shop is what starting anything needs: the programs, the process table, and a directory for state.
type Shop struct {
	Parts     parts.Set
	Processes *proc.Table
	State     string
}

// daemonArgs are what every daemon of OVN and Open vSwitch is started with.
var daemonArgs = []string{"-vconsole:info", "-vsyslog:off"}

// dir is a directory of the shop's state, made on first use.
func (s Shop) dir(name string) string {
	dir := filepath.Join(s.State, name)
	_ = os.MkdirAll(dir, 0o755) // a failure shows itself at the first file in it
	return dir
}

// run runs one of the small OVN programs to its end.
func (s Shop) run(ctx context.Context, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, s.Parts.Program(program), args...) //nolint:gosec // a part of the lab
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, brief(args), err, strings.TrimSpace(string(out)))
	}
	return nil
}

func brief(args []string) string {
	text := strings.Join(args, " ")
	if len(text) > 200 {
		return text[:200] + "…"
	}
	return text
}
