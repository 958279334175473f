package assign

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var baseTime = time.Unix(1_700_000_000, 0)

func mustAddr(text string) netip.Addr { return netip.MustParseAddr(text) }

// newUpNodes returns nodes on one network.
func newUpNodes(names ...string) (out []Node) {
	for _, name := range names {
		out = append(out, Node{Name: name, State: Up, Networks: map[string]bool{"ext": true}})
	}
	return out
}

// newRequest returns a request for addresses, each with its holder after an @.
func newRequest(name string, age int, addresses ...string) Request {
	r := Request{Name: name, Created: baseTime.Add(-time.Duration(age) * time.Hour)}
	for _, a := range addresses {
		text, holder, _ := strings.Cut(a, "@")
		r.Addresses = append(r.Addresses, Address{IP: mustAddr(text), Network: "ext", Holder: holder})
	}
	return r
}

// formatPlacements formats placements in short.
func formatPlacements(placements []Placement) string {
	var out []string
	for _, p := range placements {
		where := p.Node
		if p.Reason != "" {
			where = fmt.Sprintf("%s(%s)", p.Reason, p.ConflictsWith)
		}
		out = append(out, fmt.Sprintf("%s %s@%s", p.Request, p.Address, where))
	}
	return strings.Join(out, ", ")
}

// withFirstState returns nodes of which the first is in another state.
func withFirstState(s State, nodes []Node) []Node {
	nodes[0].State = s
	return nodes
}

func withState(s State, nodes []Node) []Node {
	for i := range nodes {
		nodes[i].State = s
	}
	return nodes
}

func withAvoidNode(node string, r Request) Request {
	for i := range r.Addresses {
		r.Addresses[i].AvoidNode = node
	}
	return r
}

func withRebalance(r Request) Request {
	r.Rebalance = true
	return r
}

