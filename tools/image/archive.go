package main

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// save writes an image as one file that both worlds read: it is an OCI layout (podman, containerd, skopeo) with the list that
// `docker load` and crane look for.
func save(image v1.Image, reference, path string) error {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".image-")
	if err != nil {
		return fmt.Errorf("make a place for the layout: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	target, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("write layout: %w", err)
	}
	// containerd takes the name from the first annotation, podman and skopeo from the second.
	annotations := map[string]string{"io.containerd.image.name": reference, "org.opencontainers.image.ref.name": reference}
	if err := target.AppendImage(image, layout.WithAnnotations(annotations)); err != nil {
		return fmt.Errorf("write layout: %w", err)
	}
	if err := writeDockerList(image, reference, filepath.Join(dir, "manifest.json")); err != nil {
		return err
	}
	return pack(dir, path)
}

func writeDockerList(image v1.Image, reference, path string) error {
	manifest, err := image.Manifest()
	if err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	blob := func(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }
	type entry struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	e := entry{Config: blob(manifest.Config.Digest), RepoTags: []string{reference}}
	for _, layer := range manifest.Layers {
		e.Layers = append(e.Layers, blob(layer.Digest))
	}
	raw, err := json.Marshal([]entry{e})
	if err != nil {
		return fmt.Errorf("write list: %w", err)
	}
	return os.WriteFile(path, raw, 0o600)
}

// pack makes an archive of a directory, without owners and times, and puts it in place when it is whole.
func pack(dir, path string) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".image-*.tar")
	if err != nil {
		return fmt.Errorf("make archive: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }()
	w := tar.NewWriter(file)
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error { // in the order of names
		if err != nil || d.IsDir() {
			return err
		}
		return packFile(w, dir, name)
	})
	if err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	if err := file.Chmod(0o644); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	return os.Rename(file.Name(), path)
}

func packFile(w *tar.Writer, dir, name string) error {
	inside, err := filepath.Rel(dir, name)
	if err != nil {
		return err
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	header := &tar.Header{Name: filepath.ToSlash(inside), Mode: 0o644, Size: info.Size(), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(w, file)
	return err
}
