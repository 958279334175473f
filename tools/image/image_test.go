package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const reference = "example.com/sallyport:test"

// archive is the image that `make image` made, or else one of a small program and nft.
func archive(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("IMAGE"); path != "" {
		return path
	}
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := run([]string{"-out", path, "-reference", reference, "-version", "v1", "-with", "nft", program(t)}); err != nil {
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

// unpacked is an image, and a directory with its files. It takes a while to get there.
type unpacked struct {
	config *v1.ConfigFile
	root   string
	beside string // the bill of materials beside the image
}

func TestImage(t *testing.T) {
	path := archive(t)
	image := unpack(t, path)
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	u := unpacked{config: config, root: extract(t, image), beside: besides(path)}
	t.Run("configuration", u.configuration)
	t.Run("our programs", u.ourPrograms)
	t.Run("nothing is missing", u.nothingIsMissing)
	t.Run("nft runs", u.nftRuns)
	t.Run("bill of materials", u.billOfMaterials)
}

// Kubernetes can run it as somebody else than root, and it says what it is.
func (u unpacked) configuration(t *testing.T) {
	config := u.config
	if config.Config.User != "65532:65532" || len(config.Config.Entrypoint) != 1 || config.OS != "linux" || config.Architecture != "amd64" {
		t.Errorf("user %q runs %q on %s/%s", config.Config.User, config.Config.Entrypoint, config.OS, config.Architecture)
	}
	for _, label := range []string{"title", "description", "source", "licenses", "version"} {
		if config.Config.Labels["org.opencontainers.image."+label] == "" {
			t.Errorf("the label %s is missing", label)
		}
	}
}

// What lies in the root directory are our programs, static and one a layer, and the one that the image runs works. All else is one layer.
func (u unpacked) ourPrograms(t *testing.T) {
	ours := 0
	for name, program := range binaries(t, u.root) {
		if program.Machine != elf.EM_X86_64 {
			t.Errorf("%s is for %s, the image for amd64", name, program.Machine)
		}
		if filepath.Dir(name) != "/" {
			continue
		}
		ours++
		if libraries, _ := program.ImportedLibraries(); len(libraries) > 0 || program.Section(".interp") != nil {
			t.Errorf("%s is not static: it needs a loader, and %v", name, libraries)
		}
	}
	if layers := len(u.config.RootFS.DiffIDs); layers != ours+2 {
		t.Errorf("%d programs are in %d layers; nft with its libraries and the bill of materials are two more", ours, layers)
	}
	entrypoint := u.config.Config.Entrypoint[0]
	out, err := exec.Command(filepath.Join(u.root, entrypoint), "--help").CombinedOutput()
	if err != nil || !bytes.Contains(bytes.ToLower(out), []byte("usage")) {
		t.Errorf("%s --help: %v\n%s", entrypoint, err, out)
	}
}

// binaries are all files of an image but the bill of materials, by their paths in it. There is none that is not a program or a library.
func binaries(t *testing.T, root string) map[string]*elf.File {
	t.Helper()
	out := map[string]*elf.File{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, root)
		if name == sbomPath {
			return nil
		}
		if out[name], err = elf.Open(path); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		t.Cleanup(func() { _ = out[name].Close() })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// extract writes the image's files into a directory.
func extract(t *testing.T, image v1.Image) string {
	t.Helper()
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range layers {
		raw, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		extractLayer(t, tar.NewReader(raw), root, config.Created.Time)
		_ = raw.Close()
	}
	return root
}

// extractLayer checks that a layer has plain files and directories of root's, in order and of one time, and nothing that others may write.
func extractLayer(t *testing.T, r *tar.Reader, root string, created time.Time) {
	t.Helper()
	for before := ""; ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		mode := fs.FileMode(header.Mode)
		if mode != 0o755 && (mode != 0o644 || header.Typeflag == tar.TypeDir) || header.Uid != 0 || header.Gid != 0 {
			t.Errorf("%s has mode %o and owner %d:%d", header.Name, mode, header.Uid, header.Gid)
		}
		if header.Name <= before || !header.ModTime.Equal(created) {
			t.Errorf("%s, of %s, comes after %s; the image is of %s", header.Name, header.ModTime, before, created)
		}
		before = header.Name
		path := filepath.Join(root, header.Name)
		switch header.Typeflag {
		case tar.TypeDir:
			err = os.Mkdir(path, mode)
		case tar.TypeReg:
			err = writeAll(path, r, mode)
		default:
			err = fmt.Errorf("%s is neither file nor directory", header.Name)
		}
		if err := errors.Join(err, os.Chmod(path, mode)); err != nil { // whatever the umask is
			t.Fatal(err)
		}
	}
}

func writeAll(path string, r io.Reader, mode fs.FileMode) error {
	content, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, mode)
}

// The same programs give the same image, byte for byte; a changed one gives another.
func TestSameInputSameImage(t *testing.T) {
	first, second := filepath.Join(t.TempDir(), "image.tar"), filepath.Join(t.TempDir(), "image.tar")
	binary := program(t)
	for _, path := range []string{first, second} {
		if err := run([]string{"-out", path, "-reference", reference, "-with", "nft", binary}); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", "/sbin:"+os.Getenv("PATH")) // another name of the directory that nft is in
		binary = again(t, binary)
	}
	if !bytes.Equal(read(t, first), read(t, second)) || !bytes.Equal(read(t, besides(first)), read(t, besides(second))) {
		t.Error("two builds of the same program differ")
	}
	if err := os.WriteFile(binary, append(read(t, binary), "another program"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"-out", second, "-reference", reference, "-with", "nft", binary}); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(read(t, first), read(t, second)) {
		t.Error("another program gave the same image")
	}
}

// Without compression it is the same image: the same files, in layers that are their own archives.
func TestUncompressedImage(t *testing.T) {
	diffs := map[bool][]v1.Hash{}
	for _, plain := range []bool{false, true} {
		image, err := build(recipe{binaries: []string{program(t)}, version: "v1", created: time.Unix(0, 0), plain: plain}, []byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := image.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		diffs[plain] = config.RootFS.DiffIDs
		for i, layer := range manifest.Layers {
			is := layer.Digest == config.RootFS.DiffIDs[i]
			if is != plain || is != (layer.MediaType == types.OCIUncompressedLayer) {
				t.Errorf("-uncompressed=%t: layer %d is not compressed: %t, and is called %s", plain, i, is, layer.MediaType)
			}
		}
	}
	if !slices.Equal(diffs[false], diffs[true]) {
		t.Errorf("compressed, the image has the files %v, uncompressed %v", diffs[false], diffs[true])
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
