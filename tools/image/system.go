package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// debian is where a program of the machine comes from, and the license that it brings into the image.
type debian struct{ name, license string }

// packages are those of the programs that may be put into the image: what is not here, the image's labels could not tell.
var packages = map[string]debian{"nft": {name: "nftables", license: "GPL-2.0-only"}}

// system are programs of the machine, by name.
type system []string

func (s *system) String() string { return strings.Join(*s, " ") }

// Set takes one more program.
func (s *system) Set(name string) error {
	if _, known := packages[name]; !known {
		return fmt.Errorf("which package has %s, and under which license? Say so in tools/image/system.go", name)
	}
	if !slices.Contains(*s, name) {
		*s = append(*s, name)
	}
	return nil
}

// licenses are those of the programs, as SPDX names them.
func (s system) licenses() []string {
	var out []string
	for _, name := range s {
		out = append(out, packages[name].license)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// files are the programs with all that the kernel and the loader open to start them. Two programs may share a library.
func (s system) files() ([]file, error) {
	var out []file
	for _, name := range s {
		path, err := find(name, append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin"))
		if err != nil {
			return nil, err
		}
		needed, err := needs(path)
		if err != nil {
			return nil, fmt.Errorf("what %s needs: %w", path, err)
		}
		out = append(out, file{name: path, from: path, mode: 0o755})
		out = append(out, needed...)
	}
	slices.SortFunc(out, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return slices.CompactFunc(out, func(a, b file) bool { return a.name == b.name }), nil
}

// find looks a program up. /sbin is the same directory as /usr/sbin on Debian: which of them PATH names first makes no other image.
func find(name string, dirs []string) (string, error) {
	for _, dir := range dirs {
		dir, err := filepath.EvalSymlinks(dir)
		if err != nil || !filepath.IsAbs(dir) {
			continue
		}
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("this machine has no %s: install it with apt-get install %s, or with make packages", name, packages[name].name)
}

// needs are the loader of a program and its libraries, at the paths where they are looked for. It asks what ldd asks, but without the
// loader's cache and the caller's environment: the image has neither.
func needs(program string) ([]file, error) {
	loader, err := interpreter(program)
	if err != nil || loader == "" {
		return nil, err
	}
	cmd := exec.Command(loader, "--inhibit-cache", "--list", program)
	cmd.Env = []string{"LC_ALL=C"}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	list, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s --list: %w: %s", loader, err, bytes.TrimSpace(stderr.Bytes()))
	}
	libraries, err := parse(string(list), loader)
	if err != nil {
		return nil, err
	}
	out := []file{{name: loader, from: loader, mode: 0o755}} // the kernel executes it
	for _, path := range libraries {
		out = append(out, file{name: path, from: path, mode: 0o644})
	}
	return out, nil
}

// interpreter is the loader that a program names to the kernel; a static program names none.
func interpreter(program string) (string, error) {
	f, err := elf.Open(program)
	if err != nil {
		return "", err
	}
	defer f.Close()
	section := f.Section(".interp")
	if section == nil {
		return "", nil
	}
	path, err := section.Data()
	return string(bytes.TrimRight(path, "\x00")), err
}

// parse reads the loader's list of libraries, which has lines such as
//
//	linux-vdso.so.1 (0x00007ffd0a5f2000)
//	libmnl.so.0 => /lib/x86_64-linux-gnu/libmnl.so.0 (0x00007f9ddc3c7000)
//	/lib64/ld-linux-x86-64.so.2 (0x00007f9ddc6e0000)
//	libgone.so.1 => not found
//
// The first is the kernel's and no file.
func parse(list, loader string) ([]string, error) {
	var out []string
	for line := range strings.Lines(list) {
		name, path, arrow := strings.Cut(strings.TrimSpace(line), " => ")
		if !arrow {
			path = name
		}
		if path == "not found" {
			return nil, errors.New(name + " is not in the directories where the loader looks without its cache")
		}
		path, _, _ = strings.Cut(path, " (0x")
		if filepath.IsAbs(path) && path != loader {
			out = append(out, path)
		}
	}
	return out, nil
}
