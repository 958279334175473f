package surveytest

import (
	"fmt"
	"net/netip"
	"strings"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/logical"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
)

var (
	organizations = strings.Fields("acme globex initech umbrella hooli stark wayne wonka tyrell cyberdyne")
	stages        = strings.Fields("prod stage dev data edge ci web iot lab shop")
)

// tenant is one project while it is put together.
type tenant struct {
	*builder
	number   int
	ns       string
	org      string
	prefix   netip.Prefix
	network  string // its default
	router   logical.Router
	pods     logical.Switch
	on       []string // networks
	targets  []survey.Pod
	services int
}

func (b *builder) project(i int) {
	name := stages[i/len(organizations)%len(stages)]
	if i >= len(organizations)*len(stages) {
		name += fmt.Sprint(i / (len(organizations) * len(stages)))
	}
	t := tenant{builder: b, number: i, org: organizations[i%len(organizations)], network: "ext-cloud"}
	t.ns = t.org + "-" + name
	t.prefix = netip.PrefixFrom(host(netip.MustParsePrefix("10.0.0.0/8"), i%100<<8), 24)
	switch {
	case i%11 == 7:
		t.network = "ext-partner"
	case i%5 == 3:
		t.network = "ext-public"
	}
	t.router, t.pods = logical.Router{Name: t.ns}, logical.Switch{Name: ownership.Subnet(t.ns)}
	outer := t.attach(t.network)
	conditions := well()
	if i%40 == 12 {
		conditions = ill("Accepted", "SubnetTaken", fmt.Sprintf("%s overlaps the subnet of another VPC that this one is linked with", t.prefix))
	}
	b.Cluster.Projects = append(b.Cluster.Projects, survey.Project{
		Object: object("Project", t.org, name, conditions...), Shard: t.ns, Prefixes: []netip.Prefix{t.prefix}, Network: t.network, Address: outer,
	})
	t.eip("default-gw", t.network, outer, well()).UsedBy = []state.Ref{{Kind: "Project", Namespace: t.org, Name: name}}
	t.inside(outer)
	t.outside()
	t.diversions()
	t.wire()
	b.Cluster.Vpcs = append(b.Cluster.Vpcs, survey.Vpc{Object: object("Vpc", "", t.ns), Namespaces: []string{t.ns}, External: t.on, Ready: true})
	b.Logical.Routers, b.Logical.Switches = append(b.Logical.Routers, t.router), append(b.Logical.Switches, t.pods)
}

// attach gives the router a port on an external network, and a leg where it is not the default one.
func (t *tenant) attach(network string) netip.Addr {
	for i, n := range t.on {
		if n == network {
			return t.router.Ports[i].Networks[0].Addr()
		}
	}
	a := t.give(network)
	port := logical.RouterPort{
		Name: t.ns + "-" + network, Networks: []netip.Prefix{netip.PrefixFrom(a, 16)}, Chassis: t.gateways(t.number), Holder: t.gateways(t.number)[0],
	}
	t.router.Ports = append(t.router.Ports[:len(t.on):len(t.on)], append([]logical.RouterPort{port}, t.router.Ports[len(t.on):]...)...)
	if len(t.on) > 0 {
		t.router.Ports = append(t.router.Ports, logical.RouterPort{
			Name:     ownership.LegRouterPort(t.ns, t.pods.Name, network),
			Networks: []netip.Prefix{netip.PrefixFrom(host(t.prefix, 255-len(t.on)), 23)},
		})
	}
	t.on = append(t.on, network)
	t.Cluster.OvnEips = append(t.Cluster.OvnEips, survey.OvnEip{
		Object: object("OvnEip", "", port.Name), Subnet: network, Type: "lrp", Address: a, Ready: true,
	})
	return a
}

// eip is one more external address.
func (t *tenant) eip(name, network string, a netip.Addr, conditions []survey.Condition) *survey.EIp {
	e := survey.EIp{Object: object("EIp", t.ns, name, conditions...), Shard: t.ns, Address: a, Network: network, Subnet: network}
	for _, o := range outsides {
		if o.name == network {
			e.Type = o.kind
		}
	}
	if name != "default-gw" && a.IsValid() {
		t.Cluster.OvnEips = append(t.Cluster.OvnEips, survey.OvnEip{
			Object: object("OvnEip", "", "eip-"+t.ns+"-"+name), Subnet: network, Type: "nat", Address: a, Ready: true,
		})
	}
	t.Cluster.EIps = append(t.Cluster.EIps, e)
	return &t.Cluster.EIps[len(t.Cluster.EIps)-1]
}

