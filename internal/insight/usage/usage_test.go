package usage_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/insight/usage"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/state"
)

func object(kind, ns, name string) clusterstate.Object {
	return clusterstate.Object{Ref: state.Ref{Kind: kind, Namespace: ns, Name: name}}
}

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// testSurvey returns a survey with two pools. The first has an address with leaked ports, the address of a floating IP,
// one of a router and one that only Kube-OVN knows. The second has an egress address.
func testSurvey() *clusterstate.State {
	a := func(ports ...string) (out []netip.Prefix) {
		for _, p := range ports {
			out = append(out, netip.MustParsePrefix(p))
		}
		return out
	}
	return &clusterstate.State{
		Cluster: clusterstate.Cluster{
			Subnets: []clusterstate.Subnet{
				{Object: object("Subnet", "", "acme-prod-default"), Vpc: "acme-prod", Prefixes: a("10.0.0.0/24")},
				{Object: object("Subnet", "", "ext-cloud"), Network: "cloud", Prefixes: a("100.65.0.0/24"), Used: 1, Free: 252},
				{Object: object("Subnet", "", "ext-public"), Network: "public", Prefixes: a("198.51.100.0/29"), Used: 4, Free: 1},
			},
			Projects: []clusterstate.Project{{Object: object("Project", "acme", "prod"), Shard: "acme-prod", Address: addr("198.51.100.2")}},
			EIps: []clusterstate.EIp{
				{Object: object("EIp", "acme-prod", "default-gw"), Shard: "acme-prod", Address: addr("198.51.100.2")},
				{Object: object("EIp", "acme-prod", "front"), Shard: "acme-prod", Address: addr("198.51.100.3")},
				{Object: object("EIp", "acme-prod", "waits"), Shard: "acme-prod"},
			},
			FIps: []clusterstate.FIp{{Object: object("FIp", "acme-prod", "web"), Shard: "acme-prod", External: addr("198.51.100.3"), Target: addr("10.0.0.9")}},
			EgressIPs: []clusterstate.EgressIP{{
				Object: object("EgressIP", "", "out"), Addresses: []string{"100.65.0.9"}, Held: map[string]string{"100.65.0.9": "node2"},
			}},
			OvnEips: []clusterstate.OvnEip{
				{Object: object("OvnEip", "", "left"), Address: addr("198.51.100.5")},
				{Object: object("OvnEip", "", "eip-acme-prod-front"), Address: addr("198.51.100.3")},
			},
			Nodes: []clusterstate.Node{
				{Object: object("Node", "", "node1"), Chassis: "c1", Ready: true},
				{Object: object("Node", "", "node2"), Chassis: "c2", Ready: true},
			},
		},
		Logical: logical.Network{Routers: []logical.Router{
			{
				Name: "acme-prod",
				Ports: []logical.RouterPort{
					{Name: "acme-prod-acme-prod-default", Networks: a("10.0.0.1/24")},
					{Name: "acme-prod-ext-public", Networks: a("198.51.100.2/29"), Holder: "c1"},
				},
				NATs: []logical.NAT{
					{Type: "snat", External: addr("198.51.100.2"), Logical: a("10.0.0.0/24")[0]},
					{Type: "dnat_and_snat", External: addr("198.51.100.3"), Logical: a("10.0.0.9/32")[0]},
				},
			},
			{Name: "ovn-cluster", Ports: []logical.RouterPort{{Name: "ovn-cluster-ext-public", Networks: a("198.51.100.4/29"), Holder: "c2"}}},
			{Name: "sallyport-egress", Ports: []logical.RouterPort{{Name: "sallyport-egress-100-65-0-9", Networks: a("100.65.0.9/24"), Holder: "c2"}}},
		}},
		Inspected: map[string]clusterstate.NodeInspection{
			"node1": {Usage: []clusterstate.AddressUsage{
				{Address: addr("198.51.100.2"), Connections: 900, Protocol: "tcp", To: netip.MustParseAddrPort("203.0.113.9:443"), Ports: 600, Of: 1000},
				{Address: addr("198.51.100.3"), Connections: 950, Protocol: "tcp", To: netip.MustParseAddrPort("203.0.113.1:80"), Ports: 3, Of: 1000},
			}},
			"node2": {Problem: "no agent answers"},
		},
	}
}

func TestTables(t *testing.T) {
	for _, c := range []struct {
		chosen []string
		most   int
		want   string
	}{
		{[]string{"pools"}, 0, `
POOL        NETWORK  PREFIX           USED  FREE  FULL  BY
ext-public  public   198.51.100.0/29  4     1     80 %  acme-prod 2, others 1, routers 1
ext-cloud   cloud    100.65.0.0/24    1     252   0 %   egress addresses 1
`},
		{[]string{"addresses", "nodes"}, 3, `
ADDRESS  POOL  WHO  NODE  CONNECTIONS  PORTS  FULL  MOST TO
198.51.100.2  ext-public  Project acme/prod, EIp acme-prod/default-gw  node1  900  600  60 %  tcp 203.0.113.9:443
198.51.100.3  ext-public  FIp acme-prod/web, EIp acme-prod/front  node1  950  3  0 %  tcp 203.0.113.1:80
100.65.0.9  ext-cloud  EgressIP out  node2  ?  ?  ?
and 2 more: sallyport top addresses

NODE  GATEWAYS  EGRESS ADDRESSES  CONNECTIONS
node1  1  -  1850
node2  2  100.65.0.9  ? (no agent answers)
`},
	} {
		var out strings.Builder
		if err := usage.Summarize(testSurvey()).SelectTables(c.chosen...).PrintTables(&out, c.most); err != nil {
			t.Fatal(err)
		}
		fields := func(text string) (lines []string) {
			for line := range strings.Lines(text) {
				lines = append(lines, strings.Join(strings.Fields(line), " "))
			}
			return lines
		}
		if got, want := fields(out.String()), fields(c.want[1:]); !slices.Equal(got, want) {
			t.Errorf("%v: got\n%s\nwant\n%s", c.chosen, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// Only the nodes that hold an address are queried for its connections.
func TestNodesAreAskedForWhatTheyHold(t *testing.T) {
	s := testSurvey()
	for _, q := range usage.PlanInspections(s) {
		want := map[string][]string{"node1": {"198.51.100.2", "198.51.100.3"}, "node2": {"100.65.0.9", "198.51.100.4"}}[q.Node]
		if !slices.Equal(q.Usage, want) {
			t.Errorf("%s is asked for %v, want %v", q.Node, q.Usage, want)
		}
	}
	s.Cluster.Nodes[1].Ready = false
	if got := usage.PlanInspections(s); len(got) != 1 || got[0].Node != "node1" {
		t.Errorf("asked: %v; want node1 alone, for the other would not answer", got)
	}
}
