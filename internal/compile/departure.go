package compile

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/snapshot"
	"github.com/sallyport/sallyport/internal/words"
)

// departure is pods of Kube-OVN's own VPC that leave by an external network which their nodes are on. Diversions are the same in projects.
type departure struct {
	key                         intent.ObjectKey
	meta                        snapshot.Meta
	accepted, resolved, waiting intent.Finding

	pods      []snapshot.Placed
	on        []*snapshot.Uplink // by which they leave: the first that a pod's node is on
	to        []netip.Prefix
	addresses []netip.Addr // with which, at most one of each family; none: the interface's
	annotated bool         // the Service itself asked for it, by annotation
	led       []claim      // its pods that can leave so
}

// everywhere is the destinations of pods that do not choose.
var everywhere = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

func (d *departure) wanted() bool {
	return d.accepted.OK() && d.resolved.OK() && !d.meta.Deleting && len(d.on) > 0
}

// resolveDepartures gives each EgressRoute and each EgressService its networks, its address and its pods: routes first, and of the same kind
// the oldest first, which is the order in which they have a say.
func (n *nodes) resolveDepartures() {
	led := destinations{}
	for _, r := range inOrder(n.w.EgressRoutes, func(r snapshot.EgressRoute) snapshot.Meta { return r.Meta }) {
		d := n.departTo(r)
		if d.wanted() {
			d.accepted = led.add(r)
		}
		n.departures = append(n.departures, d)
	}
	var all []*departure
	balancers := map[intent.ObjectKey]*snapshot.Balancer{}
	for i := range n.w.Balancers {
		b := &n.w.Balancers[i]
		balancers[intent.ObjectKey{Kind: intent.EgressService, Namespace: b.Namespace, Name: b.Name}] = b
	}
	for _, s := range n.w.EgressServices {
		key := intent.ObjectKey{Kind: intent.EgressService, Namespace: s.Namespace, Name: s.Name}
		all = append(all, n.departBehind(s, balancers[key]))
		if !s.Deleting {
			delete(balancers, key) // it comes before the annotation
		}
	}
	for _, b := range balancers {
		if b.Leaves {
			d := n.departBehind(snapshot.EgressService{Meta: b.Meta}, b)
			d.annotated, d.key.Kind = true, intent.Service
			all = append(all, d)
		}
	}
	n.departures = append(n.departures, inOrder(all, func(d *departure) snapshot.Meta { return d.meta })...)
}

// departTo is the departure of an EgressRoute.
func (n *nodes) departTo(r snapshot.EgressRoute) *departure {
	d := &departure{
		key: intent.ObjectKey{Kind: intent.EgressRoute, Namespace: r.Namespace, Name: r.Name}, meta: r.Meta,
		pods: n.inside(r.Pods), to: r.Destinations,
	}
	if d.accepted = malformed(r.Malformed); !d.accepted.OK() {
		return d
	}
	kind, fits := "type", func(u *snapshot.Uplink) bool { return u.Type == r.Type }
	if r.Network != "" {
		kind, fits = "name", func(u *snapshot.Uplink) bool { return u.Name == r.Network }
	}
	found := n.uplinksOf(fits)
	d.on = admitting(found, r.Namespace)
	switch {
	case len(found) == 0:
		d.resolved = n.noUplink(kind, cmp.Or(r.Network, r.Type))
	case len(d.on) == 0:
		d.resolved = uplinkNotAllowed(found[0], r.Namespace)
	default:
		d.resolved, d.accepted = d.served(), d.leadable()
	}
	return d
}

// departBehind is the departure of pods behind a Service; nil: there is none.
func (n *nodes) departBehind(s snapshot.EgressService, b *snapshot.Balancer) *departure {
	d := &departure{key: intent.ObjectKey{Kind: intent.EgressService, Namespace: s.Namespace, Name: s.Name}, meta: s.Meta, to: everywhere}
	if b == nil {
		d.resolved = intent.Finding{Reason: intent.ServiceNotFound, Message: fmt.Sprintf(
			"there is no Service %s of type LoadBalancer in namespace %s; create it, or give this the name of one", s.Name, s.Namespace)}
		return d
	}
	d.pods = n.inside(b.Pods)
	named := n.uplinks
	if s.Network != "" {
		named = n.uplinksOf(func(u *snapshot.Uplink) bool { return u.Name == s.Network })
		if len(named) == 0 {
			named = n.uplinksOf(func(u *snapshot.Uplink) bool { return u.Type == s.Network })
		}
		if len(named) == 0 {
			d.resolved = n.noUplink("name or type", s.Network)
			return d
		}
	}
	found := named
	if named = admitting(found, s.Namespace); len(named) == 0 && len(found) > 0 {
		d.resolved = uplinkNotAllowed(found[0], s.Namespace)
		return d
	}
	if s.ByNetwork && s.Network != "" {
		d.on = named
	} else {
		d.byAddress(named, n.owned(b), s)
		if len(b.External) > 0 && len(n.owned(b)) == 0 {
			d.resolved = intent.Finding{}
			d.accepted = intent.Finding{Reason: intent.AddressTaken, Message: fmt.Sprintf(
				"address %s of Service %s is held by another namespace, by an EIp or an older Service; let the Service have an address of its own",
				b.External[0], s.Name)}
		}
	}
	d.accepted = first(d.accepted, d.leadable())
	return d
}

