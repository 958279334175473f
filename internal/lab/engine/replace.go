package engine

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/sallyport/sallyport/internal/lab/parts"
	"github.com/sallyport/sallyport/internal/lab/proc"
)

// stopGrace is how long a program that is replaced may take to end.
const stopGrace = 30 * time.Second

// Replace replaces the servers of both databases and northd, one after the other, by those of another version, and converts
// the databases to its schemas.
func (c *Central) Replace(ctx context.Context, other parts.Set) error {
	c.Shop.Parts = other
	for _, db := range []database{northbound, southbound} {
		for i := range c.Servers {
			if err := c.replaceServer(ctx, db, i); err != nil {
				return err
			}
		}
		// After all servers: a server refuses a schema with column types that it does not know.
		if err := c.convert(ctx, db); err != nil {
			return err
		}
	}
	if err := c.Shop.stop(northd); err != nil {
		return err
	}
	// The monitor starts northd again when it crashes, as ovn-ctl has it: 26.03.1 does that each time a NAT row changes on a
	// router that is linked to another router by a gateway port.
	if err := c.startNorthd("--monitor"); err != nil {
		return err
	}
	return c.Shop.run(ctx, "ovn-nbctl", "--db="+c.NB(), toolTimeout, "--wait=sb", "sync")
}

// replaceServer starts one server again with the new program. The others of a cluster serve meanwhile.
func (c *Central) replaceServer(ctx context.Context, db database, i int) error {
	if err := c.Shop.stop(c.serverName(db, i)); err != nil {
		return err
	}
	if err := c.startServer(db, i); err != nil {
		return err
	}
	return c.waitServer(ctx, db, i)
}

// convert gives a database the schema of the new version. In a cluster any server carries it out for all.
func (c *Central) convert(ctx context.Context, db database) error {
	return c.Shop.run(ctx, "ovsdb-client", toolTimeout, "convert", c.sockets(db), c.Shop.Parts.Schema("ovn-"+db.name))
}

// Pin lets ovn-controller ignore what a northd of another version writes: flows stay as they are until its own program is
// replaced. It is for upgrades that begin with the databases.
func (c *Chassis) Pin(ctx context.Context) error {
	return c.vsctl(ctx, "--timeout=60", "set", "open", ".", "external_ids:ovn-match-northd-version=true")
}

// ReplaceController replaces ovn-controller by that of another version. Flows, tunnels and the Chassis row stay meanwhile.
// Open vSwitch is not replaced: the datapath in user space would forget all connections.
func (c *Chassis) ReplaceController(ctx context.Context, other parts.Set) error {
	name := c.Node.Name + "-" + controller
	old, err := c.Shop.Processes.Get(name)
	if err != nil {
		return err
	}
	old.Expect()
	err = c.Shop.run(ctx, "ovn-appctl", "--timeout=60", "-t", c.path(controllerControl), "exit", "--restart")
	if err != nil {
		return err
	}
	select {
	case <-old.Done():
	case <-ctx.Done():
		return fmt.Errorf("wait for the end of %s: %w", name, context.Cause(ctx))
	}
	c.controller = other
	return c.startController()
}

// stop ends a process if it runs.
func (s Shop) stop(name string) error {
	p, err := s.Processes.Get(name)
	if err != nil || !p.Running() {
		return err
	}
	return p.Stop(stopGrace)
}

// startNorthd starts northd, which connects to both databases.
func (c Central) startNorthd(options ...string) error {
	_, err := c.Shop.Processes.Start(proc.Spec{Name: northd, Argv: append(append([]string{
		c.Shop.Parts.Program(northd), "--ovnnb-db=" + c.NB(), "--ovnsb-db=" + c.SB(),
		"--unixctl=" + filepath.Join(c.Shop.dir("ovn"), "northd.ctl"),
	}, options...), daemonArgs...)})
	return err
}
