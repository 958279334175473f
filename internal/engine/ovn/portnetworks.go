package ovn

import (
	"net/netip"
	"strings"

	"github.com/sallyport/sallyport/internal/engine/ovn/nb"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
	"github.com/sallyport/sallyport/internal/model/state"
)

// OwnPortNetworks are the networks of the ports of a router that are ours, by port.
func (c *Client) OwnPortNetworks(router string) map[string]netip.Prefix {
	return c.portNetworks(router, true)
}

// ForeignPortNetworks are the addresses of the ports of a router that are not ours, by port. Where a port has several,
// there is none.
func (c *Client) ForeignPortNetworks(router string) map[string]netip.Prefix {
	return c.portNetworks(router, false)
}

// portNetworks are those of the ports of a router that are ours, or are not; nil: there is no such router.
func (c *Client) portNetworks(router string, ours bool) map[string]netip.Prefix {
	s := c.current.Load()
	if s == nil {
		return nil
	}
	r := s.routerByName(router)
	if r == nil {
		return nil
	}
	out := map[string]netip.Prefix{}
	for _, uuid := range r.Ports {
		p, there := rowByUUID[nb.LogicalRouterPort](s, nb.LogicalRouterPortTable, uuid)
		if !there || (portOrigin(router, p) != state.Ref{}) != ours {
			continue
		}
		if network := decodeRouterPort(p).Network; network.IsValid() {
			out[p.Name] = network
		}
	}
	return out
}

// PortNetwork is the network of a router port; invalid: there is no such port.
func (c *Client) PortNetwork(port string) netip.Prefix {
	if s := c.current.Load(); s != nil {
		if p := s.routerPortByName(port); p != nil {
			return decodeRouterPort(p).Network
		}
	}
	return netip.Prefix{}
}

// HAChassisGroups are the chassis that may hold ports of a router, the first first, and who asked for that: by the name
// under which they do.
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

// routerPortName is the name of a router port; empty: there is none.
func (s *session) routerPortName(uuid *string) string {
	if uuid == nil {
		return ""
	}
	if p, there := rowByUUID[nb.LogicalRouterPort](s, nb.LogicalRouterPortTable, *uuid); there {
		return p.Name
	}
	return ""
}

// notifyLinkPeer tells the router at the other end of a link that this end has changed.
func (x *rowIndex) notifyLinkPeer(row any) {
	p, is := row.(*nb.LogicalRouterPort)
	if !is || p == nil || p.Peer == nil || *p.Peer == p.Name {
		return
	}
	if router := ownership.EgressLinkRouter(*p.Peer); router != "" {
		x.notify(router)
	}
}
