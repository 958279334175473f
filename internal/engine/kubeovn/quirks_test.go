package kubeovn

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/test/page"
)

const root = "../../../"

// The page is what operators read before they upgrade Kube-OVN.
func TestEnginePage(t *testing.T) {
	var b strings.Builder
	fmt.Fprintf(&b, `# Kube-OVN: behaviour that Sallyport works around

Generated from `+"`internal/engine/kubeovn/quirks.go`"+` by `+"`make golden`"+`. The end-to-end tests run Kube-OVN %s; other releases are not
tested. `+"`sallyport status`"+` shows the release that runs in a cluster.

| quirk | what Kube-OVN does | what Sallyport does | seen in | fixed in | Kube-OVN's code | our code | test |
|---|---|---|---|---|---|---|---|
`, TestedVersion)
	for _, q := range Quirks {
		fixed := "–"
		if q.Fixed.IsKnown() {
			fixed = q.Fixed.String()
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | `%s` | `%s` | %s |\n", q.ID, q.Behaviour, q.Handling, q.Seen, fixed,
			q.Upstream, q.Code, q.Test)
	}
	page.Check(t, root+"docs/reference/engine.md", b.String())
}

// A row of the table that names code or a test that no longer exists is wrong.
func TestQuirksNameWhatExists(t *testing.T) {
	tests, err := exec.Command("grep", "-rhoE", `^func Test[A-Za-z0-9]+`, root+"test/e2e").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, q := range Quirks {
		if seen[q.ID] {
			t.Errorf("quirk %s is there twice", q.ID)
		}
		seen[q.ID] = true
		if !strings.Contains(string(tests), "func "+q.Test+"\n") {
			t.Errorf("quirk %s: there is no end-to-end test %s", q.ID, q.Test)
		}
		file, function, _ := strings.Cut(q.Code, " ")
		source, err := os.ReadFile(root + file)
		if err != nil {
			t.Errorf("quirk %s: %v", q.ID, err)
			continue
		}
		declared := regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + regexp.QuoteMeta(function) + `\(`)
		if function != "" && !declared.Match(source) {
			t.Errorf("quirk %s: %s has no function %s", q.ID, file, function)
		}
	}
}

func TestQuirksEndWithTheReleaseThatFixesThem(t *testing.T) {
	q := Quirk{Seen: Version{1, 16, 2}, Fixed: Version{1, 17, 0}}
	for _, c := range []struct {
		version Version
		applies bool
	}{{Version{}, true}, {Version{1, 16, 2}, true}, {Version{1, 17, 0}, false}, {Version{2, 0, 0}, false}} {
		if q.AppliesTo(c.version) != c.applies {
			t.Errorf("to %s it applies: %t", c.version, !c.applies)
		}
	}
	if all := QuirksOf(TestedVersion); len(all) != len(Quirks) {
		t.Errorf("%d of %d quirks apply to the release that is tested", len(all), len(Quirks))
	}
}

func TestParseImageVersion(t *testing.T) {
	for image, want := range map[string]string{
		"docker.io/kubeovn/kube-ovn:v1.16.2":            "1.16.2",
		"registry.example:5000/kube-ovn:v1.15.0-x86":    "1.15.0",
		"kubeovn/kube-ovn:v1.16.2@sha256:0123456789":    "1.16.2",
		"kubeovn/kube-ovn@sha256:0123456789":            "unknown",
		"registry.example:5000/kube-ovn":                "unknown",
		"kubeovn/kube-ovn:latest":                       "unknown",
		"kubeovn/kube-ovn:v1.16":                        "unknown",
		"kubeovn/kube-ovn:v99999999999999999999.1.1":    "unknown",
		"kubeovn/kube-ovn:v1.16.2\x1b[31m":              "unknown",
		"kubeovn/kube-ovn:v-1.16.2":                     "unknown",
		"docker.io/kubeovn/kube-ovn:v1.16.2.something.": "unknown",
		"": "unknown",
	} {
		if got, _ := ParseImageVersion(image); got.String() != want {
			t.Errorf("%q is read as %s, want %s", image, got, want)
		}
	}
}
