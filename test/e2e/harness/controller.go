package harness

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/engine/ovn"
	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/lab/proc"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// AutodeleteAfter is how long a Service with autodelete may be without endpoints before the controller deletes it.
const AutodeleteAfter = 2 * time.Second

const controllerProgram = "../../../bin/sallyport-controller"

// Controller is sallyport-controller, run next to a lab with only the permissions of the chart's ServiceAccount.
type Controller struct {
	Args           []string
	Program        string // of another version; empty: as built here
	logFile        string
	MetricsAddress string

	mu      sync.Mutex
	Process *exec.Cmd
	Exited  chan struct{}
}

// SharedController is the controller of the shared lab.
var SharedController struct {
	once sync.Once
	*Controller
}

// StopIfStarted stops the controller if it was started.
func (c *Controller) StopIfStarted() {
	if c != nil {
		c.Stop(syscall.SIGTERM)
	}
}

// SharedSallyport returns the shared lab with Sallyport installed and running.
func SharedSallyport(t *testing.T) *Cluster {
	t.Helper()
	c := SharedLab(t)
	SharedController.once.Do(func() {
		c.InstallSallyport(t)
		SharedController.Controller = c.NewController(t, os.TempDir())
		SharedController.Start(t)
	})
	if SharedController.Controller == nil {
		t.Fatal("the shared controller could not be started")
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the controller's log ends with\n%s", SharedController.LogTail(20))
		}
	})
	return c
}

// InstallSallyport installs KubeVirt's CRD and the chart.
func (c *Cluster) InstallSallyport(t *testing.T) {
	t.Helper()
	if err := c.Objects.Apply(Within(t, Patience), ReadFile(t, "../testdata/kubevirt.yaml")); err != nil {
		t.Fatal(err)
	}
	c.ApplyChart(t)
}

// NewController returns a controller that is not started yet. Its log is written to a file in the directory.
func (c *Cluster) NewController(t *testing.T, dir string, flags ...string) *Controller {
	t.Helper()
	north, south := c.DatabaseConfig(t, "nb"), c.DatabaseConfig(t, "sb")
	kubeconfig := filepath.Join(c.Dir, "controller-kubeconfig")
	if err := os.Rename(c.ControllerKubeconfig(t), kubeconfig); err != nil {
		t.Fatal(err)
	}
	if !machineIsQuiet() {
		c.allowPauses(t)
	}
	metrics := FreeAddress(t)
	args := append([]string{
		"--kubeconfig", kubeconfig, "--nb-address", strings.Join(north.Endpoints, ","), "--sb-address",
		strings.Join(south.Endpoints, ","),
		"--nb-cert", north.CertFile, "--nb-key", north.KeyFile, "--nb-ca", north.CAFile,
		"--leader-elect=false", "--leader-election-namespace=kube-system", "--metrics-address", metrics,
		"--health-address", "0",
		"--autodelete-after", AutodeleteAfter.String(),
	}, flags...)
	return &Controller{Args: args, MetricsAddress: metrics, logFile: filepath.Join(dir, c.Name+"-controller.log")}
}

// allowPauses sets OVN's BFD timers as an operator can, and the controller leaves them so. A busy machine can stop a switch
// for longer than three of the controller's own intervals, and all gateways move as if its node had died.
func (c *Cluster) allowPauses(t *testing.T) {
	t.Helper()
	c.RunNbctl(t, "set", "NB_Global", ".", "options:bfd-min-rx=2000", "options:bfd-min-tx=2000", "options:bfd-mult=3")
}

// DatabaseConfig returns the configuration for connecting to an OVN database, nb or sb, from outside the lab.
func (c *Cluster) DatabaseConfig(t *testing.T, name string) ovn.Config {
	t.Helper()
	status, err := c.Status(Within(t, Patience))
	if err != nil {
		t.Fatal(err)
	}
	out := ovn.Config{
		CertFile: filepath.Join(c.Dir, "pki/ovn.crt"),
		KeyFile:  filepath.Join(c.Dir, "pki/ovn.key"),
		CAFile:   filepath.Join(c.Dir, "pki/ca.crt"),
	}
	for _, forward := range status.Doors {
		if strings.HasPrefix(forward.Name, name) {
			out.Endpoints = append(out.Endpoints, "ssl:"+forward.Outside)
		}
	}
	return out
}

// FreeAddress returns an unused loopback address and port.
func FreeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // it only reserved the port
	return l.Addr().String()
}

// Start starts the controller and returns immediately.
func (c *Controller) Start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(c.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close() //nolint:errcheck // the process has its own descriptor
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Process = exec.Command(cmp.Or(c.Program, controllerProgram), c.Args...)
	c.Process.Stdout, c.Process.Stderr = log, log
	if err := c.Process.Start(); err != nil {
		t.Fatalf("%v; run make build", err)
	}
	process, ended := c.Process, make(chan struct{})
	c.Exited = ended
	go func() { _ = process.Wait(); close(ended) }()
}

