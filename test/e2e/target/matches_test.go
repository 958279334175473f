package target

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/engine/kubeovn"
	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

// goldenMatch finds the match in a row of a golden case of compile.
var goldenMatch = regexp.MustCompile(
	`^  (?:ACL \S+ \d+ \d+|Logical_Router_Policy \d+|policyRoutes \d+|QoS \S+ \d+|NAT snat \S+ by \S+) (.+) → `)

// namedSet finds the address sets and port groups that a match refers to. ovn-controller refuses a match with an unknown
// one.
var namedSet = regexp.MustCompile(`([$@])([A-Za-z_.][A-Za-z_.0-9]*)`)

// TestMatchesAreParsedByOVN gives every match of the golden cases of compile to a real ovn-controller. OVN only logs a
// match that it cannot parse and continues without the rule, so nothing else would notice.
func TestMatchesAreParsedByOVN(t *testing.T) {
	matches := goldenMatches(t)
	if len(matches) < 50 {
		t.Fatalf("only %d matches found in the golden cases", len(matches))
	}
	blue := blueprint.Default()
	blue.Nodes, blue.Gateways, blue.Networks, blue.Uplinks = 1, 0, nil, nil
	c := harness.StartLab(t, "matches", blue)
	c.RunPod(t, harness.Pod{Namespace: "default", Name: "any", Node: "node1"}) // so that node1 reads the switch's flows

	const podSwitch = "ovn-default"
	args, sets := []string{}, map[string]bool{}
	for i, match := range matches {
		for _, m := range namedSet.FindAllStringSubmatch(match, -1) {
			switch {
			case sets[m[0]]:
			case m[1] == "$":
				args = append(args, "--", "create", "address_set", "name="+m[2], "addresses=10.1.2.3")
			default:
				args = append(args, "--", "pg-add", m[2], kubeovn.PodPort("any", "default")) // an empty group is unknown to nodes
			}
			sets[m[0]] = true
		}
		direction := "from-lport"
		if strings.Contains(match, "outport") {
			direction = "to-lport"
		}
		args = append(args, "--", "acl-add", podSwitch, direction, fmt.Sprint(i+1), match, "allow")
	}
	c.RunNbctl(t, args[1:]...)
	c.SyncFlows(t)
	if refused := refusedMatches(t, c); len(refused) > 0 {
		t.Errorf("ovn-controller cannot parse:\n%s", strings.Join(refused, "\n"))
	}
	t.Logf("%d matches, %d address sets and port groups", len(matches), len(sets))

	// Control: a match that is not one is noticed.
	c.RunNbctl(t, "acl-add", podSwitch, "from-lport", "32000", "ip4.src == nonsense", "drop")
	c.SyncFlows(t)
	harness.Eventually(t, "ovn-controller refuses a match that is not one", func() bool {
		return len(refusedMatches(t, c)) > 0
	})
}

// goldenMatches returns the different matches of all golden cases.
func goldenMatches(t *testing.T) (out []string) {
	t.Helper()
	files, err := filepath.Glob("../../../internal/compile/testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if m := goldenMatch.FindStringSubmatch(line); m != nil && !seen[m[1]] {
				seen[m[1]] = true
				out = append(out, m[1])
			}
		}
	}
	return out
}

// refusedMatches returns the lines in which the node's ovn-controller complains about a match.
func refusedMatches(t *testing.T, c *harness.Cluster) (out []string) {
	t.Helper()
	text, err := os.ReadFile(c.Log("node1-ovn-controller"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "error parsing match") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}
