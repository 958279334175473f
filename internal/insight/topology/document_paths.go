package topology

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/insight/trace"
)

// writeEgress writes the table of EgressIPs, EgressRoutes and EgressServices.
func (d *markdownDoc) writeEgress() {
	var rows [][]string
	for _, e := range d.graph.EgressIPs {
		for _, a := range e.Addresses {
			rows = append(rows, []string{
				"EgressIP " + e.Ref.Name, a.Address.String(), a.Network, a.Node,
				pluralize(e.Pods, "pod"),
			})
		}
	}
	for _, v := range d.graph.Vpcs {
		for _, x := range slices.Concat(v.EgressRoutes, v.EgressServices) {
			rows = append(rows, []string{
				x.Ref.String(), formatIfValid(x.Address), x.Network,
				v.externalPort(x.Network).Node, joinStrings(x.Destinations),
			})
		}
	}
	if len(rows) == 0 {
		return
	}
	d.writeLine("## Egress\n")
	d.writeLine("%s", formatMarkdownTable([]string{"What", "Address", "Network", "Node", "For"}, rows))
}

// writePathExamples writes one connection of each kind, from the first VPC that has one. Connections with a reply take
// precedence.
func (d *markdownDoc) writePathExamples() {
	type example struct {
		vpc string
		Connection
	}
	var examples []example
	for _, v := range d.graph.Vpcs {
		for _, c := range v.Connections {
			at := slices.IndexFunc(examples, func(e example) bool { return e.exampleKind() == c.exampleKind() })
			switch {
			case at < 0:
				examples = append(examples, example{v.Name, c})
			case len(examples[at].Reply) == 0 && len(c.Reply) > 0:
				examples[at] = example{v.Name, c}
			}
		}
	}
	for i, e := range examples {
		if i == 0 {
			d.writeLine("## The way of packets\n")
		}
		d.writeLine("### Example %d: %s, %s\n", i+1, e.vpc, e.Title)
		d.writeLine("%s", formatCodeBlock(renderDiagram(e.Request)))
		if len(e.Reply) > 0 {
			d.writeLine("And back: %s\n", formatPlaces(e.Reply))
		}
	}
}

// exampleKind tells the kinds of examples apart. A Service may have its own address or one of nodes.
func (c Connection) exampleKind() string {
	if slices.ContainsFunc(c.Request, func(p trace.Place) bool { return p.Kind == trace.AtAddress }) {
		return c.About.Kind + " " + trace.AtAddress
	}
	return c.About.Kind
}

// renderDiagram draws a path: its places one below the other, with their actions.
func renderDiagram(places []trace.Place) (lines []string) {
	for i, s := range places {
		if i > 0 {
			lines = append(lines, "  ▼")
		}
		if s.Kind == trace.AtPod && s.Action != "" {
			lines = append(lines, formatPlaceTitle(s)+" "+s.Action)
			continue
		}
		if lines = append(lines, formatPlaceTitle(s)); s.Action != "" {
			lines = append(lines, "  │ "+s.Action)
		}
	}
	return lines
}

// formatPlaceTitle returns the label of a place, with its kind if the label does not show it.
func formatPlaceTitle(s trace.Place) string {
	switch {
	case s.Kind == trace.AtNetwork, s.Kind == trace.AtProxy, s.Kind == trace.AtNode && s.Ref.Kind != "":
		return s.Kind + " " + s.Label
	case s.Kind == trace.AtPod && s.Ref.Kind == "Pod":
		return "pod " + s.Label
	}
	return s.Label
}

