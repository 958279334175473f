package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"syscall"

	"github.com/sallyport/sallyport/internal/lab/netns"
)

// podMTU leaves room for geneve in a 1500-byte network, as Kube-OVN computes it on such a node.
const podMTU = 1400

// Plug connects a namespace to br-int and waits until ovn-controller has installed the port's flows.
func (c *Chassis) Plug(ctx context.Context, ns netns.NS, port Port) error {
	mtu := port.MTU
	if mtu == 0 {
		mtu = podMTU
	}
	name := hostEnd(port)
	err := netns.Veth(
		netns.End{NS: ns, Name: port.Interface, MAC: port.MAC, Addresses: port.Addresses},
		netns.End{NS: c.NS, Name: name}, mtu)
	if err != nil {
		return err
	}
	err = c.vsctl(ctx, "--timeout=60", "--", "--may-exist", "add-port", "br-int", name,
		"--", "set", "interface", name, fmt.Sprintf("external_ids:iface-id=%q", port.LogicalPort),
		"external_ids:vendor=kube-ovn")
	if err != nil {
		return err
	}
	return c.vsctl(ctx, "--timeout=60", "wait-until", "interface", name, "external_ids:ovn-installed=true")
}

// Unplug removes what Plug made; what is gone already is no error.
func (c *Chassis) Unplug(ctx context.Context, port Port) error {
	name := hostEnd(port)
	return errors.Join(
		c.vsctl(ctx, "--timeout=60", "--if-exists", "del-port", "br-int", name),
		c.NS.DeleteLink(name),
	)
}

// hostEnd is the node's end of a port's cable: logical port names are longer than Linux allows for an interface.
func hostEnd(p Port) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%s", p.LogicalPort, p.Interface)
	return fmt.Sprintf("p%012x", h.Sum64()&0xffffffffffff)
}

// discardPort is where nobody listens, so that a connection is refused by the far end's kernel.
const discardPort = "9"

// Warm makes the chassis learn the way to another tunnel end. Userspace Open vSwitch drops the packet that made it ask
// for an address, so without this the first connection between two nodes loses its first packet. A refused connection
// is the proof that packets went there and came back.
func (c *Chassis) Warm(ctx context.Context, other netip.Addr) error {
	conn, err := c.NS.Dial(ctx, "tcp", net.JoinHostPort(other.String(), discardPort))
	if err == nil {
		return conn.Close()
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	return fmt.Errorf("reach tunnel end %s from %s: %w", other, c.Node.Name, err)
}