// StartIfStopped starts the controller unless it runs.
func (c *Controller) StartIfStopped(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	stopped := c.Process == nil
	c.mu.Unlock()
	if stopped {
		c.Start(t)
	}
}

// StartForTest starts the controller and stops it at the end of the test. If the test failed, it logs the end of the
// controller's log.
func (c *Controller) StartForTest(t *testing.T) {
	t.Helper()
	c.Start(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the controller's log ends with\n%s", c.LogTail(20))
		}
		c.Stop(syscall.SIGTERM)
	})
}

// Stop sends a signal and waits until the controller has exited.
func (c *Controller) Stop(signal syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Process == nil {
		return
	}
	_ = c.Process.Process.Signal(signal)
	<-c.Exited
	c.Process = nil
}

// Signal sends a signal to the controller.
func (c *Controller) Signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.Process.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// Pause stops the controller with SIGSTOP, and returns when none of its threads runs any more: on a busy machine it may
// go on for a tenth of a second. It continues at the end of the test, or when resume is called.
func (c *Controller) Pause(t *testing.T) (resume func()) {
	t.Helper()
	c.Signal(t, syscall.SIGSTOP)
	resume = sync.OnceFunc(func() { c.Signal(t, syscall.SIGCONT) })
	t.Cleanup(resume)
	c.mu.Lock()
	pid := c.Process.Process.Pid
	c.mu.Unlock()
	Eventually(t, "the controller is stopped", func() bool {
		stopped, err := proc.IsStopped(pid)
		if err != nil {
			t.Fatal(err)
		}
		return stopped
	})
	return resume
}

// ReadMetrics returns the controller's metrics by name with labels. It fails the test on errors.
func (c *Controller) ReadMetrics(t *testing.T) map[string]float64 {
	t.Helper()
	out, err := c.ScrapeMetrics(Within(t, Patience))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// ScrapeMetrics returns the controller's metrics by name with labels, for a controller that may not answer.
func (c *Controller) ScrapeMetrics(ctx context.Context) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.MetricsAddress+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // read to the end
	out := map[string]float64{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		name, value, found := strings.Cut(lines.Text(), " ")
		if number, err := strconv.ParseFloat(value, 64); found && err == nil && !strings.HasPrefix(name, "#") {
			out[name] = number
		}
	}
	return out, nil
}

// CountWrites returns how often the controller has written to Kubernetes and OVN.
func (c *Controller) CountWrites(t *testing.T) (total float64) {
	t.Helper()
	return SumWrites(c.ReadMetrics(t))
}

// SumWrites returns the sum of the counters of writes to Kubernetes and OVN.
func SumWrites(counters map[string]float64) (total float64) {
	for name, n := range counters {
		if strings.HasPrefix(name, "sallyport_kubernetes_writes_total") ||
			strings.HasPrefix(name, "sallyport_northbound_transactions_total") {
			total += n
		}
	}
	return total
}

// LogTail returns the last lines of the log.
func (c *Controller) LogTail(lines int) string { return tailFile(c.logFile, lines, "") }

// GrepProcessLog returns the last lines with a word in the log of a process of the lab.
func (c *Cluster) GrepProcessLog(process, word string, lines int) string {
	return tailFile(c.Log(process), lines, word)
}

// tailFile returns the last lines of a file that contain a word.
func tailFile(path string, lines int, word string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(raw)), "\n"),
		func(line string) bool { return !strings.Contains(line, word) })
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// CreateOrganization creates a namespace for Projects.
func (c *Cluster) CreateOrganization(t *testing.T, name string) {
	t.Helper()
	c.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", name))
}

// CreateProject creates a Project, waits until it is Programmed and returns its namespace. The Project is deleted at
// the end of the test.
func (c *Cluster) CreateProject(t *testing.T, organization, name, cidr, network string) string {
	t.Helper()
	c.Apply(t, fmt.Sprintf(`
apiVersion: kube-dc.com/v1
kind: Project
metadata: {name: %s, namespace: %s}
spec: {cidrBlock: "%s", egressNetworkType: %s}`, name, organization, cidr, network))
	c.WaitProgrammed(t, "Project", organization, name)
	namespace := organization + "-" + name
	c.WaitForObject(t, "ServiceAccount", namespace, "default", manifest.Exists)
	// the admission policy refuses pods before that
	c.WaitForObject(t, "Namespace", "", namespace, belongsToSubnet(ownership.VPCSubnetName(namespace)))
	if c.Blueprint.Gateways > 1 && c.Blueprint.RealNodes == 0 {
		c.settled.Do(func() { c.WaitGatewaysSettled(t) })
	}
	return namespace
}

// WaitProgrammed waits until an object is Programmed.
func (c *Cluster) WaitProgrammed(t *testing.T, kind, namespace, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if err := c.Objects.Wait(ctx, ObjectRef(kind, namespace, name), manifest.True("Programmed")); err != nil {
		o, _ := c.Objects.Get(Within(t, Patience), ObjectRef(kind, namespace, name))
		if o != nil {
			t.Logf("its status: %v", o.Object["status"])
		}
		t.Fatal(err)
	}
}
