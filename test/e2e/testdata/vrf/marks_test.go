package vrf

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	kubedcv1alpha1 "github.com/sallyport/sallyport/api/kubedc/v1alpha1"
	"github.com/sallyport/sallyport/internal/engine/kernel"
	"github.com/sallyport/sallyport/internal/model/nodepath"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// steered is a network with a VRF and one way into it. Connection needs no Services.
func steered(steering kubedcv1alpha1.NodeSteering, legs bool) nodepath.Spec {
	out := spec(legs)
	out.Networks[0].Steering = steering
	if steering == kubedcv1alpha1.SteerByConnection {
		out.Networks[0].Services = nil
	}
	return out
}

// TestMarks shows every way into a VRF by marks, where every interface has a strict rp_filter. Without the mark rule the
// client gets no answer, so it is the marks that route replies.
func TestMarks(t *testing.T) {
	w := build(t)
	load(t, "vrf")
	// Connections that were opened in vain leave nothing behind: a connection that is older than the rules is marked with
	// its next packet from the client, and until then replies leave by the default.
	if err := w.pod.Sysctl(map[string]string{"ipv4/tcp_synack_retries": "0"}); err != nil {
		t.Fatal(err)
	}
	t.Run("without anything", func(t *testing.T) { w.without(t) })
	w.filter(t, "1")
	before, dir := found(t, w), filepath.Join(t.TempDir(), "run")
	for _, legs := range []bool{false, true} {
		for _, steering := range []kubedcv1alpha1.NodeSteering{
			kubedcv1alpha1.SteerByMark, kubedcv1alpha1.SteerByConnection,
		} {
			t.Run(fmt.Sprintf("%s legs %v", steering, legs), func(t *testing.T) {
				wanted := steered(steering, legs)
				w.carries(t, dir, wanted)
				w.with(t)
				w.unmarked(t)
				w.carries(t, dir, wanted)
				w.clients(t)
				w.named(t, legs)
				w.carries(t, dir, nodepath.Spec{})
				same(t, before, found(t, w))
			})
		}
	}
}

// unmarked takes away the rules for marks. Then the client gets no answer, though the VRF is there.
func (w *world) unmarked(t *testing.T) {
	t.Helper()
	pref := fmt.Sprintf("pref %d", ownership.NodeRuleMark)
	ip(t, w.node, "rule del "+pref+"\n-6 rule del "+pref)
	each(func(network string, v6 bool) {
		to := port(by(v6, outside, outside6), servicePort)
		if _, answer, err := askOnce(t.Context(), w.client, network, "", to); err == nil {
			t.Errorf("the client got the answer %q over %s without the rule for marks", answer, network)
		}
	})
}

// named shows that ip knows the tables by name, and that other files are as they were.
func (w *world) named(t *testing.T, legs bool) {
	t.Helper()
	if out := ip(t, w.node, "route show table sp-net-7 default"); !strings.Contains(out, "default via 172.16.1.1 dev eth1") {
		t.Errorf("the table by its name has:\n%s", out)
	}
	rules := ip(t, w.node, "rule show")
	if want := map[bool]string{false: "lookup sp-net-7", true: "lookup sp-leg-7"}[legs]; !strings.Contains(rules, want) {
		t.Errorf("no rule is shown with %q:\n%s", want, rules)
	}
	if text, err := os.ReadFile(foreignNames); err != nil || string(text) != "200 device1\n" {
		t.Errorf("the administrator's file has %q (%v)", text, err)
	}
}

// foreignNames is a file of the administrator's with names of tables.
var foreignNames = filepath.Join(kernel.TableNamesDir, "admin.conf")

// nameForeign writes the administrator's names.
func nameForeign(t *testing.T) {
	t.Helper()
	if err := os.MkdirAll(kernel.TableNamesDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(foreignNames, []byte("200 device1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// nameFiles returns the files with names of tables and their content.
func nameFiles(t *testing.T) (out string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(kernel.TableNamesDir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files with names: %v", err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out += f + " " + string(text)
	}
	return out
}
