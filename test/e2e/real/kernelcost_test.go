package real

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/test/e2e/harness"
)

const (
	costRounds = 7
	costLength = 2 * time.Second
)

// kernelCosts are what is measured, and the least that is accepted of the way without a return port.
var kernelCosts = []struct {
	what, unit string
	least      float64
	measure    func(from netns.NS, address string, length time.Duration) (float64, error)
}{
	{"new connections", "/s", 0.4, harness.CountConnections},
	{"bulk out of the pod", "MB/s", 0.4, harness.MeasureDownload},
	{"bulk into the pod", "MB/s", 0.4, harness.MeasureUpload},
}

// measureReturnPort compares a floating IP whose replies pass a return port with one of a project whose default network
// it is, on the same wire and in the same machine, in turn. The processor is emulated: only the ratio says something.
func (l *kernelLab) measureReturnPort(t *testing.T) {
	client := l.Network(t, "public").Client
	addresses := [2]string{l.createFIP(t, l.bare, "bare", "public"), l.createFIP(t, l.project, "inside", "public")}
	for i, pod := range []string{"bare", "inside"} { // resolve neighbours and install flows before measuring
		l.ExpectAnswer(t, client, "http://"+addresses[i], pod, "")
	}
	var entries [2]float64
	for i, address := range addresses {
		entries[i] = l.countEntries(t, l.NS(client), address)
	}
	l.item.AddFigure("kernel %s: a connection has %.1f entries in the kernel's connection table by a return port, %.1f without",
		l.vm.Kernel, entries[1], entries[0])
	for _, c := range kernelCosts {
		var rates [2][]float64
		for range costRounds {
			for i, address := range addresses {
				begun := time.Now()
				n, err := c.measure(l.NS(client), address, costLength)
				if err != nil {
					t.Fatalf("%s: %v", c.what, err)
				}
				rates[i] = append(rates[i], n/time.Since(begun).Seconds())
			}
		}
		ratio := harness.MedianFloat(rates[1]) / harness.MedianFloat(rates[0])
		text := fmt.Sprintf("%s by a return port: %.2f of the way without (%.1f and %.1f %s; %d rounds of %s in turn: %s)",
			c.what, ratio, harness.MedianFloat(rates[1]), harness.MedianFloat(rates[0]), c.unit, costRounds, costLength,
			harness.FormatRatioRange(rates[1], rates[0]))
		l.item.AddFigure("kernel %s: %s", l.vm.Kernel, text)
		if ratio < c.least {
			t.Errorf("%s; wanted at least %.2f", text, c.least)
		}
	}
}

// countEntries returns how many entries of the kernel's connection table a connection has. Closed ones stay for two
// minutes.
func (l *kernelLab) countEntries(t *testing.T, from netns.NS, address string) float64 {
	t.Helper()
	count := func() float64 {
		n, err := strconv.Atoi(strings.TrimSpace(l.inMachine(t, "cat", "/proc/sys/net/netfilter/nf_conntrack_count")))
		if err != nil {
			t.Fatal(err)
		}
		return float64(n)
	}
	before := count()
	made, err := harness.CountConnections(from, address, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return (count() - before) / made
}
