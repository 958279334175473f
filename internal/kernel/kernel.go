// Package kernel is the kernel of a node: its links, rules, routes, nftables objects and settings, as targets.
//
// Everything is of the network namespace in which it was opened.
package kernel

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/nodepath"
	"github.com/sallyport/sallyport/internal/ownership"
)

// families are those that rules and routes have.
var families = []int{netlink.FAMILY_V4, netlink.FAMILY_V6}

// Kernel is the kernel of one network namespace.
type Kernel struct {
	handle *netlink.Handle
	sysctl sysctl
}

// Open is the kernel of the caller's network namespace, with its settings in SysctlRoot.
func Open() (*Kernel, error) { return OpenAt(SysctlRoot) }

// OpenAt is the kernel of the caller's network namespace, with its settings as files below a directory. Whose settings the files are depends on
// the namespace of who opens them, not on where they are mounted.
func OpenAt(root string) (*Kernel, error) {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE) // without a name it opens all, and some kernels lack those of IPsec
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	return &Kernel{handle, sysctl(root)}, nil
}

// Close ends the connection to the kernel.
func (k *Kernel) Close() { k.handle.Close() }

// Node is what decides about a NodePath.
func (k *Kernel) Node() (nodepath.Node, error) {
	var out nodepath.Node
	links, err := k.links()
	if err != nil {
		return out, err
	}
	addresses, err := k.addresses()
	if err != nil {
		return out, err
	}
	masters := map[int]string{}
	for _, l := range links {
		if name := l.Attrs().Name; !strings.HasPrefix(name, ownership.NodeVRFs) {
			masters[l.Attrs().Index] = name
		}
	}
	for _, l := range links {
		a := l.Attrs()
		if a.Flags&net.FlagLoopback != 0 {
			continue
		}
		out.Interfaces = append(out.Interfaces, nodepath.Interface{
			Name: a.Name, MAC: a.HardwareAddr.String(), Up: a.Flags&net.FlagUp != 0, Addresses: addresses[a.Index], Ours: ours(a.Name),
			Master: masters[a.MasterIndex],
		})
	}
	forwards, err := k.sysctl.read("net.ipv6.conf.all.forwarding")
	out.Forwards6 = err == nil && forwards != "0"
	filter, err := k.sysctl.read("net.ipv4.conf.all.rp_filter")
	out.Strict = err == nil && filter == "1"
	return out, nil
}

// whole asks for a list, and again where the kernel says that it has changed while it was read: pods come and go all the time.
func whole[T any](what string, list func() ([]T, error)) (out []T, err error) {
	for range 10 {
		if out, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", what, err)
	}
	return out, nil
}

func (k *Kernel) links() ([]netlink.Link, error) { return whole("links", k.handle.LinkList) }

// addresses are those that others can use, by the number of their link. They are read all at once: asked for those of one link, the kernel
// gives all of them, too.
func (k *Kernel) addresses() (map[int][]netip.Prefix, error) {
	list, err := whole("addresses", func() ([]netlink.Addr, error) { return k.handle.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, err
	}
	out := map[int][]netip.Prefix{}
	for _, a := range list {
		if p := prefixOf(a.IPNet); p.IsValid() && !p.Addr().IsLinkLocalUnicast() || p.Addr().Is4() {
			out[a.LinkIndex] = append(out[a.LinkIndex], p)
		}
	}
	return out, nil
}

// ours says whether a link has a name of ours.
func ours(name string) bool {
	for _, prefix := range []string{ownership.NodeVRFs, ownership.NodeLegs, ownership.NodeFarLegs} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// prefixOf and netOf are a prefix as netlink has it, and back.
func prefixOf(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.Prefix{}
	}
	a, ok := netip.AddrFromSlice(n.IP)
	if !ok {
		return netip.Prefix{}
	}
	bits, size := n.Mask.Size()
	if size == net.IPv4len*8 {
		a = a.Unmap()
	}
	return netip.PrefixFrom(a, bits)
}

func netOf(p netip.Prefix) *net.IPNet {
	if !p.IsValid() {
		return nil
	}
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// gone says whether something could not be taken away because it is not there.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EADDRNOTAVAIL) ||
		errors.As(err, &netlink.LinkNotFoundError{})
}
