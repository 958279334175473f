package loadbalancer

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sallyport/sallyport/internal/lab/program"
	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// clientTimeout is how long a client waits for an answer. SYNs are sent after zero, one, three and seven seconds.
const clientTimeout = 10 * time.Second

// TestBalancer3Rolling replaces all pods of a Deployment while clients send requests continuously. No request fails.
func TestBalancer3Rolling(t *testing.T) {
	harness.RunQuietly(t)
	item := balancerItems.Item(t, 3)
	h := newBackendProject(t, "rolling", "10.52.0.0/24")
	rounds := show.ChooseSize(5, 1)
	rollDeployment(t, h, 0)
	address := h.CreateService(t, harness.ServiceSpec{
		Name:        "rolling",
		Selector:    "{app: rolling}",
		Annotations: "network.kube-dc.com/external-network-type: public",
	})
	harness.Eventually(t, "the first answer on a network that is new to the router", func() bool {
		_, err := h.SendRequest("internet", "http://"+address)
		return err == nil
	})
	load := startLoad(h, "http://"+address, 4)
	<-time.After(3 * time.Second)
	for n := range rounds {
		rollDeployment(t, h, n+1)
		<-time.After(8 * time.Second) // until the previous pods have ended, with some margin
	}
	r := load()
	item.AddFigure("10 pods replaced %d times under load: %d requests to %d pods, %d failed; %d took more than 0.9 s (a SYN was lost), the slowest %s",
		rounds, r.answered, len(r.names), len(r.failed), r.resentSYNs, r.slowest.Round(time.Millisecond))
	if len(r.failed) > 0 {
		t.Errorf("%d of %d requests failed, the first: %v", len(r.failed), r.answered+len(r.failed), r.failed[0])
	}
	if len(r.names) < 10*(rounds+1) { // control: all pods were replaced and all answered
		t.Errorf("only %d pods were asked, of %d", len(r.names), 10*(rounds+1))
	}
}

// rollDeployment creates ten pods, or replaces them by ten others, and waits until they are ready. A terminating pod
// serves for eight more seconds: when changes follow each other closely, Kubernetes takes some seconds to remove it
// from the EndpointSlices.
func rollDeployment(t *testing.T, h *harness.BackendProject, version int) {
	t.Helper()
	h.Apply(t, fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: rolling, namespace: %s}
spec:
  replicas: 10
  strategy: {rollingUpdate: {maxSurge: 3, maxUnavailable: 0}}
  selector: {matchLabels: {app: rolling}}
  template:
    metadata: {labels: {app: rolling}, annotations: {version: "%d"}}
    spec:
      terminationGracePeriodSeconds: 15
      containers: [{name: main, image: lab/echo, lifecycle: {preStop: {sleep: {seconds: 8}}}}]`, h.Namespace, version))
	h.WaitForObject(t, "Deployment", h.Namespace, "rolling", func(o *unstructured.Unstructured) bool {
		status, _, _ := unstructured.NestedMap(o.Object, "status")
		for _, field := range []string{"replicas", "updatedReplicas", "availableReplicas"} {
			if n, _ := status[field].(int64); n != 10 {
				return false
			}
		}
		seen, _ := status["observedGeneration"].(int64)
		return seen == o.GetGeneration()
	})
}

// loadResult is the outcome of requests.
type loadResult struct {
	answered   int
	names      map[string]bool
	failed     []error
	slowest    time.Duration
	resentSYNs int // requests so slow that a SYN must have been resent
}

// startLoad sends requests from several clients in parallel, each on a new connection, until the returned function is
// called.
func startLoad(h *harness.BackendProject, target string, clients int) func() loadResult {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	var mu sync.Mutex
	total := loadResult{names: map[string]bool{}}
	for range clients {
		all.Go(func() {
			for ctx.Err() == nil {
				a, err := requestWithin(h, target, clientTimeout)
				mu.Lock()
				if err != nil {
					total.failed = append(total.failed, err)
				} else {
					total.answered++
					total.names[a.Name] = true
					total.slowest = max(total.slowest, a.Took)
					if a.Took > 900*time.Millisecond {
						total.resentSYNs++
					}
				}
				mu.Unlock()
				<-time.After(5 * time.Millisecond)
			}
		})
	}
	return func() loadResult {
		cancel()
		all.Wait()
		return total
	}
}

func requestWithin(h *harness.BackendProject, target string, limit time.Duration) (program.Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return program.Ask(ctx, h.NS("internet"), target)
}
