package topology_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/insight/topology"
	"github.com/sallyport/sallyport/internal/insight/trace"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/clusterstate/clusterstatetest"
	"github.com/sallyport/sallyport/internal/model/logical"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

var update = flag.Bool("update", false, "rewrite what is compared with")

func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s differs; `go test ./internal/insight/topology -update` writes it anew:\n%s", path, got)
	}
}

// The JSON of the graph is an interface: fields must not be renamed or removed.
func TestJSON(t *testing.T) {
	raw, err := json.MarshalIndent(buildGraph(clusterstatetest.GenerateCluster(1), nil), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	checkGolden(t, "graph.json", string(raw)+"\n")
}

func TestText(t *testing.T) {
	g := buildGraph(clusterstatetest.GenerateCluster(5), nil)
	checkGolden(t, "five.txt", g.RenderText())
	one, err := g.FocusProject("initech/prod")
	if err != nil {
		t.Fatal(err)
	}
	checkGolden(t, "project.txt", one.RenderText())
	checkGolden(t, "fifty.txt", buildGraph(clusterstatetest.GenerateCluster(50), nil).RenderText())
	if dense := buildGraph(clusterstatetest.GenerateCluster(1000), nil).RenderText(); strings.Count(dense,
		"\n") > 120 {
		t.Errorf("1,000 projects take %d lines", strings.Count(dense, "\n"))
	}
}

func TestDocument(t *testing.T) {
	findings := []diagnosis.Finding{{
		Code: "ClockSkew", Severity: diagnosis.Warning, About: []state.Ref{diagnosis.ClusterRef},
		Message: "node1 is late", Remediation: "Set its clock.",
	}}
	checkGolden(t, "document.md", buildGraph(clusterstatetest.GenerateCluster(2), findings).RenderMarkdown(findings))
}

// Nodes are queried for their routes to pods and to the outside, and the document shows both like a routing table.
func TestRoutesOfNodes(t *testing.T) {
	s := clusterstatetest.GenerateCluster(2)
	questions := topology.PlanInspections(s)
	if len(questions) != len(s.Cluster.Nodes) || len(questions[0].Routes) != 2 {
		t.Fatalf("asked: %+v", questions)
	}
	if text := buildGraph(s, nil).RenderMarkdown(nil); strings.Contains(text, "Routes:") {
		t.Error("nodes that said nothing have routes")
	}
	var ways []clusterstate.RouteLookup
	for i, q := range questions[0].Routes {
		via := netip.MustParseAddr(fmt.Sprintf("192.168.10.%d", i+1))
		ways = append(ways, clusterstate.RouteLookup{To: netip.MustParseAddr(q.To), Output: "eth0", NextHop: via})
	}
	s.Inspected = map[string]clusterstate.NodeInspection{questions[0].Node: {Routes: ways}}
	text := buildGraph(s, nil).RenderMarkdown(nil)
	for _, want := range []string{
		"• 10.100.0.0/16 via 192.168.10.1 dev eth0 (pods)",
		"• default via 192.168.10.2 dev eth0 (everything else)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the document", want)
		}
	}
}

func TestBuildGraphIsDeterministic(t *testing.T) {
	if !reflect.DeepEqual(buildGraph(clusterstatetest.GenerateCluster(30), nil),
		buildGraph(clusterstatetest.GenerateCluster(30), nil)) {
		t.Error("two graphs of one survey differ")
	}
}

// Replies leave through the network the request arrived on, with the address it was sent to. On a secondary network
// they use the return port.
func TestPathsThereAndBack(t *testing.T) {
	g := buildGraph(clusterstatetest.GenerateCluster(5), nil)
	v := findVPC(t, g, "globex-prod")
	byDefault, bySecond := findConnection(t, v, "Service"), findConnection(t, v, "FIp")
	if placeKinds(byDefault.Request) != "client network node address pod" ||
		placeKinds(byDefault.Reply) != "pod router node network client" {
		t.Errorf("by the default network: there %s, back %s", placeKinds(byDefault.Request), placeKinds(byDefault.Reply))
	}
	if placeKinds(bySecond.Reply) != "pod returnPort router node network client" || bySecond.Reply[4].Label != "ext-public" {
		t.Errorf("by the second network: back %s", placeKinds(bySecond.Reply))
	}
	if !strings.Contains(bySecond.Request[3].Action, "10.0.1.10") ||
		!strings.Contains(bySecond.Reply[2].Action, "198.18.0.102") {
		t.Errorf("translated by %q and %q", bySecond.Request[3].Action, bySecond.Reply[2].Action)
	}
}

