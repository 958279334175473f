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
	Down     State = iota // it holds nothing
	Draining              // it holds what it has until another node can, and gets nothing
	Up
)

// Request is the addresses that one object asks for.
type Request struct {
	Name      string
	Created   time.Time
	Addresses []Address
	// Nodes are those that may hold them; nil: any.
	Nodes map[string]bool
	// Rebalance: its addresses may go to nodes that hold fewer.
	Rebalance bool
}

// Address is one of them.
type Address struct {
	IP      netip.Addr
	Network string // the external network that it is of; empty: of none
	Holder  string // the node that holds it now; empty: none
	// Standbys are the nodes that take it over by themselves when the holder dies, the first first.
	Standbys []string
	// AvoidNode is a node that has just lost it, and gets it only where no other can have it; empty: none.
	AvoidNode string
}

// Placement is where an address is, or why nowhere.
type Placement struct {
	Request string
	Address netip.Addr
	Node    string // empty: nowhere
	// Standbys are the nodes that take it over by themselves when the node dies, the first first.
	Standbys      []string
	Rebalanced    bool // it went to a node that holds fewer
	Reason        Reason
	ConflictsWith string // whose it is, for reasons that name somebody
}

// Reason is why an address has no node.
type Reason string

// The reasons.
const (
	NoNetwork   Reason = "NoNetwork" // it is of no external network
	NodeAddress Reason = "OfNode"    // it is an address of a node itself
	Taken       Reason = "Taken"     // another request has it, or this one asks for it twice
	NoNode      Reason = "NoNode"    // no node can hold it
)

// Addresses places each address of the requests, in the order of the requests' names and of their lists.
//
// Who holds an address keeps it as long as it can: nothing moves because a node came back, or another has less. Of one
// request no node holds two. An address whose holder is lost goes to the first of its standbys, which has it already,
// and one without a holder to the node that has the fewest. Beside that, those of requests that level go from nodes
// with many to nodes with few, and of all as many as moves allows.
func Addresses(nodes []Node, requests []Request, moves int) []Placement {
	a := newAssignment(nodes, requests)
	a.rejectImpossible()
	a.keepHolders()
	a.placeUnassigned()
	for range a.claims {
		if !a.rebalanceOne(func(c *claim) bool { return c.request.Rebalance }) {
			break
		}
	}
	for range moves {
		if !a.rebalanceOne(func(*claim) bool { return true }) {
			break
		}
	}
	a.assignStandbys()
	return a.sortedPlacements()
}

// assignment is one run.
type assignment struct {
	nodes  []*node // by name
	claims []*claim
}

// node is a node and what it holds by now.
type node struct {
	Node
	addressCount int
	requests     map[string]bool
	standbyFor   map[*node]int // addresses that it takes over first when a node dies
}

// claim is an address of a request and what became of it.
type claim struct {
	Address
	request       *Request
	index         int // in the request's list
	node          *node
	newStandbys   []string
	rebalanced    bool
	reason        Reason
	conflictsWith string
}