var placementCases = []struct {
	what     string
	nodes    []Node
	requests []Request
	moves    int
	want     string
}{
	{"the first goes to the first", newUpNodes("a", "b"), []Request{newRequest("x", 0, "10.0.0.1")}, 0, "x 10.0.0.1@a"},
	{
		"never two of one on a node", newUpNodes("a", "b"),
		[]Request{newRequest("x", 0, "10.0.0.1", "10.0.0.2", "10.0.0.3")},
		0,
		"x 10.0.0.1@a, x 10.0.0.2@b, x 10.0.0.3@NoNode()",
	},
	{
		"the node with the fewest", newUpNodes("a", "b"),
		[]Request{newRequest("x", 2, "10.0.0.1"), newRequest("y", 1, "10.0.0.2"), newRequest("z", 0, "10.0.0.3")},
		0,
		"x 10.0.0.1@a, y 10.0.0.2@b, z 10.0.0.3@a",
	},
	{
		"what is held stays, however uneven", newUpNodes("a", "b"),
		[]Request{newRequest("x", 0, "10.0.0.1@b"), newRequest("y", 0, "10.0.0.2@b")},
		0,
		"x 10.0.0.1@b, y 10.0.0.2@b",
	},
	{
		"unless moves are allowed", newUpNodes("a", "b"),
		[]Request{newRequest("x", 0, "10.0.0.1@b"), newRequest("y", 0, "10.0.0.2@b")},
		5,
		"x 10.0.0.1@a, y 10.0.0.2@b",
	},
	{
		"no more moves than allowed", newUpNodes("a", "b"),
		[]Request{
			newRequest("w", 0, "10.0.0.1@b"), newRequest("x", 0, "10.0.0.2@b"), newRequest("y", 0, "10.0.0.3@b"),
			newRequest("z", 0, "10.0.0.4@b"),
		},
		1,
		"w 10.0.0.1@a, x 10.0.0.2@b, y 10.0.0.3@b, z 10.0.0.4@b",
	},
	{
		"of a request that levels, and no other", newUpNodes("a", "b"),
		[]Request{
			newRequest("w", 0, "10.0.0.1@b"), withRebalance(newRequest("x", 0, "10.0.0.2@b")),
			withRebalance(newRequest("y", 0, "10.0.0.3@b")), newRequest("z", 0, "10.0.0.4@b"),
		},
		0,
		"w 10.0.0.1@b, x 10.0.0.2@a, y 10.0.0.3@a, z 10.0.0.4@b",
	},
	{
		"which has its share already", newUpNodes("a", "b"),
		[]Request{
			newRequest("w", 0, "10.0.0.1@a"), withRebalance(newRequest("x", 0, "10.0.0.2@b")),
			newRequest("y", 0, "10.0.0.3@b"),
		},
		0,
		"w 10.0.0.1@a, x 10.0.0.2@b, y 10.0.0.3@b",
	},
	{
		"a dead node holds nothing", withFirstState(Down, newUpNodes("a", "b")),
		[]Request{newRequest("x", 0, "10.0.0.1@a")},
		0, "x 10.0.0.1@b",
	},
	{
		"a node that has just lost it comes last", withFirstState(Down, newUpNodes("a", "b", "c")),
		[]Request{withAvoidNode("b", newRequest("x", 0, "10.0.0.1@a"))},
		0, "x 10.0.0.1@c",
	},
	{
		"and yet before none", withFirstState(Down, newUpNodes("a", "b")),
		[]Request{withAvoidNode("b", newRequest("x", 0, "10.0.0.1@a"))},
		0, "x 10.0.0.1@b",
	},
	{
		"all nodes dead", withFirstState(Down, newUpNodes("a")),
		[]Request{newRequest("x", 0, "10.0.0.1@a")},
		0,
		"x 10.0.0.1@NoNode()",
	},
	{
		"of several nodes, all at once: it is not they that failed", withState(Down, newUpNodes("a", "b", "c")),
		[]Request{newRequest("x", 0, "10.0.0.1@a"), newRequest("y", 0, "10.0.0.2@c"), newRequest("z", 0, "10.0.0.3")},
		0,
		"x 10.0.0.1@a, y 10.0.0.2@c, z 10.0.0.3@NoNode()",
	},
	{"a node that is gone", newUpNodes("b"), []Request{newRequest("x", 0, "10.0.0.1@a")}, 0, "x 10.0.0.1@b"},
	{
		"a node that leaves hands over", withFirstState(Draining, newUpNodes("a", "b")),
		[]Request{newRequest("x", 0, "10.0.0.1@a")},
		0, "x 10.0.0.1@b",
	},
	{
		"and gets nothing", withFirstState(Draining, newUpNodes("a", "b")),
		[]Request{newRequest("x", 0, "10.0.0.1")},
		0,
		"x 10.0.0.1@b",
	},
	{
		"or keeps what nobody else can hold", withFirstState(Draining, newUpNodes("a")),
		[]Request{newRequest("x", 0, "10.0.0.1@a")},
		0, "x 10.0.0.1@a",
	},
	{
		"of two who ask the older has it", newUpNodes("a", "b"),
		[]Request{newRequest("x", 1, "10.0.0.1"), newRequest("y", 2, "10.0.0.1")},
		0,
		"x 10.0.0.1@Taken(y), y 10.0.0.1@a",
	},
	{
		"but who holds it keeps it", newUpNodes("a", "b"),
		[]Request{newRequest("x", 1, "10.0.0.1@b"), newRequest("y", 2, "10.0.0.1")},
		0,
		"x 10.0.0.1@b, y 10.0.0.1@Taken(x)",
	},
	{
		"asked for twice by one", newUpNodes("a", "b"),
		[]Request{newRequest("x", 1, "10.0.0.1", "10.0.0.1")},
		0,
		"x 10.0.0.1@a, x 10.0.0.1@Taken(x)",
	},
	{
		"a node's own address", append(newUpNodes("a"), Node{Name: "b", Addresses: []netip.Addr{mustAddr("10.0.0.1")}}),
		[]Request{newRequest("x", 1, "10.0.0.1")},
		0,
		"x 10.0.0.1@OfNode(b)",
	},
	{
		"another network", newUpNodes("a"),
		[]Request{{Name: "x", Addresses: []Address{
			{IP: mustAddr("10.9.0.1"), Network: "other"},
			{IP: mustAddr("10.8.0.1")},
		}}},
		0,
		"x 10.9.0.1@NoNode(), x 10.8.0.1@NoNetwork()",
	},
	{
		"only some nodes", newUpNodes("a", "b"),
		[]Request{{Name: "x", Nodes: map[string]bool{"b": true}, Addresses: newRequest("", 0, "10.0.0.1").Addresses}},
		0, "x 10.0.0.1@b",
	},
	{
		"the holder is not among them any more", newUpNodes("a", "b"),
		[]Request{{Name: "x", Nodes: map[string]bool{"b": true}, Addresses: newRequest("", 0, "10.0.0.1@a").Addresses}},
		0, "x 10.0.0.1@b",
	},
	{
		"no room",
		[]Node{{Name: "a", State: Up, Networks: map[string]bool{"ext": true}, Capacity: 1}},
		[]Request{newRequest("x", 1, "10.0.0.1"), newRequest("y", 0, "10.0.0.2")},
		0,
		"x 10.0.0.1@a, y 10.0.0.2@NoNode()",
	},
}

