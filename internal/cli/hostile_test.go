package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/clusterstate/clusterstatetest"
)

// hostileText tries to control an operator's terminal or to fake output: it clears the screen, sets the title, reverses
// the direction of text and forges a line. It has one member of each family of such characters, as UTF-8 and as a byte.
const hostileText = "\x1b[2J\x1b[H\x1b]0;pwned\x07\u009b31m\x7f\u0085\u200f\u202e\u2066\r\nFORGED: 0 errors\x00"

// enumFields are fields with values that code depends on. Users who write objects do not choose them.
var enumFields = []string{
	"Kind", "Type", "Status", "Protocol", "Scope", "System", "Action", "Verdict", "Method",
	"Return", "Phase", "ReturnPath",
}

// poisonTexts appends hostile text to every text of a survey that users can write, and to names of labels and
// annotations.
func poisonTexts(value any, field string) any {
	switch v := value.(type) {
	case string:
		if v == "" || slices.Contains(enumFields, field) || isParsedValue(v) {
			return v
		}
		return v + hostileText
	case []any:
		for i := range v {
			v[i] = poisonTexts(v[i], field)
		}
		return v
	case map[string]any:
		named := slices.Contains([]string{"Labels", "Annotations", "Selector"}, field)
		for key, old := range v {
			if named {
				delete(v, key)
				key += hostileText
			}
			v[key] = poisonTexts(old, key)
		}
		return v
	default:
		return v
	}
}

// isParsedValue reports whether a text is that of a value which is parsed when a survey is read.
func isParsedValue(text string) bool {
	_, address := netip.ParseAddr(text)
	_, prefix := netip.ParsePrefix(text)
	_, port := netip.ParseAddrPort(text)
	_, moment := time.Parse(time.RFC3339, text)
	_, mac := net.ParseMAC(text)
	return address == nil || prefix == nil || port == nil || moment == nil || mac == nil
}

// writePoisonedSurvey writes the survey of a cluster with hostile tenants to a file. If only is not empty, just the
// texts of these fields are hostile.
func writePoisonedSurvey(t *testing.T, s *clusterstate.State, only ...string) string {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var value map[string]any
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatal(err)
	}
	if len(only) == 0 {
		poisonTexts(value, "")
	} else {
		poisonFields(value, only)
	}
	if raw, err = json.Marshal(value); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "survey.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func poisonFields(value any, only []string) {
	switch v := value.(type) {
	case []any:
		for i := range v {
			poisonFields(v[i], only)
		}
	case map[string]any:
		for key, old := range v {
			if slices.Contains(only, key) {
				v[key] = poisonTexts(old, key)
			} else {
				poisonFields(old, only)
			}
		}
	}
}

// expectVisible fails the test if a text contains terminal control characters or a forged line.
func expectVisible(t *testing.T, what, text string) {
	t.Helper()
	for _, r := range text {
		hidden := r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r <= 0x9f || r == 0x200e || r == 0x200f ||
			r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0xfffd
		if hidden {
			t.Errorf("%s has %U: %.200q", what, r, text[strings.IndexRune(text, r):])
			break
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "FORGED") {
			t.Errorf("%s has the line %.100q", what, line)
			break
		}
	}
}

// commandsFor returns commands about a cluster and some of its objects, in every output format.
func commandsFor(s *clusterstate.State) (out [][]string) {
	for _, o := range s.Cluster.Objects() {
		if len(out) < 400 {
			out = append(out, []string{"explain", "-v", o.Kind + "/" + o.Name, "-n", o.Namespace})
		}
	}
	out = append(out,
		[]string{"plan"}, []string{"survey"}, []string{"map"}, []string{"map", "-o", "svg"},
		[]string{"map", "-o", "md"}, []string{"map", "-o", "json"},
		[]string{"map", "globex/prod"}, []string{"map", "globex/prod", "-o", "svg"},
		[]string{"explain", "198.18.0.102"}, []string{"explain", "none/such"})
	for _, format := range []string{formatText, formatJSON, formatYAML} {
		for _, command := range []string{
			"status", "doctor", "top", "explain svc",
			"trace 203.0.113.10 198.18.0.102:22 -v", "explain node/node1 -v",
		} {
			out = append(out, append(strings.Fields(command), "-o", format))
		}
	}
	return out
}

