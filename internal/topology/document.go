package topology

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/diagnosis"
)

// Document is the graph as a document about the whole cluster, in Markdown, with what a diagnosis found.
func (g *Graph) Document(findings []diagnosis.Finding) string {
	d := document{g: g}
	d.say("# The network of %s\n", g.Cluster)
	d.say("%s. Kubernetes %s, as it was on %s.", g.summary(), g.Version, g.Taken.UTC().Format("2006-01-02 15:04 MST"))
	d.say("There are %s. Pods leave: %s.\n", many(len(g.Vpcs), "VPC"), d.leaving())
	d.physical()
	d.logical()
	d.tables()
	d.joined()
	d.addresses()
	d.services()
	d.atNodes()
	d.gateways()
	d.routes()
	d.egress()
	d.examples()
	d.issues(findings)
	d.resources()
	return d.String()
}

// document writes Markdown.
type document struct {
	strings.Builder
	g *Graph
}

func (d *document) say(format string, args ...any) { fmt.Fprintf(d, format+"\n", args...) }

// many VPCs would make a document that nobody reads: of more, tables have to do.
const mostDrawn = 12

// room is how many characters a line of a drawing has.
const room = 120

func (d *document) physical() {
	d.say("## Physical network\n")
	var blocks [][]string
	for _, n := range d.g.Networks {
		for _, s := range n.Subnets {
			blocks = append(blocks, frame(n.Name, physicalLines(n, s)))
		}
		if u := n.Uplink; u != nil {
			blocks = append(blocks, frame(n.Name, []string{
				join(u.Addresses), "Gateway: " + join(u.Gateways), "Interface: " + u.Interface, "On " + many(len(u.Nodes), "node") + " themselves",
				"Replies by " + u.Method, reachable(n),
			}))
		}
	}
	lines := append(beside(blocks, room), down("provider bridges, on each node")...)
	lines = append(lines, frame("OVN network", []string{
		"Open vSwitch and ovn-controller on each node; an external network is a switch with a port to its bridge",
	})...)
	d.say("%s", code(lines))
}

func physicalLines(n Network, s Subnet) []string {
	vlan := "no VLAN"
	if s.Tag > 0 {
		vlan = fmt.Sprintf("VLAN %d", s.Tag)
	}
	lines := []string{vlan, join(s.Prefixes), "Gateway: " + join(s.Gateways), reachable(n), "Provider bridge: br-" + s.Provider}
	if s.Interface != "" {
		lines = append(lines, "  by "+s.Interface+" of each node")
	}
	return append(lines, fmt.Sprintf("%s of %s addresses used", number(s.Used), number(s.Used+s.Free)))
}

func reachable(n Network) string {
	if n.Public {
		return "Internet-routable: yes"
	}
	return "Internet-routable: no, internal only"
}

func (d *document) logical() {
	d.say("## Logical network\n")
	d.say("One router for each VPC. Inside OVN, external networks belong to `ovn-cluster`, and every router that uses one has a port on it.\n")
	var blocks [][]string
	for i := range d.g.Vpcs[:min(mostDrawn, len(d.g.Vpcs))] {
		blocks = append(blocks, d.vpc(&d.g.Vpcs[i]))
	}
	d.say("%s", code(beside(blocks, room)))
	if more := len(d.g.Vpcs) - mostDrawn; more > 0 {
		d.say("And %s more: `sallyport map PROJECT` draws each.\n", number(more))
	}
}

// vpc draws a VPC: its subnets, and its router with ports and translations.
func (d *document) vpc(v *Vpc) []string {
	var subnets [][]string
	for _, s := range v.Subnets {
		lines := []string{join(s.Prefixes)}
		switch s.Purpose {
		case ForNodes:
			lines = append(lines, "• nodes: "+many(len(d.g.Nodes), "address"))
			if len(d.g.Nodes) > 0 && d.g.Nodes[0].Join.IsValid() {
				lines = append(lines, "• what nodes send to pods", "  comes from these")
			}
		default:
			lines = append(lines, "• "+many(v.Pods, "pod"))
			for _, w := range v.workloads() {
				lines = append(lines, "• "+w)
			}
		}
		subnets = append(subnets, frame(s.Name, lines))
	}
	if v.Management {
		for _, n := range d.g.Networks {
			for _, s := range n.Subnets {
				subnets = append(subnets, frame(s.Name, []string{join(s.Prefixes), "• EIps of type " + n.Type, "• load balancers", "• ports of routers"}))
			}
		}
	}
	lines := append(beside(subnets, room-4), "      │")
	lines = append(lines, frame(v.Router.Name+" router", v.routerLines())...)
	lines = append(lines, "external subnets: "+cmp.Or(strings.Join(v.Networks, ", "), "none"))
	return frame(v.Name+" VPC ("+v.kind()+")", append(lines, "default way out: "+v.way()))
}

