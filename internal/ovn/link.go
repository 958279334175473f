package ovn

import (
	"net/netip"
	"strings"

	"github.com/sallyport/sallyport/internal/ovn/nb"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/snapshot"
	"github.com/sallyport/sallyport/internal/state"
)

// Links are the networks of the ports of a router that are ours, by port.
func (c *Client) Links(router string) map[string]netip.Prefix { return c.networks(router, true) }

// Networks are the addresses of the ports of a router that are not ours, by port. Where a port has several, there is none.
func (c *Client) Networks(router string) map[string]netip.Prefix { return c.networks(router, false) }

// networks are those of the ports of a router that are ours, or are not; nil: there is no such router.
func (c *Client) networks(router string, ours bool) map[string]netip.Prefix {
	s := c.current.Load()
	if s == nil {
		return nil
	}
	r := s.router(router)
	if r == nil {
		return nil
	}
	out := map[string]netip.Prefix{}
	for _, uuid := range r.Ports {
		p, there := row[nb.LogicalRouterPort](s, nb.LogicalRouterPortTable, uuid)
		if !there || (asker(router, p) != state.Ref{}) != ours {
			continue
		}
		if network := decodePort(p).Network; network.IsValid() {
			out[p.Name] = network
		}
	}
	return out
}

// Network is the network of a router port; invalid: there is no such port.
func (c *Client) Network(port string) netip.Prefix {
	if s := c.current.Load(); s != nil {
		if p := s.port(port); p != nil {
			return decodePort(p).Network
		}
	}
	return netip.Prefix{}
}

// Held are the chassis that may hold ports of a router, the first first, and who asked for that: by the name under which they do.
func (c *Client) Held(router string) map[string]snapshot.Held {
	s := c.current.Load()
	if s == nil {
		return nil
	}
	out := map[string]snapshot.Held{}
	groups, holders, _ := s.holders(map[string]string{ownership.RowShardKey: router})
	for i, h := range holders {
		out[h.Name] = snapshot.Held{Chassis: strings.Fields(h.Chassis), By: origin(groups[i].ExternalIDs, router).Name}
	}
	return out
}

// portName is the name of a router port; empty: there is none.
func (s *session) portName(uuid *string) string {
	if uuid == nil {
		return ""
	}
	if p, there := row[nb.LogicalRouterPort](s, nb.LogicalRouterPortTable, *uuid); there {
		return p.Name
	}
	return ""
}

// linked tells the router at the other end of a link that this end has changed.
func (x *index) linked(row any) {
	p, is := row.(*nb.LogicalRouterPort)
	if !is || p == nil || p.Peer == nil || *p.Peer == p.Name {
		return
	}
	if router := ownership.RouterOf(*p.Peer); router != "" {
		x.tell(router)
	}
}
