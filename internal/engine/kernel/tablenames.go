package kernel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/internal/model/nodepath"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/internal/model/state"
)

// TableNamesDir is the directory with additional names of routing tables. iproute2 reads every file there whose name
// ends with .conf. Versions from 6.5 on, such as Debian 13's, have their own files in /usr/share/iproute2 and read this
// directory as well.
const TableNamesDir = "/etc/iproute2/rt_tables.d"

// maxNamesFile is how much of our file is read. Two names for each of 255 networks need less than 12 KiB.
const maxNamesFile = 64 << 10

// TableNames are the names in our file for iproute2. Other files are neither read nor written.
type TableNames struct{ file string }

// NewTableNames returns the target for names of routing tables, with the file in a directory that iproute2 reads.
func NewTableNames(dir string) TableNames {
	return TableNames{filepath.Join(dir, ownership.NodeTableNamesFile)}
}

// Scope describes which names are ours.
func (t TableNames) Scope() string { return "names of routing tables in " + t.file }

// Observe returns the names in our file. Lines that iproute2 would not read are left out, and so do not survive the
// next change.
func (t TableNames) Observe(context.Context) (nodepath.TableNames, error) {
	out := nodepath.TableNames{}
	f, err := os.Open(t.file)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxNamesFile))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", t.file, err)
	}
	for line := range strings.Lines(string(text)) {
		var table int
		var name string
		if n, _ := fmt.Sscanf(line, "%d %s", &table, &name); n == 2 {
			out[nodepath.TableID(table)] = state.Entry[nodepath.TableName]{Value: nodepath.TableName(name)}
		}
	}
	return out, nil
}

// Apply writes the file with the changes, or removes it if no name is left.
func (t TableNames) Apply(ctx context.Context,
	changes []state.Change[nodepath.TableID, nodepath.TableName],
) map[nodepath.TableID]error {
	names, err := t.Observe(ctx)
	if err == nil {
		for _, c := range changes {
			if c.IsRemoval() {
				delete(names, c.Key)
			} else {
				names[c.Key] = state.Entry[nodepath.TableName]{Value: *c.After}
			}
		}
		err = t.write(names)
	}
	failed := map[nodepath.TableID]error{}
	for _, c := range changes {
		if err != nil {
			failed[c.Key] = fmt.Errorf("%w; make the directory writable for the agent, or leave out --table-names-dir", err)
		}
	}
	return failed
}

// write replaces the file. iproute2 does not read the new file before it has its final name.
func (t TableNames) write(names nodepath.TableNames) error {
	if len(names) == 0 {
		if err := os.Remove(t.file); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	text := "# Written by sallyport-agent: its routing tables, by the numbers of networks in the node's NodePath.\n"
	for _, table := range slices.Sorted(maps.Keys(names)) {
		text += fmt.Sprintf("%d %s\n", int(table), names[table].Value)
	}
	fresh := t.file + ".new"
	if err := os.WriteFile(fresh, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(fresh, t.file)
}
