package returnpath

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// TestReturn5Cost measures the cost of a return port for a connection, compared with a similar project without return
// ports, on the same wire and node, alternately. Clients and servers share the cores of this machine, so only ratios
// are meaningful.
func TestReturn5Cost(t *testing.T) {
	harness.RunAlone(t)
	item := returnItems.Item(t, 5)
	s := &costFixture{projectPair: &projectPair{Cluster: harness.SharedSallyport(t)}}
	s.CreateOrganization(t, "cost")
	ways := s.createPaths(t)
	rounds, length := show.ChooseSize(15, 3), show.ChooseSize(2*time.Second, 500*time.Millisecond)
	for _, kind := range measurements {
		got, measured := make([]pathCost, len(ways)), 0
		for i, w := range ways {
			got[i].path = w
		}
		for judged := false; !judged; { // a figure beyond its limit is measured again before it counts
			s.measureInTurn(t, kind, got, rounds, length)
			measured += rounds
			judged = measured >= 5*rounds || !slices.ContainsFunc(pairCosts(got), kind.isOutOfBounds)
		}
		for _, p := range pairCosts(got) {
			what := kind.what + ", " + p.withReturnPort.path.what
			item.AddFigure("%s: %.2f of the way without (%.0f and %.0f %s; rounds %s), and %.2f of its CPU time in Open vSwitch (%.0f and %.0f µs each; rounds %s)",
				what, p.rateRatio(), harness.MedianFloat(p.withReturnPort.rate), harness.MedianFloat(p.baseline.rate),
				kind.unit, harness.FormatRatioRange(p.withReturnPort.rate, p.baseline.rate),
				p.cpuRatio(), harness.MedianFloat(p.withReturnPort.cpuPerUnit),
				harness.MedianFloat(p.baseline.cpuPerUnit),
				harness.FormatRatioRange(p.withReturnPort.cpuPerUnit, p.baseline.cpuPerUnit))
			if kind.isOutOfBounds(p) {
				t.Errorf("%s: %.2f of what the project without legs has, for %.2f of the CPU time; wanted at least %.2f and at most %.2f",
					what, p.rateRatio(), p.cpuRatio(), kind.minRatio, kind.maxCPURatio)
			}
		}
		item.AddFigure("%s: medians of %d rounds of %s in turn", kind.what, measured, length)
	}
}

// pathCost contains the measurements of one path, one for each round.
type pathCost struct {
	path       measuredPath
	rate       []float64 // units per second
	cpuPerUnit []float64 // CPU time of Open vSwitch per unit, in µs
}

// costPair is a path without a return port and the path to compare with it.
type costPair struct{ baseline, withReturnPort pathCost }

func pairCosts(of []pathCost) (out []costPair) {
	for i := 0; i < len(of); i += 2 {
		out = append(out, costPair{baseline: of[i], withReturnPort: of[i+1]})
	}
	return out
}

func (p costPair) rateRatio() float64 {
	return harness.MedianFloat(p.withReturnPort.rate) / harness.MedianFloat(p.baseline.rate)
}

func (p costPair) cpuRatio() float64 {
	return harness.MedianFloat(p.withReturnPort.cpuPerUnit) / harness.MedianFloat(p.baseline.cpuPerUnit)
}

// measureInTurn measures all paths alternately for several rounds, so that other load of the machine affects all of
// them.
func (s *costFixture) measureInTurn(t *testing.T, kind measurement, out []pathCost, rounds int, length time.Duration) {
	t.Helper()
	for range rounds {
		for i := range out {
			w := out[i].path
			before, begun := s.vswitchCPUTime(t), time.Now()
			n, err := kind.measure(s.NS(w.client), w.address, length)
			if err != nil {
				t.Fatalf("%s, %s: %v", kind.what, w.what, err)
			}
			out[i].rate = append(out[i].rate, n/time.Since(begun).Seconds())
			out[i].cpuPerUnit = append(out[i].cpuPerUnit, float64((s.vswitchCPUTime(t)-before).Microseconds())/n)
		}
	}
}

// vswitchCPUTime returns the CPU time that the lab's Open vSwitch processes have used on all nodes.
func (s *costFixture) vswitchCPUTime(t *testing.T) (sum time.Duration) {
	t.Helper()
	if s.vswitchProcs == nil {
		processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, p := range processes {
			if line, err := os.ReadFile(p); err == nil && bytes.Contains(line, []byte("ovs-vswitchd\x00")) &&
				bytes.Contains(line, []byte(s.Dir+"/")) {
				s.vswitchProcs = append(s.vswitchProcs, filepath.Dir(p))
			}
		}
	}
	for _, p := range s.vswitchProcs {
		threads, _ := filepath.Glob(p + "/task/*/schedstat")
		for _, thread := range threads {
			var ran int64
			if line, err := os.ReadFile(thread); err == nil {
				_, _ = fmt.Sscan(string(line), &ran)
			}
			sum += time.Duration(ran)
		}
	}
	if sum == 0 {
		t.Fatal("no time of Open vSwitch was found")
	}
	return sum
}

// costFixture is the lab in which paths are measured.
type costFixture struct {
	*projectPair
	vswitchProcs []string // in /proc
}

// measuredPath is one path to a pod.
type measuredPath struct{ what, client, address, pod string }

// createPaths returns pairs: a path without a return port and the path to compare with it. All pods are on node1, which
// holds no gateway, so every packet passes one tunnel.
func (s *costFixture) createPaths(t *testing.T) []measuredPath {
	t.Helper()
	withPorts := s.CreateProject(t, "cost", "legs", "10.45.0.0/24", "cloud")
	at := func(namespace, name, kind string) string {
		return s.CreateFIP(t, namespace, name+"-"+kind,
			"{podTarget: {podName: "+name+"}, externalNetworkType: "+kind+"}")
	}
	var out []measuredPath
	for _, kind := range []string{"public", "cloud"} {
		bare := s.CreateProject(t, "cost", "bare-"+kind, "10.45.0.0/24", kind)
		s.RunPod(t, harness.Pod{Namespace: bare, Name: "web", Node: "node1"})
		s.RunPod(t, harness.Pod{Namespace: withPorts, Name: "web-" + kind, Node: "node1"})
		client := s.Network(t, kind).Client
		out = append(out, measuredPath{"without a leg", client, at(bare, "web", kind), "web"},
			measuredPath{
				map[string]string{"public": "by a leg", "cloud": "beside a leg"}[kind], client,
				at(withPorts, "web-"+kind, kind), "web-" + kind,
			})
	}
	for _, w := range out { // resolve neighbours and install flows before measuring
		s.ExpectAnswer(t, w.client, "http://"+w.address, w.pod, "")
	}
	return out
}

// measurement is a kind of load that is measured for some time.
type measurement struct {
	what, unit  string
	minRatio    float64 // a generous lower limit, because other processes use the machine
	maxCPURatio float64 // upper limit of the ratio of CPU time
	measure     func(from netns.NS, address string, length time.Duration) (float64, error)
}

func (m measurement) isOutOfBounds(p costPair) bool {
	return p.rateRatio() < m.minRatio || p.cpuRatio() > m.maxCPURatio
}

var measurements = []measurement{
	{"new connections", "/s", 0.4, 2, harness.CountConnections},
	{"bulk out of the pod", "MB/s", 0.4, 2, harness.MeasureDownload},
	// the rate is about 27 or about 75 MB/s for a whole run, also without a return port
	{"bulk into the pod", "MB/s", 0.15, 2, harness.MeasureUpload},
}