// byAddress chooses the networks by which an address of the Service is reached and, unless the interface's is asked for, that address.
func (d *departure) byAddress(among []*snapshot.Uplink, external []netip.Addr, s snapshot.EgressService) {
	if len(external) == 0 {
		d.resolved = intent.Finding{Reason: intent.NoAddressYet, Message: fmt.Sprintf(
			"Service %s has no external address yet; look at who gives it one, such as MetalLB", s.Name)}
		return
	}
	for _, a := range external {
		on := slices.DeleteFunc(slices.Clone(among), func(u *snapshot.Uplink) bool { return !reachedBy(u, a) })
		switch {
		case len(on) == 0:
			continue
		case len(d.on) == 0:
			d.on = on
		case !reachedBy(d.on[0], a):
			continue // the first decides
		}
		if !s.ByNetwork && !slices.ContainsFunc(d.addresses, func(o netip.Addr) bool { return o.Is4() == a.Is4() }) {
			d.addresses = append(d.addresses, a)
		}
	}
	if len(d.on) > 0 {
		return
	}
	if s.Network != "" {
		d.accepted = intent.Finding{Reason: intent.AddressElsewhere, Message: fmt.Sprintf(
			"address %s is not in nodes.addresses of network %s, where it would be dropped; leave out spec.network, or use sourceIPBy Network",
			external[0], s.Network)}
		return
	}
	d.accepted = intent.Finding{Reason: intent.AddressOutside, Message: fmt.Sprintf(
		"address %s is in nodes.addresses of no ExternalNetwork; let the operator add it to the one by which it is reached", external[0])}
}

// owned are the addresses of a Service that its namespace has. Several Services may show one, and only its owner's pods leave with it.
func (n *nodes) owned(b *snapshot.Balancer) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(b.External), func(a netip.Addr) bool { return n.w.Owners[a] != b.Namespace })
}

// inside are pods with addresses of their own: those on the network of their node have the node's.
func (n *nodes) inside(pods []snapshot.Placed) []snapshot.Placed {
	return slices.DeleteFunc(slices.Clone(pods), func(p snapshot.Placed) bool { return p.Node == "" || n.hosts[p.Address] })
}

func (n *nodes) uplinksOf(fits func(*snapshot.Uplink) bool) (out []*snapshot.Uplink) {
	for _, u := range n.uplinks {
		if fits(u) {
			out = append(out, u)
		}
	}
	return out
}

// admitting are the networks that are for a namespace.
func admitting(uplinks []*snapshot.Uplink, namespace string) []*snapshot.Uplink {
	return slices.DeleteFunc(slices.Clone(uplinks), func(u *snapshot.Uplink) bool { return !u.Admitted.Admits(namespace) })
}

// uplinkNotAllowed is the finding that a network is not for a namespace.
func uplinkNotAllowed(u *snapshot.Uplink, namespace string) intent.Finding {
	return intent.Finding{Reason: intent.NetworkNotAllowed, Message: fmt.Sprintf(
		"network %s (type %s) is not for namespace %s; use another, or ask the operator to add it to allowedNamespaces of the ExternalNetwork",
		u.Name, u.Type, namespace)}
}

func (n *nodes) noUplink(what, name string) intent.Finding {
	message := fmt.Sprintf("there is no ExternalNetwork of %s %s that nodes are on, and pods of Kube-OVN's own VPC leave by their node; ",
		what, words.Quote(name))
	known := make([]string, 0, len(n.uplinks))
	for _, u := range n.uplinks {
		known = append(known, fmt.Sprintf("%s (%s)", u.Name, u.Type))
	}
	if slices.Sort(known); len(known) > 0 {
		message += "use one of " + strings.Join(known, ", ") + ", or ask the operator for spec.nodes on another"
	} else {
		message += "there is none at all: ask the operator for an ExternalNetwork with spec.nodes, or use a project's namespace"
	}
	return intent.Finding{Reason: intent.NetworkNotFound, Message: message}
}

