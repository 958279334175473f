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

	"github.com/sallyport/sallyport/internal/nodepath"
	"github.com/sallyport/sallyport/internal/state"
)

// SysctlRoot is where the kernel shows its settings as files. A container can only read them there.
const SysctlRoot = "/proc/sys"

// sysctl is a directory with the settings as files: SysctlRoot, or where the node's is mounted.
type sysctl string

// path is the file of a setting. A slash in its name stands for a dot.
func (root sysctl) path(key nodepath.SettingKey) string {
	return filepath.Join(string(root), strings.NewReplacer(".", "/", "/", ".").Replace(string(key)))
}

func (root sysctl) read(key nodepath.SettingKey) (string, error) {
	text, err := os.ReadFile(root.path(key))
	return strings.TrimSpace(string(text)), err
}

func (root sysctl) write(key nodepath.SettingKey, text string) error {
	return os.WriteFile(root.path(key), []byte(text), 0o600)
}

// Settings is the settings that we have changed. What was there before is written down.
type Settings struct {
	sysctl sysctl
	file   notes[nodepath.SettingKey, string]
	wanted nodepath.Settings // they are looked at, too
}

// Settings is a target. The file is in a directory of ours below /run.
func (k *Kernel) Settings(dir string, wanted nodepath.Settings) Settings {
	return Settings{k.sysctl, notes[nodepath.SettingKey, string](filepath.Join(dir, "settings.json")), wanted}
}

// Scope says which settings are ours.
func (t Settings) Scope() string {
	return "settings that " + string(t.file) + " has the former values of"
}

// Known are the settings that the kernel has by now: those of an interface come with it.
func (t Settings) Known(all nodepath.Settings) nodepath.Settings {
	out := maps.Clone(all)
	maps.DeleteFunc(out, func(key nodepath.SettingKey, _ state.Entry[nodepath.Setting]) bool {
		_, err := os.Stat(t.sysctl.path(key))
		return errors.Is(err, fs.ErrNotExist)
	})
	return out
}

// Observe returns the settings that we have changed, and those that are wanted, as they are.
func (t Settings) Observe(context.Context) (nodepath.Settings, error) {
	found, err := t.file.read()
	if err != nil {
		return nil, err
	}
	out := nodepath.Settings{}
	look := func(key nodepath.SettingKey) error {
		text, err := t.sysctl.read(key)
		if err == nil {
			out[key] = state.Entry[nodepath.Setting]{Value: nodepath.Setting{Text: text}}
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("read %s: %w", key, err)
	}
	for key := range t.wanted {
		if err := look(key); err != nil {
			return nil, err
		}
	}
	for key := range found {
		if err := look(key); err != nil {
			return nil, err
		}
		if _, there := out[key]; !there { // its interface has gone; the note goes as well
			out[key] = state.Entry[nodepath.Setting]{}
		}
	}
	return out, nil
}

// Apply sets settings, and puts back what was there before.
func (t Settings) Apply(_ context.Context, changes []state.Change[nodepath.SettingKey, nodepath.Setting]) map[nodepath.SettingKey]error {
	failed := map[nodepath.SettingKey]error{}
	found, err := t.file.read()
	for _, c := range changes {
		if err != nil {
			failed[c.Key] = err
		} else if err := t.apply(c, found); err != nil {
			failed[c.Key] = err
		}
	}
	return failed
}

func (t Settings) apply(c state.Change[nodepath.SettingKey, nodepath.Setting], found map[nodepath.SettingKey]string) error {
	if c.Removes() {
		if was, ours := found[c.Key]; ours {
			if err := t.sysctl.write(c.Key, was); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		left := maps.Clone(found)
		delete(left, c.Key)
		delete(found, c.Key)
		return t.file.write(left)
	}
	if _, noted := found[c.Key]; !noted {
		is, err := t.sysctl.read(c.Key)
		if err != nil {
			return fmt.Errorf("%w; the kernel has no such setting", err)
		}
		found[c.Key] = is
		if err := t.file.write(found); err != nil {
			return fmt.Errorf("write down what was there before: %w", err)
		}
	}
	return t.sysctl.write(c.Key, c.After.Text)
}
