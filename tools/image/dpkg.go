package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// debianPackage is a Debian package of the machine, and the files that are taken from it.
type debianPackage struct {
	name, version, architecture string
	source, sourceVersion       string
	files                       []string
}

// owners are the packages that files of the machine belong to, by name. A file that belongs to none is refused: nobody could say what it is.
func owners(files []file) ([]debianPackage, error) {
	byName, ask := map[string][]string{}, describe
	for _, f := range files {
		if f.from == "" {
			continue
		}
		name, err := f.deb, error(nil)
		if name == "" {
			name, err = owner(f.from)
		} else {
			ask = describeDeb
		}
		if err != nil {
			return nil, err
		}
		byName[name] = append(byName[name], f.name)
	}
	var out []debianPackage
	for name, files := range byName {
		p, err := ask(name)
		if err != nil {
			return nil, err
		}
		p.files = files
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b debianPackage) int { return strings.Compare(a.name, b.name) })
	return out, nil
}

// owner is the package that a file belongs to, such as libc6:amd64. Of two names of one directory, /lib and /usr/lib, dpkg knows the one that
// the package was made with.
func owner(path string) (string, error) {
	other := "/usr" + path
	if short, below := strings.CutPrefix(path, "/usr"); below {
		other = short
	}
	var stderr bytes.Buffer
	for _, name := range []string{path, other} {
		cmd := exec.Command("dpkg-query", "--search", name)
		cmd.Env, cmd.Stderr = []string{"LC_ALL=C"}, &stderr
		out, err := cmd.Output()
		owner, found, is := strings.Cut(strings.TrimSpace(string(out)), ": ")
		if err == nil && is && found == name {
			return owner, nil
		}
	}
	return "", fmt.Errorf("which Debian package has %s? dpkg says: %s", path, bytes.TrimSpace(stderr.Bytes()))
}

// describe asks dpkg for the versions of a package.
func describe(name string) (debianPackage, error) {
	const format = "${Package}\n${Version}\n${Architecture}\n${source:Package}\n${source:Version}\n"
	cmd := exec.Command("dpkg-query", "--show", "--showformat", format, name)
	cmd.Env = []string{"LC_ALL=C"}
	out, err := cmd.Output()
	fields := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || len(fields) != 5 {
		return debianPackage{}, fmt.Errorf("which version is %s? dpkg-query says %q: %w", name, out, err)
	}
	return debianPackage{name: fields[0], version: fields[1], architecture: fields[2], source: fields[3], sourceVersion: fields[4]}, nil
}

// licenseOf is the license of the packages whose programs we run. Those of libraries are in Debian's copyright files.
func licenseOf(name string) string {
	for _, p := range packages {
		if p.name == name {
			return p.license
		}
	}
	return ""
}

// besides is the file beside the image in which the bill of materials is.
func besides(image string) string {
	return strings.TrimSuffix(image, filepath.Ext(image)) + ".spdx.json"
}
