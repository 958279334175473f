package netns

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"os"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// End is one end of a link: where it is, what it is called, and what it carries.
type End struct {
	NS        NS
	Name      string
	MAC       net.HardwareAddr // nil: the kernel chooses
	Addresses []netip.Prefix
	Bridge    string // enslave to this bridge of NS
}

// Route is one unicast route of a namespace; an invalid Dst is the default route of Via's family.
type Route struct {
	Dst netip.Prefix
	Via netip.Addr
	Dev string
	Src netip.Addr
}

// Bridge makes an L2 segment in the namespace.
func (n NS) Bridge(name string, mtu int) error {
	return n.with(func(h *netlink.Handle) error {
		link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name, MTU: mtu}}
		if err := h.LinkAdd(link); err != nil {
			return fmt.Errorf("make bridge %s: %w", name, err)
		}
		return h.LinkSetUp(link)
	})
}

// Tap makes a tap device, the port of a virtual machine, and enslaves it to a bridge of the namespace. The wire's end is
// no host: it has no address of its own.
func (n NS) Tap(name, bridge string, mtu int) error {
	err := n.with(func(h *netlink.Handle) error {
		tap := &netlink.Tuntap{
			LinkAttrs: netlink.LinkAttrs{Name: name}, Mode: netlink.TUNTAP_MODE_TAP,
			Flags: netlink.TUNTAP_NO_PI,
		}
		// The library makes it in the namespace of the calling thread, which is the one of the handle.
		if err := h.LinkAdd(tap); err != nil {
			return fmt.Errorf("make tap %s: %w", name, err)
		}
		link, err := h.LinkByName(name)
		if err != nil {
			return fmt.Errorf("find tap %s: %w", name, err)
		}
		master, err := h.LinkByName(bridge)
		if err != nil {
			return fmt.Errorf("find bridge %s: %w", bridge, err)
		}
		return errors.Join(h.LinkSetMTU(link, mtu), h.LinkSetMaster(link, master))
	})
	if err != nil {
		return err
	}
	if err := n.Sysctl(map[string]string{"ipv6/conf/" + name + "/disable_ipv6": "1"}); err != nil &&
		!errors.Is(err, os.ErrNotExist) {
		return err
	}
	return n.LinkUp(name)
}

