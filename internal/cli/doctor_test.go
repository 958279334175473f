package cli

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/clusterstate/clusterstatetest"
)

// runDoctor runs the command on a survey in a file.
func runDoctor(t *testing.T, s *clusterstate.State, args ...string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "survey.json")
	if err := writePrivateFile(file, s.Write); err != nil {
		t.Fatal(err)
	}
	return runCommand(t, append([]string{"doctor", "--survey", file}, args...)...)
}

func runCommand(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := New("1.2.3")
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	err := cmd.Execute()
	return out.String(), err
}

// emptySurvey returns the survey of an empty cluster without problems.
func emptySurvey() *clusterstate.State {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := &clusterstate.State{Taken: now}
	for _, name := range []string{diagnosis.ControllerLease, diagnosis.KubeOVNLease} {
		l := clusterstate.Lease{Holder: "a", Renewed: now, Lasts: time.Minute}
		l.Name = name
		s.Cluster.Leases = append(s.Cluster.Leases, l)
	}
	return s
}

func TestDoctorEnds(t *testing.T) {
	absent, old, dead := emptySurvey(), emptySurvey(), emptySurvey()
	absent.Inspected = map[string]clusterstate.NodeInspection{"node1": {Problem: "no answer"}}
	old.Cluster.Version = "v1.20.0"
	dead.Cluster.Leases = dead.Cluster.Leases[:1]
	for _, c := range []struct {
		what string
		s    *clusterstate.State
		code int
		says string
	}{
		{"nothing is wrong", emptySurvey(), 0, "nothing is wrong: checked for"},
		{"something is worth knowing", absent, 0, "INFO AgentsAbsent\n"},
		{"a warning", old, 1, "WARNING KubernetesTooOld\n  Kubernetes is v1.20.0\n  → Upgrade"},
		{"an error", dead, 2, "ERROR KubeOVNDead\n"},
	} {
		t.Run(c.what, func(t *testing.T) {
			out, err := runDoctor(t, c.s)
			code := 0
			if err != nil {
				code = ExitCode(err)
			}
			if code != c.code || !strings.Contains(out, c.says) {
				t.Errorf("ended with %d and said\n%s", code, out)
			}
		})
	}
}

// --severity does not change the exit code.
func TestDoctorSeverity(t *testing.T) {
	s := emptySurvey()
	s.Cluster.Version = "v1.20.0"
	out, err := runDoctor(t, s, "--severity", "error")
	if strings.Contains(out, "KubernetesTooOld") || err == nil || ExitCode(err) != 1 {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := runDoctor(t, s, "--severity", "bad"); err == nil ||
		!strings.Contains(err.Error(), "info, warning and error") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestDoctorAsData(t *testing.T) {
	out, err := runDoctor(t, clusterstatetest.GenerateCluster(5), "-o", "json")
	if err == nil {
		t.Error("a cluster with faults has none")
	}
	var r doctorReport
	if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Findings) == 0 || r.Checked.Projects != 5 ||
		r.Checked.Sallyport != "1.2.3" {
		t.Errorf("%v: %+v", err, r)
	}
}

// Commands that read a bundle print the same as with the cluster. The last-applied annotation is not in it.
func TestBundle(t *testing.T) {
	const secret, lastApplied, kept = "hunter2", "kubectl.kubernetes.io/last-applied-configuration", "kube-dc.com/kept"
	s := clusterstatetest.GenerateCluster(5)
	s.Cluster.Services[0].Annotations = map[string]string{lastApplied: `{"password":"` + secret + `"}`, kept: "yes"}
	file := filepath.Join(t.TempDir(), "support.tar.gz")
	before, err := runDoctor(t, s, "--bundle", file)
	if err == nil {
		t.Fatal("a cluster with faults has none")
	}
	after, err := runCommand(t, "doctor", "--survey", file)
	if err == nil || after != before {
		t.Errorf("%v: from the bundle, the doctor says\n%s\nand said\n%s", err, after, before)
	}
	packed, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	plain, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(plain)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"survey.json", "findings.json", "findings.txt", "versions.txt", "plan.txt",
		"conditions.txt", "events.txt", kept,
	} {
		if !strings.Contains(string(content), part) {
			t.Errorf("%s is not in the bundle", part)
		}
	}
	if strings.Contains(string(content), secret) || strings.Contains(string(content), lastApplied) {
		t.Error("what was applied last is in the bundle")
	}
	if info, err := packed.Stat(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v %v", info.Mode(), err)
	}
}