// Whatever is healthy in a generated cluster is answered, so that pictures show it as it is.
func TestConnectionsOfHealthyObjects(t *testing.T) {
	for _, v := range buildGraph(clusterstatetest.GenerateCluster(50), nil).Vpcs {
		for _, c := range v.Connections {
			if c.Verdict == trace.Lost || c.Verdict == trace.Dropped && c.About.Name != "vm-gone" && c.About.Name != "batch" {
				t.Errorf("%s, %s: %s: %s", v.Name, c.Title, c.Verdict, c.Reason)
			}
		}
	}
}

// A broken connection ends at the place that the trace ends at.
func TestBrokenConnection(t *testing.T) {
	s := clusterstatetest.GenerateCluster(5)
	for i, r := range s.Logical.Routers {
		for k, p := range r.Ports {
			if p.Name == "globex-prod-ext-public" {
				s.Logical.Routers[i].Ports[k].Holder = ""
			}
		}
	}
	c := findConnection(t, findVPC(t, buildGraph(s, nil), "globex-prod"), "FIp")
	end := c.Request[len(c.Request)-1]
	if !end.Problem || !strings.Contains(end.Action, "no node holds gateway port globex-prod-ext-public") ||
		len(c.Reply) > 0 || placeKinds(c.Request) != "client network router" {
		t.Errorf("it ends at %+v after %s", end, placeKinds(c.Request))
	}
}

// The proxy of a Gateway opens a connection of its own, which is a part of the path.
func TestConnectionThroughProxy(t *testing.T) {
	v := findVPC(t, buildGraph(clusterstatetest.GenerateCluster(1), nil), "acme-prod")
	c := findConnection(t, v, "HTTPRoute")
	if got, want := placeKinds(c.Request), "client network node proxy router address pod"; got != want {
		t.Errorf("the path is %s, want %s", got, want)
	}
}

// A FIp without a target has no reply path.
func TestPathToNowhere(t *testing.T) {
	v := findVPC(t, buildGraph(clusterstatetest.GenerateCluster(5), nil), "hooli-prod")
	p := findConnection(t, v, "FIp")
	if end := p.Request[len(p.Request)-1]; !end.Problem || len(p.Reply) != 0 {
		t.Errorf("it ends at %+v, and comes back by %s", end, placeKinds(p.Reply))
	}
}

