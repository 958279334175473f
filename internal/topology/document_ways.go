package topology

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/diagnosis"
)

// egress is what leaves with other addresses than the rest.
func (d *document) egress() {
	var rows [][]string
	for _, e := range d.g.Egress {
		for _, a := range e.Addresses {
			rows = append(rows, []string{"EgressIP " + e.Ref.Name, a.Address.String(), a.Network, a.Node, many(e.Pods, "pod")})
		}
	}
	for _, v := range d.g.Vpcs {
		for _, x := range slices.Concat(v.Routes, v.Behind) {
			rows = append(rows, []string{x.Ref.String(), valid(x.Address), x.Network, v.port(x.Network).Node, join(x.Destinations)})
		}
	}
	if len(rows) == 0 {
		return
	}
	d.say("## Egress\n")
	d.say("%s", grid([]string{"What", "Address", "Network", "Node", "For"}, rows))
}

// examples are the way of packets there and back: one of each kind, of the first VPC that has one.
func (d *document) examples() {
	seen := map[string]bool{}
	n := 0
	for _, v := range d.g.Vpcs {
		for _, p := range v.Paths {
			kind := p.About.Kind + p.There[1].Kind // a Service may be at an address of its own, or of nodes
			if seen[kind] {
				continue
			}
			seen[kind] = true
			if n++; n == 1 {
				d.say("## The way of packets\n")
			}
			d.say("### Example %d: %s, %s\n", n, v.Name, p.Title)
			d.say("%s", code(p.drawing()))
			if len(p.Back) > 0 {
				d.say("And back: %s\n", steps(p.Back))
			}
		}
	}
}

// drawing is a path as a drawing: the places one below the other, and what happens between them.
func (p Path) drawing() (lines []string) {
	for i, s := range p.There {
		if i > 0 {
			lines = append(lines, "  ▼")
		}
		if s.Kind == AtTarget && s.Action != "" {
			lines = append(lines, s.title()+" "+s.Action)
			continue
		}
		if lines = append(lines, s.title()); s.Action != "" {
			lines = append(lines, "  │ "+s.Action)
		}
	}
	return lines
}

// title is a step with what it is, where its label does not say so.
func (s Step) title() string {
	switch {
	case s.Kind == AtNetwork, s.Kind == AtProxy, s.Kind == AtNode && s.Ref.Kind != "":
		return s.Kind + " " + s.Label
	case s.Kind == AtTarget && s.Ref.Kind == "Pod":
		return "pod " + s.Label
	}
	return s.Label
}

// issues are what was found, and what everybody should know who works with this cluster.
func (d *document) issues(findings []diagnosis.Finding) {
	d.say("## Known issues\n")
	if len(findings) == 0 {
		d.say("Nothing was found that does not work.\n")
	} else {
		var rows [][]string
		for _, f := range findings {
			var about []string
			for _, r := range f.About {
				about = append(about, r.String())
			}
			rows = append(rows, []string{f.Severity.String(), "`" + f.Code + "`", strings.Join(about, ", "), f.Message, f.Cure})
		}
		d.say("%s", grid([]string{"Severity", "Finding", "About", "What is wrong", "What to do"}, rows))
	}
	d.say("### Worth knowing\n")
	d.clients()
	d.say("- **VPCs do not reach each other.** Pods of different VPCs have no route to one another, and may have the same addresses. They meet at" +
		" external addresses: of load balancers, floating IPs, or the Backends of a Gateway, whose proxies reach them like anybody outside.")
	d.shared()
	d.say("")
}

// clients says where pods do not see the client's address.
func (d *document) clients() {
	var names []string
	for _, s := range d.exposed() {
		if !s.Local {
			names = append(names, fmt.Sprintf("`%s/%s`", s.Ref.Namespace, s.Ref.Name))
		}
	}
	d.say("- **Whose address pods see.** Through EIps, FIps and load balancers pods see the client's own address.")
	if len(names) > 0 {
		d.say("  Through `externalIPs` a Service proxy may replace it by the node's: so for %s, where rules by client address do not work. Use a load"+
			" balancer on an external network, `externalTrafficPolicy: Local`, or the PROXY protocol.", strings.Join(names, ", "))
	}
}

// shared says which addresses of nodes several Services share, and by which ports.
func (d *document) shared() {
	by, order := map[netip.Addr][]Service{}, []netip.Addr{}
	for _, s := range d.exposed() {
		for _, a := range s.Outside {
			if by[a] = append(by[a], s); len(by[a]) == 2 {
				order = append(order, a)
			}
		}
	}
	for _, a := range order {
		var words []string
		taken, clash := map[string]bool{}, ""
		for _, s := range by[a] {
			var ports []string
			for _, l := range s.Ports {
				if taken[l.port()] {
					clash = " Port " + l.port() + " is asked for twice: one of them does not get it."
				}
				taken[l.port()] = true
				ports = append(ports, l.port())
			}
			words = append(words, fmt.Sprintf("`%s/%s` has %s", s.Ref.Namespace, s.Ref.Name, strings.Join(ports, ", ")))
		}
		d.say("- **%s is shared** by Services with different ports: %s.%s", a, strings.Join(words, "; "), clash)
	}
}

func (d *document) resources() {
	d.say("## Resources\n")
	var rows [][]string
	for _, c := range d.g.Counts {
		if c.Count == 0 {
			continue
		}
		rows = append(rows, []string{c.Kind, number(c.Count), c.Purpose})
	}
	d.say("%s", grid([]string{"Kind", "Count", "What for"}, rows))
	d.say("## References\n")
	d.say("- [Kube-OVN: VPCs](https://kubeovn.github.io/docs/stable/en/vpc/vpc/)")
	d.say("- [Envoy Gateway](https://gateway.envoyproxy.io/)")
	d.say("- [Gateway API](https://gateway-api.sigs.k8s.io/)")
	d.say("- `sallyport explain`, `sallyport trace` and `sallyport doctor` tell more about each object")
}

// leaving is of how many VPCs pods leave by which network.
func (d *document) leaving() string {
	var words []string
	note := func(all []*Vpc, way string) {
		all = slices.DeleteFunc(all, func(v *Vpc) bool { return v.Management })
		if len(all) > 0 {
			words = append(words, fmt.Sprintf("of %s by %s", number(len(all)), way))
		}
	}
	for _, n := range d.g.Networks {
		note(d.g.leaving(n.Name), n.Name)
	}
	note(d.g.leaving(""), "no external network")
	if slices.ContainsFunc(d.g.Vpcs, func(v Vpc) bool { return v.Management }) {
		words = append(words, "of the management VPC by the nodes")
	}
	return strings.Join(words, ", ")
}
