package kernelnode

import (
	"debug/elf"
	"fmt"
	"path"
	"path/filepath"

	"github.com/sallyport/sallyport/internal/lab/parts"
)

// Places in the machine.
const (
	ovnDir     = "/ovn"                        // as parts.At expects it
	loader     = "/lib64/ld-linux-x86-64.so.2" // as the programs have it compiled in
	libraryDir = "/usr/lib/x86_64-linux-gnu"
)

var programs = []string{
	"ovsdb-server", "ovsdb-tool", "ovsdb-client", "ovs-vswitchd", "ovs-vsctl", "ovs-appctl", "ovs-dpctl", "ovn-controller",
}

// files are the programs of Open vSwitch and OVN with the libraries of their suite of Debian, by their paths in the
// machine.
func files(set parts.Set) (map[string]string, error) {
	root := set.Root("ovn")
	out := map[string]string{
		loader: filepath.Join(root, "usr", loader),
		path.Join(ovnDir, "root/usr/share/openvswitch/vswitch.ovsschema"): set.Schema("vswitch"),
	}
	for _, name := range programs {
		from, err := findProgram(root, name)
		if err != nil {
			return nil, err
		}
		out[path.Join(ovnDir, "bin", name)] = from
		if err := addLibraries(out, root, from); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func findProgram(root, name string) (string, error) {
	found, err := filepath.Glob(filepath.Join(root, "usr/*bin", name))
	if err != nil || len(found) == 0 {
		found, err = filepath.Glob(filepath.Join(root, "usr/lib/*", name))
	}
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("the packages of OVN have no program %s", name)
	}
	return found[0], nil
}

// addLibraries adds the libraries that a program or a library names, and theirs.
func addLibraries(files map[string]string, root, from string) error {
	f, err := elf.Open(from)
	if err != nil {
		return fmt.Errorf("read %s: %w", from, err)
	}
	defer f.Close()
	names, err := f.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("read the libraries of %s: %w", from, err)
	}
	for _, name := range names {
		at := path.Join(libraryDir, name)
		if files[at] != "" || name == path.Base(loader) {
			continue
		}
		files[at] = filepath.Join(root, at)
		if err := addLibraries(files, root, files[at]); err != nil {
			return err
		}
	}
	return nil
}
