package scale

import (
	"fmt"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// maxChangeExponent is the largest exponent of the cost of a change in the number of Services. The goal is 0.2: a change
// should cost its own size. Until compile works on single objects, it costs the size of its project.
const maxChangeExponent = 1.1

// maxProjectServices is the largest number of Services with one port that a project can have.
const maxProjectServices = 5000

// TestScale4EndpointChange measures what the controller does for one changed endpoint, in Kubernetes' caches and in
// compile, without the northbound database.
func TestScale4EndpointChange(t *testing.T) {
	item := scaleItems.Item(t, 4)
	var sizes []int
	var costs []time.Duration
	for _, size := range show.ChooseSize([]int{10, 100, 1000, maxProjectServices}, []int{10, 100, 1000}) {
		sizes, costs = append(sizes, size), append(costs, measureEndpointChange(t, size))
	}
	var texts []string
	for i, size := range sizes {
		texts = append(texts, fmt.Sprintf("%d Services %.2f ms", size, harness.Milliseconds(costs[i])))
	}
	last := len(sizes) - 1
	exponent := math.Log(costs[last].Seconds()/costs[0].Seconds()) / math.Log(float64(sizes[last])/float64(sizes[0]))
	item.AddFigure("CPU of one changed endpoint in a project, without the northbound database: %s; exponent %.2f",
		strings.Join(texts, ", "), exponent)
	if exponent > maxChangeExponent {
		t.Errorf("the cost grows with exponent %.2f, wanted at most %.2f", exponent, maxChangeExponent)
	}
}

// measureEndpointChange returns the CPU time of a change among some Services.
func measureEndpointChange(t *testing.T, services int) time.Duration {
	t.Helper()
	s := newCostShard(t, services)
	changes := max(5, 2000/services)
	begin := processCPUTime(t)
	for range changes {
		if rows := s.changeEndpoint(t); rows != 1 {
			t.Fatalf("a changed endpoint changes %d rows", rows)
		}
	}
	return (processCPUTime(t) - begin) / time.Duration(changes)
}

// processCPUTime returns the processor time that this process has used.
func processCPUTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkEndpointChange is the same for profiles.
func BenchmarkEndpointChange(b *testing.B) {
	for _, services := range []int{10, 100, 1000, maxProjectServices} {
		b.Run(fmt.Sprint(services), func(b *testing.B) {
			s := newCostShard(b, services)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				s.changeEndpoint(b)
			}
		})
	}
}
