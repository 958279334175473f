package architecture

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"strings"
	"testing"
)

// The layers of the import rule, as patterns of directories.
const (
	purePackages   = `internal/(model|compile|engine/kubeovn|insight/(adoption|diagnosis|explain|preflight|topology|trace|usage))`
	kube           = `internal/engine/kube`
	ovn            = `internal/engine/ovn`
	kernel         = `internal/engine/kernel`
	probe          = `internal/engine/probe`
	vswitch        = `internal/engine/openvswitch`
	ioPackages     = `internal/engine/(kube|ovn|kernel|probe|openvswitch)`
	wiringPackages = `internal/(controller|agent|cli|lab|insight/(collector|selftest|ui))`
)

// importRule is one forbidden kind of import: packages in from, those in save excepted, may not import what matches to,
// except for what matches but. Ours are written as directories ("internal/engine/kube"), others as import paths.
type importRule struct{ from, exempt, to, except, why string }

const (
	ownPackages  = `(api|cmd|internal|test)`
	otherModules = `[^/]+\.[^/]+/.*` // of another module: its first element has a dot
	golangX      = `golang\.org/x`
)

var importRules = []importRule{
	{
		from:   purePackages,
		to:     otherModules,
		except: `go4\.org/netipx`,
		why:    "pure packages import the standard library, netipx, api/ and pure packages, so that they can be read and tested alone",
	},
	{
		from:   purePackages,
		to:     ownPackages,
		except: `api|` + purePackages,
		why:    "arrows point down: a pure package sees no I/O and no wiring",
	},
	{
		from: purePackages,
		to:   `os|net/http|syscall`,
		why:  "pure packages are values in, values out; read and write in an I/O package",
	},
	{
		from:   purePackages,
		to:     `net`,
		except: `net/netip|net/url`,
		why:    "pure packages open no sockets; addresses are net/netip values",
	},
	{from: purePackages, to: `log`, why: "pure packages return verdicts and errors; the runner logs"},
	{from: purePackages, to: `math/rand|crypto/rand`, why: "same input, same bytes: names are derived, not generated"},

	{
		from:   kube,
		to:     otherModules,
		except: golangX + `|k8s\.io|sigs\.k8s\.io`,
		why:    "kube speaks Kubernetes and nothing else",
	},
	{
		from: kube,
		to:   `sigs\.k8s\.io/knftables`,
		why:  "nftables are kernel's, though the library lives among those of Kubernetes",
	},
	{
		from:   ovn,
		to:     otherModules,
		except: golangX + `|github\.com/ovn-kubernetes/libovsdb`,
		why:    "ovn speaks OVSDB and nothing else",
	},
	{
		from:   kernel,
		to:     otherModules,
		except: golangX + `|github\.com/vishvananda|sigs\.k8s\.io/knftables`,
		why:    "kernel speaks netlink and nftables and nothing else",
	},
	{from: probe, to: otherModules, except: golangX, why: "probe sends packets and needs sockets only"},
	{
		from:   vswitch,
		to:     otherModules,
		except: golangX,
		why:    "openvswitch asks on sockets of the node and needs nothing else",
	},

	{
		from:   kube,
		to:     ioPackages,
		except: kube,
		why:    "an I/O package never imports another: only wiring sees two systems",
	},
	{from: ovn, to: ioPackages, except: ovn, why: "an I/O package never imports another: only wiring sees two systems"},
	{
		from:   kernel,
		to:     ioPackages,
		except: kernel,
		why:    "an I/O package never imports another: only wiring sees two systems",
	},
	{
		from:   probe,
		to:     ioPackages,
		except: probe,
		why:    "an I/O package never imports another: only wiring sees two systems",
	},
	{
		from:   vswitch,
		to:     ioPackages,
		except: vswitch,
		why:    "an I/O package never imports another: only wiring sees two systems",
	},
	{
		from: ioPackages,
		to:   `internal/compile`,
		why:  "decide in compile, act in targets: a target gets its intent as a value",
	},
	{from: ioPackages, to: wiringPackages + `|cmd|test`, why: "arrows point down: wiring imports the I/O packages"},

	{
		from:   `api`,
		to:     ownPackages,
		except: `api`,
		why:    "api/ is imported by other people's programs and brings nothing of ours along",
	},
	{
		from:   `internal`,
		exempt: `internal/(cli|lab)`,
		to:     `internal/lab`,
		why:    "the product does not know its laboratory",
	},
	{
		from: `internal/lab`,
		to:   `internal/(controller|agent|cli)`,
		why:  "the lab has to show the problem with nothing of ours running",
	},
	{from: `internal`, to: `cmd|test`, why: "arrows point down: programs and tests are at the top"},
}

