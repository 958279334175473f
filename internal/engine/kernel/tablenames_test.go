package kernel

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/internal/model/nodepath"
	"github.com/sallyport/sallyport/internal/model/state"
	"github.com/sallyport/sallyport/internal/model/state/statetest"
)

func tableNames(pairs ...any) nodepath.TableNames {
	out := nodepath.TableNames{}
	for i := 0; i < len(pairs); i += 2 {
		out[nodepath.TableID(pairs[i].(int))] = state.Entry[nodepath.TableName]{
			Value: nodepath.TableName(pairs[i+1].(string)), Origin: networkRef,
		}
	}
	return out
}

// Other files in the directory are left alone, also one that has a name for the same table.
func TestTableNamesKeepTheContract(t *testing.T) {
	dir := t.TempDir()
	foreign := filepath.Join(dir, "admin.conf")
	if err := os.WriteFile(foreign, []byte("200 device1\n9101 mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	statetest.CheckContract(t, statetest.Case[nodepath.TableID, nodepath.TableName]{
		Target: NewTableNames(dir),
		First:  tableNames(9101, "sp-net-1", 9401, "sp-leg-1"),
		Second: tableNames(9101, "sp-other-1", 9355, "sp-net-255"),
		DumpForeign: func(context.Context) (string, error) {
			text, err := os.ReadFile(foreign)
			return string(text), err
		},
	})
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("without names there are the files %v", files)
	}
}

// What somebody writes into our file is bounded, and is gone with the next change.
func TestDamagedTableNames(t *testing.T) {
	names := NewTableNames(t.TempDir())
	damaged := "\x00\n9101\nsp-net-1 9101\n9102 sp-net-2 # comment\n" + strings.Repeat("x", maxNamesFile) + "\n9103 beyond\n"
	if err := os.WriteFile(names.file, []byte(damaged), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := names.Observe(t.Context())
	if err != nil || len(found) != 1 || found[9102].Value != "sp-net-2" {
		t.Errorf("found %v (%v)", found, err)
	}
	value := nodepath.TableName("sp-net-1")
	change := []state.Change[nodepath.TableID, nodepath.TableName]{{Key: 9101, After: &value}}
	if failed := names.Apply(t.Context(), change); len(failed) > 0 {
		t.Error(failed)
	}
	text, err := os.ReadFile(names.file)
	if _, lines, _ := strings.Cut(string(text), "\n"); err != nil || lines != "9101 sp-net-1\n9102 sp-net-2\n" {
		t.Errorf("the file has %q (%v)", text, err)
	}
}

func TestUnwritableTableNames(t *testing.T) {
	names := NewTableNames(filepath.Join(t.TempDir(), "missing"))
	value := nodepath.TableName("sp-net-1")
	failed := names.Apply(t.Context(), []state.Change[nodepath.TableID, nodepath.TableName]{{Key: 9101, After: &value}})
	if err := failed[9101]; err == nil || !strings.Contains(err.Error(), "leave out --table-names-dir") {
		t.Errorf("the failure is %v", err)
	}
}

// ip knows the tables by the names in our file.
func TestIPReadsTableNames(t *testing.T) {
	openTestKernel(t)
	runtime.LockOSThread() // the thread, and its mount namespace, end with the test
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
		t.Fatal(err)
	}
	etc := t.TempDir()
	if err := os.MkdirAll(filepath.Join(etc, strings.TrimPrefix(TableNamesDir, "/etc")), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, m := range []struct {
		source, target string
		flags          uintptr
	}{{"none", "/", unix.MS_REC | unix.MS_PRIVATE}, {etc, "/etc", unix.MS_BIND}} {
		if err := unix.Mount(m.source, m.target, "", m.flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	runIP(t, "rule add pref 1120 from 10.96.0.1 lookup 9101 protocol 91")
	if out := runIP(t, "rule"); !strings.Contains(out, "lookup 9101") {
		t.Errorf("before there are names, the rules are\n%s", out)
	}
	value := nodepath.TableName("sp-net-1")
	failed := NewTableNames(TableNamesDir).Apply(t.Context(),
		[]state.Change[nodepath.TableID, nodepath.TableName]{{Key: 9101, After: &value}})
	if out := runIP(t, "rule"); len(failed) > 0 || !strings.Contains(out, "lookup sp-net-1") {
		t.Errorf("the rules are\n%s\n%v", out, failed)
	}
}
