package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const reference = "example.com/sallyport:test"

// archive is the image that `make image` made, or else one of a small program.
func archive(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("IMAGE"); path != "" {
		return path
	}
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := run([]string{"-out", path, "-reference", reference, "-version", "v1", program(t)}); err != nil {
		t.Fatal(err)
	}
	return path
}

// program builds a program as the Makefile builds ours.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hello")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", path, "testdata/hello.go")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// unpack opens an archive in both ways in which others do, and checks that it is the same image.
func unpack(t *testing.T, path string) v1.Image {
	t.Helper()
	docker, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		t.Fatalf("as docker load sees it: %v", err)
	}
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-xf", path, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatalf("as OCI layout: %v", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("the layout should have one image: %v, %v", manifest, err)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	for what, i := range map[string]v1.Image{"docker": docker, "OCI": image} {
		if err := validate.Image(i); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	one, _ := docker.ConfigName()
	two, _ := image.ConfigName()
	if one != two {
		t.Errorf("docker would see the image %s, others %s", one, two)
	}
	return image
}

// Kubernetes can run it as somebody else than root, and it says what it is.
func TestConfiguration(t *testing.T) {
	config, err := unpack(t, archive(t)).ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" || len(config.Config.Entrypoint) != 1 || config.OS != "linux" || config.Architecture != "amd64" {
		t.Errorf("user %q runs %q on %s/%s", config.Config.User, config.Config.Entrypoint, config.OS, config.Architecture)
	}
	for _, label := range []string{"title", "description", "source", "licenses", "version"} {
		if config.Config.Labels["org.opencontainers.image."+label] == "" {
			t.Errorf("the label %s is missing", label)
		}
	}
}

// The layers have nothing but static programs, and the one that the image runs works.
func TestProgramRuns(t *testing.T) {
	image := unpack(t, archive(t))
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	root := extract(t, image)
	files, err := filepath.Glob(filepath.Join(root, "*"))
	if err != nil || len(files) != len(config.RootFS.DiffIDs) {
		t.Fatalf("%d layers have the files %v, %v", len(config.RootFS.DiffIDs), files, err)
	}
	for _, file := range files {
		program, err := elf.Open(file)
		if err != nil {
			t.Fatalf("%s: %v", filepath.Base(file), err)
		}
		if libraries, _ := program.ImportedLibraries(); len(libraries) > 0 {
			t.Errorf("%s needs %v, which the image does not have", filepath.Base(file), libraries)
		}
		if program.Machine != elf.EM_X86_64 {
			t.Errorf("%s is for %s, the image for amd64", filepath.Base(file), program.Machine)
		}
		_ = program.Close()
	}
	out, err := exec.Command(filepath.Join(root, config.Config.Entrypoint[0]), "--help").CombinedOutput()
	if err != nil || !bytes.Contains(bytes.ToLower(out), []byte("usage")) {
		t.Errorf("%s --help: %v\n%s", config.Config.Entrypoint[0], err, out)
	}
}

// extract writes the image's files into a directory.
func extract(t *testing.T, image v1.Image) string {
	t.Helper()
	root := t.TempDir()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range layers {
		raw, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		extractLayer(t, tar.NewReader(raw), root)
		_ = raw.Close()
	}
	return root
}

func extractLayer(t *testing.T, r *tar.Reader, root string) {
	t.Helper()
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Mode != 0o755 || header.Uid != 0 || strings.Contains(header.Name, "/") {
			t.Errorf("%s has mode %o and owner %d", header.Name, header.Mode, header.Uid)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, header.Name), content, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

// The same programs give the same image, byte for byte; a changed one gives another.
func TestSameInputSameImage(t *testing.T) {
	first, second := filepath.Join(t.TempDir(), "image.tar"), filepath.Join(t.TempDir(), "image.tar")
	binary := program(t)
	for _, path := range []string{first, second} {
		if err := run([]string{"-out", path, "-reference", reference, binary}); err != nil {
			t.Fatal(err)
		}
		binary = again(t, binary)
	}
	if !bytes.Equal(read(t, first), read(t, second)) {
		t.Error("two builds of the same program differ")
	}
	if err := os.WriteFile(binary, []byte("another program"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"-out", second, "-reference", reference, binary}); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(read(t, first), read(t, second)) {
		t.Error("another program gave the same image")
	}
}

// again is a copy of a file in another place, written at another time.
func again(t *testing.T, path string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), filepath.Base(path))
	if err := os.WriteFile(out, read(t, path), 0o600); err != nil {
		t.Fatal(err)
	}
	return out
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestMistakesAreNamed(t *testing.T) {
	for words, args := range map[string][]string{
		"name the programs": {"-out", "x.tar"},
		"no-such-program":   {"-out", "x.tar", "no-such-program"},
	} {
		if err := run(args); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("image %v: %v; wanted %q", args, err, words)
		}
	}
	if _, err := sourceDate("yesterday"); err == nil {
		t.Error("SOURCE_DATE_EPOCH=yesterday was taken")
	}
}
