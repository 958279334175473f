package scale

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// maxServiceRatio is how much more a change of a Service may cost northd in the largest cluster than in the smallest.
const maxServiceRatio = 1.5

// serviceChange is a change of a Service: how northd handles it, and what it costs.
type serviceChange struct {
	handling string
	cpu      time.Duration   // of northd, for one
	rows     []time.Duration // from the request to the row
	flows    []time.Duration // from the request to the flows of all nodes
}

// serviceSteps are the changes that are measured, in order.
var serviceSteps = []string{"created", "changed", "deleted"}

// TestScale2Services creates, changes and deletes Services of one project while others exist, and compares that with a
// row for each Service, which Sallyport had before: such a row makes northd compute everything when it is removed.
func TestScale2Services(t *testing.T) {
	item := scaleItems.Item(t, 2)
	f := &serviceFixture{ScaleFixture: harness.NewScaleFixture(t)}
	f.north, f.watch = newNorthd(t, f.ScaleFixture), harness.NewLoadBalancerWatch(t, f.Cluster)
	sizes := show.ChooseSize([]int{50, 500, 1000}, []int{5, 20})
	cost := map[string][]time.Duration{}
	for _, size := range sizes {
		f.GrowTo(t, size)
		f.WaitIdle(t)
		if len(cost) == 0 {
			f.createAddress(t)
		}
		var texts []string
		for step, c := range f.measureServices(t) {
			what := serviceSteps[step]
			cost[what] = append(cost[what], c.cpu)
			texts = append(texts, fmt.Sprintf("%s: %.1f ms of northd's CPU (%s), row %s, flows %s", what,
				harness.Milliseconds(c.cpu), c.handling, harness.FormatMedianAndP99(c.rows),
				harness.FormatMedianAndP99(c.flows)))
			if c.handling != incremental {
				t.Errorf("%d projects: a Service is %s, and northd computes %s", size, what, c.handling)
			}
		}
		item.AddFigure("%d projects, a Service %s", size, strings.Join(texts, "; "))
		item.AddFigure("%d projects, with a row for each Service: %s", size, f.measureRows(t))
	}
	f.measureChurn(t, item)
	for _, what := range serviceSteps {
		first, last := cost[what][0], cost[what][len(sizes)-1]
		item.AddFigure("%s: %d projects cost %.1f times as much as %d", what, sizes[len(sizes)-1],
			float64(last)/float64(max(first, 1)), sizes[0])
		if show.IsFullSize() && float64(last) > maxServiceRatio*float64(first) {
			t.Errorf("a Service is %s: northd needs %s at %d projects and %s at %d", what, last, sizes[len(sizes)-1],
				first, sizes[0])
		}
	}
}

// serviceFixture is a cluster with projects, of which the first gets Services.
type serviceFixture struct {
	*harness.ScaleFixture
	north *northd
	watch *harness.LoadBalancerWatch
}

// createAddress creates the EIp that the Services share, so that only their own changes are measured.
func (f *serviceFixture) createAddress(t *testing.T) {
	t.Helper()
	if err := f.CreateObject(harness.Within(t, harness.Patience), "EIp", f.NamespaceOf(0), "front",
		"externalNetworkType: cloud"); err != nil {
		t.Fatal(err)
	}
	f.manage(t, f.Objects.Apply, f.manifests("first", 999, "10.0.0.7"))
	f.waitForVIP(t, "first", harness.HasBackend("10.0.0.7"))
	f.WaitIdle(t)
}

