package topology

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/insight/diagnosis"
)

// RenderMarkdown renders the graph as a Markdown document about the whole cluster, with the findings.
func (g *Graph) RenderMarkdown(findings []diagnosis.Finding) string {
	d := markdownDoc{graph: g}
	d.writeLine("# The network of %s\n", g.Cluster)
	d.writeLine("%s. Kubernetes %s, as it was on %s.", g.formatSummary(), g.Version,
		g.Taken.UTC().Format("2006-01-02 15:04 MST"))
	d.writeLine("There are %s. Pods leave: %s.\n", pluralize(len(g.Vpcs), "VPC"), d.formatEgressSummary())
	d.writePhysicalNetwork()
	d.writeLogicalNetwork()
	d.writeVPCTables()
	d.writeJoinSubnet()
	d.writeAddresses()
	d.writeLoadBalancers()
	d.writeExternalIPServices()
	d.writeGateways()
	d.writeRoutes()
	d.writeEgress()
	d.writePathExamples()
	d.writeKnownIssues(findings)
	d.writeResources()
	return d.String()
}

// markdownDoc writes Markdown.
type markdownDoc struct {
	strings.Builder
	graph *Graph
}

func (d *markdownDoc) writeLine(format string, args ...any) { fmt.Fprintf(d, format+"\n", args...) }

// maxDrawn limits the VPCs and nodes that are drawn. Tables list all of them.
const maxDrawn = 12

// diagramWidth is the width of diagrams in characters.
const diagramWidth = 120

func (d *markdownDoc) writePhysicalNetwork() {
	d.writeLine("## Physical network\n")
	var blocks [][]string
	for _, n := range d.graph.Networks {
		for _, s := range n.Subnets {
			blocks = append(blocks, drawFrame(n.Name, describePhysical(n, s)))
		}
		if u := n.Uplink; u != nil {
			blocks = append(blocks, drawFrame(n.Name, []string{
				joinStrings(u.Addresses), "Gateway: " + joinStrings(u.Gateways), "Interface: " + u.Interface,
				"On " + pluralize(len(u.Nodes), "node") + " themselves",
				"Replies by " + u.Method, formatReachability(n),
			}))
		}
	}
	lines := append(layoutSideBySide(blocks, diagramWidth), drawDownArrow("provider bridges, on each node")...)
	lines = append(lines, drawFrame("OVN network", []string{
		"Open vSwitch and ovn-controller on each node; an external network is a switch with a port to its bridge",
	})...)
	d.writeLine("%s", formatCodeBlock(lines))
}

func describePhysical(n Network, s Subnet) []string {
	vlan := "no VLAN"
	if s.VLANTag > 0 {
		vlan = fmt.Sprintf("VLAN %d", s.VLANTag)
	}
	lines := []string{
		vlan, joinStrings(s.Prefixes), "Gateway: " + joinStrings(s.Gateways), formatReachability(n),
		"Provider bridge: br-" + s.ProviderNetwork,
	}
	if s.Interface != "" {
		lines = append(lines, "  by "+s.Interface+" of each node")
	}
	return append(lines, fmt.Sprintf("%s of %s addresses used", formatNumber(s.Used), formatNumber(s.Used+s.Free)))
}

func formatReachability(n Network) string {
	if n.Public {
		return "Internet-routable: yes"
	}
	return "Internet-routable: no, internal only"
}

func (d *markdownDoc) writeLogicalNetwork() {
	d.writeLine("## Logical network\n")
	d.writeLine("One router for each VPC. Inside OVN, external networks belong to `ovn-cluster`, and every router that uses one has a port on it.\n")
	var blocks [][]string
	for i := range d.graph.Vpcs[:min(maxDrawn, len(d.graph.Vpcs))] {
		blocks = append(blocks, d.drawVPCBox(&d.graph.Vpcs[i]))
	}
	d.writeLine("%s", formatCodeBlock(layoutSideBySide(blocks, diagramWidth)))
	if more := len(d.graph.Vpcs) - maxDrawn; more > 0 {
		d.writeLine("And %s more: `sallyport map PROJECT` draws each.\n", formatNumber(more))
	}
}

