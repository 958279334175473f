// Package parts is the set of third-party programs that a lab runs: which versions, how each is had, and where it is
// cached.
package parts

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Versions of the parts. A new version is a new cache entry; the module files beside this one pin what each is built
// from.
const (
	KubernetesVersion = "1.35.4"
	EtcdVersion       = "3.6.5"
	KubeOVNVersion    = "1.16.2"
	EnvoyVersion      = "1.5.0" // of Envoy Gateway, of which the lab has one kind only
	OVNVersion        = "25.03" // the usual one
	NextOVNVersion    = "26.03" // the one that upgrades go to
	HAProxyVersion    = "3.0"
	QEMUVersion       = "10.0"
	FRRVersion        = "10.3"
	ContainerdVersion = "2.2.4"
	RuncVersion       = "1.5.2"
	SeccompVersion    = "2.5" // linked into runc
	IptablesVersion   = "1.8"
)

// Parts that only some labs need: FRR for BGP, the others for real nodes.
const (
	FRR            = "frr"
	KubernetesNode = "kubernetes-node"
	KubeOVNNode    = "kube-ovn-node"
	Containerd     = "containerd"
	Runc           = "runc"
	NodeTools      = "node-tools"
)

// RealNode are the parts that labs with real nodes need.
func RealNode() []string { return []string{KubernetesNode, KubeOVNNode, Containerd, Runc, NodeTools} }

// suites are the versions of OVN that a lab can run, by the suite of Debian that has them; the Open vSwitch of the
// suite comes with it. The environment variable SALLYPORT_OVN chooses another than the usual.
var suites = map[string]string{OVNVersion: "trixie", NextOVNVersion: "sid"}

// OVNVersions are the versions of OVN that a lab can run, oldest first.
func OVNVersions() []string { return slices.Sorted(maps.Keys(suites)) }

// part is one cache entry: a directory with bin/ and what belongs to it.
type part struct {
	name    string
	version string
	inputs  []byte // whatever else decides what is built; part of the cache key
	build   func(ctx context.Context, w workshop) error

	optional bool // only had where it is asked for by name
}

// workshop is where one part is being built.
type workshop struct {
	dir    string // build here
	final  string // where dir will be once the build is complete
	report Progress
}

// Set is where the programs are, once they are all there.
type Set struct {
	names []string // in the order of a PATH
	dirs  map[string]string
}

// Progress is told, in one line each, what is being built and how long it took.
type Progress func(line string)

// CacheDir is where parts are kept: outside any source tree, shared by all labs of the machine.
func CacheDir() (string, error) {
	if dir := os.Getenv("SALLYPORT_CACHE"); dir != "" {
		return dir, nil
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a cache directory (set SALLYPORT_CACHE): %w", err)
	}
	return filepath.Join(base, "sallyport"), nil
}

// Ensure builds the parts of a lab that are not cached yet and says where all of them are. The optional ones are those
// named.
func Ensure(ctx context.Context, report Progress, optional ...string) (Set, error) {
	wanted := slices.DeleteFunc(ofLab(), func(p part) bool { return p.optional && !slices.Contains(optional, p.name) })
	return ensure(ctx, wanted, report)
}

// EnsureOVN does the same for OVN alone, of a version that a running lab is to be upgraded to.
func EnsureOVN(ctx context.Context, version string, report Progress) (Set, error) {
	return ensure(ctx, []part{ovn(version)}, report)
}

// EnsureMachine does the same for the parts of a virtual machine. No lab waits for them: only tests have machines.
func EnsureMachine(ctx context.Context, report Progress) (Set, error) {
	return ensure(ctx, ofMachine(), report)
}

func ensure(ctx context.Context, wanted []part, report Progress) (Set, error) {
	cache, err := CacheDir()
	if err != nil {
		return Set{}, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return Set{}, fmt.Errorf("make cache: %w", err)
	}
	set := Set{dirs: map[string]string{}}
	for _, p := range wanted {
		dir := filepath.Join(cache, p.key())
		if err := p.ensure(ctx, dir, report); err != nil {
			return Set{}, fmt.Errorf("%s %s: %w", p.name, p.version, err)
		}
		if set.dirs[p.name] = dir; !p.optional { // an optional part has no programs for people's PATH
			set.names = append(set.names, p.name)
		}
	}
	return set, nil
}

