package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// sbomPath is where the image has its bill of materials; scanners look for files that end so.
const sbomPath = "/var/lib/db/sbom/sallyport.spdx.json"

const (
	repository = "https://github.com/sallyport/sallyport"
	unknown    = "NOASSERTION"
)

// bill is a bill of materials in the making: everything that is in the image, with its version, and what needs it.
type bill struct {
	packages      map[common.ElementID]*spdx.Package
	relationships []*spdx.Relationship
}

// billOfMaterials lists what an image is made of, as SPDX 2.3 in JSON. What the programs are built from, they say themselves; what comes from
// the machine, dpkg says. The same files give the same bytes.
func billOfMaterials(r recipe) ([]byte, error) {
	b := bill{packages: map[common.ElementID]*spdx.Package{}}
	image := b.add("image", &spdx.Package{
		PackageName: "sallyport", PackageVersion: r.version, PrimaryPackagePurpose: "CONTAINER",
		PackageLicenseDeclared: r.labels["org.opencontainers.image.licenses"],
	})
	b.relate("DOCUMENT", "DESCRIBES", image)
	for _, binary := range r.binaries {
		if err := b.addProgram(image, binary, r.version); err != nil {
			return nil, fmt.Errorf("what %s is built from: %w", binary, err)
		}
	}
	owned, err := owners(r.system)
	if err != nil {
		return nil, err
	}
	for _, p := range owned {
		b.relate(image, "CONTAINS", b.add("deb-"+p.name, p.described()))
	}
	return b.write(r)
}

// add adds a package once, and returns its identifier.
func (b *bill) add(name string, p *spdx.Package) common.ElementID {
	id := common.ElementID(identifier.ReplaceAllString(name, "-"))
	if b.packages[id] == nil {
		p.PackageSPDXIdentifier, p.PackageDownloadLocation, p.PackageLicenseConcluded = id, unknown, unknown
		p.PackageCopyrightText = unknown
		if p.PackageLicenseDeclared == "" {
			p.PackageLicenseDeclared = unknown
		}
		b.packages[id] = p
	}
	return id
}

// identifier is what the identifier of an element can't have.
var identifier = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

func (b *bill) relate(from common.ElementID, how string, to common.ElementID) {
	b.relationships = append(b.relationships, &spdx.Relationship{
		RefA: common.DocElementID{ElementRefID: from}, RefB: common.DocElementID{ElementRefID: to}, Relationship: how,
	})
}

// addProgram adds one of our programs, with the modules and the Go that it is built from.
func (b *bill) addProgram(image common.ElementID, path, version string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return err
	}
	sum, name := sha256.Sum256(content), filepath.Base(path)
	program := b.add("program-"+name, &spdx.Package{
		PackageName: name, PackageVersion: version, PackageFileName: "/" + name, PrimaryPackagePurpose: "APPLICATION",
		PackageChecksums:       []common.Checksum{{Algorithm: common.SHA256, Value: hex.EncodeToString(sum[:])}},
		PackageLicenseDeclared: "Apache-2.0",
	})
	b.relate(image, "CONTAINS", program)
	modules := []debug.Module{{Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		modules = append(modules, *m)
	}
	for _, m := range modules {
		b.relate(program, "DEPENDS_ON", b.add("go-"+m.Path+"-"+m.Version, &spdx.Package{
			PackageName: m.Path, PackageVersion: m.Version, PrimaryPackagePurpose: "LIBRARY",
			PackageExternalReferences: location("pkg:golang/" + m.Path + "@" + m.Version),
		}))
	}
	return nil
}

// location is how scanners find a package in lists of vulnerabilities.
func location(purl string) []*spdx.PackageExternalReference {
	return []*spdx.PackageExternalReference{{Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: purl}}
}

// described is a Debian package, with the files of it that are in the image.
func (p debianPackage) described() *spdx.Package {
	return &spdx.Package{
		PackageName: p.name, PackageVersion: p.version, PrimaryPackagePurpose: "LIBRARY", PackageLicenseDeclared: licenseOf(p.name),
		PackageSourceInfo: fmt.Sprintf("built from Debian's source package %s %s", p.source, p.sourceVersion),
		PackageComment:    "in the image: " + strings.Join(p.files, " "),
		PackageExternalReferences: location(fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s",
			p.name, strings.ReplaceAll(p.version, "+", "%2B"), p.architecture)),
	}
}

// write writes the document. Its name in the world is made of its content.
func (b *bill) write(r recipe) ([]byte, error) {
	doc := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: "sallyport-" + r.version,
		CreationInfo: &spdx.CreationInfo{
			Created:  r.created.UTC().Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "sallyport-tools-image"}},
		},
		Relationships: b.relationships,
	}
	for _, id := range slices.Sorted(maps.Keys(b.packages)) {
		doc.Packages = append(doc.Packages, b.packages[id])
	}
	var out bytes.Buffer
	if err := spdxjson.Write(doc, &out); err != nil {
		return nil, fmt.Errorf("write bill of materials: %w", err)
	}
	doc.DocumentNamespace = fmt.Sprintf("%s/spdx/%x", repository, sha256.Sum256(out.Bytes()))
	out.Reset()
	if err := spdxjson.Write(doc, &out, spdxjson.Indent("  ")); err != nil {
		return nil, fmt.Errorf("write bill of materials: %w", err)
	}
	return out.Bytes(), nil
}
