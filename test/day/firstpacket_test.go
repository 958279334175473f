package day

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/test/show"
)

// firstCommand is the block of commands below the heading of the README for people without a cluster.
var firstCommand = regexp.MustCompile("(?s)## Try it\n.*?```\n(.*?)```")

// answered is a line of the server's answer, and its client.
const answered = "web saw 203.0.113.10"

// TestDay9FirstPacket clones the repository and does what the README says until a pod has answered a request from outside.
// Parts and Go's caches are used as they are on this machine: the README says what empty ones cost.
func TestDay9FirstPacket(t *testing.T) {
	item := dayItems.Item(t, 9)
	if !show.IsFullSize() || os.Geteuid() != 0 {
		t.Skip("starts a lab: at full size, as root; CI runs make try in TestView5Try")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "sallyport")
	begun := time.Now()
	if out, err := exec.Command("git", "clone", "-q", root, dir).CombinedOutput(); err != nil {
		t.Fatalf("git clone: %v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := firstCommand.FindSubmatch(text)
	if found == nil {
		t.Fatal("the README has no command below Try it")
	}
	lines := strings.Split(strings.TrimSpace(string(found[1])), "\n")
	name := fmt.Sprintf("day-%d", os.Getpid())
	t.Cleanup(func() {
		if out, err := exec.Command("make", "-C", dir, "lab-down", "LAB="+name).CombinedOutput(); err != nil {
			t.Errorf("make lab-down: %v\n%s", err, out)
		}
	})
	first := time.Duration(0)
	for _, line := range lines {
		if took := runUntilAnswer(t, dir, strings.TrimPrefix(line, "sudo ")+" LAB="+name, begun); first == 0 {
			first = took
		}
	}
	if first == 0 {
		t.Fatal("no pod has answered")
	}
	item.AddFigure("without a cluster: %d commands, %.1f minutes from git clone to the first answered packet, with the caches of this machine",
		1+len(lines), first.Minutes())
	item.AddFigure("with an existing cluster: not measured")
}

// runUntilAnswer runs a command to its end, and returns when the pod's first answer was printed, or 0.
func runUntilAnswer(t *testing.T, dir, command string, begun time.Time) (first time.Duration) {
	t.Helper()
	cmd := exec.Command("bash", "-c", command+" 2>&1")
	cmd.Dir = dir
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if said.WriteString(lines.Text() + "\n"); first == 0 && strings.Contains(lines.Text(), answered) {
			first = time.Since(begun)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, said.String())
	}
	return first
}
