package diagnosis_test

import (
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/diagnosis"
	"github.com/sallyport/sallyport/internal/survey/surveytest"
)

// A cluster with a thousand projects is examined while somebody waits.
func TestScale(t *testing.T) {
	s := surveytest.Cluster(1000)
	begin := time.Now()
	found := diagnosis.Examine(s)
	asked := diagnosis.Questions(s, diagnosis.Case{})
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("it took %s", took)
	} else {
		t.Logf("it took %s", took)
	}
	codes := map[string]int{}
	for _, f := range found {
		codes[f.Code]++
	}
	t.Logf("%v; %d nodes asked", codes, len(asked))
}
