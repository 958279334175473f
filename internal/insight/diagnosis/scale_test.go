package diagnosis_test

import (
	"testing"

	"github.com/sallyport/sallyport/internal/insight/diagnosis"
	"github.com/sallyport/sallyport/internal/model/clusterstate/clusterstatetest"
)

// BenchmarkCheckCluster checks a cluster with a thousand projects, as an interactive command does.
func BenchmarkCheckCluster(b *testing.B) {
	s := clusterstatetest.GenerateCluster(1000)
	for b.Loop() {
		if len(diagnosis.CheckCluster(s)) == 0 || len(diagnosis.PlanInspections(s, diagnosis.InspectionScope{})) == 0 {
			b.Fatal("a cluster with faults has none, or no node is asked")
		}
	}
}