func newAssignment(nodes []Node, requests []Request) *assignment {
	a := &assignment{}
	for _, n := range slices.SortedFunc(slices.Values(nodes), func(x, y Node) int {
		return strings.Compare(x.Name, y.Name)
	}) {
		a.nodes = append(a.nodes, &node{Node: n, requests: map[string]bool{}, standbyFor: map[*node]int{}})
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

// rejectImpossible finds the addresses that can't be placed whatever the nodes do. Who holds an address has it, and
// then who asked first.
func (a *assignment) rejectImpossible() {
	own, taken := map[netip.Addr]string{}, map[netip.Addr]*claim{}
	for _, n := range a.nodes {
		for _, address := range n.Addresses {
			own[address] = n.Name
		}
	}
	for _, c := range slices.SortedStableFunc(slices.Values(a.claims), func(x, y *claim) int {
		return -compareBool(x.Holder != "", y.Holder != "")
	}) {
		first, again := taken[c.IP]
		owner, isOwn := own[c.IP]
		switch {
		case c.Network == "":
			c.reason = NoNetwork
		case isOwn:
			c.reason, c.conflictsWith = NodeAddress, owner
		case again:
			c.reason, c.conflictsWith = Taken, first.request.Name
		default:
			taken[c.IP] = c
		}
	}
}

// keepHolders leaves addresses where they are. Those on nodes that leave are placed after all others, and stay when no
// other node can hold them.
func (a *assignment) keepHolders() {
	for _, c := range a.claims {
		if n := a.findNode(c.Holder); c.reason == "" && n != nil && n.State == Up && n.canHold(c) {
			c.assignTo(n)
		}
	}
}

// placeUnassigned gives each address without a node to the node that holds the fewest.
func (a *assignment) placeUnassigned() {
	for _, c := range a.claims {
		if c.reason != "" || c.node != nil {
			continue
		}
		if n := a.findStandby(c); n != nil {
			c.assignTo(n)
		} else if n := a.leastLoadedNode(c); n != nil {
			c.assignTo(n)
		} else if n := a.findNode(c.Holder); n != nil && n.State == Draining && n.canHold(c) {
			c.assignTo(n)
		} else {
			c.reason = NoNode
		}
	}
}

// findStandby is the first of an address's standbys that may hold it, when its holder is lost; nil: none.
func (a *assignment) findStandby(c *claim) *node {
	if n := a.findNode(c.Holder); c.Holder == "" || n != nil && n.State != Down {
		return nil // it moves because it is to, and may go anywhere
	}
	for _, name := range c.Standbys {
		if n := a.findNode(name); n != nil && n.State == Up && n.canHold(c) && n.Name != c.AvoidNode {
			return n
		}
	}
	return nil
}

// standbyCount is how many nodes stand by for an address. More are no help: who is there is found by asking each other.
const standbyCount = 2

// assignStandbys finds the nodes that take addresses over. The addresses of one node are spread evenly over the others;
// who holds another address of the same request comes last. Those that stand by already go on.
func (a *assignment) assignStandbys() {
	place := func(c *claim, n *node) int {
		if i := slices.Index(c.Standbys, n.Name); i >= 0 {
			return i
		}
		return len(c.Standbys)
	}
	for _, c := range a.claims {
		if c.node == nil {
			continue
		}
		able := slices.DeleteFunc(slices.Clone(a.nodes), func(n *node) bool {
			return n == c.node || n.State != Up || !n.isEligible(c) || n.Name == c.AvoidNode
		})
		slices.SortStableFunc(able, func(x, y *node) int {
			return cmp.Or(compareBool(x.requests[c.request.Name], y.requests[c.request.Name]),
				cmp.Compare(place(c, x), place(c, y)),
				cmp.Compare(x.addressCount+x.standbyFor[c.node], y.addressCount+y.standbyFor[c.node]))
		})
		if len(able) > 0 {
			able[0].standbyFor[c.node]++
		}
		for _, n := range able[:min(len(able), standbyCount)] {
			c.newStandbys = append(c.newStandbys, n.Name)
		}
	}
}

// rebalanceOne moves one address that may move from the node that holds the most to one that holds at least two less,
// and says whether it did.
func (a *assignment) rebalanceOne(may func(*claim) bool) bool {
	byLoad := slices.SortedStableFunc(slices.Values(a.nodes), func(x, y *node) int {
		return cmp.Compare(y.addressCount, x.addressCount)
	})
	for _, full := range byLoad {
		for _, c := range a.claims {
			if c.node != full || !may(c) {
				continue
			}
			if n := a.leastLoadedNode(c); n != nil && n.addressCount+2 <= full.addressCount {
				c.unassign()
				c.assignTo(n)
				c.rebalanced = true
				return true
			}
		}
	}
	return false
}

// leastLoadedNode is the node that may hold an address and holds the fewest; nil: none may.
func (a *assignment) leastLoadedNode(c *claim) *node {
	var best *node
	for _, n := range a.nodes {
		if n.State == Up && n.canHold(c) &&
			(best == nil || best.Name == c.AvoidNode || n.Name != c.AvoidNode && n.addressCount < best.addressCount) {
			best = n
		}
	}
	return best
}

func (a *assignment) findNode(name string) *node {
	i, found := slices.BinarySearchFunc(a.nodes, name, func(n *node, name string) int {
		return strings.Compare(n.Name, name)
	})
	if !found {
		return nil
	}
	return a.nodes[i]
}

func (a *assignment) sortedPlacements() []Placement {
	slices.SortStableFunc(a.claims, func(x, y *claim) int {
		return cmp.Or(strings.Compare(x.request.Name, y.request.Name), cmp.Compare(x.index, y.index))
	})
	out := make([]Placement, 0, len(a.claims))
	for _, c := range a.claims {
		p := Placement{
			Request:       c.request.Name,
			Address:       c.IP,
			Standbys:      c.newStandbys,
			Rebalanced:    c.rebalanced,
			Reason:        c.reason,
			ConflictsWith: c.conflictsWith,
		}
		if c.node != nil {
			p.Node = c.node.Name
		}
		out = append(out, p)
	}
	return out
}

// canHold says whether a node that is there may hold an address.
func (n *node) canHold(c *claim) bool { return n.isEligible(c) && !n.requests[c.request.Name] }

// isEligible says whether it may hold it if it holds no other address of the request.
func (n *node) isEligible(c *claim) bool {
	return n.Networks[c.Network] && (c.request.Nodes == nil || c.request.Nodes[n.Name]) &&
		(n.Capacity == 0 || n.addressCount < n.Capacity)
}

func (c *claim) assignTo(n *node) {
	c.node = n
	n.addressCount++
	n.requests[c.request.Name] = true
}

func (c *claim) unassign() {
	c.node.addressCount--
	delete(c.node.requests, c.request.Name)
	c.node = nil
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
