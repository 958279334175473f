// Package golden is compile by example: Kubernetes objects in, what we want and say of them out, as text. It is apart from
// compile because what is fuzzed there is built anew for it, and this needs the Kubernetes client.
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
	"github.com/sallyport/sallyport/internal/intent"
	"github.com/sallyport/sallyport/internal/kube"
	"github.com/sallyport/sallyport/internal/ownership"
	"github.com/sallyport/sallyport/internal/snapshot"
)

var update = flag.Bool("update", false, "rewrite what the cases in testdata want")

// now is when every case happens.
var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// golden is testdata/NAME.txtar: Kubernetes objects in, and what we want and say of them. Its comment tells in words what it
// shows and ends with lines of settings:
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
type golden struct {
	path    string
	archive *txtar.Archive

	shard    string
	config   snapshot.Config
	hide     []string
	rehearse bool
	ports    []string
	pods     []snapshot.PodPort
	objects  []client.Object
}

func TestGolden(t *testing.T) {
	for _, g := range goldens(t) {
		t.Run(g.name(), func(t *testing.T) {
			got, want := g.text(t, g.objects), g.file("want")
			if got == want {
				return
			}
			if !*update {
				t.Fatalf("differs (make golden rewrites it):\n%s", diff.Diff("wanted", []byte(want), "got", []byte(got)))
			}
			g.rewrite(t, got)
		})
	}
}

// A case is read by people.
func TestGoldenIsReadable(t *testing.T) {
	for _, g := range goldens(t) {
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
	for _, g := range goldens(t) {
		want := g.text(t, g.objects)
		for range 20 {
			shuffled := slices.Clone(g.objects)
			chance.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			if got := g.text(t, shuffled); got != want {
				t.Errorf("%s depends on the order of its objects:\n%s", g.name(), diff.Diff("in order", []byte(want), "shuffled", []byte(got)))
				break
			}
		}
	}
}

func goldens(t *testing.T) []*golden {
	t.Helper()
	paths, err := filepath.Glob("../testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases in testdata: %v", err)
	}
	out := make([]*golden, 0, len(paths))
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		g := &golden{path: path, archive: archive, shard: "acme-prod"}
		if err := g.configure(); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out = append(out, g)
	}
	return out
}

func (g *golden) name() string { return strings.TrimSuffix(filepath.Base(g.path), ".txtar") }

func (g *golden) file(name string) string {
	for _, f := range g.archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

// configure reads the settings, and the objects.
func (g *golden) configure() error {
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
			g.rehearse = fields[0] == "rehearse"
			modes++
		case "with":
			shared, err := readShared(fields[1:])
			if err != nil {
				return err
			}
			inputs = append(inputs, shared...)
		default:
			if err := g.set(fields[0], fields[1:]); err != nil {
				return err
			}
		}
	}
	if modes != 1 {
		return fmt.Errorf("say either rehearse or once")
	}
	return g.read(append(inputs, g.file("input.yaml"))...)
}

// set carries out one setting.
func (g *golden) set(setting string, words []string) error {
	switch setting {
	case "shard":
		g.shard = words[0]
	case "management":
		g.config.ManagementNetwork = words[0]
	case "hide":
		g.hide = words
	case "ports":
		g.ports = words
	case "quota":
		return g.limit(words[0], words[1])
	case "inside":
		return g.config.Inside.Set(strings.Join(words, ","))
	case "podport", "isolation", "trusted", "attachments":
		return g.isolate(setting, words)
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

// limit reads a setting about quotas, by the name of its flag.
func (g *golden) limit(flag, value string) error {
	return map[string]*snapshot.Limit{
		"default-eip-quota": &g.config.Quotas.EIps, "organization-eip-quota": &g.config.Quotas.OrganizationEIps,
		"organization-project-quota": &g.config.Quotas.OrganizationProjects,
	}[flag].Set(value)
}

// isolate reads a setting about pods that are where they do not belong.
func (g *golden) isolate(setting string, words []string) error {
	switch setting {
	case "podport":
		namespace, pod, _ := strings.Cut(words[1], "/")
		g.pods = append(g.pods, snapshot.PodPort{Name: words[0], Namespace: namespace, Pod: pod, Subnet: words[2]})
		return nil
	case "trusted":
		return g.config.Trusted.Set(strings.Join(words, ","))
	case "attachments":
		return g.config.Attachments.Set(strings.Join(words, ","))
	default:
		return g.config.Isolation.Set(words[0])
	}
}

// read decodes objects; a field that we do not know is a mistake in the case.
func (g *golden) read(texts ...string) error {
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
			kube.Claim(object.(client.Object))
			g.add(object.(client.Object))
		}
	}
	return nil
}

// add adds an object, instead of one of the same name that came before.
func (g *golden) add(object client.Object) {
	key, _ := kube.KeyOf(object)
	g.objects = slices.DeleteFunc(g.objects, func(o client.Object) bool {
		other, _ := kube.KeyOf(o)
		return other == key
	})
	g.objects = append(g.objects, object)
}

func (g *golden) compile(objects []client.Object) (*intent.Intent, []intent.Verdict) {
	in := kube.NewInputs(g.shard)
	in.AddPorts(g.pods)
	in.AddAll(objects)
	if g.shard == ownership.NodesShard {
		return compile.Nodes(in.Nodes(g.config))
	}
	w := in.World(g.config, g.ports, now)
	if g.rehearse {
		return compile.Rehearse(*w)
	}
	return compile.Shard(w)
}

// text is what the case gives.
func (g *golden) text(t *testing.T, objects []client.Object) string {
	t.Helper()
	in, verdicts := g.compile(objects)
	if err := in.Err(); err != nil {
		t.Error(err)
	}
	return printed(in, verdicts, g.shard, g.hide)
}

func (g *golden) rewrite(t *testing.T, want string) {
	t.Helper()
	g.archive.Files = slices.DeleteFunc(g.archive.Files, func(f txtar.File) bool { return f.Name == "want" })
	g.archive.Files = append(g.archive.Files, txtar.File{Name: "want", Data: []byte(want)})
	if err := os.WriteFile(g.path, txtar.Format(g.archive), 0o644); err != nil {
		t.Fatal(err)
	}
}
