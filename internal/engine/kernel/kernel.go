// Package kernel is the kernel of a node: its links, rules, routes, nftables objects and sysctls, as targets.
//
// Everything refers to the network namespace in which it was opened.
package kernel

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/nodepath"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// families are the address families of rules and routes.
var families = []int{netlink.FAMILY_V4, netlink.FAMILY_V6}

// Kernel is the kernel of one network namespace.
type Kernel struct {
	handle *netlink.Handle
	sysctl sysctlDir
}

// Open opens the kernel of the caller's network namespace, with the sysctls in SysctlRoot.
func Open() (*Kernel, error) { return OpenAt(SysctlRoot) }

// OpenAt opens the kernel of the caller's network namespace, with the sysctls as files below a directory. The files
// belong to the namespace of the process that opens them, wherever they are mounted.
func OpenAt(root string) (*Kernel, error) {
	// Without a family, NewHandle opens all of them, and some kernels lack those of IPsec.
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	return &Kernel{handle, sysctlDir(root)}, nil
}

// Close ends the connection to the kernel.
func (k *Kernel) Close() { k.handle.Close() }

// ReadNode returns the state of the node that the meaning of a NodePath depends on.
func (k *Kernel) ReadNode() (nodepath.Node, error) {
	var out nodepath.Node
	links, err := k.listLinks()
	if err != nil {
		return out, err
	}
	addresses, err := k.listAddresses()
	if err != nil {
		return out, err
	}
	masters := map[int]string{}
	for _, l := range links {
		if name := l.Attrs().Name; !strings.HasPrefix(name, ownership.NodeVRFPrefix) {
			masters[l.Attrs().Index] = name
		}
	}
	for _, l := range links {
		a := l.Attrs()
		if a.Flags&net.FlagLoopback != 0 {
			continue
		}
		out.Interfaces = append(out.Interfaces, nodepath.Interface{
			Name: a.Name, MAC: a.HardwareAddr.String(), Up: a.Flags&net.FlagUp != 0, Addresses: addresses[a.Index],
			Ours:   isOwnLinkName(a.Name),
			Master: masters[a.MasterIndex],
		})
	}
	forwards, err := k.sysctl.read("net.ipv6.conf.all.forwarding")
	out.ForwardsIPv6 = err == nil && forwards != "0"
	filter, err := k.sysctl.read("net.ipv4.conf.all.rp_filter")
	out.StrictRPFilter = err == nil && filter == "1"
	return out, nil
}

// listWithRetry dumps a list, and retries if the kernel reports that it changed during the dump: pods are created and
// deleted all the time.
func listWithRetry[T any](what string, list func() ([]T, error)) (out []T, err error) {
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

func (k *Kernel) listLinks() ([]netlink.Link, error) {
	return listWithRetry("links", k.handle.LinkList)
}

// listAddresses returns the addresses that other hosts can use, by link index. It reads all links at once: the kernel
// returns all addresses even if asked for one link.
func (k *Kernel) listAddresses() (map[int][]netip.Prefix, error) {
	list, err := listWithRetry("addresses", func() ([]netlink.Addr, error) {
		return k.handle.AddrList(nil, netlink.FAMILY_ALL)
	})
	if err != nil {
		return nil, err
	}
	out := map[int][]netip.Prefix{}
	for _, a := range list {
		if p := prefixFromIPNet(a.IPNet); p.IsValid() && !p.Addr().IsLinkLocalUnicast() || ipfamily.V4.Contains(p.Addr()) {
			out[a.LinkIndex] = append(out[a.LinkIndex], p)
		}
	}
	return out, nil
}

// isOwnLinkName reports whether a link has one of our names.
func isOwnLinkName(name string) bool {
	for _, prefix := range []string{ownership.NodeVRFPrefix, ownership.NodeVethPrefix, ownership.NodeVethPeerPrefix} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// prefixFromIPNet and ipNetFromPrefix convert prefixes from and to netlink's type.
func prefixFromIPNet(n *net.IPNet) netip.Prefix {
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

func ipNetFromPrefix(p netip.Prefix) *net.IPNet {
	if !p.IsValid() {
		return nil
	}
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// isNotFound reports whether a deletion failed because the object does not exist.
func isNotFound(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENODEV) ||
		errors.Is(err, unix.EADDRNOTAVAIL) ||
		errors.As(err, &netlink.LinkNotFoundError{})
}
