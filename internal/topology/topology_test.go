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

	"github.com/sallyport/sallyport/internal/diagnosis"
	"github.com/sallyport/sallyport/internal/state"
	"github.com/sallyport/sallyport/internal/survey"
	"github.com/sallyport/sallyport/internal/survey/surveytest"
	"github.com/sallyport/sallyport/internal/topology"
)

var update = flag.Bool("update", false, "rewrite what is compared with")

func golden(t *testing.T, name, got string) {
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
		t.Errorf("%s differs; `go test ./internal/topology -update` writes it anew:\n%s", path, got)
	}
}

// Others read the graph as JSON: what was in it stays.
func TestJSON(t *testing.T) {
	raw, err := json.MarshalIndent(topology.Of(surveytest.Cluster(1), nil), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "graph.json", string(raw)+"\n")
}

func TestText(t *testing.T) {
	g := topology.Of(surveytest.Cluster(5), nil)
	golden(t, "five.txt", g.Text())
	one, err := g.Project("initech/prod")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "project.txt", one.Text())
	golden(t, "fifty.txt", topology.Of(surveytest.Cluster(50), nil).Text())
	if dense := topology.Of(surveytest.Cluster(1000), nil).Text(); strings.Count(dense, "\n") > 120 {
		t.Errorf("1,000 projects take %d lines", strings.Count(dense, "\n"))
	}
}

func TestDocument(t *testing.T) {
	findings := []diagnosis.Finding{{
		Code: "ClockSkew", Severity: diagnosis.Warning, About: []state.Ref{diagnosis.Platform}, Message: "node1 is late", Cure: "Set its clock.",
	}}
	golden(t, "document.md", topology.Of(surveytest.Cluster(2), findings).Document(findings))
}

// Nodes are asked for their ways to the pods and to the outside, and the document tells both as a routing table does.
func TestRoutesOfNodes(t *testing.T) {
	s := surveytest.Cluster(2)
	questions := topology.Questions(s)
	if len(questions) != len(s.Cluster.Nodes) || len(questions[0].Routes) != 2 {
		t.Fatalf("asked: %+v", questions)
	}
	if text := topology.Of(s, nil).Document(nil); strings.Contains(text, "Routes:") {
		t.Error("nodes that said nothing have routes")
	}
	var ways []survey.RouteTaken
	for i, q := range questions[0].Routes {
		via := netip.MustParseAddr(fmt.Sprintf("192.168.10.%d", i+1))
		ways = append(ways, survey.RouteTaken{To: netip.MustParseAddr(q.To), Output: "eth0", NextHop: via})
	}
	s.Inspected = map[string]survey.Inspected{questions[0].Node: {Routes: ways}}
	text := topology.Of(s, nil).Document(nil)
	for _, want := range []string{"• 10.100.0.0/16 via 192.168.10.1 dev eth0 (pods)", "• default via 192.168.10.2 dev eth0 (everything else)"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the document", want)
		}
	}
}

func TestOfIsTheSameEachTime(t *testing.T) {
	if !reflect.DeepEqual(topology.Of(surveytest.Cluster(30), nil), topology.Of(surveytest.Cluster(30), nil)) {
		t.Error("two graphs of one survey differ")
	}
}

// A reply leaves by the network that its connection came in by: by a leg where that is not the default one, and with the address that was asked.
func TestPathsThereAndBack(t *testing.T) {
	g := topology.Of(surveytest.Cluster(5), nil)
	v := vpc(t, g, "globex-prod")
	byDefault, bySecond := path(t, v, "Service"), path(t, v, "FIp")
	if kinds(byDefault.There) != "client network node address pod" || kinds(byDefault.Back) != "pod router node network client" {
		t.Errorf("by the default network: there %s, back %s", kinds(byDefault.There), kinds(byDefault.Back))
	}
	if kinds(bySecond.Back) != "pod leg router node network client" || bySecond.Back[4].Label != "ext-public" {
		t.Errorf("by the second network: back %s", kinds(bySecond.Back))
	}
	if !strings.Contains(bySecond.There[3].Action, "10.0.1.10") || !strings.Contains(bySecond.Back[2].Action, "198.18.0.102") {
		t.Errorf("translated by %q and %q", bySecond.There[3].Action, bySecond.Back[2].Action)
	}
}