func TestProjectByName(t *testing.T) {
	g := buildGraph(clusterstatetest.GenerateCluster(5), nil)
	for _, name := range []string{"acme-prod", "acme/prod", "ovn-cluster"} {
		one, err := g.FocusProject(name)
		if err != nil || len(one.Vpcs) != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := g.FocusProject("nobody"); err == nil {
		t.Error("there is a project nobody")
	}
}

// A finding becomes one problem of the object that it is about.
func TestFindings(t *testing.T) {
	about := state.Ref{Kind: "FIp", Namespace: "hooli-prod", Name: "vm-gone"}
	g := buildGraph(clusterstatetest.GenerateCluster(5), []diagnosis.Finding{
		{
			Code:        "PodNotFound",
			Severity:    diagnosis.Error,
			About:       []state.Ref{about},
			Message:     "found",
			Remediation: "make it",
		},
		{Code: "ClockSkew", Severity: diagnosis.Warning, About: []state.Ref{diagnosis.ClusterRef}, Message: "late"},
	})
	fips := findVPC(t, g, "hooli-prod").FIps
	if len(fips) != 1 || len(fips[0].Problems) != 1 || fips[0].Problems[0].Remediation != "make it" {
		t.Errorf("problems of the FIp: %+v", fips)
	}
	if len(g.Problems) != 1 || g.Problems[0].Code != "ClockSkew" {
		t.Errorf("problems of the cluster: %+v", g.Problems)
	}
}

func TestNodesHoldWhatRoutersHave(t *testing.T) {
	g := buildGraph(clusterstatetest.GenerateCluster(20), nil)
	for _, v := range g.Vpcs {
		for _, p := range v.Router.Ports {
			if p.Kind != topology.PortExternal {
				continue
			}
			at := slices.IndexFunc(g.Nodes, func(n topology.Node) bool { return n.Name == p.Node })
			if at < 0 || !slices.ContainsFunc(g.Nodes[at].GatewayPorts,
				func(h topology.GatewayPort) bool { return h.Port == p.Name && h.Network == p.Network }) {
				t.Errorf("%s is on %q, which does not hold it", p.Name, p.Node)
			}
		}
	}
}

func TestPublicNetworks(t *testing.T) {
	want := map[string]bool{"ext-cloud": false, "ext-partner": false, "ext-public": true, "uplink-a": true}
	for _, n := range buildGraph(clusterstatetest.GenerateCluster(1), nil).Networks {
		if n.Public != want[n.Name] {
			t.Errorf("%s is routable on the internet: %t", n.Name, n.Public)
		}
	}
}

func buildGraph(s *clusterstate.State, findings []diagnosis.Finding) *topology.Graph {
	return topology.BuildGraph(s, findings).TraceConnections()
}

func findVPC(t *testing.T, g *topology.Graph, name string) topology.Vpc {
	t.Helper()
	at := slices.IndexFunc(g.Vpcs, func(v topology.Vpc) bool { return v.Name == name })
	if at < 0 {
		t.Fatalf("there is no VPC %s", name)
	}
	return g.Vpcs[at]
}

func findConnection(t *testing.T, v topology.Vpc, kind string) topology.Connection {
	t.Helper()
	at := slices.IndexFunc(v.Connections, func(p topology.Connection) bool { return p.About.Kind == kind })
	if at < 0 {
		t.Fatalf("%s has no path by a %s", v.Name, kind)
	}
	return v.Connections[at]
}

func placeKinds(places []trace.Place) string {
	var all []string
	for _, s := range places {
		all = append(all, s.Kind)
	}
	return strings.Join(all, " ")
}

// The source addresses on links to egress addresses are internal: pods do not leave with them.
func TestEgressLinkIsNoWayOut(t *testing.T) {
	router, egress := kubeovn.ManagementVpc, netip.MustParseAddr("198.51.100.200")
	link := netip.MustParseAddr("241.52.121.10")
	s := &clusterstate.State{}
	s.Cluster.Vpcs = []clusterstate.Vpc{{Object: clusterstate.Object{Ref: state.Ref{Kind: "Vpc", Name: router}}}}
	s.Logical.Routers = []logical.Router{{
		Name: router,
		Ports: []logical.RouterPort{{
			Name: ownership.VPCEgressLinkPort(router, egress), Networks: []netip.Prefix{netip.PrefixFrom(link, 30)},
		}},
		NATs: []logical.NAT{{Type: "snat", External: link, Logical: netip.MustParsePrefix("0.0.0.0/0")}},
	}}
	if v := topology.BuildGraph(s, nil).Vpcs[0]; v.SNATAddress.IsValid() {
		t.Errorf("pods leave with %s", v.SNATAddress)
	}
	r := &s.Logical.Routers[0]
	own := netip.MustParseAddr("198.51.100.7")
	r.NATs = append(r.NATs, logical.NAT{Type: "snat", External: own, Logical: netip.MustParsePrefix("10.16.0.0/16")})
	if v := topology.BuildGraph(s, nil).Vpcs[0]; v.SNATAddress != own {
		t.Errorf("pods leave with %s, and not with %s", v.SNATAddress, own)
	}
}
