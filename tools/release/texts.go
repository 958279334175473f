package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// downloads is where the files of a version are.
const downloads = "https://github.com/sallyport/sallyport/releases/download/v"

// buildKrew writes the manifest by which `kubectl krew` installs the CLI as `kubectl sallyport`.
func (r release) buildKrew(string) error {
	var out strings.Builder
	fmt.Fprintf(&out, `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: sallyport
spec:
  version: v%s
  homepage: https://github.com/sallyport/sallyport
  shortDescription: Explain external addresses of tenants on Kube-OVN
  description: |
    Shows the state of Sallyport, finds what is wrong with external addresses, load balancers and egress of a cluster on
    Kube-OVN, and traces packets through them. Reads the cluster; changes nothing but Inspections, which query nodes.
  platforms:
`, r.version)
	for _, arch := range architectures {
		archive := r.archiveOf("sallyport", arch)
		hash, err := sum(r.path(archive))
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, `    - selector: {matchLabels: {os: linux, arch: %s}}
      uri: %s%s/%s
      sha256: %s
      bin: sallyport
`, arch, downloads, r.version, archive, hash)
	}
	return os.WriteFile(r.path("sallyport.krew.yaml"), []byte(out.String()), 0o644)
}

// buildNotes writes the part of the changelog that is about this version.
func (r release) buildNotes(string) error {
	raw, err := os.ReadFile(filepath.Join(r.source, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	text, err := notes(string(raw), r.version)
	if err != nil {
		return err
	}
	return os.WriteFile(r.path("RELEASE_NOTES.md"), []byte(text), 0o644)
}

// notes cuts the section of a version out of a changelog. A pre-release has none of its own: its changes are not released yet.
func notes(changelog, version string) (string, error) {
	heading := version
	if strings.Contains(version, "-") {
		heading = "Unreleased"
	}
	var out strings.Builder
	inside := false
	for line := range strings.Lines(changelog) {
		if rest, is := strings.CutPrefix(line, "## ["); is {
			name, _, _ := strings.Cut(rest, "]")
			inside = name == heading
			continue
		}
		if inside {
			out.WriteString(line)
		}
	}
	text := strings.TrimSpace(out.String())
	if text == "" {
		return "", fmt.Errorf("CHANGELOG.md has no section [%s], or an empty one", heading)
	}
	return "# Sallyport " + version + "\n\n" + text + "\n", nil
}