// drawVPCBox draws a VPC: its subnets, and its router with ports and NAT.
func (d *markdownDoc) drawVPCBox(v *Vpc) []string {
	var subnets [][]string
	for _, s := range v.Subnets {
		lines := []string{joinStrings(s.Prefixes)}
		switch s.Purpose {
		case SubnetJoin:
			lines = append(lines, "• nodes: "+pluralize(len(d.graph.Nodes), "address"))
			if len(d.graph.Nodes) > 0 && d.graph.Nodes[0].JoinAddress.IsValid() {
				lines = append(lines, "• what nodes send to pods", "  comes from these")
			}
		default:
			lines = append(lines, "• "+pluralize(v.Pods, "pod"))
			for _, w := range v.listWorkloads() {
				lines = append(lines, "• "+w)
			}
		}
		subnets = append(subnets, drawFrame(s.Name, lines))
	}
	if v.Management {
		for _, n := range d.graph.Networks {
			for _, s := range n.Subnets {
				subnets = append(subnets,
					drawFrame(s.Name, []string{
						joinStrings(s.Prefixes), "• EIps of type " + n.Type, "• load balancers",
						"• ports of routers",
					}))
			}
		}
	}
	lines := append(layoutSideBySide(subnets, diagramWidth-4), "      │")
	lines = append(lines, drawFrame(v.Router.Name+" router", v.describeRouter())...)
	lines = append(lines, "external subnets: "+cmp.Or(strings.Join(v.Networks, ", "), "none"))
	return drawFrame(v.Name+" VPC ("+v.describeOwner()+")",
		append(lines, "default way out: "+v.describeDefaultEgress()))
}

// describeDefaultEgress describes the default egress of a VPC.
func (v *Vpc) describeDefaultEgress() string {
	switch {
	case v.Gateway.IsValid():
		return fmt.Sprintf("%s, gateway %s", v.EgressNetwork, v.Gateway)
	case v.Management && v.SNATAddress.IsValid():
		return fmt.Sprintf("the nodes; to hosts of %s as %s", v.EgressNetwork, v.SNATAddress)
	case v.Management:
		return "the nodes"
	}
	return "none"
}

func (v *Vpc) describeOwner() string {
	switch {
	case v.Management:
		return "management"
	case v.Project != nil:
		return "project " + v.Project.Namespace + "/" + v.Project.Name
	}
	return "not ours"
}

// listWorkloads returns the namespaces of the management VPC, or the targets of FIps and the Services of other VPCs.
func (v *Vpc) listWorkloads() []string {
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
		return append(slices.Clone(all[:most]), fmt.Sprintf("and %s more", formatNumber(more)))
	}
	return all
}

func (v *Vpc) describeRouter() []string {
	lines := []string{"Ports:"}
	for _, p := range v.Router.Ports {
		if p.Kind == PortInternal || len(p.Addresses) == 0 {
			continue
		}
		name := p.Name
		if p.Kind == PortReturn {
			name = "return port of " + p.Network
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
			lines = append(lines, fmt.Sprintf("SNAT: %s → %s", n.LogicalIP, n.ExternalIP))
		case "dnat":
			lines = append(lines, fmt.Sprintf("DNAT: %s → %s", n.ExternalIP, n.LogicalIP.Addr()))
		case "dnat_and_snat":
			lines = append(lines, fmt.Sprintf("FIP: %s ↔ %s", n.ExternalIP, n.LogicalIP.Addr()))
		}
	}
	return lines
}

