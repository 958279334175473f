package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
)

func TestExitCode(t *testing.T) {
	for script, want := range map[string]int{"exit 1": 1, "exit 7": 7, "kill -9 $$": 1} {
		err := exec.Command("sh", "-c", script).Run()
		if bare, wrapped := ExitCode(err), ExitCode(fmt.Errorf("run it: %w", err)); bare != want || wrapped != want {
			t.Errorf("%s: %d, wrapped %d; want %d", script, bare, wrapped, want)
		}
	}
	if got := ExitCode(errors.New("no lab")); got != 1 {
		t.Errorf("an error of ours: %d, want 1", got)
	}
}

// labUpBlueprint returns the blueprint of `lab up` with these arguments and an optional topology file.
func labUpBlueprint(t *testing.T, file string, args ...string) (blueprint.Blueprint, error) {
	t.Helper()
	cmd, path := labUpCommand(&labFlags{}), ""
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	if file != "" {
		path = filepath.Join(t.TempDir(), "topology.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	number := func(flag string) int {
		n, err := cmd.Flags().GetInt(flag)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return resolveBlueprint(cmd, path, blueprint.Blueprint{
		Nodes: number("nodes"), Gateways: number("gateways"), Raft: number("ovn-raft"), FakeNodes: number("fake-nodes"),
		FakePods: number("fake-pods"),
	})
}

func TestFlagsAreLaidOverTheFile(t *testing.T) {
	const file = "{nodes: 5, gateways: 4, raft: 3, fakeNodes: 7, fakePods: 8, uplinks: []}"
	for _, c := range []struct {
		file string
		args []string
		want [7]int // nodes, gateways, raft, fake nodes and pods, networks, uplinks
	}{
		{"", nil, [7]int{3, 2, 1, 0, 0, 2, 2}},
		{file, nil, [7]int{5, 4, 3, 7, 8, 2, 0}},
		{"", []string{"--nodes=5"}, [7]int{5, 2, 1, 0, 0, 2, 2}},
		{file, []string{"--nodes=3", "--ovn-raft=1"}, [7]int{3, 3, 1, 7, 8, 2, 0}}, // set, although it is the default
		{
			file,
			[]string{"--nodes=6", "--gateways=1", "--ovn-raft=5", "--fake-nodes=0", "--fake-pods=0"},
			[7]int{6, 1, 5, 0, 0, 2, 0},
		},
		{"", []string{"--nodes=1"}, [7]int{1, 1, 1, 0, 0, 2, 2}}, // no more gateways than nodes,
		// unless asked for: then Check complains
		{"", []string{"--nodes=1", "--gateways=2"}, [7]int{1, 2, 1, 0, 0, 2, 2}},
	} {
		b, err := labUpBlueprint(t, c.file, c.args...)
		got := [7]int{b.Nodes, b.Gateways, b.Raft, b.FakeNodes, b.FakePods, len(b.Networks), len(b.Uplinks)}
		if err != nil || got != c.want {
			t.Errorf("%s %v: %v, %v; want %v", c.file, c.args, got, err, c.want)
		}
	}
	if _, err := labUpBlueprint(t, "node: 5"); err == nil {
		t.Error("a file with a mistake is taken")
	}
}

func TestAnnounceSaysWhatIsWrong(t *testing.T) {
	for _, args := range [][]string{
		{"node1"},
		{"node1", "198.18.10.1"},
		{"node1", "198.18.10.1/32", "--withdraw", "--uplink", "uplink-a"},
	} {
		cmd := labAnnounceCommand(&labFlags{name: "no-such-lab"})
		cmd.SetArgs(args)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		if err := cmd.Execute(); err == nil || strings.Contains(err.Error(), "no-such-lab") {
			t.Errorf("%v: %v, want it refused before a lab is looked for", args, err)
		}
	}
}
