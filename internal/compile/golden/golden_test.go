// Package golden is compile by example: Kubernetes objects in, what we want and say of them out, as text. It is apart
// from compile because what is fuzzed there is built anew for it, and this needs the Kubernetes client.
package golden

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/rogpeppe/go-internal/txtar"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/compile"
	"github.com/sallyport/sallyport/internal/engine/kube"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

var update = flag.Bool("update", false, "rewrite what the cases in testdata want")

// now is when every case happens.
var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// goldenCase is testdata/NAME.txtar: Kubernetes objects in, and what we want and say of them. Its comment tells in
// words what it shows and ends with lines of settings:
//
//	shard NAME        the VPC, or the shard of NodePaths; acme-prod when left out
//	rehearse          compile until nothing changes, as if Kube-OVN had done its part
//	once              compile the world as it is
//	with FILE …       objects of testdata/FILE.yaml too, unless the case has one of the same name
//	ports NAME …      ports of the router in OVN; without it there is no router
//	management TYPE   the network whose hosts pods of the management VPC reach
//	quota FLAG N      a limit that holds where nobody has set another, by the name of its flag
//	inside PREFIX …   the prefixes of pods and Services
//	podport NAME NAMESPACE/POD SUBNET   a port of a pod in OVN that is not on the switch of the pod's project
//	isolation WORD    Enforce or Report; Enforce when left out
//	trusted NAME …    the namespaces whose pods may be anywhere
//	attachments NAME … the namespaces whose attachments all pods may use
//	hide KIND…        what objects of these kinds asked for is counted, not shown
type goldenCase struct {
	path    string
	archive *txtar.Archive

	shard    string
	config   snapshot.Config
	hide     []string
	simulate bool
	ports    []string
	podPorts []snapshot.PodPort
	objects  []client.Object
}

func TestGolden(t *testing.T) {
	for _, g := range loadCases(t) {
		t.Run(g.name(), func(t *testing.T) {
			got, want := g.renderText(t, g.objects), g.archiveFile("want")
			if got == want {
				return
			}
			if !*update {
				t.Fatalf("differs (make golden rewrites it):\n%s",
					diff.Diff("wanted", []byte(want), "got", []byte(got)))
			}
			g.rewriteWant(t, got)
		})
	}
}

// A case is read by people.
func TestGoldenIsReadable(t *testing.T) {
	for _, g := range loadCases(t) {
		raw, err := os.ReadFile(g.path)
		if err != nil {
			t.Fatal(err)
		}
		if lines := bytes.Count(raw, []byte("\n")); lines > 80 {
			t.Errorf("%s has %d lines; show less, or make two cases of it", g.path, lines)
		}
	}
}

// Lists come from caches in no particular order.
func TestGoldenInAnyOrder(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	for _, g := range loadCases(t) {
		want := g.renderText(t, g.objects)
		for range 20 {
			shuffled := slices.Clone(g.objects)
			chance.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			if got := g.renderText(t, shuffled); got != want {
				t.Errorf("%s depends on the order of its objects:\n%s", g.name(),
					diff.Diff("in order", []byte(want), "shuffled", []byte(got)))
				break
			}
		}
	}
}

func loadCases(t *testing.T) []*goldenCase {
	t.Helper()
	paths, err := filepath.Glob("../testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases in testdata: %v", err)
	}
	out := make([]*goldenCase, 0, len(paths))
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		g := &goldenCase{path: path, archive: archive, shard: "acme-prod"}
		if err := g.configure(); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out = append(out, g)
	}
	return out
}

func (g *goldenCase) name() string { return strings.TrimSuffix(filepath.Base(g.path), ".txtar") }

func (g *goldenCase) archiveFile(name string) string {
	for _, f := range g.archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

// configure reads the settings, and the objects.
func (g *goldenCase) configure() error {
	words, settings, _ := strings.Cut(string(g.archive.Comment), "\n\n")
	if strings.TrimSpace(words) == "" || settings == "" {
		return fmt.Errorf("it has to say in words what it shows, then an empty line, then settings")
	}
	inputs, modes := []string{}, 0
	for line := range strings.Lines(settings) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		switch fields[0] {
		case "rehearse", "once":
			g.simulate = fields[0] == "rehearse"
			modes++
		case "with":
			shared, err := readShared(fields[1:])
			if err != nil {
				return err
			}
			inputs = append(inputs, shared...)
		default:
			if err := g.applySetting(fields[0], fields[1:]); err != nil {
				return err
			}
		}
	}
	if modes != 1 {
		return fmt.Errorf("say either rehearse or once")
	}
	return g.decodeObjects(append(inputs, g.archiveFile("input.yaml"))...)
}

