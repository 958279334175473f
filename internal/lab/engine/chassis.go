package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/internal/lab/parts"
	"github.com/sallyport/sallyport/internal/lab/proc"
)

// Chassis is the Open vSwitch and ovn-controller of one node, in the node's network namespace.
type Chassis struct {
	Shop      Shop
	Node      blueprint.Node
	NS        netns.NS
	SB        string     // remote of the southbound database
	Providers []Provider // external networks that end on this node
	Datapath  Datapath   // of the switch's bridges
	// Wrap starts a process on the node where that is more than a network namespace; nil: it is not.
	Wrap func(proc.Spec) proc.Spec

	controller parts.Set // with an ovn-controller of another version; zero: the shop's
}

// Datapath is who forwards the packets of a switch.
type Datapath string

const (
	// Userspace is vswitchd itself; it needs no module of the kernel.
	Userspace Datapath = ""
	// Kernel is the kernel's module openvswitch.
	Kernel Datapath = "system"
)

// String is the datapath as Open vSwitch names it.
func (d Datapath) String() string { return cmp.Or(string(d), "netdev") }

// Provider is an external network on a chassis: Kube-OVN's provider network and the interface that carries it.
type Provider struct {
	Network, Interface string
	VLAN               int // the interface is an access port of it; 0: of none
}

// Bridge is the OVS bridge of a provider network, by Kube-OVN's naming.
func (p Provider) Bridge() string { return "br-" + p.Network }

const (
	controller        = "ovn-controller"
	controllerControl = "ovn-controller.ctl"

	tunnelBridge    = "br-phy" // userspace tunnels need their local address on an OVS bridge
	tunnelInterface = "ul0"
	managementLink  = "eth0"
)

// Wires are the bridge ports of the lab's own namespace that a node hangs on, besides the segments.
func (c *Chassis) Wires() []string {
	return []string{wireName("m", c.Node.Index), wireName("t", c.Node.Index)}
}

func wireName(kind string, index int) string { return fmt.Sprintf("%s-node%d", kind, index) }

// Build makes the node's namespace and its cables to the management and tunnel wires.
func (c *Chassis) Build() error {
	ns, err := netns.Create(c.Node.Name)
	if err != nil {
		return err
	}
	c.NS = ns
	ports := c.Wires()
	err = netns.Veth(
		netns.End{NS: ns, Name: managementLink, Addresses: []netip.Prefix{c.Node.Management}},
		netns.End{Name: ports[0], Bridge: ManagementWire}, blueprint.WireMTU)
	if err != nil {
		return err
	}
	return netns.Veth(netns.End{NS: ns, Name: tunnelInterface}, netns.End{Name: ports[1], Bridge: TunnelWire},
		blueprint.UnderlayMTU)
}

// Demolish removes the node's namespace and its cables, as far as they are there.
func (c *Chassis) Demolish() error {
	var errs []error
	for _, port := range c.Wires() {
		errs = append(errs, netns.Own().DeleteLink(port))
	}
	return errors.Join(append(errs, c.NS.Delete())...)
}

// Start starts the switch and ovn-controller on an empty database and configures them.
func (c *Chassis) Start(ctx context.Context) error {
	if err := c.Shop.run(ctx, "ovsdb-tool", "create", c.path("conf.db"), c.Shop.Parts.Schema("vswitch")); err != nil {
		return err
	}
	return c.run(ctx)
}

// Restart starts a chassis again that was killed, with the database it left on its disk.
func (c *Chassis) Restart(ctx context.Context) error { return c.run(ctx) }

// Kill ends the chassis as a power cut would. Its processes are named one by one: a pod's name may begin like a node's.
func (c *Chassis) Kill() error {
	var errs []error
	for _, name := range []string{"ovsdb", "vswitchd", controller} {
		if p, err := c.Shop.Processes.Get(c.Node.Name + "-" + name); err == nil {
			errs = append(errs, p.Kill())
		}
	}
	return errors.Join(errs...)
}

