package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/lab/manifest"
	"github.com/sallyport/sallyport/internal/ovn"
)

// lonely is how long a Service may be without endpoints before it goes by itself, when it asked for that.
const lonely = 2 * time.Second

const controllerProgram = "../../bin/sallyport-controller"

// controller is sallyport-controller, run beside a lab with the rights of the chart's ServiceAccount and no others.
type controller struct {
	args    []string
	log     string
	metrics string // address

	mu      sync.Mutex
	process *exec.Cmd
	ended   chan struct{}
}

var sharedController struct {
	once sync.Once
	*controller
}

func (c *controller) end() {
	if c != nil {
		c.stop(syscall.SIGTERM)
	}
}

// sallyport is the shared lab with Sallyport installed and running.
func sallyport(t *testing.T) *cluster {
	t.Helper()
	c := shared(t)
	sharedController.once.Do(func() {
		c.equip(t)
		sharedController.controller = c.controller(t, os.TempDir())
		sharedController.start(t)
	})
	if sharedController.controller == nil {
		t.Fatal("the shared controller could not be started")
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the controller's log ends with\n%s", sharedController.tail(20))
		}
	})
	return c
}

// equip installs what the controller needs.
func (c *cluster) equip(t *testing.T) {
	t.Helper()
	if err := c.objects.Apply(within(t, time.Minute), readFile(t, "testdata/kubevirt.yaml")); err != nil {
		t.Fatal(err)
	}
	c.install(t)
}

// controller is one that is not started yet. Its log goes to a file in the directory.
func (c *cluster) controller(t *testing.T, dir string, flags ...string) *controller {
	t.Helper()
	north, south := c.database(t, "nb"), c.database(t, "sb")
	kubeconfig := filepath.Join(c.Dir, "controller-kubeconfig")
	if err := os.Rename(c.controllerKubeconfig(t), kubeconfig); err != nil {
		t.Fatal(err)
	}
	metrics := freeAddress(t)
	args := append([]string{
		"--kubeconfig", kubeconfig, "--nb-address", strings.Join(north.Endpoints, ","), "--sb-address", strings.Join(south.Endpoints, ","),
		"--nb-cert", north.CertFile, "--nb-key", north.KeyFile, "--nb-ca", north.CAFile,
		"--leader-elect=false", "--leader-election-namespace=kube-system", "--metrics-address", metrics, "--health-address", "0",
		"--autodelete-after", lonely.String(),
	}, flags...)
	return &controller{args: args, metrics: metrics, log: filepath.Join(dir, c.Name+"-controller.log")}
}

// database is how a database of OVN is reached from outside of the lab: nb or sb.
func (c *cluster) database(t *testing.T, name string) ovn.Config {
	t.Helper()
	status, err := c.Status(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	out := ovn.Config{CertFile: filepath.Join(c.Dir, "pki/ovn.crt"), KeyFile: filepath.Join(c.Dir, "pki/ovn.key"), CAFile: filepath.Join(c.Dir, "pki/ca.crt")}
	for _, d := range status.Doors {
		if strings.HasPrefix(d.Name, name) {
			out.Endpoints = append(out.Endpoints, "ssl:"+d.Outside)
		}
	}
	return out
}

// freeAddress is a loopback address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // it only held the port
	return l.Addr().String()
}

// start starts the controller. It returns at once: what it does shows in the API.
func (c *controller) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close() //nolint:errcheck // the process has its own
	c.mu.Lock()
	defer c.mu.Unlock()
	c.process = exec.Command(controllerProgram, c.args...)
	c.process.Stdout, c.process.Stderr = log, log
	if err := c.process.Start(); err != nil {
		t.Fatalf("%v; run make build", err)
	}
	process, ended := c.process, make(chan struct{})
	c.ended = ended
	go func() { _ = process.Wait(); close(ended) }()
}

// attend starts the controller, and ends it with the test. Of one that has failed, it tells what the controller said last.
func (c *controller) attend(t *testing.T) {
	t.Helper()
	c.start(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the controller's log ends with\n%s", c.tail(20))
		}
		c.stop(syscall.SIGTERM)
	})
}

// stop sends a signal and waits for the end.
func (c *controller) stop(signal syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return
	}
	_ = c.process.Process.Signal(signal)
	<-c.ended
	c.process = nil
}

// counters is the controller's metrics, by name with labels.
func (c *controller) counters(t *testing.T) map[string]float64 {
	t.Helper()
	out, err := c.scrape(within(t, 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// scrape is the same for a controller that may not answer.
func (c *controller) scrape(ctx context.Context) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.metrics+"/metrics", nil)
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

// writes is how often the controller has written to Kubernetes and to OVN.
func (c *controller) writes(t *testing.T) (total float64) {
	t.Helper()
	return written(c.counters(t))
}

func written(counters map[string]float64) (total float64) {
	for name, n := range counters {
		if strings.HasPrefix(name, "sallyport_kubernetes_writes_total") || strings.HasPrefix(name, "sallyport_northbound_transactions_total") {
			total += n
		}
	}
	return total
}

// tail is the end of the log.
func (c *controller) tail(lines int) string {
	raw, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(raw)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// organization makes a namespace for Projects.
func (c *cluster) organization(t *testing.T, name string) {
	t.Helper()
	c.apply(t, fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", name))
}

// project makes a Project and waits until it is in force. It goes with the test. It returns the project's namespace.
func (c *cluster) project(t *testing.T, organization, name, cidr, network string) string {
	t.Helper()
	c.apply(t, fmt.Sprintf(`
apiVersion: kube-dc.com/v1
kind: Project
metadata: {name: %s, namespace: %s}
spec: {cidrBlock: "%s", egressNetworkType: %s}`, name, organization, cidr, network))
	c.programmed(t, "Project", organization, name)
	namespace := organization + "-" + name
	c.wait(t, "ServiceAccount", namespace, "default", manifest.Exists)
	return namespace
}

// programmed waits until an object of ours is in force.
func (c *cluster) programmed(t *testing.T, kind, namespace, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := c.objects.Wait(ctx, ref(kind, namespace, name), manifest.True("Programmed")); err != nil {
		o, _ := c.objects.Get(within(t, time.Minute), ref(kind, namespace, name))
		if o != nil {
			t.Logf("its status: %v", o.Object["status"])
		}
		t.Fatal(err)
	}
}
