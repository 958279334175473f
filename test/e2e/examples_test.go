package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab"
)

var shellBlock = regexp.MustCompile("(?s)```\n(.*?)```")

// The commands of the project example, typed in as they stand, do what the text beside them says.
func TestProjectExampleRunsAsWritten(t *testing.T) {
	name := fmt.Sprintf("e2e-%d-example", os.Getpid())
	t.Cleanup(func() {
		if _, err := lab.Open(name); err == nil { // it failed before its last line
			_ = lab.Down(t.Context(), name)
		}
	})
	var script strings.Builder
	script.WriteString("set -euo pipefail\n")
	for _, block := range shellBlock.FindAllStringSubmatch(readFile(t, "../../examples/02-project/README.md"), -1) {
		script.WriteString(block[1])
	}
	cmd := exec.CommandContext(within(t, 3*time.Minute), "bash", "-c", script.String())
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "SALLYPORT_LAB="+name)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), "web saw 203.0.113.10"); n != 2 {
		t.Errorf("the pod answered %d times; wanted one answer on each of two networks:\n%s", n, out)
	}
	for _, wanted := range []string{
		"web saw 203.0.113.10", "internet saw 100.65.", // the client's own address, and the pod's own on the default network
		"fip.kube-dc.com/web-public condition met", "project.kube-dc.com \"production\" deleted", "lab \"" + name + "\" is down",
	} {
		if !strings.Contains(string(out), wanted) {
			t.Errorf("wanted %q in:\n%s", wanted, out)
		}
	}
}
