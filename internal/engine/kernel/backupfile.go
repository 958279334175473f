package kernel

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// backupFile is a file with the state from before our changes, by name. It is in our directory below /run, so it
// lives as long as the changes it describes: until the next boot.
type backupFile[K ~string, V any] string

func (n backupFile[K, V]) read() (map[K]V, error) {
	out := map[K]V{}
	text, err := os.ReadFile(string(n))
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("read %s: %w", n, err)
	}
	return out, nil
}

// write replaces the content. If there is none, it removes the file.
func (n backupFile[K, V]) write(all map[K]V) error {
	if len(all) == 0 {
		if err := os.Remove(string(n)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(string(n)), 0o700); err != nil {
		return err
	}
	fresh := string(n) + ".new"
	if err := os.WriteFile(fresh, text, 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, string(n))
}
