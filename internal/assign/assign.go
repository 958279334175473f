// Package assign is which node holds each egress address.
package assign

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Node is a node as far as it matters who holds an address.
type Node struct {
	Name  string
	State State
	// Networks are the external networks that end on the node.
	Networks map[string]bool
	// Addresses are the node's own. Nobody else can have them.
	Addresses []netip.Addr
	// Capacity is how many addresses the node may hold; 0: any number.
	Capacity int
}

// State is what a node is good for.
type State int

// The states of a node.
const (
	Down    State = iota // it holds nothing
	Leaving              // it holds what it has until another node can, and gets nothing
	Up
)

// Request is the addresses that one object asks for.
type Request struct {
	Name      string
	Created   time.Time
	Addresses []Address
	// Nodes are those that may hold them; nil: any.
	Nodes map[string]bool
	// Levels: its addresses may go to nodes that hold fewer.
	Levels bool
}

// Address is one of them.
type Address struct {
	Address netip.Addr
	Network string // the external network that it is of; empty: of none
	Holder  string // the node that holds it now; empty: none
	// Standbys are the nodes that take it over by themselves when the holder dies, the first first.
	Standbys []string
	// Avoids is a node that has just lost it, and gets it only where no other can have it; empty: none.
	Avoids string
}

// Placement is where an address is, or why nowhere.
type Placement struct {
	Request string
	Address netip.Addr
	Node    string // empty: nowhere
	// Standbys are the nodes that take it over by themselves when the node dies, the first first.
	Standbys []string
	Leveled  bool // it went to a node that holds fewer
	Why      Reason
	Who      string // whose it is, for reasons that name somebody
}

// Reason is why an address has no node.
type Reason string

// The reasons.
const (
	NoNetwork Reason = "NoNetwork" // it is of no external network
	OfNode    Reason = "OfNode"    // it is an address of a node itself
	Taken     Reason = "Taken"     // another request has it, or this one asks for it twice
	NoNode    Reason = "NoNode"    // no node can hold it
)

// Addresses places each address of the requests, in the order of the requests' names and of their lists.
//
// Who holds an address keeps it as long as it can: nothing moves because a node came back, or another has less. Of one request no
// node holds two. An address whose holder is lost goes to the first of its standbys, which has it already, and one without a holder to
// the node that has the fewest. Beside that, those of requests that level go from nodes with many to nodes with few, and of all as many as
// moves allows.
func Addresses(nodes []Node, requests []Request, moves int) []Placement {
	a := newAssignment(nodes, requests)
	a.refuse()
	a.keep()
	a.place()
	for range a.claims {
		if !a.level(func(c *claim) bool { return c.request.Levels }) {
			break
		}
	}
	for range moves {
		if !a.level(func(*claim) bool { return true }) {
			break
		}
	}
	a.standBy()
	return a.placements()
}

// assignment is one run.
type assignment struct {
	nodes  []*node // by name
	claims []*claim
}

// node is a node and what it holds by now.
type node struct {
	Node
	holds    int
	requests map[string]bool
	waits    map[*node]int // addresses that it takes over first when a node dies
}

// claim is an address of a request and what became of it.
type claim struct {
	Address
	request *Request
	index   int // in the request's list
	at      *node
	next    []string
	leveled bool
	why     Reason
	who     string
}

func newAssignment(nodes []Node, requests []Request) *assignment {
	a := &assignment{}
	for _, n := range slices.SortedFunc(slices.Values(nodes), func(x, y Node) int { return strings.Compare(x.Name, y.Name) }) {
		a.nodes = append(a.nodes, &node{Node: n, requests: map[string]bool{}, waits: map[*node]int{}})
	}
	requests = slices.SortedFunc(slices.Values(requests), func(x, y Request) int {
		return cmp.Or(x.Created.Compare(y.Created), strings.Compare(x.Name, y.Name))
	})
	for i := range requests {
		for index, address := range requests[i].Addresses {
			a.claims = append(a.claims, &claim{Address: address, request: &requests[i], index: index})
		}
	}
	return a
}

// refuse finds the addresses that can't be placed whatever the nodes do. Who holds an address has it, and then who asked first.
func (a *assignment) refuse() {
	own, taken := map[netip.Addr]string{}, map[netip.Addr]*claim{}
	for _, n := range a.nodes {
		for _, address := range n.Addresses {
			own[address] = n.Name
		}
	}
	for _, c := range slices.SortedStableFunc(slices.Values(a.claims), func(x, y *claim) int { return -compareBool(x.Holder != "", y.Holder != "") }) {
		first, again := taken[c.Address.Address]
		owner, isOwn := own[c.Address.Address]
		switch {
		case c.Network == "":
			c.why = NoNetwork
		case isOwn:
			c.why, c.who = OfNode, owner
		case again:
			c.why, c.who = Taken, first.request.Name
		default:
			taken[c.Address.Address] = c
		}
	}
}