func TestPlacement(t *testing.T) {
	for _, c := range placementCases {
		if got := formatPlacements(Addresses(c.nodes, c.requests, c.moves)); got != c.want {
			t.Errorf("%s: %s; wanted %s", c.what, got, c.want)
		}
	}
}

// One of ten nodes with a hundred addresses is lost: only its addresses move, and the rest stay even.
func TestNodeLost(t *testing.T) {
	var names []string
	for i := range 10 {
		names = append(names, fmt.Sprintf("node%d", i))
	}
	var requests []Request
	for i := range 100 {
		requests = append(requests, newRequest(fmt.Sprintf("e%02d", i), 0, fmt.Sprintf("10.0.0.%d", i+1)))
	}
	nodes := newUpNodes(names...)
	before := recordHolders(requests, Addresses(nodes, requests, 0))
	nodes[3].State = Down
	loads := map[string]int{}
	for i, p := range Addresses(nodes, requests, 0) {
		loads[p.Node]++
		if before[i] != "node3" && before[i] != p.Node {
			t.Errorf("%s was on %s, which is well, and is on %s", p.Request, before[i], p.Node)
		}
	}
	for name, n := range loads {
		if n < 11 || n > 12 || name == "node3" {
			t.Errorf("%s holds %d", name, n)
		}
	}
}

// recordHolders writes placements into requests as their holders, and returns the nodes.
func recordHolders(requests []Request, placements []Placement) (nodes []string) {
	for i, p := range placements {
		requests[i].Addresses[0].Holder = p.Node
		nodes = append(nodes, p.Node)
	}
	return nodes
}

// Invariants for any nodes and requests.
func TestPromises(t *testing.T) {
	chance := rand.New(rand.NewPCG(7, 8))
	for range 3000 {
		nodes, requests, moves := randomCluster(chance)
		got := Addresses(nodes, requests, moves)
		checkInvariants(t, nodes, requests, moves, got)
		slices.Reverse(nodes)
		slices.Reverse(requests)
		if again := Addresses(nodes, requests, moves); !reflect.DeepEqual(again, got) {
			t.Fatalf("in another order: %s; %s", formatPlacements(again), formatPlacements(got))
		}
		if t.Failed() {
			t.Fatalf("%+v %+v: %s", nodes, requests, formatPlacements(got))
		}
	}
}

func randomCluster(chance *rand.Rand) (nodes []Node, requests []Request, moves int) {
	for i := range chance.IntN(5) {
		n := Node{
			Name:     fmt.Sprintf("n%d", i),
			State:    State(chance.IntN(3)),
			Networks: map[string]bool{"ext": chance.IntN(5) > 0},
			Capacity: chance.IntN(4),
		}
		if chance.IntN(5) == 0 {
			n.Addresses = []netip.Addr{mustAddr(fmt.Sprintf("10.0.0.%d", chance.IntN(6)))}
		}
		nodes = append(nodes, n)
	}
	for i := range chance.IntN(5) {
		r := Request{Name: fmt.Sprintf("r%d", i), Created: baseTime.Add(time.Duration(chance.IntN(3)) * time.Second)}
		for range chance.IntN(3) {
			a := Address{IP: mustAddr(fmt.Sprintf("10.0.0.%d", chance.IntN(6))), Network: "ext"}
			if chance.IntN(2) == 0 {
				a.Holder = fmt.Sprintf("n%d", chance.IntN(5))
			}
			r.Addresses = append(r.Addresses, a)
		}
		if chance.IntN(4) == 0 {
			r.Nodes = map[string]bool{"n0": true, "n1": true}
		}
		requests = append(requests, r)
	}
	return nodes, requests, chance.IntN(3)
}

func checkInvariants(t *testing.T, nodes []Node, requests []Request, moves int, got []Placement) {
	t.Helper()
	byName := map[string]Node{}
	for _, n := range nodes {
		byName[n.Name] = n
	}
	placed, ofRequest, loads := map[netip.Addr]bool{}, map[string]bool{}, map[string]int{}
	for _, p := range got {
		if (p.Node == "") == (p.Reason == "") {
			t.Errorf("%+v is somewhere and says why not, or the other way round", p)
		}
		if p.Node == "" {
			continue
		}
		n := byName[p.Node]
		allDown := !slices.ContainsFunc(nodes, func(n Node) bool { return n.State != Down })
		if placed[p.Address] || ofRequest[p.Request+" on "+p.Node] || (n.State == Down && !allDown) || !n.Networks["ext"] {
			t.Errorf("%+v can't be there", p)
		}
		placed[p.Address], ofRequest[p.Request+" on "+p.Node] = true, true
		if loads[p.Node]++; n.Capacity > 0 && loads[p.Node] > n.Capacity {
			t.Errorf("%s holds more than it can", p.Node)
		}
	}
	if len(got) != countAddresses(requests) {
		t.Errorf("%d placements of %d addresses", len(got), countAddresses(requests))
	}
	for _, p := range got {
		if holder, simple := holderOf(requests, p), moves == 0; simple && mayStay(byName[holder], requests, nodes, p) &&
			p.Node != holder {
			t.Errorf("%+v was on %s and had no reason to move", p, holder)
		}
	}
}