// writeKnownIssues writes the findings and general notes about the cluster.
func (d *markdownDoc) writeKnownIssues(findings []diagnosis.Finding) {
	d.writeLine("## Known issues\n")
	if len(findings) == 0 {
		d.writeLine("Nothing was found that does not work.\n")
	} else {
		var rows [][]string
		for _, f := range findings {
			var about []string
			for _, r := range f.About {
				about = append(about, r.String())
			}
			rows = append(rows, []string{
				f.Severity.String(), "`" + f.Code + "`", strings.Join(about, ", "), f.Message,
				f.Remediation,
			})
		}
		d.writeLine("%s", formatMarkdownTable([]string{"Severity", "Finding", "About", "What is wrong", "What to do"},
			rows))
	}
	d.writeLine("### Worth knowing\n")
	d.writeClientAddressNote()
	d.writeLine("- **VPCs do not reach each other.** Pods of different VPCs have no route to one another, and may have the same addresses. They meet at" +
		" external addresses: of load balancers, floating IPs, or the Backends of a Gateway, whose proxies reach them like anybody outside.")
	d.writeSharedAddresses()
	d.writeLine("")
}

// writeClientAddressNote lists the Services whose pods do not see the client's address.
func (d *markdownDoc) writeClientAddressNote() {
	var names []string
	for _, s := range d.externalIPServices() {
		if !s.LocalTrafficPolicy {
			names = append(names, fmt.Sprintf("`%s/%s`", s.Ref.Namespace, s.Ref.Name))
		}
	}
	d.writeLine("- **Whose address pods see.** Through EIps, FIps and load balancers pods see the client's own address.")
	if len(names) > 0 {
		d.writeLine("  Through `externalIPs` a Service proxy may replace it by the node's: so for %s, where rules by client address do not work. Use a load"+
			" balancer on an external network, `externalTrafficPolicy: Local`, or the PROXY protocol.",
			strings.Join(names, ", "))
	}
}

// writeSharedAddresses lists the external IPs that several Services share, with their ports.
func (d *markdownDoc) writeSharedAddresses() {
	by, order := map[netip.Addr][]Service{}, []netip.Addr{}
	for _, s := range d.externalIPServices() {
		for _, a := range s.ExternalIPs {
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
				if taken[l.formatPort()] {
					clash = " Port " + l.formatPort() + " is asked for twice: one of them does not get it."
				}
				taken[l.formatPort()] = true
				ports = append(ports, l.formatPort())
			}
			words = append(words, fmt.Sprintf("`%s/%s` has %s", s.Ref.Namespace, s.Ref.Name, strings.Join(ports, ", ")))
		}
		d.writeLine("- **%s is shared** by Services with different ports: %s.%s", a, strings.Join(words, "; "), clash)
	}
}

func (d *markdownDoc) writeResources() {
	d.writeLine("## Resources\n")
	var rows [][]string
	for _, c := range d.graph.Counts {
		if c.Count == 0 {
			continue
		}
		rows = append(rows, []string{c.Kind, formatNumber(c.Count), c.Purpose})
	}
	d.writeLine("%s", formatMarkdownTable([]string{"Kind", "Count", "What for"}, rows))
	d.writeLine("## References\n")
	d.writeLine("- [Kube-OVN: VPCs](https://kubeovn.github.io/docs/stable/en/vpc/vpc/)")
	d.writeLine("- [Envoy Gateway](https://gateway.envoyproxy.io/)")
	d.writeLine("- [Gateway API](https://gateway-api.sigs.k8s.io/)")
	d.writeLine("- `sallyport explain`, `sallyport trace` and `sallyport doctor` tell more about each object")
}

// formatEgressSummary counts the VPCs by egress network.
func (d *markdownDoc) formatEgressSummary() string {
	var words []string
	note := func(all []*Vpc, way string) {
		all = slices.DeleteFunc(all, func(v *Vpc) bool { return v.Management })
		if len(all) > 0 {
			words = append(words, fmt.Sprintf("of %s by %s", formatNumber(len(all)), way))
		}
	}
	for _, n := range d.graph.Networks {
		note(d.graph.vpcsByEgressNetwork(n.Name), n.Name)
	}
	note(d.graph.vpcsByEgressNetwork(""), "no external network")
	if slices.ContainsFunc(d.graph.Vpcs, func(v Vpc) bool { return v.Management }) {
		words = append(words, "of the management VPC by the nodes")
	}
	return strings.Join(words, ", ")
}
