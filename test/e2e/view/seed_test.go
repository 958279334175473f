package view

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/page"
)

// documentPoint is one statement of a hand-written document about a cluster, and how ours states it.
type documentPoint struct {
	Say  string   `json:"say"`
	In   string   `json:"in"`   // heading of the section
	Find []string `json:"find"` // expressions that must all be found
	Bare bool     `json:"bare"` // also expected without projects
	Not  string   `json:"not"`  // why our document does not state it
}

// documentChapter is a section of that document.
type documentChapter struct {
	Section string          `json:"section"`
	Points  []documentPoint `json:"points"`
}

// seedPods are the pods of that cluster, with its addresses.
var seedPods = []harness.Pod{
	{Namespace: "envoy-gateway-system", Name: "envoy", Address: "10.100.0.250"},
	{Namespace: "ingress-nginx", Name: "ingress-nginx-controller", Address: "10.100.0.153"},
	{Namespace: "kube-system", Name: "coredns", Address: "10.100.0.10"},
	{Namespace: "kamaji-system", Name: "kamaji", Address: "10.100.0.20"},
	{Namespace: "shalb-demo", Name: "test-http-app", Address: "10.0.10.28"},
	{Namespace: "shalb-demo", Name: "demo-cluster", Address: "10.0.10.5"},
	{Namespace: "shalb-demo", Name: "mt", Address: "10.0.10.8"},
	{Namespace: "shalb-dev", Name: "bohdan-prod", Address: "10.1.0.57"},
	{Namespace: "shalb-envoy", Name: "app", Address: "10.0.40.4"},
}

// TestView3Seed checks that in a lab with the names and addresses of a cluster with a hand-drawn document, the
// generated document contains every point of that document. Before the projects exist, it contains nothing about them.
func TestView3Seed(t *testing.T) {
	item := viewItems.Item(t, 3)
	d := newSeedFixture(t)
	bare := d.architectureDocument(t)
	d.createSeedObjects(t)
	d.ExpectAnswer(t, "internet", "http://168.119.17.57", "bohdan-prod", harness.InternetAddress)
	d.ExpectAnswer(t, "client-ext-cloud", "http://100.65.0.112", "test-http-app", "172.20.1.10")
	text := d.architectureDocument(t)
	found, all, projects, elsewhere := 0, 0, 0, 0
	for _, c := range loadChapters(t) {
		for _, p := range c.Points {
			if p.Not != "" {
				elsewhere++
				continue
			}
			all++
			if missing := p.firstMissing(text); missing != "" {
				t.Errorf("%s: %s: %q is not below %q", c.Section, p.Say, missing, p.In)
				continue
			}
			found++
			if without := p.firstMissing(bare); (without == "") != p.Bare {
				t.Errorf("%s: %s: is it found without projects? %t, want %t (%s)", c.Section, p.Say, !p.Bare, p.Bare,
					without)
			} else if !p.Bare {
				projects++
			}
		}
	}
	item.AddFigure("%d of %d points of the seed are in the document; %d of them are about projects, and are not in that of a cluster without; "+
		"%d points are not about the network", found, all, projects, elsewhere)
	page.Check(t, harness.ReferenceDir+"architecture-document.md", documentPreface+text)
}

// documentPreface is the introduction of the page in the reference.
const documentPreface = `# A document about a cluster

This is what ` + "`sallyport map -o md`" + ` writes, for a lab with the networks, names and addresses of a real cluster of kube-dc, of which somebody had
drawn such a document by hand. ` + "`TestView3Seed`" + ` makes the lab, compares the document with the other point by point, and checks this page. Here
the time is left out, and headings are one level deeper. What is the lab's own: each network has a bridge to itself, the node is called node1, and
has its addresses outside on two interfaces; Gateways, their routes and external IPs are objects, without a proxy behind them. Counts are of what is
there, and the router of ` + "`ovn-cluster`" + ` has a port on ext-cloud only: the other document counts more than it shows, and lists both networks there.

`

