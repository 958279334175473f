package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/engine/ovn"
	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/insight/trace"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/clusterstate/clusterstatetest"
	"github.com/sallyport/sallyport/internal/model/state"
)

// runTrace runs the command on a cluster of five projects.
func runTrace(t *testing.T, args ...string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "survey.json")
	if err := writePrivateFile(file, clusterstatetest.GenerateCluster(5).Write); err != nil {
		t.Fatal(err)
	}
	return runCommand(t, append([]string{"trace", "--survey", file}, args...)...)
}

func TestTraceTells(t *testing.T) {
	for _, c := range []struct {
		what, args string
		code       int
		says       []string
	}{
		{"a load balancer, there and back", "203.0.113.9 100.65.0.103:443", 0, []string{
			"203.0.113.9 → 100.65.0.103:443  tcp\n\nThere\n", "203.0.113.9 → 10.0.0.10:8443\n", "\nBack\n",
			"Delivered to 10.0.0.10:8443, which sees 203.0.113.9; by network ext-cloud\n  likewise by Pod acme-prod/web-1\n",
		}},
		{
			"a port that it has not", "203.0.113.9 100.65.0.103:25", 1,
			[]string{
				"Dropped: no load balancer or NAT entry serves port 25/tcp of 100.65.0.103",
				"\nCause: NoSuchPort Service acme-prod/web\n  → ",
			},
		},
		{
			"an address of nobody", "203.0.113.9 192.0.2.77:80", 1,
			[]string{"Unknown: ", "\nCause: AddressUnknown\n  → "},
		},
		{
			"a pod", "--from pod/web-0 -n acme-prod 192.0.2.1:443", 0,
			[]string{"pod acme-prod/web-0 → 192.0.2.1:443", "which sees 100.65.0.102; by network ext-cloud"},
		},
		{
			"a node that does not exist", "--from node/nowhere 10.16.0.5:443", 1,
			[]string{"node nowhere → 10.16.0.5:443", "Unknown: node nowhere does not exist"},
		},
		{"rows", "203.0.113.9 100.65.0.103:443 -v", 0, []string{" [Load_Balancer ", "Delivered to 10.0.0.11:8443"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			out, err := runTrace(t, strings.Fields(c.args)...)
			code := 0
			if err != nil {
				code = ExitCode(err)
			}
			if code != c.code {
				t.Errorf("ended with %d", code)
			}
			for _, words := range c.says {
				if !strings.Contains(out, words) {
					t.Errorf("want %q in\n%s", words, out)
				}
			}
		})
	}
}

func TestTraceAsData(t *testing.T) {
	raw, err := runTrace(t, "203.0.113.9", "100.65.0.103:443", "-o", "json")
	var out struct {
		Delivered, Answered bool
		Ways                []struct {
			Verdict, Server string
			Back            []any
		}
	}
	if err == nil {
		err = json.Unmarshal([]byte(raw), &out)
	}
	if err != nil || !out.Delivered || out.Answered || len(out.Ways) != 2 || out.Ways[1].Server != "10.0.0.11:8443" ||
		len(out.Ways[1].Back) == 0 {
		t.Errorf("%v\n%s", err, raw)
	}
}

// Errors about wrong arguments say what to type.
func TestTraceMistyped(t *testing.T) {
	for args, says := range map[string]string{
		"100.65.0.103:443":                           "want two arguments, CLIENT and ADDRESS:PORT",
		"203.0.113.9 100.65.0.103":                   "write it as 100.65.0.103:443",
		"--from pod/web-0 192.0.2.1:443":             "add -n NAMESPACE",
		"--from pod/web-0 -n acme-prod 1.2.3.4 5::6": "with --from, want one argument",
		"203.0.113.9 100.65.0.103:443 --live":        "cannot be combined with --survey",
	} {
		if _, err := runTrace(t, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("trace %s: %v", args, err)
		}
	}
}

// traceResultWith returns the trace to a load balancer with two endpoints, with findings about objects on the paths.
func traceResultWith(findings ...diagnosis.Finding) *traceResult {
	v := newTraceResult(clusterstatetest.GenerateCluster(5), mustParseQuery("203.0.113.9", "100.65.0.103:443"))
	for k := range v.Paths {
		v.Paths[k].Causes = findings
	}
	return v
}

func mustParseQuery(client, server string) trace.Query {
	q, err := trace.ParseQuery(client, "", server, "tcp")
	if err != nil {
		panic(err)
	}
	return q
}

// fakeOVNTrace puts a shell script called ovn-trace in PATH.
func fakeOVNTrace(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ovn-trace"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// A hop where flows differ is marked, and the trace counts as not answered. A failure of ovn-trace is reported, but
// does not count as a mismatch.
func TestTraceLive(t *testing.T) {
	db := ovn.Config{Endpoints: []string{"tcp:127.0.0.1:6642"}}
	fakeOVNTrace(t, `case "$*" in *'acme-prod inport'*) echo "unknown datapath";; *) echo "unknown port"; esac`)
	v := traceResultWith()
	v.compareLive(context.Background(), db)
	var out strings.Builder
	if err := v.printText(&out, false); err != nil {
		t.Fatal(err)
	}
	if v.Delivered || v.Paths[0].Mismatch == nil || !strings.Contains(out.String(), "✗ ") ||
		!strings.Contains(out.String(), "do not know it: unknown") {
		t.Errorf("%+v\n%s", v.Paths[0].Mismatch, out.String())
	}
	fakeOVNTrace(t, "echo no way to the database >&2; exit 1")
	v = traceResultWith()
	v.compareLive(context.Background(), db)
	if !v.Delivered || len(v.LiveSummary) != 1 || !strings.Contains(v.LiveSummary[0], "OVN's flows were not checked") ||
		!strings.Contains(v.LiveSummary[0], "no way to the database") {
		t.Errorf("%+v", v.LiveSummary)
	}
}

// A node that is behind the database is marked at the first hop on it.
func TestTraceLiveNode(t *testing.T) {
	fakeOVNTrace(t, "exit 1")
	behind := diagnosis.Finding{
		Code:    diagnosis.ChassisBehind,
		Message: "node2 has carried out change 3",
		About:   []state.Ref{clusterstate.NodeRef("node2")},
	}
	v := traceResultWith(behind)
	v.compareLive(context.Background(), ovn.Config{Endpoints: []string{"tcp:127.0.0.1:6642"}})
	d := v.Paths[0].Mismatch
	if d == nil || d.Back || v.Paths[0].RequestHops[d.Hop].Node != "node2" || d.Hop > 0 &&
		v.Paths[0].RequestHops[d.Hop-1].Node == "node2" || !strings.Contains(v.LiveSummary[0], "ChassisBehind") {
		t.Errorf("%+v %v", d, v.LiveSummary)
	}
}

func TestDisagreementsInOrder(t *testing.T) {
	early, late, back := &traceMismatch{Hop: 1}, &traceMismatch{Hop: 2}, &traceMismatch{Hop: 0, Back: true}
	for _, c := range []struct {
		first, second *traceMismatch
		before        bool
	}{
		{early, nil, true},
		{early, late, true},
		{late, early, false},
		{late, back, true},
		{back, late, false},
		{early, early, false},
	} {
		if c.first.isBefore(c.second) != c.before {
			t.Errorf("%+v before %+v is not %t", c.first, c.second, c.before)
		}
	}
}