// Veth makes a cable between two ends and brings both up. Checksum offload is switched off: the userspace datapath of
// Open vSwitch reads raw frames, and a partial checksum would arrive broken.
func Veth(a, b End, mtu int) error {
	ta, tb := passing(a, "a"), passing(b, "b")
	fdB, err := b.NS.fd()
	if err != nil {
		return err
	}
	defer fdB.Close()
	err = a.NS.with(func(h *netlink.Handle) error {
		pair := &netlink.Veth{
			LinkAttrs:     netlink.LinkAttrs{Name: ta, MTU: mtu},
			PeerName:      tb,
			PeerMTU:       uint32(mtu), //nolint:gosec // a constant of the lab
			PeerNamespace: netlink.NsFd(fdB.Fd()),
		}
		if err := h.LinkAdd(pair); err != nil {
			return fmt.Errorf("make veth %s in %s – %s in %s: %w", a.Name, a.NS.Name, b.Name, b.NS.Name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := a.finish(ta); err != nil {
		return err
	}
	return b.finish(tb)
}

// passing is the name of an end until it is in place: unlike the wanted name it can't be taken in that namespace.
func passing(e End, side string) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%s", e.NS.Name, e.Name)
	return fmt.Sprintf("t%s%012x", side, h.Sum64()&0xffffffffffff)
}

func (e End) finish(passing string) error {
	err := e.NS.with(func(h *netlink.Handle) error { return e.configure(h, passing) })
	if err != nil {
		return fmt.Errorf("configure %s in %s: %w", e.Name, e.NS.Name, err)
	}
	return nil
}

func (e End) configure(h *netlink.Handle, passing string) error {
	link, err := h.LinkByName(passing)
	if err != nil {
		return err
	}
	if err := h.LinkSetName(link, e.Name); err != nil {
		return err
	}
	if e.MAC != nil {
		if err := h.LinkSetHardwareAddr(link, e.MAC); err != nil {
			return err
		}
	}
	if err := checksumOffload(e.Name, false); err != nil {
		return err
	}
	if e.Bridge != "" {
		bridge, err := h.LinkByName(e.Bridge)
		if err != nil {
			return err
		}
		if err := h.LinkSetMaster(link, bridge); err != nil {
			return err
		}
	}
	if err := h.LinkSetUp(link); err != nil {
		return err
	}
	return addAddresses(h, link, e.Addresses)
}

func addAddresses(h *netlink.Handle, link netlink.Link, prefixes []netip.Prefix) error {
	for _, p := range prefixes {
		addr := &netlink.Addr{IPNet: IPNet(p)}
		if p.Addr().Is6() {
			addr.Flags = unix.IFA_F_NODAD // a lab has no duplicate to detect, and a second to lose
		}
		if err := h.AddrReplace(link, addr); err != nil {
			return fmt.Errorf("add %s: %w", p, err)
		}
	}
	return nil
}

// AddAddresses puts addresses on a link.
func (n NS) AddAddresses(link string, prefixes ...netip.Prefix) error {
	return n.with(func(h *netlink.Handle) error {
		l, err := h.LinkByName(link)
		if err != nil {
			return fmt.Errorf("find %s in %s: %w", link, n.Name, err)
		}
		return addAddresses(h, l, prefixes)
	})
}

// AddRoutes installs routes.
func (n NS) AddRoutes(routes ...Route) error {
	return n.with(func(h *netlink.Handle) error {
		for _, r := range routes {
			if err := addRoute(h, r); err != nil {
				return fmt.Errorf("add route %s via %s in %s: %w", r.Dst, r.Via, n.Name, err)
			}
		}
		return nil
	})
}

func addRoute(h *netlink.Handle, r Route) error {
	route := &netlink.Route{Gw: r.Via.AsSlice(), Src: r.Src.AsSlice()}
	if r.Dst.IsValid() {
		route.Dst = IPNet(r.Dst)
	}
	if r.Dev != "" {
		link, err := h.LinkByName(r.Dev)
		if err != nil {
			return err
		}
		route.LinkIndex = link.Attrs().Index
	}
	return h.RouteReplace(route)
}

// LinkUp brings a link up.
func (n NS) LinkUp(name string) error { return n.setLink(name, (*netlink.Handle).LinkSetUp) }

// LinkDown takes a link down: to its peer, the cable is out.
func (n NS) LinkDown(name string) error { return n.setLink(name, (*netlink.Handle).LinkSetDown) }

// DeleteLink removes a link, and with one end of a veth the other; a link that is not there is no error.
func (n NS) DeleteLink(name string) error {
	err := n.setLink(name, (*netlink.Handle).LinkDel)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	return err
}

// SetMTU sets the largest packet of a link.
func (n NS) SetMTU(name string, mtu int) error {
	return n.setLink(name, func(h *netlink.Handle, l netlink.Link) error { return h.LinkSetMTU(l, mtu) })
}

// Links lists the links of the namespace.
func (n NS) Links() (links []netlink.Link, err error) {
	err = n.with(func(h *netlink.Handle) (err error) {
		links, err = h.LinkList()
		return err
	})
	return links, err
}

func (n NS) setLink(name string, set func(*netlink.Handle, netlink.Link) error) error {
	return n.with(func(h *netlink.Handle) error {
		link, err := h.LinkByName(name)
		if err != nil {
			return fmt.Errorf("find %s in %s: %w", name, n.Name, err)
		}
		if err := set(h, link); err != nil {
			return fmt.Errorf("change %s in %s: %w", name, n.Name, err)
		}
		return nil
	})
}

// with runs fn in the namespace with a netlink handle on it.
func (n NS) with(fn func(*netlink.Handle) error) error {
	return n.Do(func() error {
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("netlink in %s: %w", n.Name, err)
		}
		defer h.Close()
		return fn(h)
	})
}

func (n NS) fd() (*os.File, error) {
	path := n.path
	if path == "" {
		path = "/proc/thread-self/ns/net"
	}
	f, err := os.Open(path) //nolint:gosec // a file of /proc
	if err != nil {
		return nil, fmt.Errorf("open namespace %s: %w", n.Name, err)
	}
	return f, nil
}

// IPNet is p in the form that netlink takes.
func IPNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// checksumOffload sets transmit checksumming of a link in the calling thread's namespace.
func checksumOffload(link string, on bool) error {
	const ethtoolSetTxCsum = 0x17 // ETHTOOL_STXCSUM: the one ethtool command needed, so no library for it
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("ethtool socket: %w", err)
	}
	defer unix.Close(fd)
	value := struct{ command, data uint32 }{command: ethtoolSetTxCsum}
	if on {
		value.data = 1
	}
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: unsafe.Pointer(&value)} //nolint:gosec // an ioctl takes an address
	copy(request.name[:unix.IFNAMSIZ-1], link)
	//nolint:gosec // an ioctl takes an address
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL,
		uintptr(unsafe.Pointer(&request))); errno != 0 {
		return fmt.Errorf("switch checksum offload of %s: %w", link, errno)
	}
	return nil
}