// importViolation says why from may not import to, or nothing.
func importViolation(from, to string) string {
	for _, e := range importRules {
		if matchesPath(e.from, from) && !matchesPath(e.exempt, from) && matchesPath(e.to, to) &&
			!matchesPath(e.except, to) {
			return e.why
		}
	}
	return ""
}

// matchesPath says whether a path is, or lies below, what the pattern names.
func matchesPath(pattern, path string) bool {
	return pattern != "" && regexp.MustCompile(`^(`+pattern+`)(/|$)`).MatchString(path)
}

func TestImportRule(t *testing.T) {
	for _, u := range parseTree(t) {
		for _, imported := range u.importPaths() {
			to := strings.TrimPrefix(imported, module+"/")
			if why := importViolation(u.dir, to); why != "" {
				t.Errorf("%s imports %s: %s", u.dir, to, why)
			}
		}
	}
}

// The rule has to catch what it forbids before most of the packages it speaks of exist.
func TestImportRuleCatches(t *testing.T) {
	for _, c := range []struct {
		from, to string
		refused  bool
	}{
		{"internal/compile", "net/netip", false},
		{"internal/compile", "net", true},
		{"internal/compile", "go4.org/netipx", false},
		{"internal/compile", "os/exec", true},
		{"internal/compile", "log/slog", true},
		{"internal/compile", "math/rand/v2", true},
		{"internal/compile", "k8s.io/client-go/kubernetes", true},
		{"internal/compile", "api/kubedc/v1", false},
		{"internal/compile", "internal/model/snapshot", false},
		{"internal/compile", "internal/engine/kubeovn", false},
		{"internal/compile", "internal/engine/kube", true},
		{"internal/model/state/statetest", "internal/controller/runner", true},

		{"internal/engine/kube", "k8s.io/client-go/kubernetes", false},
		{"internal/engine/kube", "sigs.k8s.io/knftables", true},
		{"internal/engine/kube", "github.com/vishvananda/netlink", true},
		{"internal/engine/kube", "internal/engine/kubeovn", false},
		{"internal/engine/kube", "internal/engine/ovn/nb", true},
		{"internal/engine/kube", "internal/compile", true},
		{"internal/engine/ovn", "github.com/ovn-kubernetes/libovsdb/client", false},
		{"internal/engine/ovn", "internal/engine/ovn/nb", false},
		{"internal/engine/ovn", "k8s.io/api/core/v1", true},
		{"internal/engine/kernel", "github.com/vishvananda/netlink", false},
		{"internal/engine/kernel", "sigs.k8s.io/knftables", false},
		{"internal/engine/kernel", "internal/engine/probe", true},
		{"internal/engine/probe", "golang.org/x/net/icmp", false},
		{"internal/engine/probe", "internal/engine/kernel", true},
		{"internal/engine/openvswitch", "github.com/ovn-kubernetes/libovsdb/client", true},
		{"internal/engine/openvswitch", "internal/engine/ovn", true},
		{"internal/engine/kernel", "internal/lab/netns", true},

		{"internal/controller", "internal/engine/kube", false},
		{"internal/controller", "internal/lab", true},
		{"internal/something", "internal/lab/netns", true},
		{"internal/cli", "internal/lab", false},
		{"internal/lab/daemon", "internal/lab/netns", false},
		{"internal/lab/daemon", "internal/agent", true},
		{"cmd/sallyport", "internal/lab/daemon", false},
		{"test/e2e", "internal/lab", false},
		{"api/kubedc/v1", "internal/engine/kubeovn", true},
		{"api/kubedc/v1", "k8s.io/apimachinery/pkg/apis/meta/v1", false},
	} {
		t.Run(fmt.Sprintf("%s to %s", c.from, c.to), func(t *testing.T) {
			if why := importViolation(c.from, c.to); (why != "") != c.refused {
				t.Errorf("refused: %t (%q), want %t", why != "", why, c.refused)
			}
		})
	}
}

// `make test` runs pure packages without the race detector.
func TestPurePackagesStartNoGoroutines(t *testing.T) {
	seen := 0
	for _, f := range productionFiles(t) {
		if !matchesPath(purePackages, path.Dir(f.path)) {
			continue
		}
		seen++
		ast.Inspect(f.file, func(n ast.Node) bool {
			if start, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s: a pure package starts a goroutine", f.fset.Position(start.Pos()))
			}
			return true
		})
	}
	if seen == 0 {
		t.Error("no file of a pure package was read")
	}
}