// mayStay reports whether an address may stay where it is, as far as that is simple to say.
func mayStay(holder Node, requests []Request, nodes []Node, p Placement) bool {
	for _, n := range nodes {
		if slices.Contains(n.Addresses, p.Address) {
			return false
		}
	}
	asked := 0
	for _, r := range requests {
		for _, a := range r.Addresses {
			if a.IP == p.Address {
				asked++
			}
			if r.Name == p.Request && (r.Nodes != nil || a.IP != p.Address && a.Holder == holder.Name) {
				return false
			}
		}
	}
	return asked == 1 && holder.State == Up && holder.Networks["ext"] && holder.Capacity == 0
}

func holderOf(requests []Request, p Placement) string {
	for _, r := range requests {
		for _, a := range r.Addresses {
			if r.Name == p.Request && a.IP == p.Address {
				return a.Holder
			}
		}
	}
	return ""
}

func countAddresses(requests []Request) (n int) {
	for _, r := range requests {
		n += len(r.Addresses)
	}
	return n
}

// One of ten nodes with 100 addresses dies: each moves to its first standby, which is already prepared, and they are
// spread.
// TestStandbysStayInAnOutageOfAllNodes shows that an outage of the API server changes nothing in OVN. One node that is still
// there makes it the others' own failure.
func TestStandbysStayInAnOutageOfAllNodes(t *testing.T) {
	x := newRequest("x", 0, "10.0.0.1@a")
	x.Addresses[0].Standbys = []string{"c", "b"}
	got := Addresses(withState(Down, newUpNodes("a", "b", "c")), []Request{x}, 0)[0]
	if got.Node != "a" || !slices.Equal(got.Standbys, []string{"c", "b"}) {
		t.Errorf("all nodes are down: on %q, standbys %v", got.Node, got.Standbys)
	}
	nodes := withState(Down, newUpNodes("a", "b", "c"))
	nodes[2].State = Up
	if got = Addresses(nodes, []Request{x}, 0)[0]; got.Node != "c" || len(got.Standbys) > 0 {
		t.Errorf("c is up: on %q, standbys %v", got.Node, got.Standbys)
	}
}

func TestLostNodesAddressesGoToTheirStandbys(t *testing.T) {
	nodes, requests := manyNodesAndRequests(10, 100)
	before := Addresses(nodes, requests, 0)
	lost := nodes[3].Name
	first := map[netip.Addr]string{}
	for i, p := range before {
		if len(p.Standbys) != standbyCount || slices.Contains(p.Standbys, p.Node) {
			t.Fatalf("%s is held by %s and stood by for by %v", p.Address, p.Node, p.Standbys)
		}
		first[p.Address] = p.Standbys[0]
		requests[i].Addresses[0].Holder, requests[i].Addresses[0].Standbys = p.Node, p.Standbys
	}
	nodes[3].State = Down
	load := map[string]int{}
	for i, p := range Addresses(nodes, requests, 0) {
		load[p.Node]++
		switch {
		case before[i].Node == lost && p.Node != first[p.Address]:
			t.Errorf("%s went to %s, and %s had it already", p.Address, p.Node, first[p.Address])
		case before[i].Node != lost && p.Node != before[i].Node:
			t.Errorf("%s moved from %s to %s", p.Address, before[i].Node, p.Node)
		}
	}
	for name, n := range load {
		if n < 11 || n > 12 {
			t.Errorf("%s holds %d of 100 addresses, on nine nodes", name, n)
		}
	}
}

// manyNodesAndRequests returns nodes on one network, and requests for one address each.
func manyNodesAndRequests(nodes, requests int) (outNodes []Node, outRequests []Request) {
	for i := range nodes {
		outNodes = append(outNodes, Node{
			Name:     fmt.Sprintf("node%02d", i),
			State:    Up,
			Networks: map[string]bool{"public": true},
		})
	}
	for i := range requests {
		outRequests = append(outRequests, Request{Name: fmt.Sprintf("e%03d", i), Addresses: []Address{
			{IP: netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}), Network: "public"},
		}})
	}
	return outNodes, outRequests
}