// applySetting carries out one setting.
func (g *goldenCase) applySetting(setting string, words []string) error {
	switch setting {
	case "shard":
		g.shard = words[0]
	case "management":
		g.config.ManagementNetworkType = words[0]
	case "hide":
		g.hide = words
	case "ports":
		g.ports = words
	case "quota":
		return g.setQuota(words[0], words[1])
	case "inside":
		return g.config.ClusterPrefixes.Set(strings.Join(words, ","))
	case "podport", "isolation", "trusted", "attachments":
		return g.setIsolation(setting, words)
	default:
		return fmt.Errorf("there is no setting %q", setting)
	}
	return nil
}

// readShared reads manifests that several cases have.
func readShared(names []string) (out []string, err error) {
	for _, name := range names {
		raw, err := os.ReadFile(filepath.Join("../testdata", name+".yaml"))
		if err != nil {
			return nil, err
		}
		out = append(out, string(raw))
	}
	return out, nil
}

// setQuota reads a setting about quotas, by the name of its flag.
func (g *goldenCase) setQuota(flag, value string) error {
	return map[string]*snapshot.Limit{
		"default-eip-quota": &g.config.Quotas.EIps, "organization-eip-quota": &g.config.Quotas.OrganizationEIps,
		"organization-project-quota": &g.config.Quotas.OrganizationProjects,
	}[flag].Set(value)
}

// setIsolation reads a setting about pods that are where they do not belong.
func (g *goldenCase) setIsolation(setting string, words []string) error {
	switch setting {
	case "podport":
		namespace, pod, _ := strings.Cut(words[1], "/")
		g.podPorts = append(g.podPorts, snapshot.PodPort{
			Name:      words[0],
			Namespace: namespace,
			Pod:       pod,
			Subnet:    words[2],
		})
		return nil
	case "trusted":
		return g.config.TrustedNamespaces.Set(strings.Join(words, ","))
	case "attachments":
		return g.config.AttachmentNamespaces.Set(strings.Join(words, ","))
	default:
		return g.config.Isolation.Set(words[0])
	}
}

// decodeObjects decodes objects; a field that we do not know is a mistake in the case.
func (g *goldenCase) decodeObjects(texts ...string) error {
	decoder := serializer.NewCodecFactory(kube.Scheme(), serializer.EnableStrict).UniversalDeserializer()
	for _, text := range texts {
		for part := range strings.SplitSeq(text, "---\n") {
			if strings.TrimSpace(part) == "" {
				continue
			}
			object, _, err := decoder.Decode([]byte(part), nil, nil)
			if err != nil {
				return fmt.Errorf("%w in\n%s", err, part)
			}
			kube.AdoptByLabels(object.(client.Object))
			g.addObject(object.(client.Object))
		}
	}
	return nil
}

// addObject adds an object, instead of one of the same name that came before.
func (g *goldenCase) addObject(object client.Object) {
	key, _ := kube.KeyOf(object)
	g.objects = slices.DeleteFunc(g.objects, func(o client.Object) bool {
		other, _ := kube.KeyOf(o)
		return other == key
	})
	g.objects = append(g.objects, object)
}

func (g *goldenCase) compile(objects []client.Object) (*intent.Intent, []intent.Verdict) {
	in := kube.NewInputs(g.shard)
	in.AddMisplacedPorts(g.podPorts)
	in.AddAll(objects)
	if g.shard == ownership.NodesShard {
		return compile.Nodes(in.BuildNodeSnapshot(g.config))
	}
	w := in.BuildSnapshot(g.config, g.ports, now)
	if g.simulate {
		return compile.Simulate(*w)
	}
	return compile.Shard(w)
}

// renderText is what the case gives.
func (g *goldenCase) renderText(t *testing.T, objects []client.Object) string {
	t.Helper()
	in, verdicts := g.compile(objects)
	if err := in.Err(); err != nil {
		t.Error(err)
	}
	return printIntent(in, verdicts, g.shard, g.hide)
}

func (g *goldenCase) rewriteWant(t *testing.T, want string) {
	t.Helper()
	g.archive.Files = slices.DeleteFunc(g.archive.Files, func(f txtar.File) bool { return f.Name == "want" })
	g.archive.Files = append(g.archive.Files, txtar.File{Name: "want", Data: []byte(want)})
	if err := os.WriteFile(g.path, txtar.Format(g.archive), 0o644); err != nil {
		t.Fatal(err)
	}
}
