package explain

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
	"github.com/sallyport/sallyport/internal/words"
)

// tell says in words what was asked for, with which addresses it ended, and what packets pass.
func (e *explainer) tell() {
	c := &e.s.Cluster
	switch e.ref.Kind {
	case string(intent.EIp):
		e.tellEIp(c.EIp(e.ref))
	case string(intent.FIp):
		e.tellFIp(c.FIp(e.ref))
	case string(intent.Service):
		e.tellService(c.Service(e.ref))
	case string(intent.Project):
		e.tellProject(c.Project(e.ref))
	case string(intent.EgressIP):
		e.tellEgressIP(c.EgressIP(e.ref))
	case string(intent.EgressService), string(intent.EgressRoute):
		e.tellEgress(c.Egress(e.ref))
	case string(intent.ExternalNetwork), string(intent.Subnet):
		e.tellNetwork(c.Network(e.ref.Name))
	case survey.NodeKind:
		e.tellNode(c.Node(e.ref.Name))
	case survey.PodKind:
		e.tellPod(c.Pod(e.ref))
	}
}

func (e *explainer) asked(format string, args ...any) {
	e.out.Asked = append(e.out.Asked, fmt.Sprintf(format, args...))
}

func (e *explainer) address(addresses ...netip.Addr) {
	for _, a := range addresses {
		if a.IsValid() && !slices.Contains(e.out.Addresses, a) {
			e.out.Addresses = append(e.out.Addresses, a)
		}
	}
}

func (e *explainer) tellEIp(o *survey.EIp) {
	if o == nil {
		return
	}
	e.address(o.Address)
	e.asked("%s of %s", cmp.Or(o.Requested, "any address"), network(cmp.Or(o.Network, o.Type)))
	if o.MadeFor != none {
		e.asked("made for %s, and goes with it", o.MadeFor)
	}
	e.enter(o.Shard, o.Address)
	users := e.s.Users(o.Address)
	for _, u := range users {
		switch u.Kind {
		case string(intent.FIp):
			e.translate(e.s.Cluster.FIp(u))
		case string(intent.Service):
			e.balance(e.s.Cluster.Service(u), true)
		}
	}
	if p := e.s.Cluster.ProjectOf(o.Shard); p != nil && p.Address == o.Address {
		e.translates(p.Ref, o.Shard, o.Address)
	} else if len(users) == 0 {
		e.has(o.Ref, "nobody uses it; it stays reserved")
	}
}

func (e *explainer) tellFIp(o *survey.FIp) {
	if o == nil {
		return
	}
	e.address(o.External)
	target := "address " + text(o.Target)
	switch {
	case o.Pod != "":
		target = "pod " + o.Pod
	case o.VM != "":
		target = "virtual machine " + o.VM
	}
	e.asked("%s for %s, both ways", cmp.Or(prefixed("EIp ", o.EIp), "an address"), target)
	e.enter(o.Shard, o.External)
	e.translate(o)
}

func (e *explainer) tellService(o *survey.Service) {
	if o == nil {
		return
	}
	e.address(o.Ingress...)
	e.address(o.ExternalIPs...)
	var ports []string
	for _, p := range o.Ports {
		ports = append(ports, fmt.Sprintf("%s %d to %s", strings.ToLower(p.Protocol), p.Port, p.Target))
	}
	e.asked("%s, balanced over pods with %s", words.Few(ports, 6), cmp.Or(selector(o.Selector), "no selector: its endpoints are somebody's"))
	for _, name := range slices.Sorted(maps.Keys(o.Annotations)) {
		if slices.Contains(annotations, name) {
			e.asked("%s: %s", name, o.Annotations[name])
		}
	}
	if len(o.Sources) > 0 {
		e.asked("only from %s", words.Few(words.Of(o.Sources), 4))
	}
	if !o.Ours {
		e.asked("loadBalancerClass %q: somebody else serves it", o.Class)
	}
	for _, a := range e.out.Addresses {
		e.enter(o.Shard, a)
	}
	e.balance(o, false)
}

// annotations of Services that ask for something.
var annotations = []string{
	kubedcv1.BindAnnotation, kubedcv1.BindDefaultAnnotation, kubedcv1.ExternalNetworkTypeLabel, kubedcv1.HealthAnnotation,
	kubedcv1.BackendAnnotation, kubedcv1.BackendAnnotationToo, kubedcv1.AutodeleteAnnotation, ovnv1.EgressServiceAnnotation,
}

func (e *explainer) tellProject(o *survey.Project) {
	if o == nil {
		return
	}
	e.address(o.Address)
	e.asked("a network of its own, %s, that leaves by %s", few(o.Prefixes), network(o.Network))
	e.translates(o.Ref, o.Shard, o.Address)
	e.leave(o.Shard, o.Address)
	var used []string
	for _, x := range e.s.Cluster.EIps {
		if x.Shard == o.Shard && x.Address != o.Address && x.Address.IsValid() {
			used = append(used, x.Address.String())
		}
	}
	if len(used) > 0 {
		e.has(o.Ref, "%s: %s", words.Count(len(used), "more address", "more addresses"), words.Few(used, 6))
	}
}

