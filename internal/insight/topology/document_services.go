package topology

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
)

// writeLoadBalancers writes the load balancers, each with the objects created for it.
func (d *markdownDoc) writeLoadBalancers() {
	d.writeLine("## Load balancers\n")
	d.writeLine("What a Service of type LoadBalancer gets:\n")
	d.writeLine("1. an EIp, or a share of the one that the annotation `%s` names, and an OvnEip of Kube-OVN for it",
		kubedcv1.BindAnnotation)
	d.writeLine("2. load balancers of OVN, one for each protocol, on the router of its VPC: from the external address to the pods")
	d.writeLine("3. a headless Service `NAME-ext` with an EndpointSlice, by which others in the cluster find the external address")
	d.writeLine("4. a Backend of Envoy Gateway at the external address, where the annotation `%s: \"true\"` asks for it\n", kubedcv1.BackendAnnotation)
	drawn := 0
	for i := range d.graph.Vpcs {
		v := &d.graph.Vpcs[i]
		for _, s := range v.Services {
			if !s.Managed || s.Type != "LoadBalancer" || !s.Address.IsValid() {
				continue
			}
			if drawn++; drawn <= maxDrawn {
				d.writeLoadBalancer(v, s)
			}
		}
	}
	if more := drawn - maxDrawn; more > 0 {
		d.writeLine("And %s more: `sallyport map -o json` has them all.\n", formatNumber(more))
	}
}

func (d *markdownDoc) writeLoadBalancer(v *Vpc, s Service) {
	d.writeLine("### %s/%s\n", s.Ref.Namespace, s.Ref.Name)
	rows := [][]string{
		{"Service", s.Ref.Name, fmt.Sprintf("type LoadBalancer, ClusterIP %s, in its status %s",
			formatIfValid(s.ClusterIP), s.Address)},
		{"its ports", "", s.formatPorts()},
	}
	if len(s.Selector) > 0 {
		rows = append(rows, []string{"its selector", "", formatPairs(s.Selector)})
	}
	if len(s.Annotations) > 0 {
		rows = append(rows, []string{"its annotations", "", formatPairs(s.Annotations)})
	}
	e := v.findEIP(s.EIp)
	rows = append(rows, []string{"EIp", e.Ref.Name, fmt.Sprintf("%s, type %s", s.Address, e.Type)})
	if e.OvnEip != "" {
		rows = append(rows, []string{"OvnEip", e.OvnEip, s.Address.String()})
	}
	for _, l := range s.LoadBalancers {
		for _, vip := range l.VIPs {
			to := "no backend"
			if len(vip.Backends) > 0 {
				to = joinStrings(vip.Backends)
			}
			rows = append(rows, []string{
				"load balancer of OVN", l.Name,
				fmt.Sprintf("VIP %s → %s, on router %s", vip.Address, to, v.Router.Name),
			})
		}
	}
	if x := s.HeadlessService; x != nil {
		rows = append(rows,
			[]string{"Service", x.Ref.Name, "ClusterIP None (headless); " + formatPairs(filterOwnLabels(x.Labels))},
			[]string{"EndpointSlice", x.Ref.Name, strings.Join(x.Endpoints, ", ")})
	}
	for _, k := range d.graph.Backends {
		if k.Service == s.Ref {
			rows = append(rows, []string{"Backend", k.Ref.Name, strings.Join(k.Endpoints, ", ")})
		}
	}
	d.writeLine("%s", formatMarkdownTable([]string{"What", "Name", "How it is"}, rows))
}

// filterOwnLabels returns the labels of the platform.
func filterOwnLabels(labels map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range labels {
		if strings.HasPrefix(key, "kube-dc.com/") {
			out[key] = value
		}
	}
	return out
}