func ofLab() []part {
	return []part{
		ovn(cmp.Or(os.Getenv("SALLYPORT_OVN"), OVNVersion)), kubernetes(), kubeOVN(), envoyGateway(), haproxy(), frr(),
		kubernetesNode(), kubeOVNNode(), containerd(), runc(), nodeTools(),
	}
}

func ofMachine() []part {
	out := []part{qemu()}
	for _, version := range Kernels() {
		out = append(out, kernel(version))
	}
	return out
}

func (p part) key() string {
	sum := sha256.Sum256(append([]byte(p.version+"\x00"), p.inputs...))
	return fmt.Sprintf("%s-%s-%s", p.name, p.version, hex.EncodeToString(sum[:4]))
}

// ensure builds into a directory beside the final one and renames it, so that a half-built part is never used.
// A lock keeps two labs from building the same part at once.
func (p part) ensure(ctx context.Context, dir string, report Progress) error {
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	report(fmt.Sprintf("building %s %s (once; kept in %s)", p.name, p.version, dir))
	begun := time.Now()
	building := dir + ".building"
	if err := os.RemoveAll(building); err != nil {
		return fmt.Errorf("clean %s: %w", building, err)
	}
	if err := os.MkdirAll(filepath.Join(building, "bin"), 0o755); err != nil {
		return fmt.Errorf("make %s: %w", building, err)
	}
	if err := p.build(ctx, workshop{dir: building, final: dir, report: report}); err != nil {
		return errors.Join(err, os.RemoveAll(building))
	}
	if err := os.Rename(building, dir); err != nil {
		return fmt.Errorf("keep the build: %w", err)
	}
	report(fmt.Sprintf("built %s %s in %s", p.name, p.version, time.Since(begun).Round(time.Second)))
	return nil
}

func lock(path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644) //nolint:gosec // a file in the cache of the lab
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { _ = f.Close() }, nil
}

// At is a set of one part in a directory of the caller's, for a place that has no cache: a virtual machine.
func At(name, dir string) Set { return Set{names: []string{name}, dirs: map[string]string{name: dir}} }

// Bin are the directories with programs, in the form of a PATH.
func (s Set) Bin() string {
	var dirs []string
	for _, name := range s.names {
		dirs = append(dirs, filepath.Join(s.dirs[name], "bin"))
	}
	return strings.Join(dirs, string(os.PathListSeparator))
}

// Program is the path of a program: "kube-apiserver", "ovs-vsctl", …
func (s Set) Program(name string) string {
	for _, dir := range filepath.SplitList(s.Bin()) {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return name // let the caller's exec say that it is missing
}

// Schema is the path of an OVSDB schema: "ovn-nb", "ovn-sb", "vswitch".
func (s Set) Schema(name string) string {
	dir := "ovn"
	if name == "vswitch" {
		dir = "openvswitch"
	}
	return filepath.Join(s.dirs["ovn"], "root/usr/share", dir, name+".ovsschema")
}

// Root is the file tree of a part that comes from Debian's packages.
func (s Set) Root(name string) string { return filepath.Join(s.dirs[name], "root") }

// Dir is the directory with the programs of one part.
func (s Set) Dir(name string) string { return filepath.Join(s.dirs[name], "bin") }

// KubeOVNCRDs is the manifest with Kube-OVN's resource definitions.
func (s Set) KubeOVNCRDs() string { return filepath.Join(s.dirs["kube-ovn"], kubeOVNCRDs) }

// BackendCRD is the manifest with the resource definition of Envoy Gateway's Backend.
func (s Set) BackendCRD() string { return filepath.Join(s.dirs["envoy-gateway"], backendCRD) }
