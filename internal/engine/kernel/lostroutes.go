package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/nodepath"
)

// lostRoute is a route of someone else that the kernel deletes, in any table, when its interface is added to a VRF.
type lostRoute struct {
	To       netip.Prefix
	Via      netip.Addr `json:",omitzero"`
	Source   netip.Addr `json:",omitzero"`
	Table    int
	Metric   int  `json:",omitzero"`
	Protocol int  // origin of the route
	Scope    int  `json:",omitzero"`
	Type     int  // unicast or another
	TOS      int  `json:",omitzero"`
	MTU      int  `json:",omitzero"`
	OnLink   bool `json:",omitzero"`
}

// isManualRoute reports whether nobody else would restore such a route. The kernel and routing daemons restore theirs.
func isManualRoute(p netlink.RouteProtocol) bool {
	return p == unix.RTPROT_BOOT || p == unix.RTPROT_STATIC || p == unix.RTPROT_DHCP
}

// saveRoutes saves the routes that an interface is about to lose. Routes that were saved earlier are kept.
func (t Links) saveRoutes(l netlink.Link) error {
	all, err := t.lostRoutes.read()
	if err != nil {
		return err
	}
	name := l.Attrs().Name
	noted := all[name]
	for _, family := range families {
		filter := &netlink.Route{LinkIndex: l.Attrs().Index, Table: unix.RT_TABLE_UNSPEC}
		list, err := listWithRetry("routes of "+name, func() ([]netlink.Route, error) {
			return t.kernel.handle.RouteListFiltered(family, filter, netlink.RT_FILTER_OIF|netlink.RT_FILTER_TABLE)
		})
		if err != nil {
			return err
		}
		for _, r := range list {
			if route := newLostRoute(r, family); isManualRoute(r.Protocol) && !slices.Contains(noted, route) {
				noted = append(noted, route)
			}
		}
	}
	if len(noted) == 0 {
		return nil
	}
	all[name] = noted
	return t.lostRoutes.write(all)
}

func newLostRoute(r netlink.Route, family int) lostRoute {
	out := lostRoute{
		To: prefixFromIPNet(r.Dst), Table: r.Table, Metric: r.Priority, Protocol: int(r.Protocol), Scope: int(r.Scope),
		Type: r.Type, TOS: r.Tos, MTU: r.MTU,
		OnLink: r.Flags&unix.RTNH_F_ONLINK != 0,
	}
	if !out.To.IsValid() {
		out.To = fromNetlink(family).Everything()
	}
	via, _ := netip.AddrFromSlice(r.Gw)
	source, _ := netip.AddrFromSlice(r.Src)
	out.Via, out.Source = via.Unmap(), source.Unmap()
	return out
}

// restoreRoutes restores the routes that an interface lost. One may depend on another, so it retries as long as it
// makes progress.
func (t Links) restoreRoutes(name string) error {
	all, err := t.lostRoutes.read()
	if err != nil || len(all[name]) == 0 {
		return err
	}
	var failure error
	l, err := t.kernel.handle.LinkByName(name)
	if err == nil {
		for left := 0; len(all[name]) != left; {
			left = len(all[name])
			all[name], failure = t.addRoutes(l.Attrs().Index, all[name])
		}
	}
	if err != nil && !isNotFound(err) {
		return err
	}
	if err != nil || len(all[name]) == 0 { // if the interface is gone, so are its routes
		delete(all, name)
	}
	return errors.Join(failure, t.lostRoutes.write(all))
}

// addRoutes adds routes and returns those that failed. If someone has created such a route in the meantime, it is kept.
func (t Links) addRoutes(index int, routes []lostRoute) (left []lostRoute, failure error) {
	for _, r := range routes {
		route := &netlink.Route{
			LinkIndex: index, Dst: ipNetFromPrefix(r.To), Gw: r.Via.AsSlice(), Src: r.Source.AsSlice(), Table: r.Table,
			Priority: r.Metric, Type: r.Type,
			//nolint:gosec // value from the kernel
			Protocol: netlink.RouteProtocol(r.Protocol), Scope: netlink.Scope(r.Scope), Tos: r.TOS, MTU: r.MTU,
			Family: toNetlink(ipfamily.Of(r.To.Addr())),
		}
		if r.OnLink {
			route.Flags = unix.RTNH_F_ONLINK
		}
		if err := t.kernel.handle.RouteAdd(route); err != nil && !errors.Is(err, unix.EEXIST) {
			left = append(left, r)
			failure = fmt.Errorf("restore its previous route %s: %w",
				nodepath.Route{Table: r.Table, To: r.To, Metric: r.Metric}.Key(), err)
		}
	}
	return left, failure
}
