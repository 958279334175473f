package scale

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// Changes after which northd computes everything are limited to one in a second, after a burst of five. Slack: northd
// may be busy with one of the burst when the measurement begins, and one may end in the last second.
const (
	recomputeBurst = 5
	recomputeSlack = 2
)

// maxOthersMedian is the median time to the row of another tenant's endpoint change. If it waited like the changes that
// are limited, it would be more than half a second.
var maxOthersMedian = harness.TimeLimit(400 * time.Millisecond)

// measureChurn lets a tenant change the protocol of a Service all the time, and checks how often northd computes
// everything, and that another tenant's endpoint changes do not wait. Control: without the limit, northd does it more
// often.
func (f *serviceFixture) measureChurn(t *testing.T, item *show.Item) {
	t.Helper()
	if err := f.CreateObject(harness.Within(t, harness.Patience), "EIp", f.NamespaceOf(1), "front",
		"externalNetworkType: cloud"); err != nil {
		t.Fatal(err)
	}
	length := show.ChooseSize(20*time.Second, 6*time.Second)
	unlimited, _ := f.churn(t, length)
	f.Controller.Stop(syscall.SIGTERM)
	f.Controller.Args = append(f.Controller.Args, "--northd-recompute-interval=1s")
	f.Controller.Start(t)
	f.WaitIdle(t)
	limited, others := f.churn(t, length)
	most := int(length/time.Second) + recomputeBurst + recomputeSlack
	waited := f.Controller.ReadMetrics(t)["sallyport_northbound_recompute_wait_seconds_total"]
	if limited > most || limited < 2 {
		t.Errorf("a tenant changes a protocol for %s: northd computes everything %d times; wanted 2 to %d", length,
			limited, most)
	}
	if median := harness.MedianDuration(others); median > maxOthersMedian {
		t.Errorf("another tenant's endpoint changes take %s", harness.FormatMedianAndP99(others))
	}
	if waited == 0 {
		t.Error("control: no change has waited")
	}
	if unlimited <= most {
		t.Errorf("control: without the limit, northd computes everything %d times", unlimited)
	}
	item.AddFigure("a tenant who changes a protocol for %s, at %d projects: northd computes everything %d times, "+
		"without the limit %d times; another tenant's endpoint changes meanwhile: row %s", length, f.Size, limited,
		unlimited, harness.FormatMedianAndP99(others))
}

// churn changes the protocol of a Service of the first project as fast as possible, and the endpoint of one of the
// second project at times. It returns how often northd computed everything, and the times to the second's rows.
func (f *serviceFixture) churn(t *testing.T, length time.Duration) (recomputes int, others []time.Duration) {
	t.Helper()
	f.manage(t, f.Objects.Apply, f.protocolManifest(1, "calm", "TCP", "10.0.0.7"))
	f.waitForVIPOf(t, 1, "calm", "10.0.0.7")
	f.WaitIdle(t)
	f.RunTool(t, "ovn-appctl", "-t", f.north.control, "inc-engine/clear-stats")
	ctx, stop := context.WithTimeout(t.Context(), length)
	defer stop()
	var group sync.WaitGroup
	group.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			_ = f.Objects.Apply(ctx, f.protocolManifest(0, "flip", []string{"TCP", "UDP"}[i%2], "10.0.0.9"))
		}
	})
	for i := 0; ctx.Err() == nil; i++ {
		to := "10.0.0." + strconv.Itoa(20+i%100)
		begun := time.Now()
		f.manage(t, f.Objects.Apply, f.protocolManifest(1, "calm", "TCP", to))
		others = append(others, f.waitForVIPOf(t, 1, "calm", to).Sub(begun))
		<-time.After(100 * time.Millisecond)
	}
	group.Wait()
	recomputes = f.north.countRecomputes(t)
	f.manage(t, f.Objects.Delete, f.protocolManifest(0, "flip", "TCP", "10.0.0.9"))
	f.WaitIdle(t)
	slices.Sort(others)
	return recomputes, others
}

// protocolManifest returns a Service with one endpoint and the given protocol.
func (f *serviceFixture) protocolManifest(project int, name, protocol, endpoint string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {namespace: %[1]s, name: %[2]s,
  annotations: {service.nlb.kube-dc.com/bind-on-eip: front}},
  spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false,
    ports: [{name: a, port: 1000, targetPort: 8080, protocol: %[3]s}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {namespace: %[1]s, name: %[2]s,
  labels: {kubernetes.io/service-name: %[2]s}}, addressType: IPv4, ports: [{name: a, port: 8080, protocol: %[3]s}],
  endpoints: [{addresses: [%[4]s], conditions: {ready: true}}]}`, f.NamespaceOf(project), name, protocol, endpoint)
}

// waitForVIPOf waits until the VIP of a Service has a backend, and returns when it did.
func (f *serviceFixture) waitForVIPOf(t *testing.T, project int, name, backend string) time.Time {
	t.Helper()
	at, err := f.watch.WaitUntil(harness.Within(t, harness.Patience), f.NamespaceOf(project)+"/"+name,
		harness.HasBackend(backend))
	if err != nil {
		t.Logf("the controller's counters: %v", f.Controller.ReadMetrics(t))
		t.Fatalf("the VIP of %s has no backend %s: %v\n%s", name, backend, err, f.RunNbctl(t, "--format=list", "--columns=name,vips,external_ids",
			"find", "Load_Balancer", "external_ids:sallyport-vpc="+f.NamespaceOf(project)))
	}
	return at
}

// countRecomputes returns how often northd computed everything since its counters were cleared.
func (n *northd) countRecomputes(t *testing.T) int {
	t.Helper()
	for _, node := range engineNode.FindAllStringSubmatch(n.RunTool(t, "ovn-appctl", "-t", n.control,
		"inc-engine/show-stats"), -1) {
		if node[1] == "northd" {
			count, err := strconv.Atoi(node[2])
			if err != nil {
				t.Fatal(err)
			}
			return count
		}
	}
	t.Fatal("northd does not tell about its node northd")
	return 0
}
