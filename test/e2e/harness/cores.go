package harness

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// labProcess is a process of a lab or of a controller next to it.
type labProcess struct {
	name string // program, and the node that it runs on
	dir  string // in /proc
}

// nodeDirectory finds the node of a process in its command line.
var nodeDirectory = regexp.MustCompile(`/data/(node[0-9]+)/`)

// findProcesses finds the processes that have a lab's directory in their command lines.
func findProcesses(labDir string) (out []labProcess) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(line, []byte(labDir+"/")) {
			continue
		}
		p := labProcess{name: programName(strings.Split(string(line), "\x00")), dir: filepath.Dir(file)}
		if database := databaseFile.FindSubmatch(line); p.name == "ovsdb-server" && database != nil {
			p.name += " of " + string(database[1])
		} else if node := nodeDirectory.FindSubmatch(line); node != nil {
			p.name += " of " + string(node[1])
		}
		out = append(out, p)
	}
	return out
}

// databaseFile finds which OVN database a server has, nb or sb, and ovnProgram OVN's programs, which the lab runs with
// their own dynamic linker.
var (
	databaseFile = regexp.MustCompile(`/data/ovn/(nb|sb)[0-9]+\.`)
	ovnProgram   = regexp.MustCompile(`^(ovn|ovs|ovsdb)-[a-z]+$`)
)

// programName returns the name of the program in a command line.
func programName(args []string) string {
	for _, a := range args {
		if name := filepath.Base(a); ovnProgram.MatchString(name) {
			return name
		}
	}
	return filepath.Base(args[0])
}

// ReadCoreWaits returns how long the processes of a lab have been runnable and waited for a core, by program and node.
func ReadCoreWaits(labDir string) map[string]time.Duration {
	out := map[string]time.Duration{}
	for _, p := range findProcesses(labDir) {
		threads, _ := filepath.Glob(filepath.Join(p.dir, "task/*/schedstat"))
		for _, thread := range threads {
			raw, err := os.ReadFile(thread)
			if fields := strings.Fields(string(raw)); err == nil && len(fields) > 1 {
				n, _ := strconv.ParseInt(fields[1], 10, 64) // nanoseconds
				out[p.name] += time.Duration(n)
			}
		}
	}
	return out
}

// PinProcesses restricts the threads of a lab's processes, and those that they start, to a core. It returns how many
// processes it pinned to each core.
func PinProcesses(labDir string, coreOf func(program string) int) (map[int]int, error) {
	pinned := map[int]int{}
	for _, p := range findProcesses(labDir) {
		core := coreOf(p.name)
		if err := pinThreads(p.dir, core); err != nil {
			return nil, fmt.Errorf("pin %s to core %d: %w", p.name, core, err)
		}
		pinned[core]++
	}
	return pinned, nil
}

// PinSelf restricts the threads of this process to a core. The returned function lets them run everywhere again.
func PinSelf(core int) (restore func() error, err error) {
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, err
	}
	restore = func() error { return setAffinity("/proc/self", &before) }
	return restore, pinThreads("/proc/self", core)
}

func pinThreads(dir string, core int) error {
	var set unix.CPUSet
	set.Set(core)
	return setAffinity(dir, &set)
}

// setAffinity sets the cores of all threads of a process. Threads that end meanwhile do not matter.
func setAffinity(dir string, set *unix.CPUSet) error {
	threads, err := os.ReadDir(filepath.Join(dir, "task"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(id, set); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}
