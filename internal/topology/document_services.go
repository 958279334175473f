package topology

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
)

// services are the load balancers, each with what was made for it.
func (d *document) services() {
	d.say("## Load balancers\n")
	d.say("What a Service of type LoadBalancer gets:\n")
	d.say("1. an EIp, or a share of the one that the annotation `%s` names, and an OvnEip of Kube-OVN for it", kubedcv1.BindAnnotation)
	d.say("2. load balancers of OVN, one for each protocol, on the router of its VPC: from the external address to the pods")
	d.say("3. a headless Service `NAME-ext` with an EndpointSlice, by which others in the cluster find the external address")
	d.say("4. a Backend of Envoy Gateway at the external address, where the annotation `%s: \"true\"` asks for it\n", kubedcv1.BackendAnnotation)
	drawn := 0
	for i := range d.g.Vpcs {
		v := &d.g.Vpcs[i]
		for _, s := range v.Services {
			if !s.Ours || s.Type != "LoadBalancer" || !s.Address.IsValid() {
				continue
			}
			if drawn++; drawn <= mostDrawn {
				d.service(v, s)
			}
		}
	}
	if more := drawn - mostDrawn; more > 0 {
		d.say("And %s more: `sallyport map -o json` has them all.\n", number(more))
	}
}

func (d *document) service(v *Vpc, s Service) {
	d.say("### %s/%s\n", s.Ref.Namespace, s.Ref.Name)
	rows := [][]string{
		{"Service", s.Ref.Name, fmt.Sprintf("type LoadBalancer, ClusterIP %s, in its status %s", valid(s.ClusterIP), s.Address)},
		{"its ports", "", s.portList()},
	}
	if len(s.Selector) > 0 {
		rows = append(rows, []string{"its selector", "", pairs(s.Selector)})
	}
	if len(s.Annotations) > 0 {
		rows = append(rows, []string{"its annotations", "", pairs(s.Annotations)})
	}
	e := v.eip(s.EIp)
	rows = append(rows, []string{"EIp", e.Ref.Name, fmt.Sprintf("%s, type %s", s.Address, e.Type)})
	if e.OvnEip != "" {
		rows = append(rows, []string{"OvnEip", e.OvnEip, s.Address.String()})
	}
	for _, l := range s.Balancers {
		for _, vip := range l.VIPs {
			to := "no backend"
			if len(vip.Backends) > 0 {
				to = join(vip.Backends)
			}
			rows = append(rows, []string{"load balancer of OVN", l.Name, fmt.Sprintf("VIP %s → %s, on router %s", vip.Address, to, v.Router.Name)})
		}
	}
	if x := s.External; x != nil {
		rows = append(rows,
			[]string{"Service", x.Ref.Name, "ClusterIP None (headless); " + pairs(ours(x.Labels))},
			[]string{"EndpointSlice", x.Ref.Name, strings.Join(x.Endpoints, ", ")})
	}
	for _, k := range d.g.Backends {
		if k.Service == s.Ref {
			rows = append(rows, []string{"Backend", k.Ref.Name, strings.Join(k.Endpoints, ", ")})
		}
	}
	d.say("%s", grid([]string{"What", "Name", "How it is"}, rows))
}

// ours are the labels that mean something here.
func ours(labels map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range labels {
		if strings.HasPrefix(key, "kube-dc.com/") {
			out[key] = value
		}
	}
	return out
}

