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

// Interface is an interface of the node.
type Interface struct {
	Name, MAC string
	Up        bool // somebody has set it up
	Carrier   bool // something is at the other end of its cable
	MTU       int
	Addresses []netip.Prefix
}

// ListInterfaces are those of the node, by name.
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

// ReadSysctls are the settings that decide about forwarded packets, of the node as a whole and of some interfaces.
// Those that the kernel does not have are left out.
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

// rpFilterKey is the setting by which the kernel drops what came in by an interface by which a reply would not leave.
func rpFilterKey(name string) nodepath.SysctlKey {
	return nodepath.SysctlKey("net.ipv4.conf." + strings.ReplaceAll(name, ".", "/") + ".rp_filter")
}

// RouteQuery is a packet whose way is asked for.
type RouteQuery struct {
	From      netip.Addr // the zero value: the node chooses
	To        netip.Addr
	Interface string // by which it came in; empty: the node sends it itself
	Mark      uint32
}

// RouteResult is how a packet goes on.
type RouteResult struct {
	Interface string     // by which it leaves; lo: it stays on the node
	NextHop   netip.Addr // the zero value: its destination itself
	Source    netip.Addr // that the node would send it from
}

// deadRouteTypes are the kinds of routes that lead nowhere. Of IPv6 they are found as others are.
var deadRouteTypes = map[int]error{
	unix.RTN_UNREACHABLE: unix.EHOSTUNREACH,
	unix.RTN_PROHIBIT:    unix.EACCES,
	unix.RTN_BLACKHOLE:   unix.EINVAL,
}

// LookupRoute asks the kernel where it would send a packet. Why it would drop it is the error.
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
		return RouteResult{}, fmt.Errorf("find the interface by which it leaves: %w", err)
	}
	via, _ := netip.AddrFromSlice(r.Gw)
	source, _ := netip.AddrFromSlice(r.Src)
	return RouteResult{Interface: link.Attrs().Name, NextHop: via.Unmap(), Source: cmp.Or(source.Unmap(), p.From)}, nil
}

// explainNoRoute says more of why the kernel has no way for a packet. For most reasons it has the same number, and
// which number depends on the kernel.
func (k *Kernel) explainNoRoute(p RouteQuery, err error) error {
	if !p.From.IsValid() {
		return err
	}
	if p.Interface == "" {
		if here, failed := k.hasAddress(p.From); failed == nil && !here {
			return fmt.Errorf("%s is no address of this node: say by which interface the packet came in", p.From)
		}
		return err
	}
	if !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.EINVAL) {
		return err
	}
	all, _ := k.sysctl.read("net.ipv4.conf.all.rp_filter") // what can't be read does not filter
	own, _ := k.sysctl.read(rpFilterKey(p.Interface))
	back, failed := k.LookupRoute(RouteQuery{To: p.From, Mark: p.Mark})
	if strict := max(all, own); strict > "0" && (failed != nil || strict == "1" && back.Interface != p.Interface) {
		return fmt.Errorf("the kernel drops it (rp_filter): a reply to %s would not leave by %s", p.From, p.Interface)
	}
	return fmt.Errorf("the kernel drops it: %s can't be the source of what comes in by %s", p.From, p.Interface)
}

// hasAddress says whether an address is one of the node's.
func (k *Kernel) hasAddress(a netip.Addr) (bool, error) {
	addresses, err := k.listAddresses()
	for _, list := range addresses {
		if slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Addr() == a }) {
			return true, nil
		}
	}
	return false, err
}