func (c *Chassis) run(ctx context.Context) error {
	if err := c.hush(); err != nil {
		return err
	}
	if err := c.startProcesses(ctx); err != nil {
		return err
	}
	if err := c.configure(ctx); err != nil {
		return err
	}
	end := c.tunnelEnd()
	if err := c.waitLink(ctx, end); err != nil {
		return err
	}
	if err := c.NS.AddAddresses(end, c.Node.Tunnel); err != nil {
		return err
	}
	if err := c.NS.SetMTU(end, blueprint.UnderlayMTU); err != nil {
		return err
	}
	return c.NS.LinkUp(end)
}

// tunnelEnd is the link with the node's tunnel address. The kernel's tunnels need no bridge for it.
func (c *Chassis) tunnelEnd() string {
	if c.Datapath == Kernel {
		return tunnelInterface
	}
	return tunnelBridge
}

// waitLink waits until vswitchd has made a link of its database. ovs-vsctl waits for what it has changed itself, which is
// nothing when a node comes back with its database.
func (c *Chassis) waitLink(ctx context.Context, name string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		links, err := c.NS.Links()
		if err != nil {
			return err
		}
		if slices.ContainsFunc(links, func(l netlink.Link) bool { return l.Attrs().Name == name }) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s of %s: %w", name, c.Node.Name, context.Cause(ctx))
		}
	}
}

// hush lets the node's kernel not answer for its addresses on ports of the switch, of which it hears everything as
// well. It would name the MAC address of the port, beside the switch's answer: other nodes that take it for that of the
// tunnel's end do not reach this one for a quarter of an hour.
func (c *Chassis) hush() error {
	const quiet = "ipv4/conf/%s/arp_ignore"
	settings := map[string]string{}
	if c.Datapath != Kernel { // whose tunnel interface is no port of the switch
		settings[fmt.Sprintf(quiet, tunnelInterface)] = "1"
	}
	for _, p := range c.Providers {
		settings[fmt.Sprintf(quiet, p.Interface)] = "1"
	}
	return c.NS.Sysctl(settings)
}

// startProcesses starts the three processes; vswitchd and ovn-controller find their configuration when it is written.
func (c *Chassis) startProcesses(ctx context.Context) error {
	db := "unix:" + c.path("db.sock")
	_, err := c.process("ovsdb", c.Shop.Parts.Program("ovsdb-server"), c.path("conf.db"), "--remote=p"+db, "--unixctl="+c.path("db.ctl"))
	if err != nil {
		return err
	}
	if err := c.Shop.run(ctx, "ovsdb-client", toolTimeout, "wait", db, "Open_vSwitch", "connected"); err != nil {
		return err
	}
	if err := c.vsctl(ctx, "--no-wait", "init"); err != nil {
		return err
	}
	vswitchd := []string{db, "--unixctl=" + c.path("ovs-vswitchd.ctl")}
	if c.Datapath != Kernel {
		vswitchd = append(vswitchd, "--disable-system")
	}
	if _, err := c.process("vswitchd", c.Shop.Parts.Program("ovs-vswitchd"), vswitchd...); err != nil {
		return err
	}
	return c.startController()
}

func (c *Chassis) startController() error {
	set := c.controller
	if set.Bin() == "" {
		set = c.Shop.Parts
	}
	// The monitor starts a crashed ovn-controller again, as distributions have it: 25.03.0 dies now and then while it
	// connects to a switch that is just starting.
	_, err := c.process(controller, set.Program(controller), "unix:"+c.path("db.sock"),
		"--unixctl="+c.path(controllerControl), "--monitor")
	return err
}

// process starts a program on the node.
func (c *Chassis) process(name, program string, args ...string) (*proc.Process, error) {
	argv := append([]string{program}, args...)
	dir := c.Shop.dir(c.Node.Name)
	spec := proc.Spec{
		Name: c.Node.Name + "-" + name,
		Argv: append(argv, daemonArgs...),
		Env: []string{
			"OVS_RUNDIR=" + dir, "OVS_LOGDIR=" + dir, "OVS_DBDIR=" + dir, "OVS_SYSCONFDIR=" + dir,
			"OVN_RUNDIR=" + dir, "OVN_LOGDIR=" + dir,
		},
		NS: c.NS,
	}
	if c.Wrap != nil {
		spec = c.Wrap(spec)
	}
	return c.Shop.Processes.Start(spec)
}

