package egress

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	ovnv1 "github.com/sallyport/sallyport/api/ovn/v1"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// Processes of the node that gets the address.
const (
	newController = "ovn-controller of the new node"
	newSwitch     = "ovs-vswitchd of the new node"
)

// drainSteps are the steps of a drain in order, with the processes that do them. Each ends with an observed event, and
// takes no time if its event was observed before that of the previous step.
var drainSteps = []struct {
	until     string
	processes []string
}{
	{"the API server has accepted the drain", []string{"kube-apiserver", "etcd"}},
	{"the northbound database has another HA_Chassis", []string{"sallyport-controller", "ovsdb-server of nb"}},
	{"the southbound database has it", []string{"ovn-northd", "ovsdb-server of sb"}},
	{"the new node has claimed the port", []string{newController, "ovsdb-server of sb"}},
	{"the new node sends its first frame", []string{newController, newSwitch}},
	{"the first answer arrives", []string{newController, newSwitch, "ovs-vswitchd of the old node"}},
	{"the longest pause ends, after the first answer", nil},
}

// maxDrainGap is the longest time without an answer.
var maxDrainGap = harness.TimeLimit(500 * time.Millisecond)

// TestScale10Drains measures drains in a lab of its own.
func TestScale10Drains(t *testing.T) {
	if !show.IsFullSize() {
		t.Skip("a lab for drains alone: at full size only; TestEgress2Failover drains a node in CI")
	}
	harness.RunAlone(t)
	item := scaleItems.Item(t, 10)
	y := newEgressFixture(t, "drains")
	y.createProbedEgressIP(t)
	y.measureDrains(t, item)
}

// measureDrains drains the node that holds the egress address of a pod, several times, and records when each step was
// done. The cause of the worst drain is the step of which the interruption contains more than usual.
func (y *egressFixture) measureDrains(t *testing.T, item *show.Item) {
	t.Helper()
	f := newDrainFixture(t, y)
	var drains []drain
	for range show.ChooseSize(20, 2) {
		drains = append(drains, f.measureDrain(t))
	}
	f.setDrained(t, f.drained, false)
	reportDrains(t, item, drains)
}

// drainFixture observes the steps of drains.
type drainFixture struct {
	*egressFixture
	north, south, binding *rowChanges
	drained               string // the node that was drained last; it may not get the address back at once

	mu     sync.Mutex
	frames map[string]*sentFrames // frames with the MAC address of the egress address, by node
}

// sentFrames is when a node sent its first and its last frame.
type sentFrames struct{ first, last time.Time }

func newDrainFixture(t *testing.T, y *egressFixture) *drainFixture {
	t.Helper()
	port := ownership.EgressRouterPort(netip.MustParseAddr("91.224.11.230"))
	f := &drainFixture{
		egressFixture: y,
		north:         y.watchRows(t, "nb1", "monitor", "OVN_Northbound", "HA_Chassis", "chassis_name,priority"),
		south:         y.watchRows(t, "sb1", "monitor", "OVN_Southbound", "HA_Chassis", "priority"),
		binding: y.watchRows(t, "sb1", "monitor-cond", "OVN_Southbound",
			`[["logical_port","==","cr-`+port+`"]]`, "Port_Binding", "chassis"),
		frames: map[string]*sentFrames{},
	}
	mac, err := net.ParseMAC(intent.DeriveMAC(port))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range y.Blueprint.NodeList()[1:] {
		y.CaptureFrames(t, n.Name, "ext-public", unix.ETH_P_ALL, func(frame []byte, own bool) {
			if own && len(frame) > 12 && bytes.Equal(frame[6:12], mac) {
				f.recordFrame(n.Name, time.Now())
			}
		})
	}
	y.waitBFDUp(t)
	y.waitBFDFast(t)
	return f
}

func (f *drainFixture) recordFrame(node string, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.frames[node] == nil {
		f.frames[node] = &sentFrames{first: at}
	}
	f.frames[node].last = at
}

// sentBy returns when a node sent its first and its last frame since the last call of forgetFrames.
func (f *drainFixture) sentBy(node string) sentFrames {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.frames[node] == nil {
		return sentFrames{}
	}
	return *f.frames[node]
}

