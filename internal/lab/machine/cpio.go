package machine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// archive is a cpio archive of the form "newc", the only one that the kernel unpacks as its first file system.
type archive struct {
	to   io.Writer
	done map[string]bool // directories
	err  error           // the first one; nothing is written after it
}

const (
	modeFile = 0o100755
	modeDir  = 0o040755
)

// copy puts a file of this machine into the archive.
func (a *archive) copy(name, from string) {
	raw, err := os.ReadFile(from) //nolint:gosec // a file that a test puts into a machine
	if err != nil {
		a.err = errors.Join(a.err, fmt.Errorf("bring %s along: %w", from, err))
		return
	}
	a.file(name, raw)
}

// file puts a file into the archive, and before it the directories above: the kernel makes none by itself.
func (a *archive) file(name string, content []byte) {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	a.dir(path.Dir(name))
	a.entry(name, modeFile, content)
}

func (a *archive) dir(name string) {
	if name == "." || a.done[name] {
		return
	}
	a.dir(path.Dir(name))
	a.entry(name, modeDir, nil)
	if a.done == nil {
		a.done = map[string]bool{}
	}
	a.done[name] = true
}

// end is due once, after the last file; it returns what went wrong.
func (a *archive) end() error {
	a.entry("TRAILER!!!", 0, nil)
	return a.err
}

// entry writes a header of 13 numbers with 8 digits each, the name and the content. Owner, time and device are all
// zero.
func (a *archive) entry(name string, mode int, content []byte) {
	if a.err != nil {
		return
	}
	var b bytes.Buffer
	b.WriteString("070701")
	for _, number := range []int{0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0} {
		fmt.Fprintf(&b, "%08x", number)
	}
	b.WriteString(name + "\x00")
	pad(&b)
	b.Write(content)
	pad(&b)
	_, a.err = a.to.Write(b.Bytes())
}

// pad fills up to four bytes. An entry has a whole number of them, so its buffer may count for itself.
func pad(b *bytes.Buffer) {
	b.Write(make([]byte, (4-b.Len()%4)%4))
}
