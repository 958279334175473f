package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/lab/parts"
	"github.com/sallyport/sallyport/test/page"
)

// testedVersion is a row of the support matrix.
type testedVersion struct {
	what, version string
	// themes are where tests run it; empty: every theme. Test is the one to read first.
	themes []string
	test   string
	how    string // in which form the tests run it
}

// listTestedVersions returns the programs that Sallyport works with, as the tests run them.
func listTestedVersions(t *testing.T) []testedVersion {
	t.Helper()
	return []testedVersion{
		{
			"Kubernetes: API server, controller manager, scheduler", parts.KubernetesVersion, nil, "TestCore1ByPackets",
			"processes of a lab",
		},
		{"Kubernetes: kubelet", parts.KubernetesVersion, []string{"real"}, "TestReal1Nodes", "real nodes"},
		{"Kube-OVN: controller", parts.KubeOVNVersion, nil, "TestCore1ByPackets", "a process of a lab"},
		{"Kube-OVN: daemon and CNI plugin", parts.KubeOVNVersion, []string{"real"}, "TestReal1Nodes", "real nodes"},
		{
			"OVN, and the Open vSwitch that Debian has with it", parts.OVNVersion, nil, "TestCore1ByPackets",
			"Debian's packages, userspace datapath",
		},
		{
			"OVN, upgraded from " + parts.OVNVersion + " under traffic", parts.NextOVNVersion,
			[]string{"real"},
			"TestReal5Upgrades", "Debian's packages, with the Open vSwitch of the older version",
		},
		{
			"Virtual machines that move between nodes", "QEMU " + parts.QEMUVersion,
			[]string{"real"},
			"TestReal6Migration", "Debian's package, without KubeVirt's programs",
		},
		{
			"OVN's databases as a cluster of three", parts.OVNVersion,
			[]string{"lab"},
			"TestLab4RaftLeaderDiesAndNoWriteIsLost",
			"Debian's packages",
		},
		{
			"Open vSwitch's kernel datapath", "Linux " + strings.Join(parts.Kernels(), " and "),
			[]string{"real"},
			"TestReal4KernelDatapath", "virtual machines",
		},
		{
			"Kernel of nodes with NodePaths", "Linux " + strings.Join(parts.Kernels(), " and "),
			[]string{"nodes", "platform"},
			"TestAgent2VRF", "virtual machines",
		},
		{"containerd", parts.ContainerdVersion, []string{"real"}, "TestReal2Chart", "real nodes"},
		{"runc", parts.RuncVersion, []string{"real"}, "TestReal2Chart", "real nodes"},
		{
			"Envoy Gateway: the kind Backend", parts.EnvoyVersion,
			[]string{"loadbalancer"},
			"TestBalancer1Features",
			"its CustomResourceDefinition",
		},
		{
			"HAProxy, as a proxy before tenants", parts.HAProxyVersion,
			[]string{"loadbalancer"},
			"TestBalancer1Features",
			"Debian's package",
		},
		{"FRR, as the BGP router of an uplink", parts.FRRVersion, []string{"nodes"}, "TestUplinkBGP", "Debian's package"},
		{"Helm", findText(t, "tools/helm/go.mod", helmModule), []string{"install"}, "TestChart", "built from its module"},
		{"Prometheus", "of Debian 12", []string{"install"}, "TestMonitoringInPrometheus", "Debian's package"},
	}
}

var (
	helmModule  = regexp.MustCompile(`helm\.sh/helm/v\d+ v([0-9.]+)`)
	ciThemes    = regexp.MustCompile(`(?m)^themes=\((.*)\)$`)
	kubeVersion = regexp.MustCompile(`(?m)^kubeVersion: "([^"]+)"`)
)

// The support matrix is made from what the tests run.
func TestSupportMatrix(t *testing.T) {
	inCI := strings.Fields(findText(t, "test/e2e/run", ciThemes))
	var out strings.Builder
	out.WriteString(`# Versions that are tested

What the tests run, made from their code by ` + "`make golden`" + `. Other versions may work; nobody has shown it. CI
runs all [themes](../../test/e2e/README.md) of the end-to-end tests on every change, except ` + "`real`" + `, which ` + "`make nightly`" + `
and ` + "`make show-real`" + ` run.

| program | version | in the form of | CI | for example |
|---|---|---|---|---|
`)
	for _, v := range listTestedVersions(t) {
		themes := v.themes
		if len(themes) == 0 {
			themes = inCI
		}
		for _, theme := range themes {
			if !hasTheme(t, theme) {
				t.Errorf("%s: there is no theme %s", v.what, theme)
			}
		}
		if !slices.ContainsFunc(themes, func(theme string) bool { return hasTest(t, theme, v.test) }) {
			t.Errorf("%s: no theme of %v has the test %s", v.what, themes, v.test)
		}
		ran := "no"
		if slices.ContainsFunc(themes, func(theme string) bool { return slices.Contains(inCI, theme) }) {
			ran = "yes"
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s | `%s` |\n", v.what, v.version, v.how, ran, v.test)
	}
	fmt.Fprintf(&out, `
- **Kubernetes.** The chart refuses versions other than %s, the first with the admission policies that it
  needs. Only the version above was run.
- **OVN 26.03.** A lab runs it with `+"`SALLYPORT_OVN=26.03`"+`. The return path was shown with it, by
  hand, and the upgrade to it by `+"`make show-real`"+`. CI does not run it.
- **Processors.** Images and programs are built for amd64 and arm64. Only amd64 was run.
- **KubeVirt.** Its programs were not run. Tests have its kinds, whose objects they write, pods in the place of virtual
  machines, and in `+"`TestReal6Migration`"+` QEMU guests that move as with KubeVirt's live migration.
- **Open vSwitch with DPDK or hardware offload** was not run; see [the kernel's datapath](kernel-datapath.md).

Before you upgrade Kube-OVN, read [the behaviour of it that Sallyport works around](engine.md). What else was not tested
is in the [limits](../limits.md).
`, "`"+findText(t, "charts/sallyport/Chart.yaml", kubeVersion)+"`")
	page.Check(t, filepath.Join(root, "docs/reference/support.md"), out.String())
}

// findText returns the first group of a pattern in a file.
func findText(t *testing.T, file string, pattern *regexp.Regexp) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	found := pattern.FindSubmatch(raw)
	if found == nil {
		t.Fatalf("%s has nothing like %s", file, pattern)
	}
	return string(found[1])
}

func hasTheme(t *testing.T, theme string) bool {
	t.Helper()
	info, err := os.Stat(filepath.Join(root, "test/e2e", theme))
	return err == nil && info.IsDir()
}

// hasTest reports whether a theme has a test.
func hasTest(t *testing.T, theme, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "test/e2e", theme, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		raw, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(raw), "\nfunc "+test+"(")
	})
}