// inside is the subnet with its pods, and the way out.
func (t *tenant) inside(outer netip.Addr) {
	gateway := host(t.prefix, 1)
	inport := t.ns + "-" + t.pods.Name
	t.router.Ports = append(t.router.Ports, logical.RouterPort{Name: inport, Networks: []netip.Prefix{netip.PrefixFrom(gateway, 24)}})
	t.router.NATs = append(t.router.NATs, logical.NAT{Type: "snat", External: outer, Logical: t.prefix, IDs: t.owner("Project", t.org, t.ns[len(t.org)+1:])})
	for n := range 2 + t.number%4 {
		at := host(t.prefix, 10+n)
		p := t.pod(t.ns, fmt.Sprintf("web-%d", n), t.pods.Name, at)
		p.Labels = map[string]string{"app": "web"}
		t.targets = append(t.targets, p)
		t.pods.Ports = append(t.pods.Ports, logical.SwitchPort{
			Name: p.Name + "." + t.ns, Addresses: p.Addresses, Up: true, Chassis: t.chassisOf(p.Node),
		})
	}
	t.Cluster.Pods = append(t.Cluster.Pods, t.targets...)
	t.Cluster.Subnets = append(t.Cluster.Subnets, survey.Subnet{
		Object: object("Subnet", "", t.pods.Name), Vpc: t.ns, Prefixes: []netip.Prefix{t.prefix}, Gateways: []netip.Addr{gateway},
		Namespaces: []string{t.ns}, Provider: "default." + t.ns + ".ovn", Ready: true, Free: 244 - len(t.targets), Used: len(t.targets),
	})
}

func (t *tenant) owner(kind, namespace, name string) logical.IDs {
	return logical.IDs{ownership.RowOwnerKey: strings.Join([]string{kind, namespace, name}, "/"), ownership.RowShardKey: t.ns}
}

// outside is what is reached from outside, and what is wrong with it.
func (t *tenant) outside() {
	switch i := t.number; {
	case i%28 == 4:
		t.fip("vm-gone", "ext-public", survey.Pod{}, ill("ResolvedRefs", "PodNotFound", "there is no pod vm-gone; create it, or name another one"))
	case i%2 == 1:
		t.fip("bastion", "ext-public", t.targets[0], well())
	}
	t.service("web", t.network, t.targets)
	if t.number%4 == 2 {
		t.service("api", "ext-public", t.targets[:1])
	}
	if t.number%45 == 6 {
		t.service("batch", t.network, nil)
	}
	if t.number%50 == 31 {
		t.eip("spare", "ext-partner", netip.Addr{}, ill("Programmed", "PoolExhausted", "network ext-partner has no free address"))
	}
	if t.number%3 == 0 {
		t.eip("reserved", t.network, t.give(t.network), well())
	}
}

func (t *tenant) fip(name, network string, target survey.Pod, conditions []survey.Condition) {
	t.attach(network)
	a, eip := t.give(network), "fip-"+name+"-x7k2p"
	e := t.eip(eip, network, a, well())
	e.MadeFor = state.Ref{Kind: "FIp", Namespace: t.ns, Name: name}
	e.UsedBy = []state.Ref{e.MadeFor}
	f := survey.FIp{Object: object("FIp", t.ns, name, conditions...), Shard: t.ns, EIp: eip, External: a, Pod: name}
	if len(target.Addresses) > 0 {
		f.Pod, f.Target = target.Name, target.Addresses[0]
		t.router.NATs = append(t.router.NATs, logical.NAT{
			Type: "dnat_and_snat", External: a, Logical: netip.PrefixFrom(f.Target, 32), IDs: t.owner("FIp", t.ns, name),
		})
	}
	t.Cluster.FIps = append(t.Cluster.FIps, f)
}

