package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestVersionsAreChecked(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1")
	for version, good := range map[string]bool{
		"1.2.3": true, "0.1.0-dev.g1234abc": true, "1.0.0-rc.1": true,
		"": false, "v1.2.3": false, "1.2": false, "01.2.3": false, "1.2.3+build": false, "1.2.3/../../x": false,
		"1.2.3 --set x": false, "1.2.3\n": false, "1.2.3-" + strings.Repeat("a", 40): false,
	} {
		// publish without a registry ends right after the version was read
		err := run([]string{"publish", "-version", version, "-out", t.TempDir()})
		if err == nil || strings.Contains(err.Error(), "name a registry") != good {
			t.Errorf("%q: %v", version, err)
		}
	}
}

func TestMistakesAreNamed(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, sumsFile), []byte(strings.Repeat("0", 64)+"  a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	for words, args := range map[string][]string{
		"usage":            nil,
		"not with both":    {"build", "-version", "1.2.3", "-key", "k", "-keyless"},
		"did NOT match":    {"publish", "-version", "1.2.3", "-registry", "127.0.0.1:1/x", "-out", dir},
		"usage: release b": {"remove"},
	} {
		if err := run(args); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v: %v; wanted %q", args, err, words)
		}
	}
	if err := (signer{}).signImage("x", false); err == nil {
		t.Error("an image is published without a signature")
	}
	for _, epoch := range []string{"", "yesterday", "-1"} {
		if _, err := sourceDate(epoch); err == nil {
			t.Errorf("SOURCE_DATE_EPOCH=%q is taken", epoch)
		}
	}
}

func TestNotes(t *testing.T) {
	const changelog = "# Changelog\n\n## [Unreleased]\n\n- new\n\n## [1.2.3] - 2030-01-01\n\n### Added\n- one\n\n## [1.2.2]\n- old\n"
	for version, want := range map[string]string{
		"1.2.3": "# Sallyport 1.2.3\n\n### Added\n- one\n", "1.2.2": "# Sallyport 1.2.2\n\n- old\n",
		"1.3.0-rc.1": "# Sallyport 1.3.0-rc.1\n\n- new\n", "9.9.9": "",
	} {
		got, err := notes(changelog, version)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", version, got, err)
		}
	}
}

// The same files give the same archive, wherever they are and whenever they were written. Programs can be executed.
func TestPack(t *testing.T) {
	var first []byte
	for i := range 2 {
		dir := t.TempDir()
		files := map[string]string{}
		for name, content := range map[string]string{"b": "\x7fELF", "a": "text"} {
			files[name] = filepath.Join(dir, name)
			if err := errors.Join(os.WriteFile(files[name], []byte(content), 0o600), os.Chtimes(files[name], time.Now(), time.Unix(int64(i), 0))); err != nil {
				t.Fatal(err)
			}
		}
		out := filepath.Join(dir, "out.tar.gz")
		if err := pack(out, files, time.Unix(7, 0)); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = raw
		}
		if string(raw) != string(first) {
			t.Error("two archives of the same files differ")
		}
		if modes := listArchive(t, out); len(modes) != 2 || modes["a"] != 0o644 || modes["b"] != 0o755 {
			t.Errorf("the archive has %v", modes)
		}
	}
}

// listArchive returns the modes of the files in a compressed archive.
func listArchive(t *testing.T, path string) map[string]int64 {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	raw, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	for archive := tar.NewReader(raw); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out[header.Name] = header.Mode
	}
}