func (d *markdownDoc) writeVPCTables() {
	d.writeLine("## VPCs and subnets\n\n### VPCs\n")
	var rows [][]string
	for i := range d.graph.Vpcs {
		v := &d.graph.Vpcs[i]
		rows = append(rows, []string{
			"`" + v.Name + "`", v.describeOwner(), strings.Join(v.Namespaces, ", "), strings.Join(v.Networks, ", "),
			v.describeDefaultEgress(), formatIfValid(v.SNATAddress),
		})
	}
	d.writeLine("%s", formatMarkdownTable([]string{
		"VPC", "For", "Namespaces", "External networks", "Default way out",
		"Leaves with",
	}, rows))
	d.writeLine("### Subnets\n")
	rows = nil
	for _, n := range d.graph.Networks {
		for _, s := range n.Subnets {
			rows = append(rows, formatSubnetRow(s, "external addresses of type "+n.Type))
		}
	}
	for _, v := range d.graph.Vpcs {
		for _, s := range v.Subnets {
			rows = append(rows, formatSubnetRow(s,
				map[string]string{SubnetPods: "pods", SubnetJoin: "connects nodes with OVN"}[s.Purpose]))
		}
	}
	d.writeLine("%s", formatMarkdownTable([]string{"Subnet", "VPC", "Prefix", "Gateway", "VLAN", "Used", "Free", "For"},
		rows))
}

func formatSubnetRow(s Subnet, purpose string) []string {
	vlan := ""
	if s.VLANTag > 0 {
		vlan = fmt.Sprint(s.VLANTag)
	}
	return []string{
		"`" + s.Name + "`", s.Vpc, joinStrings(s.Prefixes), joinStrings(s.Gateways), vlan,
		formatNumber(s.Used), formatNumber(s.Free), purpose,
	}
}

// formatIfValid returns an address as text, or an empty string.
func formatIfValid(a interface {
	IsValid() bool
	String() string
},
) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

func (d *markdownDoc) writeJoinSubnet() {
	join, router := Subnet{}, RouterPort{}
	for _, v := range d.graph.Vpcs {
		for _, s := range v.Subnets {
			if s.Purpose == SubnetJoin {
				join = s
			}
		}
		for _, p := range v.Router.Ports {
			if p.Kind == PortJoin {
				router = p
			}
		}
	}
	d.writeLine("## Nodes and the join subnet\n")
	if join.Name != "" {
		d.writeLine("The subnet `%s` (%s) connects nodes with OVN:\n", join.Name, formatPrefixes(join))
		d.writeLine("1. Each node has an address of it, on its interface `ovn0`.")
		d.writeLine("2. A node reaches pods of the management VPC by the port of the router there, %s.",
			formatPortAddress(router))
		d.writeLine("3. What a node itself sends to pods comes from that address. So does what a Service proxy (kube-proxy) forwards from `externalIPs`.\n")
	}
	var blocks [][]string
	for _, n := range d.graph.Nodes[:min(maxDrawn, len(d.graph.Nodes))] {
		blocks = append(blocks, drawFrame(n.Name, d.describeNode(n, join)))
	}
	lines := layoutSideBySide(blocks, diagramWidth)
	if join.Name != "" {
		lines = append(append(lines, drawDownArrow("ovn0 of each node")...), drawFrame("switch "+join.Name, []string{
			formatPrefixes(join), "connected to:",
			fmt.Sprintf("• router of the management VPC: %s (%s)", formatPortAddress(router), router.Name),
			"• " + pluralize(len(d.graph.Nodes), "node"),
		})...)
	}
	d.writeLine("%s", formatCodeBlock(lines))
	var rows [][]string
	for _, n := range d.graph.Nodes {
		var holds []string
		for _, h := range n.GatewayPorts {
			holds = append(holds, fmt.Sprintf("%s (%s)", h.Address, h.Router))
		}
		if more := len(holds) - 8; more > 0 {
			holds = append(holds[:8], fmt.Sprintf("and %s more", formatNumber(more)))
		}
		rows = append(rows, []string{
			"`" + n.Name + "`", cmp.Or(n.formatRole(), "worker"), formatNodeAddresses(n),
			formatIfValid(n.JoinAddress), strings.Join(holds, ", "),
		})
	}
	d.writeLine("%s", formatMarkdownTable([]string{"Node", "Role", "Addresses", "In the join subnet", "Holds"}, rows))
}

