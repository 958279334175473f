package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

func (r release) chartFile() string { return "sallyport-" + r.version + ".tgz" }

// unpinned is the line of the chart's values that the chart of a release has with the image's digest.
const unpinned = "\n  digest: \"\" #"

// kustomization is the base: patches and other images are its users' matter.
const kustomization = `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [sallyport.yaml]
`

// buildChart packs the chart with the version and the digest of the image: nobody who writes to a registry can give it another one.
func (r release) buildChart(work string) error {
	dir := filepath.Join(work, "sallyport")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(r.source, "charts/sallyport"))); err != nil {
		return err
	}
	digest, err := r.digest(work)
	if err != nil {
		return err
	}
	values := filepath.Join(dir, "values.yaml")
	raw, err := os.ReadFile(values)
	if err != nil {
		return err
	}
	if n := bytes.Count(raw, []byte(unpinned)); n != 1 {
		return fmt.Errorf("values.yaml has %d lines for the digest of the image, not one", n)
	}
	raw = bytes.Replace(raw, []byte(unpinned), []byte("\n  digest: "+digest+" #"), 1)
	if err := os.WriteFile(values, raw, 0o644); err != nil {
		return err
	}
	// Helm keeps the times of files; the same source is to give the same archive.
	if err := setTimes(dir, r.created); err != nil {
		return err
	}
	_, err = output(exec.Command(r.helm, "package", dir, "--version", r.version, "--app-version", r.version, "--destination", r.out))
	return err
}

// buildManifests renders the chart as one manifest, and packs that as a base for Kustomize.
func (r release) buildManifests(work string) error {
	rendered, err := output(exec.Command(r.helm, "template", "sallyport", r.path(r.chartFile()), "--namespace", "kube-system"))
	if err != nil {
		return err
	}
	manifest, base := r.path("sallyport.yaml"), filepath.Join(work, "kustomization.yaml")
	if err := os.WriteFile(manifest, rendered, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(base, []byte(kustomization), 0o644); err != nil {
		return err
	}
	files := map[string]string{"kustomization.yaml": base, "sallyport.yaml": manifest}
	return pack(r.path(r.name("kustomize.tar.gz")), files, r.created)
}
