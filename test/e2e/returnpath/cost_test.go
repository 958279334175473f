package returnpath

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/netns"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// TestReturn5Cost: what a leg costs a connection, against a project of the same kind without any leg, on the same wire and
// node, in turn. Everything runs on this machine's cores, clients and servers too, so only ratios mean anything.
func TestReturn5Cost(t *testing.T) {
	harness.Alone(t)
	item := returns.Item(t, 5)
	s := &costLab{projectPair: &projectPair{Cluster: harness.SharedSallyport(t)}}
	s.CreateOrganization(t, "cost")
	ways := s.measuredWays(t)
	rounds, length := show.Size(15, 3), show.Size(2*time.Second, 500*time.Millisecond)
	for _, kind := range measurements {
		got, measured := make([]cost, len(ways)), 0
		for i, w := range ways {
			got[i].way = w
		}
		for judged := false; !judged; { // a figure beyond its limit is measured again before it is believed
			s.inTurn(t, kind, got, rounds, length)
			measured += rounds
			judged = measured >= 5*rounds || !slices.ContainsFunc(pairs(got), kind.absurd)
		}
		for _, p := range pairs(got) {
			what := kind.what + ", " + p.leg.way.what
			item.Figure("%s: %.2f of the way without (%.0f and %.0f %s; rounds %s), and %.2f of its CPU time in Open vSwitch (%.0f and %.0f µs each; rounds %s)",
				what, p.ratio(), harness.Middle(p.leg.amount), harness.Middle(p.bare.amount), kind.unit, harness.Spread(p.leg.amount, p.bare.amount),
				p.work(), harness.Middle(p.leg.work), harness.Middle(p.bare.work), harness.Spread(p.leg.work, p.bare.work))
			if kind.absurd(p) {
				t.Errorf("%s: %.2f of what the project without legs has, for %.2f of the CPU time; wanted at least %.2f and at most %.2f",
					what, p.ratio(), p.work(), kind.least, kind.most)
			}
		}
		item.Figure("%s: medians of %d rounds of %s in turn", kind.what, measured, length)
	}
}

// cost is what was measured by one way, round by round.
type cost struct {
	way    measuredWay
	amount []float64 // a second
	work   []float64 // CPU time of Open vSwitch, in µs, for one of it
}

// pair is a way without a leg and the one to compare with it.
type pair struct{ bare, leg cost }

func pairs(of []cost) (out []pair) {
	for i := 0; i < len(of); i += 2 {
		out = append(out, pair{bare: of[i], leg: of[i+1]})
	}
	return out
}

func (p pair) ratio() float64 { return harness.Middle(p.leg.amount) / harness.Middle(p.bare.amount) }

func (p pair) work() float64 { return harness.Middle(p.leg.work) / harness.Middle(p.bare.work) }

// inTurn measures all ways, again and again: what else the machine does meets all of them.
func (s *costLab) inTurn(t *testing.T, kind measurement, out []cost, rounds int, length time.Duration) {
	t.Helper()
	for range rounds {
		for i := range out {
			w := out[i].way
			before, begun := s.vswitchTime(t), time.Now()
			n, err := kind.measure(s.NS(w.client), w.address, length)
			if err != nil {
				t.Fatalf("%s, %s: %v", kind.what, w.what, err)
			}
			out[i].amount = append(out[i].amount, n/time.Since(begun).Seconds())
			out[i].work = append(out[i].work, float64((s.vswitchTime(t)-before).Microseconds())/n)
		}
	}
}

