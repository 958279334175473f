package engine

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/internal/lab/pki"
	"github.com/sallyport/sallyport/internal/lab/proc"
)

// Central is the OVN databases and northd.
type Central struct {
	Shop    Shop
	Servers []netip.Prefix // one server of each database an address
	TLS     pki.Files
}

// database is one of the two, with its ports: plain for Kube-OVN and the nodes, TLS for ours, and between raft servers.
type database struct {
	name, schema      string
	plain, tls, peers int
}

var (
	northbound = database{name: "nb", schema: "OVN_Northbound", plain: 16641, tls: 6641, peers: 6643}
	southbound = database{name: "sb", schema: "OVN_Southbound", plain: 16642, tls: 6642, peers: 6644}
)

// northd is the program between the databases.
const northd = "ovn-northd"

// toolTimeout is how long OVN's programs wait while a lab starts. It takes milliseconds on an idle machine.
const toolTimeout = "--timeout=240"

// Start starts the servers of both databases, then northd.
func (c Central) Start(ctx context.Context) error {
	group, groupCtx := errgroup.WithContext(ctx)
	for _, db := range []database{northbound, southbound} {
		group.Go(func() error { return c.startDatabase(groupCtx, db) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return c.startNorthd()
}

func (c Central) startDatabase(ctx context.Context, db database) error {
	for i := range c.Servers {
		if err := c.createServer(ctx, db, i); err != nil {
			return err
		}
		if err := c.startServer(db, i); err != nil {
			return err
		}
	}
	for i := range c.Servers {
		if err := c.waitServer(ctx, db, i); err != nil {
			return err
		}
	}
	return nil
}

func (c Central) waitServer(ctx context.Context, db database, i int) error {
	server := c.serverName(db, i)
	err := c.Shop.run(ctx, "ovsdb-client", toolTimeout, "wait", "unix:"+c.socket(db, i), db.schema, "connected")
	if err != nil {
		return fmt.Errorf("wait for %s: %w\n%s", server, err, c.Shop.Processes.Tail(server))
	}
	return nil
}

// createServer writes the server's database file: alone, as the first of a cluster, or as one that joins the first.
func (c Central) createServer(ctx context.Context, db database, i int) error {
	file, schema := c.file(db, i), c.Shop.Parts.Schema("ovn-"+db.name)
	peer := func(i int) string { return fmt.Sprintf("tcp:%s:%d", c.Servers[i].Addr(), db.peers) }
	args := []string{"create", file, schema}
	if len(c.Servers) > 1 && i == 0 {
		args = []string{"create-cluster", file, schema, peer(0)}
	} else if i > 0 {
		args = []string{"join-cluster", file, db.schema, peer(i), peer(0)}
	}
	return c.Shop.run(ctx, "ovsdb-tool", args...)
}

func (c Central) startServer(db database, i int) error {
	address := c.Servers[i].Addr()
	_, err := c.Shop.Processes.Start(proc.Spec{Name: c.serverName(db, i), Argv: append([]string{
		c.Shop.Parts.Program("ovsdb-server"), c.file(db, i),
		"--remote=punix:" + c.socket(db, i),
		fmt.Sprintf("--remote=ptcp:%d:%s", db.plain, address),
		fmt.Sprintf("--remote=pssl:%d:%s", db.tls, address),
		"--private-key=" + c.TLS.Key, "--certificate=" + c.TLS.Cert, "--ca-cert=" + c.TLS.CA,
		"--unixctl=" + c.control(db, i),
	}, daemonArgs...)})
	return err
}

func (c Central) serverName(db database, i int) string { return fmt.Sprintf("ovn-%s%d", db.name, i+1) }

func (c Central) file(db database, i int) string   { return c.path(db, i, "db") }
func (c Central) socket(db database, i int) string { return c.path(db, i, "sock") }

// control is where ovn-appctl talks to a server, for example `cluster/status OVN_Northbound`.
func (c Central) control(db database, i int) string { return c.path(db, i, "ctl") }

func (c Central) path(db database, i int, kind string) string {
	return filepath.Join(c.Shop.dir("ovn"), fmt.Sprintf("%s%d.%s", db.name, i+1, kind))
}

// NB is the northbound database for programs inside the lab.
func (c Central) NB() string { return c.sockets(northbound) }

// SB is the southbound database for programs inside the lab.
func (c Central) SB() string { return c.sockets(southbound) }

func (c Central) sockets(db database) string {
	var out []string
	for i := range c.Servers {
		out = append(out, "unix:"+c.socket(db, i))
	}
	return strings.Join(out, ",")
}

// NBPlain is the northbound database over TCP, for Kube-OVN.
func (c Central) NBPlain() string { return c.remotes(northbound) }

// SBPlain is the southbound database over TCP, for Kube-OVN and the nodes.
func (c Central) SBPlain() string { return c.remotes(southbound) }

func (c Central) remotes(db database) string {
	var out []string
	for _, s := range c.Servers {
		out = append(out, fmt.Sprintf("tcp:%s:%d", s.Addr(), db.plain))
	}
	return strings.Join(out, ",")
}

// TLSPorts are where the servers of the two databases speak TLS.
func TLSPorts() (nb, sb int) { return northbound.tls, southbound.tls }

// Sync waits until northd and every chassis have carried out what is in the northbound database.
func (c Central) Sync(ctx context.Context) error {
	return c.Shop.run(ctx, "ovn-nbctl", "--db="+c.NB(), toolTimeout, "--wait=hv", "sync")
}

// AddFakeChassis writes chassis that nobody runs, all in one transaction.
func (c Central) AddFakeChassis(ctx context.Context, names []string, tunnel func(i int) netip.Addr) error {
	if len(names) == 0 {
		return nil
	}
	args := []string{"--db=" + c.SB()}
	for i, name := range names {
		args = append(args, "--", "chassis-add", name, "geneve", tunnel(i).String(),
			"--", "set", "chassis", name, "hostname="+name)
	}
	return c.Shop.run(ctx, "ovn-sbctl", args...)
}

// Underlay makes the management and tunnel wires of the lab's own namespace.
func Underlay(mtu int, servers []netip.Prefix) error {
	for _, wire := range []string{ManagementWire, TunnelWire} {
		if err := netns.Own().Bridge(wire, mtu); err != nil {
			return err
		}
	}
	return netns.Own().AddAddresses(ManagementWire, servers...)
}
