package openvswitch

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// Most is how many connections a question finds.
const Most = 64

// Question is about connections between a client and a server, in either direction and before or after translation.
type Question struct {
	Client netip.Addr
	Server netip.Addr // the zero value: any
	Port   uint16     // of the server; 0: any
}

// Usage is how many connections use an address.
type Usage struct {
	Address     netip.Addr
	Connections int
	// Protocol and To are the destination to which the most ports of the address are in use, and Ports is how many.
	Protocol string
	To       netip.AddrPort
	Ports    int
}

// Search looks for what is asked among connections that it is shown, one after the other. It keeps only what it finds.
type Search struct {
	questions []Question
	found     []map[Connection]bool // by question
	more      []bool                // there were too many
	usage     map[netip.Addr]*use
	addresses []netip.Addr
}

// use is the connections of an address.
type use struct {
	seen  map[Connection]bool // without state and zone: a connection may be tracked in several
	ports map[destination]int
}

type destination struct {
	protocol string
	to       netip.AddrPort
}

// NewSearch is a search for the answers to questions, and for how addresses are used.
func NewSearch(questions []Question, addresses []netip.Addr) *Search {
	s := &Search{
		questions: questions, found: make([]map[Connection]bool, len(questions)), more: make([]bool, len(questions)),
		usage: map[netip.Addr]*use{}, addresses: addresses,
	}
	for i := range s.found {
		s.found[i] = map[Connection]bool{}
	}
	for _, a := range addresses {
		s.usage[a] = &use{map[Connection]bool{}, map[destination]int{}}
	}
	return s
}

// Empty says whether nothing is asked.
func (s *Search) Empty() bool { return len(s.questions) == 0 && len(s.addresses) == 0 }

// See looks at a connection.
func (s *Search) See(c Connection) {
	for i, q := range s.questions {
		if !q.about(c) {
			continue
		}
		if len(s.found[i]) < Most {
			s.found[i][c] = true
		} else if !s.found[i][c] {
			s.more[i] = true
		}
	}
	if u := s.usage[c.Original.To.Addr()]; u != nil {
		u.add(Connection{Protocol: c.Protocol, Original: c.Original}, false)
	}
	if u := s.usage[c.Reply.To.Addr()]; u != nil {
		u.add(Connection{Protocol: c.Protocol, Reply: c.Reply}, true)
	}
}

// add counts a connection once. One that leaves with the address takes one of its ports.
func (u *use) add(c Connection, leaves bool) {
	if u.seen[c] {
		return
	}
	u.seen[c] = true
	if leaves {
		u.ports[destination{c.Protocol, c.Reply.From}]++
	}
}

// about says whether a connection is between a client and a server.
func (q Question) about(c Connection) bool {
	ends := c.ends()
	return slices.ContainsFunc(ends[:], func(e netip.AddrPort) bool { return e.Addr() == q.Client }) &&
		(!q.Server.IsValid() && q.Port == 0 || slices.ContainsFunc(ends[:], q.serves))
}

// serves says whether an end of a connection is the server's.
func (q Question) serves(end netip.AddrPort) bool {
	return (!q.Server.IsValid() || end.Addr() == q.Server) && (q.Port == 0 || end.Port() == q.Port)
}

// Found are the connections that somebody asked about, and the questions that have more answers.
func (s *Search) Found() (out []Connection, more []Question) {
	all := map[Connection]bool{}
	for i, q := range s.questions {
		for c := range s.found[i] {
			if !all[c] {
				all[c] = true
				out = append(out, c)
			}
		}
		if s.more[i] {
			more = append(more, q)
		}
	}
	slices.SortFunc(out, func(a, b Connection) int {
		return cmp.Or(strings.Compare(a.Protocol, b.Protocol), a.Original.compare(b.Original), a.Reply.compare(b.Reply), cmp.Compare(a.Zone, b.Zone))
	})
	return out, more
}

func (t Tuple) compare(o Tuple) int { return cmp.Or(t.From.Compare(o.From), t.To.Compare(o.To)) }

// Usage is how the addresses are used, in their order.
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
