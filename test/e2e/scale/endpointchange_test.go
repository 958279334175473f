package scale

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// maxChangeExponent is the largest exponent of the cost of a changed endpoint in the number of Services of its project.
const maxChangeExponent = 0.2

// maxProjectServices is the largest number of Services with one port that a project can have.
const maxProjectServices = 5000

// TestScale4EndpointChange measures what the controller does for one changed endpoint, in Kubernetes' caches and in
// compile, without the northbound database, and what it does for a change that concerns the whole project.
func TestScale4EndpointChange(t *testing.T) {
	item := scaleItems.Item(t, 4)
	var sizes []int
	var changes, wholes []time.Duration
	for _, size := range show.ChooseSize([]int{10, 100, 1000, maxProjectServices}, []int{10, 100, 1000}) {
		change, whole := measureEndpointChange(t, size)
		sizes, changes, wholes = append(sizes, size), append(changes, change), append(wholes, whole)
	}
	exponent := growthExponent(sizes, changes)
	item.AddFigure("CPU of one changed endpoint in a project, without the northbound database: %s; exponent %.2f",
		formatCosts(sizes, changes), exponent)
	item.AddFigure("CPU of a change that concerns its whole project: %s; exponent %.2f", formatCosts(sizes, wholes),
		growthExponent(sizes, wholes))
	// in CI other tests' goroutines use the processor too; a run of the whole project has an exponent of 1
	if limit := show.ChooseSize(maxChangeExponent, 2*maxChangeExponent); exponent > limit {
		t.Errorf("the cost grows with exponent %.2f, wanted at most %.2f", exponent, limit)
	}
}

// growthExponent returns the exponent with which costs grow from the first size to the last.
func growthExponent(sizes []int, costs []time.Duration) float64 {
	last := len(sizes) - 1
	return math.Log(costs[last].Seconds()/costs[0].Seconds()) / math.Log(float64(sizes[last])/float64(sizes[0]))
}

func formatCosts(sizes []int, costs []time.Duration) string {
	var texts []string
	for i, size := range sizes {
		texts = append(texts, fmt.Sprintf("%d Services %.2f ms", size, harness.Milliseconds(costs[i])))
	}
	return strings.Join(texts, ", ")
}

// measureEndpointChange returns the CPU time of a changed endpoint among some Services, and that of a run of the whole
// project.
func measureEndpointChange(t *testing.T, services int) (change, whole time.Duration) {
	t.Helper()
	s := newCostShard(t, services)
	change = measureCPUTime(t, 3000, func() {
		if rows := s.changeEndpoint(t); rows != 1 {
			t.Fatalf("a changed endpoint changes %d rows", rows)
		}
	})
	if err := s.memo.Check(); err != nil {
		t.Error(err)
	}
	return change, measureCPUTime(t, max(3, 1000/services), func() { s.compile(t) })
}

// measureCPUTime returns the processor time that a function needs on average.
func measureCPUTime(t *testing.T, times int, do func()) time.Duration {
	t.Helper()
	runtime.GC() // of what was made before
	begin := processCPUTime(t)
	for range times {
		do()
	}
	return (processCPUTime(t) - begin) / time.Duration(times)
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
