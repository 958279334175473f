package kernel

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/model/ipfamily"
	"github.com/sallyport/sallyport/internal/model/nodepath"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// Routes are the routes with our protocol, in any table.
type Routes struct{ kernel *Kernel }

// Routes returns the target for routes.
func (k *Kernel) Routes() Routes { return Routes{k} }

// Scope describes which routes are ours.
func (Routes) Scope() string { return fmt.Sprintf("routes of protocol %d", ownership.NodeProtocol) }

// Observe returns our routes.
func (t Routes) Observe(context.Context) (nodepath.Routes, error) {
	names, err := t.linkNames()
	if err != nil {
		return nil, err
	}
	out := nodepath.Routes{}
	for _, family := range families {
		filter := &netlink.Route{Protocol: ownership.NodeProtocol, Table: unix.RT_TABLE_UNSPEC}
		list, err := listWithRetry("routes", func() ([]netlink.Route, error) {
			return t.kernel.handle.RouteListFiltered(family, filter, netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
		})
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			route := nodepath.Route{Table: r.Table, To: prefixFromIPNet(r.Dst), Metric: r.Priority}
			if !route.To.IsValid() {
				route.To = fromNetlink(family).Everything()
			}
			if r.Type != unix.RTN_UNREACHABLE {
				route.Dev = names[r.LinkIndex]
				via, _ := netip.AddrFromSlice(r.Gw)
				route.Via = via.Unmap()
			}
			out[route.Key()] = state.Entry[nodepath.Route]{Value: route}
		}
	}
	return out, nil
}

// linkNames returns the names of links by index.
func (t Routes) linkNames() (map[int]string, error) {
	links, err := t.kernel.listLinks()
	if err != nil {
		return nil, err
	}
	out := map[int]string{}
	for _, l := range links {
		out[l.Attrs().Index] = l.Attrs().Name
	}
	return out, nil
}

// Apply adds, replaces and deletes routes.
func (t Routes) Apply(_ context.Context,
	changes []state.Change[nodepath.RouteKey, nodepath.Route],
) map[nodepath.RouteKey]error {
	failed, numbers := map[nodepath.RouteKey]error{}, map[string]int{}
	for _, c := range changes {
		if err := t.applyRoute(c, numbers); err != nil {
			failed[c.Key] = err
		}
	}
	return failed
}

func (t Routes) applyRoute(c state.Change[nodepath.RouteKey, nodepath.Route], numbers map[string]int) error {
	if c.IsRemoval() {
		r, err := t.buildNetlinkRoute(c.Key, *c.Before, numbers)
		if err == nil {
			err = t.kernel.handle.RouteDel(r)
		}
		if isNotFound(err) {
			return nil
		}
		return err
	}
	r, err := t.buildNetlinkRoute(c.Key, *c.After, numbers)
	if err != nil {
		return err
	}
	return t.kernel.handle.RouteReplace(r)
}

// buildNetlinkRoute converts a route to netlink's type. It looks up each link index once.
func (t Routes) buildNetlinkRoute(key nodepath.RouteKey, v nodepath.Route, numbers map[string]int) (*netlink.Route,
	error,
) {
	r := &netlink.Route{
		Table:    key.Table,
		Dst:      ipNetFromPrefix(key.To),
		Priority: key.Metric,
		Protocol: ownership.NodeProtocol,
		Family:   toNetlink(ipfamily.Of(key.To.Addr())),
	}
	if v.Dev == "" {
		r.Type = unix.RTN_UNREACHABLE
		return r, nil
	}
	if numbers[v.Dev] == 0 {
		link, err := t.kernel.handle.LinkByName(v.Dev)
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", v.Dev, err)
		}
		numbers[v.Dev] = link.Attrs().Index
	}
	r.LinkIndex = numbers[v.Dev]
	switch {
	case v.Via.IsValid():
		r.Gw = v.Via.AsSlice()
	case ipfamily.V4.Contains(key.To.Addr()): // the kernel would print IPv6 with this scope
		r.Scope = netlink.SCOPE_LINK
	}
	return r, nil
}
