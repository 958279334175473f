package e2e

import (
	"maps"
	"slices"
	"strings"
	"testing"

	wiring "github.com/sallyport/sallyport/internal/controller"
)

// A metric that nobody lists is as bad as a listed one that nobody serves.
func TestMetricsAreTheListedOnes(t *testing.T) {
	c := sallyport(t)
	c.organization(t, "metrics-org")
	c.project(t, "metrics-org", "a", "10.9.0.0/24", "cloud") // a controller that has done nothing has counted nothing
	served := map[string]bool{}
	for name := range sharedController.counters(t) {
		name, _, _ = strings.Cut(name, "{")
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, part)
		}
		if strings.HasPrefix(name, "sallyport_") {
			served[name] = true
		}
	}
	for _, m := range wiring.Metrics {
		if !served[m.Name] {
			t.Errorf("%s is listed and not served", m.Name)
		}
		delete(served, m.Name)
	}
	if len(served) > 0 {
		t.Errorf("served and not listed: %v", slices.Collect(maps.Keys(served)))
	}
}
