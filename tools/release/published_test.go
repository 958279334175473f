package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// published is a release in a registry.
type published struct {
	release
	registry string
	pub      string // the public key
}

// TestPublished publishes the release that RELEASE names to a registry on loopback, and looks at it as a user gets it.
func TestPublished(t *testing.T) {
	p := publishRelease(t)
	t.Run("two platforms", p.platforms)
	t.Run("chart", p.chart)
	t.Run("signatures", p.signatures)
	t.Run("tampered", p.tampered)
	t.Run("checksums", p.checksums)
	t.Run("kustomize", p.kustomize)
	t.Run("programs", p.programs)
}

func publishRelease(t *testing.T) *published {
	t.Helper()
	p := &published{release: release{version: os.Getenv("VERSION"), out: os.Getenv("RELEASE"), helm: os.Getenv("HELM")}}
	if p.out == "" {
		t.Skip("RELEASE is not set; run make release-check")
	}
	p.signer = signer{program: os.Getenv("COSIGN"), key: os.Getenv("KEY")}
	p.pub = strings.TrimSuffix(p.signer.key, ".key") + ".pub"
	// Helm and cosign write to the home of whoever runs them
	t.Setenv("HOME", t.TempDir())
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)))) // HTTP/1.1
	t.Cleanup(server.Close)
	p.registry = strings.TrimPrefix(server.URL, "http://") + "/somebody"
	args := []string{"publish", "-version", p.version, "-out", p.out, "-helm", p.helm, "-cosign", p.signer.program,
		"-key", p.signer.key, "-registry", p.registry, "-plain-http"}
	if err := run(args); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *published) tag(t *testing.T, what string) name.Tag {
	t.Helper()
	tag, err := name.NewTag(p.registry+"/"+what+":"+p.version, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	return tag
}

// platforms checks that the registry has a whole image for each architecture, of programs for it.
func (p *published) platforms(t *testing.T) {
	for _, arch := range architectures {
		image, err := remote.Image(p.tag(t, "sallyport"), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil || config.Architecture != arch || config.Config.User != "65532:65532" {
			t.Errorf("the image for %s is for %s, of user %s: %v", arch, config.Architecture, config.Config.User, err)
		}
		if err := validate.Image(image); err != nil {
			t.Errorf("%s: %v", arch, err)
		}
		if n := len(config.RootFS.DiffIDs); n != len(programs)+2 {
			t.Errorf("%s: %d layers", arch, n)
		}
	}
	if _, err := remote.Image(p.tag(t, "sallyport"), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: "s390x"})); err == nil {
		t.Error("there is an image for s390x")
	}
}

