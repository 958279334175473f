package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/insight/selftest/peer"
	"github.com/sallyport/sallyport/internal/model/ownership"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// selftestFixture is a lab with Sallyport, in which `sallyport check --run` is run.
type selftestFixture struct {
	*harness.Cluster
	controller *harness.Controller
}

// TestDay3Selftest tests a healthy installation with packets, and some with a fault. It interrupts and kills runs at random
// moments. Nothing is left.
func TestDay3Selftest(t *testing.T) {
	item := dayItems.Item(t, 3)
	f := newSelftestFixture(t)
	before := f.listSettledObjects(t)

	begun := time.Now()
	results, code := f.runCheck(t, "--run", "--outside-command", f.outsideCommand(t))
	took := time.Since(begun)
	passed := f.expectHealthy(t, results, code)
	f.expectNothingLeft(t, "a healthy run", before)
	item.AddFigure("check --run: %d checks ok in %.0f s, by packets on %d networks, from inside and outside", passed, took.Seconds(),
		len(harness.NetworkTypes))

	item.AddFigure("faults that are named: %s", f.checkSelftestFaults(t))
	f.expectNothingLeft(t, "runs with a fault", before)

	runs := show.ChooseSize(20, 2)
	f.checkInterruptedRuns(t, runs, took, before)
	item.AddFigure("%d runs interrupted or killed at random moments: nothing left", runs)
}

// newSelftestFixture starts a lab whose pods find sallyport-agent in PATH, as they do in the image.
func newSelftestFixture(t *testing.T) *selftestFixture {
	t.Helper()
	t.Setenv("PATH", binDir(t)+":"+os.Getenv("PATH"))
	b := harness.LoadTopology(t, "shared.yaml")
	b.Networks = b.Networks[:len(harness.NetworkTypes)] // Kube-OVN does not support the last one
	c := harness.StartLab(t, "selftest", b)
	c.InstallSallyport(t)
	f := &selftestFixture{Cluster: c, controller: c.NewController(t, t.TempDir())}
	f.controller.StartForTest(t)
	c.SetEgressAssignable(t, "node3", true)
	return f
}

// outsideCommand returns a command that requests a URL from the internet.
func (f *selftestFixture) outsideCommand(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("%s/sallyport lab exec --lab %s internet -- curl -s --max-time 5", binDir(t), f.Name)
}

// checkResult is one line of the report.
type checkResult struct{ Check, State, Code, Seen, Next string }

// runCheck runs sallyport check and returns its report and exit code.
func (f *selftestFixture) runCheck(t *testing.T, args ...string) (results []checkResult, code int) {
	t.Helper()
	cmd := newCommand(harness.Within(t, 8*time.Minute), t, f.Cluster, append([]string{"check", "-o", "json"}, args...)...)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	var report struct{ Checks []checkResult }
	if json.Unmarshal(out, &report) != nil {
		t.Fatalf("sallyport check %s: %v\n%s%s", strings.Join(args, " "), err, out, problems.String())
	}
	return report.Checks, cmd.ProcessState.ExitCode()
}

// expectHealthy checks that every check of a run was done and is ok, on every network.
func (f *selftestFixture) expectHealthy(t *testing.T, results []checkResult, code int) (passed int) {
	t.Helper()
	seen := map[string]bool{}
	for _, r := range results {
		if r.State != "ok" {
			t.Errorf("a healthy cluster: %+v", r)
		}
		seen[r.Check] = true
	}
	for _, network := range harness.NetworkTypes {
		for _, check := range []string{"FIp", "Service", "default egress", "FIp from outside", "Service from outside"} {
			if !seen[network+": "+check] {
				t.Errorf("%s of network %s was not checked", check, network)
			}
		}
	}
	if code != 0 || !seen["EgressIP"] || !seen["Removal"] {
		t.Errorf("exit code %d: %+v", code, results)
	}
	return len(results)
}

// selftestFault is a fault, and how and by which check it is reported.
type selftestFault struct {
	what         string
	code, check  string
	seen         string // part of the text
	make, mended func(t *testing.T)
}

