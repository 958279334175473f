package parts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Debian 12's own OVN is too old: Kube-OVN's client rejects its schema, and its northd does not support load balancers
// on a router with more than one gateway port. The packages of another suite are unpacked beside the system and run
// through that suite's own dynamic loader, so nothing is installed and nothing of the system is replaced.

var ovnPrograms = []string{
	"ovsdb-server", "ovsdb-tool", "ovsdb-client", "ovs-vswitchd", "ovs-vsctl", "ovs-appctl", "ovs-ofctl", "ovs-dpctl",
	"ovn-northd", "ovn-nbctl", "ovn-sbctl", "ovn-controller", "ovn-appctl", "ovn-trace",
}

// debs are packages of one suite of Debian, and the programs that are wanted of them.
type debs struct {
	suite           string
	names, programs []string
	proof           string // the package whose version is the part's
}

// ovn is OVN of one of the versions that Debian has.
func ovn(version string) part {
	from := debs{
		suite:    suites[version],
		names:    []string{"ovn-central", "ovn-host", "openvswitch-switch"},
		programs: ovnPrograms,
		proof:    "ovn-common",
	}
	return part{
		name: "ovn", version: version, inputs: []byte(from.suite + strings.Join(ovnPrograms, " ")),
		build: func(ctx context.Context, w workshop) error {
			if from.suite == "" {
				known := strings.Join(OVNVersions(), " and ")
				return fmt.Errorf("the lab knows OVN %s, not %q; for a new lab, set SALLYPORT_OVN to one of them, or leave it out",
					known, version)
			}
			return from.unpack(ctx, w, version)
		},
	}
}

// haproxy is a proxy such as clusters have in front of their tenants.
func haproxy() part {
	from := debs{suite: suites[OVNVersion], names: []string{"haproxy"}, programs: []string{"haproxy"}, proof: "haproxy"}
	return part{
		name: "haproxy", version: HAProxyVersion, inputs: []byte(from.suite),
		build: func(ctx context.Context, w workshop) error {
			return from.unpack(ctx, w, HAProxyVersion)
		},
	}
}

// frr is a set of routing daemons. It has its paths and its user compiled in, so it gets no wrappers: it runs with the
// packages as its root.
func frr() part {
	from := debs{suite: suites[OVNVersion], names: []string{"frr"}, proof: "frr"}
	build := func(ctx context.Context, w workshop) error { return from.unpack(ctx, w, FRRVersion) }
	return part{name: FRR, version: FRRVersion, inputs: []byte(from.suite), build: build, optional: true}
}

func (d debs) unpack(ctx context.Context, w workshop, version string) error {
	apt := filepath.Join(w.dir, "apt")
	options, err := privateApt(ctx, apt, d.suite)
	if err != nil {
		return err
	}
	w.report("  downloading " + strings.Join(d.names, ", "))
	if err := run(ctx, "apt-get", slices.Concat(options, []string{"-qq", "-y", "--download-only", "install"},
		d.names)...); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(apt, "cache/archives/*.deb"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no packages were downloaded for suite %s", d.suite)
	}
	if err := d.checkVersion(ctx, files, version); err != nil {
		return err
	}
	for _, deb := range files {
		if err := run(ctx, "dpkg-deb", "-x", deb, filepath.Join(w.dir, "root")); err != nil {
			return err
		}
	}
	if err := wrapPrograms(w, d.programs); err != nil {
		return err
	}
	return os.RemoveAll(apt)
}

// checkVersion reports a suite that has moved on to another upstream version of the part.
func (d debs) checkVersion(ctx context.Context, files []string, version string) error {
	i := slices.IndexFunc(files, func(file string) bool { return strings.HasPrefix(filepath.Base(file), d.proof+"_") })
	if i < 0 {
		return fmt.Errorf("suite %s of Debian sent no package %s", d.suite, d.proof)
	}
	return checkPackage(ctx, files[i], version)
}

// checkPackage compares the version in a package file with the upstream version that the lab expects.
func checkPackage(ctx context.Context, file, version string) error {
	out, err := exec.CommandContext(ctx, "dpkg-deb", "--field", file, "Version").Output() //nolint:gosec // words of the list of parts, and no shell
	if err != nil {
		return fmt.Errorf("read the version of %s: %w", filepath.Base(file), err)
	}
	found := strings.TrimSpace(string(out))
	same, err := isUpstreamVersion(ctx, found, version)
	if err != nil || same {
		return err
	}
	name, _, _ := strings.Cut(filepath.Base(file), "_")
	return fmt.Errorf("the package %s has version %s in Debian, and the lab expects upstream version %s: try it, then change it in internal/lab/parts",
		name, found, version)
}

