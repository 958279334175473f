package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is not root and is in no file of the image: Kubernetes can check a number (runAsNonRoot), not a name.
const user = "65532:65532"

// recipe is everything that the image depends on.
type recipe struct {
	binaries []string // files; the first is what the image runs
	labels   map[string]string
	created  time.Time
}

// build makes an image with nothing in it but the binaries, in the root directory. The same files give the same digest.
func build(r recipe) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, path := range r.binaries {
		layer, err := layerOf(path, r.created)
		if err != nil {
			return nil, err
		}
		history := v1.History{CreatedBy: "copy /" + filepath.Base(path), Created: v1.Time{Time: r.created}}
		if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: history}); err != nil {
			return nil, fmt.Errorf("add %s: %w", path, err)
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the image's configuration: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", "amd64"
	config.Created = v1.Time{Time: r.created}
	config.Config = v1.Config{
		User:       user,
		WorkingDir: "/",
		Env:        []string{"PATH=/"},
		Entrypoint: []string{"/" + filepath.Base(r.binaries[0])},
		Labels:     r.labels,
	}
	return mutate.ConfigFile(image, config)
}

// layerOf is a layer with one program, owned by root so that it can't change itself.
func layerOf(path string, created time.Time) (v1.Layer, error) {
	program, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read program: %w", err)
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	header := &tar.Header{Name: filepath.Base(path), Mode: 0o755, Size: int64(len(program)), ModTime: created, Format: tar.FormatPAX}
	if err := w.WriteHeader(header); err != nil {
		return nil, fmt.Errorf("archive %s: %w", path, err)
	}
	if _, err := w.Write(program); err != nil {
		return nil, fmt.Errorf("archive %s: %w", path, err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("archive %s: %w", path, err)
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil }
	return tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer))
}