// A FIp without a target leads nowhere, and nothing comes back.
func TestPathToNowhere(t *testing.T) {
	v := vpc(t, topology.Of(surveytest.Cluster(5), nil), "hooli-prod")
	p := path(t, v, "FIp")
	if end := p.There[len(p.There)-1]; !end.Problem || len(p.Back) != 0 {
		t.Errorf("it ends at %+v, and comes back by %s", end, kinds(p.Back))
	}
}

func TestProjectByName(t *testing.T) {
	g := topology.Of(surveytest.Cluster(5), nil)
	for _, name := range []string{"acme-prod", "acme/prod", "ovn-cluster"} {
		one, err := g.Project(name)
		if err != nil || len(one.Vpcs) != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := g.Project("nobody"); err == nil {
		t.Error("there is a project nobody")
	}
}

// What a diagnosis found is at the object that it is about, once.
func TestFindings(t *testing.T) {
	about := state.Ref{Kind: "FIp", Namespace: "hooli-prod", Name: "vm-gone"}
	g := topology.Of(surveytest.Cluster(5), []diagnosis.Finding{
		{Code: "PodNotFound", Severity: diagnosis.Error, About: []state.Ref{about}, Message: "found", Cure: "make it"},
		{Code: "ClockSkew", Severity: diagnosis.Warning, About: []state.Ref{diagnosis.Platform}, Message: "late"},
	})
	fips := vpc(t, g, "hooli-prod").FIps
	if len(fips) != 1 || len(fips[0].Problems) != 1 || fips[0].Problems[0].Cure != "make it" {
		t.Errorf("problems of the FIp: %+v", fips)
	}
	if len(g.Problems) != 1 || g.Problems[0].Code != "ClockSkew" {
		t.Errorf("problems of the cluster: %+v", g.Problems)
	}
}

func TestNodesHoldWhatRoutersHave(t *testing.T) {
	g := topology.Of(surveytest.Cluster(20), nil)
	for _, v := range g.Vpcs {
		for _, p := range v.Router.Ports {
			if p.Kind != topology.ToOutside {
				continue
			}
			at := slices.IndexFunc(g.Nodes, func(n topology.Node) bool { return n.Name == p.Node })
			if at < 0 || !slices.ContainsFunc(g.Nodes[at].Holds, func(h topology.Hold) bool { return h.Port == p.Name && h.Network == p.Network }) {
				t.Errorf("%s is on %q, which does not hold it", p.Name, p.Node)
			}
		}
	}
}

func TestPublicNetworks(t *testing.T) {
	want := map[string]bool{"ext-cloud": false, "ext-partner": false, "ext-public": true, "uplink-a": true}
	for _, n := range topology.Of(surveytest.Cluster(1), nil).Networks {
		if n.Public != want[n.Name] {
			t.Errorf("%s is routable on the internet: %t", n.Name, n.Public)
		}
	}
}

func vpc(t *testing.T, g *topology.Graph, name string) topology.Vpc {
	t.Helper()
	at := slices.IndexFunc(g.Vpcs, func(v topology.Vpc) bool { return v.Name == name })
	if at < 0 {
		t.Fatalf("there is no VPC %s", name)
	}
	return g.Vpcs[at]
}

func path(t *testing.T, v topology.Vpc, kind string) topology.Path {
	t.Helper()
	at := slices.IndexFunc(v.Paths, func(p topology.Path) bool { return p.About.Kind == kind })
	if at < 0 {
		t.Fatalf("%s has no path by a %s", v.Name, kind)
	}
	return v.Paths[at]
}

func kinds(steps []topology.Step) string {
	var all []string
	for _, s := range steps {
		all = append(all, s.Kind)
	}
	return strings.Join(all, " ")
}
