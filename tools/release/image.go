package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// repository is where the image is published; the chart's default is the same.
const repository = "ghcr.io/sallyport/sallyport"

func (r release) imageFile() string { return r.name("image.tar") }

// buildImage makes an image for each architecture, an index of them, and their bills of materials.
func (r release) buildImage(work string) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range architectures {
		file := filepath.Join(work, "image-"+arch+".tar")
		args := []string{"-C", filepath.Join(r.source, "tools/image"), "run", ".", "-arch", arch, "-out", file, "-version", r.version,
			"-with", "nft", "-debs", filepath.Join(r.debs, arch), "-reference", repository + ":" + r.version}
		for _, program := range programs {
			args = append(args, filepath.Join(work, arch, program))
		}
		cmd := exec.Command("go", args...)
		cmd.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.created.Unix()))
		if _, err := output(cmd); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(work, "image-"+arch+".spdx.json"), r.path(r.name("image_%s.spdx.json", arch))); err != nil {
			return err
		}
		image, err := openImage(file, filepath.Join(work, "layout-"+arch))
		if err != nil {
			return err
		}
		platform := &v1.Platform{OS: "linux", Architecture: arch}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	return r.writeIndex(index, filepath.Join(work, "layout"))
}

// writeIndex writes the index as an OCI layout in one file.
func (r release) writeIndex(index v1.ImageIndex, dir string) error {
	target, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("write layout: %w", err)
	}
	// containerd takes the name from the first annotation, podman and skopeo from the second.
	reference := repository + ":" + r.version
	annotations := map[string]string{"io.containerd.image.name": reference, "org.opencontainers.image.ref.name": reference}
	if err := target.AppendIndex(index, layout.WithAnnotations(annotations)); err != nil {
		return fmt.Errorf("write layout: %w", err)
	}
	return packDir(r.path(r.imageFile()), dir, r.created)
}

// openImage reads an archive that holds an OCI layout with one image.
func openImage(file, dir string) (v1.Image, error) {
	top, manifest, err := openLayout(file, dir)
	if err != nil {
		return nil, err
	}
	return top.Image(manifest.Digest)
}

// openIndex reads the image of a release.
func openIndex(file, dir string) (v1.ImageIndex, error) {
	top, manifest, err := openLayout(file, dir)
	if err != nil {
		return nil, err
	}
	return top.ImageIndex(manifest.Digest)
}

func openLayout(file, dir string) (v1.ImageIndex, *v1.Descriptor, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, err
	}
	if _, err := output(exec.Command("tar", "-xf", file, "-C", dir)); err != nil {
		return nil, nil, err
	}
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("read layout: %w", err)
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		return nil, nil, fmt.Errorf("read layout: %w", err)
	}
	if n := len(manifest.Manifests); n != 1 {
		return nil, nil, fmt.Errorf("%s has %d images, not one", file, n)
	}
	return top, &manifest.Manifests[0], nil
}

// digest is that of the index, by which the chart of the release names its image.
func (r release) digest(work string) (string, error) {
	index, err := openIndex(r.path(r.imageFile()), filepath.Join(work, "published"))
	if err != nil {
		return "", err
	}
	hash, err := index.Digest()
	return hash.String(), err
}
