package nodehealth

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestConfigFile(t *testing.T) {
	const name, port = "egressip-reachability-total-timeout", "egressip-node-healthcheck-port"
	for what, c := range map[string]struct {
		text      string
		flags     []string
		want      string // timeout and port
		wantError string
	}{
		"as in OVN-Kubernetes' documentation": {
			text: "[ovnkubernetesfeature]\negressip-reachability-total-timeout=123\negressip-node-healthcheck-port=9107\n",
			want: "123 9107",
		},
		"only one, with comments, spaces and other sections": {
			text: "[default]\n" + name + "=7\n# [x]\n[ OvnKubernetesFeature ]\n;" + port + "=1\n enable-egress-ip = true\n " +
				port + " = \"9107\"\n[gateway]\n" + port + "=2",
			want: "1 9107",
		},
		"a flag wins":     {text: "[ovnkubernetesfeature]\n" + name + "=123", flags: []string{"--" + name + "=5"}, want: "5 0"},
		"nothing of ours": {text: "[gateway]\nmode=shared", want: "1 0"},
		"no number": {
			text: "[ovnkubernetesfeature]\n" + name + "=soon", wantError: "[ovnkubernetesfeature] " + name + "=soon",
		},
	} {
		path := filepath.Join(t.TempDir(), "ovn.conf")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.Int(name, 1, "")
		f.Int(port, 0, "")
		if err := f.Parse(c.flags); err != nil {
			t.Fatal(err)
		}
		err := ApplyConfigFile(path, f)
		got := f.Lookup(name).Value.String() + " " + f.Lookup(port).Value.String()
		switch {
		case c.wantError != "":
			if err == nil || !strings.Contains(err.Error(), c.wantError) {
				t.Errorf("%s: the error is %v, wanted %q", what, err, c.wantError)
			}
		case err != nil || got != c.want:
			t.Errorf("%s: %s (%v), wanted %s", what, got, err, c.want)
		}
	}
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	if err := ApplyConfigFile(filepath.Join(t.TempDir(), "none"), f); err == nil {
		t.Error("a file that does not exist is accepted")
	}
	if err := ApplyConfigFile("", f); err != nil {
		t.Error(err)
	}
}