// keep leaves addresses where they are. Those on nodes that leave are placed after all others, and stay when no other node can hold them.
func (a *assignment) keep() {
	for _, c := range a.claims {
		if n := a.node(c.Holder); c.why == "" && n != nil && n.State == Up && n.can(c) {
			c.take(n)
		}
	}
}

// place gives each address without a node to the node that holds the fewest.
func (a *assignment) place() {
	for _, c := range a.claims {
		if c.why != "" || c.at != nil {
			continue
		}
		if n := a.standby(c); n != nil {
			c.take(n)
		} else if n := a.fewest(c); n != nil {
			c.take(n)
		} else if n := a.node(c.Holder); n != nil && n.State == Leaving && n.can(c) {
			c.take(n)
		} else {
			c.why = NoNode
		}
	}
}

// standby is the first of an address's standbys that may hold it, when its holder is lost; nil: none.
func (a *assignment) standby(c *claim) *node {
	if n := a.node(c.Holder); c.Holder == "" || n != nil && n.State != Down {
		return nil // it moves because it is to, and may go anywhere
	}
	for _, name := range c.Standbys {
		if n := a.node(name); n != nil && n.State == Up && n.can(c) && n.Name != c.Avoids {
			return n
		}
	}
	return nil
}

// standbys is how many nodes stand by for an address. More are no help: who is there is found by asking each other.
const standbys = 2

// standBy finds the nodes that take addresses over. The addresses of one node are spread evenly over the others; who holds another address
// of the same request comes last. Those that stand by already go on.
func (a *assignment) standBy() {
	place := func(c *claim, n *node) int {
		if i := slices.Index(c.Standbys, n.Name); i >= 0 {
			return i
		}
		return len(c.Standbys)
	}
	for _, c := range a.claims {
		if c.at == nil {
			continue
		}
		able := slices.DeleteFunc(slices.Clone(a.nodes), func(n *node) bool { return n == c.at || n.State != Up || !n.could(c) || n.Name == c.Avoids })
		slices.SortStableFunc(able, func(x, y *node) int {
			return cmp.Or(compareBool(x.requests[c.request.Name], y.requests[c.request.Name]), cmp.Compare(place(c, x), place(c, y)),
				cmp.Compare(x.holds+x.waits[c.at], y.holds+y.waits[c.at]))
		})
		if len(able) > 0 {
			able[0].waits[c.at]++
		}
		for _, n := range able[:min(len(able), standbys)] {
			c.next = append(c.next, n.Name)
		}
	}
}

// level moves one address that may move from the node that holds the most to one that holds at least two less, and says whether it did.
func (a *assignment) level(may func(*claim) bool) bool {
	byLoad := slices.SortedStableFunc(slices.Values(a.nodes), func(x, y *node) int { return cmp.Compare(y.holds, x.holds) })
	for _, full := range byLoad {
		for _, c := range a.claims {
			if c.at != full || !may(c) {
				continue
			}
			if n := a.fewest(c); n != nil && n.holds+2 <= full.holds {
				c.leave()
				c.take(n)
				c.leveled = true
				return true
			}
		}
	}
	return false
}

// fewest is the node that may hold an address and holds the fewest; nil: none may.
func (a *assignment) fewest(c *claim) *node {
	var best *node
	for _, n := range a.nodes {
		if n.State == Up && n.can(c) && (best == nil || best.Name == c.Avoids || n.Name != c.Avoids && n.holds < best.holds) {
			best = n
		}
	}
	return best
}

func (a *assignment) node(name string) *node {
	i, found := slices.BinarySearchFunc(a.nodes, name, func(n *node, name string) int { return strings.Compare(n.Name, name) })
	if !found {
		return nil
	}
	return a.nodes[i]
}

func (a *assignment) placements() []Placement {
	slices.SortStableFunc(a.claims, func(x, y *claim) int {
		return cmp.Or(strings.Compare(x.request.Name, y.request.Name), cmp.Compare(x.index, y.index))
	})
	out := make([]Placement, 0, len(a.claims))
	for _, c := range a.claims {
		p := Placement{Request: c.request.Name, Address: c.Address.Address, Standbys: c.next, Leveled: c.leveled, Why: c.why, Who: c.who}
		if c.at != nil {
			p.Node = c.at.Name
		}
		out = append(out, p)
	}
	return out
}

// can says whether a node that is there may hold an address.
func (n *node) can(c *claim) bool { return n.could(c) && !n.requests[c.request.Name] }

// could says whether it may hold it if it holds no other address of the request.
func (n *node) could(c *claim) bool {
	return n.Networks[c.Network] && (c.request.Nodes == nil || c.request.Nodes[n.Name]) && (n.Capacity == 0 || n.holds < n.Capacity)
}

func (c *claim) take(n *node) {
	c.at = n
	n.holds++
	n.requests[c.request.Name] = true
}

func (c *claim) leave() {
	c.at.holds--
	delete(c.at.requests, c.request.Name)
	c.at = nil
}

func compareBool(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return 1
	default:
		return -1
	}
}
