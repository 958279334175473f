package parts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Kernels are the versions of Linux that a machine can run, oldest first.
func Kernels() []string { return []string{"6.1", "6.12"} }

// kernelSuites are the suites of Debian that have them. The kernels of the cloud flavour are the small ones: no drivers
// of real hardware, and all of the network.
var kernelSuites = map[string]string{"6.1": "bookworm", "6.12": "trixie"}

const kernelPackage = "linux-image-cloud-amd64"

func qemu() part {
	from := debs{
		suite:    "trixie",
		names:    []string{"qemu-system-x86"},
		programs: []string{"qemu-system-x86_64"},
		proof:    "qemu-system-x86",
	}
	return part{
		name: "qemu", version: QEMUVersion, inputs: []byte(from.suite),
		build: func(ctx context.Context, w workshop) error {
			return from.unpack(ctx, w, QEMUVersion)
		},
	}
}

// kernel is a kernel and its modules, without the packages that it would need on a machine with disks.
func kernel(version string) part {
	suite := kernelSuites[version]
	return part{
		name: "linux-" + version, version: suite, inputs: []byte(kernelPackage),
		build: func(ctx context.Context, w workshop) error {
			if err := need("apt-cache", "xz"); err != nil {
				return err
			}
			apt, root := filepath.Join(w.dir, "apt"), filepath.Join(w.dir, "root")
			options, err := privateApt(ctx, apt, suite)
			if err != nil {
				return err
			}
			name, err := kernelName(ctx, options)
			if err != nil {
				return err
			}
			w.report("  downloading " + name)
			if err := runIn(ctx, apt, "apt-get",
				slices.Concat(options, []string{"-qq", "download", name})...); err != nil {
				return err
			}
			deb, err := only(filepath.Join(apt, name+"_*.deb"))
			if err != nil {
				return err
			}
			if err := checkPackage(ctx, deb, version); err != nil {
				return err
			}
			if err := run(ctx, "dpkg-deb", "-x", deb, root); err != nil {
				return err
			}
			if err := keepKernel(ctx, w, root); err != nil {
				return err
			}
			return errors.Join(os.RemoveAll(apt), os.RemoveAll(root))
		},
	}
}

// kernelName is the package that has the kernel: the one that Debian's package without a version in its name depends
// on.
func kernelName(ctx context.Context, options []string) (string, error) {
	//nolint:gosec // words of the list of parts, and no shell
	out, err := exec.CommandContext(ctx, "apt-cache",
		slices.Concat(options, []string{"depends", kernelPackage})...).Output()
	if err != nil {
		return "", fmt.Errorf("ask apt for %s: %w", kernelPackage, err)
	}
	for line := range strings.Lines(string(out)) {
		name, found := strings.CutPrefix(strings.TrimSpace(line), "Depends: ")
		if found && strings.HasPrefix(name, "linux-image-") {
			return name, nil
		}
	}
	return "", fmt.Errorf("the package %s of Debian depends on no linux-image package:\n%s", kernelPackage, out)
}

// keepKernel gives the kernel and its modules names without a version, and unpacks the modules: Debian 13 has them
// compressed.
func keepKernel(ctx context.Context, w workshop, root string) error {
	image, errImage := only(filepath.Join(root, "boot/vmlinuz-*"))
	modules, errModules := only(filepath.Join(root, "lib/modules/*"), filepath.Join(root, "usr/lib/modules/*"))
	if err := errors.Join(errImage, errModules); err != nil {
		return err
	}
	kept := filepath.Join(w.dir, "modules")
	if err := errors.Join(os.Rename(image, filepath.Join(w.dir, "vmlinuz")), os.Rename(modules, kept)); err != nil {
		return fmt.Errorf("keep the kernel: %w", err)
	}
	var packed bytes.Buffer
	err := filepath.WalkDir(kept, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".ko.xz") {
			packed.WriteString(path + "\x00")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("look for modules: %w", err)
	}
	if packed.Len() == 0 {
		return nil
	}
	list := filepath.Join(w.dir, "apt/packed")
	if err := os.WriteFile(list, packed.Bytes(), 0o644); err != nil {
		return fmt.Errorf("list modules: %w", err)
	}
	return run(ctx, "xz", "--decompress", "--files0="+list)
}

// only is the one file that matches a pattern.
func only(patterns ...string) (string, error) {
	var found []string
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return "", fmt.Errorf("look for %s: %w", pattern, err)
		}
		found = append(found, files...)
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%d files are %s; one should be", len(found), strings.Join(patterns, " or "))
	}
	return found[0], nil
}

// Firmware are the directories with what QEMU runs before the kernel.
func (s Set) Firmware() []string {
	share := filepath.Join(s.dirs["qemu"], "root/usr/share")
	return []string{filepath.Join(share, "qemu"), filepath.Join(share, "seabios")}
}

// Kernel is the path of a kernel, and the directory with its modules.
func (s Set) Kernel(version string) (image, modules string) {
	dir := s.dirs["linux-"+version]
	return filepath.Join(dir, "vmlinuz"), filepath.Join(dir, "modules")
}
