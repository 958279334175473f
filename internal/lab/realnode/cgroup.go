package realnode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Hierarchy is one hierarchy of control groups (version 1), and where the lab is in it.
type Hierarchy struct {
	Options string `json:"options"` // of its mount: the controllers, or the name of a hierarchy without any
	Path    string `json:"path"`    // of the process that started the lab
}

// Name is the directory that a hierarchy is mounted at, by convention.
func (h Hierarchy) Name() string {
	_, name, found := strings.Cut(h.Options, "name=")
	if found {
		return name
	}
	return h.Options
}

// ErrNoControllers says that the machine has no hierarchy of version 1 with controllers.
var ErrNoControllers = errors.New("real nodes need control groups of version 1 (or both versions); " +
	"this machine has version 2 only, for which they are not built")

// Hierarchies are those of the calling process, as /proc/self/cgroup lists them.
func Hierarchies() ([]Hierarchy, error) {
	raw, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("read control groups: %w", err)
	}
	return parseHierarchies(string(raw))
}

func parseHierarchies(text string) ([]Hierarchy, error) {
	var out []Hierarchy
	memory := false
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 || fields[1] == "" { // version 2
			continue
		}
		options := fields[1]
		if strings.HasPrefix(options, "name=") {
			options = "none," + options
		}
		memory = memory || options == "memory"
		out = append(out, Hierarchy{Options: options, Path: fields[2]})
	}
	if !memory {
		return nil, ErrNoControllers
	}
	return out, nil
}

// mount mounts the hierarchy below dir.
func (h Hierarchy) mount(dir string) error {
	at := filepath.Join(dir, h.Name())
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("cgroup", at, "cgroup", 0, h.Options); err != nil {
		return fmt.Errorf("mount control groups %s: %w", h.Name(), err)
	}
	return nil
}

// Cgroups are the control groups of a lab's real nodes: one in each hierarchy for each node, below that of whoever
// started the lab, whose limits hold.
type Cgroups struct {
	Lab         string
	Dir         string // the hierarchies are mounted here, inside the lab
	Hierarchies []Hierarchy
}

// Mount mounts the hierarchies inside the lab.
func (c Cgroups) Mount() error {
	for _, h := range c.Hierarchies {
		if err := h.mount(c.Dir); err != nil {
			return err
		}
	}
	return nil
}

// groupName is the directory of a lab's nodes in each hierarchy.
func groupName(lab string) string { return "sallyport-" + lab }

// of are the directories of a node.
func (c Cgroups) of(node string) []string {
	var out []string
	for _, h := range c.Hierarchies {
		out = append(out, filepath.Join(c.Dir, h.Name(), h.Path, groupName(c.Lab), node))
	}
	return out
}

// create makes the groups of a node. The processors and memory nodes of a new group have to be named, or no process may
// join it.
func (c Cgroups) create(node string) error {
	for i, dir := range c.of(node) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make control group: %w", err)
		}
		if c.Hierarchies[i].Name() != "cpuset" {
			continue
		}
		above := filepath.Dir(dir)
		for _, group := range []string{above, dir} {
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				raw, err := os.ReadFile(filepath.Join(filepath.Dir(group), file)) //nolint:gosec // a file of the kernel
				if err == nil {
					err = os.WriteFile(filepath.Join(group, file), raw, 0o644) //nolint:gosec // a file of the kernel
				}
				if err != nil {
					return fmt.Errorf("set processors of control group: %w", err)
				}
			}
		}
	}
	return nil
}

// memory is what the processes of a node use, in bytes, and what is on its disk, which is in memory as well.
func (c Cgroups) memory(node string) (processes, files int64, err error) {
	for i, dir := range c.of(node) {
		if c.Hierarchies[i].Name() != "memory" {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, "memory.stat")) //nolint:gosec // a file of the kernel
		if err != nil {
			return 0, 0, fmt.Errorf("read memory of %s: %w", node, err)
		}
		for line := range strings.Lines(string(raw)) {
			var name string
			var value int64
			if _, err := fmt.Sscan(line, &name, &value); err != nil {
				continue
			}
			switch name {
			case "total_rss":
				processes = value
			case "total_shmem":
				files = value
			}
		}
	}
	return processes, files, nil
}

// RemoveCgroups removes the groups of a lab that has ended, from outside the lab: the kernel keeps them otherwise.
func RemoveCgroups(lab string, hierarchies []Hierarchy) error {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return fmt.Errorf("read mounts: %w", err)
	}
	var errs []error
	for _, h := range hierarchies {
		if at := mountPoint(string(mounts), h); at != "" {
			errs = append(errs, removeGroups(filepath.Join(at, h.Path, groupName(lab))))
		}
	}
	return errors.Join(errs...)
}

// mountPoint is where the machine has a hierarchy mounted; empty: nowhere.
func mountPoint(mounts string, h Hierarchy) string {
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[2] != "cgroup" {
			continue
		}
		options := map[string]bool{}
		for o := range strings.SplitSeq(fields[3], ",") {
			options[o] = true
		}
		all := true
		for o := range strings.SplitSeq(strings.TrimPrefix(h.Options, "none,"), ",") {
			all = all && options[o]
		}
		if all {
			return fields[1]
		}
	}
	return ""
}

// removeGroups removes a group and those below it; a group that is gone is no error.
func removeGroups(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list control groups: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeGroups(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove control group %s: %w", dir, err)
	}
	return nil
}
