package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/sallyport/sallyport/internal/model/nodepath"
	"github.com/sallyport/sallyport/internal/model/state"
)

// SysctlRoot is the directory of the kernel's sysctls. In a container it is read-only.
const SysctlRoot = "/proc/sys"

// sysctlDir is a directory with sysctls as files: SysctlRoot, or the node's where it is mounted.
type sysctlDir string

// filePath returns the file of a sysctl. A slash in the name stands for a dot.
func (root sysctlDir) filePath(key nodepath.SysctlKey) string {
	return filepath.Join(string(root), strings.NewReplacer(".", "/", "/", ".").Replace(string(key)))
}

func (root sysctlDir) read(key nodepath.SysctlKey) (string, error) {
	text, err := os.ReadFile(root.filePath(key))
	return strings.TrimSpace(string(text)), err
}

func (root sysctlDir) write(key nodepath.SysctlKey, text string) error {
	return os.WriteFile(root.filePath(key), []byte(text), 0o600)
}

// Sysctls are the sysctls that we have changed. Their previous values are saved.
type Sysctls struct {
	sysctl      sysctlDir
	savedValues backupFile[nodepath.SysctlKey, string]
	desired     nodepath.Sysctls // observed too
}

// Sysctls returns the target for sysctls. It saves previous values in our directory below /run.
func (k *Kernel) Sysctls(dir string, wanted nodepath.Sysctls) Sysctls {
	return Sysctls{k.sysctl, backupFile[nodepath.SysctlKey, string](filepath.Join(dir, "settings.json")), wanted}
}

// Scope describes which sysctls are ours.
func (t Sysctls) Scope() string {
	return "sysctls whose previous values are in " + string(t.savedValues)
}

// FilterExisting returns the sysctls that the kernel has now: those of an interface exist only with it.
func (t Sysctls) FilterExisting(all nodepath.Sysctls) nodepath.Sysctls {
	out := maps.Clone(all)
	maps.DeleteFunc(out, func(key nodepath.SysctlKey, _ state.Entry[nodepath.Sysctl]) bool {
		_, err := os.Stat(t.sysctl.filePath(key))
		return errors.Is(err, fs.ErrNotExist)
	})
	return out
}

// Observe returns the sysctls that we have changed, and those that are desired, with their current values.
func (t Sysctls) Observe(context.Context) (nodepath.Sysctls, error) {
	found, err := t.savedValues.read()
	if err != nil {
		return nil, err
	}
	out := nodepath.Sysctls{}
	look := func(key nodepath.SysctlKey) error {
		text, err := t.sysctl.read(key)
		if err == nil {
			out[key] = state.Entry[nodepath.Sysctl]{Value: nodepath.Sysctl{Text: text}}
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("read %s: %w", key, err)
	}
	for key := range t.desired {
		if err := look(key); err != nil {
			return nil, err
		}
	}
	for key := range found {
		if err := look(key); err != nil {
			return nil, err
		}
		if _, there := out[key]; !there { // the interface is gone, so the saved value is dropped
			out[key] = state.Entry[nodepath.Sysctl]{}
		}
	}
	return out, nil
}

// Apply sets sysctls, and restores the previous values of those no longer desired.
func (t Sysctls) Apply(_ context.Context,
	changes []state.Change[nodepath.SysctlKey, nodepath.Sysctl],
) map[nodepath.SysctlKey]error {
	failed := map[nodepath.SysctlKey]error{}
	found, err := t.savedValues.read()
	for _, c := range changes {
		if err != nil {
			failed[c.Key] = err
		} else if err := t.applySysctl(c, found); err != nil {
			failed[c.Key] = err
		}
	}
	return failed
}

func (t Sysctls) applySysctl(c state.Change[nodepath.SysctlKey, nodepath.Sysctl],
	found map[nodepath.SysctlKey]string,
) error {
	if c.IsRemoval() {
		if was, ours := found[c.Key]; ours {
			if err := t.sysctl.write(c.Key, was); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		left := maps.Clone(found)
		delete(left, c.Key)
		delete(found, c.Key)
		return t.savedValues.write(left)
	}
	if _, noted := found[c.Key]; !noted {
		is, err := t.sysctl.read(c.Key)
		if err != nil {
			return fmt.Errorf("%w; this kernel has no such sysctl", err)
		}
		found[c.Key] = is
		if err := t.savedValues.write(found); err != nil {
			return fmt.Errorf("save the previous value: %w", err)
		}
	}
	return t.sysctl.write(c.Key, c.After.Text)
}
