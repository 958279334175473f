package clusterstatetest

import (
	"fmt"
	"net/netip"
	"strings"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

var (
	organizations = strings.Fields("acme globex initech umbrella hooli stark wayne wonka tyrell cyberdyne")
	environments  = strings.Fields("prod stage dev data edge ci web iot lab shop")
)

// projectBuilder builds one project.
type projectBuilder struct {
	*builder
	index          int
	ns             string
	org            string
	prefix         netip.Prefix
	defaultNetwork string
	router         logical.Router
	podSwitch      logical.Switch
	networks       []string
	backendPods    []clusterstate.Pod
	serviceCount   int
}

func (b *builder) addProject(i int) {
	name := environments[i/len(organizations)%len(environments)]
	if i >= len(organizations)*len(environments) {
		name += fmt.Sprint(i / (len(organizations) * len(environments)))
	}
	t := projectBuilder{builder: b, index: i, org: organizations[i%len(organizations)], defaultNetwork: "ext-cloud"}
	t.ns = t.org + "-" + name
	t.prefix = netip.PrefixFrom(nthAddress(netip.MustParsePrefix("10.0.0.0/8"), i%100<<8), 24)
	switch {
	case i%11 == 7:
		t.defaultNetwork = "ext-partner"
	case i%5 == 3:
		t.defaultNetwork = "ext-public"
	}
	t.router, t.podSwitch = logical.Router{Name: t.ns}, logical.Switch{Name: ownership.VPCSubnetName(t.ns)}
	outer := t.attachNetwork(t.defaultNetwork)
	conditions := healthyConditions()
	if i%40 == 12 {
		conditions = failingConditions("Accepted", "SubnetTaken",
			fmt.Sprintf("%s overlaps the subnet of another VPC that this one is linked with", t.prefix))
	}
	b.Cluster.Projects = append(b.Cluster.Projects, clusterstate.Project{
		Object: newObject("Project", t.org, name, conditions...), Shard: t.ns, Prefixes: []netip.Prefix{t.prefix},
		Network: t.defaultNetwork, Address: outer,
	})
	t.addEIp("default-gw", t.defaultNetwork, outer,
		healthyConditions()).UsedBy = []state.Ref{{Kind: "Project", Namespace: t.org, Name: name}}
	t.addPodSubnet(outer)
	t.addExternalObjects()
	t.addEgressPolicies()
	t.connectRouter()
	b.Cluster.Vpcs = append(b.Cluster.Vpcs,
		clusterstate.Vpc{Object: newObject("Vpc", "", t.ns), Namespaces: []string{t.ns}, External: t.networks, Ready: true})
	b.Logical.Routers, b.Logical.Switches = append(b.Logical.Routers, t.router), append(b.Logical.Switches, t.podSwitch)
}

// attachNetwork adds a router port on an external network, and a return port if the network is not the default.
func (t *projectBuilder) attachNetwork(network string) netip.Addr {
	for i, n := range t.networks {
		if n == network {
			return t.router.Ports[i].Networks[0].Addr()
		}
	}
	a := t.allocateAddress(network)
	port := logical.RouterPort{
		Name: kubeovn.RouterPort(t.ns, network), Networks: []netip.Prefix{netip.PrefixFrom(a, 16)},
		Chassis: t.gatewayChassis(t.index), Holder: t.gatewayChassis(t.index)[0],
	}
	t.router.Ports = append(t.router.Ports[:len(t.networks):len(t.networks)],
		append([]logical.RouterPort{port}, t.router.Ports[len(t.networks):]...)...)
	if len(t.networks) > 0 {
		t.router.Ports = append(t.router.Ports, logical.RouterPort{
			Name:     ownership.ReturnRouterPort(t.ns, t.podSwitch.Name, network),
			IDs:      t.ownerIDs("ReturnPath", t.ns, network),
			Networks: []netip.Prefix{netip.PrefixFrom(nthAddress(t.prefix, 255-len(t.networks)), 23)},
		})
	}
	t.networks = append(t.networks, network)
	t.Cluster.OvnEips = append(t.Cluster.OvnEips, clusterstate.OvnEip{
		Object: newObject("OvnEip", "", port.Name), Subnet: network, Type: "lrp", Address: a, Ready: true,
	})
	return a
}

// addEIp adds an external address.
func (t *projectBuilder) addEIp(name, network string, a netip.Addr, conditions []clusterstate.Condition) *clusterstate.EIp {
	e := clusterstate.EIp{
		Object: newObject("EIp", t.ns, name, conditions...), Shard: t.ns, Address: a, Network: network, Subnet: network,
	}
	for _, o := range externalNetworks {
		if o.name == network {
			e.Type = o.kind
		}
	}
	if name != "default-gw" && a.IsValid() {
		t.Cluster.OvnEips = append(t.Cluster.OvnEips, clusterstate.OvnEip{
			Object: newObject("OvnEip", "", "eip-"+t.ns+"-"+name), Subnet: network, Type: "nat", Address: a,
			Ready: true,
		})
	}
	t.Cluster.EIps = append(t.Cluster.EIps, e)
	return &t.Cluster.EIps[len(t.Cluster.EIps)-1]
}

// addPodSubnet adds the subnet with its pods, and the default egress.
func (t *projectBuilder) addPodSubnet(outer netip.Addr) {
	gateway := nthAddress(t.prefix, 1)
	inport := kubeovn.RouterPort(t.ns, t.podSwitch.Name)
	t.router.Ports = append(t.router.Ports,
		logical.RouterPort{Name: inport, Networks: []netip.Prefix{netip.PrefixFrom(gateway, 24)}})
	t.router.NATs = append(t.router.NATs, logical.NAT{
		Type:     "snat",
		External: outer,
		Logical:  t.prefix,
		IDs:      t.ownerIDs("Project", t.org, t.ns[len(t.org)+1:]),
	})
	for n := range 2 + t.index%4 {
		at := nthAddress(t.prefix, 10+n)
		p := t.newPod(t.ns, fmt.Sprintf("web-%d", n), t.podSwitch.Name, at)
		p.Labels = map[string]string{"app": "web"}
		t.backendPods = append(t.backendPods, p)
		t.podSwitch.Ports = append(t.podSwitch.Ports, logical.SwitchPort{
			Name: kubeovn.PodPort(p.Name, t.ns), Addresses: p.Addresses, Up: true, Chassis: t.chassisOfNode(p.Node),
		})
	}
	t.Cluster.Pods = append(t.Cluster.Pods, t.backendPods...)
	t.Cluster.Subnets = append(t.Cluster.Subnets, clusterstate.Subnet{
		Object: newObject("Subnet", "", t.podSwitch.Name), Vpc: t.ns, Prefixes: []netip.Prefix{t.prefix},
		Gateways:   []netip.Addr{gateway},
		Namespaces: []string{t.ns}, Provider: "default." + t.ns + ".ovn", Ready: true, Free: 244 - len(t.backendPods),
		Used: len(t.backendPods),
	})
}

func (t *projectBuilder) ownerIDs(kind, namespace, name string) logical.ExternalIDs {
	return logical.ExternalIDs{
		ownership.RowOwnerKey: strings.Join([]string{kind, namespace, name}, "/"),
		ownership.RowShardKey: t.ns,
	}
}

// addExternalObjects adds the objects reached from outside, and their problems.
func (t *projectBuilder) addExternalObjects() {
	switch i := t.index; {
	case i%28 == 4:
		t.addFIp("vm-gone", "ext-public", clusterstate.Pod{},
			failingConditions("ResolvedRefs", "PodNotFound", "there is no pod vm-gone; create it, or name another one"))
	case i%2 == 1:
		t.addFIp("bastion", "ext-public", t.backendPods[0], healthyConditions())
	}
	t.addService("web", t.defaultNetwork, t.backendPods)
	if t.index%4 == 2 {
		t.addService("api", "ext-public", t.backendPods[:1])
	}
	if t.index%45 == 6 {
		t.addService("batch", t.defaultNetwork, nil)
	}
	if t.index%50 == 31 {
		t.addEIp("spare", "ext-partner", netip.Addr{},
			failingConditions("Programmed", "PoolExhausted", "network ext-partner has no free address"))
	}
	if t.index%3 == 0 {
		t.addEIp("reserved", t.defaultNetwork, t.allocateAddress(t.defaultNetwork), healthyConditions())
	}
}

func (t *projectBuilder) addFIp(name, network string, target clusterstate.Pod, conditions []clusterstate.Condition) {
	t.attachNetwork(network)
	a, eip := t.allocateAddress(network), "fip-"+name+"-x7k2p"
	e := t.addEIp(eip, network, a, healthyConditions())
	e.MadeFor = state.Ref{Kind: "FIp", Namespace: t.ns, Name: name}
	e.UsedBy = []state.Ref{e.MadeFor}
	f := clusterstate.FIp{Object: newObject("FIp", t.ns, name, conditions...), Shard: t.ns, EIp: eip, External: a, Pod: name}
	if len(target.Addresses) > 0 {
		f.Pod, f.Target = target.Name, target.Addresses[0]
		t.router.NATs = append(t.router.NATs, logical.NAT{
			Type: "dnat_and_snat", External: a, Logical: netip.PrefixFrom(f.Target, 32),
			IDs: t.ownerIDs("FIp", t.ns, name),
		})
	}
	t.Cluster.FIps = append(t.Cluster.FIps, f)
}

func (t *projectBuilder) addService(name, network string, targets []clusterstate.Pod) {
	t.attachNetwork(network)
	t.serviceCount++
	a, eip := t.allocateAddress(network), "slb-"+name+"-b4n9d"
	e := t.addEIp(eip, network, a, healthyConditions())
	e.MadeFor = state.Ref{Kind: "Service", Namespace: t.ns, Name: name}
	e.UsedBy = []state.Ref{e.MadeFor}
	s := clusterstate.Service{
		Object: newObject("Service", t.ns, name, healthyConditions()...), Shard: t.ns, Type: "LoadBalancer", Ours: true,
		ClusterIP: nthAddress(netip.MustParsePrefix("10.101.0.0/16"), t.index<<3+t.serviceCount),
		Ingress:   []netip.Addr{a},
		Ports:     []clusterstate.ServicePort{{Name: "http", Protocol: "TCP", Port: 80, Target: "8080"}},
		Selector:  map[string]string{"app": name}, Annotations: map[string]string{},
	}
	if name == "web" {
		s.Ports = append(s.Ports, clusterstate.ServicePort{Name: "https", Protocol: "TCP", Port: 443, Target: "8443"})
	}
	if len(targets) == 0 {
		s.Conditions = append(s.Conditions, clusterstate.Condition{
			Type: "HasEndpoints", Status: "False", Reason: "NoEndpoints",
			Message: "no pod is ready behind this Service",
		})
	}
	s.Endpoints = newEndpoints(s, targets)
	t.addVIPs(s, a, targets)
	t.Cluster.Services = append(t.Cluster.Services, s)
	t.Cluster.Beside = append(t.Cluster.Beside, t.newHeadlessService(s))
	if t.index%2 == 0 && name == "web" {
		s.Annotations["gateway.kube-dc.com/create-backend"] = "true"
		t.addHTTPRoute(t.ns, name, t.ns+".example.com", netip.AddrPortFrom(a, 80))
	}
}

// newHeadlessService returns the companion of a Service that publishes its address.
func (t *projectBuilder) newHeadlessService(s clusterstate.Service) clusterstate.Service {
	out := clusterstate.Service{
		Object: newObject("Service", t.ns, s.Name+"-ext"),
		Shard:  t.ns,
		Type:   "ClusterIP",
		Ports:  s.Ports,
	}
	out.Labels = map[string]string{
		kubedcv1.EndpointTypeLabel:     kubedcv1.EndpointTypeExternal,
		kubedcv1.ServiceManagedByLabel: kubedcv1.ServiceManagedBy,
		kubedcv1.SourceServiceLabel:    s.Name,
	}
	for _, p := range s.Ports {
		at := netip.AddrPortFrom(s.Ingress[0], uint16(p.Port)) //nolint:gosec // a generated port
		out.Endpoints = append(out.Endpoints, clusterstate.Endpoint{Port: p.Name, Address: at, Ready: true, Serving: true})
	}
	return out
}

func newEndpoints(s clusterstate.Service, targets []clusterstate.Pod) (all []clusterstate.Endpoint) {
	for _, p := range s.Ports {
		for _, pod := range targets {
			all = append(all, clusterstate.Endpoint{
				Port: p.Name, Address: netip.AddrPortFrom(pod.Addresses[0], targetPort(p)), Ready: pod.Ready,
				Serving: pod.Ready, Pod: pod.Name, Node: pod.Node,
			})
		}
	}
	return all
}

func targetPort(p clusterstate.ServicePort) uint16 {
	return map[int]uint16{80: 8080, 443: 8443}[p.Port]
}

// addVIPs adds the VIPs of a Service to the load balancer of the project.
func (t *projectBuilder) addVIPs(s clusterstate.Service, a netip.Addr, targets []clusterstate.Pod) {
	if len(t.router.Balancers) == 0 {
		t.router.Balancers = []logical.LoadBalancer{{
			Name: t.ns + "-lb-tcp-0", Protocol: "tcp", IDs: t.ownerIDs("LoadBalancer", t.ns, "shared"),
		}}
	}
	b := &t.router.Balancers[0]
	for _, p := range s.Ports {
		v := logical.VIP{Address: netip.AddrPortFrom(a, uint16(p.Port))} //nolint:gosec // a generated port
		for _, pod := range targets {
			if pod.Ready {
				v.Backends = append(v.Backends, netip.AddrPortFrom(pod.Addresses[0], targetPort(p)))
			}
		}
		b.VIPs = append(b.VIPs, v)
		b.IDs[ownership.RowVIPOwnerPrefix+v.Address.String()] = s.Namespace + "/" + s.Name
	}
}
