package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// platform is the architecture of an image, by the names of Go, Debian and ELF.
type platform struct {
	goName, triplet, loader string
	machine                 elf.Machine
}

// platforms are those that images can be made for. Debian calls both as Go does.
var platforms = []platform{
	{goName: "amd64", triplet: "x86_64-linux-gnu", loader: "/lib64/ld-linux-x86-64.so.2", machine: elf.EM_X86_64},
	{goName: "arm64", triplet: "aarch64-linux-gnu", loader: "/lib/ld-linux-aarch64.so.1", machine: elf.EM_AARCH64},
}

func platformOf(name string) (platform, error) {
	for _, p := range platforms {
		if p.goName == name {
			return p, nil
		}
	}
	return platform{}, fmt.Errorf("no images are made for the architecture %q", name)
}

// tree is a set of Debian packages, unpacked each into a directory of its own. Nothing in it is executed, so it may be of another architecture.
type tree struct {
	platform platform
	packages []unpackedDeb
}

type unpackedDeb struct{ deb, dir string }

// maxLinks is how many links a name may lead through: a loop must end.
const maxLinks = 16

// unpackDebs unpacks all Debian packages of a directory below another.
func unpackDebs(debs, below string, p platform) (tree, error) {
	paths, err := filepath.Glob(filepath.Join(debs, "*.deb"))
	if err != nil {
		return tree{}, err
	}
	if len(paths) == 0 {
		return tree{}, fmt.Errorf("no Debian packages in %s", debs)
	}
	out := tree{platform: p}
	for _, path := range paths {
		dir := filepath.Join(below, filepath.Base(path))
		if text, err := exec.Command("dpkg-deb", "--extract", path, dir).CombinedOutput(); err != nil {
			return tree{}, fmt.Errorf("unpack %s: %w: %s", path, err, bytes.TrimSpace(text))
		}
		out.packages = append(out.packages, unpackedDeb{deb: path, dir: dir})
	}
	return out, nil
}

// files are the programs, with the loader and the libraries that they name and those name in turn.
func (t tree) files(programs system) ([]file, error) {
	var queue []string
	for _, name := range programs {
		queue = append(queue, name)
	}
	found := map[string]file{}
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		if _, done := found[name]; done {
			continue
		}
		f, err := t.find(name, slices.Contains(programs, name))
		if err != nil {
			return nil, err
		}
		found[name] = f
		libraries, err := t.libraries(f.from)
		if err != nil {
			return nil, fmt.Errorf("what %s needs: %w", f.name, err)
		}
		queue = append(queue, libraries...)
	}
	out := slices.Collect(maps.Values(found))
	slices.SortFunc(out, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return out, nil
}

// libraries are the names of what a program or a library needs, the loader among them.
func (t tree) libraries(path string) ([]string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.Machine != t.platform.machine {
		return nil, fmt.Errorf("it is for %s, the image for %s", f.Machine, t.platform.goName)
	}
	out, err := f.ImportedLibraries()
	if err != nil {
		return nil, err
	}
	switch loader, err := interpreter(path); {
	case err != nil:
		return nil, err
	case loader == "":
		return out, nil
	case loader != t.platform.loader:
		return nil, fmt.Errorf("its loader is %q, that of %s %s", loader, t.platform.goName, t.platform.loader)
	}
	return append(out, filepath.Base(t.platform.loader)), nil
}

// find looks a name up where the kernel and the loader do, without a cache of the loader and without a path of the caller.
func (t tree) find(name string, program bool) (file, error) {
	dirs := []string{"/lib/" + t.platform.triplet, "/usr/lib/" + t.platform.triplet, "/lib", "/usr/lib"}
	mode := int64(0o644)
	switch {
	case name == filepath.Base(t.platform.loader):
		dirs, mode = []string{filepath.Dir(t.platform.loader)}, 0o755
	case program:
		dirs, mode = []string{"/usr/sbin", "/usr/bin", "/sbin", "/bin"}, 0o755
	}
	for _, dir := range dirs {
		for _, p := range t.packages {
			path := filepath.Join(dir, name)
			switch real, err := p.resolve(path); {
			case err == nil:
				return file{name: path, from: real, deb: p.deb, mode: mode}, nil
			case !errors.Is(err, fs.ErrNotExist):
				return file{}, err
			}
		}
	}
	return file{}, fmt.Errorf("no package for %s has %s in %s", t.platform.goName, name, strings.Join(dirs, ", "))
}

// resolve follows the links of an unpacked file. What a link leads to is in the same package: / is the package's directory, and nothing above
// it can be reached.
func (p unpackedDeb) resolve(path string) (string, error) {
	for range maxLinks {
		real := filepath.Join(p.dir, filepath.Join("/", path))
		info, err := os.Lstat(real)
		if err != nil {
			return "", err
		}
		if info.Mode().IsRegular() {
			return real, nil
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			return "", fmt.Errorf("%s is neither a file nor a link", real)
		}
		to, err := os.Readlink(real)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return "", fmt.Errorf("%s in %s leads through more than %d links", path, p.deb, maxLinks)
}

// describeDeb reads the versions of a package from its archive.
func describeDeb(path string) (debianPackage, error) {
	const format = "${Package}\n${Version}\n${Architecture}\n${source:Package}\n${source:Version}\n"
	out, err := exec.Command("dpkg-deb", "--show", "--showformat", format, path).Output()
	fields := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || len(fields) != 5 {
		return debianPackage{}, fmt.Errorf("which version is %s? dpkg-deb says %q: %w", path, out, err)
	}
	return debianPackage{name: fields[0], version: fields[1], architecture: fields[2], source: fields[3], sourceVersion: fields[4]}, nil
}