func formatPrefixes(s Subnet) string { return joinStrings(s.Prefixes) }

func formatNodeAddresses(n Node) string { return joinStrings(n.Addresses) }

func formatPortAddress(p RouterPort) string {
	if len(p.Addresses) == 0 {
		return "–"
	}
	return p.Addresses[0].Addr().String()
}

// managementSubnets returns the subnets of the management VPC; none if it could not be read.
func (d *markdownDoc) managementSubnets() []Subnet {
	for _, v := range d.graph.Vpcs {
		if v.Management {
			return v.Subnets
		}
	}
	return nil
}

// describeNode returns the interfaces and routes that a node reported.
func (d *markdownDoc) describeNode(n Node, inner Subnet) []string {
	lines := []string{"Interfaces:"}
	if n.JoinAddress.IsValid() {
		bits := ""
		if len(inner.Prefixes) > 0 {
			bits = fmt.Sprintf("/%d", inner.Prefixes[0].Bits())
		}
		lines = append(lines, fmt.Sprintf("• ovn0: %s%s (join subnet)", n.JoinAddress, bits))
	}
	for _, i := range n.Interfaces {
		if len(i.Addresses) > 0 && i.Name != "ovn0" && i.Name != "lo" {
			lines = append(lines, fmt.Sprintf("• %s: %s", i.Name, joinStrings(i.Addresses)))
		}
	}
	if ways := d.formatNodeRoutes(n); len(ways) > 0 {
		lines = append(append(lines, "Routes:"), ways...)
	}
	return append(lines, fmt.Sprintf("Holds %s", pluralize(len(n.GatewayPorts), "router port")))
}

// formatNodeRoutes returns the routes of a node to pods and to the outside.
func (d *markdownDoc) formatNodeRoutes(n Node) (lines []string) {
	for _, r := range n.Routes {
		to, what := "", ""
		if r.To == defaultRouteProbe {
			to, what = "default", "everything else"
		}
		for _, s := range d.managementSubnets() {
			for _, p := range s.Prefixes {
				if s.Purpose == SubnetPods && p.Contains(r.To) {
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

func (d *markdownDoc) writeAddresses() {
	d.writeLine("## External addresses\n\n### Types\n")
	var rows [][]string
	for _, n := range d.graph.Networks {
		public := "no"
		if n.Public {
			public = "yes"
		}
		var ranges []string
		for _, s := range n.Subnets {
			ranges = append(ranges, joinStrings(s.Prefixes))
		}
		if n.Uplink != nil {
			ranges = append(ranges, joinStrings(n.Uplink.Addresses))
		}
		use := "where somebody asks for it"
		if n.Default {
			use = "the default"
		}
		rows = append(rows, []string{"`" + n.Type + "`", n.Name, strings.Join(ranges, ", "), use, public})
	}
	d.writeLine("%s", formatMarkdownTable([]string{"Type", "Network", "Addresses", "Used", "Routable on the internet"},
		rows))
	d.writeLine("### Current addresses\n")
	rows = nil
	for i := range d.graph.Vpcs {
		v := &d.graph.Vpcs[i]
		for _, e := range v.EIps {
			rows = append(rows, []string{
				e.Ref.Namespace, "`" + e.Ref.Name + "`", formatIfValid(e.Address), e.Type,
				e.OvnEip, v.describeEIPUsage(e),
			})
		}
	}
	d.writeLine("%s", formatMarkdownTable([]string{"Namespace", "EIp", "Address", "Type", "OvnEip", "Used for"}, rows))
}

// describeEIPUsage describes what an EIp is used for.
func (v *Vpc) describeEIPUsage(e EIp) string {
	var words []string
	for _, u := range e.UsedBy {
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

// formatPairs formats a map, sorted by key.
func formatPairs(m map[string]string) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		words = append(words, key+"="+m[key])
	}
	return strings.Join(words, ", ")
}