// checkSelftestFaults makes one fault at a time, and returns which. In CI it is the one that only packets show: a run waits
// for minutes for what an empty pool or a dead controller does not do.
func (f *selftestFixture) checkSelftestFaults(t *testing.T) string {
	t.Helper()
	faults := []selftestFault{
		{
			what: "an empty pool", code: "PoolExhausted", check: "tiny: ", seen: "no address is left",
			make:   func(t *testing.T) { harness.CreateTinySubnet("ext-tiny", "tiny", "198.19.8")(t, f.Cluster) },
			mended: func(t *testing.T) { kubectl(t, f.Cluster, "delete", "subnet", "ext-tiny") },
		},
		{
			what: "a dead controller", code: "NoStatus", check: "Projects",
			make:   func(*testing.T) { f.controller.Stop(syscall.SIGKILL) },
			mended: func(t *testing.T) { f.controller.Start(t) },
		},
		{
			what: "a foreign ACL that drops packets", code: "NoAnswer", check: "third: FIp",
			make: func(t *testing.T) {
				f.RunNbctl(t, "acl-add", "ext-third", "from-lport", "32000", fmt.Sprintf("tcp.dst == %d", peer.ServerPort), "drop")
			},
			mended: func(t *testing.T) { f.RunNbctl(t, "acl-del", "ext-third") },
		},
	}
	var names []string
	for _, fault := range faults[show.ChooseSize(0, len(faults)-1):] {
		names = append(names, fault.what)
		fault.make(t)
		results, code := f.runCheck(t, "--run", "--timeout", "2m")
		fault.mended(t)
		isNamed := slices.ContainsFunc(results, func(r checkResult) bool {
			return r.Code == fault.code && strings.HasPrefix(r.Check, fault.check) && strings.Contains(r.Seen, fault.seen) && r.Next != ""
		})
		if !isNamed || code != 2 {
			t.Errorf("%s is not named, exit code %d: %+v", fault.code, code, results)
		}
	}
	return strings.Join(names, ", ")
}

// checkInterruptedRuns ends runs at random moments: by an interrupt, after which they remove everything themselves, or by
// SIGKILL, after which check --clean does.
func (f *selftestFixture) checkInterruptedRuns(t *testing.T, runs int, took time.Duration, before []string) {
	t.Helper()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	for i := range runs {
		after := time.Duration(random.Int64N(int64(took)))
		signal := []os.Signal{os.Interrupt, os.Kill}[i%2]
		cmd := newCommand(harness.Within(t, 5*time.Minute), t, f.Cluster, "check", "--run")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case <-time.After(after):
			_ = cmd.Process.Signal(signal) // fails if it has just ended
			<-ended
		case <-ended:
		}
		what := fmt.Sprintf("run %d, %s after %s", i, signal, after.Round(time.Millisecond))
		if signal == os.Kill {
			if results, code := f.runCheck(t, "--clean"); code != 0 {
				t.Errorf("%s: check --clean exits with %d: %+v", what, code, results)
			}
		}
		f.expectNothingLeft(t, what+"\n"+out.String(), before)
	}
}

// listObjects returns everything that a run makes, directly or not: objects of Kubernetes and Kube-OVN, and rows of OVN.
func (f *selftestFixture) listObjects(t *testing.T) []string {
	t.Helper()
	out := kubectl(t, f.Cluster, "get", "-A", "-o", "name",
		"namespaces,projects,eips,fips,egressips,vpcs,subnets,ovn-eips,ovn-fips,ovn-snat-rules,network-attachment-definitions,pods,services,endpointslices")
	for _, table := range []string{"Logical_Router", "Logical_Switch", "Load_Balancer", "Address_Set", "Port_Group", "HA_Chassis_Group"} {
		out += "\n" + f.RunNbctl(t, "--bare", "--columns=name", "list", table)
	}
	lines := strings.Fields(out)
	slices.Sort(lines)
	return lines
}

// listSettledObjects returns the objects when none has come for a while: the controllers have just been started.
func (f *selftestFixture) listSettledObjects(t *testing.T) (list []string) {
	t.Helper()
	since := time.Now()
	harness.Eventually(t, "no new objects for 10 s", func() bool {
		now := f.listObjects(t)
		if !slices.Equal(now, list) {
			list, since = now, time.Now()
		}
		return time.Since(since) > 10*time.Second
	})
	return list
}

// expectNothingLeft fails the test if there are other objects than before. Rows follow objects.
func (f *selftestFixture) expectNothingLeft(t *testing.T, what string, before []string) {
	t.Helper()
	if list := kubectl(t, f.Cluster, "get", "namespaces,projects,egressips", "-A", "-o", "name"); strings.Contains(list, ownership.CheckPrefix) {
		t.Errorf("%s: left\n%s", what, list)
	}
	var left []string
	harness.Eventually(t, "nothing left after "+what, func() bool {
		left = slices.DeleteFunc(f.listObjects(t), func(line string) bool { return slices.Contains(before, line) })
		return len(left) == 0
	})
	if len(left) > 0 {
		t.Logf("left: %v", left)
	}
}