func (s *Service) formatPorts() string {
	var words []string
	for _, l := range s.Ports {
		word := fmt.Sprintf("%d → %s/%s", l.Port, l.TargetPort, strings.ToLower(l.Protocol))
		if l.NodePort > 0 {
			word = fmt.Sprintf("%d:%d → %s/%s", l.Port, l.NodePort, l.TargetPort, strings.ToLower(l.Protocol))
		}
		if l.Name != "" {
			word += " (" + l.Name + ")"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// writeExternalIPServices writes the Services with external IPs, which nodes serve.
func (d *markdownDoc) writeExternalIPServices() {
	var rows [][]string
	for _, s := range d.externalIPServices() {
		var pods []string
		for _, l := range s.Ports {
			for _, t := range l.Targets {
				t.Port = 0
				if text := d.formatPodSubnet(s.Ref.Namespace, t); !slices.Contains(pods, text) {
					pods = append(pods, text)
				}
			}
		}
		sees := "the node's, of the join subnet"
		if s.LocalTrafficPolicy {
			sees = "the client's"
		}
		rows = append(rows, []string{
			s.Ref.Namespace + "/" + s.Ref.Name, s.Type, formatIfValid(s.ClusterIP), joinStrings(s.ExternalIPs),
			s.formatPorts(), strings.Join(pods, ", "), sees,
		})
	}
	if len(rows) == 0 {
		return
	}
	d.writeLine("## Services at addresses of nodes\n")
	d.writeLine("`externalIPs` are answered by a Service proxy (kube-proxy) on nodes, not by OVN.\n")
	d.writeLine("%s", formatMarkdownTable([]string{
		"Service", "Type", "ClusterIP", "externalIPs", "Ports", "Pods",
		"Address that pods see",
	}, rows))
}

// formatPodSubnet returns a pod with the Subnet of its address.
func (d *markdownDoc) formatPodSubnet(namespace string, t Target) string {
	for _, v := range d.graph.Vpcs {
		for _, s := range v.Subnets {
			if slices.Contains(v.Namespaces, namespace) &&
				slices.ContainsFunc(s.Prefixes, func(p netip.Prefix) bool { return p.Contains(t.Address) }) {
				return t.String() + " (" + s.Name + ")"
			}
		}
	}
	return t.String() + " (network of its node)"
}

func (d *markdownDoc) externalIPServices() (all []Service) {
	for _, v := range d.graph.Vpcs {
		for _, s := range v.Services {
			if len(s.ExternalIPs) > 0 {
				all = append(all, s)
			}
		}
	}
	return all
}

// writeGateways writes the Gateways of the Gateway API with their listeners, Services and proxies.
func (d *markdownDoc) writeGateways() {
	if len(d.graph.Gateways)+len(d.graph.Routes)+len(d.graph.Backends) == 0 {
		return
	}
	d.writeLine("## Gateways of the Gateway API\n")
	for _, w := range d.graph.Gateways {
		d.writeGateway(w)
	}
}

// writeRoutes writes the routes of the Gateway API as a tree, down to the pods.
func (d *markdownDoc) writeRoutes() {
	if len(d.graph.Routes)+len(d.graph.Backends) == 0 {
		return
	}
	d.writeLine("### Routes and Backends\n")
	var lines []string
	for _, w := range d.graph.Gateways {
		gateway := treeNode{text: w.Ref.String()}
		for _, r := range d.graph.Routes {
			if !slices.Contains(r.Gateways, w.Ref) {
				continue
			}
			route := treeNode{text: r.Ref.String() + "  " + w.formatRouteURLs(r)}
			for _, ref := range r.Backends {
				route.children = append(route.children,
					d.buildBackendTree(ref.Kind+" "+ref.Name, d.graph.findBackend(ref)))
			}
			gateway.children = append(gateway.children, route)
		}
		if more := len(gateway.children) - maxDrawn; more > 0 {
			gateway.children = append(gateway.children[:maxDrawn],
				treeNode{text: fmt.Sprintf("and %s more routes", formatNumber(more))})
		}
		class := treeNode{strings.TrimSpace("GatewayClass " + w.Class + "  " + w.Controller), []treeNode{gateway}}
		lines = append(lines, class.renderTree()...)
	}
	for _, k := range d.graph.Backends {
		if !slices.ContainsFunc(d.graph.Routes, func(r Route) bool { return slices.Contains(r.Backends, k.Ref) }) {
			lines = append(lines, treeNode{
				"no route",
				[]treeNode{d.buildBackendTree(k.Ref.String(), k)},
			}.renderTree()...)
		}
	}
	d.writeLine("%s", formatCodeBlock(lines))
}

func (d *markdownDoc) writeGateway(w Gateway) {
	d.writeLine("### %s/%s\n", w.Ref.Namespace, w.Ref.Name)
	lines := []string{"GatewayClass " + w.Class}
	if w.Controller != "" {
		lines[0] += ", carried out by " + w.Controller
	}
	blocks := append(drawFrame("Gateway "+w.Ref.Name,
		append(lines, "addresses: "+cmp.Or(strings.Join(w.Addresses, ", "), "none"))), drawDownArrow("")...)
	var listeners []string
	for _, l := range w.Listeners {
		listeners = append(listeners, "• "+l)
	}
	blocks = append(append(blocks, drawFrame("Listeners", listeners)...), drawDownArrow("")...)
	for _, s := range d.gatewayServices(w) {
		lines := []string{"type " + s.Type + ", ClusterIP " + formatIfValid(s.ClusterIP)}
		if len(s.ExternalIPs) > 0 {
			lines = append(lines, "externalIPs: "+joinStrings(s.ExternalIPs))
		}
		if s.Address.IsValid() {
			lines = append(lines, "external address: "+s.Address.String())
		}
		blocks = append(append(blocks, drawFrame("Service "+s.Ref.Name, append(lines, "ports: "+s.formatPorts()))...),
			drawDownArrow("")...)
	}
	var pods []string
	for _, t := range w.Pods {
		pods = append(pods, strings.TrimSpace("• "+d.formatPodSubnet(w.Ref.Namespace, t)+" "+formatOnNode(t)))
	}
	d.writeLine("%s", formatCodeBlock(append(blocks, drawFrame("Proxies in namespace "+w.Ref.Namespace, pods)...)))
}

// gatewayServices returns the Services of a Gateway's proxies.
func (d *markdownDoc) gatewayServices(w Gateway) (all []Service) {
	for _, v := range d.graph.Vpcs {
		for _, s := range v.Services {
			if slices.Contains(w.Services, s.Ref) {
				all = append(all, s)
			}
		}
	}
	return all
}

// buildBackendTree returns the tree of a Backend: its endpoints, their OVN load balancers and the pods behind them.
func (d *markdownDoc) buildBackendTree(name string, k Backend) treeNode {
	out := treeNode{text: strings.TrimSpace(name + "  " + strings.Join(k.Endpoints, ", "))}
	for _, v := range d.graph.Vpcs {
		for _, s := range v.Services {
			if s.Ref != k.Service {
				continue
			}
			for _, l := range s.LoadBalancers {
				for _, vip := range l.VIPs {
					if slices.Contains(k.Endpoints, vip.Address.String()) {
						text := fmt.Sprintf("load balancer of OVN  VIP %s on router %s, for %s", vip.Address,
							v.Router.Name, s.Ref)
						out.children = append(out.children,
							treeNode{text, []treeNode{{text: "pods  " + cmp.Or(joinStrings(vip.Backends), "none")}}})
					}
				}
			}
		}
	}
	return out
}
