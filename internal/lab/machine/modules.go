package machine

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// modules are the modules of a kernel, by name. A name has underscores where the file may have hyphens.
type modules struct {
	files   map[string]string
	builtin map[string]bool // not to be loaded: the kernel has them in itself
}

func moduleName(file string) string {
	return strings.ReplaceAll(strings.TrimSuffix(filepath.Base(file), ".ko"), "-", "_")
}

func readModules(dir string) (modules, error) {
	m := modules{files: map[string]string{}, builtin: map[string]bool{}}
	list, err := os.ReadFile(filepath.Join(dir, "modules.builtin")) //nolint:gosec // a file that a test puts into a machine
	if err != nil {
		return m, fmt.Errorf("read the kernel's own modules: %w", err)
	}
	for file := range strings.FieldsSeq(string(list)) {
		m.builtin[moduleName(file)] = true
	}
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".ko") {
			m.files[moduleName(path)] = path
		}
		return err
	})
	if err != nil {
		return m, fmt.Errorf("look for modules: %w", err)
	}
	return m, nil
}

// order are the files to load for these modules: each after those that it needs, and once.
func (m modules) order(wanted []string) ([]string, error) {
	var out []string
	for _, name := range wanted {
		name = moduleName(name)
		if m.builtin[name] {
			continue
		}
		file, found := m.files[name]
		if !found {
			return nil, fmt.Errorf("the kernel has no module %s", name)
		}
		needs, err := needsOf(file)
		if err != nil {
			return nil, err
		}
		before, err := m.order(needs)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, f := range append(before, file) {
			if !slices.Contains(out, f) {
				out = append(out, f)
			}
		}
	}
	return out, nil
}

// needsOf reads in a module which others it needs. Debian's packages have no modules.dep: it is made where they are
// installed.
func needsOf(file string) ([]string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read module %s: %w", file, err)
	}
	defer f.Close()
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("module %s does not say what it needs", file)
	}
	info, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("read module %s: %w", file, err)
	}
	for entry := range bytes.SplitSeq(info, []byte{0}) {
		if needs, found := strings.CutPrefix(string(entry), "depends="); found && needs != "" {
			return strings.Split(needs, ","), nil
		}
	}
	return nil, nil
}