// manifests returns a Service with one endpoint.
func (f *serviceFixture) manifests(name string, port int, endpoint string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {namespace: %[1]s, name: %[2]s,
  annotations: {service.nlb.kube-dc.com/bind-on-eip: front}},
  spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{port: %[3]d, targetPort: 8080}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {namespace: %[1]s, name: %[2]s,
  labels: {kubernetes.io/service-name: %[2]s}}, addressType: IPv4, ports: [{name: "", port: 8080, protocol: TCP}],
  endpoints: [{addresses: [%[4]s], conditions: {ready: true}}]}`, f.NamespaceOf(0), name, port, endpoint)
}

// waitForVIP waits until a condition holds for the VIP of a Service, and returns when it did.
func (f *serviceFixture) waitForVIP(t *testing.T, name string, holds func(harness.LoadBalancerRow) bool) time.Time {
	t.Helper()
	at, err := f.watch.WaitUntil(harness.Within(t, harness.Patience), f.NamespaceOf(0)+"/"+name, holds)
	if err != nil {
		t.Fatalf("the VIP of %s: %v", name, err)
	}
	return at
}

// measureServices creates, changes and deletes Services, and returns the cost of each step.
func (f *serviceFixture) measureServices(t *testing.T) []serviceChange {
	t.Helper()
	count := show.ChooseSize(20, 5)
	var out []serviceChange
	for step, do := range []func(name string, port int) (begun, row time.Time){
		func(name string, port int) (begun, row time.Time) {
			begun = time.Now()
			f.manage(t, f.Objects.Apply, f.manifests(name, port, "10.0.0.8"))
			return begun, f.waitForVIP(t, name, harness.HasBackend("10.0.0.8"))
		},
		func(name string, port int) (begun, row time.Time) {
			begun = time.Now()
			f.manage(t, f.Objects.Apply, f.manifests(name, port, "10.0.0.9"))
			return begun, f.waitForVIP(t, name, harness.HasBackend("10.0.0.9"))
		},
		func(name string, port int) (begun, row time.Time) {
			begun = time.Now()
			f.manage(t, f.Objects.Delete, f.manifests(name, port, "10.0.0.9"))
			return begun, f.waitForVIP(t, name, harness.HasNoVIP)
		},
	} {
		var c serviceChange
		c.handling, c.cpu = f.north.measureAction(t, func() {
			for i := range count {
				begun, row := do(fmt.Sprintf("s%d", i), 2000+i)
				f.RunNbctl(t, "--wait=hv", "sync")
				c.rows, c.flows = append(c.rows, row.Sub(begun)), append(c.flows, time.Since(begun))
			}
			f.WaitIdle(t) // also Kube-OVN is done with the Services
		})
		c.cpu /= time.Duration(count)
		slices.Sort(c.rows)
		slices.Sort(c.flows)
		out = append(out, c)
		t.Logf("%d projects, Services %s: %+v", f.Size, serviceSteps[step], c)
	}
	return out
}

func (f *serviceFixture) manage(t *testing.T, do func(context.Context, string) error, text string) {
	t.Helper()
	if err := do(harness.Within(t, harness.Patience), text); err != nil {
		t.Fatal(err)
	}
}

// measureRows does the same by hand with a load balancer for each Service, while the controller is stopped.
func (f *serviceFixture) measureRows(t *testing.T) string {
	t.Helper()
	f.Controller.Stop(syscall.SIGTERM)
	defer func() {
		f.Controller.Start(t)
		f.WaitIdle(t)
	}()
	router := f.NamespaceOf(0)
	var texts []string
	for i, command := range []string{
		"-- lb-add one 192.0.2.9:80 10.0.0.8:8080 -- lr-lb-add R one -- ls-lb-add R-default one",
		`set load_balancer one vips:"192.0.2.9:80"="10.0.0.9:8080"`,
		"lb-del one",
	} {
		handling, cpu := f.north.measureChange(t, strings.Fields(strings.ReplaceAll(command, "R", router)))
		texts = append(texts, fmt.Sprintf("%s %d ms (%s)", serviceSteps[i], cpu.Milliseconds(), handling))
		if want := []string{incremental, incremental, full}[i]; handling != want {
			t.Errorf("control: with a row for each Service, northd computes %s when it is %s", handling, serviceSteps[i])
		}
	}
	return strings.Join(texts, ", ")
}
