package ovn

import (
	"iter"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// OwnPortNetworks returns the networks of our ports of a router, by port, or nil if there is no such router.
func (c *Client) OwnPortNetworks(router string) map[string]netip.Prefix {
	if s := c.current.Load(); s == nil || s.routerByName(router) == nil {
		return nil
	}
	out := map[string]netip.Prefix{}
	for p := range c.routerPorts(router, true) {
		if network := decodeRouterPort(p).Network; network.IsValid() {
			out[p.Name] = network
		}
	}
	return out
}

// ForeignPortNetworks returns the networks of the ports of a router that are not ours, by port, as
// intent.FormatNetworks formats them.
func (c *Client) ForeignPortNetworks(router string) map[string]string {
	var out map[string]string
	for p := range c.routerPorts(router, false) {
		if out == nil {
			out = map[string]string{}
		}
		out[p.Name] = strings.Join(slices.Sorted(slices.Values(p.Networks)), " ")
	}
	return out
}

// routerPorts visits the ports of a router that are ours or not ours.
func (c *Client) routerPorts(router string, ours bool) iter.Seq[*nb.LogicalRouterPort] {
	return func(visit func(*nb.LogicalRouterPort) bool) {
		s := c.current.Load()
		if s == nil {
			return
		}
		r := s.routerByName(router)
		if r == nil {
			return
		}
		for _, uuid := range r.Ports {
			p, there := rowByUUID[nb.LogicalRouterPort](s, nb.LogicalRouterPortTable, uuid)
			if there && (portOrigin(router, p) != state.Ref{}) == ours && !visit(p) {
				return
			}
		}
	}
}

// PortNetwork returns the network of a router port. It is invalid if there is no such port.
func (c *Client) PortNetwork(port string) netip.Prefix {
	if s := c.current.Load(); s != nil {
		if p := s.routerPortByName(port); p != nil {
			return decodeRouterPort(p).Network
		}
	}
	return netip.Prefix{}
}

// HAChassisGroups returns the chassis groups of a router by name: their chassis, highest priority first, and the
// EgressIP they belong to.
func (c *Client) HAChassisGroups(router string) map[string]snapshot.HAChassisGroup {
	s := c.current.Load()
	if s == nil {
		return nil
	}
	out := map[string]snapshot.HAChassisGroup{}
	groups, holders, _ := s.haChassisGroups(map[string]string{ownership.RowShardKey: router})
	for i, h := range holders {
		out[h.Name] = snapshot.HAChassisGroup{
			Chassis:  strings.Fields(h.Chassis),
			EgressIP: rowOrigin(groups[i].ExternalIDs, router).Name,
		}
	}
	return out
}

// routerPortName returns the name of a router port, or an empty string if there is none.
func (s *session) routerPortName(uuid *string) string {
	if uuid == nil {
		return ""
	}
	if p, there := rowByUUID[nb.LogicalRouterPort](s, nb.LogicalRouterPortTable, *uuid); there {
		return p.Name
	}
	return ""
}

// notifyLinkPeer notifies the router at the other end of a link.
func (x *rowIndex) notifyLinkPeer(row any) {
	p, is := row.(*nb.LogicalRouterPort)
	if !is || p == nil || p.Peer == nil || *p.Peer == p.Name {
		return
	}
	if router := ownership.EgressLinkRouter(*p.Peer); router != "" {
		x.notify(router)
	}
}
