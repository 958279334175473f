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
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/humanize"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// describeRequest adds what the object requests, its addresses and its parts.
func (e *explainer) describeRequest() {
	c := &e.s.Cluster
	switch e.ref.Kind {
	case string(intent.EIp):
		e.describeEIp(c.EIp(e.ref))
	case string(intent.FIp):
		e.describeFIp(c.FIp(e.ref))
	case string(intent.Service):
		e.describeService(c.Service(e.ref))
	case string(intent.Project):
		e.describeProject(c.Project(e.ref))
	case string(intent.EgressIP):
		e.describeEgressIP(c.EgressIP(e.ref))
	case string(intent.EgressService), string(intent.EgressRoute):
		e.describeEgressPolicy(c.EgressPolicy(e.ref))
	case string(intent.ExternalNetwork), string(intent.Subnet):
		e.describeNetwork(c.Network(e.ref.Name))
	case clusterstate.NodeKind:
		e.describeNode(c.Node(e.ref.Name))
	case clusterstate.PodKind:
		e.describePod(c.Pod(e.ref))
	}
}

func (e *explainer) addRequest(format string, args ...any) {
	e.out.Requested = append(e.out.Requested, fmt.Sprintf(format, args...))
}

func (e *explainer) addAddresses(addresses ...netip.Addr) {
	for _, a := range addresses {
		if a.IsValid() && !slices.Contains(e.out.Addresses, a) {
			e.out.Addresses = append(e.out.Addresses, a)
		}
	}
}

func (e *explainer) describeEIp(o *clusterstate.EIp) {
	if o == nil {
		return
	}
	e.addAddresses(o.Address)
	e.addRequest("%s of %s", cmp.Or(o.Requested, "any address"), formatNetwork(cmp.Or(o.Network, o.Type)))
	if o.MadeFor != noRef {
		e.addRequest("created for %s, and deleted with it", o.MadeFor)
	}
	e.addAddressParts(o.Shard, o.Address)
	users := e.s.AddressUsers(o.Address)
	for _, u := range users {
		switch u.Kind {
		case string(intent.FIp):
			e.addTargetPart(e.s.Cluster.FIp(u))
		case string(intent.Service):
			e.addEndpointParts(e.s.Cluster.Service(u), true)
		}
	}
	if p := e.s.Cluster.ProjectOfShard(o.Shard); p != nil && p.Address == o.Address {
		e.addPart(p.Ref, "source address of the pods of %s", p.Ref)
	} else if len(users) == 0 && o.Address.IsValid() {
		e.addPart(o.Ref, "not in use; the address stays reserved")
	} else if !o.Address.IsValid() {
		e.addWaitingFIps(o)
	}
}

// addWaitingFIps adds the floating IPs that name an EIp without an address.
func (e *explainer) addWaitingFIps(o *clusterstate.EIp) {
	for i := range e.s.Cluster.FIps {
		if f := &e.s.Cluster.FIps[i]; f.Namespace == o.Namespace && f.EIp == o.Name {
			e.addPart(f.Ref, "%s waits for its address", f.Ref)
		}
	}
}

func (e *explainer) describeFIp(o *clusterstate.FIp) {
	if o == nil {
		return
	}
	e.addAddresses(o.External)
	target := "address " + addressOrNone(o.Target)
	switch {
	case o.Pod != "":
		target = "pod " + o.Pod
	case o.VM != "":
		target = "virtual machine " + o.VM
	}
	e.addRequest("%s for %s, %s", cmp.Or(withPrefix("EIp ", o.EIp), "an address"), target, describeDirection(o))
	e.addAddressParts(o.Shard, o.External)
	e.addTargetPart(o)
}

// describeDirection returns which connections use a floating IP.
func describeDirection(o *clusterstate.FIp) string {
	switch {
	case o.Direction != string(kubedcv1.FIpInbound):
		return "both ways"
	case o.Outbound:
		return "both ways, but at present only for connections to it"
	default:
		return "for connections to it"
	}
}

// addTargetPart adds the pod of a floating IP.
func (e *explainer) addTargetPart(o *clusterstate.FIp) {
	if p := e.s.PodAt(o.Shard, o.Target); p != nil {
		e.addPodPart(p)
	} else if o.Target.IsValid() && o.External.IsValid() {
		e.addBrokenPart(o.Ref, "no pod has %s", o.Target)
	}
}