// serves says whether a network has a gateway of an address's family.
func serves(u *snapshot.Uplink, a netip.Addr) bool {
	return slices.ContainsFunc(u.Gateways, func(g netip.Addr) bool { return g.Is4() == a.Is4() })
}

// served says whether every destination can be reached by the network.
func (d *departure) served() intent.Finding {
	for _, to := range d.to {
		if !slices.ContainsFunc(d.on, func(u *snapshot.Uplink) bool { return serves(u, to.Addr()) }) {
			return intent.Finding{Reason: intent.FamilyNotServed, Message: fmt.Sprintf(
				"network %s has no gateway of the family of destination %s; leave it out, or ask the operator for one in nodes.gateways", d.on[0].Name, to)}
		}
	}
	return intent.Finding{}
}

// leadable says whether the network's method can lead to the destinations.
func (d *departure) leadable() intent.Finding {
	for _, u := range d.on {
		if u.Method == string(kubedcv1alpha1.NodeStatic) && slices.ContainsFunc(d.to, func(p netip.Prefix) bool { return p.Bits() == 0 }) {
			return intent.Finding{Reason: intent.NeedsMethod, Message: fmt.Sprintf(
				"network %s has method Static, which knows destinations only, and pods are to leave by it for everywhere; "+
					"name destinations in an EgressRoute, or ask the operator for another method", u.Name)}
		}
	}
	return intent.Finding{}
}

// seenAs is the address with which a pod leaves, and whether it can leave with one; invalid: the interface's.
func (d *departure) seenAs(pod netip.Addr) (netip.Addr, bool) {
	for _, a := range d.addresses {
		if a.Is4() == pod.Is4() {
			return a, true
		}
	}
	return netip.Addr{}, len(d.addresses) == 0
}

// claim is the departure that leads what a pod sends to a destination, and how.
type claim struct {
	who *departure
	pod snapshot.Placed
	on  *snapshot.Uplink
	as  netip.Addr
}

// same says whether it makes no difference which of two claims a packet follows.
func (c claim) same(o claim) bool { return c.on == o.on && c.as == o.as }

// claims are those on a pod, by destination.
type claims map[netip.Prefix]claim

// except is what others lead elsewhere of a destination: longer prefixes in it.
func (c claims) except(to netip.Prefix) (out []netip.Prefix) {
	for p, o := range c {
		if p.Bits() > to.Bits() && to.Contains(p.Addr()) && !o.same(c[to]) {
			out = append(out, p)
		}
	}
	return out
}

// claimPods decides who leads what each pod sends. A destination is the first one's who asks for it.
func (n *nodes) claimPods() {
	for _, d := range n.departures {
		if !d.wanted() {
			continue
		}
		for _, p := range d.pods {
			c, can := n.lead(d, p)
			if !can {
				continue
			}
			if d.led = append(d.led, c); n.claims[p.Address] == nil {
				n.claims[p.Address] = claims{}
			}
			for _, to := range d.to {
				if _, taken := n.claims[p.Address][to]; !taken && to.Addr().Is4() == p.Address.Is4() {
					n.claims[p.Address][to] = c
				}
			}
		}
	}
}

// lead is how a departure leads a pod, and whether it can: by the first of its networks that the pod's node is on.
func (n *nodes) lead(d *departure, p snapshot.Placed) (claim, bool) {
	as, can := d.seenAs(p.Address)
	there := false
	for _, u := range d.on {
		if there = there || n.on[place{p.Node, u.Name}]; can && n.on[place{p.Node, u.Name}] && serves(u, p.Address) {
			return claim{d, p, u, as}, true
		}
	}
	if there {
		return claim{}, false // the network is not of its family: the pod has another address that leaves
	}
	d.waiting = first(d.waiting, intent.Finding{Reason: intent.NodeElsewhere, Message: fmt.Sprintf(
		"pod address %s is on node %s, which is not on network %s, and leaves as others do; "+
			"let the pod run on another node, or let the network's nodeSelector choose this one", p.Address, p.Node, d.on[0].Name)})
	return claim{}, false
}

// withEgress is a network with the pods of a node that leave by it.
func (n *nodes) withEgress(network kubedcv1alpha1.NodeNetwork, node string) kubedcv1alpha1.NodeNetwork {
	network.Egress = n.egress[place{node, network.Name}]
	if slices.ContainsFunc(network.Egress, func(e kubedcv1alpha1.NodeEgress) bool { return len(e.Destinations) == 0 }) {
		network.Inside, network.Hosts = sorted(n.w.Inside), sorted(n.w.Hosts)
	}
	return network
}

// group is pods of a node that leave by a network in the same way: to the same destinations, of which the same are others'.
type group struct {
	at   place
	how  string
	what kubedcv1alpha1.NodeEgress
	pods []netip.Addr
}