func (f *drainFixture) forgetFrames() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.frames)
}

// drain is one drain: how long no answer arrived, how long each step took, and how much of it was without answers.
type drain struct {
	gap            time.Duration
	steps, without []time.Duration
	handover       time.Duration            // from the last frame of the old node to the first of the new one
	coreWaits      map[string]time.Duration // how long processes waited for a core while the address moved
}

// coreWaitWindow is how long after a drain began the time is measured that processes wait for a core.
const coreWaitWindow = 300 * time.Millisecond

// measureDrain drains the node that holds the address.
func (f *drainFixture) measureDrain(t *testing.T) (out drain) {
	t.Helper()
	node := f.assignedNode(t, "out")
	p := f.StartProbe(t, "a."+f.namespaces[0])
	p.WaitSteady(t)
	forgotten := time.After(show.ChooseSize(flowIdleTimeout, 0))
	f.forgetFrames()
	waits := harness.ReadCoreWaits(f.Dir)
	sent := time.Now()
	f.setDrained(t, node, true)
	accepted := time.Now()
	<-time.After(time.Until(sent.Add(coreWaitWindow)))
	waited := harness.ReadCoreWaits(f.Dir)
	p.MeasureLongestGap(t, 2*time.Second)
	p.Stop()
	if seen := p.SourceAddresses(); len(seen) != 1 || seen["91.224.11.230"] == 0 {
		t.Errorf("the host outside saw %v", seen)
	}
	now := f.waitMoved(t, "out", node)
	before, frames := f.sentBy(node), f.sentBy(now)
	if before.last.IsZero() || frames.first.IsZero() {
		t.Fatalf("frames of %s: %v; of %s: %v", node, before, now, frames)
	}
	out.handover = frames.first.Sub(before.last)
	out.coreWaits = map[string]time.Duration{}
	role := strings.NewReplacer(" of "+node, " of the old node", " of "+now, " of the new node")
	for process := range waited {
		out.coreWaits[role.Replace(process)] = waited[process] - waits[process]
	}
	answers := p.AnswerTimes()
	begin, end := longestGap(answers, sent)
	out.gap = end.Sub(begin)
	out.steps, out.without = splitTime(sent, []time.Time{
		accepted, f.north.firstAfter(t, sent), f.south.firstAfter(t, sent), f.binding.firstAfter(t, sent), frames.first,
		firstTimeAfter(answers, frames.first), end,
	}, begin, end)
	t.Logf("%s to %s: %s without an answer; %s", node, now, out.gap, out)
	if f.drained != "" {
		f.setDrained(t, f.drained, false)
	}
	f.drained = node
	f.waitBFDUp(t)
	<-forgotten
	return out
}

func (d drain) String() string {
	var texts []string
	for i, step := range drainSteps {
		texts = append(texts, fmt.Sprintf("until %s %.1f ms (%.1f without answers)", step.until,
			harness.Milliseconds(d.steps[i]), harness.Milliseconds(d.without[i])))
	}
	return strings.Join(texts, ", ") + fmt.Sprintf("; waited for a core: %v", d.coreWaits)
}