func (e *explainer) describeService(o *clusterstate.Service) {
	if o == nil {
		return
	}
	e.addAddresses(o.Ingress...)
	e.addAddresses(o.ExternalIPs...)
	var ports []string
	for _, p := range o.Ports {
		ports = append(ports, fmt.Sprintf("%s %d to %s", strings.ToLower(p.Protocol), p.Port, p.Target))
	}
	e.addRequest("%s, balanced over pods with %s", humanize.JoinLimited(ports, 6),
		cmp.Or(formatSelector(o.Selector), "no selector (its endpoints are managed elsewhere)"))
	for _, name := range slices.Sorted(maps.Keys(o.Annotations)) {
		if slices.Contains(requestAnnotations, name) {
			e.addRequest("%s: %s", name, o.Annotations[name])
		}
	}
	if len(o.Sources) > 0 {
		e.addRequest("allowed clients: %s", humanize.JoinLimited(humanize.Strings(o.Sources), 4))
	}
	if !o.Ours {
		e.addRequest("loadBalancerClass %q: handled by another controller", o.Class)
	}
	for _, a := range e.out.Addresses {
		e.addAddressParts(o.Shard, a)
	}
	e.addEndpointParts(o, false)
}

// requestAnnotations are the annotations of Services that request something.
var requestAnnotations = []string{
	kubedcv1.BindAnnotation, kubedcv1.BindDefaultAnnotation, kubedcv1.ExternalNetworkTypeLabel,
	kubedcv1.HealthAnnotation,
	kubedcv1.BackendAnnotation, kubedcv1.BackendAnnotationToo, kubedcv1.AutodeleteAnnotation,
	ovnv1.EgressServiceAnnotation,
}

func (e *explainer) describeProject(o *clusterstate.Project) {
	if o == nil {
		return
	}
	e.addAddresses(o.Address)
	e.addRequest("own network %s with egress through %s", joinFew(o.Prefixes), formatNetwork(o.Network))
	e.addAddressParts(o.Shard, o.Address)
	var used []string
	for _, x := range e.s.Cluster.EIps {
		if x.Shard == o.Shard && x.Address != o.Address && x.Address.IsValid() {
			used = append(used, x.Address.String())
		}
	}
	if len(used) > 0 {
		e.addPart(o.Ref, "%s: %s", humanize.Pluralize(len(used), "more address", "more addresses"),
			humanize.JoinLimited(used, 6))
	}
}

func (e *explainer) describeEgressIP(o *clusterstate.EgressIP) {
	if o == nil {
		return
	}
	e.addRequest("selected pods (currently %d) use source address %s", o.Selects, humanize.JoinLimited(o.Addresses, 4))
	if o.Outside.Number > 0 {
		e.addBrokenPart(o.Ref, "%s neither in a project nor on an overlay Subnet of ovn-cluster, and not served: %s",
			humanize.Pluralize(o.Outside.Number, "pod is", "pods are"), o.Outside)
	}
	for _, held := range o.Addresses {
		a, err := netip.ParseAddr(held)
		if err != nil {
			continue
		}
		e.addAddresses(a)
		if o.Held[held] == "" {
			e.addBrokenPart(o.Ref, "no node holds %s", held)
		}
		e.addAddressParts(ownership.EgressVpc, a)
	}
}

func (e *explainer) describeEgressPolicy(o *clusterstate.EgressPolicy) {
	if o == nil {
		return
	}
	e.addAddresses(o.Sources...)
	who, to := "selected pods", "all destinations"
	if o.Kind == string(intent.EgressService) {
		who = "backends of Service " + o.Name
	}
	if len(o.Destinations) > 0 {
		to = humanize.JoinLimited(humanize.Strings(o.Destinations), 4)
	}
	e.addRequest("%s reach %s through %s", who, to, formatNetwork(o.Network))
	on := e.s.Cluster.Network(o.Network)
	if on != nil && on.Interface != "" {
		e.addNodeNetworkParts(on)
		return
	}
	for _, a := range o.Sources {
		e.addAddressParts(o.Shard, a)
	}
	if len(o.Sources) == 0 {
		e.addBrokenPart(o.Ref, "the source address of their packets is unknown")
	}
}

