// Package golden is the golden tests of compile: Kubernetes objects in, intent and statuses out, as text. It is a
// package of its own because it needs the Kubernetes client, and fuzzing rebuilds compile with all imports of its
// tests.
package golden

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
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
	"github.com/sallyport/sallyport/internal/model/shard"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

var update = flag.Bool("update", false, "rewrite what the cases in testdata want")

// now is the time of every case.
var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// goldenCase is testdata/NAME.txtar: Kubernetes objects, and the resulting intent and statuses. Its comment says what
// it shows and ends with lines of settings:
//
//	shard NAME        the VPC, or the shard of NodePaths (default: acme-prod)
//	rehearse          compile until nothing changes, as if Kube-OVN had applied everything
//	once              compile the given state once
//	with FILE …       add objects of testdata/FILE.yaml; those of the case override them
//	ports NAME …      ports of the router in OVN (default: there is no router)
//	management TYPE   type of the network whose hosts pods of the management VPC can reach
//	quota FLAG N      a default limit, by the name of its flag
//	inside PREFIX …   the prefixes of pods and Services
//	podport NAME NAMESPACE/POD SUBNET ADDRESS …   a port of a pod in OVN on a switch of another project
//	isolation WORD    Enforce or Report (default: Enforce)
//	trusted NAME …    namespaces whose pods may be on any switch
//	attachments NAME … namespaces whose attachments all pods may use
//	hide KIND…        print only the number of entries that objects of these kinds asked for
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

// Cases are reviewed by people, so they are short.
func TestGoldenIsReadable(t *testing.T) {
	for _, g := range loadCases(t) {
		raw, err := os.ReadFile(g.path)
		if err != nil {
			t.Fatal(err)
		}
		if lines := bytes.Count(raw, []byte("\n")); lines > 85 {
			t.Errorf("%s has %d lines; show less, or make two cases of it", g.path, lines)
		}
	}
}

// Caches return lists in no particular order.
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

// Caches keep only the fields that are read.
func TestGoldenFromCache(t *testing.T) {
	for _, g := range loadCases(t) {
		want := g.renderText(t, g.objects)
		var trimmed []client.Object
		for _, o := range g.objects {
			kept, err := kube.TrimObject(o.DeepCopyObject())
			if err != nil {
				t.Fatal(err)
			}
			trimmed = append(trimmed, kept.(client.Object))
		}
		if got := g.renderText(t, trimmed); got != want {
			t.Errorf("%s reads fields that a cache does not keep:\n%s", g.name(),
				diff.Diff("whole objects", []byte(want), "trimmed", []byte(got)))
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

// configure reads the settings and the objects.
func (g *goldenCase) configure() error {
	words, settings, _ := strings.Cut(string(g.archive.Comment), "\n\n")
	if strings.TrimSpace(words) == "" || settings == "" {
		return fmt.Errorf("it needs a description, an empty line, and settings")
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

// applySetting applies one setting.
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

// readShared reads manifests that several cases use.
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

// setQuota applies a setting about quotas, by the name of its flag.
func (g *goldenCase) setQuota(flag, value string) error {
	return map[string]*snapshot.Limit{
		"default-eip-quota": &g.config.Quotas.EIps, "organization-eip-quota": &g.config.Quotas.OrganizationEIps,
		"organization-project-quota": &g.config.Quotas.OrganizationProjects,
	}[flag].Set(value)
}

// setIsolation applies a setting about misplaced pods.
func (g *goldenCase) setIsolation(setting string, words []string) error {
	switch setting {
	case "podport":
		namespace, pod, _ := strings.Cut(words[1], "/")
		var addresses []netip.Addr
		for _, word := range words[3:] {
			addresses = append(addresses, netip.MustParseAddr(word))
		}
		g.podPorts = append(g.podPorts, snapshot.PodPort{
			Name:      words[0],
			Namespace: namespace,
			Pod:       pod,
			Subnet:    words[2],
			Addresses: addresses,
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

// decodeObjects decodes objects. Unknown fields are errors.
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

// addObject adds an object and replaces an earlier one of the same name.
func (g *goldenCase) addObject(object client.Object) {
	key, _ := kube.KeyOf(object)
	g.objects = slices.DeleteFunc(g.objects, func(o client.Object) bool {
		other, _ := kube.KeyOf(o)
		return other == key
	})
	g.objects = append(g.objects, object)
}

func (g *goldenCase) readInputs(objects []client.Object) *kube.Inputs {
	in := kube.NewInputs(shard.Named(g.shard))
	in.AddMisplacedPorts(g.podPorts)
	in.AddAll(objects)
	return in
}

// buildSnapshot returns the snapshot of a case about a VPC.
func (g *goldenCase) buildSnapshot(objects []client.Object) *snapshot.VpcInput {
	return g.readInputs(objects).BuildSnapshot(g.config, g.ports, now)
}

func (g *goldenCase) compile(objects []client.Object) (*intent.Intent, []intent.Verdict) {
	if g.shard == ownership.NodesShard {
		return compile.Nodes(g.readInputs(objects).BuildNodeSnapshot(g.config))
	}
	return g.compileVPC(g.buildSnapshot(objects))
}

func (g *goldenCase) compileVPC(w *snapshot.VpcInput) (*intent.Intent, []intent.Verdict) {
	if g.simulate {
		return compile.Simulate(*w)
	}
	return compile.Shard(w)
}

// renderText returns the text of a compiled case.
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
