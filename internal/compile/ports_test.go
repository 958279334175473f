package compile

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// manyPortsFixture returns a project with Services on EIps of their own, each with the given number of ports, and three
// pods behind each.
func manyPortsFixture(ports ...int) *snapshot.VpcInput {
	w := randomWorld(&fuzzInput{})
	w.Namespace.Exists, w.Namespace.Owned = true, true
	w.ExternalSubnets[0].Free = 100
	w.Engine.RouterPorts = map[string]bool{}
	w.EIps, w.Services = nil, nil
	for i, n := range ports {
		s := snapshot.Service{
			Meta: snapshot.Meta{
				Namespace: testShard,
				Name:      fmt.Sprintf("s%d", i),
				UID:       fmt.Sprintf("s%d", i),
				Created:   time.Unix(int64(i), 0),
			},
			IsLoadBalancer: true, Class: kubedcv1.LoadBalancerClass,
		}
		for p := range n {
			name := fmt.Sprintf("p%d", p)
			s.Ports = append(s.Ports, snapshot.Port{Name: name, Protocol: intent.TCP, Number: 1 + p})
			for pod := range 3 {
				s.Endpoints = append(s.Endpoints, snapshot.Endpoint{
					Address: podIP(byte(10 + pod)), PortName: name, Number: 1 + p, Ready: true, Serving: true,
				})
			}
		}
		w.Services = append(w.Services, s)
	}
	return w
}

// countBalancedPorts returns the number of balanced ports of each Service, and the finding on it.
func countBalancedPorts(t *testing.T, w *snapshot.VpcInput) (ports []int, reasons []string) {
	t.Helper()
	in, verdicts := Simulate(*w)
	for i := range w.Services {
		n := 0
		for _, entry := range in.Rows {
			if _, is := entry.Value.(intent.VIP); is && entry.Origin.Name == w.Services[i].Name {
				n++
			}
		}
		ports = append(ports, n)
		for _, v := range verdicts {
			if v.Object.Kind == intent.Service && v.Object.Name == w.Services[i].Name {
				reasons = append(reasons, cmp.Or(v.Accepted.Reason, v.Waiting.Reason))
			}
		}
	}
	return ports, reasons
}

// A Service, and all Services of a namespace together, have a limited number of ports (L10). Ports within the limit
// work, those of older Services first.
func TestPortsAreLimited(t *testing.T) {
	for _, c := range []struct {
		asked, had []int
		reasons    []string
	}{
		{[]int{3}, []int{3}, []string{""}},
		{[]int{maxServicePorts}, []int{maxServicePorts}, []string{""}},
		{[]int{4000, 3}, []int{maxServicePorts, 3}, []string{intent.TooManyPorts, ""}},
		{
			[]int{1000, 1000, 1000, 1000, 900, 500, 1},
			[]int{1000, 1000, 1000, 1000, 900, 100, 0},
			[]string{"", "", "", "", "", intent.TooManyPorts, intent.NoPortsLeft},
		},
	} {
		had, reasons := countBalancedPorts(t, manyPortsFixture(c.asked...))
		if !slices.Equal(had, c.had) || !slices.Equal(reasons, c.reasons) {
			t.Errorf("%v: %v have them, and it is said %q", c.asked, had, reasons)
		}
	}
}

// Each namespace of a VPC has its own limit: in the management VPC, one can't take the ports of the others.
func TestPortsAreLimitedByNamespace(t *testing.T) {
	c := &compiler{}
	for _, namespace := range []string{"evil", "evil", "evil", "evil", "evil", "evil", "victim"} {
		s := &service{Service: snapshot.Service{Meta: snapshot.Meta{Namespace: namespace}}}
		s.Ports = make([]snapshot.Port, maxServicePorts)
		c.services = append(c.services, s)
	}
	c.limitPorts()
	if evil, victim := len(c.services[5].Ports), len(c.services[6].Ports); evil != 0 || victim != maxServicePorts {
		t.Errorf("the sixth of one namespace has %d ports, the first of another %d", evil, victim)
	}
}

// A run with the maximum for one namespace takes a fraction of a second.
func BenchmarkManyPorts(b *testing.B) {
	w := manyPortsFixture(1000, 1000, 1000, 1000, 1000)
	b.ResetTimer()
	for range b.N {
		Simulate(*w)
	}
}
