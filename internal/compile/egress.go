package compile

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/sallyport/sallyport/internal/assign"
	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/kubeovn"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/snapshot"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/words"
)

// Egress compiles what holds egress addresses: a router with a port for each address, the nodes that hold it, and a link to each VPC
// whose pods leave with it. What a VPC has at its end of a link is Shard's business.
func Egress(w *snapshot.Egress) (*intent.Intent, []intent.Verdict) {
	e := &egress{w: w, in: intent.New(), nodes: map[string]string{}, networks: map[string]netip.Prefix{}}
	e.read()        // which addresses are asked for, and whose network each is of
	e.place()       // which node holds each
	e.makeRouter()  // the router, and addresses that nobody else gets
	e.watchNodes()  // how soon the death of a node is noticed
	e.chooseLinks() // a network for each link
	e.holdAll()     // ports, translations and routes
	return e.in, e.verdicts()
}

// egress is one run.
type egress struct {
	w        *snapshot.Egress
	in       *intent.Intent
	requests []*request
	nodes    map[string]string       // by chassis
	networks map[string]netip.Prefix // of links, by port
}

// request is an EgressIP and what became of it.
type request struct {
	snapshot.EgressIP
	key               intent.ObjectKey
	addresses         []*held
	accepted, waiting intent.Finding
}

// held is one address of a request.
type held struct {
	address netip.Addr
	on      *snapshot.External
	node    string
	leveled bool     // it went to a node that holds fewer
	chassis []string // the node's, and those that stand by
}

// egressRef is what all egress addresses need.
var egressRef = state.Ref{Kind: string(intent.Vpc), Name: ownership.EgressVpc}

// read reads the addresses. One that can't be read, or is another's, refuses the whole request.
func (e *egress) read() {
	for _, n := range e.w.Nodes {
		e.nodes[n.Chassis] = n.Name
	}
	for _, r := range inOrder(e.w.Requests, func(r snapshot.EgressIP) snapshot.Meta { return r.Meta }) {
		if r.Deleting {
			continue
		}
		q := &request{EgressIP: r, key: intent.ObjectKey{Kind: intent.EgressIP, Name: r.Name}}
		e.requests = append(e.requests, q)
		if r.Malformed != "" {
			q.accepted = intent.Finding{Reason: intent.InvalidEgressIP, Message: string(r.Malformed)}
			continue
		}
		for _, text := range r.Addresses {
			h, wrong := e.readAddress(text)
			q.accepted = first(q.accepted, wrong)
			if wrong.OK() {
				q.addresses = append(q.addresses, h)
			}
		}
		if !q.accepted.OK() {
			q.addresses = nil
		}
	}
}

func (e *egress) readAddress(text string) (*held, intent.Finding) {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return nil, intent.Finding{Reason: intent.InvalidEgressIP, Message: fmt.Sprintf("%s is not an IP address", words.Quote(text))}
	}
	var prefixes []string
	for i := range e.w.Externals {
		x := &e.w.Externals[i]
		if x.Dual {
			continue
		}
		prefixes = append(prefixes, fmt.Sprintf("%s (%s)", x.Prefix, x.Network))
		if !x.Prefix.Contains(a) {
			continue
		}
		if holder := e.w.Holders[a]; holder.OvnEip != "" && holder.OvnEip != ownership.EgressEip(a) {
			return nil, intent.Finding{Reason: intent.EgressIPConflict, Message: fmt.Sprintf(
				"address %s is held by OvnEip %s; choose another, or release it", a, holder.OvnEip)}
		}
		if a == x.Gateway || a == x.Prefix.Masked().Addr() {
			return nil, intent.Finding{Reason: intent.EgressIPConflict, Message: fmt.Sprintf(
				"address %s is the gateway's, or the network's own; choose another", a)}
		}
		return &held{address: a, on: x}, intent.Finding{}
	}
	slices.Sort(prefixes)
	return nil, intent.Finding{Reason: intent.AddressOutside, Message: fmt.Sprintf(
		"address %s is of no external network; there are: %s", a, cmp.Or(strings.Join(prefixes, ", "), "none"))}
}

