package ipv6

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// question is a connection that trace predicts and a packet tries.
type question struct{ from, source, to string }

// checkTrace compares trace with packets, and looks for findings on rows of ours.
func (s *lab) checkTrace(t *testing.T) {
	item := ipv6Items.Item(t, 8)
	six := s.CreateFIP(t, s.namespace, "traced", "{podTarget: {podName: c}, ipFamily: IPv6}")
	service := s.createService(t, "traced", "ipFamilies: [IPv6], ports: [{port: 80}]", 1)[0]
	ranged := s.createService(t, "traced-range", fmt.Sprintf(
		"ipFamilies: [IPv6], loadBalancerSourceRanges: ['%s/128'], ports: [{port: 80}]", s.client6), 1)[0]
	reserved := s.CreateEIP(t, s.namespace, "unused", "{ipFamily: IPv6}")
	wire := s.wire.Neighbours[1].Addr().String()
	answered, agree := 0, 0
	questions := []question{
		{s.wire.Client, s.client6, six},
		{s.wire.Client, s.client6, service},
		{s.wire.Client, s.client6, ranged},
		{s.wire.Client, s.client6, reserved},
		{s.wire.Client, s.client6, "2001:db8:18::dead"},
		{s.wire.Neighbour, wire, six},
		{s.wire.Neighbour, wire, service},
		{s.wire.Neighbour, wire, ranged},
		{"a." + s.namespace, "", strings.Trim(internet6, "[]")},
		{"a." + s.namespace, "", wire},
		{"a." + s.namespace, "", six},
		{"a." + s.namespace, "", service},
	}
	for _, q := range questions {
		_, err := s.SendRequest(q.from, "http://"+bracket(q.to))
		if err == nil {
			answered++
		}
		if said := s.runTrace(t, q); (err == nil) == said {
			agree++
		} else {
			t.Errorf("%v: a packet arrives: %v; trace says so: %v", q, err == nil, said)
		}
	}
	if answered == 0 || answered == len(questions) {
		t.Errorf("%d of %d questions are answered: there has to be one of each", answered, len(questions))
	}
	out, _ := s.runCommand(t, "doctor", "-o", "json") // an exit code of 1 means findings
	for _, code := range []string{"RowMissing", "RowChanged", "RowLeft", "RowForeign", "WrongGateway"} {
		if strings.Contains(out, `"`+code+`"`) {
			t.Errorf("doctor reports %s:\n%s", code, out)
		}
	}
	item.AddFigure("trace agrees with a packet in %d of %d questions, %d of which are answered; doctor has no finding on rows "+
		"of IPv6; 500 questions and 12 faults NOT RUN", agree, len(questions), answered)
}

// runTrace reports whether trace says that a packet arrives.
func (s *lab) runTrace(t *testing.T, q question) bool {
	t.Helper()
	args := []string{"trace", "--no-nodes", q.source, bracket(q.to) + ":80"}
	if q.source == "" {
		pod, namespace, _ := strings.Cut(q.from, ".")
		args = []string{"trace", "--no-nodes", "-n", namespace, "--from", pod, bracket(q.to) + ":80"}
	}
	out, err := s.runCommand(t, args...)
	if err != nil {
		t.Logf("%v:\n%s", q, out)
	}
	return err == nil
}

// runCommand runs a command of sallyport with access to the lab, and returns its output.
func (s *lab) runCommand(t *testing.T, args ...string) (string, error) {
	t.Helper()
	script := fmt.Sprintf(`eval "$(%[1]s/bin/sallyport lab env --lab %[2]s)" && exec %[1]s/bin/sallyport "$@"`,
		harness.RepositoryRoot, s.Name)
	out, err := exec.CommandContext(harness.Within(t, harness.Patience), "bash",
		append([]string{"-c", script, "sallyport"}, args...)...).CombinedOutput()
	return string(out), err
}
