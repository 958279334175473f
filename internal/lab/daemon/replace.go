package daemon

import (
	"context"
	"fmt"
	"os"

	"github.com/sallyport/sallyport/internal/lab/engine"
	"github.com/sallyport/sallyport/internal/lab/parts"
)

// Central is the target of orders that concerns OVN's databases and northd.
const Central = "central"

// replaceOVN replaces OVN's programs of a node, or the databases and northd, by those of another version. It is had
// already: the lab has no way out to fetch it.
func (d *Daemon) replaceOVN(ctx context.Context, target, version string) error {
	set, err := parts.EnsureOVN(ctx, version, func(line string) { fmt.Fprintln(os.Stderr, line) })
	if err != nil {
		return err
	}
	d.replacing.Lock()
	defer d.replacing.Unlock()
	if target == Central {
		if err := d.eachChassis(ctx, func(ctx context.Context, c *engine.Chassis) error { return c.Pin(ctx) }); err != nil {
			return err
		}
		return d.central.Replace(ctx, set)
	}
	c := d.chassis[target]
	if c == nil {
		return fmt.Errorf("no node %q; there are %s, and node1 to node%d", target, Central, d.config.Blueprint.Nodes)
	}
	return c.ReplaceController(ctx, set)
}