// vswitchTime is the CPU time that the lab's Open vSwitch has had, on all nodes.
func (s *costLab) vswitchTime(t *testing.T) (sum time.Duration) {
	t.Helper()
	if s.vswitches == nil {
		processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, p := range processes {
			if line, err := os.ReadFile(p); err == nil && bytes.Contains(line, []byte("ovs-vswitchd\x00")) && bytes.Contains(line, []byte(s.Dir+"/")) {
				s.vswitches = append(s.vswitches, filepath.Dir(p))
			}
		}
	}
	for _, p := range s.vswitches {
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

// costLab is where ways are measured.
type costLab struct {
	*projectPair
	vswitches []string // in /proc
}

// measuredWay is one way to a pod.
type measuredWay struct{ what, client, address, pod string }

// measuredWays are pairs: a way without a leg, and the one to compare with it. All pods are on node1, which holds no gateway,
// so every packet goes through one tunnel.
func (s *costLab) measuredWays(t *testing.T) []measuredWay {
	t.Helper()
	legs := s.CreateProject(t, "cost", "legs", "10.45.0.0/24", "cloud")
	at := func(namespace, name, kind string) string {
		return s.CreateFIP(t, namespace, name+"-"+kind, "{podTarget: {podName: "+name+"}, externalNetworkType: "+kind+"}")
	}
	var out []measuredWay
	for _, kind := range []string{"public", "cloud"} {
		bare := s.CreateProject(t, "cost", "bare-"+kind, "10.45.0.0/24", kind)
		s.RunPod(t, harness.Pod{Namespace: bare, Name: "web", Node: "node1"})
		s.RunPod(t, harness.Pod{Namespace: legs, Name: "web-" + kind, Node: "node1"})
		client := s.Network(t, kind).Client
		out = append(out, measuredWay{"without a leg", client, at(bare, "web", kind), "web"},
			measuredWay{map[string]string{"public": "by a leg", "cloud": "beside a leg"}[kind], client, at(legs, "web-"+kind, kind), "web-" + kind})
	}
	for _, w := range out { // neighbours and flows are there before the clock runs
		s.ExpectAnswer(t, w.client, "http://"+w.address, w.pod, "")
	}
	return out
}

// measurement is something that is measured for some time.
type measurement struct {
	what, unit string
	least      float64 // a ratio below is absurd, on a machine that others use as well
	most       float64 // and so is this ratio of CPU time
	measure    func(from netns.NS, address string, length time.Duration) (float64, error)
}

func (m measurement) absurd(p pair) bool { return p.ratio() < m.least || p.work() > m.most }

var measurements = []measurement{
	{"new connections", "/s", 0.4, 2, connections},
	{"bulk out of the pod", "MB/s", 0.4, 2, download},
	{"bulk into the pod", "MB/s", 0.15, 2, upload}, // it goes at about 27 or about 75 MB/s, without a leg as well, and stays so for a run
}

// connections is how many TCP connections are made, used for one question and closed.
func connections(from netns.NS, address string, length time.Duration) (float64, error) {
	const workers = 4
	begun := time.Now()
	made, errs := make([]int, workers), make([]error, workers)
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			errs[i] = from.Do(func() error { // one thread for all of them: to enter the namespace costs more than to connect
				for time.Since(begun) < length {
					if err := question(address); err != nil {
						return err
					}
					made[i]++
				}
				return nil
			})
		})
	}
	all.Wait()
	sum := 0
	for i := range workers {
		if errs[i] != nil {
			return 0, errs[i]
		}
		sum += made[i]
	}
	return float64(sum), nil
}

// question is one connection.
func question(address string) error {
	conn, err := net.DialTimeout("tcp", address+":80", 5*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // the answer has come
	return exchange(conn, 5*time.Second)
}

// download is MB from a pod.
func download(from netns.NS, address string, length time.Duration) (float64, error) {
	return bulk(from, address, length, "GET /blob?mb=4096 HTTP/1.1\r\nHost: x\r\n\r\n", func(conn net.Conn, b []byte) (int, error) { return conn.Read(b) })
}

// upload is MB to a pod.
func upload(from netns.NS, address string, length time.Duration) (float64, error) {
	return bulk(from, address, length, "POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 4294967296\r\n\r\n",
		func(conn net.Conn, b []byte) (int, error) { return conn.Write(b) })
}

// bulk reads or writes as much as goes.
func bulk(from netns.NS, address string, length time.Duration, request string, move func(net.Conn, []byte) (int, error)) (float64, error) {
	var conn net.Conn
	err := from.Do(func() (err error) {
		conn, err = net.DialTimeout("tcp", address+":80", 5*time.Second)
		return err
	})
	if err != nil {
		return 0, err
	}
	defer conn.Close() //nolint:errcheck // it is cut in its middle
	if err := conn.SetDeadline(time.Now().Add(length + 5*time.Second)); err != nil {
		return 0, err
	}
	if _, err := io.WriteString(conn, request); err != nil {
		return 0, err
	}
	sum, b, begun := 0, make([]byte, 256<<10), time.Now()
	for time.Since(begun) < length {
		n, err := move(conn, b)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return float64(sum) / 1e6, nil
}