// groupPods writes down what each departure leads out by which network of which node.
func (n *nodes) groupPods() {
	for _, d := range slices.SortedFunc(slices.Values(n.departures), func(a, b *departure) int { return a.key.Compare(b.key) }) {
		groups := map[string]*group{}
		for _, c := range d.led {
			for _, g := range n.ways(c) {
				id := fmt.Sprint(g.at, g.how)
				if groups[id] == nil {
					groups[id] = &g
				}
				groups[id].pods = append(groups[id].pods, c.pod.Address)
			}
		}
		for _, id := range slices.Sorted(maps.Keys(groups)) {
			g := groups[id]
			g.what.Pods = sorted(g.pods)
			n.egress[g.at] = append(n.egress[g.at], g.what)
		}
	}
}

// ways is how a pod leaves: one for all destinations of which others lead the same elsewhere.
func (n *nodes) ways(c claim) (out []group) {
	destinations, excepts := map[string][]netip.Prefix{}, map[string][]string{}
	all := n.claims[c.pod.Address]
	for to, has := range all {
		if has.who == c.who {
			except := sorted(all.except(to))
			key := strings.Join(except, " ")
			destinations[key], excepts[key] = append(destinations[key], to), except
		}
	}
	for key, to := range destinations {
		e := kubedcv1alpha1.NodeEgress{By: c.who.key.String(), Destinations: sorted(to), Except: excepts[key], Address: text(c.as)}
		if slices.ContainsFunc(to, func(p netip.Prefix) bool { return p.Bits() == 0 }) {
			e.Destinations = nil
		}
		out = append(out, group{at: place{c.pod.Node, c.on.Name}, how: fmt.Sprint(e.Address, e.Destinations, e.Except), what: e})
	}
	return out
}

func text(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// verdicts is what we think of each EgressService and EgressRoute. A Service that asks by annotation is not ours to judge: a note tells.
func (n *nodes) verdicts() (out []intent.Verdict) {
	for _, d := range n.departures {
		if !d.annotated {
			out = append(out, n.verdict(d))
			continue
		}
		if wrong := first(d.accepted, d.resolved); !wrong.OK() {
			n.in.Notes = append(n.in.Notes, intent.Note{Object: d.key, Finding: intent.Finding{
				Reason: intent.NoEgress, Message: "its pods can't leave with its address: " + wrong.Message,
			}})
		}
	}
	slices.SortStableFunc(out, func(a, b intent.Verdict) int { return a.Object.Compare(b.Object) })
	return out
}

func (n *nodes) verdict(d *departure) intent.Verdict {
	out := intent.Verdict{Object: d.key, Generation: d.meta.Generation, Accepted: d.accepted, Resolved: d.resolved, Facts: intent.DiversionFacts{}}
	if !d.wanted() {
		out.Waiting = deleting(d.meta.Deleting)
		return out
	}
	facts := intent.DiversionFacts{Pods: counted(d.pods)}
	if len(d.addresses) > 0 {
		facts.Address = d.addresses[0]
	}
	names, places := map[string]bool{}, map[place]bool{}
	for _, c := range d.led {
		names[c.on.Name], places[place{c.pod.Node, c.on.Name}] = true, true
	}
	if len(names) == 0 {
		names[d.on[0].Name] = true
	}
	facts.Network = strings.Join(slices.Sorted(maps.Keys(names)), ",")
	for _, at := range slices.SortedFunc(maps.Keys(places), place.compare) {
		out.Through = append(out.Through, nodeRef(at.node))
		out.Waiting = first(out.Waiting, doneBy(n.w.Paths, at.node, at.network))
	}
	out.Facts, out.Waiting = facts, first(out.Waiting, d.waiting)
	return out
}

// counted is how many pods have these addresses. One may have an address of each family.
func counted(pods []snapshot.Placed) int {
	four := 0
	for _, p := range pods {
		if p.Address.Is4() {
			four++
		}
	}
	return max(four, len(pods)-four)
}

// doneBy is why a node does not do its part of a network yet, as far as its NodePath is written: the agent there has the word.
func doneBy(paths map[string]snapshot.Path, node, network string) intent.Finding {
	path, written := paths[node]
	problem, known := path.Networks[network]
	switch {
	case !written || path.Reported && known && problem == "":
		return intent.Finding{}
	case path.Reported && known:
		return intent.Finding{Reason: intent.WaitForAgent, Message: fmt.Sprintf(
			"node %s can't carry it out: %s; see NodePath %s", node, problem, node)}
	default:
		return intent.Finding{Reason: intent.WaitForAgent, Message: fmt.Sprintf(
			"node %s has not carried it out yet: its agent has not reported on NodePath %s as it is now; is sallyport-agent running there?", node, node)}
	}
}