// place decides which node holds each address.
func (e *egress) place() {
	on := map[string]bool{}
	for _, x := range e.w.Externals {
		on[x.Subnet] = true
	}
	var nodes []assign.Node
	chassis := map[string]string{}
	for _, n := range e.w.Nodes {
		chassis[n.Name] = n.Chassis
		nodes = append(nodes, assign.Node{Name: n.Name, State: stateOf(n), Networks: on, Addresses: n.Addresses})
	}
	var requests []assign.Request
	for _, q := range e.requests {
		r := assign.Request{Name: q.Name, Created: q.Created, Nodes: q.Nodes, Levels: q.Rebalance != q.Rebalanced}
		for _, h := range q.addresses {
			r.Addresses = append(r.Addresses, e.before(q, h))
		}
		requests = append(requests, r)
	}
	placed := map[string][]assign.Placement{}
	for _, p := range assign.Addresses(nodes, requests, e.w.Moves) {
		placed[p.Request] = append(placed[p.Request], p)
	}
	for _, q := range e.requests {
		q.take(placed[q.Name], chassis)
	}
}

// before is an address as it is held now: by the first of its holders, unless the engine has found that one dead. Then it stays where the
// engine has brought it, and does not follow a node that comes and goes.
func (e *egress) before(q *request, h *held) assign.Address {
	out := assign.Address{Address: h.address, Network: h.on.Subnet}
	port := ownership.EgressPort(h.address)
	if e.w.Held[port].By != q.Name {
		return out // nobody has it, or another has
	}
	out.Avoids = e.nodes[e.w.Lost[port]]
	holders := slices.Clone(e.w.Held[port].Chassis)
	if i := slices.Index(holders, e.w.Moved[port]); i > 0 {
		holders = append(append(holders[i:i+1:i+1], holders[i+1:]...), holders[:i]...)
	}
	for i, chassis := range holders {
		switch node := e.nodes[chassis]; {
		case i == 0 && node == "":
			out.Holder = chassis // it may hold nothing any more, which is as good as dead
		case i == 0:
			out.Holder = node
		case node != "":
			out.Standbys = append(out.Standbys, node)
		}
	}
	return out
}

func stateOf(n snapshot.Node) assign.State {
	switch {
	case !n.Ready:
		return assign.Down
	case n.Leaving:
		return assign.Leaving
	default:
		return assign.Up
	}
}

// take is where the addresses of a request are, and why some are nowhere.
func (q *request) take(placed []assign.Placement, chassis map[string]string) {
	var homeless []string
	for i, p := range placed {
		h := q.addresses[i]
		switch p.Why {
		case assign.OfNode:
			q.accepted = first(q.accepted, intent.Finding{Reason: intent.EgressIPConflict, Message: fmt.Sprintf(
				"address %s is node %s's own; choose another", p.Address, p.Who)})
		case assign.Taken:
			q.accepted = first(q.accepted, intent.Finding{Reason: intent.UnsupportedRequest, Message: fmt.Sprintf(
				"EgressIP %s has address %s already; choose another, or delete that one", p.Who, p.Address)})
		case assign.NoNode:
			homeless = append(homeless, p.Address.String())
		default:
			h.node, h.leveled = p.Node, p.Leveled
			for _, node := range append([]string{p.Node}, p.Standbys...) {
				h.chassis = append(h.chassis, chassis[node])
			}
		}
	}
	next := "label nodes that are Ready with k8s.ovn.org/egress-assignable; each address needs a node of its own"
	switch {
	case !q.accepted.OK():
		q.addresses = nil
	case len(homeless) == 0:
	case len(homeless) == len(placed):
		q.waiting = intent.Finding{Reason: intent.NoMatchingNode, Message: "no node can hold an address; " + next}
	default:
		q.waiting = intent.Finding{Reason: intent.UnassignedRequest, Message: fmt.Sprintf("no node can hold %s; %s", strings.Join(homeless, ", "), next)}
	}
}