// Whatever tenants write, commands print plain text without forged lines, in every format.
func TestHostileTextIsVisible(t *testing.T) {
	s := clusterstatetest.GenerateCluster(3)
	free := []string{
		"Message", "Reason", "Waiting", "Problem", "Holder", "Annotations", "Labels", "Selector", "Class",
		"Hosts", "Listeners", "Target", "Text", "Version",
	}
	for name, file := range map[string]string{
		"texts":      writePoisonedSurvey(t, s, free...),
		"everything": writePoisonedSurvey(t, s),
	} {
		t.Run(name, func(t *testing.T) {
			seen := 0
			for _, args := range commandsFor(s) {
				out, err := combinedOutput(t, append(args, "--survey", file)...)
				expectVisible(t, strings.Join(args, " "), out)
				if strings.Contains(out, "u001b") {
					seen++
				}
				if err != nil && strings.Contains(err.Error(), "not a survey") {
					t.Fatal(err)
				}
			}
			if seen < 8 {
				t.Errorf("only %d commands print what tenants wrote: this shows little", seen)
			}
		})
	}
}

// combinedOutput returns everything that a command prints: output, warnings and its error.
func combinedOutput(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := New("test")
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(t.Context())
	if err != nil {
		PrintError(&out, err)
	}
	return out.String(), err
}

// The text files of a bundle are also read in terminals.
func TestHostileTextInABundleIsVisible(t *testing.T) {
	bundle := filepath.Join(t.TempDir(), "bundle.tar.gz")
	_, _ = combinedOutput(t, "doctor", "--survey", writePoisonedSurvey(t, clusterstatetest.GenerateCluster(2)), "--bundle",
		bundle)
	raw, err := os.ReadFile(bundle)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for archive := tar.NewReader(packed); ; files++ {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		expectVisible(t, header.Name, string(text))
	}
	if files != 7 {
		t.Errorf("the bundle has %d files, want 7", files)
	}
}

// Manifests may come from a tenant too.
func TestHostileManifestIsVisible(t *testing.T) {
	file := filepath.Join(t.TempDir(), "eip.yaml")
	const manifest = `{"apiVersion": "kube-dc.com/v1", "kind": "Project", "metadata": {"name": "shop", "namespace": "acme"}, "spec": {"cidrBlock": "10.0.0.0/24"}}
---
{"apiVersion": "kube-dc.com/v1", "kind": "FIp", "metadata": {"name": "f", "namespace": "acme-shop"},
"spec": {"eip": "x\u001b[2J\nFORGED", "podTarget": {"podName": "p\u202e\nFORGED"}}}`
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := combinedOutput(t, "plan", "--offline", "-f", file)
	expectVisible(t, "plan -f", out)
	if !strings.Contains(out, "u001b") && !strings.Contains(out, "x1b") {
		t.Errorf("it does not say what is wrong with the name: %s", out)
	}
}

// On a terminal, the colours of commands pass, and no other sequence.
func TestScreenLetsColoursThroughOnly(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		var out bytes.Buffer
		s := &safeWriter{out: &out, terminal: terminal}
		text := colorizer(terminal).red("bad") + "\x1b[2J\x1b[5m\n"
		for _, b := range []byte(text + "✗ \u009b\xff.") { // byte by byte
			if n, err := s.Write([]byte{b}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		want := "bad" + `\u001b[2J\u001b[5m` + "\n✗ " + `\u009b\u00ff.`
		if terminal {
			want = `\u001b[31mbad\u001b[0m` + want[3:] // a sequence that is split across writes is escaped
		}
		if got := out.String(); got != want {
			t.Errorf("terminal %t: got %q, want %q", terminal, got, want)
		}
		out.Reset()
		s.clearTerminal()
		s.eraseLine()
		if _, err := s.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		want = "bad" + `\u001b[2J\u001b[5m` + "\n"
		if terminal {
			want = "\x1b[H\x1b[2J\r\x1b[K\x1b[31mbad\x1b[0m" + want[3:]
		}
		if got := out.String(); got != want {
			t.Errorf("terminal %t: got %q, want %q", terminal, got, want)
		}
	}
}
