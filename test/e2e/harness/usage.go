package harness

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cpuUsage is the processor time of the machine since a point in time, from /proc/stat. Themes that run at the same
// time see the same values.
type cpuUsage struct {
	started     time.Time
	total, idle float64 // ticks
}

func startCPUUsage() cpuUsage {
	total, idle := readCPUTicks()
	return cpuUsage{started: time.Now(), total: total, idle: idle}
}

// printSummary prints the duration of a theme and the idle share of the machine during it.
func (u cpuUsage) printSummary(w io.Writer) {
	total, idle := readCPUTicks()
	share := 0.0
	if total > u.total {
		share = (idle - u.idle) / (total - u.total)
	}
	dir, _ := os.Getwd()
	fmt.Fprintf(w, "theme %s took %.0f s; the machine was idle for %.0f %% of it\n", filepath.Base(dir),
		time.Since(u.started).Seconds(), 100*share)
}

// readCPUTicks reads the first line of /proc/stat: user nice system idle iowait irq softirq steal.
func readCPUTicks() (total, idle float64) {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	for i, word := range strings.Fields(line)[1:] {
		ticks, err := strconv.ParseFloat(word, 64)
		if err != nil || i > 7 { // guest time is part of user time
			break
		}
		if total += ticks; i == 3 || i == 4 {
			idle += ticks
		}
	}
	return total, idle
}