// way is the default way out, in words.
func (v *Vpc) way() string {
	switch {
	case v.Gateway.IsValid():
		return fmt.Sprintf("%s, gateway %s", v.Network, v.Gateway)
	case v.Management && v.Address.IsValid():
		return fmt.Sprintf("the nodes; to hosts of %s as %s", v.Network, v.Address)
	case v.Management:
		return "the nodes"
	}
	return "none"
}

func (v *Vpc) kind() string {
	switch {
	case v.Management:
		return "management"
	case v.Project != nil:
		return "project " + v.Project.Namespace + "/" + v.Project.Name
	}
	return "not ours"
}

// workloads are the namespaces of the management VPC, and of others what the outside knows of their pods.
func (v *Vpc) workloads() []string {
	const most = 6
	all := v.Namespaces
	if !v.Management {
		all = nil
		for _, f := range v.FIps {
			all = append(all, f.Target.Name)
		}
		for _, s := range v.Services {
			all = append(all, "Service "+s.Ref.Name)
		}
	}
	if more := len(all) - most; more > 0 {
		return append(slices.Clone(all[:most]), fmt.Sprintf("and %s more", number(more)))
	}
	return all
}

func (v *Vpc) routerLines() []string {
	lines := []string{"Ports:"}
	for _, p := range v.Router.Ports {
		if p.Kind == ToItself || len(p.Addresses) == 0 {
			continue
		}
		name := p.Name
		if p.Kind == ToLeg {
			name = "leg for replies by " + p.Network
		}
		line := fmt.Sprintf("• %s: %s", name, p.Addresses[0].Addr())
		if p.Node != "" {
			line += " on " + p.Node
		}
		lines = append(lines, line)
	}
	for _, n := range v.Router.NATs {
		switch n.Type {
		case "snat":
			lines = append(lines, fmt.Sprintf("SNAT: %s → %s", n.Internal, n.External))
		case "dnat_and_snat":
			lines = append(lines, fmt.Sprintf("FIP: %s ↔ %s", n.External, n.Internal.Addr()))
		}
	}
	return lines
}

func (d *document) tables() {
	d.say("## VPCs and subnets\n\n### VPCs\n")
	var rows [][]string
	for i := range d.g.Vpcs {
		v := &d.g.Vpcs[i]
		rows = append(rows, []string{
			"`" + v.Name + "`", v.kind(), strings.Join(v.Namespaces, ", "), strings.Join(v.Networks, ", "), v.way(), valid(v.Address),
		})
	}
	d.say("%s", grid([]string{"VPC", "For", "Namespaces", "External networks", "Default way out", "Leaves with"}, rows))
	d.say("### Subnets\n")
	rows = nil
	for _, n := range d.g.Networks {
		for _, s := range n.Subnets {
			rows = append(rows, subnetRow(s, "external addresses of type "+n.Type))
		}
	}
	for _, v := range d.g.Vpcs {
		for _, s := range v.Subnets {
			rows = append(rows, subnetRow(s, map[string]string{ForPods: "pods", ForNodes: "connects nodes with OVN"}[s.Purpose]))
		}
	}
	d.say("%s", grid([]string{"Subnet", "VPC", "Prefix", "Gateway", "VLAN", "Used", "Free", "For"}, rows))
}

func subnetRow(s Subnet, purpose string) []string {
	vlan := ""
	if s.Tag > 0 {
		vlan = fmt.Sprint(s.Tag)
	}
	return []string{"`" + s.Name + "`", s.Vpc, join(s.Prefixes), join(s.Gateways), vlan, number(s.Used), number(s.Free), purpose}
}

// valid is an address, or nothing.
func valid(a interface {
	IsValid() bool
	String() string
},
) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

func (d *document) joined() {
	join, router := Subnet{}, Port{}
	for _, v := range d.g.Vpcs {
		for _, s := range v.Subnets {
			if s.Purpose == ForNodes {
				join = s
			}
		}
		for _, p := range v.Router.Ports {
			if p.Kind == ToNodes {
				router = p
			}
		}
	}
	d.say("## Nodes and the join subnet\n")
	if join.Name != "" {
		d.say("The subnet `%s` (%s) connects nodes with OVN:\n", join.Name, prefixes(join))
		d.say("1. Each node has an address of it, on its interface `ovn0`.")
		d.say("2. A node reaches pods of the management VPC by the port of the router there, %s.", addressOfPort(router))
		d.say("3. What a node itself sends to pods comes from that address. So does what a Service proxy (kube-proxy) forwards from `externalIPs`.\n")
	}
	var blocks [][]string
	for _, n := range d.g.Nodes[:min(mostDrawn, len(d.g.Nodes))] {
		blocks = append(blocks, frame(n.Name, d.nodeLines(n, join)))
	}
	lines := beside(blocks, room)
	if join.Name != "" {
		lines = append(append(lines, down("ovn0 of each node")...), frame("switch "+join.Name, []string{
			prefixes(join), "connected to:", fmt.Sprintf("• router of the management VPC: %s (%s)", addressOfPort(router), router.Name),
			"• " + many(len(d.g.Nodes), "node"),
		})...)
	}
	d.say("%s", code(lines))
	var rows [][]string
	for _, n := range d.g.Nodes {
		var holds []string
		for _, h := range n.Holds {
			holds = append(holds, fmt.Sprintf("%s (%s)", h.Address, h.Router))
		}
		if more := len(holds) - 8; more > 0 {
			holds = append(holds[:8], fmt.Sprintf("and %s more", number(more)))
		}
		rows = append(rows, []string{"`" + n.Name + "`", cmp.Or(n.role(), "worker"), addresses(n), valid(n.Join), strings.Join(holds, ", ")})
	}
	d.say("%s", grid([]string{"Node", "Role", "Addresses", "In the join subnet", "Holds"}, rows))
}

