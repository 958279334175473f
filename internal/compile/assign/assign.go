// Package assign is the assignment of egress addresses to nodes.
package assign

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Node is a node that may hold addresses.
type Node struct {
	Name  string
	State State
	// Dead is a node that health checks have found dead, beyond what is reported of it.
	Dead bool
	// Networks are the external networks that the node is attached to.
	Networks map[string]bool
	// Addresses are the node's own. They can't be egress addresses.
	Addresses []netip.Addr
	// Capacity is the maximum number of addresses; 0: unlimited.
	Capacity int
}

// State says whether a node may hold addresses.
type State int

// The states of a node.
const (
	Down     State = iota // holds nothing
	Draining              // keeps its addresses until another node can hold them, gets no new ones
	Up
)

// Request is one object's request for addresses.
type Request struct {
	Name      string
	Created   time.Time
	Addresses []Address
	// Nodes are the nodes that may hold the addresses; nil: any.
	Nodes map[string]bool
	// Rebalance allows its addresses to move to nodes that hold fewer.
	Rebalance bool
}

// Address is one requested address and its current placement.
type Address struct {
	IP      netip.Addr
	Network string // the external network that contains it; empty: none
	Holder  string // the current holder; empty: none
	// Standbys are the nodes that take it over by themselves when the holder dies, the first first.
	Standbys []string
	// AvoidNode is a node that has just lost the address. It gets the address back only if no other node can hold it;
	// empty: none.
	AvoidNode string
}

// Placement is the node of an address, or the reason why it has none.
type Placement struct {
	Request string
	Address netip.Addr
	Node    string // empty: none
	// Standbys are the nodes that take it over by themselves when the node dies, the first first.
	Standbys      []string
	Rebalanced    bool // moved to a node that holds fewer addresses
	Reason        Reason
	ConflictsWith string // the node or request that has the address, with NodeAddress and Taken
}

// Reason is why an address has no node.
type Reason string

// The reasons.
const (
	NoNetwork   Reason = "NoNetwork" // in no external network
	NodeAddress Reason = "OfNode"    // a node's own address
	Taken       Reason = "Taken"     // held by another request, or requested twice
	NoNode      Reason = "NoNode"    // no eligible node
)

// Addresses places each address of the requests. It returns the placements sorted by the requests' names and by their
// position in the list.
//
// A holder keeps an address as long as it can: nothing moves because a node came back or because another node holds
// fewer. No node holds two addresses of the same request. An address whose holder is lost moves to the first of its
// standbys, which is already prepared. An address without a holder goes to the node with the fewest. In addition,
// addresses of requests with Rebalance move from nodes with many to nodes with few, and so do addresses of any request,
// at most as many as moves allows.
func Addresses(nodes []Node, requests []Request, moves int) []Placement {
	a := newAssignment(nodes, requests)
	a.doubtOutage()
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

// assignment holds one run.
type assignment struct {
	nodes   []*node // sorted by name
	claims  []*claim
	doubted bool // all nodes are down, which is not believed
}

// node is a node and the addresses assigned to it so far.
type node struct {
	Node
	addressCount int
	requests     map[string]bool
	standbyFor   map[*node]int // number of addresses that it takes over first when the given node dies
}

// claim is an address of a request and its placement.
type claim struct {
	Address
	request       *Request
	index         int // position in the request's list
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

// doubtOutage lets addresses and their standbys stay where they are if all of several nodes are reported down. Then it is not they
// that have failed, but the way to them, or the API server: after an outage of it, Kubernetes reports every node as not
// ready for a moment.
func (a *assignment) doubtOutage() {
	a.doubted = len(a.nodes) > 1 && !slices.ContainsFunc(a.nodes, func(n *node) bool { return n.State != Down || n.Dead })
	for _, n := range a.nodes {
		if a.doubted {
			n.State = Draining
		}
	}
}

// mayStandBy reports whether a node may be a standby of an address.
func (a *assignment) mayStandBy(n *node, c *claim) bool {
	return n.State == Up || a.doubted && slices.Contains(c.Standbys, n.Name)
}

// rejectImpossible rejects the addresses that no set of nodes could hold. Of several requests for one address the
// current holder's has precedence, then the oldest.
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

// keepHolders leaves addresses on their holders. Addresses on draining nodes are placed after all others, and stay if
// no other node can hold them.
func (a *assignment) keepHolders() {
	for _, c := range a.claims {
		if n := a.findNode(c.Holder); c.reason == "" && n != nil && n.State == Up && n.canHold(c) {
			c.assignTo(n)
		}
	}
}

// placeUnassigned gives each address without a node to its standby or to the node that holds the fewest.
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

// findStandby returns the first standby of an address that may hold it, if its holder is lost; otherwise nil.
func (a *assignment) findStandby(c *claim) *node {
	if n := a.findNode(c.Holder); c.Holder == "" || n != nil && n.State != Down {
		return nil // the holder is alive: the address may move to any node
	}
	for _, name := range c.Standbys {
		if n := a.findNode(name); n != nil && n.State == Up && n.canHold(c) && n.Name != c.AvoidNode {
			return n
		}
	}
	return nil
}

// standbyCount is the number of standby nodes for an address. More do not help: nodes find out who is alive by asking
// each other (BFD).
const standbyCount = 2

// assignStandbys chooses the nodes that take addresses over. The addresses of one node are spread evenly over the
// others. Nodes that hold another address of the same request come last. Current standbys are preferred.
func (a *assignment) assignStandbys() {
	for _, c := range a.claims {
		if c.node == nil {
			continue
		}
		best := a.bestStandbys(c)
		if len(best) > 0 {
			best[0].standbyFor[c.node]++
		}
		for _, n := range best {
			c.newStandbys = append(c.newStandbys, n.Name)
		}
	}
}

// bestStandbys returns the best standbyCount nodes for an address, the best first; of equal nodes the first by name.
func (a *assignment) bestStandbys(c *claim) (best []*node) {
	place := func(n *node) int {
		if i := slices.Index(c.Standbys, n.Name); i >= 0 {
			return i
		}
		return len(c.Standbys)
	}
	compare := func(x, y *node) int {
		return cmp.Or(compareBool(x.requests[c.request.Name], y.requests[c.request.Name]),
			cmp.Compare(place(x), place(y)),
			cmp.Compare(x.addressCount+x.standbyFor[c.node], y.addressCount+y.standbyFor[c.node]))
	}
	for _, n := range a.nodes {
		if n == c.node || !a.mayStandBy(n, c) || !n.isEligible(c) || n.Name == c.AvoidNode {
			continue
		}
		i := len(best)
		for i > 0 && compare(n, best[i-1]) < 0 {
			i--
		}
		if i < standbyCount {
			best = slices.Insert(best, i, n)
			best = best[:min(len(best), standbyCount)]
		}
	}
	return best
}

// rebalanceOne moves one address that may move from the node that holds the most to one that holds at least two fewer.
// It reports whether it did.
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

// leastLoadedNode returns the node that may hold an address and holds the fewest; nil: none may.
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

// canHold reports whether a node may hold an address.
func (n *node) canHold(c *claim) bool { return n.isEligible(c) && !n.requests[c.request.Name] }

// isEligible reports whether a node may hold an address, apart from other addresses of the same request.
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
