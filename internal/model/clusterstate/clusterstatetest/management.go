package clusterstatetest

import (
	"net/netip"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/state"
)

const (
	proxyNamespace = "envoy-gateway-system"
	proxyService   = "envoy-eg-24835ac8"
)

// addManagementVPC adds Kube-OVN's default VPC, with a Gateway whose proxies run there.
func (b *builder) addManagementVPC() {
	c, vpc := &b.Cluster, kubeovn.ManagementVpc
	pods, join := netip.MustParsePrefix("10.100.0.0/16"), netip.MustParsePrefix("172.30.0.0/22")
	namespaces := []string{"default", proxyNamespace, "ingress-nginx", "kube-system"}
	c.Vpcs = append(c.Vpcs, clusterstate.Vpc{
		Object:     newObject("Vpc", "", vpc),
		Namespaces: namespaces,
		External:   []string{"ext-cloud"},
		Ready:      true,
	})
	c.Subnets = append(c.Subnets,
		clusterstate.Subnet{
			Object: newObject("Subnet", "", kubeovn.ManagementSubnet), Vpc: vpc, Prefixes: []netip.Prefix{pods},
			Gateways:   []netip.Addr{nthAddress(pods, 1)},
			Namespaces: namespaces, Ready: true, Free: 65_500, Used: 33,
		},
		clusterstate.Subnet{
			Object: newObject("Subnet", "", "join"), Vpc: vpc, Prefixes: []netip.Prefix{join},
			Gateways: []netip.Addr{nthAddress(join, 1)},
			Ready:    true, Free: 1000, Used: len(c.Nodes),
		})
	outer, nodes := b.allocateAddress("ext-cloud"), logical.Switch{Name: "join"}
	for i, n := range c.Nodes {
		port := kubeovn.NodePort(n.Name)
		nodes.Ports = append(nodes.Ports, logical.SwitchPort{
			Name: port, Addresses: []netip.Addr{nthAddress(join, 2+i)}, Up: true, Chassis: n.Chassis,
			MAC: intent.DeriveMAC(port),
		})
	}
	b.Logical.Switches = append(b.Logical.Switches, nodes, logical.Switch{Name: kubeovn.ManagementSubnet})
	router := logical.Router{
		Name: vpc,
		Ports: []logical.RouterPort{
			{
				Name:     kubeovn.RouterPort(vpc, "ext-cloud"),
				Networks: []netip.Prefix{netip.PrefixFrom(outer, 16)},
				Chassis:  b.gatewayChassis(0),
				Holder:   b.gatewayChassis(0)[0],
			},
			{
				Name:     kubeovn.RouterPort(vpc, "join"),
				Networks: []netip.Prefix{netip.PrefixFrom(nthAddress(join, 1), 22)},
			},
			{
				Name:     kubeovn.RouterPort(vpc, kubeovn.ManagementSubnet),
				Networks: []netip.Prefix{netip.PrefixFrom(nthAddress(pods, 1), 16)},
			},
		},
		NATs: []logical.NAT{{Type: "snat", External: outer, Logical: pods}},
		// packets to the outside leave through the first node; Kube-OVN has a policy for each node
		Routes: []logical.StaticRoute{{Prefix: everything, NextHop: nthAddress(join, 2)}},
	}
	for i, subnet := range []string{"ext-cloud", "join", kubeovn.ManagementSubnet} {
		router.Ports[i].MAC = intent.DeriveMAC(router.Ports[i].Name)
		b.connectSwitch(subnet, router.Ports[i].Name)
	}
	b.Logical.Routers = append(b.Logical.Routers, router)
	b.addGatewayProxies(nthAddress(pods, 250))
}

// addGatewayProxies adds a Gateway and its Service, at an address that nodes answer for.
func (b *builder) addGatewayProxies(at netip.Addr) {
	c := &b.Cluster
	c.Gateways = append(c.Gateways, clusterstate.Gateway{
		Object: newObject("Gateway", proxyNamespace, "eg", healthyConditions()...), Class: "eg",
		Listeners: []string{"tls TLS 7443 Passthrough", "http HTTP 8080"}, Addresses: []string{"192.0.2.250"},
	})
	c.Classes = append(c.Classes, clusterstate.GatewayClass{
		Object:     newObject("GatewayClass", "", "eg"),
		Controller: "gateway.envoyproxy.io/gatewayclass-controller",
	})
	pod := b.newPod(proxyNamespace, "envoy-eg-0", kubeovn.ManagementSubnet, at)
	c.Pods = append(c.Pods, pod)
	port := kubeovn.PodPort(pod.Name, proxyNamespace)
	b.addSwitchPort(kubeovn.ManagementSubnet, logical.SwitchPort{
		Name: port, Addresses: pod.Addresses, Up: true, Chassis: b.chassisOfNode(pod.Node), MAC: intent.DeriveMAC(port),
	})
	s := clusterstate.Service{
		Object: newObject("Service", proxyNamespace, proxyService), Shard: kubeovn.ManagementVpc, Type: "ClusterIP",
		ClusterIP: netip.MustParseAddr("10.101.148.184"), ExternalIPs: []netip.Addr{netip.MustParseAddr("192.0.2.250")},
		Ports: []clusterstate.ServicePort{
			{Name: "tls", Protocol: "TCP", Port: 7443, Target: "7443"},
			{Name: "http", Protocol: "TCP", Port: 8080, Target: "8080"},
		},
	}
	s.Labels = map[string]string{
		"gateway.envoyproxy.io/owning-gateway-name":      "eg",
		"gateway.envoyproxy.io/owning-gateway-namespace": proxyNamespace,
	}
	for _, p := range s.Ports {
		s.Endpoints = append(s.Endpoints, clusterstate.Endpoint{
			//nolint:gosec // a generated port
			Port: p.Name, Address: netip.AddrPortFrom(at, uint16(p.Port)), Ready: true, Serving: true,
			Pod: pod.Name, Node: pod.Node,
		})
	}
	c.Services = append(c.Services, s)
}

func (b *builder) chassisOfNode(node string) string {
	for _, n := range b.Cluster.Nodes {
		if n.Name == node {
			return n.Chassis
		}
	}
	return ""
}

// newPod returns a running pod. Its address determines its node.
func (b *builder) newPod(namespace, name, subnet string, at netip.Addr) clusterstate.Pod {
	node := b.Cluster.Nodes[int(at.As4()[3])%len(b.Cluster.Nodes)]
	return clusterstate.Pod{
		Object: newObject("Pod", namespace, name), Addresses: []netip.Addr{at}, Node: node.Name, Phase: "Running",
		Ready: node.Ready,
		Ports: []int{8080, 8443}, Subnet: subnet,
	}
}

// addHTTPRoute adds an HTTPRoute to the Backend of a Service.
func (b *builder) addHTTPRoute(namespace, service, host string, at netip.AddrPort) {
	backend := state.Ref{Kind: "Backend", Namespace: namespace, Name: service + "-backend"}
	b.Cluster.Backends = append(b.Cluster.Backends, clusterstate.Backend{
		Object: newObject(backend.Kind, namespace, backend.Name), Endpoints: []string{at.String()},
	})
	b.Cluster.Routes = append(b.Cluster.Routes, clusterstate.Route{
		Object: newObject("HTTPRoute", namespace, service), Hosts: []string{host},
		Gateways: []string{proxyNamespace + "/eg"}, Backends: []state.Ref{backend},
	})
}
