package machine

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/lab/parts"
)

// The kernel refuses an archive whose parts are not on boundaries of four bytes, and files in directories that are not
// there.
func TestArchiveIsWhatTheKernelReads(t *testing.T) {
	var b bytes.Buffer
	a := archive{to: &b}
	a.file("init", []byte("#!"))
	a.file("/usr/bin/nft", []byte("program"))
	a.file("usr/bin/other", nil)
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for rest := b.Bytes(); len(rest) > 0; {
		var name, content string
		name, content, rest = entry(t, rest)
		got = append(got, name+"="+content)
	}
	want := []string{"init=#!", "usr=", "usr/bin=", "usr/bin/nft=program", "usr/bin/other=", "TRAILER!!!="}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// entry reads one entry as Documentation/driver-api/early-userspace/buffer-format.rst of the kernel has it.
func entry(t *testing.T, raw []byte) (name, content string, rest []byte) {
	t.Helper()
	number := func(field int) int {
		var n int
		for _, c := range raw[6+8*field : 14+8*field] {
			n = n<<4 | strings.IndexByte("0123456789abcdef", c)
		}
		return n
	}
	round := func(n int) int { return (n + 3) &^ 3 }
	if string(raw[:6]) != "070701" {
		t.Fatalf("an entry begins with %q", raw[:6])
	}
	begin := round(110 + number(11))
	end := begin + number(6)
	return string(raw[110 : 110+number(11)-1]), string(raw[begin:end]), raw[round(end):]
}

func TestFileThatCannotBeBroughtFailsTheArchive(t *testing.T) {
	var b bytes.Buffer
	a := archive{to: &b}
	a.copy("program", filepath.Join(t.TempDir(), "missing"))
	a.file("other", nil)
	if err := a.end(); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("%v", err)
	}
}

func TestJobThatCannotBeDone(t *testing.T) {
	if _, err := (Kit{}).Run(t.Context(), Job{Kernel: "2.6"}); err == nil ||
		!strings.Contains(err.Error(), `no kernel "2.6"`) {
		t.Errorf("a kernel that we do not have: %v", err)
	}
	if _, err := (Kit{}).Command(t.Context(), t.TempDir(), Job{Kernel: "2.6"}); err == nil {
		t.Error("a command for a kernel that we do not have")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "modules.builtin"),
		[]byte("kernel/net/ipv6/ipv6.ko\nkernel/lib/of-its-own.ko\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := readModules(dir)
	if err != nil {
		t.Fatal(err)
	}
	if files, err := m.order([]string{"ipv6", "of_its_own"}); err != nil || len(files) != 0 {
		t.Errorf("what the kernel has in itself is not loaded: %v, %v", files, err)
	}
	if _, err := m.order([]string{"ipv6", "vrf"}); err == nil || !strings.Contains(err.Error(), "no module vrf") {
		t.Errorf("a module that is missing: %v", err)
	}
}

func TestMachineHasOnlyTheCardsOfItsJob(t *testing.T) {
	b := box{dir: "/dir"}
	if got := strings.Join(b.command(parts.Set{}, Job{}), " "); strings.Contains(got, "-netdev") ||
		!strings.Contains(got, "-nodefaults") || !strings.Contains(got, "-m "+usualMemory) {
		t.Errorf("a job without a network: %s", got)
	}
	cards := []Interface{{Tap: "vm1-0", MAC: []byte{2, 0, 0, 0, 0, 1}}, {Tap: "vm1-1", MAC: []byte{2, 0, 0, 0, 0, 2}}}
	got := strings.Join(b.command(parts.Set{}, Job{Interfaces: cards, Memory: "1G"}), " ")
	for _, want := range []string{
		"-m 1G", "tap,id=n0,ifname=vm1-0,script=no,downscript=no,vnet_hdr=off", "netdev=n0,mac=02:00:00:00:00:01",
		"tap,id=n1,ifname=vm1-1,", "netdev=n1,mac=02:00:00:00:00:02",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in %s", want, got)
		}
	}
}

func TestLibrariesAreBrought(t *testing.T) {
	got, err := libraries(t.Context(), []string{"ls", "ls"})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) < 3 || slices.ContainsFunc(got, func(path string) bool { _, err := os.Stat(path); return err != nil }) {
		t.Errorf("ls needs %q", got)
	}
	if _, err := libraries(t.Context(), []string{"no-such-program"}); err == nil {
		t.Error("a program that is missing is brought")
	}
}