// setDrained makes a node hand over its addresses, or takes that back, with one request.
func (f *drainFixture) setDrained(t *testing.T, node string, drained bool) {
	t.Helper()
	label := map[bool]string{true: `""`, false: "null"}[drained]
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}},"spec":{"unschedulable":%t}}`, ovnv1.DrainLabel, label, drained)
	if _, err := f.Client.CoreV1().Nodes().Patch(harness.Within(t, harness.Patience), node, types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// reportDrains prints the median and the worst interruption, and the cause of the worst.
func reportDrains(t *testing.T, item *show.Item, drains []drain) {
	t.Helper()
	slices.SortFunc(drains, func(a, b drain) int { return cmp.Compare(a.gap, b.gap) })
	worst, middle := drains[len(drains)-1], drains[len(drains)/2]
	item.AddFigure("nothing came back for %.0f ms (median), %.0f ms (worst of %d)", harness.Milliseconds(middle.gap),
		harness.Milliseconds(worst.gap), len(drains))
	cause, most := 0, time.Duration(-1)
	for i, step := range drainSteps {
		usual := medianOf(drains, func(d drain) time.Duration { return d.steps[i] })
		without := medianOf(drains, func(d drain) time.Duration { return d.without[i] })
		if excess := worst.without[i] - without; excess > most {
			cause, most = i, excess
		}
		item.AddFigure("until %s: %.1f ms (median), of which %.1f without answers; in the worst drain %.1f and %.1f", step.until,
			harness.Milliseconds(usual), harness.Milliseconds(without), harness.Milliseconds(worst.steps[i]),
			harness.Milliseconds(worst.without[i]))
	}
	item.AddFigure("from the last frame of the old node to the first of the new one: %.1f ms (median), %.1f in the worst drain",
		harness.Milliseconds(medianOf(drains, func(d drain) time.Duration { return d.handover })),
		harness.Milliseconds(worst.handover))
	item.AddFigure("the cause of the worst: the time until %s, %.1f ms more of the interruption than usual%s",
		drainSteps[cause].until, harness.Milliseconds(most), formatCoreWaits(drains, worst, drainSteps[cause].processes))
	if worst.gap > maxDrainGap {
		t.Errorf("nothing came back for %s, want at most %s", worst.gap, maxDrainGap)
	}
}

func medianOf(drains []drain, value func(drain) time.Duration) time.Duration {
	var all []time.Duration
	for _, d := range drains {
		all = append(all, value(d))
	}
	return harness.MedianDuration(all)
}

// formatCoreWaits formats how long processes waited for a core in a drain, and their medians.
func formatCoreWaits(drains []drain, of drain, processes []string) (out string) {
	for _, name := range processes {
		usual := medianOf(drains, func(d drain) time.Duration { return d.coreWaits[name] })
		out += fmt.Sprintf("; in its first %s %s waited %.1f ms for a core (median %.1f)", coreWaitWindow, name,
			harness.Milliseconds(of.coreWaits[name]), harness.Milliseconds(usual))
	}
	return out
}

// splitTime splits the time since the start at the ends of steps. It returns how long each step took, and how much of it
// was between begin and end. A step that ended before the previous one takes no time.
func splitTime(start time.Time, ends []time.Time, begin, end time.Time) (steps, within []time.Duration) {
	for _, at := range ends {
		if at.Before(start) {
			at = start
		}
		from, to := start, at
		if from.Before(begin) {
			from = begin
		}
		if to.After(end) {
			to = end
		}
		steps, within = append(steps, at.Sub(start)), append(within, max(to.Sub(from), 0))
		start = at
	}
	return steps, within
}

// longestGap returns the longest time between two answers of which the second is after a moment.
func longestGap(answers []time.Time, after time.Time) (begin, end time.Time) {
	for i := 1; i < len(answers); i++ {
		if answers[i].After(after) && answers[i].Sub(answers[i-1]) > end.Sub(begin) {
			begin, end = answers[i-1], answers[i]
		}
	}
	return begin, end
}

// firstTimeAfter returns the first of some times after a moment.
func firstTimeAfter(all []time.Time, after time.Time) time.Time {
	if i := slices.IndexFunc(all, func(at time.Time) bool { return at.After(after) }); i >= 0 {
		return all[i]
	}
	return after
}

// rowChanges is when rows of a table changed.
type rowChanges struct {
	what string
	mu   sync.Mutex
	at   []time.Time
}

// watchRows records when rows of a table change, until the test ends.
func (y *egressFixture) watchRows(t *testing.T, server, command, database string, args ...string) *rowChanges {
	t.Helper()
	cmd, err := y.Command("", "lab", append([]string{
		y.Parts.Program("ovsdb-client"), "--format=json", "--no-leader-only", command,
		"unix:" + filepath.Join(y.Dir, "data/ovn", server+".sock"), database,
	}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	c := &rowChanges{what: database + " " + strings.Join(args, " ")}
	initial, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for first := true; lines.Scan(); first = false {
			if first {
				close(initial)
			} else if isRowChange(lines.Bytes()) {
				c.record(time.Now())
			}
		}
	}()
	t.Cleanup(func() { endMonitor(cmd); <-ended; _ = cmd.Wait() })
	select {
	case <-initial:
	case <-time.After(harness.Patience):
		t.Fatalf("%s: ovsdb-client reports no rows", c.what)
	}
	return c
}

// endMonitor ends ovsdb-client, which is the child of the program that entered the lab's namespaces.
func endMonitor(cmd *exec.Cmd) {
	pid := cmd.Process.Pid
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, child := range strings.Fields(string(children)) {
		if n, err := strconv.Atoi(child); err == nil {
			_ = unix.Kill(n, unix.SIGTERM)
		}
	}
	_ = cmd.Process.Kill()
}

// isRowChange reports whether a line of ovsdb-client reports a row whose last column has a value. The chassis of a port
// has none between two claims.
func isRowChange(line []byte) bool {
	var report struct{ Data [][]any }
	if err := json.Unmarshal(line, &report); err != nil {
		return false
	}
	return slices.ContainsFunc(report.Data, func(row []any) bool {
		cell := row[len(row)-1]
		empty, _ := json.Marshal(cell)
		return cell != nil && string(empty) != `["set",[]]`
	})
}

func (c *rowChanges) record(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = append(c.at, at)
}

// firstAfter returns when a row changed for the first time after a moment.
func (c *rowChanges) firstAfter(t *testing.T, moment time.Time) time.Time {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	at := firstTimeAfter(c.at, moment)
	if at.Equal(moment) {
		t.Fatalf("%s: no row changed", c.what)
	}
	return at
}

// TestDrainIsSplitIntoSteps checks the calculation with a step that was observed too early and a gap across two steps.
func TestDrainIsSplitIntoSteps(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	begin, end := longestGap([]time.Time{at(-500), at(-5), at(12), at(40), at(45)}, start)
	steps, without := splitTime(start, []time.Time{at(10), at(8), at(30), at(40)}, begin, end)
	want := func(ms ...int) (out []time.Duration) {
		for _, n := range ms {
			out = append(out, time.Duration(n)*time.Millisecond)
		}
		return out
	}
	if !slices.Equal(steps, want(10, 0, 20, 10)) || !slices.Equal(without, want(0, 0, 18, 10)) {
		t.Errorf("gap from %s to %s, steps %v, without answers %v", begin.Sub(start), end.Sub(start), steps, without)
	}
	for line, is := range map[string]bool{
		`{"data":[["a","modify",["uuid","b"]]],"headings":["row","action","chassis"]}`:    true,
		`{"data":[["a","modify",["set",[]]]],"headings":["row","action","chassis"]}`:      false, // released
		`{"data":[["a","old",null],["","new",7]],"headings":["row","action","priority"]}`: true,
	} {
		if isRowChange([]byte(line)) != is {
			t.Errorf("%s is a change: %t", line, !is)
		}
	}
}

// TestCauseOfWorstDrain checks that the cause is the step that grew most within the interruption, not the longest one.
func TestCauseOfWorstDrain(t *testing.T) {
	steps := func(ms ...int) []time.Duration {
		out := make([]time.Duration, len(drainSteps))
		for i, n := range ms {
			out[i] = time.Duration(n) * time.Millisecond
		}
		return out
	}
	usual := drain{
		gap: 20 * time.Millisecond, steps: steps(90, 4, 5, 20, 6), without: steps(0, 0, 0, 15, 5),
		coreWaits: map[string]time.Duration{newController: time.Millisecond},
	}
	worst := drain{
		gap: 50 * time.Millisecond, steps: steps(200, 4, 5, 20, 36), without: steps(0, 0, 0, 15, 35),
		coreWaits: map[string]time.Duration{newController: 9 * time.Millisecond},
	}
	list := show.New("drains", "a drain")
	t.Run("drains", func(t *testing.T) { reportDrains(t, list.Item(t, 1), []drain{worst, usual, usual}) })
	var out strings.Builder
	if !list.Print(&out) {
		t.Error("the report fails")
	}
	harness.ExpectContains(t, out.String(), "20 ms (median), 50 ms (worst of 3)",
		"the cause of the worst: the time until the new node sends its first frame, 30.0 ms more",
		newController+" waited 9.0 ms for a core (median 1.0)")
}