func (e *explainer) describeNetwork(o *clusterstate.Network) {
	if o == nil {
		return
	}
	e.addRequest("an external network of type %s%s", o.Type, map[bool]string{true: ", the default"}[o.Default])
	if o.Interface != "" {
		e.addRequest("nodes attached through interface %s, method %s: %s", o.Interface, o.Method,
			cmp.Or(humanize.JoinLimited(o.OnNodes, 6), "none"))
	}
	for _, name := range o.Subnets {
		n := e.s.Cluster.Subnet(name)
		if n == nil {
			e.addPart(state.Ref{Kind: string(intent.Subnet), Name: name}, "Subnet %s, which %s", name,
				e.s.DescribeAbsence(clusterstate.Kubernetes))
			continue
		}
		e.addPart(n.Ref, "Subnet %s %s%s, gateway %s: %d addresses used, %d free", name, joinFew(n.Prefixes),
			formatVLAN(n),
			cmp.Or(joinFew(n.Gateways), "none"), n.Used, n.Free)
		e.describeRouterPorts(n)
	}
}

// describeRouterPorts adds the nodes that hold router ports on a subnet.
func (e *explainer) describeRouterPorts(n *clusterstate.Subnet) {
	held := map[string][]string{}
	for _, r := range e.s.Logical.Routers {
		for _, p := range r.Ports {
			if slices.ContainsFunc(p.Networks, func(x netip.Prefix) bool { return n.Contains(x.Addr()) }) {
				node := cmp.Or(e.s.NodeOfChassis(p.Holder), "no node")
				held[node] = append(held[node], r.Name)
			}
		}
	}
	for _, node := range slices.Sorted(maps.Keys(held)) {
		routers := slices.Compact(held[node])
		e.addPart(clusterstate.NodeRef(node), "%s holds the ports of %s: %s", node,
			humanize.Pluralize(len(routers), "router", "routers"), humanize.JoinLimited(routers, 6))
	}
}

func (e *explainer) describeNode(o *clusterstate.Node) {
	if o == nil {
		return
	}
	e.addAddresses(o.Addresses...)
	var may []string
	for role, is := range map[string]bool{"gateways": o.Gateway, "egress addresses": o.Assignable} {
		if is {
			may = append(may, role)
		}
	}
	slices.Sort(may)
	e.addRequest("may hold %s", cmp.Or(strings.Join(may, " and "), "neither gateways nor egress addresses"))
	if o.Cordoned {
		e.addRequest("cordoned: takes no new pods")
	}
	e.describeNodeLoad(o.Name)
}

// describeNodeLoad adds the router ports, networks and number of pods on a node.
func (e *explainer) describeNodeLoad(node string) {
	for _, r := range e.s.Logical.Routers {
		for _, p := range r.Ports {
			if p.Holder != "" && e.s.NodeOfChassis(p.Holder) == node {
				e.addPart(clusterstate.RouterRef(r.Name), "port %s of router %s: %s", p.Name, r.Name, joinFew(p.Networks))
			}
		}
	}
	for _, n := range e.s.Cluster.Networks {
		if slices.Contains(n.OnNodes, node) {
			e.addPart(n.Ref, "network %s through interface %s, method %s", n.Name, n.Interface, n.Method)
		}
	}
	pods := 0
	for _, p := range e.s.Cluster.Pods {
		if p.Node == node {
			pods++
		}
	}
	e.addPart(clusterstate.NodeRef(node), "%s", humanize.Pluralize(pods, "pod", "pods"))
}

func (e *explainer) describePod(o *clusterstate.Pod) {
	if o == nil {
		return
	}
	e.addAddresses(o.Addresses...)
	e.addRequest("a pod on %s in Subnet %s", o.Node, o.Subnet)
	subnet := e.s.Cluster.Subnet(o.Subnet)
	if subnet == nil || o.HostNetwork {
		return
	}
	for _, f := range e.s.Cluster.FIps {
		if f.Shard == subnet.Vpc && slices.Contains(o.Addresses, f.Target) {
			e.addPart(f.Ref, "%s, external address %s", f.Ref, addressOrNone(f.External))
		}
	}
	for _, v := range e.s.Cluster.Services {
		for _, x := range v.Endpoints {
			if x.Pod == o.Name && v.Namespace == o.Namespace {
				e.addPart(v.Ref, "backend of %s at %s", v.Ref, x.Address)
			}
		}
	}
}