func (s *Service) portList() string {
	var words []string
	for _, l := range s.Ports {
		word := fmt.Sprintf("%d → %s/%s", l.Port, l.Target, strings.ToLower(l.Protocol))
		if l.NodePort > 0 {
			word = fmt.Sprintf("%d:%d → %s/%s", l.Port, l.NodePort, l.Target, strings.ToLower(l.Protocol))
		}
		if l.Name != "" {
			word += " (" + l.Name + ")"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// atNodes are the Services at addresses that nodes answer for.
func (d *document) atNodes() {
	var rows [][]string
	for _, s := range d.exposed() {
		var pods []string
		for _, l := range s.Ports {
			for _, t := range l.Targets {
				t.Port = 0
				if text := d.inside(s.Ref.Namespace, t); !slices.Contains(pods, text) {
					pods = append(pods, text)
				}
			}
		}
		sees := "the node's, of the join subnet"
		if s.Local {
			sees = "the client's"
		}
		rows = append(rows, []string{
			s.Ref.Namespace + "/" + s.Ref.Name, s.Type, valid(s.ClusterIP), join(s.Outside), s.portList(), strings.Join(pods, ", "), sees,
		})
	}
	if len(rows) == 0 {
		return
	}
	d.say("## Services at addresses of nodes\n")
	d.say("`externalIPs` are answered by a Service proxy (kube-proxy) on nodes, not by OVN.\n")
	d.say("%s", grid([]string{"Service", "Type", "ClusterIP", "externalIPs", "Ports", "Pods", "Address that pods see"}, rows))
}

// inside is a pod with the subnet that it has its address in.
func (d *document) inside(namespace string, t Target) string {
	for _, v := range d.g.Vpcs {
		for _, s := range v.Subnets {
			if slices.Contains(v.Namespaces, namespace) && slices.ContainsFunc(s.Prefixes, func(p netip.Prefix) bool { return p.Contains(t.Address) }) {
				return t.String() + " (" + s.Name + ")"
			}
		}
	}
	return t.String() + " (network of its node)"
}

// exposed are the Services with external IPs.
func (d *document) exposed() (all []Service) {
	for _, v := range d.g.Vpcs {
		for _, s := range v.Services {
			if len(s.Outside) > 0 {
				all = append(all, s)
			}
		}
	}
	return all
}

// gateways are those of the Gateway API, with their routes down to the pods.
func (d *document) gateways() {
	if len(d.g.Gateways)+len(d.g.Routes)+len(d.g.Backends) == 0 {
		return
	}
	d.say("## Gateways of the Gateway API\n")
	for _, w := range d.g.Gateways {
		d.gateway(w)
	}
}

// routes are those of the Gateway API as a tree, down to the pods.
func (d *document) routes() {
	if len(d.g.Routes)+len(d.g.Backends) == 0 {
		return
	}
	d.say("### Routes and Backends\n")
	var lines []string
	for _, w := range d.g.Gateways {
		gateway := branch{text: w.Ref.String()}
		for _, r := range d.g.Routes {
			if !slices.Contains(r.Gateways, w.Ref) {
				continue
			}
			route := branch{text: r.Ref.String() + "  " + w.requests(r)}
			for _, ref := range r.Backends {
				route.below = append(route.below, d.backend(ref.Kind+" "+ref.Name, d.g.backendOf(ref)))
			}
			gateway.below = append(gateway.below, route)
		}
		if more := len(gateway.below) - mostDrawn; more > 0 {
			gateway.below = append(gateway.below[:mostDrawn], branch{text: fmt.Sprintf("and %s more routes", number(more))})
		}
		class := branch{strings.TrimSpace("GatewayClass " + w.Class + "  " + w.Controller), []branch{gateway}}
		lines = append(lines, class.lines()...)
	}
	for _, k := range d.g.Backends {
		if !slices.ContainsFunc(d.g.Routes, func(r Route) bool { return slices.Contains(r.Backends, k.Ref) }) {
			lines = append(lines, branch{"no route", []branch{d.backend(k.Ref.String(), k)}}.lines()...)
		}
	}
	d.say("%s", code(lines))
}

func (d *document) gateway(w Gateway) {
	d.say("### %s/%s\n", w.Ref.Namespace, w.Ref.Name)
	lines := []string{"GatewayClass " + w.Class}
	if w.Controller != "" {
		lines[0] += ", carried out by " + w.Controller
	}
	blocks := append(frame("Gateway "+w.Ref.Name, append(lines, "addresses: "+cmp.Or(strings.Join(w.Addresses, ", "), "none"))), down("")...)
	var listeners []string
	for _, l := range w.Listeners {
		listeners = append(listeners, "• "+l)
	}
	blocks = append(append(blocks, frame("Listeners", listeners)...), down("")...)
	for _, s := range d.exposedBy(w) {
		lines := []string{"type " + s.Type + ", ClusterIP " + valid(s.ClusterIP)}
		if len(s.Outside) > 0 {
			lines = append(lines, "externalIPs: "+join(s.Outside))
		}
		if s.Address.IsValid() {
			lines = append(lines, "external address: "+s.Address.String())
		}
		blocks = append(append(blocks, frame("Service "+s.Ref.Name, append(lines, "ports: "+s.portList()))...), down("")...)
	}
	var pods []string
	for _, t := range w.Pods {
		pods = append(pods, strings.TrimSpace("• "+d.inside(w.Ref.Namespace, t)+" "+onNode(t)))
	}
	d.say("%s", code(append(blocks, frame("Proxies in namespace "+w.Ref.Namespace, pods)...)))
}

// exposedBy are the Services of a Gateway's proxies.
func (d *document) exposedBy(w Gateway) (all []Service) {
	for _, v := range d.g.Vpcs {
		for _, s := range v.Services {
			if slices.Contains(w.Services, s.Ref) {
				all = append(all, s)
			}
		}
	}
	return all
}

// backend is where requests go: to an endpoint, which a load balancer of OVN may have, and from there to pods.
func (d *document) backend(name string, k Backend) branch {
	out := branch{text: strings.TrimSpace(name + "  " + strings.Join(k.Endpoints, ", "))}
	for _, v := range d.g.Vpcs {
		for _, s := range v.Services {
			if s.Ref != k.Service {
				continue
			}
			for _, l := range s.Balancers {
				for _, vip := range l.VIPs {
					if slices.Contains(k.Endpoints, vip.Address.String()) {
						text := fmt.Sprintf("load balancer of OVN  VIP %s on router %s, for %s", vip.Address, v.Router.Name, s.Ref)
						out.below = append(out.below, branch{text, []branch{{text: "pods  " + cmp.Or(join(vip.Backends), "none")}}})
					}
				}
			}
		}
	}
	return out
}
