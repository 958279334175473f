package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/model/nodepath"
)

// Interface is a network interface of the node.
type Interface struct {
	Name, MAC string
	Up        bool // administratively up
	Carrier   bool // there is a link partner
	MTU       int
	Addresses []netip.Prefix
}

// ListInterfaces returns the interfaces of the node, sorted by name.
func (k *Kernel) ListInterfaces() (out []Interface, err error) {
	links, err := k.listLinks()
	if err != nil {
		return nil, err
	}
	addresses, err := k.listAddresses()
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		a := l.Attrs()
		out = append(out, Interface{
			Name: a.Name, MAC: a.HardwareAddr.String(), Up: a.Flags&net.FlagUp != 0,
			Carrier: a.RawFlags&unix.IFF_LOWER_UP != 0, MTU: a.MTU,
			Addresses: addresses[a.Index],
		})
	}
	slices.SortFunc(out, func(a, b Interface) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// ListPodInterfaces returns the names of the veth interfaces whose other end is in another network namespace, without
// addresses of their own: what is sent on them enters that namespace, and not the node.
func (k *Kernel) ListPodInterfaces() (map[string]bool, error) {
	links, err := k.listLinks()
	if err != nil {
		return nil, err
	}
	addresses, err := k.listAddresses()
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, l := range links {
		if a := l.Attrs(); l.Type() == "veth" && a.NetNsID >= 0 && len(addresses[a.Index]) == 0 {
			out[a.Name] = true
		}
	}
	return out, nil
}

// ReadSysctls returns the sysctls that affect forwarded packets, of the node as a whole and of some interfaces. It
// omits those that the kernel does not have.
func (k *Kernel) ReadSysctls(interfaces []string) (map[string]string, error) {
	names := []nodepath.SysctlKey{
		"net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding", "net.netfilter.nf_conntrack_count",
		"net.netfilter.nf_conntrack_max",
	}
	for _, i := range append([]string{"all", "default"}, interfaces...) {
		names = append(names, rpFilterKey(i))
	}
	out := map[string]string{}
	for _, name := range names {
		text, err := k.sysctl.read(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if err == nil {
			out[string(name)] = text
		}
	}
	return out, nil
}

// rpFilterKey returns the sysctl of reverse path filtering: the kernel drops packets that came in through an interface
// through which a reply would not leave.
func rpFilterKey(name string) nodepath.SysctlKey {
	return nodepath.SysctlKey("net.ipv4.conf." + strings.ReplaceAll(name, ".", "/") + ".rp_filter")
}

// RouteQuery is a packet to look up a route for.
type RouteQuery struct {
	From      netip.Addr // zero: the node chooses
	To        netip.Addr
	Interface string // input interface; empty: the node sends the packet itself
	Mark      uint32
}

// RouteResult is the route of a packet.
type RouteResult struct {
	Interface string     // output interface; lo: local delivery
	NextHop   netip.Addr // zero: the destination itself
	Source    netip.Addr // source address that the node would use
}

// deadRouteTypes are the types of routes that drop packets. For IPv6, the lookup returns them like other routes.
var deadRouteTypes = map[int]error{
	unix.RTN_UNREACHABLE: unix.EHOSTUNREACH,
	unix.RTN_PROHIBIT:    unix.EACCES,
	unix.RTN_BLACKHOLE:   unix.EINVAL,
}

// LookupRoute asks the kernel for the route of a packet. If the kernel would drop the packet, the error has the reason.
func (k *Kernel) LookupRoute(p RouteQuery) (RouteResult, error) {
	options := &netlink.RouteGetOptions{Iif: p.Interface, SrcAddr: p.From.AsSlice(), Mark: p.Mark}
	routes, err := k.handle.RouteGetWithOptions(p.To.AsSlice(), options)
	if err == nil && len(routes) == 0 {
		err = unix.ENETUNREACH
	}
	if err != nil {
		return RouteResult{}, k.explainNoRoute(p, err)
	}
	r := routes[0]
	if err := deadRouteTypes[r.Type]; err != nil {
		return RouteResult{}, err
	}
	link, err := k.handle.LinkByIndex(r.LinkIndex)
	if err != nil {
		return RouteResult{}, fmt.Errorf("look up the output interface: %w", err)
	}
	via, _ := netip.AddrFromSlice(r.Gw)
	source, _ := netip.AddrFromSlice(r.Src)
	return RouteResult{Interface: link.Attrs().Name, NextHop: via.Unmap(), Source: cmp.Or(source.Unmap(), p.From)}, nil
}

// explainNoRoute explains why the kernel has no route for a packet. The kernel returns the same error number for most
// reasons, and the number depends on the kernel.
func (k *Kernel) explainNoRoute(p RouteQuery, err error) error {
	if !p.From.IsValid() {
		return err
	}
	if p.Interface == "" {
		if here, failed := k.hasAddress(p.From); failed == nil && !here {
			return fmt.Errorf("%s is not an address of this node; specify the interface on which the packet arrives",
				p.From)
		}
		return err
	}
	if !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.EINVAL) {
		return err
	}
	all, _ := k.sysctl.read("net.ipv4.conf.all.rp_filter") // unreadable means no filtering
	own, _ := k.sysctl.read(rpFilterKey(p.Interface))
	back, failed := k.LookupRoute(RouteQuery{To: p.From, Mark: p.Mark})
	if strict := max(all, own); strict > "0" && (failed != nil || strict == "1" && back.Interface != p.Interface) {
		return fmt.Errorf("the kernel drops it (rp_filter): a reply to %s would not leave by %s", p.From, p.Interface)
	}
	return fmt.Errorf("the kernel drops it: %s is not a valid source address on %s", p.From, p.Interface)
}

// hasAddress reports whether the node has an address.
func (k *Kernel) hasAddress(a netip.Addr) (bool, error) {
	addresses, err := k.listAddresses()
	for _, list := range addresses {
		if slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Addr() == a }) {
			return true, nil
		}
	}
	return false, err
}