func (e *explainer) tellEgressIP(o *survey.EgressIP) {
	if o == nil {
		return
	}
	e.asked("selected pods, %d at present, leave with %s", o.Selects, words.Few(o.Addresses, 4))
	if o.Outside.Number > 0 {
		e.broken(o.Ref, "%s of no project and not served: %s", words.Count(o.Outside.Number, "pod is", "pods are"), o.Outside)
	}
	for _, r := range e.chain {
		if r.Kind == survey.RouterKind && r.Name != ownership.EgressVpc {
			e.step(r, "router %s leads their packets there", r.Name)
		}
	}
	for _, held := range o.Addresses {
		a, err := netip.ParseAddr(held)
		if err != nil {
			continue
		}
		e.address(a)
		if o.Held[held] == "" {
			e.broken(o.Ref, "no node holds %s", held)
		}
		if e.router(ownership.EgressVpc) != nil {
			e.leave(ownership.EgressVpc, a)
		}
	}
}

func (e *explainer) tellEgress(o *survey.Egress) {
	if o == nil {
		return
	}
	e.address(o.Sources...)
	who, to := "pods that it selects", "everywhere"
	if o.Kind == string(intent.EgressService) {
		who = "pods behind Service " + o.Name
	}
	if len(o.Destinations) > 0 {
		to = words.Few(words.Of(o.Destinations), 4)
	}
	e.asked("%s leave for %s by %s", who, to, network(o.Network))
	on := e.s.Cluster.Network(o.Network)
	if on != nil && on.Interface != "" {
		e.byNodes(on)
		e.step(on.Ref, "network %s; its gateway is %s", on.Name, cmp.Or(few(on.Gateways), "not known"))
		return
	}
	for _, a := range o.Sources {
		e.translates(o.Ref, o.Shard, a)
		e.leave(o.Shard, a)
	}
	if len(o.Sources) == 0 {
		e.broken(o.Ref, "no address is known with which they leave")
	}
}

func (e *explainer) tellNetwork(o *survey.Network) {
	if o == nil {
		return
	}
	e.asked("an external network of type %s%s", o.Type, map[bool]string{true: ", the default"}[o.Default])
	if o.Interface != "" {
		e.asked("nodes are on it by %s, method %s: %s", o.Interface, o.Method, cmp.Or(words.Few(o.OnNodes, 6), "none"))
	}
	for _, name := range o.Subnets {
		n := e.s.Cluster.Subnet(name)
		if n == nil {
			e.has(state.Ref{Kind: string(intent.Subnet), Name: name}, "Subnet %s, which does not exist", name)
			continue
		}
		e.has(n.Ref, "Subnet %s %s%s, gateway %s: %d addresses used, %d free", name, few(n.Prefixes), vlan(n),
			cmp.Or(few(n.Gateways), "none"), n.Used, n.Free)
		e.tellPorts(n)
	}
}

// tellPorts is which nodes hold the ports of routers on a subnet.
func (e *explainer) tellPorts(n *survey.Subnet) {
	held := map[string][]string{}
	for _, r := range e.s.Logical.Routers {
		for _, p := range r.Ports {
			if slices.ContainsFunc(p.Networks, func(x netip.Prefix) bool { return n.Has(x.Addr()) }) {
				node := cmp.Or(e.s.NodeOf(p.Holder), "no node")
				held[node] = append(held[node], r.Name)
			}
		}
	}
	for _, node := range slices.Sorted(maps.Keys(held)) {
		routers := slices.Compact(held[node])
		e.has(survey.NodeRef(node), "%s holds the ports there of %s: %s", node, words.Count(len(routers), "router", "routers"), words.Few(routers, 6))
	}
}

func (e *explainer) tellNode(o *survey.Node) {
	if o == nil {
		return
	}
	e.address(o.Addresses...)
	var may []string
	for role, is := range map[string]bool{"gateways": o.Gateway, "egress addresses": o.Assignable} {
		if is {
			may = append(may, role)
		}
	}
	slices.Sort(may)
	e.asked("may hold %s", cmp.Or(strings.Join(may, " and "), "neither gateways nor egress addresses"))
	if o.Cordoned {
		e.asked("takes no new pods")
	}
	e.tellHeld(o.Name)
}

// tellHeld is what a node holds for others.
func (e *explainer) tellHeld(node string) {
	for _, r := range e.s.Logical.Routers {
		for _, p := range r.Ports {
			if p.Holder != "" && e.s.NodeOf(p.Holder) == node {
				e.has(survey.RouterRef(r.Name), "port %s of router %s: %s", p.Name, r.Name, few(p.Networks))
			}
		}
	}
	for _, n := range e.s.Cluster.Networks {
		if slices.Contains(n.OnNodes, node) {
			e.has(n.Ref, "network %s by %s, method %s", n.Name, n.Interface, n.Method)
		}
	}
	pods := 0
	for _, p := range e.s.Cluster.Pods {
		if p.Node == node {
			pods++
		}
	}
	e.has(survey.NodeRef(node), "%s", words.Count(pods, "pod", "pods"))
}

func (e *explainer) tellPod(o *survey.Pod) {
	if o == nil {
		return
	}
	e.address(o.Addresses...)
	e.asked("a pod on %s in Subnet %s", o.Node, o.Subnet)
	subnet := e.s.Cluster.Subnet(o.Subnet)
	if subnet == nil || o.HostNetwork {
		return
	}
	for _, f := range e.s.Cluster.FIps {
		if f.Shard == subnet.Vpc && slices.Contains(o.Addresses, f.Target) {
			e.has(f.Ref, "%s, with %s", f.Ref, text(f.External))
		}
	}
	for _, v := range e.s.Cluster.Services {
		for _, x := range v.Endpoints {
			if x.Pod == o.Name && v.Namespace == o.Namespace {
				e.has(v.Ref, "connections of %s to %s", v.Ref, x.Address)
			}
		}
	}
}