func prefixes(s Subnet) string { return join(s.Prefixes) }

func addresses(n Node) string { return join(n.Addresses) }

func addressOfPort(p Port) string {
	if len(p.Addresses) == 0 {
		return "–"
	}
	return p.Addresses[0].Addr().String()
}

// nodeLines are a node's interfaces and routes, as far as it told them.
func (d *document) nodeLines(n Node, inner Subnet) []string {
	lines := []string{"Interfaces:"}
	if n.Join.IsValid() {
		bits := ""
		if len(inner.Prefixes) > 0 {
			bits = fmt.Sprintf("/%d", inner.Prefixes[0].Bits())
		}
		lines = append(lines, fmt.Sprintf("• ovn0: %s%s (join subnet)", n.Join, bits))
	}
	for _, i := range n.Interfaces {
		if len(i.Addresses) > 0 && i.Name != "ovn0" && i.Name != "lo" {
			lines = append(lines, fmt.Sprintf("• %s: %s", i.Name, join(i.Addresses)))
		}
	}
	if ways := d.ways(n); len(ways) > 0 {
		lines = append(append(lines, "Routes:"), ways...)
	}
	return append(lines, fmt.Sprintf("Holds %s", many(len(n.Holds), "router port")))
}

// ways are the routes of a node to pods and to the outside.
func (d *document) ways(n Node) (lines []string) {
	for _, r := range n.Routes {
		to, what := "", ""
		if r.To == anywhere {
			to, what = "default", "everything else"
		}
		for _, s := range d.g.Vpcs[0].Subnets {
			for _, p := range s.Prefixes {
				if s.Purpose == ForPods && p.Contains(r.To) {
					to, what = p.String(), "pods"
				}
			}
		}
		if to != "" && r.NextHop.IsValid() {
			lines = append(lines, fmt.Sprintf("• %s via %s dev %s (%s)", to, r.NextHop, r.Output, what))
		}
	}
	return lines
}

func (d *document) addresses() {
	d.say("## External addresses\n\n### Types\n")
	var rows [][]string
	for _, n := range d.g.Networks {
		public := "no"
		if n.Public {
			public = "yes"
		}
		var ranges []string
		for _, s := range n.Subnets {
			ranges = append(ranges, join(s.Prefixes))
		}
		if n.Uplink != nil {
			ranges = append(ranges, join(n.Uplink.Addresses))
		}
		use := "where somebody asks for it"
		if n.Default {
			use = "the default"
		}
		rows = append(rows, []string{"`" + n.Type + "`", n.Name, strings.Join(ranges, ", "), use, public})
	}
	d.say("%s", grid([]string{"Type", "Network", "Addresses", "Used", "Routable on the internet"}, rows))
	d.say("### Current addresses\n")
	rows = nil
	for i := range d.g.Vpcs {
		v := &d.g.Vpcs[i]
		for _, e := range v.EIps {
			rows = append(rows, []string{e.Ref.Namespace, "`" + e.Ref.Name + "`", valid(e.Address), e.Type, e.OvnEip, v.usage(e)})
		}
	}
	d.say("%s", grid([]string{"Namespace", "EIp", "Address", "Type", "OvnEip", "Used for"}, rows))
}

// usage is what an address is used for, in words.
func (v *Vpc) usage(e EIp) string {
	var words []string
	for _, u := range e.Users {
		switch u.Kind {
		case "Project":
			words = append(words, "SNAT for the project")
		case "FIp":
			to := ""
			for _, f := range v.FIps {
				if f.Ref == u {
					to = " to " + f.Target.String()
				}
			}
			words = append(words, "FIp "+u.Name+to)
		case "Service":
			words = append(words, "LoadBalancer Service "+u.Name)
		default:
			words = append(words, u.String())
		}
	}
	return cmp.Or(strings.Join(words, "; "), "reserved, not used")
}

// pairs are a map as text, in order.
func pairs(m map[string]string) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		words = append(words, key+"="+m[key])
	}
	return strings.Join(words, ", ")
}
