package platform

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
)

// runCommand runs a command of sallyport and returns what it prints.
func (p *platformFixture) runCommand(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	north, south := p.DatabaseConfig(t, "nb"), p.DatabaseConfig(t, "sb")
	cmd := exec.CommandContext(ctx, "../../../bin/sallyport", append(args, "--kubeconfig", p.Kubeconfig(),
		"--nb-address", strings.Join(north.Endpoints, ","), "--sb-address", strings.Join(south.Endpoints, ","),
		"--nb-cert", north.CertFile, "--nb-key", north.KeyFile, "--nb-ca", north.CAFile)...)
	out, _ := cmd.CombinedOutput() // the exit code is not 0 if there are findings or there is no answer
	return string(out)
}

// checkCommands shows that trace, explain, map and doctor say what packets do.
func (p *platformFixture) checkCommands(t *testing.T) string {
	p.redirectPods(t)
	p.expectEgressAs(t, "s1.mail", egressAddress)
	p.expectCommands(t, []commandCheck{
		{
			"trace --from pod/s1 -n mail " + harness.InternetAddress + ":80",
			[]string{"Delivered", egressAddress, "EgressIP mail"},
			[]string{"LeavesByNode"},
		},
		{
			"trace --from pod/u1 -n mail " + harness.InternetAddress + ":80",
			[]string{"LeavesByNode"},
			[]string{egressAddress},
		},
		{"trace --from pod/s1 -n mail " + p.podAddresses["u2"] + ":80", []string{"Delivered"}, []string{egressAddress}},
		{"explain egressip/mail", []string{"Pod mail/s1: sends it", "currently 2"}, []string{"not served", "✗"}},
		{"map ovn-cluster", []string{egressAddress}, nil},
		{"doctor", nil, []string{"EgressIP mail", "EgressOutsideProject", "ovn-cluster"}},
	})
	return "trace of a selected pod, of another and to a pod; explain, map and doctor"
}

// commandCheck is a command of sallyport and texts that it prints, and does not print.
type commandCheck struct {
	command      string
	want, forbid []string
}

// expectCommands runs commands and checks what they print.
func (p *platformFixture) expectCommands(t *testing.T, checks []commandCheck) {
	t.Helper()
	for _, c := range checks {
		out := p.runCommand(t, strings.Fields(c.command)...)
		for _, text := range c.want {
			if !strings.Contains(out, text) {
				t.Errorf("no %q in sallyport %s:\n%s", text, c.command, out)
			}
		}
		for _, text := range c.forbid {
			if strings.Contains(out, text) {
				t.Errorf("%q in sallyport %s:\n%s", text, c.command, out)
			}
		}
	}
}
