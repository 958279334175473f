package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/model/clusterstate/clusterstatetest"
)

// runMap returns the output of map with these arguments.
func runMap(t *testing.T, args ...string) (string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "survey.json")
	var raw bytes.Buffer
	if err := clusterstatetest.GenerateCluster(5).Write(&raw); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := New("test")
	cmd.SetArgs(append([]string{"map", "--survey", path}, args...))
	cmd.SetOut(&out)
	err := cmd.Execute()
	return out.String(), err
}

func TestMapFormats(t *testing.T) {
	for _, c := range []struct {
		args  []string
		wants []string
	}{
		{nil, []string{"acme-prod", "umbrella-prod", "100.65.0.103", "vm-gone"}},
		{[]string{"initech-prod"}, []string{"packet paths", "return port of ext-public"}},
		{[]string{"-o", "svg", "--theme", "dark"}, []string{"<svg ", "acme-prod", "</svg>"}},
		{[]string{"-o", "md"}, []string{"# The network of metro-1", "## Known issues", "| `acme-prod` |"}},
		{[]string{"initech/prod", "-o", "json"}, []string{`"focus": "initech-prod"`, `"networks": [`}},
	} {
		text, err := runMap(t, c.args...)
		if err != nil {
			t.Errorf("%v: %v", c.args, err)
		}
		for _, want := range c.wants {
			if !strings.Contains(text, want) {
				t.Errorf("%v: %q is not in it", c.args, want)
			}
		}
	}
}

func TestMapRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"use auto, light or dark":         {"-o", "svg", "--theme", "pink"},
		"use text":                        {"-o", "png"},
		"always covers the whole cluster": {"acme-prod", "-o", "md"},
		"there is no project":             {"nobody"},
	} {
		if _, err := runMap(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}
