package main

import (
	"debug/elf"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

const nft = "/usr/sbin/nft"

// rules are of the kind that the agent writes.
const rules = `
add table inet t
add set inet t addresses { type ipv4_addr; flags interval; }
add element inet t addresses { 198.51.100.0/24 }
add chain inet t c { type filter hook prerouting priority -150; }
add rule inet t c meta l4proto tcp ip daddr @addresses ct state new ct mark set 0x1 comment "one"
`

// In the image, with nothing of the machine, nft starts as anybody and writes rules as root.
func (u unpacked) nftRuns(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can change the root directory")
	}
	inside := func(who uint32, args ...string) *exec.Cmd {
		cmd := exec.Command(nft, args...)
		cmd.Dir, cmd.Env = "/", []string{}
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Chroot: u.root, Cloneflags: syscall.CLONE_NEWNET, Credential: &syscall.Credential{Uid: who, Gid: who},
		}
		return cmd
	}
	out, err := inside(65532, "--version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "nftables v") {
		t.Errorf("nft --version: %v\n%s", err, out)
	}
	check := inside(0, "--check", "--file", "-")
	check.Stdin = strings.NewReader(rules)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("nft does not take rules: %v\n%s", err, out)
	}
	check = inside(0, "--check", "--file", "-")
	check.Stdin = strings.NewReader(strings.ReplaceAll(rules, "@addresses", "@others"))
	if out, err := check.CombinedOutput(); err == nil {
		t.Errorf("nft takes rules with a set that is not there:\n%s", out)
	}
}

// Every library and loader that a file of the image names is in the image, and a program finds nft by PATH.
func (u unpacked) nothingIsMissing(t *testing.T) {
	files := binaries(t, u.root)
	have := map[string]bool{}
	for name := range files {
		have[name], have[filepath.Base(name)] = true, true
	}
	for name, f := range files {
		libraries, err := f.ImportedLibraries()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, library := range append(libraries, loader(t, f)...) {
			if !have[library] {
				t.Errorf("%s needs %s, which the image does not have", name, library)
			}
		}
	}
	if f := files[nft]; f == nil || len(loader(t, f)) != 1 {
		t.Errorf("%s should be there, with a loader; there are %v", nft, slices.Sorted(maps.Keys(files)))
	}
	search := strings.Split(strings.TrimPrefix(u.config.Config.Env[0], "PATH="), ":")
	for _, dir := range []string{"/", "/usr/sbin", "/sbin"} {
		if !slices.Contains(search, dir) {
			t.Errorf("%s does not have %s", u.config.Config.Env[0], dir)
		}
	}
	if license := u.config.Config.Labels["org.opencontainers.image.licenses"]; license != "Apache-2.0 AND GPL-2.0-only" {
		t.Errorf("with nft in it, the image is under %s", license)
	}
}

// loader is the path of the loader that a file names, if it does.
func loader(t *testing.T, f *elf.File) []string {
	t.Helper()
	section := f.Section(".interp")
	if section == nil {
		return nil
	}
	path, err := section.Data()
	if err != nil {
		t.Fatal(err)
	}
	return []string{strings.TrimRight(string(path), "\x00")}
}

// Without -with, there is nothing of the machine in the image, and no license of others.
func TestStaticProgramsAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := run([]string{"-out", path, "-reference", reference, program(t)}); err != nil {
		t.Fatal(err)
	}
	image := unpack(t, path)
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if license := config.Config.Labels["org.opencontainers.image.licenses"]; license != "Apache-2.0" {
		t.Errorf("the image is under %s", license)
	}
	if files := binaries(t, extract(t, image)); len(files) != 1 || files["/hello"] == nil {
		t.Errorf("the image has %v", slices.Sorted(maps.Keys(files)))
	}
}

func TestMissingPartsAreNamed(t *testing.T) {
	if _, err := find("nft", []string{t.TempDir(), "/no-such-directory"}); err == nil || !strings.Contains(err.Error(), "apt-get install nftables") {
		t.Errorf("where nft is missing: %v", err)
	}
	if _, err := parse("\tlibmnl.so.0 => not found\n", "/lib64/ld.so"); err == nil || !strings.Contains(err.Error(), "libmnl.so.0") {
		t.Errorf("where a library is missing: %v", err)
	}
	if err := new(system).Set("no-such-program"); err == nil || !strings.Contains(err.Error(), "license") {
		t.Errorf("a program of unknown license: %v", err)
	}
}

func TestListOfLibraries(t *testing.T) {
	const list = "\tlinux-vdso.so.1 (0x00007ffd0a5f2000)\n\tlibmnl.so.0 => /lib/libmnl.so.0 (0x00007f9ddc3c7000)\n" +
		"\t/lib64/ld.so (0x00007f9ddc6e0000)\n\t/opt/libby-path.so (0x00007f9ddc6e1000)\n"
	got, err := parse(list, "/lib64/ld.so")
	if want := []string{"/lib/libmnl.so.0", "/opt/libby-path.so"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; wanted %v", got, err, want)
	}
}

// A program that is given twice, or that PATH leads to by a link, is there once, where it really is.
func TestProgramIsFoundOnce(t *testing.T) {
	var with system
	for range 2 {
		if err := with.Set("nft"); err != nil {
			t.Fatal(err)
		}
	}
	files, err := with.files()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, f := range files {
		seen[f.name]++
	}
	if seen[nft] != 1 || len(seen) != len(files) {
		t.Errorf("files: %v", seen)
	}
	dir := filepath.Join(t.TempDir(), "sbin")
	if err := os.Symlink(filepath.Dir(nft), dir); err != nil {
		t.Fatal(err)
	}
	if path, err := find("nft", []string{dir}); err != nil || path != nft {
		t.Errorf("by a link: %s, %v", path, err)
	}
}
