package main

import (
	"bytes"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"
)

// Everything in the image is in its bill of materials, with the version that Go and dpkg know it by.
func (u unpacked) billOfMaterials(t *testing.T) {
	inside := read(t, filepath.Join(u.root, sbomPath))
	if !bytes.Equal(inside, read(t, u.beside)) {
		t.Errorf("%s is another than that in the image", u.beside)
	}
	have := listed(t, inside)
	for name := range binaries(t, u.root) {
		if filepath.Dir(name) == "/" {
			u.modulesAreListed(t, name, have)
		} else {
			u.packageIsListed(t, name, have)
		}
	}
}

// listed reads a bill of materials as anybody would, and returns the versions in it by name.
func listed(t *testing.T, raw []byte) map[string][]string {
	t.Helper()
	var doc spdx.Document
	if err := spdxjson.ReadInto(bytes.NewReader(raw), &doc); err != nil {
		t.Fatal(err)
	}
	if wrong := invalid(&doc); len(wrong) > 0 {
		t.Errorf("it is no valid SPDX document: %s", strings.Join(wrong, "; "))
	}
	out := map[string][]string{}
	for _, p := range doc.Packages {
		out[p.PackageName] = append(out[p.PackageName], p.PackageVersion)
	}
	return out
}

var (
	elementID = regexp.MustCompile(`^[A-Za-z0-9.-]+$`)
	purl      = regexp.MustCompile(`^pkg:(golang|deb/debian)/[^@ ]+@[^@ ]+$`)
)

// invalid is what SPDX 2.3 does not allow in a document such as ours: what is mandatory is there, identifiers are well formed, unique and
// known, and the document says what it is about.
func invalid(doc *spdx.Document) (wrong []string) {
	check := func(ok bool, what string) {
		if !ok {
			wrong = append(wrong, what)
		}
	}
	check(doc.SPDXVersion == "SPDX-2.3" && doc.DataLicense == "CC0-1.0" && doc.SPDXIdentifier == "DOCUMENT" && doc.DocumentName != "", "the head")
	namespace, err := url.Parse(doc.DocumentNamespace)
	check(err == nil && namespace.IsAbs() && namespace.Fragment == "", "the namespace "+doc.DocumentNamespace)
	check(doc.CreationInfo != nil && len(doc.CreationInfo.Creators) > 0, "the creator")
	if doc.CreationInfo != nil {
		_, err := time.Parse("2006-01-02T15:04:05Z", doc.CreationInfo.Created)
		check(err == nil, "the time of creation")
	}
	if err := spdxlib.ValidateDocument(doc); err != nil {
		wrong = append(wrong, err.Error())
	}
	described, err := spdxlib.GetDescribedPackageIDs(doc)
	check(err == nil && len(described) == 1, "what it describes")
	seen := map[string]bool{}
	for _, p := range doc.Packages {
		id := string(p.PackageSPDXIdentifier)
		check(elementID.MatchString(id) && !seen[id], "the identifier "+id)
		check(p.PackageName != "" && p.PackageVersion != "" && p.PackageDownloadLocation != "" && !p.FilesAnalyzed, "the package "+id)
		for _, r := range p.PackageExternalReferences {
			check(purl.MatchString(r.Locator), "the reference "+r.Locator)
		}
		seen[id] = true
	}
	return wrong
}

// modulesAreListed compares with what `go version -m` says of a program.
func (u unpacked) modulesAreListed(t *testing.T, name string, have map[string][]string) {
	t.Helper()
	out, err := exec.Command("go", "version", "-m", filepath.Join(u.root, name)).Output()
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`: go(\S+)`).FindStringSubmatch(string(out))
	want := map[string]string{"stdlib": version[1]}
	for _, m := range regexp.MustCompile(`(?m)^\tdep\t(\S+)\t(\S+)`).FindAllStringSubmatch(string(out), -1) {
		want[m[1]] = m[2]
	}
	for module, version := range want {
		if !slices.Contains(have[module], version) {
			t.Errorf("%s contains %s %s, which is not listed: %v", name, module, version, have[module])
		}
	}
	if have[filepath.Base(name)] == nil {
		t.Errorf("%s itself is not listed", name)
	}
	t.Logf("%s: %d modules", name, len(want))
}

// packageIsListed looks for a file in the lists of the installed packages, and compares the version.
func (u unpacked) packageIsListed(t *testing.T, name string, have map[string][]string) {
	t.Helper()
	for _, p := range slices.Sorted(maps.Keys(have)) {
		files, err := exec.Command("dpkg-query", "--listfiles", p).Output()
		if err != nil {
			continue // none of Debian's
		}
		lines := strings.Split(string(files), "\n")
		if !slices.Contains(lines, name) && !slices.Contains(lines, "/usr"+name) {
			continue
		}
		version, err := exec.Command("dpkg-query", "--show", "--showformat", "${Version}", p).Output()
		if err != nil || !slices.Contains(have[p], string(version)) {
			t.Errorf("%s is of %s %s; listed are %v (%v)", name, p, version, have[p], err)
		}
		t.Logf("%s: %s %s", name, p, version)
		return
	}
	t.Errorf("%s is of none of the listed packages", name)
}

// What is wrong in a document is seen, and what can't be listed is no part of an image.
func TestBillOfMaterials(t *testing.T) {
	r := recipe{binaries: []string{program(t)}, version: "v1", created: time.Unix(0, 0)}
	raw, err := billOfMaterials(r)
	if err != nil {
		t.Fatal(err)
	}
	for what, edit := range map[string]func(*spdx.Document){
		"version":    func(d *spdx.Document) { d.SPDXVersion = "SPDX-2.2" },
		"namespace":  func(d *spdx.Document) { d.DocumentNamespace = "sallyport" },
		"described":  func(d *spdx.Document) { d.Relationships = d.Relationships[1:] },
		"identifier": func(d *spdx.Document) { d.Packages[0].PackageSPDXIdentifier = "a b" },
		"package":    func(d *spdx.Document) { d.Packages[0].PackageVersion = "" },
	} {
		var doc spdx.Document
		if err := spdxjson.ReadInto(bytes.NewReader(raw), &doc); err != nil {
			t.Fatal(err)
		}
		if wrong := invalid(&doc); len(wrong) > 0 {
			t.Fatal(wrong)
		}
		if edit(&doc); len(invalid(&doc)) == 0 {
			t.Errorf("a wrong %s is not seen", what)
		}
	}
	stranger := filepath.Join(t.TempDir(), "lib.so")
	if err := os.WriteFile(stranger, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, r := range []recipe{{system: []file{{name: stranger, from: stranger}}}, {binaries: []string{"/bin/true"}}} {
		if _, err := billOfMaterials(r); err == nil {
			t.Errorf("%+v can be listed", r)
		}
	}
}