func (t *tenant) service(name, network string, targets []survey.Pod) {
	t.attach(network)
	t.services++
	a, eip := t.give(network), "slb-"+name+"-b4n9d"
	e := t.eip(eip, network, a, well())
	e.MadeFor = state.Ref{Kind: "Service", Namespace: t.ns, Name: name}
	e.UsedBy = []state.Ref{e.MadeFor}
	s := survey.Service{
		Object: object("Service", t.ns, name, well()...), Shard: t.ns, Type: "LoadBalancer", Ours: true,
		ClusterIP: host(netip.MustParsePrefix("10.101.0.0/16"), t.number<<3+t.services), Ingress: []netip.Addr{a},
		Ports:    []survey.ServicePort{{Name: "http", Protocol: "TCP", Port: 80, Target: "8080"}},
		Selector: map[string]string{"app": name}, Annotations: map[string]string{},
	}
	if name == "web" {
		s.Ports = append(s.Ports, survey.ServicePort{Name: "https", Protocol: "TCP", Port: 443, Target: "8443"})
	}
	if len(targets) == 0 {
		s.Conditions = append(s.Conditions, survey.Condition{
			Type: "HasEndpoints", Status: "False", Reason: "NoEndpoints", Message: "no pod is ready behind this Service",
		})
	}
	s.Endpoints, t.router.Balancers = endpoints(s, targets), append(t.router.Balancers, t.balancer(s, a, targets))
	t.Cluster.Services = append(t.Cluster.Services, s)
	t.Cluster.Beside = append(t.Cluster.Beside, t.tells(s))
	if t.number%2 == 0 && name == "web" {
		s.Annotations["gateway.kube-dc.com/create-backend"] = "true"
		t.route(t.ns, name, t.ns+".example.com", netip.AddrPortFrom(a, 80))
	}
}

// tells is the headless Service beside one that tells its address.
func (t *tenant) tells(s survey.Service) survey.Service {
	out := survey.Service{Object: object("Service", t.ns, s.Name+"-ext"), Shard: t.ns, Type: "ClusterIP", Ports: s.Ports}
	out.Labels = map[string]string{
		kubedcv1.EndpointTypeLabel: kubedcv1.EndpointTypeExternal, kubedcv1.ServiceManagedByLabel: kubedcv1.ServiceManagedBy,
		kubedcv1.SourceServiceLabel: s.Name,
	}
	for _, p := range s.Ports {
		at := netip.AddrPortFrom(s.Ingress[0], uint16(p.Port)) //nolint:gosec // a port that was made up here
		out.Endpoints = append(out.Endpoints, survey.Endpoint{Port: p.Name, Address: at, Ready: true, Serving: true})
	}
	return out
}

func endpoints(s survey.Service, targets []survey.Pod) (all []survey.Endpoint) {
	for _, p := range s.Ports {
		for _, pod := range targets {
			all = append(all, survey.Endpoint{
				Port: p.Name, Address: netip.AddrPortFrom(pod.Addresses[0], portOf(p)), Ready: pod.Ready, Serving: pod.Ready, Pod: pod.Name, Node: pod.Node,
			})
		}
	}
	return all
}

func portOf(p survey.ServicePort) uint16 { return map[int]uint16{80: 8080, 443: 8443}[p.Port] }

func (t *tenant) balancer(s survey.Service, a netip.Addr, targets []survey.Pod) logical.Balancer {
	b := logical.Balancer{Name: t.ns + "-" + s.Name + "-tcp", Protocol: "tcp", IDs: t.owner("Service", t.ns, s.Name)}
	for _, p := range s.Ports {
		v := logical.VIP{Address: netip.AddrPortFrom(a, uint16(p.Port))} //nolint:gosec // a port that was made up here
		for _, pod := range targets {
			if pod.Ready {
				v.Backends = append(v.Backends, netip.AddrPortFrom(pod.Addresses[0], portOf(p)))
			}
		}
		b.VIPs = append(b.VIPs, v)
	}
	return b
}

// diversions are what leaves by another network than the rest.
func (t *tenant) diversions() {
	if t.number%7 == 2 {
		a := t.attach("ext-partner")
		t.Cluster.EgressRoutes = append(t.Cluster.EgressRoutes, survey.Egress{
			Object: object("EgressRoute", t.ns, "partners", well()...), Shard: t.ns, Network: "ext-partner",
			Destinations: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}, Sources: []netip.Addr{a},
		})
	}
	if t.number%13 == 5 {
		t.Cluster.EgressServices = append(t.Cluster.EgressServices, survey.Egress{
			Object: object("EgressService", t.ns, "web", well()...), Shard: t.ns, Network: t.network,
			Sources: []netip.Addr{t.Cluster.Services[len(t.Cluster.Services)-1].Ingress[0]},
		})
	}
}
