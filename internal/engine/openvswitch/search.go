package openvswitch

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// MaxMatches limits the connections returned for a filter.
const MaxMatches = 64

// ConnectionFilter selects connections between a client and a server, in either direction, before or after NAT.
type ConnectionFilter struct {
	Client netip.Addr
	Server netip.Addr // zero: any
	Port   uint16     // of the server; 0: any
}

// Usage is how many connections use an address.
type Usage struct {
	Address     netip.Addr
	Connections int
	// Protocol and To are the destination with the most ports of the address in use, and Ports is their number.
	Protocol string
	To       netip.AddrPort
	Ports    int
}

// Search collects the matches in a stream of connections. It keeps only those.
type Search struct {
	filters   []ConnectionFilter
	matches   []map[Connection]bool // by filter
	truncated []bool                // there were more than MaxMatches
	usage     map[netip.Addr]*addressUsage
	addresses []netip.Addr
}

// addressUsage counts the connections of an address.
type addressUsage struct {
	seen  map[Connection]bool // without state and zone: a connection may be tracked in several
	ports map[destination]int
}

type destination struct {
	protocol string
	to       netip.AddrPort
}

// NewSearch returns a search for filters, and for the usage of addresses.
func NewSearch(questions []ConnectionFilter, addresses []netip.Addr) *Search {
	s := &Search{
		filters: questions, matches: make([]map[Connection]bool, len(questions)),
		truncated: make([]bool, len(questions)),
		usage:     map[netip.Addr]*addressUsage{}, addresses: addresses,
	}
	for i := range s.matches {
		s.matches[i] = map[Connection]bool{}
	}
	for _, a := range addresses {
		s.usage[a] = &addressUsage{map[Connection]bool{}, map[destination]int{}}
	}
	return s
}

// IsEmpty reports whether there is nothing to search for.
func (s *Search) IsEmpty() bool { return len(s.filters) == 0 && len(s.addresses) == 0 }

// AddConnection checks a connection.
func (s *Search) AddConnection(c Connection) {
	for i, q := range s.filters {
		if !q.matchesConnection(c) {
			continue
		}
		if len(s.matches[i]) < MaxMatches {
			s.matches[i][c] = true
		} else if !s.matches[i][c] {
			s.truncated[i] = true
		}
	}
	if u := s.usage[c.Original.To.Addr()]; u != nil {
		u.countConnection(Connection{Protocol: c.Protocol, Original: c.Original}, false)
	}
	if u := s.usage[c.Reply.To.Addr()]; u != nil {
		u.countConnection(Connection{Protocol: c.Protocol, Reply: c.Reply}, true)
	}
}

// countConnection counts a connection once. An outgoing connection uses one port of the address.
func (u *addressUsage) countConnection(c Connection, leaves bool) {
	if u.seen[c] {
		return
	}
	u.seen[c] = true
	if leaves {
		u.ports[destination{c.Protocol, c.Reply.From}]++
	}
}

// matchesConnection reports whether a connection is between the client and the server.
func (q ConnectionFilter) matchesConnection(c Connection) bool {
	ends := c.endpoints()
	return slices.ContainsFunc(ends[:], func(e netip.AddrPort) bool { return e.Addr() == q.Client }) &&
		(!q.Server.IsValid() && q.Port == 0 || slices.ContainsFunc(ends[:], q.matchesServer))
}

// matchesServer reports whether an endpoint is the server.
func (q ConnectionFilter) matchesServer(end netip.AddrPort) bool {
	return (!q.Server.IsValid() || end.Addr() == q.Server) && (q.Port == 0 || end.Port() == q.Port)
}

// Matches returns the connections found, and the filters with more matches.
func (s *Search) Matches() (out []Connection, more []ConnectionFilter) {
	all := map[Connection]bool{}
	for i, q := range s.filters {
		for c := range s.matches[i] {
			if !all[c] {
				all[c] = true
				out = append(out, c)
			}
		}
		if s.truncated[i] {
			more = append(more, q)
		}
	}
	slices.SortFunc(out, func(a, b Connection) int {
		return cmp.Or(strings.Compare(a.Protocol, b.Protocol), a.Original.compare(b.Original), a.Reply.compare(b.Reply),
			cmp.Compare(a.Zone, b.Zone))
	})
	return out, more
}

func (t Tuple) compare(o Tuple) int { return cmp.Or(t.From.Compare(o.From), t.To.Compare(o.To)) }

// Usage returns the usage of the addresses, in their order.
func (s *Search) Usage() (out []Usage) {
	for _, a := range s.addresses {
		u := Usage{Address: a, Connections: len(s.usage[a].seen)}
		for d, n := range s.usage[a].ports {
			if n > u.Ports || n == u.Ports && cmp.Or(d.to.Compare(u.To), strings.Compare(d.protocol, u.Protocol)) < 0 {
				u.Protocol, u.To, u.Ports = d.protocol, d.to, n
			}
		}
		out = append(out, u)
	}
	return out
}
