package kernelnode

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/internal/lab/blueprint"
	"github.com/sallyport/sallyport/internal/lab/engine"
	"github.com/sallyport/sallyport/internal/lab/parts"
)

// unpack makes a tree as Debian's packages have it, with a program of this machine under each name.
func unpack(t *testing.T, names ...string) parts.Set {
	t.Helper()
	dir := t.TempDir()
	bin, lib := filepath.Join(dir, "root/usr/bin"), filepath.Join(dir, "root/usr/lib")
	for _, d := range []string{bin, lib} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/lib/x86_64-linux-gnu", filepath.Join(lib, "x86_64-linux-gnu")); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.Symlink("/bin/ls", filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	return parts.At("ovn", dir)
}

func TestProgramsComeWithTheirLibraries(t *testing.T) {
	if _, err := os.Stat("/lib/x86_64-linux-gnu/libc.so.6"); err != nil {
		t.Skip("needs a Debian machine: ", err)
	}
	got, err := files(unpack(t, programs...))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		loader, "/ovn/bin/ovs-vswitchd", "/ovn/root/usr/share/openvswitch/vswitch.ovsschema",
		"/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libpcre2-8.so.0", // of a library of ls
	} {
		if got[want] == "" {
			t.Errorf("%s is missing in %v", want, got)
		}
	}
	if _, err := files(unpack(t, programs[1:]...)); err == nil || !strings.Contains(err.Error(), programs[0]) {
		t.Errorf("a program that is missing: %v", err)
	}
}

// The machine reads its order from an argument.
func TestOrderIsReadAsWritten(t *testing.T) {
	b := blueprint.Default()
	b.FakeNodes = 1
	want := order{
		Node: b.FakeNodeList()[0], SB: "tcp:172.22.0.1:16642",
		Providers: []engine.Provider{{Network: "ext-public", Interface: "ext-public", VLAN: 7}},
		Links:     []link{{Name: "eth0", MAC: net.HardwareAddr{2, 0x4b, 0, 0, 1, 0}}},
	}
	raw, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got order
	if err := json.Unmarshal(raw, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; wanted %+v", got, err, want)
	}
}

func TestNodeHasACableToEachWire(t *testing.T) {
	got := map[string]string{}
	for _, w := range wires(blueprint.Default()) {
		got[w.link] = w.bridge
	}
	want := map[string]string{
		"eth0": "management", "ul0": "tunnels", "ext-public": "l2-ext-public", "ext-cloud": "l2-ext-cloud",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, wanted %v", got, want)
	}
}