// chart installs nothing: it renders what is in the registry, and compares it with the manifest of the release.
func (p *published) chart(t *testing.T) {
	dir := t.TempDir()
	url := "oci://" + p.registry + "/charts/sallyport"
	if out, err := exec.Command(p.helm, "pull", url, "--version", p.version, "--plain-http", "--destination", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !bytes.Equal(read(t, filepath.Join(dir, p.chartFile())), read(t, p.path(p.chartFile()))) {
		t.Error("the chart in the registry is another than that of the release")
	}
	rendered, err := output(exec.Command(p.helm, "template", "sallyport", url, "--version", p.version, "--plain-http", "--namespace", "kube-system"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(rendered, read(t, p.path("sallyport.yaml"))) {
		t.Error("the manifest is not what the chart in the registry renders to")
	}
	digest, err := remote.Head(p.tag(t, "sallyport"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "image: " + repository + "@" + digest.Digest.String(); !bytes.Contains(rendered, []byte(want)) {
		t.Errorf("the chart does not name %s", want)
	}
	if n := bytes.Count(rendered, []byte("\nkind: CustomResourceDefinition\n")); n < 5 {
		t.Errorf("the manifest has %d definitions", n)
	}
}

// verify asks cosign for the signature of an image or a chart by the test's key, or by another.
func (p *published) verify(reference, key string) error {
	cmd := exec.Command(p.signer.program, "verify", "--allow-http-registry", "--insecure-ignore-tlog", "--key", key, reference)
	_, err := output(cmd)
	return err
}

func (p *published) signatures(t *testing.T) {
	other := t.TempDir()
	cmd := exec.Command(p.signer.program, "generate-key-pair")
	cmd.Dir, cmd.Env = other, append(os.Environ(), "COSIGN_PASSWORD=")
	if _, err := output(cmd); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"sallyport", "charts/sallyport"} {
		if err := p.verify(p.tag(t, what).Name(), p.pub); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if err := p.verify(p.tag(t, what).Name(), filepath.Join(other, "cosign.pub")); err == nil {
			t.Errorf("%s is signed by another key, too", what)
		}
	}
}

// tampered puts another image at the tag of the release, as somebody would who can write to the registry.
func (p *published) tampered(t *testing.T) {
	tag := p.tag(t, "sallyport")
	index, err := remote.Index(tag)
	if err != nil {
		t.Fatal(err)
	}
	good, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	bad := mutate.Annotations(index, map[string]string{"changed": "yes"}).(v1.ImageIndex)
	if err := remote.WriteIndex(tag, bad); err != nil {
		t.Fatal(err)
	}
	if err := p.verify(tag.Name(), p.pub); err == nil {
		t.Error("a changed image is verified")
	} else {
		t.Logf("refused: %s", err)
	}
	// the chart names the digest, so it still gets what was signed
	if err := p.verify(tag.Context().Digest(good.String()).Name(), p.pub); err != nil {
		t.Errorf("by digest: %v", err)
	}
	// the signature of the good image, copied to the changed one
	changed, err := bad.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if copied := p.copySignature(t, tag.Context(), good, changed); !copied {
		t.Error("found no signature to copy")
	}
	// It is read, and refused because it is not about this image.
	if err := p.verify(tag.Name(), p.pub); err == nil || strings.Contains(err.Error(), "no signatures found") {
		t.Errorf("a changed image with the signature of another: %v", err)
	} else {
		t.Logf("refused: %s", err)
	}
}

// copySignature gives the index of signatures of one image to another.
func (p *published) copySignature(t *testing.T, repo name.Repository, from, to v1.Hash) bool {
	t.Helper()
	found := false
	for _, suffix := range []string{"", ".sig"} {
		source := repo.Tag(fmt.Sprintf("sha256-%s%s", from.Hex, suffix))
		got, err := remote.Get(source)
		if err != nil {
			continue
		}
		found = true
		if err := remote.Tag(repo.Tag(fmt.Sprintf("sha256-%s%s", to.Hex, suffix)), got); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// checksums are checked as users do, and those of changed files are seen. So is a change of the checksums.
func (p *published) checksums(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(p.out)); err != nil {
		t.Fatal(err)
	}
	check := func() error {
		cmd := exec.Command("sha256sum", "--check", "--strict", sumsFile)
		cmd.Dir = dir
		_, err := output(cmd)
		return err
	}
	signed := func() error {
		cmd := exec.Command(p.signer.program, "verify-blob", "--insecure-ignore-tlog", "--key", p.pub, "--bundle", sumsFile+".sigstore.json", sumsFile)
		cmd.Dir = dir
		_, err := output(cmd)
		return err
	}
	if err := check(); err != nil {
		t.Error(err)
	}
	if err := signed(); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	sums := string(read(t, filepath.Join(dir, sumsFile)))
	for _, e := range entries {
		if n := e.Name(); !strings.HasPrefix(n, sumsFile) && !strings.Contains(sums, "  "+n+"\n") {
			t.Errorf("%s has no checksum", n)
		}
	}
	for _, file := range []string{"sallyport.yaml", sumsFile} {
		path := filepath.Join(dir, file)
		if err := os.WriteFile(path, append(read(t, path), "# changed\n"...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if check() == nil {
		t.Error("a changed manifest is not seen")
	}
	if signed() == nil {
		t.Error("changed checksums are not seen")
	}
}

// kustomize builds the base, with kubectl where the lab has built one.
func (p *published) kustomize(t *testing.T) {
	dir := t.TempDir()
	if _, err := output(exec.Command("tar", "-xzf", p.path(p.name("kustomize.tar.gz")), "-C", dir)); err != nil {
		t.Fatal(err)
	}
	kubectl := os.Getenv("KUBECTL")
	if kubectl == "" {
		t.Skip("KUBECTL is not set")
	}
	out, err := output(exec.Command(kubectl, "kustomize", dir))
	if err != nil {
		t.Fatal(err)
	}
	want := kinds(read(t, filepath.Join(dir, "sallyport.yaml")))
	if got := kinds(out); len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("the base builds %v\nthe manifest has %v", got, want)
	}
}

// kinds are those of all objects of a manifest.
func kinds(manifest []byte) (out []string) {
	for line := range strings.Lines(string(manifest)) {
		if kind, is := strings.CutPrefix(line, "kind: "); is {
			out = append(out, strings.TrimSpace(kind))
		}
	}
	slices.Sort(out)
	return out
}

// programs says what the programs and the plugin are.
func (p *published) programs(t *testing.T) {
	dir := t.TempDir()
	krew := string(read(t, p.path("sallyport.krew.yaml")))
	for _, arch := range architectures {
		for _, program := range programs {
			archive := p.path(p.archiveOf(program, arch))
			if modes := listArchive(t, archive); modes[program] != 0o755 || modes["LICENSE"] != 0o644 {
				t.Errorf("%s has %v", archive, modes)
			}
		}
		hash, err := sum(p.path(p.archiveOf("sallyport", arch)))
		if err != nil || !strings.Contains(krew, hash) {
			t.Errorf("the plugin's manifest does not have %s: %v", hash, err)
		}
	}
	if _, err := output(exec.Command("tar", "-xzf", p.path(p.archiveOf("sallyport", "amd64")), "-C", dir)); err != nil {
		t.Fatal(err)
	}
	out, err := output(exec.Command(filepath.Join(dir, "sallyport"), "--version"))
	if err != nil || !strings.Contains(string(out), p.version) {
		t.Errorf("the program says of its version %q: %v", out, err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