// makeRouter wants the router and, for each address, the OvnEip that keeps it from others.
func (e *egress) makeRouter() {
	meta := intent.Meta{Labels: ownership.Labels(ownership.EgressVpc)}
	if slices.ContainsFunc(e.requests, func(q *request) bool { return len(q.addresses) > 0 }) {
		e.in.Object(intent.ObjectKey{Kind: intent.Vpc, Name: ownership.EgressVpc}, intent.NewObject(meta, kubeovn.VpcSpec{}), egressRef)
	}
	for _, q := range e.requests {
		for _, h := range q.addresses {
			if e.w.Engine.OvnEips[ownership.EgressEip(h.address)].Blank {
				continue // Kube-OVN will never finish it: it has to go, and comes again
			}
			spec := kubeovn.OvnEipSpec{ExternalSubnet: h.on.Subnet, V4Ip: h.address.String(), Type: "nat"}
			e.in.Object(intent.ObjectKey{Kind: intent.OvnEip, Name: ownership.EgressEip(h.address)}, intent.NewObject(meta, spec), q.key.Ref())
		}
	}
}

// misses is how many signs of life of a node may be missing before it is taken for dead.
const misses = 3

// watchNodes lets nodes notice each other's death sooner than OVN's defaults do, unless somebody else has chosen. It begins with the first
// EgressIP and does not end with the last: with each change of these settings gateways of others may move for some seconds.
func (e *egress) watchNodes() {
	if e.w.Liveness == 0 {
		return
	}
	period := strconv.FormatInt(e.w.Liveness.Milliseconds(), 10)
	for name, value := range map[string]string{"bfd-min-rx": period, "bfd-min-tx": period, "bfd-mult": strconv.Itoa(misses)} {
		if ours, there := e.w.Settings[name]; ours || !there && len(e.in.Objects) > 0 {
			e.in.Row(ownership.EgressVpc, intent.Setting{Name: name, Value: value}, egressRef)
		}
	}
}

// links are the networks of links: addresses that nobody uses outside, and that no two links share.
var links = netip.MustParsePrefix("240.0.0.0/4")

// linkBits is how long the prefix of a link is: two ends.
const linkBits = 30

// chooseLinks gives each link a network: the one that it has, and otherwise one that follows from its name.
func (e *egress) chooseLinks() {
	taken := map[netip.Prefix]bool{}
	var fresh []string
	e.eachLink(func(_ *request, h *held, vpc string) {
		port := ownership.EgressLink(h.address, vpc)
		if n := e.w.Links[port]; n.IsValid() && links.Contains(n.Addr()) && n.Bits() == linkBits && n.Addr() == n.Masked().Addr().Next() && !taken[n.Masked()] {
			e.networks[port], taken[n.Masked()] = n, true
			return
		}
		fresh = append(fresh, port)
	})
	for _, port := range fresh {
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(port)) // never fails
		for n := hash.Sum32(); ; n++ {
			network := nthLink(n)
			if !taken[network.Masked()] {
				e.networks[port], taken[network.Masked()] = network, true
				break
			}
		}
	}
}

// nthLink is the network of a link by number, with the egress router's address.
func nthLink(n uint32) netip.Prefix {
	n = n % (1 << (linkBits - 4)) << 2
	//nolint:gosec // the four bytes of it
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{0xf0 | byte(n>>24), byte(n >> 16), byte(n >> 8), byte(n)}).Next(), linkBits)
}

func (e *egress) eachLink(do func(q *request, h *held, vpc string)) {
	for _, q := range e.requests {
		for _, h := range q.addresses {
			for _, vpc := range h.admitted(q.Vpcs) {
				if h.node != "" {
					do(q, h, vpc)
				}
			}
		}
	}
}

// holdAll wants the rows of each address that a node can hold, as soon as nobody else can get the address.
func (e *egress) holdAll() {
	for _, q := range e.requests {
		for _, h := range q.addresses {
			eip := e.w.Engine.OvnEips[ownership.EgressEip(h.address)]
			switch {
			case e.w.Links == nil:
				q.waiting = first(q.waiting, intent.Finding{Reason: intent.WaitForEngine, Message: fmt.Sprintf(
					"Kube-OVN has not made Vpc %s yet", ownership.EgressVpc)})
			case !eip.Ready || eip.Address != h.address:
				q.waiting = first(q.waiting, intent.Finding{Reason: intent.WaitForEngine, Message: fmt.Sprintf(
					"Kube-OVN has not made OvnEip %s ready yet", ownership.EgressEip(h.address))})
			case h.node != "":
				e.hold(q, h)
			}
		}
	}
	e.eachLink(func(q *request, h *held, vpc string) {
		if e.w.Links != nil && !e.w.Ends[ownership.EgressEnd(vpc, h.address)] {
			q.waiting = first(q.waiting, intent.Finding{Reason: intent.Programming, Message: fmt.Sprintf("project %s has no link to %s yet", vpc, h.address)})
		}
	})
}