// newSeedFixture starts a lab like that cluster, without its projects.
func newSeedFixture(t *testing.T) *explainFixture {
	t.Helper()
	c := harness.StartLab(t, "seed", harness.LoadTopology(t, "seed/topology.yaml"))
	c.InstallSallyport(t)
	d := &explainFixture{
		BackendProject: &harness.BackendProject{Cluster: c},
		Controller:     c.NewController(t, t.TempDir(), "--management-network-type=cloud"),
	}
	d.StartForTest(t)
	installAgents(t, d.Cluster)
	harness.Eventually(t, "the management VPC is on ext-cloud, and has the first address there", func() bool {
		return strings.Contains(d.RunNbctl(t, "lr-nat-list", "ovn-cluster"), "100.65.0.101")
	})
	if t.Failed() {
		report, err := runCommand(t, d.Cluster, "doctor")
		t.Fatalf("%s\n%s\n%v", d.RunNbctl(t, "show", "ovn-cluster"), report, err)
	}
	return d
}

// createSeedObjects creates the objects of that cluster, one after the other where Kube-OVN allocates addresses.
func (d *explainFixture) createSeedObjects(t *testing.T) {
	t.Helper()
	d.Apply(t, harness.ReadFile(t, "../testdata/seed/gateway-api.yaml"))
	for _, kind := range []string{"gatewayclasses", "gateways", "httproutes", "tlsroutes"} {
		d.WaitForObject(t, "CustomResourceDefinition", "", kind+".gateway.networking.k8s.io",
			manifest.True("Established"))
	}
	d.CreateOrganization(t, "shalb")
	for _, name := range []string{"envoy-gateway-system", "ingress-nginx", "kamaji-system"} {
		d.CreateNamespace(t, name, "")
	}
	d.CreateProject(t, "shalb", "demo", "10.0.10.0/24", "cloud")
	d.CreateProject(t, "shalb", "dev", "10.1.0.0/16", "public")
	d.CreateProject(t, "shalb", "envoy", "10.0.40.0/24", "public")
	for _, p := range seedPods {
		p.Node = "node1"
		d.RunPod(t, p)
	}
	d.Apply(t, harness.ReadFile(t, "../testdata/seed/projects.yaml"))
	d.Apply(t, harness.ReadFile(t, "../testdata/seed/cluster.yaml"))
	for _, name := range []string{"demo-cluster", "mt", "test-http-app"} {
		d.WaitForObject(t, "Backend", "shalb-demo", name+"-backend", manifest.Exists)
	}
	for _, name := range []string{
		"shalb-demo/demo-cluster", "shalb-demo/mt", "shalb-demo/test-http-app",
		"shalb-dev/inside",
	} {
		namespace, service, _ := strings.Cut(name, "/")
		d.WaitProgrammed(t, "Service", namespace, service)
	}
	d.WaitProgrammed(t, "FIp", "shalb-dev", "bohdan-prod")
	d.SyncFlows(t)
}

var takenPattern = regexp.MustCompile(`, as it was on [^.]*`)

// architectureDocument returns the cluster's document in the form of the reference page.
func (d *explainFixture) architectureDocument(t *testing.T) string {
	t.Helper()
	text, err := runCommand(t, d.Cluster, "map", "-o", "md")
	if err != nil {
		t.Fatalf("sallyport map -o md: %v\n%s", err, text)
	}
	return strings.ReplaceAll("\n"+takenPattern.ReplaceAllString(text, ""), "\n#", "\n##")[1:]
}

func loadChapters(t *testing.T) (all []documentChapter) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(harness.ReadFile(t, "../testdata/seed/points.yaml")), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// firstMissing returns the first expression of a point that is missing in its section of a document.
func (p documentPoint) firstMissing(text string) string {
	part := sectionBelow(text, p.In)
	for _, e := range p.Find {
		if !regexp.MustCompile(e).MatchString(part) {
			return e
		}
	}
	return ""
}

// sectionBelow returns the text below a heading, up to the next heading of its level.
func sectionBelow(text, heading string) string {
	at := regexp.MustCompile(`(?m)^(#+) ` + regexp.QuoteMeta(heading)).FindStringSubmatchIndex(text)
	if at == nil {
		return ""
	}
	level, rest := at[3]-at[2], text[at[1]:]
	if end := regexp.MustCompile(fmt.Sprintf(`(?m)^#{1,%d} `, level)).FindStringIndex(rest); end != nil {
		return rest[:end[0]]
	}
	return rest
}
