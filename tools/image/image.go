package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is not root and is in no file of the image: Kubernetes can check a number (runAsNonRoot), not a name.
const user = "65532:65532"

// search is where programs are looked up: ours in the root directory, those of the system where Debian has them.
const search = "/:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// recipe is everything that the image depends on.
type recipe struct {
	binaries []string // static programs; the first is what the image runs
	system   []file   // programs of the machine, with their libraries
	labels   map[string]string
	version  string
	created  time.Time
	plain    bool   // layers are not compressed
	arch     string // as Go names it
}

// file is a file of the machine, and what it is in the image.
type file struct {
	name    string // an absolute path
	from    string // nothing for a directory, and for a file that is made here
	deb     string // the Debian package that it was unpacked from; nothing if it is installed on the machine
	content []byte // of a file that is made here
	mode    int64
}

// build makes an image of the binaries, in the root directory, of what comes from the machine, at the same paths as there, and of the bill of
// materials. The same files give the same digest.
func build(r recipe, sbom []byte) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	layers := [][]file{}
	if len(r.system) > 0 {
		layers = append(layers, r.system) // lowest: it is the same in many versions
	}
	for _, from := range r.binaries {
		layers = append(layers, []file{{name: "/" + filepath.Base(from), from: from, mode: 0o755}})
	}
	layers = append(layers, []file{{name: sbomPath, content: sbom, mode: 0o644}})
	for _, files := range layers {
		layer, err := layerOf(files, r.created, r.plain)
		if err != nil {
			return nil, err
		}
		history := v1.History{CreatedBy: "copy " + names(files), Created: v1.Time{Time: r.created}}
		if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: history}); err != nil {
			return nil, fmt.Errorf("add %s: %w", names(files), err)
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the image's configuration: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", r.arch
	config.Created = v1.Time{Time: r.created}
	config.Config = v1.Config{
		User:       user,
		WorkingDir: "/",
		Env:        []string{"PATH=" + search},
		Entrypoint: []string{"/" + filepath.Base(r.binaries[0])},
		Labels:     r.labels,
	}
	return mutate.ConfigFile(image, config)
}

func names(files []file) string {
	var out []string
	for _, f := range files {
		out = append(out, f.name)
	}
	return strings.Join(out, " ")
}

// layerOf is a layer with some files and their directories, in the order of names, owned by root so that no program can change itself.
func layerOf(files []file, created time.Time, plain bool) (v1.Layer, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	all := append(directories(files), files...)
	slices.SortFunc(all, func(a, b file) int { return strings.Compare(a.name, b.name) })
	for _, f := range all {
		if err := f.write(w, created); err != nil {
			return nil, fmt.Errorf("archive %s: %w", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("archive %s: %w", names(files), err)
	}
	if plain {
		return static.NewLayer(archive.Bytes(), types.OCIUncompressedLayer), nil
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil }
	return tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer))
}

// directories are all above the files.
func directories(files []file) []file {
	out := map[string]file{}
	for _, f := range files {
		for d := filepath.Dir(f.name); d != "/"; d = filepath.Dir(d) {
			out[d] = file{name: d, mode: 0o755}
		}
	}
	return slices.Collect(maps.Values(out))
}

// write puts a file into an archive; of a link, what it leads to.
func (f file) write(w *tar.Writer, created time.Time) error {
	header := &tar.Header{Name: f.name[1:], Mode: f.mode, ModTime: created, Format: tar.FormatPAX}
	if f.from == "" && f.content == nil {
		header.Typeflag, header.Name = tar.TypeDir, header.Name+"/"
		return w.WriteHeader(header)
	}
	content, err := f.read()
	if err != nil {
		return err
	}
	header.Size = int64(len(content))
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}

func (f file) read() ([]byte, error) {
	if f.content != nil {
		return f.content, nil
	}
	return os.ReadFile(f.from)
}