// isUpstreamVersion reports whether a Debian version is the given upstream version or a point release of it, in any
// revision. The epoch does not count. dpkg compares: 10.3-3+deb13u1 and 10.3.1-1 are of 10.3; 10.3~rc1-1, 10.4~rc1-1
// and 10.30-1 are not.
func isUpstreamVersion(ctx context.Context, found, version string) (bool, error) {
	if _, rest, epoch := strings.Cut(found, ":"); epoch {
		found = rest
	}
	next, err := nextVersion(version)
	if err != nil {
		return false, err
	}
	for _, limit := range [][2]string{{"ge", version}, {"lt", next + "~"}} {
		//nolint:gosec // words of the list of parts, and no shell
		err := exec.CommandContext(ctx, "dpkg", "--compare-versions", found, limit[0], limit[1]).Run()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("compare versions %s and %s: %w", found, limit[1], err)
		}
	}
	return true, nil
}

// nextVersion is a version with its last number raised by one: 25.03 is followed by 25.4, which Debian compares as
// 25.04.
func nextVersion(version string) (string, error) {
	head, last := "", version
	if i := strings.LastIndex(version, "."); i >= 0 {
		head, last = version[:i+1], version[i+1:]
	}
	number, err := strconv.Atoi(last)
	if err != nil {
		return "", fmt.Errorf("version %s does not end in a number: %w", version, err)
	}
	return head + strconv.Itoa(number+1), nil
}

// privateApt is an apt configuration of our own below dir: the machine's mirror, another suite, nothing installed. The
// lists of the suite are there.
func privateApt(ctx context.Context, dir, suite string) ([]string, error) {
	if err := need("apt-get", "dpkg", "dpkg-deb"); err != nil {
		return nil, err
	}
	for _, sub := range []string{"lists/partial", "cache/archives/partial", "parts"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, fmt.Errorf("make apt directories: %w", err)
		}
	}
	mirror, err := debianMirror(ctx)
	if err != nil {
		return nil, err
	}
	sources := fmt.Sprintf("Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n", mirror, suite)
	err = errors.Join(
		os.WriteFile(filepath.Join(dir, "parts/lab.sources"), []byte(sources), 0o644),
		os.WriteFile(filepath.Join(dir, "status"), nil, 0o644),
	)
	options := []string{
		"-o", "Dir::Etc::sourcelist=/dev/null", "-o", "Dir::Etc::sourceparts=" + filepath.Join(dir, "parts"),
		"-o", "Dir::State::lists=" + filepath.Join(dir, "lists"), "-o",
		"Dir::State::status=" + filepath.Join(dir, "status"),
		"-o", "Dir::Cache=" + filepath.Join(dir, "cache"), "-o", "APT::Install-Recommends=false", "-o",
		"Acquire::Languages=none",
		"-o", "APT::Sandbox::User=root", // the cache may lie where apt's own user can't write
	}
	if err != nil {
		return nil, fmt.Errorf("configure apt: %w", err)
	}
	return options, run(ctx, "apt-get", slices.Concat(options, []string{"-qq", "update"})...)
}

func need(programs ...string) error {
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("this part is taken from Debian's packages, which needs a Debian machine with %s: %w",
				name, err)
		}
	}
	return nil
}

// debianMirror is the mirror that the machine itself uses for Debian.
func debianMirror(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI)",
		"Created-By: Packages").Output()
	if err != nil {
		return "", fmt.Errorf("ask apt for its mirrors: %w", err)
	}
	for uri := range strings.FieldsSeq(string(out)) {
		if strings.HasSuffix(strings.TrimSuffix(uri, "/"), "/debian") {
			return uri, nil
		}
	}
	return "", fmt.Errorf("apt has no Debian mirror configured (a source whose address ends in /debian)")
}

// wrapPrograms writes bin/NAME for each program. The wrapper names the final place of the part, not where it is built.
func wrapPrograms(w workshop, programs []string) error {
	root := filepath.Join(w.final, "root")
	for _, name := range programs {
		rel, err := findProgram(filepath.Join(w.dir, "root"), name)
		if err != nil {
			return err
		}
		script := fmt.Sprintf("#!/bin/sh\nexec %s/usr/lib64/ld-linux-x86-64.so.2 --argv0 %s --library-path %s/usr/lib/x86_64-linux-gnu %s \"$@\"\n",
			root, name, root, filepath.Join(root, rel))
		if err := os.WriteFile(filepath.Join(w.dir, "bin", name), []byte(script), 0o755); err != nil { //nolint:gosec // it is run
			return fmt.Errorf("wrap %s: %w", name, err)
		}
	}
	return nil
}

func findProgram(root, name string) (string, error) {
	for _, dir := range []string{"usr/bin", "usr/sbin", "usr/lib/openvswitch-switch"} {
		if _, err := os.Stat(filepath.Join(root, dir, name)); err == nil {
			return filepath.Join(dir, name), nil
		}
	}
	return "", fmt.Errorf("the packages have no %s", name)
}

func run(ctx context.Context, name string, args ...string) error {
	return runIn(ctx, "", name, args...)
}

func runIn(ctx context.Context, dir, name string, args ...string) error {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // words of the list of parts, and no shell
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out.String())
	}
	return nil
}
