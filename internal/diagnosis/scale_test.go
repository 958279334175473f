package diagnosis_test

import (
	"testing"

	"github.com/sallyport/sallyport/internal/diagnosis"
	"github.com/sallyport/sallyport/internal/survey/surveytest"
)

// BenchmarkExamine is a cluster with a thousand projects, while somebody waits.
func BenchmarkExamine(b *testing.B) {
	s := surveytest.Cluster(1000)
	for b.Loop() {
		if len(diagnosis.Examine(s)) == 0 || len(diagnosis.Questions(s, diagnosis.Case{})) == 0 {
			b.Fatal("a cluster with faults has none, or no node is asked")
		}
	}
}