// hold wants the rows of an address. Its port is on the network like a host; a routing table of its own leads what comes by its links
// out by this port, and by no other that is on the same network.
func (e *egress) hold(q *request, h *held) {
	row := func(r intent.Row) { e.in.Row(ownership.EgressVpc, r, q.key.Ref()) }
	port, table, x := ownership.EgressPort(h.address), ownership.EgressTable(h.address), h.on
	row(intent.Holders{Name: port, Chassis: strings.Join(h.chassis, " ")})
	row(intent.RouterPort{Name: port, MAC: intent.MAC(port), Network: netip.PrefixFrom(h.address, x.Prefix.Bits()), Holders: port})
	row(intent.SwitchPort{Switch: x.Subnet, Name: ownership.EgressSocket(x.Subnet, h.address), RouterPort: port, Announces: true})
	row(intent.PortNAT{Port: port, External: h.address, Logical: links})
	row(intent.Route{Table: table, Prefix: netip.PrefixFrom(netip.IPv4Unspecified(), 0), NextHop: x.Gateway, Port: port})
	for _, half := range halves(x.Prefix.Masked()) {
		row(intent.Route{Table: table, Prefix: half, Port: port})
	}
	for _, vpc := range h.admitted(q.Vpcs) {
		link := ownership.EgressLink(h.address, vpc)
		row(intent.RouterPort{Name: link, MAC: intent.MAC(link), Network: e.networks[link], Peer: ownership.EgressEnd(vpc, h.address), Table: table})
	}
}

// admitted are the projects that an address's network is for.
func (h *held) admitted(vpcs []string) []string {
	return slices.DeleteFunc(slices.Clone(vpcs), func(vpc string) bool { return !h.on.Admitted.Admits(vpc) })
}

// notAdmitted is which selected projects can't leave with an address of a request, because its network is not for them.
func (q *request) notAdmitted() intent.Finding {
	for _, h := range q.addresses {
		refused := slices.DeleteFunc(slices.Clone(q.Vpcs), func(vpc string) bool { return h.on.Admitted.Admits(vpc) })
		if len(refused) > 0 {
			return intent.Finding{Reason: intent.NetworkNotAllowed, Message: fmt.Sprintf(
				"network %s of address %s is not for %s, whose selected pods do as failurePolicy says; "+
					"add them to allowedProjects or allowedNamespaces of the ExternalNetwork, or let the selectors leave them out",
				h.on.Network, h.address, words.Few(refused, 3))}
		}
	}
	return intent.Finding{}
}

// unserved is which selected pods do not leave with the addresses of a request: those of no project. Nothing leads them here, and nothing keeps
// them from leaving as they do without it.
func (q *request) unserved() intent.Finding {
	if q.Outside.Number == 0 || !q.accepted.OK() {
		return intent.Finding{}
	}
	what, they := "selected pods are", "they leave"
	if q.Outside.Number == 1 {
		what, they = "selected pod is", "it leaves"
	}
	served := ""
	if len(q.Vpcs) > 0 {
		served = fmt.Sprintf("; selected pods of %s are served", words.Few(q.Vpcs, 3))
	}
	return intent.Finding{Reason: intent.PodsNotServed, Message: fmt.Sprintf(
		"%d %s of no project and not served (%s as if not selected, whatever failurePolicy says): %s%s; let the selectors match namespaces of projects only",
		q.Outside.Number, what, they, q.Outside, served)}
}

func (e *egress) verdicts() []intent.Verdict {
	var out []intent.Verdict
	for _, q := range e.requests {
		facts := intent.EgressFacts{Rebalanced: q.Rebalance}
		for _, h := range q.addresses {
			if h.node != "" {
				facts.Leveled = facts.Leveled || h.leveled
				facts.Items = append(facts.Items, intent.EgressItem{Node: h.node, Address: h.address})
			}
		}
		out = append(out, intent.Verdict{
			Object: q.key, Generation: q.Generation, Facts: facts, Accepted: q.accepted, Waiting: q.waiting, Partly: first(q.notAdmitted(), q.unserved()),
			Through: []state.Ref{egressRef},
		})
	}
	return out
}
