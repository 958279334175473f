package daemon

import (
	"fmt"
	"os"
	"path/filepath"
)

// usage counts the processes of the lab and their resident memory. The lab's /proc shows its own processes only.
func usage() (Usage, error) {
	files, err := filepath.Glob("/proc/[0-9]*/statm")
	if err != nil {
		return Usage{}, fmt.Errorf("list processes: %w", err)
	}
	var u Usage
	for _, file := range files {
		raw, err := os.ReadFile(file) //nolint:gosec // a file of /proc
		if err != nil {
			continue // it has ended since
		}
		var size, resident int64
		if _, err := fmt.Sscan(string(raw), &size, &resident); err != nil {
			return Usage{}, fmt.Errorf("read %s: %w", file, err)
		}
		u.Memory += resident * int64(os.Getpagesize())
		u.Processes++
	}
	return u, nil
}