// configure writes the switch's whole configuration in one transaction and waits until vswitchd has carried it out.
func (c *Chassis) configure(ctx context.Context) error {
	var mappings, macs []string
	for _, p := range c.Providers {
		mappings = append(mappings, p.Network+":"+p.Bridge())
		macs = append(macs, p.Network+":"+chassisMAC(c.Node.Name, p.Network))
	}
	args := []string{
		toolTimeout, "--", "set", "open", ".",
		"external_ids:system-id=" + c.Node.Name,
		"external_ids:hostname=" + c.Node.Name,
		"external_ids:ovn-remote=\"" + c.SB + "\"",
		"external_ids:ovn-encap-type=geneve",
		"external_ids:ovn-encap-ip=" + c.Node.Tunnel.Addr().String(),
		"external_ids:ovn-bridge-datapath-type=" + c.Datapath.String(),
		"external_ids:ovn-monitor-all=true",
		"external_ids:ovn-bridge-mappings=\"" + strings.Join(mappings, ",") + "\"",
		"external_ids:ovn-chassis-mac-mappings=\"" + strings.Join(macs, ",") + "\"", // as Kube-OVN's daemon does
	}
	if c.Datapath != Kernel {
		args = append(args, c.bridge(tunnelBridge, tunnelInterface)...)
		args = append(args, "--", "set", "bridge", tunnelBridge,
			"other_config:hwaddr=\""+tunnelMAC(c.Node.Tunnel.Addr())+"\"")
	}
	for _, p := range c.Providers {
		args = append(args, c.bridge(p.Bridge(), p.Interface)...)
		if p.VLAN > 0 {
			args = append(args, "--", "set", "port", p.Interface, fmt.Sprintf("tag=%d", p.VLAN))
		}
	}
	args = append(args, "--", "--may-exist", "add-br", "br-int", "--", "set", "bridge", "br-int",
		"datapath_type="+c.Datapath.String(), "fail_mode=secure")
	return c.vsctl(ctx, args...)
}

func (c *Chassis) bridge(name, port string) []string {
	return []string{
		"--", "--may-exist", "add-br", name, "--", "set", "bridge", name, "datapath_type=" + c.Datapath.String(), "--",
		"--may-exist", "add-port", name, port,
	}
}

// tunnelMAC is the MAC address of a tunnel's end. Without one of its own, the bridge takes that of a port a moment
// after it has begun to answer, and another node that has asked in between knows the wrong one for a quarter of an
// hour.
func tunnelMAC(end netip.Addr) string {
	ip := end.As4()
	return net.HardwareAddr{2, 0, ip[0], ip[1], ip[2], ip[3]}.String()
}

// chassisMAC is the MAC address of a node's routers on a network whose gateways are elsewhere. Kube-OVN's daemon draws
// one; it must not be that of the uplink, because OVN takes frames with it for those of a router.
func chassisMAC(node, network string) string {
	h := fnv.New32a()
	fmt.Fprintf(h, "%s/%s", node, network)
	return net.HardwareAddr(h.Sum([]byte{2, 1})).String()
}

// WaitRegistered waits until ovn-controller has written the node's Chassis row.
func (c *Chassis) WaitRegistered(ctx context.Context, central Central) error {
	return c.Shop.run(ctx, "ovn-sbctl", "--db="+central.SB(), toolTimeout, "wait-until", "chassis", c.Node.Name)
}

func (c *Chassis) path(name string) string { return filepath.Join(c.Shop.dir(c.Node.Name), name) }

func (c *Chassis) vsctl(ctx context.Context, args ...string) error {
	return c.Shop.run(ctx, "ovs-vsctl", append([]string{"--db=unix:" + c.path("db.sock")}, args...)...)
}
