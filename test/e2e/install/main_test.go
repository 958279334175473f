// Package install is the tests of what an operator installs and does, as written: chart, examples, monitoring, procedures.
package install

import (
	"testing"

	"github.com/sallyport/sallyport/test/e2e/harness"
	"github.com/sallyport/sallyport/test/show"
)

// dayItems is the part of the list of `make show-day` that is shown here.
var dayItems = show.New("from day one on", "", "", "", "", "", "", "procedures: a gateway node is drained; a lost database is built again from Kubernetes")

func TestMain(m *testing.M) { harness.Main(m, dayItems) }
