package diagnosis

import (
	"net/netip"
	"slices"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/survey"
)

// Case is what somebody wants to know: everything, or about a connection.
type Case struct {
	// Nodes are those that are asked; none: all.
	Nodes []string
	// Client and Server are the ends of a connection as the client sees it; invalid: no connection in particular.
	Client netip.Addr
	Server netip.AddrPort
}

// How many questions of a kind a node is asked. The kind Inspection allows no more.
const (
	mostNeighbours = 256
	mostUsage      = 1024
)

// anywhere are destinations outside, for questions about ways to the outside as such: addresses that are for documentation only.
var anywhere = map[bool]netip.Addr{true: netip.MustParseAddr("203.0.113.1"), false: netip.MustParseAddr("2001:db8::1")}

// Questions are what nodes have to be asked, one question each, so that Examine can tell what is wrong there. A node that is not Ready is
// not asked.
func Questions(s *survey.Survey, c Case) (out []kubedcv1alpha1.InspectionSpec) {
	q := &questions{patient: admit(s), about: c, asked: map[string]*kubedcv1alpha1.InspectionSpec{}}
	for _, n := range s.Cluster.Nodes {
		if n.Ready && (len(c.Nodes) == 0 || slices.Contains(c.Nodes, n.Name)) {
			q.asked[n.Name] = &kubedcv1alpha1.InspectionSpec{Node: n.Name}
		}
	}
	q.gateways()
	q.addresses()
	q.ways()
	q.connections()
	for _, name := range byName(q.asked) {
		out = append(out, *q.asked[name])
	}
	return out
}

// questions are being made.
type questions struct {
	*patient
	about Case
	asked map[string]*kubedcv1alpha1.InspectionSpec
}

// neighbour asks a node who has an address, unless it is not on that wire.
func (q *questions) neighbour(node string, s *survey.Subnet, a netip.Addr) {
	by := s.InterfaceOn(node)
	if spec := q.asked[node]; spec != nil && by != "" && len(spec.Neighbours) < mostNeighbours {
		//nolint:gosec // a tag of a Vlan has twelve bits
		spec.Neighbours = append(spec.Neighbours, kubedcv1alpha1.NeighbourQuestion{Interface: by, Vlan: int32(s.Tag), Address: a.String()})
	}
}

// edges are the nodes that are on the wires of external networks.
func (q *questions) edges() (out []*survey.Node) {
	for _, name := range byName(q.asked) {
		if n := q.nodes[name]; n.Gateway {
			out = append(out, n)
		}
	}
	return out
}

// gateways asks every node on a wire for the gateways there.
func (q *questions) gateways() {
	for _, n := range q.edges() {
		for _, s := range q.externals() {
			for _, gateway := range s.Gateways {
				q.neighbour(n.Name, s, gateway)
			}
		}
	}
}

// addresses asks for each address who answers for it, on a node that does not hold it itself if there is one: so one hears OVN, too. How many
// ports of it are in use, the node that holds it knows.
func (q *questions) addresses() {
	present := q.present()
	edges := q.edges()
	for i, a := range sortedAddresses(present) {
		s := q.Cluster.Pool(a)
		to := q.about.Server.Addr()
		leaves := to.IsValid() && q.Cluster.Pool(to) == nil // then any address of the cluster may be the one that it leaves with
		if to.IsValid() && to != a && !leaves {
			continue
		}
		held := func(n *survey.Node) bool {
			return slices.ContainsFunc(present[a].holders, func(c string) bool { return q.nodeOf(c) == n })
		}
		others := slices.DeleteFunc(slices.Clone(edges), held)
		if len(others) == 0 {
			others = edges
		}
		if len(others) > 0 && !leaves {
			q.neighbour(others[i%len(others)].Name, s, a)
		}
		for _, name := range byName(q.asked) {
			if spec := q.asked[name]; held(q.nodes[name]) && len(spec.Usage) < mostUsage {
				spec.Usage = append(spec.Usage, a.String())
			}
		}
	}
}

// ways asks by which interface replies leave: those that are marked for a network, and those from the server of the connection.
func (q *questions) ways() {
	to := q.about.Client
	for _, path := range q.Cluster.NodePaths {
		spec := q.asked[path.Name]
		for _, w := range path.Ways {
			n := q.networks[w.Network]
			if spec == nil || !marked(w) || n == nil {
				continue
			}
			for _, gateway := range n.Gateways {
				far := anywhere[gateway.Is4()]
				if to.IsValid() && to.Is4() == gateway.Is4() {
					far = to
				}
				spec.Routes = append(spec.Routes, kubedcv1alpha1.RouteQuestion{To: far.String(), Mark: int64(w.Mark)})
			}
		}
	}
	if server := q.about.Server.Addr(); server.IsValid() && to.IsValid() && q.Cluster.Pool(server) == nil {
		for _, name := range byName(q.asked) {
			q.asked[name].Routes = append(q.asked[name].Routes, kubedcv1alpha1.RouteQuestion{From: server.String(), To: to.String()})
		}
	}
}

// connections asks for those of the client.
func (q *questions) connections() {
	if !q.about.Client.IsValid() || !q.about.Server.IsValid() {
		return
	}
	for _, name := range byName(q.asked) {
		q.asked[name].Connections = append(q.asked[name].Connections, kubedcv1alpha1.ConnectionQuestion{
			Client: q.about.Client.String(), Server: q.about.Server.Addr().String(), Port: int32(q.about.Server.Port()),
		})
	}
}
