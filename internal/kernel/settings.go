package kernel

import (
	"context"
	"encoding/json"
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

// Settings is the settings that we have changed. What was there before is written down in a file, which lives as long as the settings do:
// until the machine starts again.
type Settings struct {
	file   string
	wanted nodepath.Settings // they are looked at, too
}

// Settings is a target. The file is in a directory of ours below /run.
func (k *Kernel) Settings(dir string, wanted nodepath.Settings) Settings {
	return Settings{filepath.Join(dir, "settings.json"), wanted}
}

// Scope says which settings are ours.
func (t Settings) Scope() string { return "settings that " + t.file + " has the former values of" }

// path is the file of a setting. A slash in its name stands for a dot.
func path(key nodepath.SettingKey) string {
	return "/proc/sys/" + strings.NewReplacer(".", "/", "/", ".").Replace(string(key))
}

func read(key nodepath.SettingKey) (string, error) {
	text, err := os.ReadFile(path(key))
	return strings.TrimSpace(string(text)), err
}

// found is what was there before, by name.
func (t Settings) found() (map[nodepath.SettingKey]string, error) {
	out := map[nodepath.SettingKey]string{}
	text, err := os.ReadFile(t.file)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("read %s: %w", t.file, err)
	}
	return out, nil
}

// note writes down what was there before.
func (t Settings) note(found map[nodepath.SettingKey]string) error {
	if len(found) == 0 {
		if err := os.Remove(t.file); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	text, err := json.MarshalIndent(found, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(t.file), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(t.file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(t.file+".new", t.file)
}

// Observe returns the settings that we have changed, and those that are wanted, as they are.
func (t Settings) Observe(context.Context) (nodepath.Settings, error) {
	found, err := t.found()
	if err != nil {
		return nil, err
	}
	out := nodepath.Settings{}
	look := func(key nodepath.SettingKey) error {
		text, err := read(key)
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
	found, err := t.found()
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
			if err := write(c.Key, was); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		left := maps.Clone(found)
		delete(left, c.Key)
		delete(found, c.Key)
		return t.note(left)
	}
	if _, noted := found[c.Key]; !noted {
		is, err := read(c.Key)
		if err != nil {
			return fmt.Errorf("%w; the kernel has no such setting", err)
		}
		found[c.Key] = is
		if err := t.note(found); err != nil {
			return fmt.Errorf("write down what was there before: %w", err)
		}
	}
	return write(c.Key, c.After.Text)
}

func write(key nodepath.SettingKey, text string) error {
	return os.WriteFile(path(key), []byte(text), 0o600)
}
