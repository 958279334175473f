package diagnosis

import (
	"net/netip"
	"time"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

var (
	addr   = netip.MustParseAddr
	prefix = netip.MustParsePrefix
	port   = netip.MustParseAddrPort

	noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

	project   = state.Ref{Kind: "Project", Namespace: "acme", Name: "prod"}
	eip       = state.Ref{Kind: "EIp", Namespace: "acme-prod", Name: "fip-web"}
	fip       = state.Ref{Kind: "FIp", Namespace: "acme-prod", Name: "web"}
	service   = state.Ref{Kind: "Service", Namespace: "acme-prod", Name: "shop"}
	webPod    = state.Ref{Kind: "Pod", Namespace: "acme-prod", Name: "web"}
	shopPod   = state.Ref{Kind: "Pod", Namespace: "acme-prod", Name: "shop-1"}
	egressIP  = state.Ref{Kind: "EgressIP", Name: "mail"}
	node1     = state.Ref{Kind: "Node", Name: "node1"}
	node2     = state.Ref{Kind: "Node", Name: "node2"}
	cloud     = state.Ref{Kind: "Subnet", Name: "ext-cloud"}
	uplinkNet = state.Ref{Kind: "ExternalNetwork", Name: "vlan1"}
)

// programmedObject returns an object that was created and programmed an hour ago.
func programmedObject(ref state.Ref) clusterstate.Object {
	return clusterstate.Object{Ref: ref, Created: noon.Add(-time.Hour), Generation: 1, Conditions: []clusterstate.Condition{
		{Type: "Accepted", Status: "True", Reason: intent.Accepted, Since: noon.Add(-time.Hour), Generation: 1},
		{Type: "Programmed", Status: "True", Reason: intent.Programmed, Since: noon.Add(-time.Hour), Generation: 1},
	}}
}

// healthySurvey returns a cluster without problems: a project with a floating IP, a load balancer and an egress address
// on network ext-cloud, whose gateway port node2 holds, and nodes that are connected to network vlan1 themselves.
func healthySurvey() *clusterstate.State {
	return &clusterstate.State{
		Taken: noon, Cluster: healthyCluster(), Logical: healthyNetwork(), Inspected: healthyInspections(),
		Shards: []clusterstate.Shard{{Name: "acme-prod", Verdicts: []intent.Verdict{
			{Object: intent.ObjectKey{Kind: intent.FIp, Namespace: fip.Namespace, Name: fip.Name}, Through: []state.Ref{eip, returnPathRef}},
		}}},
		Certificates: []clusterstate.Certificate{{For: "OVN", Expires: noon.Add(30 * 24 * time.Hour)}},
	}
}

// returnPathRef is the owner of the rows of a return path. It is not an API object.
var returnPathRef = state.Ref{Kind: "ReturnPath", Namespace: "acme-prod", Name: "ext-public"}

func healthyCluster() clusterstate.Cluster {
	c := clusterstate.Cluster{
		Version: "v1.35.4",
		Inside:  []netip.Prefix{prefix("10.96.0.0/12")},
		Projects: []clusterstate.Project{{
			Object: programmedObject(project), Shard: "acme-prod", Prefixes: []netip.Prefix{prefix("10.20.0.0/24")},
			Address: addr("100.65.0.12"),
		}},
		EIps: []clusterstate.EIp{{Object: programmedObject(eip), Shard: "acme-prod", Address: addr("100.65.0.13")}},
		FIps: []clusterstate.FIp{{
			Object: programmedObject(fip), Shard: "acme-prod", EIp: eip.Name, External: addr("100.65.0.13"), Target: addr("10.20.0.2"), Pod: "web",
		}},
		Services: []clusterstate.Service{{
			Object: programmedObject(service), Shard: "acme-prod", Type: "LoadBalancer", Ours: true, Ingress: []netip.Addr{addr("100.65.0.15")},
			Selector: map[string]string{"app": "shop"}, Ports: []clusterstate.ServicePort{{Port: 80, Protocol: "TCP", Target: "8080"}},
			Endpoints: []clusterstate.Endpoint{{Address: port("10.20.0.3:8080"), Ready: true, Serving: true, Pod: "shop-1"}},
		}},
		Pods: []clusterstate.Pod{
			{Object: programmedObject(webPod), Addresses: []netip.Addr{addr("10.20.0.2")}, Node: "node1", Phase: "Running", Ready: true},
			{Object: programmedObject(shopPod), Addresses: []netip.Addr{addr("10.20.0.3")}, Node: "node2", Phase: "Running", Ready: true, Ports: []int{8080}},
		},
		EgressIPs: []clusterstate.EgressIP{{
			Object: programmedObject(egressIP), Addresses: []string{"100.65.0.20"},
			Held: map[string]string{"100.65.0.20": "node2"}, Selects: 1,
		}},
		Vpcs: []clusterstate.Vpc{{Object: programmedObject(state.Ref{Kind: "Vpc", Name: "acme-prod"}), External: []string{"ext-cloud"}, Ready: true}},
		Subnets: []clusterstate.Subnet{
			{
				Object: programmedObject(cloud), Prefixes: []netip.Prefix{prefix("100.65.0.0/16")}, Gateways: []netip.Addr{addr("100.65.0.1")},
				Network: "ext-cloud", Vlan: "vlan0", Interface: "eth1", Ready: true, Free: 1000, Used: 5,
			},
			{
				Object: programmedObject(state.Ref{Kind: "Subnet", Name: "acme-prod-default"}), Vpc: "acme-prod",
				Prefixes: []netip.Prefix{prefix("10.20.0.0/24")}, Ready: true,
			},
		},
		Networks: []clusterstate.Network{
			{Object: programmedObject(cloud), Subnets: []string{"ext-cloud"}},
			{Object: programmedObject(uplinkNet), Interface: "eth2", OnNodes: []string{"node1", "node2"}, Gateways: []netip.Addr{addr("192.0.2.1")}},
		},
		NodePaths: []clusterstate.NodePath{{
			Object: programmedObject(state.Ref{Kind: "NodePath", Name: "node1"}), Networks: []string{"vlan1"},
			Ways: []clusterstate.NodeNetwork{{Network: "vlan1", Interface: "eth2", Mark: 0x800000, Method: "Connection"}},
		}},
		Leases: []clusterstate.Lease{
			{
				Object: clusterstate.Object{Ref: state.Ref{Kind: "Lease", Namespace: "kube-system", Name: ControllerLease}}, Holder: "a",
				Renewed: noon.Add(-3 * time.Second), Lasts: 15 * time.Second,
			},
			{
				Object: clusterstate.Object{Ref: state.Ref{Kind: "Lease", Namespace: "kube-system", Name: KubeOVNLease}}, Holder: "b",
				Renewed: noon.Add(-3 * time.Second), Lasts: 30 * time.Second,
			},
		},
	}
	c.Pods[0].Subnet, c.Pods[1].Subnet = "acme-prod-default", "acme-prod-default"
	c.Pods[1].Labels = map[string]string{"app": "shop", "tier": "web"}
	for _, ref := range []state.Ref{node1, node2} {
		c.Nodes = append(c.Nodes, clusterstate.Node{
			Object: clusterstate.Object{Ref: ref}, Chassis: "chassis-" + ref.Name, Ready: true, Heartbeat: noon.Add(-2 * time.Second), Gateway: true,
			Addresses: []netip.Addr{addr(map[string]string{"node1": "172.30.1.1", "node2": "172.30.1.2"}[ref.Name])},
		})
	}
	return c
}

func ownedBy(by state.Ref) logical.ExternalIDs {
	return logical.ExternalIDs{ownership.RowOwnerKey: by.Kind + "/" + by.Namespace + "/" + by.Name, ownership.RowShardKey: "acme-prod"}
}

func healthyNetwork() logical.Network {
	return logical.Network{
		Chassis: []logical.Chassis{
			{Name: "chassis-node1", Host: "node1", Encaps: []string{"geneve 172.31.1.1"}, Seen: 7},
			{Name: "chassis-node2", Host: "node2", Encaps: []string{"geneve 172.31.1.2"}, Seen: 7},
		},
		Progress: logical.ConfigProgress{Asked: 7, Translated: 7, Done: 7},
		Routers: []logical.Router{{
			Name: "acme-prod",
			Ports: []logical.RouterPort{
				{Name: "acme-prod-acme-prod-default", MAC: "0a:00:00:00:00:01", Networks: []netip.Prefix{prefix("10.20.0.1/24")}},
				{
					Name: "acme-prod-ext-cloud", MAC: "0a:00:00:00:00:02", Networks: []netip.Prefix{prefix("100.65.0.11/16")},
					Chassis: []string{"chassis-node2", "chassis-node1"}, Holder: "chassis-node2",
				},
			},
			Policies: []logical.RouterPolicy{{Priority: ownership.DefaultEgress, Match: "ip4", Action: "reroute", IDs: ownedBy(project)}},
			NATs: []logical.NAT{
				{Type: "snat", External: addr("100.65.0.12"), Logical: prefix("10.20.0.0/24")},
				{Type: "dnat_and_snat", External: addr("100.65.0.13"), Logical: prefix("10.20.0.2/32")},
			},
			Balancers: []logical.LoadBalancer{{
				Name: "acme-prod-shop-tcp", IDs: ownedBy(service),
				VIPs: []logical.VIP{{Address: port("100.65.0.15:80"), Backends: []netip.AddrPort{port("10.20.0.3:8080")}}},
			}},
		}},
		Switches: []logical.Switch{{Name: "acme-prod-default"}},
		Monitors: []logical.ServiceMonitor{{Port: "shop-1.acme-prod", Address: port("10.20.0.3:8080"), Status: "online"}},
	}
}

func healthyInspections() map[string]clusterstate.NodeInspection {
	out := map[string]clusterstate.NodeInspection{}
	for name, tail := range map[string]string{"node1": "1", "node2": "2"} {
		out[name] = clusterstate.NodeInspection{
			Asked: noon, Clock: noon.Add(time.Second), Answered: noon.Add(2 * time.Second),
			Interfaces: []clusterstate.Interface{
				{Name: "eth0", Up: true, MTU: 1558, Addresses: []netip.Prefix{prefix("172.31.1." + tail + "/16")}},
				{Name: "eth1", Up: true, MTU: 1500},
				{Name: "eth2", Up: true, MTU: 1500, Addresses: []netip.Prefix{prefix("192.0.2.1" + tail + "/25")}},
				{Name: "ovn0", Up: true, MTU: 1500},
			},
			Settings: map[string]string{
				"net.ipv4.conf.all.rp_filter": "0", "net.ipv4.conf.eth2.rp_filter": "2", conntrackCountKey: "100", conntrackMaxKey: "262144",
			},
			Neighbours: []clusterstate.Neighbour{{Interface: "eth1", Address: addr("100.65.0.1"), MACs: []string{"02:00:00:00:00:01"}}},
			Usage:      []clusterstate.AddressUsage{{Address: addr("100.65.0.12"), Ports: 10, Of: 64512, To: port("203.0.113.10:443"), Protocol: "tcp"}},
			Switch:     clusterstate.OpenVSwitch{Controller: "connected", Chassis: "chassis-" + name},
		}
	}
	one := out["node1"]
	for _, a := range []string{"100.65.0.11", "100.65.0.12", "100.65.0.13", "100.65.0.15"} {
		one.Neighbours = append(one.Neighbours, clusterstate.Neighbour{Interface: "eth1", Address: addr(a), MACs: []string{"0A:00:00:00:00:02"}})
	}
	one.Routes = []clusterstate.RouteLookup{{To: addr("203.0.113.1"), Mark: 0x800000, Output: "eth2"}}
	one.Connection = []clusterstate.Connection{{
		Protocol: "tcp", Source: port("203.0.113.10:4000"), Destination: port("100.65.0.15:80"),
		ReplySource: port("10.20.0.3:8080"), ReplyDestination: port("203.0.113.10:4000"),
	}}
	out["node1"] = one
	return out
}
