package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// packDeb makes a Debian package of files, by their paths in it; a content that begins with "->" is a link.
func packDeb(t *testing.T, dir, name string, files map[string]string) {
	t.Helper()
	root := t.TempDir()
	files["/DEBIAN/control"] = fmt.Sprintf("Package: %s\nVersion: 1.0-2\nArchitecture: amd64\nMaintainer: nobody <n@example.com>\nDescription: test\n", name)
	for path, content := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		to, link := strings.CutPrefix(content, "->")
		err := os.WriteFile(path, []byte(content), 0o600)
		if link {
			_ = os.Remove(path)
			err = os.Symlink(to, path)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("dpkg-deb", "--build", root, filepath.Join(dir, name+".deb")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// packNft packs nft and everything that the machine's loader finds for it, without one library.
func packNft(t *testing.T, without string) (debs string, want []file) {
	t.Helper()
	want, err := system{"nft"}.files()
	if err != nil {
		t.Fatal(err)
	}
	debs, files := t.TempDir(), map[string]string{}
	for _, f := range want {
		if filepath.Base(f.name) == without {
			continue
		}
		// as Debian does it: the name is a link to the file
		files[f.name+".real"] = string(read(t, f.from))
		files[f.name] = "->" + filepath.Base(f.name) + ".real"
	}
	packDeb(t, debs, "nftables", files)
	return debs, want
}

// What is found by reading ELF in packages is what the loader of the machine finds by loading.
func TestUnpackedIsWhatTheLoaderFinds(t *testing.T) {
	p, _ := platformOf("amd64")
	debs, want := packNft(t, "")
	got, err := collect(system{"nft"}, p, debs, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range got {
		if len(got) != len(want) || f.name != want[i].name || f.mode != want[i].mode {
			t.Fatalf("%d: %v\n%v", i, got, want)
		}
		if string(read(t, f.from)) != string(read(t, want[i].from)) {
			t.Errorf("%s is another file", f.name)
		}
	}
	owned, err := owners(got)
	if err != nil || len(owned) != 1 || owned[0].name != "nftables" || owned[0].version != "1.0-2" || len(owned[0].files) != len(want) {
		t.Errorf("owners: %+v, %v", owned, err)
	}
}

func TestUnpackedMistakesAreNamed(t *testing.T) {
	amd64, _ := platformOf("amd64")
	arm64, _ := platformOf("arm64")
	gone, _ := packNft(t, "libmnl.so.0")
	whole, _ := packNft(t, "")
	loop, outside := t.TempDir(), t.TempDir()
	packDeb(t, loop, "nftables", map[string]string{"/usr/sbin/nft": "->nft"})
	// links end in the package: this one leads to the package's own /etc/passwd, which it does not have
	packDeb(t, outside, "nftables", map[string]string{"/usr/sbin/nft": "->../../../../../../../../etc/passwd"})
	for words, c := range map[string]struct {
		debs string
		p    platform
	}{
		"has libmnl.so.0":         {gone, amd64},
		"it is for EM_X86_64":     {whole, arm64},
		"more than 16 links":      {loop, amd64},
		"no package for amd64 ha": {outside, amd64},
		"no Debian packages in":   {t.TempDir(), amd64},
	} {
		files, err := collect(system{"nft"}, c.p, c.debs, t.TempDir())
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v, %v; wanted %q", files, err, words)
		}
	}
	if _, err := platformOf("s390x"); err == nil {
		t.Error("an unknown architecture is taken")
	}
}

// Programs of another architecture would not start, and are refused.
func TestImageOfAnotherArchitecture(t *testing.T) {
	path := filepath.Join(t.TempDir(), "image.tar")
	err := run([]string{"-arch", "arm64", "-out", path, program(t)})
	if err == nil || !strings.Contains(err.Error(), "the image for arm64") {
		t.Errorf("%v", err)
	}
}
